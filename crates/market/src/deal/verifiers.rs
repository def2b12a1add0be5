//! Verifiers: who they are, with which keys, and which of them is asked.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use skep_base::{AgentId, Amount, Asset, Did, Hash32, Timestamp, hash::sha256_parts};
use skep_settle::{Deal, criteria::ENGINE_LEN_MAX};
use skep_store::{Load, Lock, RecordKey, RouteKey, Turn};
use skep_wire::{
    Page,
    settle::{EngineOffer, NewVerifierKey, RegisterVerifier, Verifier, VerifierKey},
};

use super::{DealRefusal, negotiate::party};
use crate::{
    AgentRecord, Answered, Failure, Market, Refusal, Signed, answer::Stop, identity::agent_key,
    read::next,
};

/// The list of all verifiers.
const VERIFIERS: &str = "verifiers";
/// Engines of one verifier, and words of one list of an engine.
const ENGINES_MAX: usize = 32;
const WORDS_MAX: usize = 64;
/// Keys that one verifier may have had: at one a quarter, enough for a long life.
const KEYS_MAX: usize = 100;
/// How long a key is good if nothing is said (9.1), and at the most.
const KEY_LIFETIME: Duration = Duration::from_secs(90 * 24 * 3600);
const KEY_LIFETIME_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
/// How long the list of verifiers is remembered. What is picked from it is checked again inside
/// the transaction.
const REMEMBERED: Duration = Duration::from_secs(2);

/// All verifiers, remembered for a moment.
#[derive(Debug, Default)]
pub(crate) struct Directory(Mutex<Option<(Instant, Known)>>);

/// The verifiers, and the database's time when they were read.
type Known = (Timestamp, Arc<Vec<Verifier>>);

impl Directory {
    fn remembered(&self) -> Option<Known> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (read_at, known) = known.as_ref()?;
        (read_at.elapsed() < REMEMBERED).then(|| known.clone())
    }

    fn remember(&self, known: Known) {
        let now = Instant::now();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, known));
    }

    pub(crate) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

pub(crate) fn verifier_key(agent: &AgentId) -> RecordKey {
    RecordKey { route: RouteKey::of(agent), kind: "verifier", id: agent.to_string() }
}

/// What a deal needs from a verifier.
#[derive(Clone, Debug)]
pub(super) struct Need {
    /// What decides between equals: no one side alone chooses it.
    pub(super) seed: Hash32,
    /// All of them: a composite needs those of its parts.
    pub(super) engines: Vec<String>,
    pub(super) parties: [AgentId; 2],
    pub(super) operators: [Did; 2],
    pub(super) asset: Asset,
    pub(super) price: Amount,
}

impl Need {
    pub(super) fn of(deal: &Deal) -> Need {
        Need {
            seed: deal.terms_hash,
            engines: skep_settle::criteria::engines(&deal.terms.criteria),
            parties: [deal.requester, deal.provider],
            operators: [deal.requester_operator, deal.provider_operator],
            asset: deal.terms.price.asset,
            price: deal.terms.stake.verifier_price,
        }
    }

    /// Decision 35, and whether it can and would.
    fn check(&self, verifier: &Verifier, operator: &Did) -> Result<(), DealRefusal> {
        let agent = verifier.agent_id;
        if self.parties.contains(&agent) || self.operators.contains(operator) {
            return Err(DealRefusal::VerifierNotIndependent { agent });
        }
        if let Some(engine) = self.engines.iter().find(|engine| !verifier.has_engine(engine)) {
            let engine = engine.clone();
            return Err(DealRefusal::VerifierLacksEngine { agent, engine });
        }
        let asked = verifier.prices.iter().find(|price| price.asset == self.asset);
        match asked {
            Some(asked) if asked.amount > self.price => {
                let price_minor = asked.amount.minor();
                Err(DealRefusal::VerifierTooDear { agent, price_minor })
            }
            _ => Ok(()),
        }
    }
}

