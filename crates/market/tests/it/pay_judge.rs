//! Decision 20: who takes money back after a delivery has the result looked at by the platform.

use std::sync::Arc;

use serde_json::{Value, json};
use skep_base::{hash::json_sha256, id::DealId};
use skep_hire::capability;
use skep_market::{Challenge, Checking, Checks, Market, ResourceFilter};
use skep_wire::{
    hire::{
        CounterSignature, EscrowVerb, HirePayload, Judgement, Receipt, Reputation, Search,
        StoredReceipt, WalletSigned, receipt_id,
    },
    settle::EscrowStatus,
    x402::Discovery,
};

use crate::{fixture::*, on_both_engines, pay_world::*};

const MEAN: &str = "compute.statistics.mean";
const PRICE: i64 = 20_000;

/// The taxonomy's own checks.
#[derive(Debug)]
struct Taxonomy;

impl Checks for Taxonomy {
    fn verify<'a>(
        &'a self,
        id: &'a str,
        version: Option<&'a str>,
        params: &'a Value,
        result: &'a Value,
    ) -> Checking<'a> {
        Box::pin(async move { capability::verify(id, version, params, result) })
    }
}

/// Ann sells means, Ben buys them.
struct World {
    market: Market,
    ann: Person,
    ben: Person,
}

impl World {
    async fn of(f: &Fixture) -> World {
        let ben = Person::new(2);
        f.register(&ben).await;
        f.fund(&ben, 900, 100 * PRICE).await;
        let (ann, door) = f.seller(1).await;
        let market = f.market.clone().with_listing_challenge(Challenge::Off);
        let market = market.with_checks(Arc::new(Taxonomy));
        let more = json!({ "capability": MEAN, "payment_mode": "platform_escrow:skep" });
        market.publish_listing(ann.lists(f.now(), &door.url, more)).await.unwrap();
        World { market, ann, ben }
    }

    /// Ben asks for the mean of 1, 2 and 3, pays into escrow, and gets `result`.
    async fn delivered(&self, f: &Fixture, n: u64, result: i64) -> (DealId, Receipt) {
        self.delivered_for(f, n, result, &self.ann).await
    }

    /// The same, where somebody else may be paid.
    async fn delivered_for(
        &self,
        f: &Fixture,
        n: u64,
        result: i64,
        payee: &Person,
    ) -> (DealId, Receipt) {
        let params = json!({ "data": [1, 2, 3] });
        let asked = json!({ "capability": MEAN, "params": params });
        let wanted = hire(&self.ben, self.ann.id(), n, asked);
        let digest = wanted.digest().unwrap();
        let terms = escrow_terms(&wanted, payee.id(), PRICE);
        let bill = Bill::for_escrow(&self.market.rail(), &self.ben, &terms, &wanted);
        let paid = settle(&self.market, &bill.request()).await;
        let id: DealId = paid.escrow_id.unwrap().parse().unwrap();
        let payload = HirePayload { params, result: json!({ "result": result }) };
        let mut receipt: Receipt = serde_json::from_value(json!({
            "protocol_version": "swarmwage/v0.3", "agent_id": self.ann.id(),
            "buyer": self.ben.id(), "capability": MEAN, "amount_usdc_atomic": PRICE.to_string(),
            "network": "eip155:1397441872", "completed_at": f.now(), "escrow_id": id,
            "verification": { "all_passed": true, "checks": {} }, "tx_hash": paid.transaction,
            "payment_mode": "platform_escrow:skep", "hire_hash": digest,
            "hire_id": receipt_id(&self.ann.id(), &self.ben.id(), &digest),
            "payee": (payee.id() != self.ann.id()).then_some(payee.id()),
            "params_hash": json_sha256(&payload.params).unwrap(),
            "result_hash": json_sha256(&payload.result).unwrap(),
        }))
        .unwrap();
        receipt.sign(&self.ann.wallet).unwrap();
        self.market.submit_receipt(receipt.clone(), None).await.unwrap();
        self.market.keep_payload(&receipt.hire_id, payload).await.unwrap();
        (id, receipt)
    }

