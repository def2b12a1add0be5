//! What anybody may try.

use std::time::Duration;

use serde_json::{Value, json};
use skep_base::{AgentId, Amount, Timestamp, hash::sha256, id::DealId};
use skep_market::AGENT_KID;
use skep_settle::{Deal, deal::Attempt, proof};
use skep_wire::settle::{
    BaselineReport, Dispute, EscrowStatus, NegotiationStatus, Objection, Outcome, Role, Split,
    SplitVerdict, Tier, VerificationCallback, VerificationStatus, engine,
};

use super::Town;
use crate::deal_world::{bundle, merge};

const DAY: Duration = Duration::from_secs(24 * 3600);
const PRICES: [&str; 7] = ["0.000001", "0.000007", "0.0001", "0.001", "0.012345", "0.05", "0.1"];

pub(super) type Done = Result<(), String>;

impl Town {
    pub(super) async fn step(&mut self) -> Done {
        match self.below(100) {
            0..5 => self.open_talks().await,
            5..62 => self.go_on().await,
            62..68 => self.leap().await,
            68..72 => self.run_timers().await,
            72 => {
                self.told.push("crash".to_owned());
                self.crash().await;
                Ok(())
            }
            73..75 => self.pay().await,
            75..80 => {
                let (n, minor) = (self.somebody_poor().await, self.one(&[1, 500, 30_000, 200_000]));
                self.fund(n, minor).await
            }
            80..84 => self.drain().await,
            84..87 => {
                let n = self.below(6);
                self.think_of(n).await
            }
            _ => self.nonsense().await,
        }
    }

    fn any_deal(&mut self) -> Option<DealId> {
        // The newest are the most alive.
        let from = self.deals.len().saturating_sub(8);
        let nth = self.below(self.deals.len() - from);
        self.deals.get(from + nth).copied()
    }

    fn anybody(&mut self) -> AgentId {
        match self.below(10) {
            n @ 0..6 => self.people[n].id(),
            n => self.lookers[n - 6].id(),
        }
    }

    async fn open_talks(&mut self) -> Done {
        let requester = match self.below(10) {
            9 => self.below(6),
            _ => self.below(3),
        };
        let provider = match self.below(20) {
            19 => requester,
            18 => self.below(6),
            _ => 3 + self.below(3),
        };
        let terms = self.terms();
        let mut raw = json!({
            "vcap_version": "1.0",
            "message_type": "negotiation_request",
            "requester": {"agent_id": self.people[requester].id()},
            "provider": {"agent_id": self.people[provider].id()},
            "request": {
                "service_type": "text.write", "description": "Write hello",
                "budget_currency": "USDC",
            },
        });
        let price = self.one(&PRICES);
        raw["request"]["budget_amount"] = json!(price);
        merge(&mut raw, terms);
        let signed = self.people[requester].signed(&raw.to_string());
        let message = serde_json::from_str(&raw.to_string()).unwrap();
        let opened = self.market().negotiation_open(&signed, message, raw.clone()).await;
        let what = format!("{requester} asks {provider} for {price} with {raw}");
        let Some(answer) = self.tell(what, opened)? else { return Ok(()) };
        let id = answer.value.negotiation_id;
        self.deals.push(id);
        self.alive.push(id);
        if self.pots_are_full { self.fill_the_pot_of(id).await } else { Ok(()) }
    }

