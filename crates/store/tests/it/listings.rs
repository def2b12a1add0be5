use std::collections::BTreeSet;

use skep_store::{
    Call, Decision, Indexed, LISTINGS_SCANNED_MAX, ListingFilter, ListingPage, ListingPlace,
    ListingRow, ModeFilter, Payload, Store, Turn,
};

use crate::{
    fixture::{Fixture, call},
    on_both_engines,
};

/// A listing with the terms of `words`.
fn indexed(id: &str, rank: i64, words: &str) -> Indexed {
    let row = ListingRow {
        id: id.to_owned(),
        agent_id: format!("agent of {id}"),
        payee: "payee".to_owned(),
        capability: "text.translate.en".to_owned(),
        payment_mode: "direct".to_owned(),
        rank,
        price: 10,
        max_latency_ms: 1000,
        verification: 0,
        clarifies: false,
        audited: false,
        first_free: false,
        success_bps: None,
    };
    Indexed { row, terms: words.split(' ').map(str::to_owned).collect() }
}

fn changing(changes: Vec<(Option<Indexed>, Option<Indexed>)>) -> Call {
    let mut call = call(vec![]);
    call.step = Box::new(move |turn: &mut Turn| {
        for (before, after) in changes.clone() {
            turn.index_listing(before, after);
        }
        Ok(Decision::Commit("done".to_owned()))
    });
    call
}

async fn put(store: &Store, listings: Vec<Indexed>) {
    let changes = listings.into_iter().map(|listing| (None, Some(listing))).collect();
    store.call(changing(changes)).await.unwrap();
}

async fn search(store: &Store, terms: &str, filter: ListingFilter) -> ListingPage {
    let terms = terms.split(' ').map(str::to_owned).collect();
    store.search_listings(terms, filter, None, 100).await.unwrap()
}

async fn found(store: &Store, terms: &str) -> String {
    names(&search(store, terms, ListingFilter::default()).await.rows)
}

fn names(rows: &[ListingRow]) -> String {
    rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>().join(" ")
}

