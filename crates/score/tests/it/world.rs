//! An agent with a record, and the platform that keeps it.

use std::time::Duration;

use serde_json::Value;
use skep_base::{
    AgentId, Amount, Asset, Hash32, Timestamp,
    ed25519::SecretKey,
    hash::sha256,
    id::{DealId, SessionId},
};
use skep_score::{
    Breadth, Fact, NumberedFact, Totals, Track,
    atep::Visit,
    import,
    parameters::Parameters,
    publish::{self, Platform, Record},
    track::{Around, WINDOW},
    verify::Proofs,
};
use skep_settle::session_proof;
use skep_wire::{
    conduit::{GatewayStamp, SessionBundle, SessionProof, SessionStatus},
    identity::Statement,
    score::{
        CERTIFICATE_FACTS_MAX, Certificate, Dimension, Evaluator, ImportSource, IssuerKey,
        KeyPurpose, KeySet, Publication, Settled, Verdict,
    },
    settle::{
        Action, EscrowSettlement, EscrowStatus, ProofBody, RefundReason, SettlementReceipt,
        VCAP_VERSION,
    },
};

use crate::import::{export, trusted};

pub const MINUTE: i64 = 60 * 1000;
pub const DAY: i64 = 24 * 60 * MINUTE;
pub const START: i64 = 1_790_000_000_000;

pub fn time(ms: i64) -> Timestamp {
    Timestamp::from_ms(START + ms)
}

pub fn agent() -> AgentId {
    AgentId([0x11; 20])
}

pub fn agent_key() -> SecretKey {
    SecretKey::from_seed([1; 32])
}

pub fn buyer(n: u8) -> AgentId {
    AgentId([0x40 + n; 20])
}

/// Checks as a node makes them.
pub struct Checks;

impl Proofs for Checks {
    fn session(&self, proof: &SessionProof) -> Result<SessionBundle, String> {
        session_proof::check(proof, None).map_err(|e| e.to_string())
    }
}

/// A platform with its three keys.
pub struct House {
    pub platform: &'static str,
    pub url: &'static str,
    pub issuer: SecretKey,
    pub settlement: SecretKey,
    pub gateway: SecretKey,
}

pub fn house(n: u8) -> House {
    let (platform, url) = match n {
        1 => ("one.example", "https://one.example"),
        _ => ("two.example:8402", "https://two.example:8402/"),
    };
    let key = |purpose| SecretKey::from_seed([n, purpose].repeat(16).try_into().unwrap());
    House { platform, url, issuer: key(101), settlement: key(102), gateway: key(103) }
}

impl House {
    pub fn keys(&self) -> KeySet {
        let valid = (time(-400 * DAY), time(400 * DAY));
        let key = |kid: &str, key: &SecretKey, purpose| {
            IssuerKey::ed25519(kid, &key.public(), purpose, valid)
        };
        KeySet {
            keys: vec![
                key("score-1", &self.issuer, KeyPurpose::Publication),
                key("settle-1", &self.settlement, KeyPurpose::Settlement),
                key("gateway-1", &self.gateway, KeyPurpose::Gateway),
            ],
        }
    }

    pub fn platform(&self) -> Platform<'_> {
        Platform { platform: self.platform, platform_url: self.url, kid: "score-1" }
    }
}

/// A record that grows.
pub struct World {
    pub house: House,
    pub track: Track,
    pub facts: Vec<NumberedFact>,
    /// The chain's end after each fact.
    pub chains: Vec<Hash32>,
    pub proofs: Vec<SessionProof>,
    pub settled: Vec<Settled>,
    pub breadth: Breadth,
    pub now: Timestamp,
    /// How much older what is signed is than the fact that counts it.
    pub stale: Duration,
    /// Judges what is settled, so long before the settlement.
    pub verifier: Option<(SecretKey, Duration)>,
    pub imported: Option<ImportSource>,
    /// Whether nothing that is done in sessions succeeds.
    pub fails: bool,
}

impl World {
    pub fn new(n: u8) -> World {
        World {
            house: house(n),
            track: Track::default(),
            facts: Vec::new(),
            chains: Vec::new(),
            proofs: Vec::new(),
            settled: Vec::new(),
            breadth: Breadth::default(),
            now: time(0),
            stale: Duration::ZERO,
            verifier: None,
            imported: None,
            fails: false,
        }
    }

