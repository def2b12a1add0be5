//! Deals that wait for their verdict, on a market that counts and on the same one that does not.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use skep_base::{Asset, Money, ed25519::SecretKey, hash::sha256, id::TransferId};
use skep_market::{Market, Signed};
use skep_store::Store;
use skep_testkit::postgres::TempPostgres;
use skep_wire::{
    settle::{EscrowStatus, Outcome, ResponseStatus, VerificationCallback},
    wallet::Faucet,
};
use tokio::task::JoinSet;

use crate::{
    client::now,
    stage::{self, Actor, Looker, entropy},
};

/// Pairs that settle at the same time.
const PAIRS: usize = 16;
/// Deals of each pair in one round.
const DEALS_EACH: usize = 4;
const ROUND: usize = PAIRS * DEALS_EACH;

/// What rounds of settlements took.
#[derive(Clone, Debug, Default)]
pub struct Took {
    rounds: Vec<Round>,
}

#[derive(Clone, Copy, Debug)]
struct Round {
    time: Duration,
    /// Of this process and its database.
    cpu_seconds: f64,
}

impl Round {
    fn seconds(&self, cost: Cost) -> f64 {
        match cost {
            Cost::Time => self.time.as_secs_f64(),
            Cost::Cpu => self.cpu_seconds,
        }
    }
}

/// What is measured of a round.
#[derive(Clone, Copy, Debug)]
pub enum Cost {
    Time,
    Cpu,
}

/// The mean of the middle half: a disk that is busy elsewhere for a moment is nobody's cost.
fn usual(rounds: impl Iterator<Item = f64>) -> f64 {
    let mut rounds: Vec<f64> = rounds.collect();
    rounds.sort_unstable_by(f64::total_cmp);
    let quarter = rounds.len() / 4;
    let middle = &rounds[quarter..rounds.len() - quarter];
    middle.iter().sum::<f64>() / middle.len() as f64
}

impl Took {
    /// Settlements for each second of it, in a usual round.
    pub fn rate(&self, cost: Cost) -> f64 {
        ROUND as f64 / usual(self.rounds.iter().map(|round| round.seconds(cost)))
    }

    /// How many settlements there are for each one of `peer`'s, each round against the one beside
    /// it: between the first and the last the machine's speed may have changed by half.
    pub fn against(&self, peer: &Took, cost: Cost) -> f64 {
        let pairs = self.rounds.iter().zip(&peer.rounds);
        usual(pairs.map(|(ours, theirs)| (theirs.seconds(cost) / ours.seconds(cost)).ln())).exp()
    }

    fn time(&self) -> Duration {
        self.rounds.iter().map(|round| round.time).sum()
    }
}

pub struct Town {
    counts: Market,
    bare: Market,
    pairs: Vec<Arc<Pair>>,
    /// The database's server, if it has one.
    server: Option<Arc<TempPostgres>>,
}

struct Pair {
    requester: Actor,
    provider: Actor,
    looker: Arc<Looker>,
}

impl Town {
    pub async fn new(store: Store, server: Option<Arc<TempPostgres>>) -> Result<Town> {
        let looker = Arc::new(Looker::new("")?);
        let market = Market::new(store, SecretKey::from_seed(entropy()?), true);
        let market = market.with_accredited([looker.id()]);
        register(&market, &looker.actor).await?;
        market.register_verifier(&signed(&looker.actor)?, looker.offers(&["artifact"])).await?;
        let mut pairs = Vec::new();
        for _ in 0..PAIRS {
            let (requester, provider) = (Actor::new("")?, Actor::new("")?);
            register(&market, &requester).await?;
            register(&market, &provider).await?;
            let money = Money::parse_decimal("1000000", Asset::USDC)?;
            let id: TransferId = skep_sdk::Client::new_id()?;
            let faucet = Faucet { id, money, to: None };
            market.faucet(&signed(&requester)?, faucet).await?;
            pairs.push(Arc::new(Pair { requester, provider, looker: looker.clone() }));
        }
        Ok(Town { bare: market.clone().without_scores(), counts: market, pairs, server })
    }

    /// Of this process and of the server's.
    fn cpu_seconds(&self) -> f64 {
        let server = self.server.iter().flat_map(|server| server.processes());
        let all = server.chain(["self".to_owned()]);
        // One that has ended meanwhile took nothing worth counting.
        all.filter_map(|process| cpu_seconds_of(&process)).sum()
    }

