//! SwarmScore's four levels (14.2), over HTTP against two nodes that are made for it. One agent
//! earns a benchmark there by settled deals and recorded sessions, on the test clock.

mod benchmarks;
mod evidence;
mod formula;
mod holds;
mod operators;
mod publications;
mod travels;

use std::{path::Path, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use skep_api::ADMIN_SOCKET;
use skep_base::{AgentId, Asset, Money};
use skep_sdk::{AdminClient, Client, Error};
use skep_testkit::process::Child;
use skep_wire::{
    admin::{AdminAct, AdminRequest},
    conduit::{Act, OpenSession},
    problem::Problem,
    score::Publication,
    settle::{EscrowHold, Outcome},
};

use super::{Deviation, Line, Report};
use crate::stage::{self, Actor, Hand, Looker, Place, Scribe};

const CORE: &str = "Core";
const VERIFIED: &str = "Verified";
const PORTABLE: &str = "Portable";
const FULL: &str = "Full";

/// What Ben does: escrows for 504 points, sessions for 220.
const DEALS: usize = 42;
const SESSIONS: usize = 55;
const DAY_S: u64 = 24 * 3600;
/// A passport must be 30 days old before it is taken elsewhere.
const PASSPORT_AGE_S: u64 = 31 * DAY_S;
/// How long a node's own timers are waited for, and how often they are looked at.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// One marketplace.
struct Node {
    url: String,
    folder: tempfile::TempDir,
    _child: Child,
}

impl Node {
    fn open(scribe: &Scribe, verifier: AgentId) -> Result<Node> {
        let folder = tempfile::tempdir()?;
        let verifier = verifier.to_string();
        let mut settings = scribe.settings().to_vec();
        settings.push(("SKEP_LISTING_CHALLENGE", "off".to_owned()));
        let flags = ["--no-verifier", "--accredit", &verifier];
        let child = stage::node_with(folder.path(), &flags, &settings)?;
        Ok(Node { url: child.url().to_owned(), folder, _child: child })
    }

    /// The host and port, which is what a platform is called.
    fn name(&self) -> &str {
        self.url.split_once("://").map_or(&self.url, |(_, name)| name)
    }

    /// What only the operator may do.
    async fn act(&self, act: AdminAct, reason: &str) -> Result<Value> {
        let client = AdminClient::new(&self.folder.path().join(ADMIN_SOCKET))?;
        let request = AdminRequest { act, reason: reason.to_owned() };
        Ok(client.act(&request).await?.now)
    }
}

/// Two marketplaces, and everybody whom the checks need.
struct World {
    home: Node,
    away: Node,
    looker: Looker,
    provider: Actor,
    newcomer: Actor,
    requester: Actor,
    /// At home: Ann asks, Ben works, Noa has done nothing yet.
    ann: Client,
    ben: Client,
    noa: Client,
    /// For whatever the client hides.
    hand: Hand,
    _scribe: Scribe,
}

impl World {
    async fn new() -> Result<World> {
        let scribe = Scribe::open().await?;
        let looker = Looker::new("looker")?;
        let (home, away) = (Node::open(&scribe, looker.id())?, Node::open(&scribe, looker.id())?);
        let (requester, provider) = (Actor::new("ann")?, Actor::new("ben")?);
        let newcomer = Actor::new("noa")?;
        for node in [&home, &away] {
            looker.register(&node.url, &["artifact"]).await?;
            for actor in [&requester, &provider, &newcomer] {
                let client = actor.register(&node.url).await?;
                client.faucet(Money::parse_decimal("10000", Asset::USDC)?).await?;
            }
        }
        let clients = (requester.client(&home.url)?, provider.client(&home.url)?);
        let noa = newcomer.client(&home.url)?;
        let place = Place { node: &home.url, folder: Path::new("") };
        let hand = Hand::new(&requester, place).await?;
        let (ann, ben) = clients;
        let world = World {
            home,
            away,
            looker,
            provider,
            newcomer,
            requester,
            ann,
            ben,
            noa,
            hand,
            _scribe: scribe,
        };
        world.earn().await?;
        Ok(world)
    }

    /// Ben's first deal was a month ago.
    async fn earn(&self) -> Result<()> {
        self.deal(&self.ben, json!({}), Outcome::Verified).await?;
        self.pass(PASSPORT_AGE_S).await?;
        for _ in 1..DEALS {
            self.deal(&self.ben, json!({}), Outcome::Verified).await?;
        }
        for _ in 0..SESSIONS {
            self.session(&self.ben).await?;
        }
        Ok(())
    }

    /// One deal at home from the offer to the verdict.
    async fn deal(&self, provider: &Client, more: Value, outcome: Outcome) -> Result<()> {
        self.deal_at(&self.home, (&self.ann, provider), more, outcome).await
    }

    /// One deal between a requester and a provider at a marketplace.
    async fn deal_at(
        &self,
        node: &Node,
        (requester, provider): (&Client, &Client),
        more: Value,
        outcome: Outcome,
    ) -> Result<()> {
        let id = stage::agree(requester, provider, more).await?.negotiation_id;
        let verification = stage::deliver(provider, id, json!({})).await?;
        self.looker.judge(&node.url, verification, outcome).await
    }

    /// One session with one action.
    async fn session(&self, client: &Client) -> Result<()> {
        let open = OpenSession { max_cost_minor: None, purpose: None };
        let id = client.open_session(&open).await?.value.session_id;
        client.session_act(id, &Act::navigate("https://example.com/")).await?;
        client.close_session(id, None).await?;
        Ok(())
    }

    async fn hold(&self, provider: &Client) -> Result<EscrowHold> {
        hold(&self.ann, provider).await
    }

    /// Time passes, in both places.
    async fn pass(&self, seconds: u64) -> Result<()> {
        for node in [&self.home, &self.away] {
            Client::new(&node.url)?.advance_clock(seconds).await?;
        }
        Ok(())
    }

    /// Ben's signed score, as it was sent.
    async fn signed(&self) -> Result<Value> {
        Ok(self.ann.publication(&self.provider.id().to_string()).await?)
    }

    async fn publication(&self) -> Result<Publication> {
        Ok(self.ann.publication_of(&self.provider.id().to_string()).await?)
    }

    /// Waits until the node's timers have brought Ben's score there.
    async fn until(&self, what: &str, holds: impl Fn(&Publication) -> bool) -> Result<()> {
        let started = std::time::Instant::now();
        while !holds(&self.publication().await?) {
            ensure!(started.elapsed() < PATIENCE, "it did not happen: {what}");
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }
}

/// What is held for a deal between these now. The requester calls it off, which counts for nobody.
async fn hold(requester: &Client, provider: &Client) -> Result<EscrowHold> {
    let answer = stage::agree(requester, provider, json!({})).await?;
    let hold = answer.escrow.context("accepted without a hold")?;
    requester.cancel_deal(hold.escrow_id).await?;
    Ok(hold)
}

/// The problem of a refusal with this code.
fn problem<T>(result: Result<T, Error>, code: &str) -> Result<Problem> {
    match result {
        Err(Error::Problem { problem, .. }) if problem.code == code => Ok(*problem),
        Err(other) => bail!("expected {code}, not: {other}"),
        Ok(_) => bail!("expected {code}, and it was allowed"),
    }
}

pub async fn report() -> Result<Report> {
    let world = World::new().await?;
    // In the order in which they leave the world fit for the next.
    let mut lines = core_lines(&world).await;
    lines.extend(portable_lines(&world).await);
    lines.extend(full_lines(&world).await);
    lines.extend(verified_lines(&world).await);
    let rank = |level| [CORE, VERIFIED, PORTABLE, FULL].iter().position(|known| *known == level);
    lines.sort_by_key(|line| rank(line.level));
    let reached = |levels: &[&str]| {
        lines.iter().filter(|line| levels.contains(&line.level)).all(|line| line.passed)
    };
    let levels = vec![
        (CORE, reached(&[CORE])),
        (VERIFIED, reached(&[CORE, VERIFIED])),
        (PORTABLE, reached(&[CORE, VERIFIED, PORTABLE])),
        (FULL, reached(&[CORE, VERIFIED, PORTABLE, FULL])),
    ];
    let (spec, name) = ("SwarmScore v1.0 with ATEP v1.0", "SwarmScore");
    Ok(Report { spec, name, levels, lines, deviations: deviations() })
}

async fn core_lines(world: &World) -> Vec<Line> {
    vec![
        line!(world, CORE "6.1, 6.3" "computeSwarmScore gives the numbers of the test vectors"
            => formula::the_vectors_give_their_numbers),
        line!(world, CORE "6.1" "qualification gaps are listed in the spec's words and order"
            => formula::what_is_missing_is_listed_in_order),
        line!(world, CORE "5.1, 5.3" "scores come from settled escrows and proven sessions only"
            => publications::the_numbers_are_those_of_what_was_done),
        line!(world, CORE "7.1, 7.2" "the score is published in the wire format, signed"
            => publications::every_field_is_there_and_signed),
        line!(world, CORE "7.4" "HTTP headers repeat it"
            => publications::headers_repeat_it),
        line!(world, CORE "8.2" "the issuer's keys are public, and a publication ends"
            => publications::it_holds_for_a_day),
        line!(world, CORE "11.2" "with fewer than ten sessions the score is its owner's to see"
            => publications::a_newcomer_is_seen_by_itself_only),
    ]
}

async fn portable_lines(world: &World) -> Vec<Line> {
    vec![
        line!(world, PORTABLE "8.5" "the endpoint says which check of a publication failed"
            => evidence::the_endpoint_names_what_was_changed),
        line!(world, PORTABLE "10.2" "without an agreement only the tier is shown"
            => travels::without_an_agreement_nothing_counts),
        line!(world, PORTABLE "10.1" "forged and foreign exports are refused"
            => travels::what_was_forged_is_refused),
        line!(world, PORTABLE "10.1" "an export counts by half, after a probation, once"
            => travels::an_export_counts_by_half_and_once),
    ]
}

async fn full_lines(world: &World) -> Vec<Line> {
    vec![
        line!(world, FULL "8.4" "a certificate is checked offline, to the last proof"
            => evidence::a_stranger_checks_the_certificate_offline),
        line!(world, FULL "14.1, 14.4" "the passport carries tier, badges and the extension"
            => evidence::the_passport_carries_the_benchmark),
        line!(world, FULL "9.7" "fraud of one agent is answered for by its operator"
            => operators::fraud_is_answered_for_by_the_operator),
        line!(world, FULL "9.4" "the qualification rate is reported"
            => operators::the_rate_is_reported),
    ]
}

async fn verified_lines(world: &World) -> Vec<Line> {
    vec![
        line!(world, VERIFIED "12.1" "the score says how much is held"
            => holds::the_hold_follows_the_score),
        line!(world, VERIFIED "12.3" "buyers can ask for a benchmark, and get nobody without"
            => holds::who_asks_for_a_benchmark_gets_nobody_without),
        line!(world, VERIFIED "6.1" "an open dispute puts the whole price back"
            => holds::a_dispute_puts_the_whole_price_back),
        line!(world, VERIFIED "9.2" "heartbeats renew a benchmark, and take it after a drop"
            => benchmarks::heartbeats_renew_and_suspend),
        line!(world, FULL "14.3" "the history tells every change, with its reason"
            => benchmarks::the_history_tells_every_change),
    ]
}

fn deviations() -> Vec<Deviation> {
    let deviation = |clause, deviation| Deviation { clause, deviation };
    let mut all = vec![
        deviation(
            "6.3",
            "vector 4 prints 589 and 981; the spec's own code gives 590 and 982, and so does this",
        ),
        deviation(
            "7.1, 8.2",
            "Ed25519 with a kid instead of HMAC: whoever has a public HMAC key can forge",
        ),
        deviation("5.3", "records count by the time they ended, in (t - 90 days, t], to the ms"),
        deviation(
            "5.3",
            "refunds that are nobody's fault, cancellations by the requester and what rests on the \
            provider's own word (auto_approve) count neither way; so do deals within one \
            operator. A provider's cancellation is a failure",
        ),
        deviation(
            "12.1",
            "the modifier is the integer max(2500, 10000 - 8 x score) in 1/10000, and the hold is \
            rounded up; the effective one is full while UNVERIFIED, disputed, revoked or in the \
            operator's cool-down. Both are published",
        ),
        deviation(
            "12.1",
            "a hold below the price leaves a remainder, and the terms say who carries it",
        ),
        deviation(
            "11.3",
            "the subsidy is money of the platform's that comes back at the settlement, in few \
            deals at a time, and never between agents of one operator",
        ),
        deviation(
            "9.2",
            "a benchmark that was suspended comes back as CLEARED when the numbers are good again",
        ),
        deviation(
            "14.3",
            "an agent that never held a benchmark can be revoked and cleared, too: these two \
            events then name the tier NONE",
        ),
        deviation("10.1", "exports hold local sessions only, so that nothing counts in a circle"),
        deviation(
            "10.1",
            "what was imported never changes the published local score: it stands beside it",
        ),
        deviation(
            "10.2",
            "an issuer enters the registry with a statement on how sessions are verified there; \
            where its keys are is key_url, and hmac_key_url is read too",
        ),
        deviation("8.4", "chained facts stand for sessions whose proofs are too many to send"),
        deviation("5.1", "in this run a gateway without a browser records the sessions"),
    ];
    all.extend(more_deviations());
    all
}

/// What else does not count, and what is said in other words.
fn more_deviations() -> [Deviation; 5] {
    let deviation = |clause, deviation| Deviation { clause, deviation };
    [
        deviation(
            "5.3",
            "refunds on the requester's own word, refunds of hires that the platform has not \
            checked, divisions that leave the provider less than half of the price or that come \
            without a delivery, and sessions in which nothing was done on a host count neither \
            way. After a verdict of another than the requester a division below half is a \
            failure, and no division a success",
        ),
        deviation(
            "7.4",
            "X-SwarmScore-Effective-Modifier stands beside the three headers: what is really held",
        ),
        deviation(
            "11.2",
            "signals of publications are of 90 days where they say a rate; searches show their \
            beginnings, without numbers that would move with every session",
        ),
        deviation(
            "12.3",
            "the problem's code is benchmark_required: all codes here are in lower case. Who has \
            points enough and was refused the benchmark itself is told so in qualificationGaps",
        ),
        deviation(
            "14.1, 14.4",
            "the profile has formula_version and the badges besides what is registered; \
             descriptions are in other words",
        ),
    ]
}