    /// The same agent on another platform, with what the first one says of it, through probation.
    pub fn travelled() -> World {
        let source = World::standard(1);
        let mut world = World::new(2);
        world.now = source.now;
        world.bring(&source);
        for _ in 0..20 {
            world.session(true);
        }
        for i in 0..12 {
            world.settlement(true, buyer(i % 8));
        }
        world
    }

    /// Imports what another platform exports.
    pub fn bring(&mut self, source: &World) {
        let export = export(source);
        let read = import::read(&export).unwrap();
        import::accept(&read, &trusted(source), &mut self.track, self.now).unwrap();
        let keys = KeySet { keys: vec![source.house.keys().keys.remove(0)] };
        self.imported = Some(ImportSource { publication: export.source_publication, keys });
    }

    /// Vector 3 of the specification in the last 90 days, and three sessions long before.
    pub fn standard(n: u8) -> World {
        let mut world = World::new(n);
        for _ in 0..3 {
            world.session(true);
        }
        world.now = time(100 * DAY);
        for i in 0..80 {
            world.session(i % 20 != 7);
        }
        for i in 0..40 {
            world.settlement(i % 20 != 7, buyer((i % 8) as u8));
        }
        world
    }

    fn count(&mut self, mut fact: Fact) {
        self.track.run_out(fact.at);
        let n = self.track.count(&agent(), &mut fact);
        self.facts.push(NumberedFact { n, fact });
        self.chains.push(self.track.chain);
        let base = self.base();
        let parameters = Parameters::SPEC;
        let around = around(self.now, &base, &parameters);
        self.track.evaluate(&around, Evaluator::SessionCompletion);
    }

    pub fn session(&mut self, ok: bool) {
        self.now = self.now.plus(std::time::Duration::from_millis(MINUTE as u64));
        let n = self.track.facts;
        let mut action = Action::begun(0, "NAVIGATE", self.now);
        action.url = Some(format!("https://site{}.example/", n % 12));
        action.success = ok && !self.fails;
        let mut entropy = [0; 10];
        entropy[..8].copy_from_slice(&n.to_be_bytes());
        let bundle = SessionBundle {
            format: String::new(),
            session_id: SessionId::new(self.now, entropy),
            agent_id: agent(),
            status: if ok { SessionStatus::Completed } else { SessionStatus::Failed },
            reason: (!ok).then(|| "it did not work".to_owned()),
            purpose: None,
            action_log: vec![serde_json::to_value(action).unwrap()],
            action_log_head: None,
            chain_alg: String::new(),
            gateway: GatewayStamp {
                kid: "gateway-1".to_owned(),
                public_key: self.house.gateway.public(),
                software: "skep/1".to_owned(),
            },
            opened_at: self.now.minus(self.stale),
            closed_at: self.now.minus(self.stale),
        };
        let source = bundle.session_id.to_string();
        let proof = session_proof::seal(bundle, Vec::new(), &self.house.gateway).unwrap();
        let visit = Visit {
            domains: vec![format!("site{}.example", n % 12)],
            task_types: vec!["NAVIGATE".to_owned()],
            cost_cents: 3,
        };
        self.breadth.add(&visit, self.now);
        self.count(Fact {
            dimension: Dimension::Conduit,
            source,
            ok,
            released_cents: 0,
            counterparty: None,
            proof: Some(proof.proof_hash),
            at: self.now,
        });
        self.track.see_breadth(&self.breadth, self.now);
        self.proofs.push(proof);
    }

    pub fn settlement(&mut self, ok: bool, requester: AgentId) {
        self.now = self.now.plus(std::time::Duration::from_millis(MINUTE as u64));
        let id = DealId::new(self.now, &[b"deal"]);
        let minor = |minor: i64| Amount::new(minor).unwrap();
        let settled_at = self.now.minus(self.stale);
        let mut settlement = EscrowSettlement {
            vcap_version: VCAP_VERSION.to_owned(),
            message_type: "escrow_settlement".to_owned(),
            escrow_id: id,
            negotiation_id: id,
            status: if ok { EscrowStatus::Released } else { EscrowStatus::Refunded },
            reason: (!ok).then_some(RefundReason::DeadlineMissed),
            verification_id: None,
            proof_hash: None,
            proof_signature: None,
            evidence: None,
            platform_fee: None,
            settled_at,
            requester,
            provider: agent(),
            currency: Asset::USDC,
            released_minor: minor(if ok { 12_505_000 } else { 0 }),
            refunded_minor: minor(if ok { 0 } else { 12_505_000 }),
            verifier_paid_minor: minor(0),
            method: "none".to_owned(),
            terms_hash: sha256(b"terms"),
        };
        let verdict = self.verifier.as_ref().map(|(key, before)| {
            let completed_at = settled_at.minus(*before);
            judge(&mut settlement, key, completed_at)
        });
        let key = self.house.settlement.public();
        let signature = settlement.sign(&self.house.settlement).unwrap();
        self.count(Fact {
            dimension: Dimension::Ap2,
            source: id.to_string(),
            ok,
            released_cents: if ok { 1250 } else { 0 },
            counterparty: Some(requester),
            proof: settlement.proof_hash,
            at: self.now,
        });
        let receipt = SettlementReceipt { settlement, key, signature };
        self.settled.push(Settled { receipt, verdict, ordered: None });
    }

