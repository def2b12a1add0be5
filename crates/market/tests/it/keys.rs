use skep_market::{Failure, Guarded, KeyRefusal, RECOVERY_DELAY, ROTATION_FREEZE, Refusal};
use skep_testkit::postgres::TempPostgres;
use skep_wire::{
    identity::{Agent, Binding, KeyChange, RecoveryCancellation, Revocation, Rotation, Statement},
    wallet::Faucet,
};

use crate::{fixture::*, on_both_engines};

fn key_refusal(result: Result<Agent, Failure>) -> KeyRefusal {
    match refusal(result) {
        Refusal::Keys { reason } => reason,
        other => panic!("expected a rule of keys, not {other:?}"),
    }
}

on_both_engines! {
    async fn a_rotation_ends_the_old_key_and_freezes_the_money(f: Fixture) {
        let (ann, ben) = f.two().await;
        let old = f.market.agent(&ann.id().to_string()).await.unwrap();
        let late = ann.signed("late");
        let new_key = ann.other_key(1);
        let rotation = ann.rotate(&new_key, f.now());
        let agent = f.change(&ann, rotation.clone()).await.unwrap();
        assert_eq!(agent.did, old.did);
        assert_eq!(agent.keys.len(), 2);
        assert_eq!(agent.keys[0].revoked_at, Some(f.now()));
        // The chain can be followed by a stranger.
        let proof: KeyChange = serde_json::from_value(agent.keys[1].proof.clone()).unwrap();
        assert_eq!(proof, rotation);
        let by_did = f.market.key_of(&agent.did.to_string()).await.unwrap();
        assert_eq!(by_did, (ann.id(), new_key.public()));

        let refused = refusal(f.pay(&late, payment(1, &ben, 1)).await);
        assert_eq!(refused, Refusal::KeyNotCurrent);
        let ann = ann.with_key(new_key);
        let until = f.now().plus(ROTATION_FREEZE);
        let frozen = Refusal::MoneyFrozen { until };
        let pays = async |n| f.pay(&ann.signed("pay"), payment(n, &ben, 1)).await;
        assert_eq!(refusal(pays(2).await), frozen);
        assert_eq!(refusal(f.pay(&ann.signed("hold"), hold(3, &ben, 1)).await), frozen);
        f.clock.set(until.minus(MS));
        assert_eq!(refusal(pays(4).await), frozen);
        f.clock.set(until);
        pays(5).await.unwrap();
        assert_eq!(f.balance(&ben).await, "1/0/0");
        f.audit_is_clean().await;
    }

    async fn a_frozen_wallet_keeps_its_holds(f: Fixture) {
        let (ann, ben) = f.two().await;
        f.pay(&ann.signed("hold"), hold(1, &ben, 10)).await.unwrap();
        f.pay(&ann.signed("paid"), payment(2, &ben, 5)).await.unwrap();
        let new_key = ann.other_key(1);
        f.change(&ann, ann.rotate(&new_key, f.now())).await.unwrap();
        let ann = ann.with_key(new_key);
        let frozen = Refusal::MoneyFrozen { until: f.now().plus(ROTATION_FREEZE) };
        let posted = f.market.transfer_post(&ann.signed("post"), id(1), Default::default()).await;
        assert_eq!(refusal(posted), frozen);
        // Asking again about what was paid before pays nothing, and so is answered.
        f.pay(&ann.signed("paid again"), payment(2, &ben, 5)).await.unwrap();
        f.market.transfer_void(&ben.signed("void"), id(1)).await.unwrap();
        assert_eq!(f.balance(&ann).await, "995/0/0");
    }

    async fn every_signature_of_a_rotation_counts(f: Fixture) {
        let (ann, ben) = f.two().await;
        let new_key = ann.other_key(1);
        let statement = ann.rotation(&new_key, f.now());
        let words = Rotation::TYPE;
        let rotate = |wallet, old, new| KeyChange::Rotate {
            statement: statement.clone(),
            wallet_signature: statement.sign_with_wallet(wallet).unwrap(),
            old_key_signature: statement.sign(old).unwrap(),
            new_key_signature: statement.sign(new).unwrap(),
        };
        let change = rotate(&ben.wallet, &ann.key, &new_key);
        assert_eq!(refusal(f.change(&ann, change).await), bad_signature("wallet", "rotation"));
        let change = rotate(&ann.wallet, &ben.key, &new_key);
        assert_eq!(refusal(f.change(&ann, change).await), bad_signature("old key", words));
        let change = rotate(&ann.wallet, &ann.key, &ben.key);
        assert_eq!(refusal(f.change(&ann, change).await), bad_signature("new key", words));

        let good = rotate(&ann.wallet, &ann.key, &new_key);
        let what = format!("the statement is about {}, not about {}", ann.id(), ben.id());
        let refused = refusal(f.change(&ben, good.clone()).await);
        assert_eq!(refused, Refusal::BadStatement { what });
        let to_bens = ann.rotate(&ben.key, f.now());
        assert_eq!(refusal(f.change(&ann, to_bens).await), Refusal::KeyTaken);
        let old = ann.rotate(&new_key, f.now().minus(HOUR));
        let stale = Refusal::StatementNotFresh { issued_at: f.now().minus(HOUR), minutes: 10 };
        assert_eq!(refusal(f.change(&ann, old).await), stale);

        let first = f.market.change_keys(&ann.id(), good.clone()).await.unwrap();
        let again = f.market.change_keys(&ann.id(), good).await.unwrap();
        assert_eq!((again.value, again.replayed), (first.value, true));
        let other = ann.rotate(&ann.other_key(2), f.now());
        assert_eq!(key_refusal(f.change(&ann, other).await), KeyRefusal::OldKeyNotCurrent);
    }

    async fn a_revoked_key_is_refused_at_once_and_burns_no_nonce(f: Fixture) {
        let (ann, ben) = f.two().await;
        // Signed before, arrives after.
        let late = ann.signed_with("late", "pay ben");
        f.change(&ann, ann.revoke_by_wallet(f.now())).await.unwrap();
        let refused = refusal(f.pay(&late, payment(1, &ben, 1)).await);
        assert_eq!(refused, Refusal::KeyNotCurrent);
        assert_eq!(refusal(f.market.key_of(&ann.id().to_string()).await), Refusal::KeyNotCurrent);
        let rotation = ann.rotate(&ann.other_key(2), f.now());
        assert_eq!(key_refusal(f.change(&ann, rotation).await), KeyRefusal::KeyRevoked);
        f.market.register_operator(operator(&ben.key, "ben", f.now())).await.unwrap();
        let attach = ann.attach(&ben.key, f.now());
        assert_eq!(refusal(f.change(&ann, attach).await), Refusal::KeyNotCurrent);

        let new_key = ann.other_key(1);
        f.change(&ann, ann.recover(&new_key, f.now())).await.unwrap();
        f.clock.advance(RECOVERY_DELAY);
        assert_eq!(f.market.do_due_jobs().await.unwrap(), 1);
        let ann = ann.with_key(new_key);
        let faucet = Faucet { id: id(2), money: usdc(7), to: None };
        let same_nonce = ann.signed_with("late", "faucet");
        assert!(!f.market.faucet(&same_nonce, faucet).await.unwrap().replayed);
        assert_eq!(f.balance(&ann).await, "1007/0/0");
        // Now it is used up.
        let other = f.pay(&ann.signed_with("late", "pay ben"), payment(1, &ben, 1)).await;
        assert!(matches!(other, Err(Failure::KeyReused(Guarded::Nonce))), "{other:?}");
    }

    async fn who_may_revoke(f: Fixture) {
        let (ann, ben) = f.two().await;
        let statement = ann.revocation(f.now());
        let words = Revocation::TYPE;
        let by_key = |key| KeyChange::Revoke {
            statement: statement.clone(),
            wallet_signature: None,
            key_signature: Some(statement.sign(key).unwrap()),
            recovery_signature: None,
        };
        assert_eq!(refusal(f.change(&ann, by_key(&ben.key)).await), bad_signature("key", words));
        let nobody = KeyChange::Revoke {
            statement: statement.clone(),
            wallet_signature: None,
            key_signature: None,
            recovery_signature: None,
        };
        assert_eq!(key_refusal(f.change(&ann, nobody).await), KeyRefusal::NotSignedByOwner);
        let wallet = KeyChange::Revoke {
            statement: statement.clone(),
            wallet_signature: statement.sign_with_wallet(&ben.wallet),
            key_signature: None,
            recovery_signature: None,
        };
        assert_eq!(refusal(f.change(&ann, wallet).await), bad_signature("wallet", words));
        f.change(&ann, by_key(&ann.key)).await.unwrap();

        // The recovery key knows better since when; the stolen key has no more say.
        let since = Some(f.now().minus(HOUR));
        let statement = Revocation { compromised_since: since, ..statement.clone() };
        let by_itself = KeyChange::Revoke {
            wallet_signature: None,
            key_signature: Some(statement.sign(&ann.key).unwrap()),
            recovery_signature: None,
            statement: statement.clone(),
        };
        assert_eq!(key_refusal(f.change(&ann, by_itself).await), KeyRefusal::AlreadyRevoked);
        let by_recovery = KeyChange::Revoke {
            wallet_signature: None,
            key_signature: None,
            recovery_signature: Some(statement.sign(&ann.recovery).unwrap()),
            statement,
        };
        let agent = f.change(&ann, by_recovery).await.unwrap();
        assert_eq!(agent.keys[0].compromised_since, since);
        let without = ann.revoke_by_wallet(f.now().plus(MS));
        assert_eq!(key_refusal(f.change(&ann, without).await), KeyRefusal::AlreadyRevoked);
    }

    async fn a_recovery_waits_for_its_time(f: Fixture) {
        let (ann, ben) = f.two().await;
        let new_key = ann.other_key(1);
        let agent = f.change(&ann, ann.recover(&new_key, f.now())).await.unwrap();
        let effective_at = f.now().plus(RECOVERY_DELAY);
        let waiting = agent.pending_recovery.unwrap();
        assert_eq!((waiting.new_key, waiting.effective_at), (new_key.public(), effective_at));
        let second = ann.recover(&ann.other_key(2), f.now());
        assert_eq!(key_refusal(f.change(&ann, second).await), KeyRefusal::RecoveryWaiting);
        // Until then the old key is good.
        f.pay(&ann.signed("pay"), payment(1, &ben, 1)).await.unwrap();
        f.clock.set(effective_at.minus(MS));
        assert_eq!(f.market.do_due_jobs().await.unwrap(), 0);
        f.pay(&ann.signed("pay"), payment(2, &ben, 1)).await.unwrap();

        f.clock.set(effective_at);
        let late = ann.signed("pay");
        assert_eq!(f.market.do_due_jobs().await.unwrap(), 1);
        assert_eq!(refusal(f.pay(&late, payment(3, &ben, 1)).await), Refusal::KeyNotCurrent);
        let ann = ann.with_key(new_key);
        let agent = f.market.agent(&ann.id().to_string()).await.unwrap();
        assert_eq!(agent.current_key, Some(ann.key.public()));
        assert_eq!(agent.pending_recovery, None);
        assert_eq!(f.record(&ann).await.recovery_timer, None);
        let frozen = Refusal::MoneyFrozen { until: effective_at.plus(ROTATION_FREEZE) };
        assert_eq!(refusal(f.pay(&ann.signed("pay"), payment(4, &ben, 1)).await), frozen);
        f.clock.advance(RECOVERY_DELAY);
        assert_eq!(f.market.do_due_jobs().await.unwrap(), 0);
        let kinds = f.kinds().await;
        assert_eq!(kinds.iter().filter(|k| *k == "agent.key_recovered").count(), 1);
        f.audit_is_clean().await;
    }

    async fn the_wallet_or_a_rotation_stops_a_recovery(f: Fixture) {
        let (ann, ben) = f.two().await;
        let (key, other) = (ann.other_key(1), ann.other_key(2));
        let none = ann.cancel_by_wallet(key.public(), f.now());
        assert_eq!(key_refusal(f.change(&ann, none).await), KeyRefusal::NoRecoveryWaiting);
        f.change(&ann, ann.recover(&key, f.now())).await.unwrap();

        let KeyChange::CancelRecovery { statement, .. } =
            ann.cancel_by_wallet(key.public(), f.now())
        else {
            unreachable!()
        };
        let nobody = KeyChange::CancelRecovery {
            wallet_signature: None,
            key_signature: None,
            statement: statement.clone(),
        };
        assert_eq!(key_refusal(f.change(&ann, nobody).await), KeyRefusal::NotSignedByOwner);
        let by_ben = KeyChange::CancelRecovery {
            wallet_signature: statement.sign_with_wallet(&ben.wallet),
            key_signature: None,
            statement: statement.clone(),
        };
        let refused = refusal(f.change(&ann, by_ben).await);
        assert_eq!(refused, bad_signature("wallet", "skep/recovery-cancellation/v1"));
        let cancel = ann.cancel_by_wallet(key.public(), f.now());
        let agent = f.change(&ann, cancel.clone()).await.unwrap();
        assert_eq!(agent.pending_recovery, None);

        // Started again, it is not stopped by the same words.
        f.clock.advance(MS);
        f.change(&ann, ann.recover(&key, f.now())).await.unwrap();
        assert!(f.market.change_keys(&ann.id(), cancel).await.unwrap().replayed);
        assert!(f.record(&ann).await.agent.pending_recovery.is_some());
        // Nor by the same words with another good signature; new words by the key are enough.
        let by_key = |statement: RecoveryCancellation| KeyChange::CancelRecovery {
            wallet_signature: None,
            key_signature: Some(statement.sign(&ann.key).unwrap()),
            statement,
        };
        let again = by_key(statement.clone());
        assert!(f.market.change_keys(&ann.id(), again).await.unwrap().replayed);
        let new = by_key(RecoveryCancellation { issued_at: f.now(), ..statement });
        assert_eq!(f.change(&ann, new).await.unwrap().pending_recovery, None);

        f.clock.advance(MS);
        f.change(&ann, ann.recover(&key, f.now())).await.unwrap();
        f.change(&ann, ann.rotate(&other, f.now())).await.unwrap();
        assert_eq!(f.record(&ann).await.recovery_timer, None);
        f.clock.advance(2 * RECOVERY_DELAY);
        assert_eq!(f.market.do_due_jobs().await.unwrap(), 0);
        let agent = f.market.agent(&ann.id().to_string()).await.unwrap();
        assert_eq!(agent.current_key, Some(other.public()));
    }

    async fn a_recovery_needs_the_recovery_key_and_a_key_of_nobody(f: Fixture) {
        let (ann, ben) = f.two().await;
        let new_key = ann.other_key(1);
        let statement = ann.rotation(&new_key, f.now());
        let recover = |recovery, new| KeyChange::Recover {
            statement: statement.clone(),
            recovery_signature: statement.sign(recovery).unwrap(),
            new_key_signature: statement.sign(new).unwrap(),
        };
        let words = Rotation::TYPE;
        let refused = refusal(f.change(&ann, recover(&ann.key, &new_key)).await);
        assert_eq!(refused, bad_signature("recovery key", words));
        let refused = refusal(f.change(&ann, recover(&ann.recovery, &ben.key)).await);
        assert_eq!(refused, bad_signature("new key", words));
        // Said now, not after three days.
        let taken = refusal(f.change(&ann, ann.recover(&ben.key, f.now())).await);
        assert_eq!(taken, Refusal::KeyTaken);

        let cleo = Person::new(3);
        let bare = Binding { recovery_key: None, ..cleo.binding(f.now()) };
        f.market.register_agent(cleo.registration(&bare)).await.unwrap();
        let change = cleo.recover(&cleo.other_key(1), f.now());
        assert_eq!(key_refusal(f.change(&cleo, change).await), KeyRefusal::NoRecoveryKey);
    }
}