    fn terms(&mut self) -> Value {
        let hints = match self.below(10) {
            0..5 => json!({"type": "artifact", "expected_content": "hello"}),
            5 => json!({"type": "http", "url": "https://a.example/", "fingerprint_delta": true}),
            6 => json!({"type": "llm", "custom": {"rubric": "good"}}),
            7 => json!({"type": "human"}),
            _ => json!({"type": "requester"}),
        };
        let mut skep = json!({});
        if let Some(policy) =
            self.one(&[None, Some("on_release"), Some("reserve"), Some("advance")])
        {
            skep["remainder_policy"] = json!(policy);
        }
        if let Some(window) = self.one(&[None, Some(600), Some(90_000)]) {
            skep["dispute_window_s"] = json!(window);
        }
        if let Some(timeout) = self.one(&[None, None, Some(60)]) {
            skep["timeout_s"] = json!(timeout);
        }
        if let Some(deadline) = self.one(&[None, None, Some(3600)]) {
            skep["review_deadline_s"] = json!(deadline);
        }
        if self.rng.percent(3) {
            skep["verifier"] = json!(self.anybody());
        } else if self.rng.percent(30) {
            skep["verifier"] = json!(self.lookers[self.rng.below(3) as usize].id());
        }
        if self.rng.percent(50) {
            skep["verifier_price_minor"] = json!("30");
        }
        if self.rng.percent(30) {
            skep["auto_approve"] = json!(true);
        }
        json!({"verification_hints": hints, "metadata": {"skep": skep}})
    }

    /// What would come next, by whoever would do it.
    async fn go_on(&mut self) -> Done {
        if self.alive.is_empty() {
            return self.open_talks().await;
        }
        let nth = self.below(self.alive.len());
        let id = self.alive[nth];
        let Some((deal, _)) = self.deal(id).await else { return self.answer(id).await };
        if deal.escrow.status() != EscrowStatus::Held {
            self.alive.swap_remove(nth);
            return Ok(());
        }
        if deal.is_in_review() {
            return self.decide(&deal, 3).await;
        }
        if deal.delivered.is_none() {
            if deal.baseline_by.is_some() && deal.baseline.is_none() && self.rng.percent(60) {
                return self.baseline(&deal, deal.baseline_by.unwrap_or(deal.provider)).await;
            }
            return match self.below(20) {
                0 => self.cancel(&deal, deal.provider).await,
                1 => self.cancel(&deal, deal.requester).await,
                2 => self.split(&deal).await,
                _ => self.deliver(&deal, deal.provider).await,
            };
        }
        let Some(attempt) = deal.last_attempt().cloned() else { return Ok(()) };
        match attempt.status {
            VerificationStatus::Failed | VerificationStatus::Rejected => {
                let by = self.one(&[deal.requester, deal.provider, deal.provider]);
                self.dispute(&deal, by).await
            }
            _ if attempt.spec.kind == engine::SELF_ATTESTED => {
                if self.rng.percent(50) {
                    self.object(&deal, deal.requester).await
                } else {
                    Ok(())
                }
            }
            _ if self.rng.percent(15) => self.split(&deal).await,
            _ => self.judge(&deal, &attempt).await,
        }
    }

    async fn answer(&mut self, id: DealId) -> Done {
        let requester = self.requester_of(id).await;
        let talks = self.market().negotiation(&requester, id).await.unwrap();
        let (Some(turn), true) = (talks.turn, talks.status != NegotiationStatus::Declined) else {
            self.alive.retain(|alive| *alive != id);
            return Ok(());
        };
        let mut who = match turn {
            Role::Requester => talks.requester,
            Role::Provider => talks.provider,
        };
        if self.rng.percent(5) {
            who = self.anybody();
        }
        let (word, more) = match self.below(20) {
            0 => ("REJECTED", json!({})),
            1..3 => {
                let price = self.one(&PRICES);
                let mut more = self.terms();
                merge(&mut more, json!({"counter_terms": {"amount": price}}));
                ("COUNTERED", more)
            }
            3 => ("ACCEPTED", json!({"counter_terms": {"amount": 7}})),
            _ => ("ACCEPTED", json!({})),
        };
        let mut raw = json!({
            "vcap_version": "1.0", "message_type": "negotiation_response",
            "negotiation_id": id, "response_status": word,
        });
        merge(&mut raw, more);
        let message = serde_json::from_str(&raw.to_string()).unwrap();
        let signed = self.person(&who).signed(&raw.to_string());
        let said = self.market().negotiation_respond(&signed, id, message, raw).await;
        let said = self.tell(format!("{who} says {word} to {id}"), said)?;
        // What cannot be closed is mostly left alone.
        if said.is_none() && self.rng.percent(50) {
            self.alive.retain(|alive| *alive != id);
        }
        Ok(())
    }

