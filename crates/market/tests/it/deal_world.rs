//! A requester, a provider, two verifiers and a reviewer, with everything that they say.

use std::fmt::{Debug, Write as _};

use serde_json::{Value, json};
use skep_base::{
    AgentId, Amount, Asset, Timestamp,
    ed25519::SecretKey,
    hash::sha256,
    id::{DealId, TransferId, VerificationId},
};
use skep_market::{
    AGENT_KID, Answered, CallbackTaken, DealAnswer, DealRefusal, Failure, Market,
    NegotiationAnswer, Refusal,
};
use skep_settle::{Policy, proof};
use skep_store::{AccountId, Bug, Call, Decision, Load, Order, RouteKey, Turn};
use skep_wire::settle::{
    Action, Agreement, BaselineReport, Dispute, EngineOffer, EscrowSettlement, Fingerprints,
    NewVerifierKey, Objection, Outcome, ProofBundle, RegisterVerifier, Split, Verification,
    VerificationCallback, VerifierStamp, engine,
};

use crate::fixture::*;

pub const PRICE: i64 = 1000;

/// Someone who looks at work, with a key for that.
pub struct Looker {
    pub person: Person,
    pub key: SecretKey,
    pub kid: &'static str,
}

impl Looker {
    pub fn new(number: u8) -> Looker {
        Looker { person: Person::new(number), key: SecretKey::from_seed([number; 32]), kid: "k1" }
    }

    pub fn id(&self) -> AgentId {
        self.person.id()
    }

    /// What it registers with.
    pub fn offers(&self, engines: &[&str]) -> RegisterVerifier {
        RegisterVerifier {
            engines: engines.iter().map(|kind| offer(kind)).collect(),
            key: self.new_key(),
            prices: vec![],
            bundle_less: false,
        }
    }

    pub fn new_key(&self) -> NewVerifierKey {
        NewVerifierKey {
            kid: self.kid.to_owned(),
            public_key: self.key.public(),
            not_before: None,
            not_after: None,
        }
    }
}

pub struct World {
    pub f: Fixture,
    pub ann: Person,
    pub ben: Person,
    /// Accredited, with the engines artifact and http.
    pub vera: Looker,
    pub viv: Looker,
    /// Accredited, human.
    pub rex: Looker,
}

impl World {
    pub async fn new(f: Fixture) -> World {
        World::with_policy(f, Policy::default()).await
    }

    pub async fn with_policy(mut f: Fixture, policy: Policy) -> World {
        let (vera, viv, rex) = (Looker::new(11), Looker::new(12), Looker::new(13));
        let accredited = [vera.id(), viv.id(), rex.id()];
        f.market = f.market.clone().with_accredited(accredited).with_policy(policy);
        let (ann, ben) = (Person::new(1), Person::new(2));
        for person in [&ann, &ben, &vera.person, &viv.person, &rex.person] {
            f.register(person).await;
        }
        f.fund(&ann, 900, 100_000).await;
        let world = World { f, ann, ben, vera, viv, rex };
        for looker in [&world.vera, &world.viv] {
            world.register(looker, &[engine::ARTIFACT, engine::HTTP]).await;
        }
        world.register(&world.rex, &[engine::HUMAN]).await;
        world
    }

    pub fn market(&self) -> &Market {
        &self.f.market
    }

    pub async fn register(&self, looker: &Looker, engines: &[&str]) {
        self.register_as(looker, looker.offers(engines)).await;
    }

    pub async fn register_as(&self, looker: &Looker, request: RegisterVerifier) {
        let signed = looker.person.signed("register verifier");
        self.market().register_verifier(&signed, request).await.unwrap();
    }

