//! What newcomers get: a part of their first holds is fronted, and search shows them for a while.

use skep_wire::hire::{Found, Search};

use super::*;
use crate::seller::asking;

const MONTH: Duration = Duration::from_secs(30 * 24 * 3600);

/// What is held for a deal of the two; the platform could front a part.
async fn hold_of(w: &World, requester: &Person, provider: &Person) -> EscrowHold {
    let mut terms = priced();
    let sides = json!({
        "requester": {"agent_id": requester.id()}, "provider": {"agent_id": provider.id()},
    });
    merge(&mut terms, sides);
    let id = w.open_as(requester, terms).await.unwrap();
    let unique = u64::from_be_bytes(*id.as_bytes().last_chunk().unwrap());
    w.fund_subsidy(id, unique, 10_000).await;
    let answer = w.respond(provider, id, "ACCEPTED", json!({})).await.unwrap();
    answer.value.escrow.unwrap()
}

async fn is_fronted(w: &World, requester: &Person, provider: &Person) -> bool {
    !hold_of(w, requester, provider).await.subsidy_minor.is_zero()
}

on_both_engines! {
    async fn the_first_ten_deals_are_fronted_and_no_eleventh(f: Fixture) {
        let w = World::new(f).await;
        w.f.fund(&w.ann, 901, 1_000_000).await;
        for n in 1..=10 {
            let hold = hold_of(&w, &w.ann, &w.ben).await;
            assert!(!hold.subsidy_minor.is_zero(), "deal {n}");
            let delivered = w.deliver(hold.escrow_id, json!({})).await.unwrap();
            w.judge(delivered.verification_id.unwrap(), Outcome::Verified).await.unwrap();
        }
        assert!(!is_fronted(&w, &w.ann, &w.ben).await, "deal 11");
        let track = w.track().await;
        assert_eq!((track.totals.ap2, track.subsidies_open), (10, 0));
        w.scores_are_what_the_log_says().await;
    }

    async fn twenty_deals_of_one_operators_agents_are_fronted_at_a_time(f: Fixture) {
        let w = World::new(f).await;
        let acme = SecretKey::from_seed([60; 32]);
        w.market().register_operator(operator(&acme, "Acme", w.f.now())).await.unwrap();
        // Nobody else's limit is reached: ten deals of a provider, five of a requester.
        let [bea, cal, dan] = [31, 32, 33].map(Person::new);
        let requesters: Vec<Person> = (34..39).map(Person::new).collect();
        for agent in [&bea, &cal, &dan].into_iter().chain(&requesters) {
            w.f.register(agent).await;
        }
        for (n, requester) in (910..).zip(&requesters) {
            w.f.fund(requester, n, 1_000_000).await;
        }
        for agent in [&w.ben, &bea, &cal] {
            w.f.change(agent, agent.attach(&acme, w.f.now())).await.unwrap();
        }
        let mut holds = Vec::new();
        for n in 0..20 {
            let provider = if n < 10 { &w.ben } else { &bea };
            holds.push(hold_of(&w, &requesters[n / 5], provider).await);
        }
        assert!(holds.iter().all(|hold| !hold.subsidy_minor.is_zero()));
        let last = &requesters[4];
        assert!(!is_fronted(&w, last, &cal).await, "a third agent is no third operator");
        assert!(is_fronted(&w, last, &dan).await, "another operator's is fronted");
        w.cancel(&w.ben, holds[0].escrow_id).await.unwrap();
        assert!(is_fronted(&w, last, &cal).await, "there is room for one");
        assert!(!is_fronted(&w, last, &cal).await);
        w.scores_are_what_the_log_says().await;
    }

    /// Both are looked at in the same moment, and one of them came a millisecond before the other.
    async fn search_lifts_a_newcomer_for_thirty_days_to_the_millisecond(f: Fixture) {
        let mut w = World::new(f).await;
        w.f.market = asking(w.market());
        let came = w.f.now();
        let (old, olds) = w.f.seller(31).await;
        w.f.tick();
        let (young, youngs) = w.f.seller(32).await;
        for (seller, door) in [(&old, &olds), (&young, &youngs)] {
            let listing = seller.lists(w.f.now(), &door.url, json!({}));
            w.market().publish_listing(listing).await.unwrap();
        }
        let found = async || {
            w.run_timers().await;
            w.market().search(Search::default()).await.unwrap().agents
        };
        let is_new = |found: &Found| found.ranking.because.join("; ").contains("new here");
        let both = found().await;
        assert_eq!(both.iter().map(is_new).collect::<Vec<_>>(), [true, true]);
        assert_eq!(both[0].ranking.score, both[1].ranking.score);

        w.f.clock.set(came.plus(MONTH));
        let [first, second] = found().await.try_into().unwrap();
        assert_eq!((first.listing.agent_id, is_new(&first)), (young.id(), true));
        assert_eq!((second.listing.agent_id, is_new(&second)), (old.id(), false));
        assert_eq!(first.ranking.score - second.ranking.score, 30 << 42);

        w.f.clock.advance(HOUR);
        let both = found().await;
        assert_eq!(both.iter().map(is_new).collect::<Vec<_>>(), [false, false]);
        assert_eq!(both[0].ranking.score, second.ranking.score);
    }
}
