//! 8.4: whether what a publication states is backed by chained facts, proofs and receipts.

use std::{collections::BTreeSet, time::Duration};

use serde::Deserialize;
use skep_base::{AgentId, Hash32, Timestamp, ed25519::PublicKey, hash::json_sha256};
use skep_wire::{
    conduit::{SessionBundle, SessionProof},
    hire::{EscrowVerb, WalletSigned as _},
    identity::Statement,
    score::{
        CERTIFICATE_FACTS_MAX, CERTIFICATE_SETTLEMENTS_MAX, Certificate, Coverage, Dimension, Fact,
        KeyPurpose, NumberedFact, Ordered, Publication, RECENT_PROOFS_MAX, Settled, VerifyAnswer,
        VerifyLevel,
    },
    settle::{EscrowSettlement, EscrowStatus},
};

use super::{CLOCK_SKEW_MAX, Findings, Source, untagged};
use crate::{
    fact::Totals,
    flags::volume,
    money::cents,
    publish::{passport_id, recent_proofs},
    session,
    track::WINDOW,
};

/// A session is counted when its proof arrives, a refund of a hire when its result was looked at:
/// minutes later, or when the node is up again.
const COUNTED_WITHIN: Duration = Duration::from_secs(24 * 3600);
/// A verdict that pays is acted on when it comes, at most so long after it was reached.
pub const VERDICT_BEFORE_RELEASE: Duration = Duration::from_secs(24 * 3600);
/// Any other can be contested for up to 90 days, and a dispute waits 72 hours for a reviewer.
pub const VERDICT_BEFORE_REFUND: Duration = Duration::from_secs((1 + 90 + 3) * 24 * 3600);

/// Checks that belong to the rules of sessions and verifications, which this crate does not know.
pub trait Proofs {
    /// Hash, chain, content and signature of a session's proof, by the key that it names.
    fn session(&self, proof: &SessionProof) -> Result<SessionBundle, String>;
}

/// Checks L1, L2 and L3. Keys that the certificate brings itself show that nothing was changed
/// since; who signed, only keys from elsewhere show. `origin`: those of the platform that something
/// was imported from.
pub fn certificate(
    said: &Certificate,
    source: Option<&Source<'_>>,
    origin: Option<&Source<'_>>,
    proofs: &dyn Proofs,
    now: Timestamp,
) -> VerifyAnswer {
    let mut answer = super::publication(&said.publication, source, now);
    let Ok(read) = Publication::deserialize(&said.publication) else {
        return answer;
    };
    let keys = source.map_or(&said.keys, |source| source.keys);
    let source = Source { keys, host: None };
    let mut audit = Audit {
        said,
        read: &read,
        source,
        findings: Findings::default(),
        coverage: Coverage::default(),
    };
    audit.facts();
    audit.sums();
    audit.sessions(proofs);
    audit.settlements();
    audit.imports(origin);
    let Audit { findings, coverage, .. } = audit;
    if findings.failed.is_empty() && answer.level == Some(VerifyLevel::L2) {
        answer.level = Some(VerifyLevel::L3);
    }
    answer.failed_checks.extend(findings.failed);
    answer.verified = answer.failed_checks.is_empty();
    answer.coverage = Some(coverage);
    answer
}

pub(super) struct Audit<'a> {
    pub(super) said: &'a Certificate,
    pub(super) read: &'a Publication,
    source: Source<'a>,
    pub(super) findings: Findings,
    pub(super) coverage: Coverage,
}

