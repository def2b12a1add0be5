use skep_base::Asset;
use skep_market::Refusal;
use skep_store::{Event, Head, RouteKey};
use skep_wire::{
    Page,
    identity::Statement,
    wallet::{EventLine, PostTransfer},
};

use crate::{fixture::*, on_both_engines};

fn kinds(page: &Page<EventLine>) -> Vec<&str> {
    page.items.iter().map(|e| e.kind.as_str()).collect()
}

/// Ann pays, holds and posts; Ben pays back.
async fn trade(f: &Fixture) -> (Person, Person) {
    let (ann, ben) = f.two().await;
    f.tick();
    f.pay(&ann.signed("pay"), payment(1, &ben, 100)).await.unwrap();
    f.tick();
    f.pay(&ann.signed("hold"), hold(2, &ben, 50)).await.unwrap();
    f.tick();
    let all = PostTransfer::default();
    f.market.transfer_post(&ann.signed("post"), id(2), all).await.unwrap();
    f.tick();
    f.pay(&ben.signed("back"), payment(3, &ann, 1)).await.unwrap();
    f.kinds().await;
    (ann, ben)
}

on_both_engines! {
    async fn an_inbox_shows_its_side_in_order(f: Fixture) {
        let (ann, ben) = trade(&f).await;
        let money =
            ["transfer.posted", "transfer.held", "transfer.posted", "transfer.posted"].as_slice();
        let all = f.market.inbox(&ann.id(), 0, 100).await.unwrap();
        assert_eq!(kinds(&all), [&["agent.registered", "wallet.funded"], money].concat());
        let bens = f.market.inbox(&ben.id(), 0, 100).await.unwrap();
        assert_eq!(kinds(&bens), [&["agent.registered"], money].concat());

        let mut seen = Vec::new();
        let mut after = 0;
        loop {
            let page = f.market.inbox(&ann.id(), after, 2).await.unwrap();
            // The cursor stays good at the end: the log goes on.
            after = page.next_cursor.unwrap().parse().unwrap();
            if page.items.is_empty() {
                break;
            }
            assert!(page.items.len() <= 2);
            seen.extend(page.items);
        }
        assert_eq!(seen, all.items);
        assert!(seen.is_sorted_by(|a, b| a.seq < b.seq));
        f.fund(&ann, 901, 1).await;
        f.kinds().await;
        let new = f.market.inbox(&ann.id(), after, 2).await.unwrap();
        assert_eq!(kinds(&new), ["wallet.funded"]);
        let stranger = f.market.inbox(&Person::new(9).id(), 0, 10).await.unwrap();
        assert_eq!((stranger.items, stranger.next_cursor.as_deref()), (vec![], Some("0")));
    }

    async fn a_history_is_read_page_by_page(f: Fixture) {
        let (ann, ben) = trade(&f).await;
        let all = f.market.history(&ann.id(), Asset::USDC, None, 100).await.unwrap();
        assert_eq!(all.next_cursor, None);
        let lines: Vec<_> =
            all.items.iter().map(|l| (l.kind.as_str(), l.money.amount.minor())).collect();
        let expected =
            [("posted", 1), ("post", 50), ("pending", 50), ("posted", 100), ("posted", 1000)];
        assert_eq!(lines, expected);
        assert_eq!(all.items[1].pending, Some(id(2)));

        for limit in [1, 2, 4, 5] {
            let (mut seen, mut cursor) = (Vec::new(), None);
            loop {
                let page = f.market.history(&ann.id(), Asset::USDC, cursor, limit).await.unwrap();
                assert!(page.items.len() <= limit);
                seen.extend(page.items);
                cursor = page.next_cursor;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(seen, all.items);
        }
        let bens = f.market.history(&ben.id(), Asset::USDC, None, 100).await.unwrap();
        assert_eq!(bens.items.len(), 4);
        let euros = f.market.history(&ann.id(), Asset::EUR, None, 100).await.unwrap();
        assert_eq!(euros.items, []);
        for cursor in ["", "x", "1.2.3"] {
            let cursor = Some(cursor.to_owned());
            let refused = f.market.history(&ann.id(), Asset::USDC, cursor, 5).await;
            assert_eq!(refusal(refused), Refusal::MalformedCursor);
        }
        let unknown = Refusal::UnknownTransfer { id: id(900) };
        assert_eq!(refusal(f.market.transfer(&ben.id(), id(900)).await), unknown);
    }

    async fn the_signed_head_is_the_chain_of_all_events(f: Fixture) {
        let empty = f.market.log_head().await.unwrap().head;
        assert_eq!((empty.seq, empty.hash), (0, Head::START.hash));
        trade(&f).await;
        let mut head = Head::START;
        for line in f.market.events(0, 1000).await.unwrap().items {
            let event = Event {
                id: line.id,
                route: RouteKey::of(&line.route),
                version: line.version,
                kind: line.kind,
                at: line.at,
                body: line.body,
                notify: vec![],
            };
            head = head.next(&event);
            assert_eq!((line.seq, line.hash), (head.seq, head.hash));
        }
        let signed = f.market.log_head().await.unwrap();
        assert_eq!((signed.head.seq, signed.head.hash), (head.seq, head.hash));
        assert_eq!(signed.head.at, f.now());
        assert_eq!(signed.key, log_key().public());
        assert_eq!(signed.head.verify(&signed.key, &signed.signature), Ok(()));
    }
}
