use std::time::Duration;

use serde_json::{Value, json};
use skep_market::{Challenge, HireRefusal, Market, Refusal};
use skep_store::{Bug, Call, Decision, Load, Lock, Outcome, RecordKey, Turn};
use skep_wire::hire::{Listing, ListingRemoval, Search, SearchAnswer, WalletSigned};

use crate::{
    fixture::*,
    on_both_engines,
    seller::{Door, asking},
};

const MINUTE: Duration = Duration::from_secs(60);

fn hire_refusal<T: std::fmt::Debug>(result: Result<T, skep_market::Failure>) -> HireRefusal {
    match refusal(result) {
        Refusal::Hire { reason } => reason,
        other => panic!("{other:?}"),
    }
}

async fn search(market: &Market, search: Value) -> SearchAnswer {
    let search: Search = serde_json::from_value(search).unwrap();
    market.search(search).await.unwrap()
}

/// The descriptions of what is found, in order.
async fn found(market: &Market, asked: Value) -> String {
    let answer = search(market, asked).await;
    let names = answer.agents.iter().map(|found| found.listing.description.clone().unwrap());
    names.collect::<Vec<_>>().join(" ")
}

/// A market that asks nobody.
fn unasked(f: &Fixture) -> Market {
    f.market.clone().with_listing_challenge(Challenge::Off)
}

