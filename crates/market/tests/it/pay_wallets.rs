//! Decision 14: a hire that is paid by a wallet which the buyer bound, and by no other.

use std::time::Duration;

use serde_json::{Value, json};
use skep_base::{
    Amount, Asset, Hash32, Timestamp,
    ed25519::SecretKey,
    hash::sha256,
    id::{DealId, DebtId},
};
use skep_hire::receipt::ReceiptRefusal;
use skep_market::{Challenge, HireRefusal, Market, Refusal};
use skep_store::{AccountId, Call, Debt, Decision, Load, Turn};
use skep_wire::{
    hire::{EscrowVerb, HireEscrow, HireRequest, Receipt, WalletBinding, WalletSigned, receipt_id},
    settle::EscrowStatus,
    wallet::Faucet,
    x402::{SkepTerms, reason},
};

use crate::{fixture::*, on_both_engines, pay_world::*};

const PRICE: i64 = 100;
const START_S: i64 = START_MS / 1000;

/// Ann sells, Ben buys with nothing in his wallet, and Cleo's wallet pays: no agent, only money.
struct World {
    market: Market,
    ann: Person,
    ben: Person,
    cleo: Person,
}

impl World {
    async fn of(f: &Fixture) -> World {
        let (ben, cleo) = (Person::new(2), Person::new(3));
        f.register(&ben).await;
        let faucet = Faucet { id: id(900), money: usdc(1000), to: Some(cleo.id()) };
        f.market.faucet(&ben.signed("faucet"), faucet).await.unwrap();
        let (ann, door) = f.seller(1).await;
        let market = f.market.clone().with_listing_challenge(Challenge::Off);
        let listing = ann.lists(f.now(), &door.url, json!({ "price_usdc": "0.0001" }));
        market.publish_listing(listing).await.unwrap();
        World { market, ann, ben, cleo }
    }

    /// Ben's hire of Ann that names Cleo's wallet.
    fn hire(&self, n: u64, more: Value) -> HireRequest {
        let mut named = json!({ "payer": bound(&self.cleo, &self.ben) });
        named.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        hire(&self.ben, self.ann.id(), n, named)
    }

    /// Cleo's payment for a hire.
    fn bill(&self, hire: &HireRequest) -> Bill {
        Bill::for_hire(&self.market.rail(), &self.cleo, self.ann.id(), PRICE, hire)
    }

    /// Cleo's money in escrow for a hire of Ben's.
    async fn held(&self, n: u64, more: Value) -> DealId {
        let wanted = self.hire(n, more);
        let terms = escrow_terms(&wanted, self.ann.id(), PRICE);
        let bill = Bill::for_escrow(&self.market.rail(), &self.cleo, &terms, &wanted);
        settle(&self.market, &bill.request()).await.escrow_id.unwrap().parse().unwrap()
    }

    /// Ann's receipt of a payment for a hire.
    fn receipt(&self, f: &Fixture, tx_hash: &str, hire: &HireRequest, buyer: &Person) -> Receipt {
        let hash: Hash32 = hire.digest().unwrap();
        let mut receipt: Receipt = serde_json::from_value(json!({
            "hire_id": receipt_id(&self.ann.id(), &buyer.id(), &hash),
            "protocol_version": "swarmwage/v0.3", "agent_id": self.ann.id(),
            "buyer": buyer.id(), "capability": "custom.test.echo",
            "amount_usdc_atomic": PRICE.to_string(), "network": "eip155:1397441872",
            "completed_at": f.now(), "verification": { "all_passed": true, "checks": {} },
            "tx_hash": tx_hash, "hire_hash": hash,
        }))
        .unwrap();
        receipt.sign(&self.ann.wallet).unwrap();
        receipt
    }

    /// `Ann Ben Cleo`
    async fn balances(&self, f: &Fixture) -> String {
        let [ann, ben, cleo] =
            [f.balance(&self.ann).await, f.balance(&self.ben).await, f.balance(&self.cleo).await];
        format!("{ann} {ben} {cleo}")
    }
}