/// A payment that waits for its wallet has checked its key already: whoever revokes the key then
/// waits too, so that nothing is paid after a revocation was answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_not_revoked_while_a_payment_uses_it() {
    let f = Fixture::postgres().await;
    let (ann, ben) = f.two().await;
    let database = f.url.rsplit('/').next().unwrap().to_owned();
    let blocker = std::thread::spawn(move || {
        let sql = "begin; select account from accounts for update; select pg_sleep(2); commit";
        TempPostgres::shared().psql(&database, sql).unwrap();
    });
    let moment = || tokio::time::sleep(std::time::Duration::from_millis(500));
    moment().await;
    let (market, signed, transfer) = (f.market.clone(), ann.signed("pay"), payment(1, &ben, 5));
    let paying = tokio::spawn(async move { market.transfer_create(&signed, transfer).await });
    moment().await;
    f.change(&ann, ann.revoke_by_wallet(f.now())).await.unwrap();
    let paid = paying.await.unwrap();
    blocker.join().unwrap();
    let kinds = f.kinds().await;
    let place = |kind: &str| kinds.iter().position(|k| k == kind);
    match paid {
        Ok(_) => assert!(place("transfer.posted") < place("agent.key_revoked"), "{kinds:?}"),
        refused => assert_eq!(refusal(refused), Refusal::KeyNotCurrent),
    }
}