    async fn requester_of(&self, id: DealId) -> AgentId {
        for person in &self.people {
            if let Ok(talks) = self.market().negotiation(&person.id(), id).await {
                return talks.requester;
            }
        }
        panic!("nobody opened {id}");
    }

    async fn deliver(&mut self, deal: &Deal, who: AgentId) -> Done {
        let id = deal.id;
        let status = self.one(&["success", "success", "success", "success", "partial", "failed"]);
        let mut raw = json!({
            "vcap_version": "1.0", "message_type": "service_delivery",
            "negotiation_id": id, "escrow_id": id, "provider": {"agent_id": who},
            "delivery": {"status": status, "description": "Here"},
            "delivered_at": self.now(),
        });
        let hints = match self.below(12) {
            0..8 if deal.terms.auto_approve => json!({"auto_approve": true}),
            0 => json!({"expected_content": "h"}),
            1 => json!({"selector": "body"}),
            2 => json!({"auto_approve": true}),
            _ => Value::Null,
        };
        if hints.is_object() {
            raw["verification_hints"] = hints;
        }
        let message = serde_json::from_str(&raw.to_string()).unwrap();
        let signed = self.person(&who).signed(&raw.to_string());
        let said = self.market().deal_deliver(&signed, message, raw.clone()).await;
        self.tell(format!("{who} delivers {raw}"), said).map(drop)
    }

    /// The word of whoever was asked about an attempt.
    async fn judge(&mut self, deal: &Deal, attempt: &Attempt) -> Done {
        let outcomes = [Outcome::Verified, Outcome::Verified, Outcome::Failed, Outcome::Error];
        let outcome = self.one(&outcomes);
        let Some(message) = self.verdict(deal, attempt, outcome).await else { return Ok(()) };
        match self.below(12) {
            // The process ends after the proof was made and before it was sent …
            0 => self.crash().await,
            // … or after it was written, and nobody heard the answer.
            1 => {
                self.send(false, message.clone()).await?;
                self.crash().await;
            }
            _ => {}
        }
        if self.rng.percent(10) && outcome != Outcome::Error {
            let signed = self.person(&attempt.verifier.unwrap_or(deal.requester)).signed("ack");
            let id = deal.id.verification(attempt.number);
            let said = self.market().acknowledge(&signed, id).await;
            self.tell(format!("{id} is begun"), said)?;
        }
        self.send(false, message).await
    }

    async fn verdict(
        &mut self,
        deal: &Deal,
        attempt: &Attempt,
        outcome: Outcome,
    ) -> Option<VerificationCallback> {
        let who = attempt.verifier?;
        let id = deal.id.verification(attempt.number);
        let seen = self.market().verification(&deal.requester, id).await.ok()?;
        let looker = self.lookers.iter().find(|looker| looker.id() == who);
        let (key, kid) = match looker {
            Some(looker) => (&looker.key, looker.kid),
            None => (&self.person(&who).key, AGENT_KID),
        };
        let found = bundle(&seen.request, who, kid, outcome, self.now());
        Some(proof::seal(found, None, key).unwrap())
    }

    async fn send(&mut self, to_review: bool, message: VerificationCallback) -> Done {
        let (id, raw) = (message.verification_id, serde_json::to_value(&message).unwrap());
        let what = format!("{id} passed={} review={to_review}", message.passed);
        self.sent.push((to_review, message.clone()));
        let taken = match to_review {
            true => self.market().review_decide(id, message, raw).await,
            false => self.market().callback(id, message, raw).await,
        };
        self.tell(what, taken).map(drop)
    }