    /// 3.1, in minor units of USDC.
    pub fn request(&self, more: Value) -> Value {
        let mut message = json!({
            "vcap_version": "1.0",
            "message_type": "negotiation_request",
            "requester": {"agent_id": self.ann.id(), "platform": "skep"},
            "provider": {"agent_id": self.ben.id(), "platform": "skep"},
            "request": {
                "service_type": "text.write", "description": "Write hello",
                "budget_amount": 0.001, "budget_currency": "USDC",
            },
            "verification_hints": {"type": "artifact", "expected_content": "hello"},
        });
        merge(&mut message, more);
        message
    }

    pub async fn open(&self, more: Value) -> Result<DealId, Failure> {
        self.open_as(&self.ann, more).await
    }

    pub async fn open_as(&self, who: &Person, more: Value) -> Result<DealId, Failure> {
        let raw = self.request(more);
        let signed = who.signed(&raw.to_string());
        let message = serde_json::from_str(&raw.to_string()).unwrap();
        let opened = self.market().negotiation_open(&signed, message, raw).await?;
        Ok(opened.value.negotiation_id)
    }

    pub async fn respond(
        &self,
        who: &Person,
        id: DealId,
        status: &str,
        more: Value,
    ) -> Result<Answered<NegotiationAnswer>, Failure> {
        let mut raw = json!({
            "vcap_version": "1.0", "message_type": "negotiation_response",
            "negotiation_id": id, "response_status": status,
        });
        merge(&mut raw, more);
        let message = serde_json::from_str(&raw.to_string()).unwrap();
        let signed = who.signed(&raw.to_string());
        self.market().negotiation_respond(&signed, id, message, raw).await
    }

    /// A deal that both have agreed on.
    pub async fn agreed(&self, more: Value) -> DealId {
        let id = self.open(more).await.unwrap();
        self.respond(&self.ben, id, "ACCEPTED", json!({})).await.unwrap();
        id
    }

    pub async fn deliver(&self, id: DealId, more: Value) -> Result<DealAnswer, Failure> {
        self.deliver_as(&self.ben, id, more).await
    }

    pub async fn deliver_as(
        &self,
        who: &Person,
        id: DealId,
        more: Value,
    ) -> Result<DealAnswer, Failure> {
        let raw = self.delivery(who, id, more);
        let message = serde_json::from_str(&raw.to_string()).unwrap();
        let signed = who.signed(&raw.to_string());
        Ok(self.market().deal_deliver(&signed, message, raw).await?.value)
    }

    /// 3.4.
    pub fn delivery(&self, who: &Person, id: DealId, more: Value) -> Value {
        let mut raw = json!({
            "vcap_version": "1.0", "message_type": "service_delivery",
            "negotiation_id": id, "escrow_id": id,
            "provider": {"agent_id": who.id()},
            "delivery": {
                "status": "success", "description": "Here",
                "artifacts": [{"type": "text", "content": "Hello"}],
            },
            "delivered_at": self.f.now(),
        });
        merge(&mut raw, more);
        raw
    }

    /// A delivered deal, and what its verifier has to answer.
    pub async fn delivered(&self, more: Value) -> (DealId, VerificationId) {
        let id = self.agreed(more).await;
        let answer = self.deliver(id, json!({})).await.unwrap();
        (id, answer.verification_id.unwrap())
    }

    pub async fn agreement(&self, id: DealId) -> Agreement {
        self.market().agreement(&self.ann.id(), id).await.unwrap()
    }

    /// `agreement escrow verification` in their words.
    pub async fn states(&self, id: DealId) -> String {
        let agreement = self.agreement(id).await;
        let last = agreement.verifications.last().copied();
        let verification = match last {
            Some(last) => format!("{:?}", self.verification(last).await.status),
            None => "-".to_owned(),
        };
        format!("{:?} {:?} {verification}", agreement.status, agreement.escrow_status)
    }

    pub async fn verification(&self, id: VerificationId) -> Verification {
        self.market().verification(&self.ann.id(), id).await.unwrap()
    }

    /// The one of the two who was asked.
    pub async fn asked(&self, id: VerificationId) -> &Looker {
        let verifier = self.verification(id).await.verifier.unwrap();
        if verifier == self.vera.id() { &self.vera } else { &self.viv }
    }