    /// Two hires that pay `payee`: one is released, one is refunded for bad work. Says what they
    /// add to Ann's score and to her listing's hires, and whether they are marked as linked.
    async fn two_hires(
        &self,
        f: &Fixture,
        n: u64,
        payee: &Person,
    ) -> ((u64, u64, u64), u64, [bool; 2]) {
        f.tick();
        let door = "http://127.0.0.1:9";
        let more = json!({
            "capability": MEAN, "payment_mode": "platform_escrow:skep", "payee": payee.id(),
        });
        self.market.publish_listing(self.ann.lists(f.now(), door, more)).await.unwrap();
        let (before, hires) = (self.counted().await, self.hires().await);
        let (id, good) = self.delivered_for(f, n, 2, payee).await;
        let order = escrow_order(id, EscrowVerb::Release, &self.ben, good.result_hash);
        self.market.escrow_order(id, EscrowVerb::Release, order).await.unwrap();
        let (id, bad) = self.delivered_for(f, n + 1, 5, payee).await;
        let order = escrow_order(id, EscrowVerb::Refund, &self.ben, None);
        self.market.escrow_order(id, EscrowVerb::Refund, order).await.unwrap();
        self.look().await;
        let mut linked = [false; 2];
        for (linked, receipt) in linked.iter_mut().zip([&good, &bad]) {
            *linked = self.market.receipt(&receipt.hire_id).await.unwrap().linked;
        }
        let after = self.counted().await;
        let added = (after.0 - before.0, after.1 - before.1, after.2 - before.2);
        (added, self.hires().await - hires, linked)
    }

    async fn hires(&self) -> u64 {
        self.reputation().await.last_30d_hire_count.unwrap()
    }

    async fn refuse(&self, f: &Fixture, id: DealId, receipt: &Receipt) -> StoredReceipt {
        let order = escrow_order(id, EscrowVerb::Refund, &self.ben, receipt.result_hash);
        self.market.escrow_order(id, EscrowVerb::Refund, order).await.unwrap();
        let mut word: CounterSignature = serde_json::from_value(json!({
            "hire_id": receipt.hire_id, "receipt_hash": receipt.hash().unwrap(),
            "buyer": self.ben.id(), "verifiable": true, "dispute": true, "signed_at": f.now(),
            "verification": { "all_passed": false, "checks": { "fits": false } },
        }))
        .unwrap();
        word.sign(&self.ben.wallet).unwrap();
        self.market.countersign(word, None).await.unwrap();
        self.market.receipt(&receipt.hire_id).await.unwrap()
    }

    async fn look(&self) {
        while self.market.do_due_jobs().await.unwrap() > 0 {}
    }

    async fn success_rate(&self) -> Option<f64> {
        self.reputation().await.success_rate
    }

    async fn reputation(&self) -> Reputation {
        let mut found = self.market.search(Search::default()).await.unwrap();
        found.agents.remove(0).reputation
    }

    /// Ben's word that all is well.
    async fn confirm(&self, f: &Fixture, receipt: &Receipt) {
        let mut word: CounterSignature = serde_json::from_value(json!({
            "hire_id": receipt.hire_id, "receipt_hash": receipt.hash().unwrap(),
            "buyer": self.ben.id(), "verifiable": true, "dispute": false, "signed_at": f.now(),
            "verification": { "all_passed": true, "checks": {} },
        }))
        .unwrap();
        word.sign(&self.ben.wallet).unwrap();
        self.market.countersign(word, None).await.unwrap();
    }

    /// How many of Ann's hires count for her score, how many of them well, and cents.
    async fn counted(&self) -> (u64, u64, u64) {
        let (track, _) = self.market.track_record(&self.ann.id()).await.unwrap();
        let report = self.market.recompute_scores(Box::new(|_, _| {})).await.unwrap();
        assert!(report.is_clean(), "{report:#?}");
        (track.totals.ap2, track.totals.ap2_ok, track.totals.released_cents)
    }

    async fn refunds_despite_pass(&self) -> u32 {
        self.market.agent(&self.ben.id().to_string()).await.unwrap().refunds_despite_pass
    }
}

