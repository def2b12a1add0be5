//! Whose word a certificate rests on besides the marketplace's.

use std::sync::atomic::{AtomicBool, Ordering};

use skep_base::hash::sha256;
use skep_market::{Known, check_score};
use skep_score::{Dimension, Fact, verify::Source};
use skep_store::track_key;
use skep_wire::{
    hire::EscrowVerb,
    score::{
        CERTIFICATE_FACTS_MAX, Certificate, IssuerKey, KeyPurpose, Ordered, VerifyAnswer,
        VerifyLevel,
    },
};

use super::*;
use crate::deal_world::Looker;
use crate::pay_world::{Bill, deliver, escrow_order, escrow_terms, hire, settle};

impl World {
    async fn certificate(&self) -> Certificate {
        let ben = self.ben.id();
        self.market().certificate(&ben, Some(&ben), 100).await.unwrap()
    }

    fn check(&self, said: &Certificate) -> VerifyAnswer {
        let source = Source { keys: &said.keys, host: None };
        check_score(&said.publication, Some(said), Known::issuer(&source), self.f.now())
    }

    /// The checks that fail once a certificate was changed.
    fn fails(&self, said: &Certificate, change: impl Fn(&mut Certificate)) -> String {
        let mut changed = said.clone();
        change(&mut changed);
        let answer = self.check(&changed);
        assert!(!answer.verified && answer.level < Some(VerifyLevel::L3), "{answer:?}");
        let failed = answer.failed_checks.iter();
        failed.map(|failed| format!("{}: {}", failed.check, failed.detail)).collect()
    }

    /// Counts as many made-up settlements of a cent each.
    async fn grow(&self, by: u64) {
        let ben = self.ben.id();
        let load = Load { facts: vec![WantedFacts::of(&ben, Lock::Exclusive)], ..Load::default() };
        let step = move |turn: &mut Turn| {
            let stored: Option<Track> = turn.record(&track_key(&ben))?;
            let last = turn.counted(&ben)?.last;
            let mut track = Track::resume(stored.unwrap_or_default(), last.map(mark));
            for _ in 0..by {
                let source = format!("made up {}", track.facts);
                let mut fact = Fact {
                    dimension: Dimension::Ap2,
                    source: source.clone(),
                    ok: true,
                    released_cents: 1,
                    counterparty: None,
                    proof: None,
                    at: turn.now(),
                };
                let n = track.count(&ben, &mut fact);
                let row = made_up(ben, fact.at, n, track.totals);
                let chain = track.chain;
                turn.add_fact(ScoreFact { source, released_cents: 1, chain, ..row })?;
            }
            turn.put(&track_key(&ben), &track.into_stored())?;
            Ok::<_, Bug>(Decision::Commit("null".to_owned()))
        };
        let call = Call { load, guards: vec![], step: Box::new(step) };
        self.market().store().call(call).await.unwrap();
    }

    /// Ann hires Ben for two cents, and he has delivered.
    async fn hired(&self, n: u64) -> DealId {
        let wanted = hire(&self.ann, self.ben.id(), n, json!({}));
        let terms = escrow_terms(&wanted, self.ben.id(), 20_000);
        let bill = Bill::for_escrow(&self.market().rail(), &self.ann, &terms, &wanted);
        let id = settle(self.market(), &bill.request()).await.escrow_id.unwrap().parse().unwrap();
        deliver(&self.f, id, result()).await;
        id
    }
}

fn result() -> Hash32 {
    sha256(b"the result")
}