on_both_engines! {
    async fn a_listing_stands_once_its_endpoint_has_shown_whose_it_is(f: Fixture) {
        let (ann, door) = f.seller(1).await;
        let market = asking(&f.market);
        let listing = ann.lists(f.now(), &door.url, json!({}));
        let answer = market.publish_listing(listing.clone()).await.unwrap();
        assert!(answer.ok && answer.changed && answer.listing == listing);
        assert_eq!(door.asked(), 1);
        let again = market.publish_listing(listing.clone()).await.unwrap();
        assert!(!again.changed);
        assert_eq!(door.asked(), 1, "what stands already is not asked about again");
        let shown = market.listing(listing.id()).await.unwrap();
        assert!(shown.alive && shown.endpoint_proven);
        shown.listing.check().unwrap();
        assert_eq!(f.kinds().await, ["agent.registered", "listing.published"]);
        let inbox = market.inbox(&ann.id(), 0, 10).await.unwrap().items;
        assert_eq!(inbox.last().unwrap().kind, "listing.published");
    }

    async fn another_ones_endpoint_is_not_listed(f: Fixture) {
        let (ann, _) = f.seller(1).await;
        let (_, bens) = f.seller(2).await;
        let market = asking(&f.market);
        let forged = ann.lists(f.now(), &bens.url, json!({}));
        let no = hire_refusal(market.publish_listing(forged.clone()).await);
        assert!(matches!(no, HireRefusal::EndpointNotProven { .. }), "{no:?}");
        let soft = market.clone().with_listing_challenge(Challenge::Soft);
        soft.publish_listing(forged.clone()).await.unwrap();
        let shown = market.listing(forged.id()).await.unwrap();
        assert!(!shown.alive && !shown.endpoint_proven);
        let no = hire_refusal(f.market.publish_listing(
            ann.lists(f.now(), &bens.url, json!({ "capability": "custom.test.other" }))
        ).await);
        assert_eq!(no, HireRefusal::NoEgress);
    }

    async fn forged_unknown_and_stale_listings_are_refused(f: Fixture) {
        let (ann, door) = f.seller(1).await;
        let market = unasked(&f);
        let good = ann.lists(f.now(), &door.url, json!({}));
        let ben = Person::new(2);
        let mut forged = good.clone();
        forged.sign(&ben.wallet).unwrap();
        let mut changed = good.clone();
        changed.price_usdc = "0.01".parse().unwrap();
        let mut more = good.clone();
        more.extra.insert("note".to_owned(), json!("x"));
        let unsigned = Listing { signature: None, ..good.clone() };
        for bad in [forged, changed, more, unsigned] {
            let no = hire_refusal(market.publish_listing(bad).await);
            assert!(matches!(no, HireRefusal::BadSignature { .. }), "{no:?}");
        }
        let stranger = ben.lists(f.now(), &door.url, json!({}));
        let no = refusal(market.publish_listing(stranger).await);
        assert!(matches!(no, Refusal::UnknownAgent { .. }), "{no:?}");
        for at in [f.now().minus(6 * MINUTE), f.now().plus(6 * MINUTE)] {
            let no = refusal(market.publish_listing(ann.lists(at, &door.url, json!({}))).await);
            assert!(matches!(no, Refusal::StatementNotFresh { minutes: 5, .. }), "{no:?}");
        }
        let mut timeless = good.clone();
        timeless.issued_at = None;
        timeless.sign(&ann.wallet).unwrap();
        let no = hire_refusal(market.publish_listing(timeless).await);
        assert!(matches!(no, HireRefusal::Listing { .. }), "{no:?}");
        let for_real = f.not_dev().with_listing_challenge(Challenge::Off);
        let no = hire_refusal(for_real.publish_listing(good).await);
        assert!(no.to_string().contains("https://"), "{no}");
        assert_eq!(found(&market, json!({})).await, "");
    }

    async fn an_older_listing_never_replaces_a_newer_one(f: Fixture) {
        let (ann, door) = f.seller(1).await;
        let market = unasked(&f);
        let price = |text: &str| json!({ "price_usdc": text });
        let first = ann.lists(f.now(), &door.url, price("0.01"));
        f.clock.advance(MINUTE);
        let second = ann.lists(f.now(), &door.url, price("0.02"));
        market.publish_listing(second.clone()).await.unwrap();
        let old = market.publish_listing(first.clone()).await.unwrap();
        assert!(!old.changed && old.listing == second);
        f.clock.advance(MINUTE);
        let third = ann.lists(f.now(), &door.url, price("0.03"));
        assert!(market.publish_listing(third.clone()).await.unwrap().changed);
        assert_eq!(market.listing(third.id()).await.unwrap().listing, third);
        assert_eq!(search(&market, json!({})).await.agents.len(), 1);
        // Another payment mode is another listing.
        let escrow = json!({ "payment_mode": "platform_escrow:skep" });
        let held = ann.lists(f.now(), &door.url, escrow);
        assert!(market.publish_listing(held.clone()).await.unwrap().changed);
        assert_ne!(held.id(), third.id());
        let page = market.listings_of(&ann.id(), None, 10).await.unwrap();
        assert_eq!(page.items.len(), 2);
    }

    async fn what_was_removed_does_not_come_back_by_an_old_word(f: Fixture) {
        let (ann, door) = f.seller(1).await;
        let (ben, _) = f.seller(2).await;
        let market = unasked(&f);
        let listing = ann.lists(f.now(), &door.url, json!({}));
        let id = listing.id();
        market.publish_listing(listing.clone()).await.unwrap();
        f.clock.advance(MINUTE);
        let removal = |who: &Person| {
            let mut removal = ListingRemoval {
                agent_id: who.id(), remove_listing: id, issued_at: f.now(), signature: None,
            };
            removal.sign(&who.wallet).unwrap();
            removal
        };
        let theirs = hire_refusal(market.remove_listing(removal(&ben)).await);
        assert_eq!(theirs, HireRefusal::UnknownListing { listing: id });
        let mut forged = removal(&ann);
        forged.sign(&ben.wallet).unwrap();
        let no = hire_refusal(market.remove_listing(forged).await);
        assert!(matches!(no, HireRefusal::BadSignature { .. }));
        market.remove_listing(removal(&ann)).await.unwrap();
        market.remove_listing(removal(&ann)).await.unwrap();
        assert_eq!(found(&market, json!({})).await, "");
        assert!(market.listing(id).await.is_err());
        let no = hire_refusal(market.publish_listing(listing).await);
        assert_eq!(no, HireRefusal::ListingRemoved);
        let old_word = removal(&ann);
        f.clock.advance(MINUTE);
        let anew = ann.lists(f.now(), &door.url, json!({}));
        assert!(market.publish_listing(anew).await.unwrap().changed);
        let no = hire_refusal(market.remove_listing(old_word).await);
        assert_eq!(no, HireRefusal::ListingNewer);
        f.clock.advance(MINUTE);
        assert!(market.delete_listing(&ben.signed("delete"), id).await.is_err());
        market.delete_listing(&ann.signed("delete"), id).await.unwrap();
        assert!(market.listing(id).await.is_err());
        let kinds = f.kinds().await;
        assert_eq!(kinds.iter().filter(|kind| *kind == "listing.removed").count(), 2);
    }

    async fn ten_listings_in_a_minute_and_no_more(f: Fixture) {
        let (ann, door) = f.seller(1).await;
        let (ben, _) = f.seller(2).await;
        let market = asking(&f.market);
        let nth = |who: &Person, n: usize, url: &str| {
            who.lists(f.now(), url, json!({ "capability": format!("custom.test.n{n}") }))
        };
        let mut forged = nth(&ann, 99, &door.url);
        forged.sign(&ben.wallet).unwrap();
        assert!(market.publish_listing(forged).await.is_err(), "others do not use it up");
        for n in 0..10 {
            market.publish_listing(nth(&ann, n, &door.url)).await.unwrap();
        }
        let no = hire_refusal(market.publish_listing(nth(&ann, 10, &door.url)).await);
        assert_eq!(no, HireRefusal::TooManyListings { per_minute: 10, wait_ms: 60_000 });
        assert_eq!(door.asked(), 10, "nobody is asked for what is not taken");
        let bens = Door::of(&ben.wallet).await;
        market.publish_listing(nth(&ben, 10, &bens.url)).await.unwrap();
        f.clock.advance(MINUTE);
        market.publish_listing(nth(&ann, 10, &door.url)).await.unwrap();
    }

    async fn nobody_fills_the_search_alone(f: Fixture) {
        let (ann, door) = f.seller(1).await;
        let market = unasked(&f);
        let by = |mode: &str, capability: &str| {
            let more = json!({ "payment_mode": mode, "capability": capability });
            ann.lists(f.now(), &door.url, more)
        };
        let nth = |n: usize| format!("custom_escrow:https://e{n}.example");
        for n in 0..4 {
            market.publish_listing(by(&nth(n), "custom.test.echo")).await.unwrap();
        }
        let no = hire_refusal(market.publish_listing(by(&nth(4), "custom.test.echo")).await);
        assert_eq!(no, HireRefusal::ListingsFull);
        f.clock.advance(MINUTE);
        let again = market.publish_listing(by(&nth(3), "custom.test.echo")).await.unwrap();
        assert!(again.changed, "one of those that stand may be replaced");
        for n in 4..200 {
            f.clock.advance(MINUTE);
            market.publish_listing(by("direct", &format!("custom.test.n{n}"))).await.unwrap();
        }
        let one_more = by("direct", "custom.test.more");
        let no = hire_refusal(market.publish_listing(one_more.clone()).await);
        assert_eq!(no, HireRefusal::ListingsFull);
        f.clock.advance(MINUTE);
        let gone = by("direct", "custom.test.n9").id();
        market.delete_listing(&ann.signed("delete"), gone).await.unwrap();
        market.publish_listing(one_more).await.unwrap();
    }

    async fn what_is_taken_is_read_again_however_deep(f: Fixture) {
        let (ann, door) = f.seller(1).await;
        let market = unasked(&f);
        let tower = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
        let adds = |levels: usize| ann.lists(f.now(), &door.url, json!({ "more": tower(levels) }));
        let no = hire_refusal(market.publish_listing(adds(65)).await);
        assert!(no.to_string().contains("64 levels"), "{no}");
        let deep = adds(64);
        market.publish_listing(deep.clone()).await.unwrap();
        assert_eq!(search(&market, json!({})).await.agents[0].listing, deep);
        // Whatever comes to be in a record, its turn can read it.
        let key = RecordKey::own("listing_pace", "deep");
        let call = |step: fn(&mut Turn, &RecordKey) -> Result<Decision, Bug>| {
            let load = Load { records: vec![(key.clone(), Lock::Exclusive)], ..Load::default() };
            let key = key.clone();
            Call { load, guards: vec![], step: Box::new(move |turn| step(turn, &key)) }
        };
        let put = call(|turn, key| {
            let tower = (0..130).fold(json!(1), |inner, _| json!([inner]));
            turn.put(key, &tower)?;
            Ok(Decision::Commit("0".to_owned()))
        });
        let read = call(|turn, key| {
            let tower: Value = turn.record(key)?.unwrap();
            Ok(Decision::Commit(skep_base::json::depth(&tower).to_string()))
        });
        market.store().call(put).await.unwrap();
        let Outcome::Done(answer) = market.store().call(read).await.unwrap() else { panic!() };
        assert_eq!(answer.body, "130");
    }

    /// 8.2: what was promised by an old check is found until that ends.
    async fn an_old_version_is_found_until_it_ends(f: Fixture) {
        let (ann, door) = f.seller(1).await;
        let market = unasked(&f);
        let mean = "compute.statistics.mean";
        for (description, version, capability) in
            [("old", "v0", mean), ("new", "v1", mean), ("own", "v0", "custom.test.echo")]
        {
            let more = json!({ "description": description, "verification_version": version,
                "capability": capability,
                "payment_mode": if version == "v0" { "direct" } else { "platform_escrow:skep" } });
            market.publish_listing(ann.lists(f.now(), &door.url, more)).await.unwrap();
        }
        let known = skep_hire::capability::find(mean).unwrap();
        let (_, end) = known.deprecated_versions().next().unwrap();
        let asked = json!({ "agent_id": ann.id() });
        f.clock.advance(end.since(f.now()) - Duration::from_millis(1));
        let before = found(&market, asked.clone()).await;
        assert_eq!(before.split(' ').count(), 3, "{before}");
        f.clock.advance(Duration::from_millis(1));
        let after = found(&market, asked).await;
        let mut left: Vec<&str> = after.split(' ').collect();
        left.sort_unstable();
        assert_eq!(left, ["new", "own"]);
    }

    async fn every_filter_of_a_search_is_heard(f: Fixture) {
        let (ann, door) = f.seller(1).await;
        let (ben, _) = f.seller(2).await;
        let market = unasked(&f);
        for (who, more) in [
            (&ann, json!({ "description": "plain", "price_usdc": "0.02" })),
            (&ben, json!({ "description": "dear", "price_usdc": "0.05" })),
            (&ann, json!({ "description": "slow Résumé", "max_latency_ms": 9000,
                "capability": "custom.test.slow" })),
            (&ann, json!({ "description": "held", "payment_mode": "platform_escrow:skep" })),
            (&ann, json!({ "description": "away",
                "payment_mode": "custom_escrow:https://escrow.example" })),
            (&ben, json!({ "description": "asks", "clarification_supported": true,
                "capability": "custom.test.ask" })),
            (&ben, json!({ "description": "seen", "audit_participating": true,
                "first_call_free": true, "verification_version": "v1",
                "capability": "custom.test.ask.more" })),
        ] {
            market.publish_listing(who.lists(f.now(), &door.url, more)).await.unwrap();
        }
        let m = &market;
        let echo = |more: Value| {
            let mut asked = json!({ "capability": "custom.test.echo" });
            for (field, value) in more.as_object().unwrap() {
                asked[field] = value.clone();
            }
            asked
        };
        assert_eq!(found(m, echo(json!({ "payment_mode": "direct" }))).await, "plain dear");
        assert_eq!(found(m, echo(json!({ "max_price_usdc": "0.049999",
            "payment_mode": "direct" }))).await, "plain");
        assert_eq!(found(m, echo(json!({ "payment_mode": "platform_escrow:*" }))).await, "held");
        assert_eq!(found(m, echo(json!({ "payment_mode": "platform_escrow:skep" }))).await, "held");
        assert_eq!(found(m, echo(json!({ "payment_mode": "platform_escrow:x" }))).await, "");
        assert_eq!(found(m, echo(json!({ "payment_mode": "custom_escrow:*" }))).await, "away");
        assert_eq!(found(m, echo(json!({ "agent_id": ben.id() }))).await, "dear");
        let slow = json!({ "capability": "custom.test.slow", "max_latency_ms": 8999 });
        assert_eq!(found(m, slow).await, "");
        let asks = json!({ "clarification_supported": true });
        assert_eq!(found(m, asks).await, "asks");
        assert_eq!(found(m, json!({ "audit_participating": true })).await, "seen");
        assert_eq!(found(m, json!({ "first_call_free": true })).await, "seen");
        assert_eq!(found(m, json!({ "min_verification_version": "v1" })).await, "seen");
        for unknown in [json!({ "min_success_rate": 0.1 }), json!({ "min_avg_stars": 1.0 }),
            json!({ "min_trust_tier": 1 })]
        {
            assert_eq!(found(m, unknown.clone()).await, "", "{unknown}");
        }
        let ask = |matching: &str| json!({ "capability": "custom.test.ask", "match": matching });
        assert_eq!(found(m, ask("exact")).await, "asks");
        assert_eq!(search(m, ask("prefix")).await.agents.len(), 2);
        let part = json!({ "capability": "custom.test.as", "match": "prefix" });
        assert_eq!(found(m, part).await, "");
        assert_eq!(found(m, json!({ "query": "RE\u{301}SUME\u{301}" })).await, "slow Résumé");
        assert_eq!(found(m, json!({ "query": "slow echo" })).await, "");
        assert_eq!(found(m, json!({ "query": "echo dear" })).await, "dear");
        let none = search(m, json!({ "capability": "custom.test.nothing" })).await;
        assert_eq!(none.total_distinct_capabilities, Some(4));
        assert_eq!(none.available_capabilities.unwrap().len(), 4);
        for bad in [json!({ "limit": 0 }), json!({ "limit": 101 }), json!({ "query": "x" }),
            json!({ "payment_mode": "cash" }), json!({ "min_success_rate": 2.0 }),
            json!({ "min_verification_version": "new" }), json!({ "capability": "a\u{0}" }),
            json!({ "capability": "Custom.test" })]
        {
            let asked: Search = serde_json::from_value(bad.clone()).unwrap();
            let no = hire_refusal(m.search(asked).await);
            assert!(matches!(no, HireRefusal::BadSearch { .. }), "{bad}");
        }
        let asked = Search { cursor: Some("nonsense".to_owned()), ..Search::default() };
        assert_eq!(refusal(m.search(asked).await), Refusal::MalformedCursor);
    }

    async fn pages_follow_the_rank_without_gaps(f: Fixture) {
        let market = unasked(&f);
        let mut all = Vec::new();
        for number in 1..=5 {
            let (who, door) = f.seller(number).await;
            for n in 0..10_u32 {
                let price = format!("0.{:02}", 1 + (n * 7 + u32::from(number)) % 20);
                let more = json!({ "price_usdc": price, "capability": format!("custom.test.n{n}") });
                let listing = who.lists(f.now(), &door.url, more);
                market.publish_listing(listing.clone()).await.unwrap();
                all.push((listing.price_usdc.amount(), listing.id()));
            }
        }
        all.sort();
        let (mut seen, mut cursor) = (Vec::new(), None);
        loop {
            let asked = Search { limit: Some(7), cursor, ..Search::default() };
            let answer = market.search(asked).await.unwrap();
            assert!(answer.ranked_by.contains("cheaper"));
            for found in answer.agents {
                assert_eq!(found.ranking.because.len(), 3);
                seen.push((found.listing.price_usdc.amount(), found.listing_id));
            }
            cursor = answer.next_cursor;
            if cursor.is_none() { break }
        }
        assert_eq!(seen, all);
    }

    async fn who_does_not_answer_is_found_last_and_then_not_at_all(f: Fixture) {
        let (ann, anns) = f.seller(1).await;
        let (ben, bens) = f.seller(2).await;
        let market = asking(&f.market);
        let lists = |who: &Person, door: &Door, name: &str, price: &str| {
            who.lists(f.now(), &door.url, json!({ "description": name, "price_usdc": price }))
        };
        market.publish_listing(lists(&ann, &anns, "cheap", "0.01")).await.unwrap();
        market.publish_listing(lists(&ben, &bens, "dear", "0.09")).await.unwrap();
        let m = &market;
        assert_eq!(found(m, json!({})).await, "cheap dear");
        assert_eq!(market.do_due_jobs().await.unwrap(), 2, "each is put in order once");
        anns.open(false);
        let next_round = || async {
            f.clock.advance(11 * MINUTE);
            assert_eq!(market.do_due_jobs().await.unwrap(), 2, "each listing has one timer");
            found(m, json!({})).await
        };
        assert_eq!(next_round().await, "cheap dear", "once is no proof");
        assert_eq!(next_round().await, "dear cheap");
        let dead = search(m, json!({})).await.agents.pop().unwrap();
        assert!(!dead.alive && dead.ranking.because[0].contains("did not answer"));
        anns.open(true);
        assert_eq!(next_round().await, "cheap dear", "one answer brings it back");
        anns.open(false);
        next_round().await;
        next_round().await;
        for day in 0..30 {
            assert_eq!(found(m, json!({})).await, "dear cheap", "day {day}");
            f.clock.advance(24 * HOUR);
            market.do_due_jobs().await.unwrap();
        }
        assert_eq!(found(m, json!({})).await, "dear");
        market.do_due_jobs().await.unwrap();
        f.clock.advance(11 * MINUTE);
        assert_eq!(market.do_due_jobs().await.unwrap(), 1, "its timer is gone");
        assert!(f.kinds().await.contains(&"listing.removed".to_owned()));
        f.audit_is_clean().await;
    }

    async fn an_address_that_several_are_paid_at_names_nobody(f: Fixture) {
        let (ann, door) = f.seller(1).await;
        let (ben, _) = f.seller(2).await;
        let market = unasked(&f);
        let payee = skep_base::AgentId([9; 20]);
        assert_eq!(hire_refusal(market.agent_paid_at(payee).await), HireRefusal::NobodyPaidThere);
        let pays = json!({ "payee": payee });
        market.publish_listing(ann.lists(f.now(), &door.url, pays.clone())).await.unwrap();
        assert_eq!(market.agent_paid_at(payee).await.unwrap(), ann.id());
        market.publish_listing(ben.lists(f.now(), &door.url, pays)).await.unwrap();
        assert_eq!(hire_refusal(market.agent_paid_at(payee).await), HireRefusal::NobodyPaidThere);
    }
}