impl Market {
    /// Registers the signing agent as a verifier, or changes what it offers.
    pub async fn register_verifier(
        &self,
        signed: &Signed,
        request: RegisterVerifier,
    ) -> Result<Answered<Verifier>, Failure> {
        check_offers(&request.engines)?;
        let agent = signed.agent;
        let key = verifier_key(&agent);
        let load = Load { records: vec![(key.clone(), Lock::Exclusive)], ..Load::default() };
        let accredited = self.accredited.contains(&agent);
        let answer = self
            .run_signed(signed, load, move |turn, record| {
                let known: Option<Verifier> = turn.record(&key)?;
                let is_new = known.is_none();
                let mut verifier = known.unwrap_or_else(|| Verifier {
                    agent_id: agent,
                    operator: record.agent.operator,
                    engines: vec![],
                    keys: vec![],
                    prices: vec![],
                    bundle_less: false,
                    accredited: false,
                    registered_at: turn.now(),
                });
                verifier.engines.clone_from(&request.engines);
                verifier.prices.clone_from(&request.prices);
                if !is_new && verifier.bundle_less != request.bundle_less {
                    let what = "bundle_less is decided once: register another agent".to_owned();
                    return Err(DealRefusal::BadVerifier { what }.into());
                }
                verifier.bundle_less = request.bundle_less;
                verifier.operator = record.agent.operator;
                add_key(&mut verifier, &request.key, turn)?;
                turn.put(&key, &verifier)?;
                if is_new {
                    turn.enlist(VERIFIERS, agent);
                }
                let told = told(&verifier);
                turn.event(&key.route, "verifier.registered", &told, &[agent])?;
                Ok(Verifier { accredited, ..verifier })
            })
            .await;
        self.forget_verifier(&signed.agent);
        answer
    }

    /// A fresh key beside those that the verifier has.
    pub async fn add_verifier_key(
        &self,
        signed: &Signed,
        request: NewVerifierKey,
    ) -> Result<Answered<Verifier>, Failure> {
        self.change_verifier(signed, "verifier.key_added", move |verifier, turn| {
            add_key(verifier, &request, turn)
        })
        .await
    }

    /// From now on nothing that this key signs counts.
    pub async fn revoke_verifier_key(
        &self,
        signed: &Signed,
        kid: String,
    ) -> Result<Answered<Verifier>, Failure> {
        self.change_verifier(signed, "verifier.key_revoked", move |verifier, turn| {
            let known = verifier.keys.iter_mut().find(|key| key.kid == kid);
            let unknown = || DealRefusal::UnknownVerifierKey { kid: kid.clone() };
            let known = known.ok_or_else(unknown)?;
            known.revoked_at.get_or_insert(turn.now());
            Ok(())
        })
        .await
    }

    async fn change_verifier(
        &self,
        signed: &Signed,
        kind: &'static str,
        mut change: impl FnMut(&mut Verifier, &Turn) -> Result<(), Stop> + Send + 'static,
    ) -> Result<Answered<Verifier>, Failure> {
        let agent = signed.agent;
        let key = verifier_key(&agent);
        let load = Load { records: vec![(key.clone(), Lock::Exclusive)], ..Load::default() };
        let accredited = self.accredited.contains(&agent);
        let answer = self
            .run_signed(signed, load, move |turn, _| {
                let known = turn.record(&key)?;
                let mut verifier: Verifier = known.ok_or(DealRefusal::UnknownVerifier { agent })?;
                change(&mut verifier, turn)?;
                turn.put(&key, &verifier)?;
                turn.event(&key.route, kind, &told(&verifier), &[agent])?;
                Ok(Verifier { accredited, ..verifier })
            })
            .await;
        self.forget_verifier(&signed.agent);
        answer
    }

    /// A verifier as everybody may see it.
    pub async fn verifier(&self, agent: &AgentId) -> Result<Verifier, Failure> {
        let known: Option<Verifier> = self.read(verifier_key(agent)).await?;
        let verifier = known.ok_or(DealRefusal::UnknownVerifier { agent: *agent })?;
        let accredited = self.accredited.contains(agent);
        // It may have gone over to another operator since it registered.
        let operator = self.agent_record(agent).await?.agent.operator;
        Ok(Verifier { accredited, operator, ..verifier })
    }