/// The wallet's word that it pays for the buyer, for an hour.
fn bound(wallet: &Person, buyer: &Person) -> WalletBinding {
    bound_for(wallet, buyer, (START_S, START_S + 3600))
}

fn bound_for(wallet: &Person, buyer: &Person, span: (i64, i64)) -> WalletBinding {
    WalletBinding::signed_by(&wallet.wallet, buyer.id(), span).unwrap()
}

fn at_s(f: &Fixture, s: i64) {
    f.clock.set(Timestamp::from_ms((START_S + s) * 1000));
}

async fn told(f: &Fixture, who: &Person, kind: &str) -> usize {
    f.kinds().await;
    let inbox = f.market.inbox(&who.id(), 0, 100).await.unwrap().items;
    inbox.iter().filter(|event| event.kind == kind).count()
}

async fn ended(w: &World, id: DealId, verb: EscrowVerb, by: &Person) -> HireEscrow {
    let result = (verb == EscrowVerb::Release).then(|| sha256(b"the result"));
    let order = escrow_order(id, verb, by, result);
    w.market.escrow_order(id, verb, order).await.unwrap()
}

on_both_engines! {
    async fn a_bound_wallet_pays_and_the_receipt_is_the_buyers(f: Fixture) {
        let w = World::of(&f).await;
        let wanted = w.hire(1, json!({}));
        let request = w.bill(&wanted).request();
        let verified = w.market.x402_verify(&request).await.unwrap();
        assert!(verified.is_valid && verified.payable.is_some(), "{verified:?}");
        assert_eq!(verified.payer, Some(w.cleo.id()));
        let paid = settle(&w.market, &request).await;
        assert_eq!(paid.payer, Some(w.cleo.id()));
        assert_eq!(w.balances(&f).await, "100/0/0 none 900/0/0");
        // The receipt names the buyer; one that names the wallet is of no hire of its own.
        let wallets = w.receipt(&f, &paid.transaction, &wanted, &w.cleo);
        let refused = refusal(w.market.submit_receipt(wallets, None).await);
        let what = "it was made for another buyer".to_owned();
        let reason = ReceiptRefusal::PaymentMismatch { what };
        assert_eq!(refused, Refusal::Hire { reason: HireRefusal::Receipt { reason } });
        let receipt = w.receipt(&f, &paid.transaction, &wanted, &w.ben);
        w.market.submit_receipt(receipt.clone(), None).await.unwrap();
        let shown = w.market.receipt(&receipt.hire_id).await.unwrap();
        assert!(!shown.linked && shown.receipt == receipt);
        for who in [&w.ann, &w.ben, &w.cleo] {
            assert_eq!(told(&f, who, "payment.settled").await, 1);
        }
        // Long after payment and binding have ended, it is the same payment.
        at_s(&f, 7200);
        assert_eq!(settle(&w.market, &request).await, paid);
        f.audit_is_clean().await;
    }

    async fn the_receipt_is_entered_with_the_payment(f: Fixture) {
        let w = World::of(&f).await;
        let wanted = w.hire(1, json!({}));
        let nonce = wanted.payment_nonce().unwrap();
        let tx_hash = w.market.rail().tx_hash(&w.cleo.id(), &nonce);
        let receipt = w.receipt(&f, &tx_hash, &wanted, &w.ben);
        let mut request = w.bill(&wanted).request();
        let terms = request.skep.clone().unwrap();
        request.skep = Some(SkepTerms { receipt: Some(Box::new(receipt.clone())), ..terms });
        let paid = settle(&w.market, &request).await;
        assert!(paid.receipt_entered && paid.transaction == tx_hash, "{paid:?}");
        assert_eq!(w.market.receipt(&receipt.hire_id).await.unwrap().receipt, receipt);
    }

    /// Or its receipt could not be compared with the buyer's, and nobody could dispute it.
    async fn what_another_wallet_pays_comes_with_its_hire(f: Fixture) {
        let w = World::of(&f).await;
        let mut bill = w.bill(&w.hire(1, json!({})));
        let shown = bill.skep.take();
        let said = w.market.x402_settle(&bill.request()).await.unwrap();
        assert_eq!(said.error_reason.as_deref(), Some(reason::NOT_FOR_THIS_HIRE));
        bill.skep = shown;
        assert!(settle(&w.market, &bill.request()).await.success);
        f.audit_is_clean().await;
    }

    async fn no_other_wallet_pays(f: Fixture) {
        let w = World::of(&f).await;
        let World { ann, ben, cleo, .. } = &w;
        let dan = Person::new(4);
        f.register(&dan).await;
        f.fund(&dan, 901, 1000).await;
        f.fund(ben, 902, 1000).await;
        let rail = w.market.rail();
        let good = w.hire(1, json!({}));
        let for_hire = |who: &Person, hire: &HireRequest| {
            Bill::for_hire(&rail, who, ann.id(), PRICE, hire)
        };
        let naming = |binding: &WalletBinding| {
            for_hire(cleo, &hire(ben, ann.id(), 2, json!({ "payer": binding })))
        };
        let mut by_the_buyer = bound(cleo, ben);
        by_the_buyer.sign(&ben.wallet).unwrap();
        let mut longer = bound(cleo, ben);
        longer.expires_at += 1;
        let mut unsigned = bound(cleo, ben);
        unsigned.signature = None;
        // The payment for Ben's hire, with a hire of Dan's around it.
        let stolen = |hire: &HireRequest| {
            let mut bill = w.bill(&good);
            bill.skep = Some(SkepTerms { hire: hire.envelope().ok(), ..SkepTerms::default() });
            bill
        };
        let dans = |payer: Value| hire(&dan, ann.id(), 3, json!({ "payer": payer }));
        let mut swapped = good.clone();
        swapped.payer = None;
        let cases = [
            (reason::NOT_THE_BUYER, for_hire(cleo, &hire(ben, ann.id(), 2, json!({})))),
            (reason::NOT_THE_BUYER, for_hire(&dan, &good)),
            // One hire has one payer: whoever names a wallet does not pay as well.
            (reason::NOT_THE_BUYER, for_hire(ben, &good)),
            (reason::WALLET_BINDING, naming(&bound(cleo, &dan))),
            (reason::WALLET_BINDING, naming(&by_the_buyer)),
            (reason::WALLET_BINDING, naming(&longer)),
            (reason::WALLET_BINDING, naming(&unsigned)),
            (reason::WALLET_BINDING, naming(&bound_for(cleo, ben, (START_S, START_S)))),
            (reason::WALLET_BINDING, naming(&bound_for(cleo, ben, (START_S - 3600, START_S)))),
            (reason::WALLET_BINDING, naming(&bound_for(cleo, ben, (START_S + 1, START_S + 9)))),
            (reason::WALLET_BINDING, naming(&bound_for(cleo, ben, (START_S, START_S + 2_678_401)))),
            (reason::WALLET_BINDING, for_hire(ben, &hire(ben, ann.id(), 2, json!({
                "payer": bound(ben, ben),
            })))),
            (reason::NOT_THE_BUYER, stolen(&dans(Value::Null))),
            (reason::WALLET_BINDING, stolen(&dans(json!(bound(cleo, ben))))),
            // Even if Cleo pays for Dan as well, this payment is for Ben's hire.
            (reason::NOT_FOR_THIS_HIRE, stolen(&dans(json!(bound(cleo, &dan))))),
            (reason::HIRE_SIGNATURE, stolen(&swapped)),
        ];
        at_s(&f, 0);
        for (at, (reason, bill)) in cases.iter().enumerate() {
            assert_eq!(refused_by_both(&w.market, &bill.request()).await, *reason, "case {at}");
        }
        assert_eq!(w.balances(&f).await, "none 1000/0/0 1000/0/0");
        assert_eq!(f.balance(&dan).await, "1000/0/0");
        settle(&w.market, &w.bill(&good).request()).await;
        f.audit_is_clean().await;
    }

    async fn a_binding_is_good_until_its_end_by_the_nodes_clock(f: Fixture) {
        let w = World::of(&f).await;
        let binding = bound_for(&w.cleo, &w.ben, (START_S + 10, START_S + 20));
        let wanted = |n| hire(&w.ben, w.ann.id(), n, json!({ "payer": binding }));
        at_s(&f, 10);
        let looked_at = w.bill(&wanted(1)).request();
        assert!(w.market.x402_verify(&looked_at).await.unwrap().is_valid);
        settle(&w.market, &w.bill(&wanted(2)).request()).await;
        f.clock.set(Timestamp::from_ms((START_S + 20) * 1000 - 1));
        settle(&w.market, &w.bill(&wanted(3)).request()).await;
        // What was found good a moment ago is judged again when it is taken.
        at_s(&f, 20);
        assert_eq!(refused_by_both(&w.market, &looked_at).await, reason::WALLET_BINDING);
        assert_eq!(w.balances(&f).await, "200/0/0 none 800/0/0");
        // A payment that has ended is said to have ended: who asks after it hears that.
        at_s(&f, 600);
        assert_eq!(refused_by_both(&w.market, &looked_at).await, reason::VALID_BEFORE);
    }

    async fn an_escrow_goes_to_the_payee_or_back_to_the_wallet(f: Fixture) {
        let w = World::of(&f).await;
        let result = sha256(b"the result");
        let mut ids = Vec::new();
        for n in 0..4 {
            ids.push(w.held(n, json!({})).await);
        }
        let [released, refused, returned, late] = <[DealId; 4]>::try_from(ids).unwrap();
        assert_eq!(w.balances(&f).await, "none none 600/400/0");
        let shown = w.market.hire_escrow(released).await.unwrap();
        assert_eq!((shown.payer, shown.terms.buyer), (Some(w.cleo.id()), w.ben.id()));
        for id in [released, refused] {
            deliver(&f, id, result).await;
        }
        // The wallet has paid in; what becomes of it is the buyer's word.
        for verb in [EscrowVerb::Release, EscrowVerb::Refund] {
            let order = escrow_order(released, verb, &w.cleo, Some(result));
            assert!(w.market.escrow_order(released, verb, order).await.is_err());
        }
        let end = ended(&w, released, EscrowVerb::Release, &w.ben).await;
        assert_eq!(end.status, EscrowStatus::Released);
        assert_eq!(w.balances(&f).await, "100/0/0 none 600/300/0");
        let end = ended(&w, refused, EscrowVerb::Refund, &w.ben).await;
        assert_eq!((end.status, end.payer), (EscrowStatus::Refunded, Some(w.cleo.id())));
        ended(&w, returned, EscrowVerb::Refund, &w.ann).await;
        assert_eq!(w.balances(&f).await, "100/0/0 none 800/100/0");
        f.clock.advance(Duration::from_secs(61));
        let end = w.market.escrow_timeout(late).await.unwrap();
        assert_eq!(end.reason.as_deref(), Some("not_delivered"));
        assert_eq!(w.balances(&f).await, "100/0/0 none 900/0/0");
        let settlement = end.settlement.unwrap().settlement;
        assert_eq!((settlement.requester, settlement.refunded_minor.minor()), (w.ben.id(), PRICE));
        for who in [&w.ben, &w.cleo] {
            assert_eq!(told(&f, who, "escrow.refunded").await, 3);
        }
        f.audit_is_clean().await;
    }

    async fn escrow_terms_name_the_buyer_and_not_its_wallet(f: Fixture) {
        let w = World::of(&f).await;
        let rail = w.market.rail();
        let wanted = w.hire(1, json!({}));
        let terms = escrow_terms(&wanted, w.ann.id(), PRICE);
        for change in [
            |terms: &mut skep_wire::hire::EscrowTerms, w: &World| terms.buyer = w.cleo.id(),
            |terms: &mut skep_wire::hire::EscrowTerms, w: &World| terms.payee = w.cleo.id(),
            |terms: &mut skep_wire::hire::EscrowTerms, w: &World| terms.payee = w.ben.id(),
        ] {
            let mut terms = terms.clone();
            change(&mut terms, &w);
            let bill = Bill::for_escrow(&rail, &w.cleo, &terms, &wanted);
            let said = refused_by_both(&w.market, &bill.request()).await;
            assert_eq!(said, reason::ESCROW_TERMS);
        }
        let bens = Bill::for_escrow(&rail, &w.ben, &terms, &wanted);
        assert_eq!(refused_by_both(&w.market, &bens.request()).await, reason::NOT_THE_BUYER);
        assert_eq!(w.balances(&f).await, "none none 1000/0/0");
    }

    async fn the_buyers_budget_is_charged_for_what_the_wallet_pays(f: Fixture) {
        let w = World::of(&f).await;
        let token = budget(&w.ben, "0.0003", 1);
        let sums = async || {
            let budget = w.market.budget(&token.id().unwrap()).await.unwrap();
            [budget.spent_minor, budget.held_minor, budget.left_minor].map(|a| a.minor())
        };
        let under = |n: u64| w.hire(n, json!({ "budget_token": token }));
        settle(&w.market, &w.bill(&under(1)).request()).await;
        assert_eq!(sums().await, [100, 0, 200]);
        let id = w.held(2, json!({ "budget_token": token })).await;
        assert_eq!(sums().await, [100, 100, 100]);
        settle(&w.market, &w.bill(&under(3)).request()).await;
        let over = w.bill(&under(4)).request();
        assert_eq!(refused_by_both(&w.market, &over).await, reason::BUDGET_EXCEEDED);
        ended(&w, id, EscrowVerb::Refund, &w.ann).await;
        assert_eq!(sums().await, [200, 0, 100]);
        assert_eq!(w.balances(&f).await, "200/0/0 none 800/0/0");
        // A budget of the wallet's own is not the buyer's to spend.
        f.register(&w.cleo).await;
        let wallets = w.hire(5, json!({ "budget_token": budget(&w.cleo, "0.0003", 2) }));
        let said = refused_by_both(&w.market, &w.bill(&wallets).request()).await;
        assert_eq!(said, reason::BUDGET);
        f.audit_is_clean().await;
    }

    async fn who_may_not_spend_has_no_other_wallet_spend_for_it(f: Fixture) {
        let w = World::of(&f).await;
        let word = async |n| {
            let request = w.bill(&w.hire(n, json!({}))).request();
            match w.market.x402_verify(&request).await.unwrap().is_valid {
                true => "taken".to_owned(),
                false => refused_by_both(&w.market, &request).await,
            }
        };
        assert_eq!(word(1).await, "taken");
        // A debt of the buyer's.
        let wallet = |who: &Person| AccountId::wallet(&who.id(), Asset::USDC);
        let debt = Debt {
            id: DebtId::from_bytes([1; 16]),
            debtor: wallet(&w.ben),
            creditor: wallet(&w.ann),
            open: Amount::new(50).unwrap(),
        };
        let load = Load { accounts: vec![wallet(&w.ben), wallet(&w.ann)], ..Load::default() };
        let step = move |turn: &mut Turn| {
            turn.book.owe(debt.clone()).unwrap();
            Ok(Decision::Commit("{}".to_owned()))
        };
        let call = Call { load, guards: vec![], step: Box::new(step) };
        w.market.store().call(call).await.unwrap();
        assert_eq!(word(1).await, reason::WALLET_BLOCKED);
        f.fund(&w.ben, 903, 50).await;
        assert_eq!(word(1).await, "taken");
        // A wallet that is an agent, frozen after a rotation.
        f.register(&w.cleo).await;
        assert_eq!(word(1).await, "taken");
        let key = w.cleo.other_key(1);
        f.change(&w.cleo, w.cleo.rotate(&key, f.now())).await.unwrap();
        assert_eq!(word(1).await, reason::WALLET_BLOCKED);
        assert_eq!(f.balance(&w.cleo).await, "1000/0/0");
    }

    async fn a_frozen_or_revoked_buyer_hires_with_no_wallet(f: Fixture) {
        let w = World::of(&f).await;
        let request = |n| w.bill(&w.hire(n, json!({}))).request();
        let key = w.ben.other_key(1);
        f.change(&w.ben, w.ben.rotate(&key, f.now())).await.unwrap();
        assert_eq!(refused_by_both(&w.market, &request(1)).await, reason::WALLET_BLOCKED);
        let with_new_key = Person::new(2).with_key(key);
        f.change(&w.ben, with_new_key.revoke_by_wallet(f.now())).await.unwrap();
        assert_eq!(refused_by_both(&w.market, &request(2)).await, reason::WALLET_BLOCKED);
        assert_eq!(w.balances(&f).await, "none none 1000/0/0");
    }

    async fn nobody_hires_itself_with_another_wallet(f: Fixture) {
        let w = World::of(&f).await;
        f.fund(&w.ann, 904, 1000).await;
        let rail = w.market.rail();
        // The seller pays for its own hire, the buyer is paid, the wallet is paid.
        let sellers = hire(&w.ben, w.ann.id(), 1, json!({ "payer": bound(&w.ann, &w.ben) }));
        let own = hire(&w.ben, w.ben.id(), 2, json!({ "payer": bound(&w.cleo, &w.ben) }));
        let good = w.hire(3, json!({}));
        let shop = Person::new(9).id();
        let escrowed = escrow_terms(&sellers, shop, PRICE);
        let cases = [
            (reason::RECIPIENT, Bill::for_hire(&rail, &w.ann, shop, PRICE, &sellers)),
            (reason::RECIPIENT, Bill::for_hire(&rail, &w.cleo, shop, PRICE, &own)),
            (reason::RECIPIENT, Bill::for_hire(&rail, &w.cleo, w.ben.id(), PRICE, &good)),
            (reason::RECIPIENT, Bill::for_hire(&rail, &w.cleo, w.cleo.id(), PRICE, &good)),
            (reason::ESCROW_TERMS, Bill::for_escrow(&rail, &w.ann, &escrowed, &sellers)),
        ];
        for (at, (reason, bill)) in cases.iter().enumerate() {
            assert_eq!(refused_by_both(&w.market, &bill.request()).await, *reason, "case {at}");
        }
        assert_eq!(w.balances(&f).await, "1000/0/0 none 1000/0/0");
    }

    async fn hires_that_the_sellers_operator_pays_for_count_for_nothing(f: Fixture) {
        let w = World::of(&f).await;
        f.register(&w.cleo).await;
        let key = SecretKey::from_seed([50; 32]);
        f.market.register_operator(operator(&key, "both", f.now())).await.unwrap();
        for who in [&w.ann, &w.cleo] {
            f.change(who, who.attach(&key, f.now())).await.unwrap();
        }
        let wanted = w.hire(1, json!({}));
        let paid = settle(&w.market, &w.bill(&wanted).request()).await;
        let receipt = w.receipt(&f, &paid.transaction, &wanted, &w.ben);
        w.market.submit_receipt(receipt.clone(), None).await.unwrap();
        assert!(w.market.receipt(&receipt.hire_id).await.unwrap().linked);
        let id = w.held(2, json!({})).await;
        deliver(&f, id, sha256(b"the result")).await;
        ended(&w, id, EscrowVerb::Release, &w.ben).await;
        let (track, _) = w.market.track_record(&w.ann.id()).await.unwrap();
        assert_eq!(track.facts, 0);
    }
}