    /// A reviewer's decision, by the `nth` of those who look.
    async fn decide(&mut self, deal: &Deal, nth: usize) -> Done {
        let Some(review) = &deal.review else { return Ok(()) };
        let Ok(file) = self.market().review(&self.lookers[3].id(), deal.id).await else {
            return Err(format!("the reviewer cannot see {} in {review:?}", deal.id));
        };
        let outcome = self.one(&[
            Outcome::Verified,
            Outcome::Verified,
            Outcome::Rejected,
            Outcome::Rejected,
            Outcome::Error,
        ]);
        let looker = &self.lookers[nth];
        let mut found = bundle(&file.request, looker.id(), looker.kid, outcome, self.now());
        found.supersedes = file.supersedes;
        found.supersedes = file.supersedes;
        let price = deal.terms.price.amount.minor();
        if self.rng.percent(30) {
            let released = self.rng.below(price as u64 + 2) as i64;
            let rest = (price - released).max(0) + i64::from(self.rng.percent(5));
            found.split = Some(SplitVerdict {
                released_minor: Amount::new(released).unwrap(),
                refunded_minor: Amount::new(rest).unwrap(),
            });
        }
        let message = proof::seal(found, None, &self.lookers[nth].key).unwrap();
        self.send(true, message).await
    }

    /// The last word of a town: everything that waits for a person is decided by one.
    pub(super) async fn decide_finally(&mut self, deal: &Deal) -> Done {
        let file = self.market().review(&self.lookers[3].id(), deal.id).await.unwrap();
        let looker = &self.lookers[3];
        let mut found =
            bundle(&file.request, looker.id(), looker.kid, Outcome::Rejected, self.now());
        found.supersedes = file.supersedes;
        let message = proof::seal(found, None, &looker.key).unwrap();
        self.send(true, message).await
    }

    async fn baseline(&mut self, deal: &Deal, who: AgentId) -> Done {
        let signed = self.person(&who).signed("baseline");
        let report = BaselineReport { fingerprint: sha256(b"before") };
        let said = self.market().deal_baseline(&signed, deal.id, report).await;
        self.tell(format!("{who} takes the baseline of {}", deal.id), said).map(drop)
    }

    async fn cancel(&mut self, deal: &Deal, who: AgentId) -> Done {
        let signed = self.person(&who).signed("cancel");
        let said = self.market().deal_cancel(&signed, deal.id).await;
        self.tell(format!("{who} cancels {}", deal.id), said).map(drop)
    }

    async fn split(&mut self, deal: &Deal) -> Done {
        let price = deal.terms.price.amount.minor();
        let mut by = self.one(&[deal.requester, deal.provider]);
        let part = self.rng.below(price as u64 + 2) as i64;
        let mut released = self.one(&[0, part, price]);
        // Mostly what was offered before.
        if let Some(offer) = deal.split_offer.filter(|_| self.rng.percent(70)) {
            released = offer.released_minor.minor();
            by = if self.rng.percent(90) == (offer.by == Role::Requester) {
                deal.provider
            } else {
                deal.requester
            };
        }
        if self.rng.percent(3) {
            by = self.anybody();
        }
        let signed = self.person(&by).signed("split");
        let split = Split { released_minor: Amount::new(released).unwrap() };
        let said = self.market().deal_split(&signed, deal.id, split).await;
        self.tell(format!("{by} would release {released} of {}", deal.id), said).map(drop)
    }

    async fn dispute(&mut self, deal: &Deal, who: AgentId) -> Done {
        let signed = self.person(&who).signed("dispute");
        let dispute = Dispute { reason: "It is there".to_owned() };
        let said = self.market().deal_dispute(&signed, deal.id, dispute).await;
        self.tell(format!("{who} disputes {}", deal.id), said).map(drop)
    }

    async fn object(&mut self, deal: &Deal, who: AgentId) -> Done {
        let signed = self.person(&who).signed("object");
        let objection = Objection { reason: "I see nothing".to_owned() };
        let said = self.market().deal_object(&signed, deal.id, objection).await;
        self.tell(format!("{who} objects to {}", deal.id), said).map(drop)
    }

