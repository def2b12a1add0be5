use std::time::Duration;

use serde_json::{Value, json};
use skep_base::{
    AgentId, Hash32,
    hash::{json_sha256, keccak256},
    id::DealId,
};
use skep_hire::receipt::ReceiptRefusal;
use skep_market::{Challenge, EscrowRefusal, Failure, HireRefusal, Market, Refusal};
use skep_wire::hire::{
    CounterSignature, EscrowVerb, Found, HirePayload, Judgement, NO_TX, Receipt, ReceiptAccepted,
    Search, WalletSigned, receipt_id,
};

use crate::{fixture::*, on_both_engines, pay_world::*};

const MINUTE: Duration = Duration::from_secs(60);
/// What the hires of these tests pay.
const PRICE: i64 = 20_000;

fn receipt_refusal<T: std::fmt::Debug>(result: Result<T, Failure>) -> ReceiptRefusal {
    match refusal(result) {
        Refusal::Hire { reason: HireRefusal::Receipt { reason } } => reason,
        other => panic!("{other:?}"),
    }
}

/// A seller with a listing, and a buyer.
struct World {
    market: Market,
    ann: Person,
    ben: Person,
}

impl World {
    async fn of(f: &Fixture, more: Value) -> World {
        let ben = Person::new(2);
        f.register(&ben).await;
        f.fund(&ben, 900, 100 * PRICE).await;
        let (ann, door) = f.seller(1).await;
        let market = f.market.clone().with_listing_challenge(Challenge::Off);
        market.publish_listing(ann.lists(f.now(), &door.url, more)).await.unwrap();
        World { market, ann, ben }
    }

    /// The receipt of the nth hire, which is paid.
    async fn hired(&self, f: &Fixture, n: u64) -> Receipt {
        let wanted = hire(&self.ben, self.ann.id(), n, json!({}));
        let bill = Bill::for_hire(&self.market.rail(), &self.ben, self.ann.id(), PRICE, &wanted);
        self.paid(f, bill, &wanted.digest().unwrap()).await
    }

    /// The receipt that says that this bill paid for this hire.
    async fn paid(&self, f: &Fixture, bill: Bill, hire: &Hash32) -> Receipt {
        let tx_hash = settle(&self.market, &bill.request()).await.transaction;
        self.receipt(f, json!({ "tx_hash": tx_hash, "hire_hash": hire }))
    }

    /// A signed receipt, with `more` in place of what is usual.
    fn receipt(&self, f: &Fixture, more: Value) -> Receipt {
        let mut receipt = json!({
            "protocol_version": "swarmwage/v0.3", "agent_id": self.ann.id(),
            "buyer": self.ben.id(), "capability": "custom.test.echo",
            "amount_usdc_atomic": PRICE.to_string(), "network": "eip155:1397441872",
            "completed_at": f.now(), "verification": { "all_passed": true, "checks": {} },
        });
        for (field, value) in more.as_object().unwrap() {
            receipt[field] = value.clone();
        }
        if receipt["hire_id"].is_null() {
            let hire: Hash32 = serde_json::from_value(receipt["hire_hash"].clone()).unwrap();
            let id = receipt_id(&self.ann.id(), &self.ben.id(), &hire);
            receipt["hire_id"] = json!(id);
        }
        let mut receipt: Receipt = serde_json::from_value(receipt).unwrap();
        receipt.sign(&self.ann.wallet).unwrap();
        receipt
    }

    /// The buyer's word about a receipt.
    fn word(&self, f: &Fixture, receipt: &Receipt, passed: bool) -> CounterSignature {
        let mut word: CounterSignature = serde_json::from_value(json!({
            "hire_id": receipt.hire_id, "receipt_hash": receipt.hash().unwrap(),
            "buyer": self.ben.id(), "verifiable": true, "dispute": false, "latency_ms": 100,
            "verification": { "all_passed": passed, "checks": { "fits": passed } },
            "signed_at": f.now(),
        }))
        .unwrap();
        word.sign(&self.ben.wallet).unwrap();
        word
    }