on_both_engines! {
    async fn a_certificate_says_whose_word_it_rests_on(f: Fixture) {
        let w = World::new(f).await;
        w.f.fund(&w.ann, 901, 10_000_000).await;
        let judged = [End::Verified, End::Failed, End::OwnWordGood, End::Rejected];
        for how in judged {
            end(&w, how).await;
        }
        // Nobody has judged what never came: that is the node's word alone. So is it that a verdict
        // was not bargained away.
        for how in [End::DeliveredFailed, End::BadAndAgreed(0), End::BadAndAgreed(9_999)] {
            end(&w, how).await;
        }
        let (hired, other) = (w.hired(1).await, w.hired(2).await);
        for id in [hired, other] {
            let order = escrow_order(id, EscrowVerb::Release, &w.ann, Some(result()));
            w.market().escrow_order(id, EscrowVerb::Release, order).await.unwrap();
        }
        // A verdict stays good when its key is replaced.
        let key = w.ann.other_key(1);
        w.f.change(&w.ann, w.ann.rotate(&key, w.f.now())).await.unwrap();
        let good = w.certificate().await;
        let answer = w.check(&good);
        assert_eq!((answer.failed_checks, answer.level), (vec![], Some(VerifyLevel::L3)));
        let coverage = answer.coverage.unwrap();
        assert_eq!((coverage.settlements_proven, coverage.settlements_independent), (9, 6));

        let missing = "settlements.verdict: settlement";
        let all = w.fails(&good, |c| c.settlements.iter_mut().for_each(|s| s.verdict = None));
        assert_eq!(all.matches(missing).count(), judged.len(), "{all}");
        let held: Vec<usize> =
            (0..9).filter(|n| good.settlements[*n].verdict.is_some()).collect();
        assert_eq!(held.len(), judged.len());
        for n in held {
            let found = w.fails(&good, |c| c.settlements[n].verdict = None);
            assert!(found.contains("verdict is missing"), "{found}");
            let found = w.fails(&good, |c| {
                let verdict = c.settlements[n].verdict.as_mut().unwrap();
                verdict.passed = !verdict.passed;
            });
            assert!(found.contains("has not signed it"), "{found}");
        }
        // Without its buyer's word a hire is the node's word, and says so.
        let mut quiet = good.clone();
        quiet.settlements.iter_mut().for_each(|s| s.ordered = None);
        assert_eq!(w.check(&quiet).coverage.unwrap().settlements_independent, 4);
    }

    async fn a_long_record_is_certified_while_it_grows(f: Fixture) {
        let w = World::new(f).await;
        let most = u64::try_from(CERTIFICATE_FACTS_MAX).unwrap();
        w.grow(most + 20).await;
        let certified = AtomicBool::new(false);
        let growing = async {
            while !certified.load(Ordering::Relaxed) {
                w.grow(1).await;
            }
        };
        let certifying = async {
            for _ in 0..20 {
                let answer = w.check(&w.certificate().await);
                // Of what is made up there are no receipts.
                let of_facts = |check: &str| check.starts_with("facts.");
                let failed: Vec<_> =
                    answer.failed_checks.iter().filter(|failed| of_facts(&failed.check)).collect();
                assert!(failed.is_empty(), "{failed:?}");
                assert_eq!(answer.coverage.unwrap().facts_shown, most);
            }
            certified.store(true, Ordering::Relaxed);
        };
        tokio::join!(growing, certifying);
        assert!(w.track().await.facts > most + 20, "nothing grew meanwhile");
    }

    async fn a_clock_that_is_put_back_makes_no_bad_evidence(f: Fixture) {
        let w = World::new(f).await;
        w.f.fund(&w.ann, 901, 10_000_000).await;
        w.f.clock.advance(HOUR);
        w.paid().await;
        w.f.clock.set(w.f.now().minus(Duration::from_secs(60)));
        let counted_at = w.track().await.last_at.unwrap();
        let said = w.certificate().await;
        let computed_at = said.publication["issuer"]["computed_at"].clone();
        assert_eq!(computed_at, json!(counted_at));
        let answer = w.check(&said);
        assert_eq!((answer.failed_checks, answer.level), (vec![], Some(VerifyLevel::L3)));
    }

    async fn the_nodes_own_verifier_is_announced_and_not_independent(f: Fixture) {
        let mut w = World::new(f).await;
        for how in [End::Verified, End::Failed, End::OwnWordGood] {
            end(&w, how).await;
        }
        let by = |said: &Certificate, who: &Looker| {
            let verdicts = said.settlements.iter().filter_map(|s| s.verdict.as_ref());
            verdicts.filter(|verdict| verdict.verifier == who.id()).count() as u64
        };
        let good = w.certificate().await;
        assert_eq!(w.check(&good).coverage.unwrap().settlements_independent, 3);
        let (vera, viv) = (by(&good, &w.vera), by(&good, &w.viv));
        assert_eq!(vera + viv, 2, "the third is the buyer's own word");
        let (own, theirs) = if vera > 0 { (&w.vera, vera) } else { (&w.viv, viv) };
        let (id, key) = (own.id(), own.key.public());
        w.f.market = w.market().clone().with_own_verifier(Some(id));
        w.market().announce_score_keys().await.unwrap();
        let said = w.certificate().await;
        let keys = &said.keys.keys;
        let own = keys.iter().filter(|key| key.purpose == KeyPurpose::Verifier);
        assert_eq!(own.filter_map(IssuerKey::public_key).collect::<Vec<_>>(), [key]);
        let answer = w.check(&said);
        assert_eq!(answer.failed_checks, []);
        assert_eq!(answer.coverage.unwrap().settlements_independent, 3 - theirs);
        // It stays so for nodes that do not have it any more.
        w.f.market = w.market().clone().with_own_verifier(None);
        assert_eq!(w.certificate().await.keys.keys, said.keys.keys);
    }

    async fn a_buyers_order_counts_for_its_own_escrow_only(f: Fixture) {
        let w = World::new(f).await;
        w.f.fund(&w.ann, 901, 10_000_000).await;
        let (hired, other) = (w.hired(1).await, w.hired(2).await);
        let release =
            |id, by: &Person| escrow_order(id, EscrowVerb::Release, by, Some(result()));
        w.market().escrow_order(hired, EscrowVerb::Release, release(hired, &w.ann)).await.unwrap();
        let good = w.certificate().await;
        assert_eq!(w.check(&good).failed_checks, []);
        let changes = [
            ("/order/escrow_id", json!(other)),
            ("/order/verb", json!("refund")),
            ("/order/by", json!(w.ben.id())),
            ("/order/result_hash", json!(Hash32::ZERO)),
            ("/order/issued_at", json!(w.f.now().plus(DAY))),
            ("/order/signature", json!(release(other, &w.ann).signature)),
            ("/terms/hire_hash", json!(Hash32::ZERO)),
            ("/terms/buyer", json!(w.ben.id())),
            ("/terms/seller", json!(w.ann.id())),
            ("/terms/payee", json!(w.ann.id())),
            ("/terms/amount", json!("20001")),
            ("/terms/capability", json!("custom.test.other")),
            ("/terms/verification_window_ms", json!(1)),
            ("/terms/deliver_within_ms", json!(1)),
        ];
        for (place, value) in changes {
            let found = w.fails(&good, |c| {
                let mut ordered = json!(c.settlements[0].ordered);
                *ordered.pointer_mut(place).unwrap() = value.clone();
                c.settlements[0].ordered = serde_json::from_value(ordered).unwrap();
            });
            assert!(found.starts_with("settlements.order: "), "{place}: {found}");
        }
        // Signed well, but not what is needed.
        let refund = escrow_order(hired, EscrowVerb::Refund, &w.ann, Some(result()));
        for order in [refund, release(hired, &w.ben), release(other, &w.ann)] {
            let found = w.fails(&good, |c| {
                let Ordered { terms, .. } = c.settlements[0].ordered.clone().unwrap();
                c.settlements[0].ordered = Some(Ordered { terms, order: order.clone() });
            });
            assert!(found.starts_with("settlements.order: "), "{order:?}: {found}");
        }
    }
}