    /// What a verifier would send.
    pub async fn finding(&self, id: VerificationId, by: &Looker, outcome: Outcome) -> ProofBundle {
        let request = self.verification(id).await.request;
        let now = self.f.now();
        bundle(&request, by.id(), by.kid, outcome, now)
    }

    pub async fn callback(&self, message: VerificationCallback) -> Result<CallbackTaken, Failure> {
        let raw = serde_json::to_value(&message).unwrap();
        self.market().callback(message.verification_id, message, raw).await
    }

    /// The asked verifier's word.
    pub async fn judge(
        &self,
        id: VerificationId,
        outcome: Outcome,
    ) -> Result<CallbackTaken, Failure> {
        let message = self.verdict(id, outcome).await;
        self.callback(message).await
    }

    /// The asked verifier's word, before it is sent.
    pub async fn verdict(&self, id: VerificationId, outcome: Outcome) -> VerificationCallback {
        let by = self.asked(id).await;
        let bundle = self.finding(id, by, outcome).await;
        proof::seal(bundle, Some("Hello".to_owned()), &by.key).unwrap()
    }

    /// The requester's own word, where it is the verifier.
    pub async fn judge_as_requester(
        &self,
        id: VerificationId,
        outcome: Outcome,
    ) -> Result<CallbackTaken, Failure> {
        let request = self.verification(id).await.request;
        let bundle = bundle(&request, self.ann.id(), AGENT_KID, outcome, self.f.now());
        self.callback(proof::seal(bundle, None, &self.ann.key).unwrap()).await
    }

    /// The reviewer's decision; `released` divides the price.
    pub async fn decide(
        &self,
        id: DealId,
        outcome: Outcome,
        released: Option<i64>,
    ) -> Result<CallbackTaken, Failure> {
        self.decide_as(&self.rex, id, outcome, released).await
    }

    pub async fn decide_as(
        &self,
        by: &Looker,
        id: DealId,
        outcome: Outcome,
        released: Option<i64>,
    ) -> Result<CallbackTaken, Failure> {
        let file = self.market().review(&self.rex.id(), id).await?;
        let mut bundle = bundle(&file.request, by.id(), by.kid, outcome, self.f.now());
        bundle.supersedes = file.supersedes;
        let price = file.agreement.price.amount.minor();
        bundle.split = released.map(|released| skep_wire::settle::SplitVerdict {
            released_minor: Amount::new(released).unwrap(),
            refunded_minor: Amount::new(price - released).unwrap(),
        });
        self.send_decision(proof::seal(bundle, None, &by.key).unwrap()).await
    }

    pub async fn send_decision(
        &self,
        message: VerificationCallback,
    ) -> Result<CallbackTaken, Failure> {
        let raw = serde_json::to_value(&message).unwrap();
        self.market().review_decide(message.verification_id, message, raw).await
    }

    /// `available/held/owed` of requester and provider, and what their deal still holds.
    pub async fn money(&self, id: DealId) -> String {
        let prefix = format!("escrow:{id}:");
        let escrow = self.market().store().accounts(&prefix, 1).await.unwrap();
        let escrow = escrow.first().map_or(0, |account| account.posted.minor());
        let (ann, ben) = (self.f.balance(&self.ann).await, self.f.balance(&self.ben).await);
        let ben = ben.replace("none", "0/0/0");
        format!("{ann} {ben} {escrow}")
    }

    /// Lets every timer act that is due.
    pub async fn run_timers(&self) {
        while self.market().do_due_jobs().await.unwrap() > 0 {}
    }

    pub async fn cancel(&self, who: &Person, id: DealId) -> Result<DealAnswer, Failure> {
        Ok(self.market().deal_cancel(&who.signed("cancel"), id).await?.value)
    }

    pub async fn refund(&self, who: &Person, id: DealId) -> Result<DealAnswer, Failure> {
        Ok(self.market().deal_refund(&who.signed("refund"), id).await?.value)
    }

