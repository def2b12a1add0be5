//! 9.7: nobody gets away from an operator that answers for fraud, and search says so of everything
//! that its agents sell.

use futures_util::future::join;
use skep_base::Did;
use skep_market::{
    AdminRefusal, Challenge, Failure, KeyRefusal, LEFT_ANSWERS, LEFT_MAX, OperatorScore, Refusal,
};
use skep_wire::{
    admin::{AdminAct, AdminAnswer, AdminRequest},
    hire::Found,
    identity::Agent,
    score::{Evaluator, OperatorReview},
};

use super::{life::nearly, *};

async fn acme(w: &World, seed: u8) -> SecretKey {
    let key = SecretKey::from_seed([seed; 32]);
    w.market().register_operator(operator(&key, "Acme", w.f.now())).await.unwrap();
    key
}

async fn attach(w: &World, who: &Person, key: &SecretKey) -> Result<Agent, Failure> {
    w.f.change(who, who.attach(key, w.f.now())).await
}

async fn act(w: &World, act: AdminAct) -> Result<AdminAnswer, Failure> {
    w.market().admin(AdminRequest { act, reason: "sold others' work".to_owned() }).await
}

async fn revoke(w: &World, who: &Person) -> Result<AdminAnswer, Failure> {
    act(w, AdminAct::RevokeBenchmark { agent_id: who.id(), at: None }).await
}

fn in_cooldown(until: Timestamp) -> Refusal {
    Refusal::Keys { reason: KeyRefusal::OperatorInCooldown { until } }
}

async fn revoke_at(w: &World, who: &Person, at: Timestamp) -> Result<AdminAnswer, Failure> {
    act(w, AdminAct::RevokeBenchmark { agent_id: who.id(), at: Some(at) }).await
}

/// As a moment ago, under the operator that it has.
async fn revoke_now(w: &World, who: &Person) -> Result<AdminAnswer, Failure> {
    revoke_at(w, who, w.f.now()).await
}

fn admin_refusal(result: Result<AdminAnswer, Failure>) -> AdminRefusal {
    match refusal(result) {
        Refusal::Admin { reason } => reason,
        other => panic!("{other:?}"),
    }
}

/// What an operator answers for, if it ever did.
async fn score_of(w: &World, operator: Did) -> Option<OperatorScore> {
    let record = RecordKey::own("operator_score", operator);
    let stored = w.market().store().record(record).await.unwrap();
    stored.map(|stored| serde_json::from_str(&stored.body).unwrap())
}

async fn listed(w: &World, key: &SecretKey) -> u64 {
    let list = format!("listings:{}", key.public().did());
    w.market().store().list_len(&list).await.unwrap().0
}