    /// Settlements, counted and not, in turns, so that a busy moment of the machine hits both.
    pub async fn settle_for(&self, time: Duration) -> Result<(Took, Took)> {
        let (mut counted, mut bare) = (Took::default(), Took::default());
        let mut round = 0;
        while counted.time() + bare.time() < time || round < 2 {
            for turn in [round % 2, (round + 1) % 2] {
                match turn {
                    0 => self.round(&self.counts, &mut counted).await?,
                    _ => self.round(&self.bare, &mut bare).await?,
                }
            }
            round += 1;
        }
        Ok((counted, bare))
    }

    /// Makes deals, and settles them all by that market; only the settling takes time. The terms
    /// are the same either way: what is held follows the score, and what is not held costs too.
    async fn round(&self, market: &Market, took: &mut Took) -> Result<()> {
        let mut ready = Vec::new();
        let mut makers = JoinSet::new();
        for pair in &self.pairs {
            let (pair, market) = (pair.clone(), self.counts.clone());
            makers.spawn(async move {
                let mut deals = Vec::new();
                for _ in 0..DEALS_EACH {
                    deals.push(pair.delivered(&market).await?);
                }
                anyhow::Ok(deals)
            });
        }
        while let Some(made) = makers.join_next().await {
            ready.push(made??);
        }
        let (before, started) = (self.cpu_seconds(), Instant::now());
        let mut settlers = JoinSet::new();
        for deals in ready {
            let market = market.clone();
            settlers.spawn(async move {
                for (message, raw) in deals {
                    let taken = market.callback(message.verification_id, message, raw).await?;
                    ensure!(taken.escrow == EscrowStatus::Released, "it was not released");
                }
                anyhow::Ok(())
            });
        }
        while let Some(settled) = settlers.join_next().await {
            settled??;
        }
        let time = started.elapsed();
        took.rounds.push(Round { time, cpu_seconds: self.cpu_seconds() - before });
        Ok(())
    }
}

impl Pair {
    /// A deal that lacks nothing but its verdict, and the verdict.
    async fn delivered(&self, market: &Market) -> Result<(VerificationCallback, Value)> {
        let (requester, provider) = (self.requester.id(), self.provider.id());
        let offer = stage::request(requester, provider, json!({}));
        let message = serde_json::from_value(offer.clone())?;
        let opened = market.negotiation_open(&signed(&self.requester)?, message, offer).await?;
        let id = opened.value.negotiation_id;
        let answer = stage::response(id, ResponseStatus::Accepted);
        let raw = serde_json::to_value(&answer)?;
        market.negotiation_respond(&signed(&self.provider)?, id, answer, raw).await?;
        let delivery = stage::delivery(id, provider, json!({}));
        let message = serde_json::from_value(delivery.clone())?;
        let delivered = market.deal_deliver(&signed(&self.provider)?, message, delivery).await?;
        let verification = delivered.value.verification_id.context("nobody was asked")?;
        let request = market.verification(&self.looker.id(), verification).await?.request;
        let callback = self.looker.seal(self.looker.finding(&request, Outcome::Verified))?;
        let raw = serde_json::to_value(&callback)?;
        Ok((callback, raw))
    }
}

/// CPU time of a process' threads by the scheduler's own count: it is asked for around every round,
/// and the times in `/proc/*/stat` come in steps of 10 ms. A round in which a thread ends is not a
/// usual one.
fn cpu_seconds_of(process: &str) -> Option<f64> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).ok()?.flatten();
    let nanoseconds = |thread: std::fs::DirEntry| -> Option<f64> {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    };
    Some(threads.filter_map(nanoseconds).sum::<f64>() / 1e9)
}

async fn register(market: &Market, actor: &Actor) -> Result<()> {
    market.register_agent(actor.keyring.registration(now(), None, None, None)).await?;
    Ok(())
}

/// A request of somebody, as the API hands it on once its signature was checked.
fn signed(actor: &Actor) -> Result<Signed> {
    let nonce = sha256(&entropy()?);
    Ok(Signed {
        agent: actor.id(),
        key: actor.key().public(),
        nonce: nonce.to_string(),
        expires_at: now().plus(Duration::from_secs(300)),
        fingerprint: nonce,
        idempotency_key: None,
    })
}