    pub async fn split(
        &self,
        who: &Person,
        id: DealId,
        released: i64,
    ) -> Result<DealAnswer, Failure> {
        let split = Split { released_minor: Amount::new(released).unwrap() };
        Ok(self.market().deal_split(&who.signed("split"), id, split).await?.value)
    }

    pub async fn dispute(&self, who: &Person, id: DealId) -> Result<DealAnswer, Failure> {
        let dispute = Dispute { reason: "It is there".to_owned() };
        Ok(self.market().deal_dispute(&who.signed("dispute"), id, dispute).await?.value)
    }

    pub async fn object(&self, who: &Person, id: DealId) -> Result<DealAnswer, Failure> {
        let objection = Objection { reason: "I see nothing".to_owned() };
        Ok(self.market().deal_object(&who.signed("object"), id, objection).await?.value)
    }

    pub async fn baseline(&self, who: &Person, id: DealId) -> Result<DealAnswer, Failure> {
        let report = BaselineReport { fingerprint: sha256(b"before") };
        Ok(self.market().deal_baseline(&who.signed("baseline"), id, report).await?.value)
    }

    /// What the market thinks of somebody.
    pub async fn set_standing(&self, who: &Person, mut standing: Value) {
        if standing.get("tier").is_none() {
            standing["tier"] = json!("BASIC");
        }
        let standing = serde_json::from_value(standing).unwrap();
        self.market().set_standing(who.id(), standing, "a test".to_owned()).await.unwrap();
    }

    /// Money of the platform's own, where a deal would take it from.
    pub async fn fund_subsidy(&self, deal: DealId, n: u64, minor: i64) {
        let credit = AccountId::subsidy(deal.as_bytes(), Asset::USDC);
        let order = Order {
            id: id(n),
            route: RouteKey::of(id(n)),
            debit: AccountId::external("bank", Asset::USDC),
            credit: credit.clone(),
            amount: Amount::new(minor).unwrap(),
            budget: None,
        };
        let step = move |turn: &mut Turn| {
            turn.book.transfer(order.clone()).map_err(|e| Bug(e.to_string()))?;
            Ok(Decision::Commit("null".to_owned()))
        };
        let load = Load { accounts: vec![credit], ..Load::default() };
        let call = Call { load, guards: vec![], step: Box::new(step) };
        self.market().store().call(call).await.unwrap();
    }

    /// What the subsidy account of a deal has.
    pub async fn subsidy(&self, deal: DealId) -> i64 {
        let account = AccountId::subsidy(deal.as_bytes(), Asset::USDC);
        let found = self.market().store().accounts(account.as_str(), 1).await.unwrap();
        found.first().map_or(0, |account| account.posted.minor())
    }

    /// What the platform has earned.
    pub async fn fees(&self) -> i64 {
        let fees = AccountId::fees(Asset::USDC);
        self.market().store().journal_balance(fees).await.unwrap()
    }

    pub async fn settlement(&self, id: DealId) -> EscrowSettlement {
        let receipt = self.market().settlement(id).await.unwrap();
        skep_wire::identity::Statement::verify(
            &receipt.settlement,
            &receipt.key,
            &receipt.signature,
        )
        .unwrap();
        receipt.settlement
    }

    /// Takes all that somebody has, whatever was promised: as a thief would, or a chargeback.
    pub async fn empty(&self, who: &Person) {
        let debit = AccountId::wallet(&who.id(), Asset::USDC);
        let from = debit.clone();
        let unique = TransferId::from_bytes(*who.id().as_bytes().first_chunk().unwrap());
        let step = move |turn: &mut Turn| {
            let amount = turn.book.account(&from).unwrap().available();
            let order = Order {
                id: unique,
                route: RouteKey::of(unique),
                debit: from.clone(),
                credit: AccountId::external("bank", Asset::USDC),
                amount,
                budget: None,
            };
            turn.book.transfer(order).map_err(|e| Bug(e.to_string()))?;
            Ok(Decision::Commit("null".to_owned()))
        };
        let load = Load { accounts: vec![debit], ..Load::default() };
        let call = Call { load, guards: vec![], step: Box::new(step) };
        self.market().store().call(call).await.unwrap();
    }