on_both_engines! {
    async fn nobody_leaves_an_operator_in_its_cool_down(f: Fixture) {
        let w = World::new(f).await;
        let (key, other) = (acme(&w, 60).await, acme(&w, 61).await);
        // An agent without an operator is its own.
        let until = w.f.now().plus(WINDOW);
        revoke(&w, &w.ben).await.unwrap();
        assert_eq!(refusal(attach(&w, &w.ben, &key).await), in_cooldown(until));
        w.f.clock.set(until.minus(MS));
        assert_eq!(refusal(attach(&w, &w.ben, &key).await), in_cooldown(until));
        w.f.clock.set(until);
        let now = attach(&w, &w.ben, &key).await.unwrap();
        assert_eq!(now.operator, key.public().did());

        // What another agent of the operator did holds it, too, until an admin ends that.
        let bea = Person::new(3);
        w.f.register(&bea).await;
        attach(&w, &bea, &key).await.unwrap();
        let until = w.f.now().plus(WINDOW);
        revoke_now(&w, &bea).await.unwrap();
        let away = w.ben.attach(&other, w.f.now());
        assert_eq!(refusal(w.f.change(&w.ben, away.clone()).await), in_cooldown(until));
        let kept = w.market().agent(&w.ben.id().to_string()).await.unwrap();
        assert_eq!(kept.operator, key.public().did());
        // Whoever wants to come, may.
        attach(&w, &w.ann, &key).await.unwrap();
        act(&w, AdminAct::EndCooldown { operator: key.public().did() }).await.unwrap();
        let left = w.f.change(&w.ben, away).await.unwrap();
        assert_eq!(left.operator, other.public().did(), "a refusal leaves a statement unused");
        w.scores_are_what_the_log_says().await;
    }

    /// Whichever comes first, the operator that the agent has in the end answers for it.
    async fn nobody_slips_away_while_it_is_revoked(f: Fixture) {
        let w = World::new(f).await;
        let key = acme(&w, 60).await;
        for seed in 30..42 {
            let agent = Person::new(seed);
            w.f.register(&agent).await;
            let (left, revoked) = join(attach(&w, &agent, &key), revoke(&w, &agent)).await;
            let has = w.market().agent(&agent.id().to_string()).await.unwrap().operator;
            let answers = score_of(&w, has).await.is_some_and(|score| {
                score.revocations.iter().any(|revocation| revocation.agent_id == agent.id())
            });
            match revoked {
                Ok(_) => assert!(answers, "{left:?}"),
                Err(error) => {
                    let why = admin_refusal(Err(error));
                    let known = matches!(why, AdminRefusal::WhichOperator { .. });
                    assert!(known || why == AdminRefusal::OperatorChanged, "{why:?}");
                    assert!(left.is_ok() && !answers);
                }
            }
            let end = AdminAct::EndCooldown { operator: has };
            if answers {
                act(&w, end).await.unwrap();
            }
        }
    }

    async fn who_left_answers_for_what_was_done_there(f: Fixture) {
        let w = World::new(f).await;
        let (first, second) = (acme(&w, 60).await, acme(&w, 61).await);
        let began = w.f.now();
        w.f.clock.advance(DAY);
        attach(&w, &w.ben, &first).await.unwrap();
        let came = w.f.now();
        w.f.clock.advance(DAY);
        attach(&w, &w.ben, &second).await.unwrap();
        let (went, there) = (w.f.now(), w.f.now().minus(HOUR));
        w.f.clock.advance(DAY);
        let now = w.f.now();

        // Nobody who did not know of it is made to answer by accident.
        let why = admin_refusal(revoke(&w, &w.ben).await);
        let AdminRefusal::WhichOperator { left, operator } = &why else { panic!("{why:?}") };
        let left_at: Vec<_> = left.iter().map(|left| left.left_at).collect();
        assert_eq!((left_at, *operator), (vec![came, went], second.public().did()));
        let told = why.to_string();
        let named = format!("{} until {went}", first.public().did());
        assert!(told.contains("--at TIME") && told.contains(&named), "{told}");
        for at in [began.minus(MS), now.plus(MS)] {
            let why = admin_refusal(revoke_at(&w, &w.ben, at).await);
            assert_eq!(why, AdminRefusal::NoSuchTime { from: began, now });
        }

        revoke_at(&w, &w.ben, there).await.unwrap();
        assert_eq!(w.track().await.benchmark.status, BenchmarkStatus::Revoked);
        let answers = score_of(&w, first.public().did()).await.unwrap();
        assert_eq!(answers.cooldown_until, Some(now.plus(WINDOW)));
        assert_eq!(answers.revocations[0].happened_at, Some(there));
        assert_eq!(score_of(&w, second.public().did()).await, None);
        w.scores_are_what_the_log_says().await;

        // It is taken back where it was said.
        w.f.tick();
        act(&w, AdminAct::ClearRevocation { agent_id: w.ben.id() }).await.unwrap();
        let cleared = score_of(&w, first.public().did()).await.unwrap();
        assert!(cleared.revocations[0].reversed.is_some(), "{cleared:?}");
        assert_eq!(score_of(&w, second.public().did()).await, None);
        w.scores_are_what_the_log_says().await;

        // The moment of leaving is the next one's, and so is what is too long ago for the others.
        w.f.tick();
        revoke_at(&w, &w.ben, went).await.unwrap();
        assert!(score_of(&w, second.public().did()).await.unwrap().in_cooldown(w.f.now()));
        act(&w, AdminAct::ClearRevocation { agent_id: w.ben.id() }).await.unwrap();
        act(&w, AdminAct::EndCooldown { operator: second.public().did() }).await.unwrap();
        w.f.clock.set(went.plus(LEFT_ANSWERS).minus(MS));
        let why = admin_refusal(revoke(&w, &w.ben).await);
        assert!(matches!(why, AdminRefusal::WhichOperator { .. }), "{why:?}");
        // What was done long ago is known all the same, and whoever can answers for it.
        let before_all = revoke_at(&w, &w.ben, came.minus(HOUR)).await.unwrap();
        assert!(before_all.now["operator"]["cooldown_until"].is_string(), "{before_all:?}");
        assert!(score_of(&w, first.public().did()).await.unwrap().in_cooldown(w.f.now()));
        act(&w, AdminAct::ClearRevocation { agent_id: w.ben.id() }).await.unwrap();
        act(&w, AdminAct::EndCooldown { operator: first.public().did() }).await.unwrap();
        w.f.tick();
        revoke_at(&w, &w.ben, there).await.unwrap();
        assert!(score_of(&w, second.public().did()).await.unwrap().in_cooldown(w.f.now()));
        act(&w, AdminAct::ClearRevocation { agent_id: w.ben.id() }).await.unwrap();
        w.f.tick();
        revoke(&w, &w.ben).await.unwrap();
        assert!(score_of(&w, second.public().did()).await.unwrap().in_cooldown(w.f.now()));
        w.scores_are_what_the_log_says().await;
    }

    async fn nobody_leaves_more_operators_than_are_remembered(f: Fixture) {
        let w = World::new(f).await;
        let mut keys = Vec::new();
        for seed in 60..=60 + u8::try_from(LEFT_MAX).unwrap() {
            keys.push(acme(&w, seed).await);
        }
        let last = keys.pop().unwrap();
        w.f.clock.advance(DAY);
        // The first one it leaves is itself.
        let began = w.f.now();
        for key in &keys {
            attach(&w, &w.ben, key).await.unwrap();
            w.f.clock.advance(HOUR);
        }
        let until = began.plus(LEFT_ANSWERS);
        let full = Refusal::Keys { reason: KeyRefusal::TooManyOperators { until } };
        assert_eq!(refusal(attach(&w, &w.ben, &last).await), full);
        w.f.clock.set(until.minus(MS));
        assert_eq!(refusal(attach(&w, &w.ben, &last).await), full);
        // Whoever says again what is so leaves nobody.
        attach(&w, &w.ben, &keys[LEFT_MAX - 1]).await.unwrap();
        w.f.tick();
        attach(&w, &w.ben, &last).await.unwrap();
        let why = admin_refusal(revoke(&w, &w.ben).await);
        let AdminRefusal::WhichOperator { left, .. } = why else { panic!("{why:?}") };
        assert_eq!(left.len(), LEFT_MAX);
    }

    /// What is agreed under one operator may be settled under another: that one's cool-down counts.
    async fn a_settlement_counts_under_the_operator_that_the_agent_has(f: Fixture) {
        let w = World::new(f).await;
        w.f.fund(&w.ann, 901, 1_000_000).await;
        let (good, bad) = (acme(&w, 60).await, acme(&w, 61).await);
        let bea = Person::new(3);
        w.f.register(&bea).await;
        attach(&w, &bea, &bad).await.unwrap();
        w.pretend(nearly).await;
        let benchmark = async || w.track().await.benchmark.status;
        let settled_after = async |operator: &SecretKey| {
            let (_, verification) = w.delivered(priced()).await;
            attach(&w, &w.ben, operator).await.unwrap();
            if operator.public() == bad.public() {
                revoke_now(&w, &bea).await.unwrap();
            }
            w.judge(verification, Outcome::Verified).await.unwrap();
            assert_eq!(benchmark().await, BenchmarkStatus::None, "nothing is known of the new one");
            w.run_timers().await;
        };
        settled_after(&bad).await;
        assert_eq!(benchmark().await, BenchmarkStatus::None, "its operator answers for fraud");
        act(&w, AdminAct::EndCooldown { operator: bad.public().did() }).await.unwrap();
        w.f.tick();
        settled_after(&good).await;
        assert_eq!(benchmark().await, BenchmarkStatus::Active);
        let told = w.market().benchmark_history(&w.ben.id(), 9).await.unwrap();
        assert_eq!(told[0].evaluator, Evaluator::SessionCompletion);
    }

    async fn what_was_listed_before_an_attachment_stands_as_the_operator_does(f: Fixture) {
        let mut w = World::new(f).await;
        w.f.market = w.market().clone().with_listing_challenge(Challenge::Off);
        let listing = w.ben.lists(w.f.now(), "http://127.0.0.1:9", json!({}));
        w.market().publish_listing(listing.clone()).await.unwrap();
        w.run_timers().await;
        let seen = async || -> Found {
            w.run_timers().await;
            w.market().listing(listing.id()).await.unwrap()
        };
        let (key, other) = (acme(&w, 60).await, acme(&w, 61).await);
        let bea = Person::new(3);
        w.f.register(&bea).await;
        attach(&w, &w.ben, &key).await.unwrap();
        attach(&w, &bea, &key).await.unwrap();
        let before = seen().await;
        assert!(!before.operator_under_review);
        assert_eq!(listed(&w, &key).await, 1);
        revoke_now(&w, &bea).await.unwrap();
        let hidden = seen().await;
        assert!(hidden.operator_under_review, "{hidden:?}");
        let why = hidden.ranking.because.join("; ");
        assert!(why.contains("0.7") && hidden.ranking.score < before.ranking.score, "{hidden:?}");

        // What is no longer of the operator is none of its listings, once somebody looks.
        act(&w, AdminAct::EndCooldown { operator: key.public().did() }).await.unwrap();
        assert_eq!(seen().await.ranking, before.ranking);
        attach(&w, &w.ben, &other).await.unwrap();
        assert!(!seen().await.operator_under_review);
        act(&w, AdminAct::ClearRevocation { agent_id: bea.id() }).await.unwrap();
        revoke_now(&w, &bea).await.unwrap();
        assert!(!seen().await.operator_under_review);
        assert_eq!((listed(&w, &key).await, listed(&w, &other).await), (0, 1));
        // Who comes to one that answers for fraud, answers with it.
        w.f.tick();
        attach(&w, &w.ben, &key).await.unwrap();
        assert!(seen().await.operator_under_review);
    }

    /// Before there is a score that others see, this is where they learn of it.
    async fn a_newcomer_says_that_its_operator_is_under_review(f: Fixture) {
        let w = World::new(f).await;
        let key = acme(&w, 60).await;
        let bea = Person::new(3);
        w.f.register(&bea).await;
        for who in [&w.ben, &bea] {
            attach(&w, who, &key).await.unwrap();
        }
        let review = async || {
            assert_eq!(w.market().headline(&w.ben.id()).await.unwrap(), None);
            w.market().agent(&w.ben.id().to_string()).await.unwrap().operator_review
        };
        assert_eq!(review().await, None);
        let until = w.f.now().plus(WINDOW);
        revoke_now(&w, &bea).await.unwrap();
        let label = "Operator Under Review".to_owned();
        let said = Some(OperatorReview { label, until });
        assert_eq!(review().await, said);
        w.f.clock.set(until.minus(MS));
        assert_eq!(review().await, said);
        w.f.clock.set(until);
        assert_eq!(review().await, None);
        // The same where an admin ends it, and by the DID as well.
        act(&w, AdminAct::ClearRevocation { agent_id: bea.id() }).await.unwrap();
        revoke_now(&w, &bea).await.unwrap();
        let until = w.f.now().plus(WINDOW);
        let did = w.market().agent(&w.ben.id().to_string()).await.unwrap().did;
        let by_did = async || w.market().agent(&did.to_string()).await.unwrap().operator_review;
        assert_eq!(by_did().await.map(|review| review.until), Some(until));
        act(&w, AdminAct::EndCooldown { operator: key.public().did() }).await.unwrap();
        assert_eq!((review().await, by_did().await), (None, None));
    }
}
