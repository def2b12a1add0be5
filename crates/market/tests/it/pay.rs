//! The node as an x402 facilitator: what it takes, what it refuses, and that it takes it once.

use serde_json::json;
use skep_base::AgentId;
use skep_market::{Failure, Refusal};
use skep_wire::{wallet::Faucet, x402::reason};
use tokio::task::JoinSet;

use crate::{fixture::*, on_both_engines, pay_world::*};

/// An address that nobody registered.
fn shop() -> AgentId {
    AgentId::from_bytes([0x55; 20])
}

fn flat<T: Clone>(value: &T, change: impl FnOnce(&mut T)) -> T {
    let mut other = value.clone();
    change(&mut other);
    other
}

async fn balance_of(f: &Fixture, address: AgentId) -> i64 {
    let wallet = f.market.wallet(&address).await.unwrap();
    wallet.balances.first().map_or(0, |balance| balance.available.amount.minor())
}

on_both_engines! {
    async fn a_payment_is_taken_once_in_either_version(f: Fixture) {
        let (ann, _) = f.two().await;
        let rail = f.market.rail();
        for (version, n) in [(1, 1), (2, 2)] {
            let bill = Bill::new(version, &rail, &ann, shop(), 100, n);
            let request = bill.request();
            let verified = f.market.x402_verify(&request).await.unwrap();
            assert!(verified.is_valid, "{verified:?}");
            assert_eq!(verified.payer, Some(ann.id()));
            let first = settle(&f.market, &request).await;
            assert_eq!(first.network, bill.network);
            assert_eq!((first.transaction.len(), first.amount.as_deref()), (66, Some("100")));
            // Also long after it has expired.
            f.clock.advance(HOUR);
            assert_eq!(settle(&f.market, &request).await, first);
            let again = f.market.x402_verify(&request).await.unwrap();
            assert_eq!(again.invalid_reason.as_deref(), Some(reason::NONCE_USED));
            // The nonce is good for nothing else.
            for other in [
                flat(&bill, |b| b.resource = "https://seller.example/other".to_owned()),
                flat(&bill, |b| (b.price, b.value) = (101, 101)),
                flat(&bill, |b| {
                    let other = AgentId::from_bytes([3; 20]);
                    (b.pay_to, b.to) = (other, other);
                }),
                flat(&bill, |b| b.window.1 += 1),
            ] {
                let reason = refused_by_both(&f.market, &other.request()).await;
                assert_eq!(reason, reason::NONCE_USED);
            }
            f.clock.set(skep_base::Timestamp::from_ms(START_MS + 10));
        }
        assert_eq!(f.balance(&ann).await, "800/0/0");
        assert_eq!(balance_of(&f, shop()).await, 200);
        let kinds = f.kinds().await;
        assert_eq!(kinds.iter().filter(|kind| *kind == "payment.settled").count(), 2);
        f.audit_is_clean().await;
    }

    async fn what_is_wrong_is_refused_by_name_and_moves_nothing(f: Fixture) {
        let (ann, ben) = f.two().await;
        let rail = f.market.rail();
        for version in [1, 2] {
            let good = Bill::new(version, &rail, &ann, shop(), 100, version.into());
            let start = START_MS / 1000;
            let cases: Vec<(&str, Bill)> = vec![
                (reason::VALUE, flat(&good, |b| b.value = 99)),
                (reason::VALUE, flat(&good, |b| b.value = 101)),
                (reason::VALUE, flat(&good, |b| (b.price, b.value) = (0, 0))),
                (reason::RECIPIENT, flat(&good, |b| b.to = ben.id())),
                (reason::RECIPIENT, flat(&good, |b| (b.pay_to, b.to) = (ann.id(), ann.id()))),
                (reason::TOKEN, flat(&good, |b| b.asset = ben.id())),
                (reason::TOKEN, flat(&good, |b| b.domain.name = "USD Coin".to_owned())),
                (reason::INVALID_NETWORK, flat(&good, |b| b.network = "eip155:8453".to_owned())),
                (reason::UNSUPPORTED_SCHEME, flat(&good, |b| b.scheme = "upto".to_owned())),
                (reason::VALID_BEFORE, flat(&good, |b| b.window.1 = start)),
                (reason::VALID_AFTER, flat(&good, |b| b.window.0 = start + 1)),
                (reason::SIGNATURE, flat(&good, |b| b.high_s = true)),
                (reason::SIGNATURE, flat(&good, |b| b.signer = ben.wallet.clone())),
                (reason::SIGNATURE, flat(&good, |b| b.domain.chain_id = 1)),
                (reason::SIGNATURE, flat(&good, |b| b.domain.verifying_contract = ben.id())),
                (reason::INSUFFICIENT_FUNDS, flat(&good, |b| (b.price, b.value) = (1001, 1001))),
                (reason::ESCROW_TERMS, flat(&good, |b| {
                    (b.pay_to, b.to) = (rail.escrow_address, rail.escrow_address);
                })),
                (reason::INVALID_PAYLOAD, flat(&good, |b| b.identifier = Some("short".to_owned()))),
            ];
            f.clock.set(skep_base::Timestamp::from_ms(START_MS));
            for (at, (reason, bill)) in cases.iter().enumerate() {
                let said = refused_by_both(&f.market, &bill.request()).await;
                assert_eq!(said, *reason, "case {at} of version {version}");
            }
            let mut request = good.request();
            request.x402_version = 3 - version;
            assert_eq!(refused_by_both(&f.market, &request).await, reason::INVALID_VERSION);
            request.x402_version = 3;
            assert_eq!(refused_by_both(&f.market, &request).await, reason::INVALID_VERSION);
            request = good.request();
            request.payment_payload = json!({ "x402Version": version });
            assert_eq!(refused_by_both(&f.market, &request).await, reason::INVALID_PAYLOAD);
            request = good.request();
            request.payment_requirements = json!([]);
            assert_eq!(refused_by_both(&f.market, &request).await, reason::INVALID_REQUIREMENTS);
            // Nothing of this used the nonce up; the last moment of its time is good.
            let last = flat(&good, |b| b.window = (start, start + 1));
            f.clock.set(skep_base::Timestamp::from_ms(START_MS + 999));
            settle(&f.market, &last.request()).await;
        }
        assert_eq!(f.balance(&ann).await, "800/0/0");
        assert_eq!(balance_of(&f, shop()).await, 200);
        f.audit_is_clean().await;
    }

    async fn a_hire_is_paid_by_its_buyer_and_by_nothing_else(f: Fixture) {
        let (ann, ben) = f.two().await;
        let rail = f.market.rail();
        let wanted = hire(&ann, ben.id(), 1, json!({ "max_price_usdc": "0.0001" }));
        let good = Bill::for_hire(&rail, &ann, shop(), 100, &wanted);
        let with = |other: &skep_wire::hire::HireRequest| {
            flat(&good, |b| b.skep.as_mut().unwrap().hire = Some(other.envelope().unwrap()))
        };
        let forged = flat(&wanted, |hire| hire.params = json!({ "n": 2 }));
        let unsigned = flat(&wanted, |hire| hire.signature = None);
        let bens = hire(&ben, ann.id(), 1, json!({}));
        let another = hire(&ann, ben.id(), 2, json!({}));
        let cheap = hire(&ann, ben.id(), 1, json!({ "max_price_usdc": "0.000099" }));
        let cheap = Bill::for_hire(&rail, &ann, shop(), 100, &cheap);
        let cases = [
            (reason::HIRE_SIGNATURE, with(&forged)),
            (reason::HIRE_SIGNATURE, with(&unsigned)),
            (reason::NOT_THE_BUYER, with(&bens)),
            (reason::NOT_FOR_THIS_HIRE, with(&another)),
            (reason::NOT_FOR_THIS_HIRE, cheap),
        ];
        for (at, (reason, bill)) in cases.iter().enumerate() {
            assert_eq!(refused_by_both(&f.market, &bill.request()).await, *reason, "case {at}");
        }
        let first = settle(&f.market, &good.request()).await;
        assert_eq!(settle(&f.market, &good.request()).await, first);
        // The same money without the hire is another use of it.
        let plain = flat(&good, |b| b.skep = None);
        assert_eq!(refused_by_both(&f.market, &plain.request()).await, reason::NONCE_USED);
        assert_eq!(f.balance(&ann).await, "900/0/0");
        f.kinds().await;
        // Buyer, payee and seller are told.
        for who in [ann.id(), shop(), ben.id()] {
            let inbox = f.market.inbox(&who, 0, 100).await.unwrap().items;
            assert_eq!(inbox.iter().filter(|e| e.kind == "payment.settled").count(), 1, "{who}");
        }
        f.audit_is_clean().await;
    }

    async fn a_wallet_without_an_agent_pays_and_a_frozen_one_does_not(f: Fixture) {
        let (ann, ben) = f.two().await;
        let rail = f.market.rail();
        let stranger = Person::new(9);
        let faucet = Faucet { id: id(7), money: usdc(50), to: Some(stranger.id()) };
        f.market.faucet(&ann.signed("faucet"), faucet).await.unwrap();
        let pays = Bill::new(2, &rail, &stranger, ben.id(), 50, 1);
        settle(&f.market, &pays.request()).await;
        assert_eq!(f.balance(&ben).await, "50/0/0");
        let fresh = ann.other_key(1);
        f.change(&ann, ann.rotate(&fresh, f.now())).await.unwrap();
        let pays = Bill::new(2, &rail, &ann, ben.id(), 50, 2);
        assert_eq!(refused_by_both(&f.market, &pays.request()).await, reason::WALLET_BLOCKED);
        assert_eq!(f.balance(&ann).await, "1000/0/0");
    }

    async fn a_payments_own_id_is_good_for_one_payment(f: Fixture) {
        let (ann, ben) = f.two().await;
        let rail = f.market.rail();
        let named = |bill: Bill| flat(&bill, |b| b.identifier = Some("pay_0123456789abcdef".into()));
        let first = named(Bill::new(2, &rail, &ann, ben.id(), 10, 1));
        let paid = settle(&f.market, &first.request()).await;
        assert_eq!(settle(&f.market, &first.request()).await, paid);
        let other = named(Bill::new(2, &rail, &ann, ben.id(), 10, 2)).request();
        let verified = f.market.x402_verify(&other).await.unwrap();
        assert_eq!(verified.invalid_reason.as_deref(), Some(reason::IDENTIFIER_REUSED));
        let refused = f.market.x402_settle(&other).await;
        let is_reuse = |reason: &str| reason == reason::IDENTIFIER_REUSED;
        let named_so = matches!(&refused, Err(Failure::Refused(Refusal::Payment { reason }))
            if is_reuse(&reason.reason));
        assert!(named_so, "{refused:?}");
        // Somebody else may use the same word.
        f.fund(&ben, 901, 10).await;
        let bens = named(Bill::new(2, &rail, &ben, ann.id(), 10, 3));
        settle(&f.market, &bens.request()).await;
        assert_eq!(f.balance(&ann).await, "1000/0/0");
    }

    async fn sixty_four_settle_one_payment_and_it_is_taken_once(f: Fixture) {
        let (ann, ben) = f.two().await;
        let rail = f.market.rail();
        for round in 0..3 {
            let bill = Bill::new(2, &rail, &ann, ben.id(), 10, round);
            let other = flat(&bill, |b| (b.price, b.value) = (11, 11));
            let mut callers = JoinSet::new();
            for n in 0..64 {
                let market = f.market.clone();
                let request = if n % 4 == 3 { other.request() } else { bill.request() };
                callers.spawn(async move { (n % 4, market.x402_settle(&request).await.unwrap()) });
            }
            let said = callers.join_all().await;
            let taken: Vec<bool> = [3, 0].map(|kind| {
                let of_kind = said.iter().filter(|(n, _)| (*n == 3) == (kind == 3));
                let words: Vec<bool> = of_kind.map(|(_, said)| said.success).collect();
                assert!(words.iter().all(|word| *word == words[0]), "{said:?}");
                words[0]
            }).into();
            assert_eq!(taken.iter().filter(|taken| **taken).count(), 1, "{said:?}");
        }
        let total: i64 = 1000 - balance_of(&f, ann.id()).await;
        assert!((30..=33).contains(&total), "{total}");
        assert_eq!(balance_of(&f, ben.id()).await, total);
        f.audit_is_clean().await;
    }
}