impl Audit<'_> {
    pub(super) fn expect(&mut self, check: &str, holds: bool, detail: &str) {
        self.findings.expect(VerifyLevel::L3, check, holds, detail);
    }

    /// How many facts the publication says that there are in its window.
    fn stated(&self) -> u64 {
        let log = &self.read.evidence.log;
        log.last_n.saturating_add(1).saturating_sub(log.first_n)
    }

    /// 8.4: whether something that was signed lies in the window, or as long before it as the fact
    /// that counts may have come later.
    fn is_recent(&self, at: Timestamp, before: Duration) -> bool {
        let now = self.read.issuer.computed_at;
        let first = now.minus(WINDOW).minus(before).minus(CLOCK_SKEW_MAX);
        at > first && at <= now.plus(CLOCK_SKEW_MAX)
    }

    fn is_whole(&self) -> bool {
        self.said.facts.len() as u64 == self.stated()
    }

    /// The facts are chained, without a gap, up to the root that was signed, and lie in the window.
    fn facts(&mut self) {
        let (said, read) = (self.said, self.read);
        let log = &read.evidence.log;
        let same = read.agent_passport_id == passport_id(&said.agent_id);
        self.expect("agent_id", same, "the passport is another agent's");
        let facts = &said.facts;
        let expected = self.stated().min(CERTIFICATE_FACTS_MAX as u64);
        self.coverage.facts_stated = self.stated();
        self.expect(
            "facts.number",
            facts.len() as u64 == expected,
            "facts are missing or too many",
        );
        let numbers = facts.iter().rev().map(|fact| fact.n);
        let in_order = numbers.zip((0..=log.last_n).rev()).all(|(n, expected)| n == expected)
            && facts.windows(2).all(|pair| pair[0].fact.at <= pair[1].fact.at);
        self.expect("facts.order", in_order, "they are not in order up to the last one");
        let end = chained(said.chain_before, facts, &said.agent_id);
        let chain_after = untagged(&log.chain_after);
        self.expect("facts.chain", chain_after == Some(end), "it does not end at the root");
        if self.is_whole() {
            let begins = untagged(&log.chain_before) == Some(said.chain_before);
            self.expect("facts.chain_before", begins, "the chain does not begin where it should");
        }
        let now = read.issuer.computed_at;
        let first = now.minus(WINDOW);
        let inside = facts.iter().all(|fact| fact.fact.at > first && fact.fact.at <= now);
        self.expect("facts.window", inside, "a fact is not of the last 90 days");
        let mut sources = BTreeSet::new();
        let once = facts.iter().all(|fact| sources.insert(&fact.fact.source));
        self.expect("facts.source", once, "something was counted twice");
        let none = self.findings.failed.is_empty();
        self.coverage.facts_shown = if none { facts.len() as u64 } else { 0 };
    }

    /// The facts come to what the publication states.
    fn sums(&mut self) {
        let mut shown = Totals::default();
        for fact in &self.said.facts {
            shown.add(&fact.fact);
        }
        let technical = &self.read.dimensions.technical_execution;
        let commercial = &self.read.dimensions.commercial_reliability;
        let whole = self.is_whole();
        let sums = [
            ("conduit_sessions_90d", shown.conduit, technical.conduit_sessions_90d),
            ("conduit_successful_90d", shown.conduit_ok, technical.conduit_successful_90d),
            ("verified_proof_count", shown.proofs, technical.verified_proof_count),
            ("ap2_sessions_90d", shown.ap2, commercial.ap2_sessions_90d),
            ("ap2_successful_90d", shown.ap2_ok, commercial.ap2_successful_90d),
            (
                "escrow_released_90d_cents",
                shown.released_cents,
                commercial.escrow_released_90d_cents,
            ),
        ];
        for (name, shown, stated) in sums {
            // What is not shown can only add to it.
            let fits = if whole { shown == stated } else { shown <= stated };
            self.expect(&format!("facts.{name}"), fits, "the facts do not come to this");
        }
        let volume = volume(&self.said.facts);
        let diversity = &self.read.diversity;
        let counterparties = volume.counterparties == diversity.counterparties;
        self.expect("facts.counterparties", counterparties, "the facts name another number");
        let flags = volume.flags == diversity.flags;
        self.expect("facts.flags", flags, "other flags follow from the facts");
        let recent = recent_proofs(&self.said.facts) == self.read.evidence.recent_proof_hashes;
        self.expect("facts.recent_proof_hashes", recent, "they are not the newest proofs");
    }

    /// Each proof is whole, of a known gateway, and of a fact.
    fn sessions(&mut self, proofs: &dyn Proofs) {
        let shown = &self.said.session_proofs;
        let few = shown.len() <= RECENT_PROOFS_MAX;
        self.expect("sessions.number", few, "there are too many");
        let mut seen = BTreeSet::new();
        for (index, proof) in shown.iter().take(RECENT_PROOFS_MAX).enumerate() {
            match self.session(proof, proofs) {
                Ok(()) => {
                    if seen.insert(proof.proof_hash) {
                        self.coverage.sessions_proven += 1;
                    }
                }
                Err((check, detail)) => {
                    let detail = format!("proof {index}: {detail}");
                    self.findings.fail(VerifyLevel::L3, check, detail);
                }
            }
        }
        let recent = &self.read.evidence.recent_proof_hashes;
        let all = recent.iter().all(|hash| untagged(hash).is_some_and(|hash| seen.contains(&hash)));
        self.expect("sessions.missing", all, "a recent proof is not shown");
    }

    fn session(
        &self,
        proof: &SessionProof,
        proofs: &dyn Proofs,
    ) -> Result<(), (&'static str, String)> {
        let bundle = proofs.session(proof).map_err(|detail| ("sessions.proof", detail))?;
        let told = |check, detail: &str| (check, detail.to_owned());
        let gateway = &bundle.gateway.public_key;
        if !self.source.keys.has(gateway, KeyPurpose::Gateway, bundle.closed_at) {
            return Err(told("sessions.gateway", "the gateway's key is not known"));
        }
        if bundle.agent_id != self.said.agent_id {
            return Err(told("sessions.agent", "it is another agent's session"));
        }
        let id = bundle.session_id.to_string();
        let fact = self.fact(Dimension::Conduit, &id);
        let fact = fact.ok_or_else(|| told("sessions.fact", "no fact is about this session"))?;
        let fits = fact.proof == Some(proof.proof_hash)
            && session::outcome(&bundle) == Some(fact.ok)
            && bundle.closed_at <= fact.at.plus(CLOCK_SKEW_MAX);
        if !fits {
            return Err(told("sessions.fact", "the fact says something else"));
        }
        if !self.is_recent(bundle.closed_at, COUNTED_WITHIN) {
            return Err(told("sessions.window", "it was not closed in the last 90 days"));
        }
        Ok(())
    }

    fn fact(&self, dimension: Dimension, source: &str) -> Option<&Fact> {
        let mut facts = self.said.facts.iter().map(|fact| &fact.fact);
        facts.find(|fact| fact.dimension == dimension && fact.source == source)
    }

    /// Each receipt is signed by the marketplace and is of a fact.
    fn settlements(&mut self) {
        let shown = &self.said.settlements;
        let few = shown.len() <= CERTIFICATE_SETTLEMENTS_MAX;
        self.expect("settlements.number", few, "there are too many");
        let mut seen = BTreeSet::new();
        for (index, settled) in shown.iter().take(CERTIFICATE_SETTLEMENTS_MAX).enumerate() {
            match self.settlement(settled) {
                Ok(independent) => {
                    if seen.insert(settled.receipt.settlement.escrow_id.to_string()) {
                        self.coverage.settlements_proven += 1;
                        self.coverage.settlements_independent += u64::from(independent);
                    }
                }
                Err((check, detail)) => {
                    let detail = format!("settlement {index}: {detail}");
                    self.findings.fail(VerifyLevel::L3, check, detail);
                }
            }
        }
        // Any ten would be those that look best.
        let facts = self.said.facts.iter().rev().map(|fact| &fact.fact);
        let mut newest =
            facts.filter(|fact| fact.dimension == Dimension::Ap2).take(RECENT_PROOFS_MAX);
        let all = newest.all(|fact| seen.contains(&fact.source));
        self.expect("settlements.missing", all, "the receipt of a recent settlement is not shown");
    }

    /// Says whether somebody besides the marketplace has signed for it.
    fn settlement(&self, settled: &Settled) -> Result<bool, (&'static str, String)> {
        let told = |check, detail: &str| (check, detail.to_owned());
        let receipt = &settled.receipt;
        let said = &receipt.settlement;
        if !self.source.keys.has(&receipt.key, KeyPurpose::Settlement, said.settled_at) {
            return Err(told("settlements.key", "the settlement key is not known"));
        }
        if said.verify(&receipt.key, &receipt.signature).is_err() {
            return Err(told("settlements.signature", "the receipt's signature does not verify"));
        }
        if said.provider != self.said.agent_id {
            return Err(told("settlements.agent", "it is another agent's settlement"));
        }
        let fact = self.fact(Dimension::Ap2, &said.escrow_id.to_string());
        let fact = fact.ok_or_else(|| told("settlements.fact", "no fact is about this escrow"))?;
        // A division that leaves the provider less than half may count against it.
        let poor = said.method == "agreed" && said.released_minor < said.refunded_minor;
        let says = match said.status {
            EscrowStatus::Released => fact.ok || poor,
            EscrowStatus::Refunded => !fact.ok,
            EscrowStatus::Held => false,
        };
        let fits = says
            && fact.counterparty == Some(said.requester)
            && said.settled_at <= fact.at
            && fact.released_cents == cents(said.released_minor, said.currency)
            && (fact.proof.is_none() || fact.proof == said.proof_hash);
        if !fits {
            return Err(told("settlements.fact", "the fact says something else"));
        }
        self.settled_in_window(settled).map_err(|what| told("settlements.window", what))?;
        let judged = judged(settled).map_err(|what| told("settlements.verdict", what))?;
        // The node's own verifier is the node.
        let judged = judged.is_some_and(|key| !self.is_own(key));
        let ordered = match &settled.ordered {
            Some(ordered) => {
                word_of_buyer(said, ordered).map_err(|what| told("settlements.order", what))?;
                true
            }
            None => false,
        };
        Ok(judged || ordered)
    }

    fn settled_in_window(&self, settled: &Settled) -> Result<(), &'static str> {
        let said = &settled.receipt.settlement;
        let released = said.status == EscrowStatus::Released;
        // What is released counts at once.
        let counted = if released { Duration::ZERO } else { COUNTED_WITHIN };
        if !self.is_recent(said.settled_at, counted) {
            return Err("it was not settled in the last 90 days");
        }
        let Some(verdict) = &settled.verdict else { return Ok(()) };
        let before = if released { VERDICT_BEFORE_RELEASE } else { VERDICT_BEFORE_REFUND };
        let in_order = verdict.completed_at <= said.settled_at.plus(CLOCK_SKEW_MAX);
        match in_order && self.is_recent(verdict.completed_at, before) {
            true => Ok(()),
            false => Err("its verdict is older, or later than the settlement"),
        }
    }

    /// Whether the issuer says itself that a key is its own, here or where its keys came from.
    fn is_own(&self, key: &PublicKey) -> bool {
        self.source.keys.names(key) || self.said.keys.names(key)
    }
}