    /// The verifiers, oldest first.
    pub async fn verifiers(
        &self,
        cursor: Option<String>,
        limit: usize,
    ) -> Result<Page<Verifier>, Failure> {
        let after = match &cursor {
            None => None,
            Some(cursor) => {
                let (at, member) = cursor.split_once('.').ok_or(Refusal::MalformedCursor)?;
                let at = at.parse().map_err(|_| Refusal::MalformedCursor)?;
                Some((at, member.to_owned()))
            }
        };
        let listed = self.store.listed(VERIFIERS, after, limit + 1).await?;
        let more = listed.len() > limit;
        let mut page = Page { items: Vec::new(), next_cursor: None };
        for entry in listed.into_iter().take(limit) {
            page.next_cursor = Some(format!("{}.{}", entry.at.as_ms(), entry.member));
            if let Ok(agent) = entry.member.parse() {
                page.items.push(self.verifier(&agent).await?);
            }
        }
        page.next_cursor = page.next_cursor.filter(|_| more);
        Ok(page)
    }

    /// Those whom the marketplace itself may pick.
    async fn directory(&self) -> Result<Known, Failure> {
        if let Some(known) = self.directory.remembered() {
            return Ok(known);
        }
        let now = self.store.now().await?;
        let keys = self.accredited.iter().flat_map(|a| [verifier_key(a), agent_key(a)]).collect();
        let mut records = self.read_all(keys).await?;
        let mut verifiers = Vec::new();
        for _ in self.accredited.iter() {
            let verifier: Option<Verifier> = next(&mut records)?;
            let record: Option<AgentRecord> = next(&mut records)?;
            // Whoever has no key any more is not asked.
            let record = record.filter(|record| record.current_key().is_some());
            if let (Some(verifier), Some(record)) = (verifier, record) {
                let operator = record.agent.operator;
                verifiers.push(Verifier { accredited: true, operator, ..verifier });
            }
        }
        let known = (now, Arc::new(verifiers));
        self.directory.remember(known.clone());
        Ok(known)
    }

    /// What was remembered is no longer so.
    fn forget_verifier(&self, agent: &AgentId) {
        if self.accredited.contains(agent) {
            self.directory.forget();
        }
    }

    /// One that is independent of both sides, the same for everybody who asks.
    pub(super) async fn pick(
        &self,
        need: &Need,
        not: &[AgentId],
    ) -> Result<Option<AgentId>, Failure> {
        let (now, verifiers) = self.directory().await?;
        let able = verifiers.iter().filter(|verifier| {
            !not.contains(&verifier.agent_id)
                && verifier.keys.iter().any(|key| key.is_good_at(now))
                && need.check(verifier, &verifier.operator).is_ok()
        });
        let place = |verifier: &&Verifier| {
            sha256_parts(&[need.seed.as_bytes(), verifier.agent_id.as_bytes()])
        };
        Ok(able.min_by_key(place).map(|verifier| verifier.agent_id))
    }

    /// What [`Market::can_verify`] looks at.
    pub(super) fn load_verifier(load: &mut Load, agent: &AgentId) {
        load.records.push((verifier_key(agent), Lock::None));
        load.records.push((agent_key(agent), Lock::None));
    }

    /// Whether this verifier can take a deal now, by what the turn has loaded.
    pub(super) fn can_verify(&self, turn: &Turn, deal: &Deal, agent: &AgentId) -> Result<(), Stop> {
        let known: Option<Verifier> = turn.record(&verifier_key(agent))?;
        let verifier = known.ok_or(DealRefusal::UnknownVerifier { agent: *agent })?;
        let record: AgentRecord = party(turn, agent)?;
        if record.current_key().is_none() {
            let kid = String::new();
            return Err(DealRefusal::VerifierKeyRevoked { kid }.into());
        }
        Need::of(deal).check(&verifier, &record.agent.operator)?;
        check_independent(turn, deal, &record)?;
        let now = turn.now();
        if verifier.keys.iter().any(|key| key.is_good_at(now)) {
            return Ok(());
        }
        let kid = verifier.keys.last().map(|key| key.kid.clone()).unwrap_or_default();
        Err(DealRefusal::VerifierKeyExpired { kid }.into())
    }
}