    /// Where the window begins among the facts.
    fn first(&self) -> usize {
        let begin = self.now.minus(WINDOW);
        self.facts.iter().take_while(|fact| fact.fact.at <= begin).count()
    }

    /// The newest facts of the window.
    fn shown(&self) -> &[NumberedFact] {
        let newest = self.facts.len().saturating_sub(CERTIFICATE_FACTS_MAX);
        &self.facts[self.first().max(newest)..]
    }

    pub fn base(&self) -> Totals {
        let mut base = Totals::default();
        for fact in &self.facts[..self.first()] {
            base.add(&fact.fact);
        }
        base
    }

    pub fn chain_before(&self) -> Hash32 {
        match self.first() {
            0 => Hash32::ZERO,
            first => self.chains[first - 1],
        }
    }

    pub fn with_record<T>(&self, imports: bool, use_it: impl FnOnce(&Record<'_>) -> T) -> T {
        let (base, parameters) = (self.base(), Parameters::SPEC);
        let around = around(self.now, &base, &parameters);
        use_it(&Record {
            agent: &agent(),
            track: &self.track,
            around: &around,
            chain_before: self.chain_before(),
            facts: self.shown(),
            breadth: &self.breadth,
            with_imports: imports,
        })
    }

    pub fn publication(&self, imports: bool) -> Publication {
        let publication = self
            .with_record(imports, |record| publish::publication(record, &self.house.platform()));
        publication.sign(&self.house.issuer).unwrap()
    }

    pub fn value(&self) -> Value {
        serde_json::to_value(self.publication(true)).unwrap()
    }

    pub fn certificate(&self) -> Certificate {
        Certificate {
            agent_id: agent(),
            publication: self.value(),
            facts: self.shown().to_vec(),
            chain_before: match self.facts.len() - self.shown().len() {
                0 => Hash32::ZERO,
                before => self.chains[before - 1],
            },
            session_proofs: self.proofs.iter().rev().take(10).cloned().collect(),
            settlements: self.settled.iter().rev().take(20).cloned().collect(),
            imported: self.imported.clone(),
            keys: self.house.keys(),
        }
    }

    /// Signs a changed publication as its issuer would.
    pub fn resign(&self, publication: &mut Value) {
        let issuer = publication["issuer"].as_object_mut().unwrap();
        issuer.remove("signature");
        let bytes = skep_base::json::to_vec(publication).unwrap();
        let signature = self.house.issuer.sign(&bytes).to_string();
        publication["issuer"]["signature"] = Value::String(signature);
    }
}

/// Signs for the work of a settlement.
fn judge(said: &mut EscrowSettlement, key: &SecretKey, completed_at: Timestamp) -> Verdict {
    let verification_id = said.escrow_id.verification(1);
    let (passed, proof_hash) = (said.status == EscrowStatus::Released, sha256(b"proof"));
    let body = ProofBody {
        verification_id,
        negotiation_id: said.negotiation_id,
        escrow_ref: said.escrow_id,
        passed,
        proof_hash,
        completed_at,
    };
    let signature = key.sign(&skep_base::json::to_vec(&body).unwrap());
    said.verification_id = Some(verification_id);
    said.proof_hash = Some(proof_hash);
    said.proof_signature = Some(signature);
    let (verifier, kid) = (AgentId([0x99; 20]), "v".to_owned());
    Verdict { verifier, kid, key: key.public(), passed, completed_at }
}

pub fn around<'a>(now: Timestamp, base: &'a Totals, parameters: &'a Parameters) -> Around<'a> {
    Around { now, base, has_key: true, cooldown: false, parameters }
}