/// The key of the verifier that has judged the work, if one has; a receipt that names a verdict is
/// nothing without it.
fn judged(settled: &Settled) -> Result<Option<&PublicKey>, &'static str> {
    let said = &settled.receipt.settlement;
    let named = said.verification_id.is_some()
        || said.proof_hash.is_some()
        || said.proof_signature.is_some();
    match &settled.verdict {
        None if named => Err("the verifier's verdict is missing"),
        None => Ok(None),
        Some(verdict) if !settled.is_signed(verdict) => Err("the verifier's key has not signed it"),
        Some(verdict) if verdict.passed != (said.status == EscrowStatus::Released) => {
            Err("the verdict says something else")
        }
        Some(verdict) => Ok(Some(&verdict.key)),
    }
}

/// Whether the buyer itself has said what became of its money.
fn word_of_buyer(said: &EscrowSettlement, ordered: &Ordered) -> Result<(), &'static str> {
    let Ordered { terms, order } = ordered;
    if order.check_signature().is_err() {
        return Err("the order's signature does not verify");
    }
    if order.by != said.requester {
        return Err("the order is not the buyer's");
    }
    if order.escrow_id != said.escrow_id {
        return Err("the order is about another escrow");
    }
    let does = match order.verb {
        EscrowVerb::Release => EscrowStatus::Released,
        EscrowVerb::Refund => EscrowStatus::Refunded,
    };
    if does != said.status {
        return Err("the order says something else");
    }
    if !json_sha256(terms).is_ok_and(|hash| hash == said.terms_hash) {
        return Err("the terms are not those of the receipt");
    }
    let moved = said.released_minor.checked_add(said.refunded_minor);
    let fits = terms.buyer == said.requester
        && terms.seller == said.provider
        && moved == Some(terms.amount);
    if fits { Ok(()) } else { Err("the terms name other parties or another amount") }
}

fn chained(before: Hash32, facts: &[NumberedFact], agent: &AgentId) -> Hash32 {
    facts.iter().fold(before, |chain, fact| fact.fact.link(chain, agent, fact.n))
}