on_both_engines! {
    async fn listings_are_found_by_all_their_terms_best_first(f: Fixture) {
        let s = &f.store;
        let all = ["c 5 x y", "b 7 x", "a 7 x y", "d 9 y"];
        let listings = all.map(|line| {
            let mut words = line.splitn(3, ' ');
            let (id, rank) = (words.next().unwrap(), words.next().unwrap());
            indexed(id, rank.parse().unwrap(), words.next().unwrap())
        });
        put(s, listings.to_vec()).await;
        assert_eq!(found(s, "x").await, "a b c");
        assert_eq!(found(s, "y").await, "d a c");
        assert_eq!(found(s, "x y").await, "a c");
        assert_eq!(found(s, "x y z").await, "");
        assert_eq!(s.listing_terms("", 9).await.unwrap(), ["x", "y"]);
        assert_eq!(s.listing_terms("", 1).await.unwrap(), ["x"]);
        assert_eq!(s.listing_terms("y", 9).await.unwrap(), Vec::<String>::new());
    }

    async fn the_index_follows_a_listing(f: Fixture) {
        let s = &f.store;
        let (old, new) = (indexed("a", 5, "x y"), indexed("a", 8, "y z"));
        put(s, vec![old.clone(), indexed("b", 7, "x y z")]).await;
        assert_eq!(found(s, "y").await, "b a");
        s.call(changing(vec![(Some(old), Some(new.clone()))])).await.unwrap();
        assert_eq!((found(s, "x").await, found(s, "y").await), ("b".into(), "a b".into()));
        s.call(changing(vec![(Some(new), None)])).await.unwrap();
        assert_eq!((found(s, "y").await, found(s, "z").await), ("b".into(), "b".into()));
    }

    async fn turns_of_one_group_add_up(f: Fixture) {
        let s = &f.store;
        let steps = [indexed("a", 1, "x"), indexed("a", 2, "x y"), indexed("a", 3, "y")];
        let changes = steps.iter().zip([None].into_iter().chain(steps.iter().map(Some)));
        let sent = changes.map(|(after, before)| {
            s.call(changing(vec![(before.cloned(), Some(after.clone()))]))
        });
        // On PostgreSQL two lanes may take them apart, so they are sent one after the other there.
        match s.engine_name() {
            "SQLite" => drop(futures_util::future::join_all(sent).await),
            _ => for call in sent { call.await.unwrap(); }
        }
        assert_eq!((found(s, "x").await, found(s, "y").await), (String::new(), "a".into()));
        let one = vec![
            (Some(steps[2].clone()), None),
            (None, Some(steps[0].clone())),
            (Some(steps[0].clone()), Some(steps[1].clone())),
        ];
        s.call(changing(one)).await.unwrap();
        assert_eq!((found(s, "x").await, found(s, "y").await), ("a".into(), "a".into()));
    }

    async fn every_filter_lets_through_what_it_says(f: Fixture) {
        let s = &f.store;
        let mut all: Vec<Indexed> =
            ["plain", "dear", "slow", "v1", "asks", "seen", "free", "held", "good", "other"]
                .iter().map(|id| indexed(id, 1, "x")).collect();
        all[1].row.price = 11;
        all[2].row.max_latency_ms = 1001;
        all[3].row.verification = 1;
        all[4].row.clarifies = true;
        all[5].row.audited = true;
        all[6].row.first_free = true;
        all[7].row.payment_mode = "platform_escrow:skep".to_owned();
        all[8].row.success_bps = Some(9500);
        all[9].row.capability = "text.translated".to_owned();
        put(s, all).await;
        let only = |filter: ListingFilter| async move { names(&search(s, "x", filter).await.rows) };
        let none = ListingFilter::default;
        let without = |id: &str| {
            let all = "asks dear free good held other plain seen slow v1".split(' ');
            all.filter(|name| *name != id).collect::<Vec<_>>().join(" ")
        };
        let filter = ListingFilter { price_max: Some(10), ..none() };
        assert_eq!(only(filter).await, without("dear"));
        let filter = ListingFilter { latency_ms_max: Some(1000), ..none() };
        assert_eq!(only(filter).await, without("slow"));
        let filter = ListingFilter { verification_min: Some(1), ..none() };
        assert_eq!(only(filter).await, "v1");
        let filter = ListingFilter { clarifies: Some(true), ..none() };
        assert_eq!(only(filter).await, "asks");
        let filter = ListingFilter { clarifies: Some(false), ..none() };
        assert_eq!(only(filter).await, without("asks"));
        let filter = ListingFilter { audited: Some(true), ..none() };
        assert_eq!(only(filter).await, "seen");
        let filter = ListingFilter { first_free: Some(true), ..none() };
        assert_eq!(only(filter).await, "free");
        let mode = Some(ModeFilter::BeginsWith("platform_escrow:".to_owned()));
        assert_eq!(only(ListingFilter { mode, ..none() }).await, "held");
        let mode = Some(ModeFilter::Exactly("direct".to_owned()));
        assert_eq!(only(ListingFilter { mode, ..none() }).await, without("held"));
        let filter = ListingFilter { success_bps_min: Some(9500), ..none() };
        assert_eq!(only(filter).await, "good");
        let filter = ListingFilter { success_bps_min: Some(9501), ..none() };
        assert_eq!(only(filter).await, "");
        let capability_prefix = Some("text.translate".to_owned());
        assert_eq!(only(ListingFilter { capability_prefix, ..none() }).await, without("other"));
    }

    async fn pages_show_every_listing_once(f: Fixture) {
        let s = &f.store;
        let id = |n: i64| format!("l{:03}", n * 7 % 500);
        let all: Vec<Indexed> = (0..500).map(|n| indexed(&id(n), n % 9, "x")).collect();
        let mut in_order: Vec<(i64, String)> =
            all.iter().map(|l| (-l.row.rank, l.row.id.clone())).collect();
        in_order.sort();
        for some in all.chunks(100) {
            put(s, some.to_vec()).await;
        }
        for limit in [1, 7, 64, 100, 499, 500, 501] {
            let (mut seen, mut after) = (Vec::new(), None);
            loop {
                let (filter, from) = (ListingFilter::default(), after.clone());
                let page = s.search_listings(vec!["x".into()], filter, after, limit).await.unwrap();
                assert!(page.rows.len() <= limit);
                // They are found in the same places without their rows.
                let places = s.listing_places("x".into(), from, page.rows.len()).await.unwrap();
                let places = places.into_iter().map(|place| (place.rank, place.id));
                assert!(places.eq(page.rows.iter().map(|row| (row.rank, row.id.clone()))));
                seen.extend(page.rows.into_iter().map(|row| (-row.rank, row.id)));
                after = page.next;
                if after.is_none() { break }
            }
            assert_eq!(seen, in_order, "{limit} at a time");
        }
    }

    async fn a_search_that_finds_little_stops_and_says_where(f: Fixture) {
        let s = &f.store;
        let many = LISTINGS_SCANNED_MAX as i64 + 500;
        let mut all: Vec<Indexed> =
            (0..many).map(|n| indexed(&format!("l{n:05}"), 1, "x")).collect();
        all.last_mut().unwrap().row.price = 1;
        for some in all.chunks(500) {
            put(s, some.to_vec()).await;
        }
        let cheap = || ListingFilter { price_max: Some(1), ..ListingFilter::default() };
        let first = s.search_listings(vec!["x".into()], cheap(), None, 10).await.unwrap();
        let stopped_at = format!("l{:05}", LISTINGS_SCANNED_MAX - 1);
        let next = Some(ListingPlace { rank: 1, id: stopped_at });
        assert_eq!((first.rows.len(), &first.next), (0, &next));
        let second = s.search_listings(vec!["x".into()], cheap(), next, 10).await.unwrap();
        assert_eq!((names(&second.rows), second.next), (format!("l{:05}", many - 1), None));
    }

    async fn an_address_names_those_who_are_paid_there(f: Fixture) {
        let s = &f.store;
        let payee = skep_base::AgentId([7; 20]);
        let paid = |id: &str, agent: &str| {
            let mut listing = indexed(id, 1, "x");
            listing.row.payee = payee.to_string();
            listing.row.agent_id = agent.to_owned();
            listing
        };
        assert_eq!(s.agents_paid_at(payee).await.unwrap(), None);
        put(s, vec![paid("a", "one"), paid("b", "one"), indexed("c", 1, "x")]).await;
        let ends = s.agents_paid_at(payee).await.unwrap().unwrap();
        assert_eq!(ends, ("one".to_owned(), "one".to_owned()));
        put(s, vec![paid("d", "two")]).await;
        let ends = s.agents_paid_at(payee).await.unwrap().unwrap();
        assert_eq!(ends, ("one".to_owned(), "two".to_owned()));
    }

    async fn payloads_are_kept_until_they_expire(f: Fixture) {
        let s = &f.store;
        let mut kept = call(vec![]);
        kept.step = Box::new(|turn: &mut Turn| {
            for n in 0..20_u8 {
                let expires_at = turn.now().plus(std::time::Duration::from_secs(u64::from(n)));
                let (receipt_id, sealed) = (format!("r{n}"), vec![n, 0, 255]);
                turn.keep_payload(Payload { receipt_id, sealed, expires_at });
            }
            Ok(Decision::Commit("done".to_owned()))
        });
        s.call(kept).await.unwrap();
        assert_eq!(s.payload("r3").await.unwrap(), Some(vec![3, 0, 255]));
        assert_eq!(s.payload("none").await.unwrap(), None);
        f.clock.advance(std::time::Duration::from_secs(18));
        assert!(s.drop_payloads().await.unwrap(), "there are more than it drops at once");
        assert!(!s.drop_payloads().await.unwrap());
        let left: BTreeSet<u8> = {
            let mut left = BTreeSet::new();
            for n in 0..20 {
                left.extend(s.payload(&format!("r{n}")).await.unwrap().map(|_| n));
            }
            left
        };
        assert_eq!(left, BTreeSet::from([19]));
    }
}
