//! 9.7: nobody gets away from an operator that answers for fraud, and search says so of everything
//! that its agents sell.

use futures_util::future::join;
use skep_market::{AdminRefusal, Challenge, Failure, KeyRefusal, OperatorScore, Refusal};
use skep_wire::{
    admin::{AdminAct, AdminAnswer, AdminRequest},
    hire::Found,
    identity::Agent,
};

use super::*;

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
    act(w, AdminAct::RevokeBenchmark { agent_id: who.id() }).await
}

fn in_cooldown(until: Timestamp) -> Refusal {
    Refusal::Keys { reason: KeyRefusal::OperatorInCooldown { until } }
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
        revoke(&w, &bea).await.unwrap();
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
            let record = RecordKey::own("operator_score", has);
            let stored = w.market().store().record(record).await.unwrap();
            let score: Option<OperatorScore> =
                stored.map(|stored| serde_json::from_str(&stored.body).unwrap());
            let answers = score.is_some_and(|score| {
                score.revocations.iter().any(|revocation| revocation.agent_id == agent.id())
            });
            match revoked {
                Ok(_) => assert!(answers, "{left:?}"),
                Err(error) => {
                    let reason = AdminRefusal::OperatorChanged;
                    assert_eq!(refusal::<()>(Err(error)), Refusal::Admin { reason });
                    assert!(left.is_ok() && !answers);
                }
            }
            let end = AdminAct::EndCooldown { operator: has };
            if answers {
                act(&w, end).await.unwrap();
            }
        }
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
        revoke(&w, &bea).await.unwrap();
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
        revoke(&w, &bea).await.unwrap();
        assert!(!seen().await.operator_under_review);
        assert_eq!((listed(&w, &key).await, listed(&w, &other).await), (0, 1));
        // Who comes to one that answers for fraud, answers with it.
        w.f.tick();
        attach(&w, &w.ben, &key).await.unwrap();
        assert!(seen().await.operator_under_review);
    }
}