/// The addresses in the order in which they are shown.
fn shown(page: &Discovery) -> Vec<&str> {
    let list = page.items.as_ref().or(page.resources.as_ref()).unwrap();
    list.iter().map(|item| item.resource.as_str()).collect()
}

on_both_engines! {
    async fn a_refund_for_good_work_does_not_count_against_the_seller(f: Fixture) {
        let w = World::of(&f).await;
        let (id, receipt) = w.delivered(&f, 1, 2).await;
        let before = w.refuse(&f, id, &receipt).await;
        assert_eq!((before.judgement, before.dispute), (Judgement::Failed, true));
        assert_eq!(w.success_rate().await, None, "who pays nothing says nothing");
        w.look().await;
        let after = w.market.receipt(&receipt.hire_id).await.unwrap();
        let found = after.findings.platform.clone().unwrap();
        assert!(found.all_passed, "{found:?}");
        // The refund stands, and so does the buyer's word; neither counts against the seller.
        assert_eq!((after.judgement, after.dispute), (Judgement::Passed, true));
        assert_eq!(after.escrow.as_deref(), Some("REFUNDED"));
        assert_eq!(w.success_rate().await, None, "nor does what went back buy a good word");
        assert_eq!(w.reputation().await.last_30d_hire_count, Some(0));
        assert_eq!(w.refunds_despite_pass().await, 1);
        assert_eq!(w.counted().await, (0, 0, 0), "nor for her score");
        assert_eq!(f.balance(&w.ben).await, "2000000/0/0");
        let kinds = f.kinds().await;
        assert_eq!(kinds.iter().filter(|kind| *kind == "receipt.judged").count(), 1);
        f.audit_is_clean().await;
    }

    async fn a_refund_for_bad_work_counts_against_the_seller(f: Fixture) {
        let w = World::of(&f).await;
        let (id, receipt) = w.delivered(&f, 1, 5).await;
        // The platform looks first, the buyer's word comes after.
        let order = escrow_order(id, EscrowVerb::Refund, &w.ben, None);
        w.market.escrow_order(id, EscrowVerb::Refund, order).await.unwrap();
        w.look().await;
        assert_eq!(w.success_rate().await, Some(0.0));
        let after = w.refuse(&f, id, &receipt).await;
        assert_eq!(after.judgement, Judgement::Failed);
        assert!(after.findings.platform.unwrap().failed());
        assert_eq!(w.success_rate().await, Some(0.0));
        assert_eq!(w.refunds_despite_pass().await, 0);
        assert_eq!(w.counted().await, (1, 0, 0));
    }

    async fn silence_after_good_work_is_counted_too(f: Fixture) {
        let w = World::of(&f).await;
        let (id, receipt) = w.delivered(&f, 1, 2).await;
        let escrow = w.market.hire_escrow(id).await.unwrap();
        assert_eq!(escrow.receipt_id.as_deref(), Some(receipt.hire_id.as_str()));
        f.clock.set(escrow.refund_at.unwrap());
        w.look().await;
        let escrow = w.market.hire_escrow(id).await.unwrap();
        assert_eq!(escrow.status, EscrowStatus::Refunded);
        assert_eq!(escrow.reason.as_deref(), Some("window_passed"));
        w.look().await;
        assert_eq!(w.refunds_despite_pass().await, 1);
        let shown = w.market.receipt(&receipt.hire_id).await.unwrap();
        assert_eq!(shown.judgement, Judgement::Passed);
    }

    async fn what_is_released_is_paid_and_nobody_looks(f: Fixture) {
        let w = World::of(&f).await;
        let (id, receipt) = w.delivered(&f, 1, 2).await;
        // The same receipt again changes nothing.
        w.market.submit_receipt(receipt.clone(), None).await.unwrap();
        w.confirm(&f, &receipt).await;
        let held = w.reputation().await;
        assert_eq!((held.last_30d_hire_count, held.success_rate), (Some(0), None));
        let order = escrow_order(id, EscrowVerb::Release, &w.ben, receipt.result_hash);
        w.market.escrow_order(id, EscrowVerb::Release, order).await.unwrap();
        w.look().await;
        let after = w.market.receipt(&receipt.hire_id).await.unwrap();
        assert!(after.findings.platform.is_none());
        let paid = w.reputation().await;
        assert_eq!((paid.last_30d_hire_count, paid.success_rate), (Some(1), Some(1.0)));
        assert_eq!(after.escrow.as_deref(), Some("RELEASED"));
        assert_eq!(w.counted().await, (1, 1, 2));
        assert_eq!(f.balance(&w.ann).await, "20000/0/0");
        f.audit_is_clean().await;
    }

    async fn a_buyer_that_pays_its_own_operator_scores_nobody(f: Fixture) {
        let w = World::of(&f).await;
        let cat = Person::new(3);
        f.register(&cat).await;
        let strangers = ((2, 1, 2), 1, [false; 2]);
        let nothing = ((0, 0, 0), 0, [true; 2]);
        assert_eq!(w.two_hires(&f, 1, &w.ann).await, strangers);
        assert_eq!(w.two_hires(&f, 3, &cat).await, strangers, "who is paid may be another");
        let key = skep_base::ed25519::SecretKey::from_seed([50; 32]);
        f.market.register_operator(operator(&key, "buyers", f.now())).await.unwrap();
        for who in [&w.ben, &cat] {
            f.change(who, who.attach(&key, f.now())).await.unwrap();
        }
        assert_eq!(w.two_hires(&f, 5, &cat).await, nothing, "the money comes back to the buyer");
        assert_eq!(w.two_hires(&f, 7, &w.ann).await, strangers);
        f.change(&w.ann, w.ann.attach(&key, f.now())).await.unwrap();
        assert_eq!(w.two_hires(&f, 9, &w.ann).await, nothing);
        f.audit_is_clean().await;
    }

    async fn what_is_paid_directly_is_discovered(f: Fixture) {
        let w = World::of(&f).await;
        let url = "http://127.0.0.1:9";
        for (n, capability) in ["custom.test.echo", "custom.test.reverse"].iter().enumerate() {
            let payee = Person::new(30 + n as u8).id();
            let price = format!("0.0{}", n + 1);
            let description = format!("words number{n}");
            let more = json!({
                "capability": capability, "payee": payee, "price_usdc": price,
                "description": description,
            });
            w.market.publish_listing(w.ann.lists(f.now(), url, more)).await.unwrap();
        }
        let any = ResourceFilter::default();
        let all = w.market.x402_resources(&any, 10, 0).await.unwrap();
        // The one in escrow is not for plain clients.
        assert_eq!(shown(&all), [format!("{url}/hire"), format!("{url}/hire")]);
        assert_eq!(all.pagination.as_ref().unwrap().total, Some(2));
        let second = w.market.x402_resources(&any, 10, 1).await.unwrap();
        assert_eq!(second.items.unwrap(), all.items.clone().unwrap()[1..]);
        let accepts = &all.items.unwrap()[0].accepts;
        assert_eq!(accepts[0]["asset"], json!(w.market.rail().asset));
        assert_eq!(accepts[1]["network"], "base-sepolia");
        for (filter, count) in [
            (ResourceFilter { kind: Some("mcp".to_owned()), ..any.clone() }, 0),
            (ResourceFilter { network: Some("eip155:1".to_owned()), ..any.clone() }, 0),
            (ResourceFilter { pay_to: Some(Person::new(30).id()), ..any.clone() }, 1),
            (ResourceFilter { pay_to: Some(Person::new(99).id()), ..any.clone() }, 0),
        ] {
            let page = w.market.x402_resources(&filter, 10, 0).await.unwrap();
            assert_eq!(shown(&page).len(), count, "{filter:?}");
        }
        let page = w.market.x402_search(Some("number1".to_owned()), 10, None).await.unwrap();
        let found = page.resources.unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].metadata["capability"], "custom.test.reverse");
        assert_eq!(found[0].accepts[0]["amount"], "20000");
    }
}