    async fn submit(&self, receipt: &Receipt) -> Result<ReceiptAccepted, Failure> {
        self.market.submit_receipt(receipt.clone(), None).await
    }

    async fn found(&self) -> Found {
        self.market.search(Search::default()).await.unwrap().agents.remove(0)
    }

    async fn refused(&self, f: &Fixture, more: Value) -> ReceiptRefusal {
        receipt_refusal(self.submit(&self.receipt(f, more)).await)
    }
}

on_both_engines! {
    async fn a_receipt_has_two_sides_and_each_gets_a_token(f: Fixture) {
        let w = World::of(&f, json!({})).await;
        let receipt = w.hired(&f, 1).await;
        let id = receipt.hire_id.clone();
        for asker in [Some(w.ben.id()), None] {
            let his = w.market.submit_receipt(receipt.clone(), asker).await.unwrap();
            assert_eq!(his.rating_token, "", "the buyer has the receipt too, and may be first");
        }
        let taken = w.market.submit_receipt(receipt.clone(), Some(w.ann.id())).await.unwrap();
        assert!(taken.ok && taken.receipt_id == id && taken.rating_token.starts_with("rtt_"));
        let again = w.market.submit_receipt(receipt.clone(), Some(w.ann.id())).await.unwrap();
        assert_eq!(again, taken);
        let shown = w.market.receipt(&id).await.unwrap();
        assert_eq!(shown.judgement, Judgement::NotVerifiedByBuyer);
        shown.receipt.check_signature().unwrap();

        f.tick();
        let word = w.word(&f, &receipt, true);
        let signed = w.market.countersign(word.clone(), None).await.unwrap();
        assert!(!signed.dispute && signed.rating_token.starts_with("rtt_"));
        assert_ne!(signed.rating_token, taken.rating_token);
        let again = w.market.countersign(word.clone(), Some(w.ben.id())).await.unwrap();
        assert_eq!(again, signed);
        assert_eq!(w.market.countersign(word, None).await.unwrap().rating_token, "");
        let shown = w.market.receipt(&id).await.unwrap();
        assert_eq!((shown.judgement, shown.dispute), (Judgement::Passed, false));
        shown.findings.buyer.unwrap().check_signature().unwrap();

        let found = w.found().await;
        assert_eq!(found.reputation.last_30d_hire_count, Some(1));
        assert_eq!(found.reputation.success_rate, Some(1.0));
        assert_eq!(found.reputation.avg_latency_ms, Some(100));
        assert_eq!(found.ranking.because[1], "1 confirmed hire");
        let mut kinds = f.kinds().await;
        kinds.retain(|kind| kind.starts_with("receipt."));
        assert_eq!(kinds, ["receipt.accepted", "receipt.countersigned"]);
        for who in [&w.ann, &w.ben] {
            let inbox = w.market.inbox(&who.id(), 0, 10).await.unwrap().items;
            let told = inbox.iter().filter(|event| event.kind.starts_with("receipt.")).count();
            assert_eq!(told, 2);
        }
    }

    async fn a_receipt_comes_along_with_its_payment(f: Fixture) {
        let w = World::of(&f, json!({})).await;
        let rail = w.market.rail();
        // The request for the nth hire's payment, with the receipt that it will have.
        let along = |n: u64, price: i64, more: Value| {
            let wanted = hire(&w.ben, w.ann.id(), n, json!({}));
            let hash = wanted.digest().unwrap();
            let bill = Bill::for_hire(&rail, &w.ben, w.ann.id(), price, &wanted);
            let mut words = json!({
                "tx_hash": rail.tx_hash(&w.ben.id(), &bill.nonce), "hire_hash": hash,
                "amount_usdc_atomic": price.to_string(),
            });
            words.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let (receipt, mut request) = (w.receipt(&f, words), bill.request());
            request.skep.as_mut().unwrap().receipt = Some(Box::new(receipt.clone()));
            (request, receipt)
        };
        // Whether somebody has looked at the payment before or not.
        for (n, looks) in [(1, false), (2, true)] {
            let (request, receipt) = along(n, PRICE, json!({}));
            if looks {
                assert!(w.market.x402_verify(&request).await.unwrap().is_valid);
            }
            let settled = settle(&w.market, &request).await;
            assert!(settled.receipt_entered);
            assert_eq!(settled.transaction, receipt.tx_hash);
            assert_eq!(settle(&w.market, &request).await, settled, "the same again");
            assert_eq!(w.market.receipt(&receipt.hire_id).await.unwrap().receipt, receipt);
            let word = w.word(&f, &receipt, true);
            let signed = w.market.countersign(word, None).await.unwrap();
            assert!(signed.rating_token.starts_with("rtt_"));
        }
        // A receipt that lies, or is another hire's, keeps no payment from being taken.
        for (n, lie) in [
            (3, json!({ "amount_usdc_atomic": "1" })),
            (4, json!({ "capability": "custom.test.other" })),
            (5, json!({ "hire_hash": keccak256(b"another") })),
        ] {
            let (mut request, _) = along(n, PRICE, lie);
            let settled = settle(&w.market, &request).await;
            assert!(!settled.receipt_entered, "{n}");
            let (_, honest) = along(n, PRICE, json!({}));
            assert!(w.market.receipt(&honest.hire_id).await.is_err());
            request.skep.as_mut().unwrap().receipt = Some(Box::new(honest.clone()));
            assert!(settle(&w.market, &request).await.receipt_entered, "{n}");
        }
        // Where nothing is paid there is nothing to receipt.
        let (request, receipt) = along(6, 1000 * PRICE, json!({}));
        let refused = w.market.x402_settle(&request).await.unwrap();
        assert!(!refused.success && !refused.receipt_entered);
        let unknown = receipt_refusal(w.market.receipt(&receipt.hire_id).await);
        assert!(matches!(unknown, ReceiptRefusal::UnknownReceipt { .. }));
        let spent = 5 * PRICE;
        assert_eq!(f.balance(&w.ben).await, format!("{}/0/0", 100 * PRICE - spent));
        assert_eq!(w.found().await.reputation.last_30d_hire_count, Some(5));
        let entered = f.kinds().await.iter().filter(|kind| *kind == "receipt.accepted").count();
        assert_eq!(entered, 5);
        f.audit_is_clean().await;
    }

    async fn each_lie_of_a_receipt_has_its_name(f: Fixture) {
        use ReceiptRefusal as R;
        let w = World::of(&f, json!({})).await;
        let good = w.hired(&f, 1).await;
        let (tx, hired) = (good.tx_hash.clone(), good.hire_hash.unwrap());
        let mut forged = good.clone();
        forged.sign(&w.ben.wallet).unwrap();
        let no = refusal(w.submit(&forged).await);
        assert!(matches!(no, Refusal::Hire { reason: HireRefusal::BadSignature { .. } }), "{no:?}");
        let with = |more: Value| {
            let mut all = json!({ "tx_hash": tx, "hire_hash": hired });
            for (field, value) in more.as_object().unwrap() {
                all[field] = value.clone();
            }
            all
        };
        let no = w.refused(&f, with(json!({ "buyer": w.ann.id() }))).await;
        assert_eq!(no, R::SelfHire);
        let no = w.refused(&f, with(json!({ "buyer": AgentId([5; 20]), "hire_id": "x" }))).await;
        assert!(matches!(no, R::PaymentMismatch { .. }), "{no:?}");
        let no = w.refused(&f, with(json!({ "amount_usdc_atomic": "20001" }))).await;
        assert!(matches!(no, R::PaymentMismatch { .. }), "{no:?}");
        let other = json!({ "tx_hash": tx, "hire_hash": Hash32([9; 32]) });
        assert!(matches!(w.refused(&f, other).await, R::PaymentMismatch { .. }));
        let no = w.refused(&f, with(json!({ "tx_hash": NO_TX }))).await;
        assert_eq!(no, R::BadFreeCall);
        let unknown = keccak256(b"never").to_prefixed();
        let no = w.refused(&f, with(json!({ "tx_hash": unknown }))).await;
        assert!(matches!(no, R::UnknownPayment { .. }), "{no:?}");
        let no = w.refused(&f, with(json!({ "payee": AgentId([5; 20]) }))).await;
        assert!(matches!(no, R::WrongPayee { .. }), "{no:?}");
        let no = w.refused(&f, with(json!({ "capability": "custom.test.none" }))).await;
        assert!(matches!(no, R::UnknownListing { .. }), "{no:?}");
        let escrow: DealId = "01970000-0000-7000-8000-000000000000".parse().unwrap();
        let no = w.refused(&f, with(json!({ "escrow_id": escrow }))).await;
        assert!(matches!(no, R::UnknownListing { .. }), "{no:?}");
        for at in [f.now().minus(25 * HOUR), f.now().plus(6 * MINUTE)] {
            let no = w.refused(&f, with(json!({ "completed_at": at }))).await;
            assert!(matches!(no, R::NotFresh { .. }), "{no:?}");
        }
        let taken = receipt_id(&w.ann.id(), &w.ben.id(), &Hash32([8; 32]));
        let no = w.refused(&f, with(json!({ "hire_id": taken }))).await;
        assert!(matches!(no, R::BadHireId { .. }), "nobody takes another hire's id: {no:?}");
        assert_eq!(w.market.receipts_of(&w.ann.id(), None, 9).await.unwrap().items, []);

        w.submit(&good).await.unwrap();
        let no = w.refused(&f, with(json!({ "latency_ms": 5 }))).await;
        assert_eq!(no, R::DuplicateHireId { receipt_id: good.hire_id.clone() });
        let no = w.refused(&f, with(json!({ "hire_id": "another" }))).await;
        assert_eq!(no, R::PaymentUsed { receipt_id: good.hire_id.clone() });
        f.clock.advance(48 * HOUR);
        w.submit(&good).await.unwrap();
        let items = w.market.receipts_of(&w.ann.id(), None, 9).await.unwrap().items;
        assert_eq!(items.len(), 1);
    }

    async fn a_payment_for_something_else_is_no_payment(f: Fixture) {
        let w = World::of(&f, json!({})).await;
        let (cat, rail) = (Person::new(3), w.market.rail());
        f.register(&cat).await;
        f.fund(&cat, 901, PRICE).await;
        let cats_hire = hire(&w.ben, cat.id(), 9, json!({}));
        let digest = cats_hire.digest().unwrap();
        for (n, bill) in [
            Bill::new(2, &rail, &w.ben, cat.id(), PRICE, 1),
            Bill::new(2, &rail, &cat, w.ann.id(), PRICE, 2),
            Bill::new(2, &rail, &w.ben, w.ann.id(), PRICE, 3),
            Bill::new(2, &rail, &w.ben, w.ann.id(), PRICE - 1, 4),
            Bill::for_hire(&rail, &w.ben, cat.id(), PRICE, &cats_hire),
        ].into_iter().enumerate() {
            let no = receipt_refusal(w.submit(&w.paid(&f, bill, &digest).await).await);
            assert!(matches!(no, ReceiptRefusal::PaymentMismatch { .. }), "{n}: {no:?}");
        }
    }

    async fn a_plain_client_signs_nothing_and_its_receipt_says_so(f: Fixture) {
        let w = World::of(&f, json!({})).await;
        let bill = Bill::new(1, &w.market.rail(), &w.ben, w.ann.id(), PRICE, 1);
        let tx_hash = settle(&w.market, &bill.request()).await.transaction;
        let id = receipt_id(&w.ann.id(), &w.ben.id(), &bill.nonce);
        let receipt = w.receipt(&f, json!({ "tx_hash": tx_hash, "hire_id": id }));
        w.submit(&receipt).await.unwrap();
        let shown = w.market.receipt(&id.to_string()).await.unwrap();
        assert_eq!(shown.judgement, Judgement::NotVerifiedByBuyer);
        let found = w.found().await;
        assert_eq!(found.reputation.last_30d_hire_count, Some(1));
        assert_eq!(found.reputation.success_rate, None);
    }

    async fn what_the_seller_did_not_show_the_nonce_names(f: Fixture) {
        let w = World::of(&f, json!({})).await;
        let wanted = hire(&w.ben, w.ann.id(), 1, json!({}));
        let mut bill = Bill::for_hire(&w.market.rail(), &w.ben, w.ann.id(), PRICE, &wanted);
        bill.skep = None;
        let receipt = w.paid(&f, bill, &wanted.digest().unwrap()).await;
        w.submit(&receipt).await.unwrap();
        w.market.countersign(w.word(&f, &receipt, true), None).await.unwrap();
    }

    async fn money_that_moved_gets_its_receipt_for_a_month(f: Fixture) {
        let w = World::of(&f, json!({})).await;
        let (late, too_late) = (w.hired(&f, 1).await, w.hired(&f, 2).await);
        f.clock.advance(29 * 24 * HOUR);
        w.submit(&late).await.unwrap();
        f.clock.advance(48 * HOUR);
        let no = receipt_refusal(w.submit(&too_late).await);
        assert!(matches!(no, ReceiptRefusal::NotFresh { .. }), "{no:?}");
    }

    async fn nobody_takes_a_plain_payment_by_naming_its_address(f: Fixture) {
        let w = World::of(&f, json!({})).await;
        let (cat, door) = f.seller(3).await;
        let shared = json!({ "payee": w.ann.id() });
        w.market.publish_listing(cat.lists(f.now(), &door.url, shared)).await.unwrap();
        assert_eq!(w.market.agent_paid_at(w.ann.id()).await.unwrap(), w.ann.id());
        let bill = Bill::new(2, &w.market.rail(), &w.ben, w.ann.id(), PRICE, 1);
        let tx_hash = settle(&w.market, &bill.request()).await.transaction;
        let of = |who: &Person| {
            let id = receipt_id(&who.id(), &w.ben.id(), &bill.nonce);
            let more = json!({ "tx_hash": tx_hash, "hire_id": id, "agent_id": who.id() });
            let mut receipt = w.receipt(&f, more);
            receipt.sign(&who.wallet).unwrap();
            receipt
        };
        let no = receipt_refusal(w.submit(&of(&cat)).await);
        assert!(matches!(no, ReceiptRefusal::PaymentMismatch { .. }), "{no:?}");
        w.submit(&of(&w.ann)).await.unwrap();
    }

    async fn a_free_call_is_one_for_each_buyer_and_counts_for_nothing(f: Fixture) {
        use ReceiptRefusal as R;
        let mode = "platform_escrow:skep";
        let w = World::of(&f, json!({ "first_call_free": true, "payment_mode": mode })).await;
        let door = "http://127.0.0.1:9";
        w.market.publish_listing(w.ann.lists(f.now(), door, json!({}))).await.unwrap();
        let free = |hire: Hash32, mode: &str| {
            w.receipt(&f, json!({
                "amount_usdc_atomic": "0", "tx_hash": NO_TX, "hire_hash": hire,
                "payment_mode": mode,
            }))
        };
        // Nothing is held for it, though the listing's mode is escrow.
        let first = free(Hash32([1; 32]), mode);
        w.submit(&first).await.unwrap();
        w.submit(&first).await.unwrap();
        w.market.countersign(w.word(&f, &first, true), None).await.unwrap();
        let no = receipt_refusal(w.submit(&free(Hash32([2; 32]), mode)).await);
        assert_eq!(no, R::FreeCallUsed { receipt_id: first.hire_id.clone() });
        let no = receipt_refusal(w.submit(&free(Hash32([2; 32]), "direct")).await);
        assert_eq!(no, R::NoFreeCalls);
        for found in w.market.search(Search::default()).await.unwrap().agents {
            assert_eq!(found.reputation.last_30d_hire_count, Some(0));
            assert_eq!(found.ranking.because[1], "no confirmed hires yet");
        }
    }

    async fn a_hire_that_was_paid_is_not_free(f: Fixture) {
        let w = World::of(&f, json!({ "first_call_free": true })).await;
        let paid = w.hired(&f, 1).await;
        let free = w.receipt(&f, json!({
            "amount_usdc_atomic": "0", "tx_hash": NO_TX, "hire_hash": paid.hire_hash,
        }));
        assert_eq!(free.hire_id, paid.hire_id);
        w.submit(&free).await.unwrap();
        w.market.countersign(w.word(&f, &free, true), None).await.unwrap();
        w.submit(&paid).await.unwrap();
        assert_eq!(w.market.receipt(&paid.hire_id).await.unwrap().receipt, paid);
        let no = receipt_refusal(w.submit(&free).await);
        assert_eq!(no, ReceiptRefusal::DuplicateHireId { receipt_id: paid.hire_id.clone() });
        w.market.countersign(w.word(&f, &paid, true), None).await.unwrap();
        assert_eq!(w.found().await.reputation.last_30d_hire_count, Some(1));
    }

    async fn hires_among_one_operators_agents_are_marked_and_not_counted(f: Fixture) {
        let w = World::of(&f, json!({})).await;
        let key = skep_base::ed25519::SecretKey::from_seed([50; 32]);
        f.market.register_operator(operator(&key, "both", f.now())).await.unwrap();
        for who in [&w.ann, &w.ben] {
            f.change(who, who.attach(&key, f.now())).await.unwrap();
        }
        let receipt = w.hired(&f, 1).await;
        w.submit(&receipt).await.unwrap();
        w.market.countersign(w.word(&f, &receipt, true), None).await.unwrap();
        assert!(w.market.receipt(&receipt.hire_id).await.unwrap().linked);
        assert_eq!(w.found().await.reputation.last_30d_hire_count, Some(0));
    }

    async fn only_the_buyer_counter_signs_and_once(f: Fixture) {
        use ReceiptRefusal as R;
        let w = World::of(&f, json!({})).await;
        let receipt = w.hired(&f, 1).await;
        let word = w.word(&f, &receipt, false);
        let no = receipt_refusal(w.market.countersign(word.clone(), None).await);
        assert_eq!(no, R::UnknownReceipt { receipt_id: receipt.hire_id.clone() });
        w.submit(&receipt).await.unwrap();
        let mut sellers = word.clone();
        sellers.buyer = w.ann.id();
        sellers.sign(&w.ann.wallet).unwrap();
        let no = receipt_refusal(w.market.countersign(sellers, None).await);
        assert_eq!(no, R::NotTheBuyer { buyer: w.ben.id() });
        let mut forged = word.clone();
        forged.sign(&w.ann.wallet).unwrap();
        let no = refusal(w.market.countersign(forged, None).await);
        assert!(matches!(no, Refusal::Hire { reason: HireRefusal::BadSignature { .. } }), "{no:?}");
        let mut other = word.clone();
        other.receipt_hash = Hash32([1; 32]);
        other.sign(&w.ben.wallet).unwrap();
        let no = receipt_refusal(w.market.countersign(other, None).await);
        assert_eq!(no, R::WrongReceiptHash);

        let signed = w.market.countersign(word, None).await.unwrap();
        assert!(signed.dispute, "a failed check is a dispute, whatever the buyer says");
        let better = w.word(&f, &receipt, true);
        let no = receipt_refusal(w.market.countersign(better, None).await);
        assert_eq!(no, R::AlreadyCounterSigned);
        let shown = w.market.receipt(&receipt.hire_id).await.unwrap();
        assert_eq!((shown.judgement, shown.dispute), (Judgement::Failed, true));
        let found = w.found().await;
        assert_eq!(found.reputation.success_rate, Some(0.0));
        assert_eq!(found.ranking.because[1], "no confirmed hires yet");
    }

    async fn confirmed_hires_move_a_listing_up(f: Fixture) {
        let w = World::of(&f, json!({ "price_usdc": "0.09" })).await;
        let (cat, door) = f.seller(3).await;
        let cheaper = cat.lists(f.now(), &door.url, json!({ "price_usdc": "0.01" }));
        w.market.publish_listing(cheaper).await.unwrap();
        assert_eq!(w.found().await.agent_id, cat.id());
        for n in 1..=3 {
            let receipt = w.hired(&f, n).await;
            w.submit(&receipt).await.unwrap();
            w.market.countersign(w.word(&f, &receipt, true), None).await.unwrap();
        }
        assert_eq!(w.found().await.agent_id, w.ann.id());
        let good = Search { min_success_rate: Some(0.95), ..Search::default() };
        assert_eq!(w.market.search(good).await.unwrap().agents.len(), 1);
        let page = w.market.receipts_of(&w.ben.id(), None, 2).await.unwrap();
        assert_eq!(page.items.len(), 2);
        let cursor = page.next_cursor.unwrap();
        let rest = w.market.receipts_of(&w.ben.id(), Some(&cursor), 2).await.unwrap();
        assert_eq!((rest.items.len(), rest.next_cursor), (1, None));
        let no = refusal(w.market.receipts_of(&w.ben.id(), Some("1.\u{0}"), 2).await);
        assert_eq!(no, Refusal::MalformedCursor);
        f.audit_is_clean().await;
    }

    async fn private_numbers_are_shown_in_steps(f: Fixture) {
        let w = World::of(&f, json!({ "private_metrics": true })).await;
        for n in 1..=12 {
            let receipt = w.hired(&f, n).await;
            w.submit(&receipt).await.unwrap();
            let word = w.word(&f, &receipt, n != 1);
            w.market.countersign(word, None).await.unwrap();
        }
        let found = w.found().await;
        assert_eq!(found.reputation.last_30d_hire_count, Some(10));
        assert_eq!(found.reputation.success_rate, Some(0.9));
        assert_eq!(found.ranking.because[1], "at least 8 confirmed hires");
        // Eleven of twelve are more, and nobody finds that out by asking.
        for (least, is_found) in [(0.9, true), (0.901, false), (0.91, false)] {
            let asked = json!({ "capability": "custom.test.echo", "min_success_rate": least });
            let answer = w.market.search(serde_json::from_value(asked).unwrap()).await.unwrap();
            assert_eq!(!answer.agents.is_empty(), is_found, "{least}");
        }
    }

    async fn payloads_are_sealed_and_fit_their_receipt(f: Fixture) {
        use ReceiptRefusal as R;
        let w = World::of(&f, json!({ "audit_participating": true })).await;
        let secret = "the quick brown fox is a secret";
        let tower = (0..125).fold(json!(1), |inner, _| json!([inner]));
        let params = json!({ "text": secret, "tower": tower });
        let payload = HirePayload { params, result: json!(1.5) };
        let mut receipt = w.hired(&f, 1).await;
        receipt.params_hash = Some(json_sha256(&payload.params).unwrap());
        receipt.result_hash = Some(json_sha256(&payload.result).unwrap());
        receipt.sign(&w.ann.wallet).unwrap();
        let id = receipt.hire_id.clone();
        assert!(w.market.keep_payload(&id, payload.clone()).await.is_err());
        w.submit(&receipt).await.unwrap();
        let wrong = HirePayload { result: json!(2), ..payload.clone() };
        let no = receipt_refusal(w.market.keep_payload(&id, wrong).await);
        assert_eq!(no, R::PayloadMismatch { what: "result".to_owned() });
        let until = w.market.keep_payload(&id, payload.clone()).await.unwrap();
        assert_eq!(until, f.now().plus(30 * 24 * HOUR));
        f.clock.advance(HOUR);
        assert_eq!(w.market.keep_payload(&id, payload.clone()).await.unwrap(), until);
        assert_eq!(w.market.payload(&id).await.unwrap(), Some(payload));
        let sealed = w.market.store().payload(&id).await.unwrap().unwrap();
        assert!(!has(&sealed, secret.as_bytes()));
        if let Some(path) = f.url.strip_prefix("sqlite:") {
            for file in [path.to_owned(), format!("{path}-wal")] {
                let bytes = std::fs::read(&file).unwrap_or_default();
                assert!(!has(&bytes, secret.as_bytes()), "{file} has it in the clear");
            }
            let wal = std::fs::read(format!("{path}-wal")).unwrap();
            assert!(has(&wal, id.as_bytes()), "the file is the one that was written to");
        }
        f.clock.advance(30 * 24 * HOUR);
        w.market.store().drop_payloads().await.unwrap();
        assert_eq!(w.market.payload(&id).await.unwrap(), None);
    }

    async fn the_receipt_of_a_hire_in_escrow_is_its_delivery(f: Fixture) {
        let w = World::of(&f, json!({ "payment_mode": "platform_escrow:skep" })).await;
        let rail = w.market.rail();
        let payload = HirePayload { params: json!({ "n": 1 }), result: json!("done") };
        let held = async |n: u64| {
            let wanted = hire(&w.ben, w.ann.id(), n, json!({ "params": { "n": 1 } }));
            let terms = escrow_terms(&wanted, w.ann.id(), PRICE);
            let bill = Bill::for_escrow(&rail, &w.ben, &terms, &wanted);
            let settled = settle(&w.market, &bill.request()).await;
            let escrow: DealId = settled.escrow_id.unwrap().parse().unwrap();
            let more = json!({
                "tx_hash": settled.transaction, "hire_hash": terms.hire_hash,
                "escrow_id": escrow, "payment_mode": "platform_escrow:skep",
                "params_hash": json_sha256(&payload.params).unwrap(),
                "result_hash": json_sha256(&payload.result).unwrap(),
            });
            (escrow, more)
        };
        let (escrow, more) = held(1).await;
        let with = |field: &str, value: Value| {
            let mut more = more.clone();
            more[field] = value;
            more
        };
        let direct = with("payment_mode", json!("direct"));
        let no = w.refused(&f, direct).await;
        assert!(matches!(no, ReceiptRefusal::UnknownListing { .. }), "{no:?}");
        let without = w.receipt(&f, with("result_hash", Value::Null));
        let no = refusal(w.submit(&without).await);
        assert_eq!(no, Refusal::Escrow { reason: EscrowRefusal::WrongResult });
        let receipt = w.receipt(&f, more);
        w.submit(&receipt).await.unwrap();
        w.submit(&receipt).await.unwrap();
        w.market.keep_payload(&receipt.hire_id, payload.clone()).await.unwrap();
        assert_eq!(w.market.receipt(&receipt.hire_id).await.unwrap().escrow.unwrap(), "HELD");
        let order = escrow_order(escrow, EscrowVerb::Release, &w.ben, receipt.result_hash);
        w.market.escrow_order(escrow, EscrowVerb::Release, order).await.unwrap();
        assert_eq!(w.market.receipt(&receipt.hire_id).await.unwrap().escrow.unwrap(), "RELEASED");
        assert_eq!(f.balance(&w.ann).await, format!("{PRICE}/0/0"));

        let (_, late) = held(2).await;
        f.clock.advance(2 * MINUTE);
        let no = refusal(w.submit(&w.receipt(&f, late)).await);
        let late = matches!(no, Refusal::Escrow { reason: EscrowRefusal::TooLate { .. } });
        assert!(late, "{no:?}");
        f.audit_is_clean().await;
    }

    async fn payloads_of_other_hires_are_not_kept(f: Fixture) {
        let w = World::of(&f, json!({})).await;
        let receipt = w.hired(&f, 1).await;
        w.submit(&receipt).await.unwrap();
        let payload = HirePayload { params: json!(1), result: json!(1) };
        let no = receipt_refusal(w.market.keep_payload(&receipt.hire_id, payload).await);
        assert_eq!(no, ReceiptRefusal::NoPayloadWanted);
    }
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