    /// What nobody should do, and everybody can try.
    async fn nonsense(&mut self) -> Done {
        let Some(id) = self.any_deal() else { return Ok(()) };
        let who = self.anybody();
        let Some((deal, _)) = self.deal(id).await else {
            let signed = self.person(&who).signed("cancel");
            let said = self.market().deal_cancel(&signed, id).await;
            return self.tell(format!("{who} cancels what is not agreed on"), said).map(drop);
        };
        match self.below(12) {
            0 => self.cancel(&deal, who).await,
            1 => self.dispute(&deal, who).await,
            2 => self.object(&deal, who).await,
            3 => self.deliver(&deal, who).await,
            4 => self.baseline(&deal, who).await,
            5 => self.split(&deal).await,
            6 => {
                let signed = self.person(&who).signed("refund");
                let said = self.market().deal_refund(&signed, id).await;
                self.tell(format!("{who} claims the refund of {id}"), said).map(drop)
            }
            7 if deal.is_in_review() => {
                let nth = self.below(3);
                self.decide(&deal, nth).await
            }
            // What was sent before, as it was, or to the other door, or for another deal.
            7..10 if !self.sent.is_empty() => {
                let nth = self.below(self.sent.len());
                let (mut door, mut message) = self.sent[nth].clone();
                match self.below(6) {
                    0 => door = !door,
                    1 => message.verification_id = id.verification(1),
                    2 => message.passed = !message.passed,
                    3 => message.proof_bundle = None,
                    _ => {}
                }
                let raw = serde_json::to_value(&message).unwrap();
                let to = message.verification_id;
                let taken = match door {
                    true => self.market().review_decide(to, message, raw).await,
                    false => self.market().callback(to, message, raw).await,
                };
                self.tell(format!("an old word about {to}"), taken).map(drop)
            }
            _ => {
                // A good proof of any attempt by whoever was asked, signed by somebody else.
                let Some(attempt) = deal.last_attempt().cloned() else { return Ok(()) };
                let made = self.verdict(&deal, &attempt, Outcome::Verified).await;
                let Some(mut message) = made else { return Ok(()) };
                message.proof_signature = self.person(&who).key.sign(b"forged");
                self.send(false, message).await
            }
        }
    }

    async fn leap(&mut self) -> Done {
        let seconds = |n| Duration::from_secs(n);
        let by = match self.below(8) {
            0 => Duration::from_millis(1),
            1 => seconds(1 + self.rng.below(60)),
            2 => seconds(self.rng.below(3600)),
            3 => seconds(self.rng.below(24 * 3600)),
            4 if self.rng.percent(30) => 7 * DAY,
            4 if self.rng.percent(20) => 20 * DAY,
            _ => {
                // Exactly to what is due next.
                let mut next: Option<Timestamp> = None;
                for (deal, _) in self.agreed().await {
                    let due = deal.due_at().filter(|due| *due > self.now());
                    next = [next, due].into_iter().flatten().min();
                }
                next.map_or(seconds(1), |next| next.since(self.now()))
            }
        };
        self.clock.advance(by);
        self.told.push(format!("{} the clock leaps by {by:?}", self.now()));
        Ok(())
    }

    pub(super) async fn run_timers(&mut self) -> Done {
        loop {
            let done = self.market().do_due_jobs().await;
            if self.tell("timers run".to_owned(), done)? == Some(0) {
                break;
            }
        }
        for (deal, _) in self.agreed().await {
            if deal.due_at().is_some_and(|due| due <= self.now()) {
                return Err(format!("the timers have run, and one is still due: {deal:#?}"));
            }
        }
        Ok(())
    }

    /// The market changes its mind about somebody.
    pub(super) async fn think_of(&mut self, n: usize) -> Done {
        let who = self.people[n].id();
        let standing = json!({
            "modifier_e4": self.one(&[2500, 4400, 4400, 9999, 10_000]),
            "tier": self.one(&[Tier::Unverified, Tier::Trusted, Tier::Trusted]),
            "subscription": self.one(&[None, Some("pro"), Some("gold")]),
            "subsidised": self.rng.percent(50),
        });
        let what = format!("{who} is thought of as {standing}");
        let standing = serde_json::from_value(standing).unwrap();
        let said = self.market().set_standing(who, standing, "a test".to_owned()).await;
        self.tell(what, said).map(drop)
    }
}
