//! The log makes every record again that scores keep, and whatever differs is named.

use skep_wire::admin::{AdminAct, AdminRequest};

use super::*;

const LISTS: [&str; 3] = ["score:verified", "score:qualified", "score:elite"];

impl World {
    async fn rule(&self, act: AdminAct) {
        let request = AdminRequest { act, reason: "a test".to_owned() };
        self.market().admin(request).await.unwrap();
    }

    /// Changes a record behind the log's back.
    async fn spoil(&self, key: RecordKey, change: impl Fn(&mut Value) + Send + 'static) {
        let load = Load { records: vec![(key.clone(), Lock::Exclusive)], ..Load::default() };
        let step = move |turn: &mut Turn| {
            let mut record: Value = turn.record(&key)?.unwrap_or_else(|| json!({}));
            change(&mut record);
            turn.put(&key, &record)?;
            Ok::<_, Bug>(Decision::Commit("null".to_owned()))
        };
        let call = Call { load, guards: vec![], step: Box::new(step) };
        self.market().store().call(call).await.unwrap();
    }

    async fn enlist_on_all(&self) {
        let ben = self.ben.id();
        let step = move |turn: &mut Turn| {
            LISTS.iter().for_each(|list| turn.enlist(list, ben));
            Ok::<_, Bug>(Decision::Commit("null".to_owned()))
        };
        let call = Call { load: Load::default(), guards: vec![], step: Box::new(step) };
        self.market().store().call(call).await.unwrap();
    }

    async fn faults(&self) -> Vec<String> {
        self.market().recompute_scores(Box::new(|_, _| {})).await.unwrap().problems
    }
}

on_both_engines! {
    async fn a_fault_in_each_record_is_named(f: Fixture) {
        let w = World::new(f).await;
        w.f.fund(&w.ann, 901, 10_000_000).await;
        for _ in 0..10 {
            w.paid().await;
        }
        let agent_id = w.ben.id();
        w.rule(AdminAct::ReviewAgent { agent_id }).await;
        w.rule(AdminAct::Demote { agent_id, tier: Tier::Unverified }).await;
        assert_eq!(w.track().await.tier_cap, Some(Tier::Unverified));
        w.scores_are_what_the_log_says().await;
        w.f.tick();
        w.rule(AdminAct::ReviewAgent { agent_id }).await;
        w.rule(AdminAct::RevokeBenchmark { agent_id, at: None }).await;
        w.rule(AdminAct::ClearRevocation { agent_id }).await;
        w.scores_are_what_the_log_says().await;

        let operator = w.market().agent(&agent_id.to_string()).await.unwrap().operator;
        let of_agent = |kind| RecordKey { route: RouteKey::of(agent_id), kind,
                                          id: agent_id.to_string() };
        let of_operator = RecordKey::own("operator_score", operator);
        w.pretend(|track| track.reviewed_at = None).await;
        w.spoil(of_agent("breadth"), |breadth| breadth["cost_cents"] = json!(5)).await;
        w.spoil(of_operator.clone(), |score| score["revocations"] = json!([])).await;
        w.enlist_on_all().await;
        let found = w.faults().await;
        assert_eq!(found.len(), 6, "{found:#?}");
        let found = found.join("\n");
        for named in ["reviewed_at: None", "5 cents, the log makes", "revocations: []"] {
            assert!(found.contains(named), "{named}: {found}");
        }
        for list in LISTS {
            assert!(found.contains(&format!("on the list {list} and should not")), "{found}");
        }
        let reviewed_at = Some(w.f.now());
        w.pretend(move |track| {
            (track.reviewed_at, track.tier_cap) = (reviewed_at, Some(Tier::Basic));
        })
        .await;
        w.spoil(of_operator, |score| drop(score.as_object_mut().unwrap().remove("cooldown_until")))
            .await;
        let found = w.faults().await.join("\n");
        for named in ["tier_cap: Some(Basic)", "cooldown_until: None"] {
            assert!(found.contains(named), "{named}: {found}");
        }
    }

    /// What was settled is counted from what its event says anyway.
    async fn an_event_says_of_a_fact_what_it_does_not_say_anyway(f: Fixture) {
        let w = World::new(f).await;
        w.f.fund(&w.ann, 901, 10_000_000).await;
        let ids = [w.paid().await, w.paid().await];
        w.scores_are_what_the_log_says().await;
        let events = w.market().events(0, 1000).await.unwrap().items;
        let facts = w.market().facts(&w.ben.id(), None, 9).await.unwrap();
        for (id, fact) in ids.iter().zip(facts.iter().rev()) {
            let of_deal = events.iter().filter(|event| event.route == id.to_string());
            let bodies = of_deal.map(|event| serde_json::from_str(&event.body).unwrap());
            let told: Vec<Value> =
                bodies.filter_map(|body: Value| body.get("counted").cloned()).collect();
            let proof = fact.proof.unwrap();
            let short = json!({
                "dimension": "ap2", "ok": true, "released_cents": 2, "proof": proof,
            });
            assert_eq!(told, [short]);
            let (source, requester) = (id.to_string(), Some(w.ann.id()));
            assert_eq!((&fact.source, fact.counterparty), (&source, requester));
        }
    }
}