/// Decision 35: whoever judges a deal is neither side's, by the operators that the sides had when
/// they agreed and by those that they have now.
pub(super) fn check_independent(turn: &Turn, deal: &Deal, judge: &AgentRecord) -> Result<(), Stop> {
    let (agent, operator) = (judge.agent.agent_id, judge.agent.operator);
    let mut linked = agent == deal.requester
        || agent == deal.provider
        || [deal.requester_operator, deal.provider_operator].contains(&operator);
    for side in [&deal.requester, &deal.provider] {
        linked |= party(turn, side)?.agent.operator == operator;
    }
    match linked {
        true => Err(DealRefusal::VerifierNotIndependent { agent }.into()),
        false => Ok(()),
    }
}

/// What the log says of a verifier: who it is, and the key that came or went last.
fn told(verifier: &Verifier) -> serde_json::Value {
    let changed = verifier.keys.iter().max_by_key(|key| key.revoked_at.unwrap_or(key.not_before));
    serde_json::json!({
        "agent_id": verifier.agent_id,
        "engines": verifier.engines.iter().map(|engine| &engine.kind).collect::<Vec<_>>(),
        "key": changed,
    })
}

fn add_key(verifier: &mut Verifier, new: &NewVerifierKey, turn: &Turn) -> Result<(), Stop> {
    let word = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let now = turn.now();
    if let Some(known) = verifier.keys.iter().find(|key| key.kid == new.kid) {
        // The same key again is a retry; another one under its name is not.
        let same = known.public_key == new.public_key && known.revoked_at.is_none();
        return if same { Ok(()) } else { Err(DealRefusal::BadKeyId.into()) };
    }
    let good = (1..=64).contains(&new.kid.len()) && new.kid.chars().all(word);
    if !good || verifier.keys.iter().any(|key| key.public_key == new.public_key) {
        return Err(DealRefusal::BadKeyId.into());
    }
    if verifier.keys.len() >= KEYS_MAX {
        let what = format!("a verifier has had at most {KEYS_MAX} keys");
        return Err(DealRefusal::BadVerifier { what }.into());
    }
    let not_before = new.not_before.unwrap_or(now);
    let not_after = new.not_after.unwrap_or_else(|| not_before.plus(KEY_LIFETIME));
    if not_after <= not_before || not_after > now.plus(KEY_LIFETIME_MAX) {
        let what = "a key is valid for some time, and at most a year ahead".to_owned();
        return Err(DealRefusal::BadVerifier { what }.into());
    }
    let NewVerifierKey { kid, public_key, .. } = new.clone();
    verifier.keys.push(VerifierKey { kid, public_key, not_before, not_after, revoked_at: None });
    Ok(())
}

fn check_offers(engines: &[EngineOffer]) -> Result<(), DealRefusal> {
    let bad = |what: String| DealRefusal::BadVerifier { what };
    if engines.is_empty() || engines.len() > ENGINES_MAX {
        return Err(bad(format!("a verifier has 1 to {ENGINES_MAX} engines")));
    }
    for engine in engines {
        let lists = [&engine.hint_fields, &engine.actions, &engine.proof_fields];
        let words = lists.iter().flat_map(|list| list.iter());
        let good = (1..=ENGINE_LEN_MAX).contains(&engine.kind.len())
            && lists.iter().all(|list| list.len() <= WORDS_MAX)
            && words.into_iter().all(|word| word.len() <= ENGINE_LEN_MAX);
        if !good {
            return Err(bad(format!("names have at most {ENGINE_LEN_MAX} bytes")));
        }
    }
    Ok(())
}