    /// Every account, what the platform earned and what became of a deal.
    pub async fn whole(&self, deal: Option<DealId>) -> String {
        let mut whole = format!("fees {}\n", self.fees().await);
        for account in self.market().store().accounts("", 1000).await.unwrap() {
            let skep_store::Account { id, posted, held, owed, .. } = account;
            writeln!(whole, "{id} {posted} {held} {owed}").unwrap();
        }
        if let Some(id) = deal {
            let negotiation = self.market().negotiation(&self.ann.id(), id).await.unwrap();
            writeln!(whole, "{:?}", negotiation.status).unwrap();
            let agreement = self.market().agreement(&self.ann.id(), id).await;
            if agreement.is_ok() {
                whole.push_str(&self.states(id).await);
            }
        }
        whole
    }

    /// Why an attack was refused. It has changed nothing.
    pub async fn thwarted<T: Debug>(
        &self,
        deal: impl Into<Option<DealId>>,
        attack: impl Future<Output = Result<T, Failure>>,
    ) -> Refusal {
        let deal = deal.into();
        let before = self.whole(deal).await;
        let refused = refusal(attack.await);
        assert_eq!(self.whole(deal).await, before, "an attack changed something: {refused:?}");
        refused
    }

    /// The same, where a rule of deals said no.
    pub async fn thwarted_deal<T: Debug>(
        &self,
        deal: impl Into<Option<DealId>>,
        attack: impl Future<Output = Result<T, Failure>>,
    ) -> DealRefusal {
        match self.thwarted(deal, attack).await {
            Refusal::Deal { reason } => reason,
            other => panic!("expected a deal's refusal, not {other:?}"),
        }
    }
}

pub fn bundle(
    request: &skep_wire::settle::VerificationRequest,
    verifier: AgentId,
    kid: &str,
    outcome: Outcome,
    now: Timestamp,
) -> ProofBundle {
    let action =
        Action { success: outcome.passed(), duration_ms: Some(3), ..Action::begun(0, "READ", now) };
    ProofBundle {
        format: String::new(),
        verification_id: request.verification_id,
        negotiation_id: request.negotiation_id,
        escrow_ref: request.context.escrow_ref,
        terms_hash: request.terms_hash,
        spec: request.spec.clone(),
        outcome,
        failure_reason: (!outcome.passed()).then(|| "it is not there".to_owned()),
        error: None,
        extracted_content_sha256: None,
        action_log: vec![serde_json::to_value(action).unwrap()],
        action_log_head: None,
        chain_alg: String::new(),
        fingerprints: Fingerprints::default(),
        artifact_hashes: vec![],
        verifier: VerifierStamp { id: verifier, kid: kid.to_owned(), software: "test".to_owned() },
        agent_identity: None,
        supersedes: None,
        split: None,
        started_at: now,
        completed_at: now,
    }
}

pub fn offer(kind: &str) -> EngineOffer {
    let kind = kind.to_owned();
    EngineOffer { kind, hint_fields: vec![], actions: vec![], proof_fields: vec![] }
}

/// Puts `more` over `message`, deep.
pub fn merge(message: &mut Value, more: Value) {
    match (message, more) {
        (Value::Object(message), Value::Object(more)) => {
            for (key, value) in more {
                merge(message.entry(key).or_insert(Value::Null), value);
            }
        }
        (message, more) => *message = more,
    }
}

/// The rule of deals that said no.
pub fn deal_refusal<T: Debug>(result: Result<T, Failure>) -> DealRefusal {
    match refusal(result) {
        Refusal::Deal { reason } => reason,
        other => panic!("expected a deal's refusal, not {other:?}"),
    }
}
