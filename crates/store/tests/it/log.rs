use std::time::Duration;

use skep_base::Timestamp;
use skep_store::{Event, Head, RouteKey};

use crate::{
    fixture::{Change::*, *},
    on_both_engines,
};

on_both_engines! {
    async fn events_are_numbered_without_gaps_and_chained(f: Fixture) {
        let tasks: Vec<_> = (0..200_u64)
            .map(|n| {
                let store = f.store.clone();
                tokio::spawn(async move {
                    run(&store, vec![Pay(n, outside(), wallet((n % 7) as u8), 1)]).await
                })
            })
            .collect();
        for task in tasks {
            assert_eq!(task.await.unwrap(), "done");
        }
        settle_log(&f.store).await;
        let events = f.store.events(0, 1000).await.unwrap();
        assert_eq!(events.len(), 200);
        let mut head = Head::START;
        for logged in &events {
            head = head.next(&logged.event);
            assert_eq!((logged.seq, logged.hash), (head.seq, head.hash));
        }
        assert_eq!(*f.store.head().borrow(), head);
        let inbox = f.store.inbox(agent(1), 150, 1000).await.unwrap();
        assert_eq!(inbox.len(), 50);
        assert_eq!(f.store.inbox(agent(2), 0, 10).await.unwrap(), []);
        f.audit_is_clean().await;
    }

    async fn the_head_tells_of_new_events(f: Fixture) {
        let mut head = f.store.head();
        head.borrow_and_update();
        run(&f.store, vec![Pay(1, outside(), wallet(1), 1)]).await;
        tokio::time::timeout(Duration::from_secs(10), head.changed()).await.unwrap().unwrap();
        assert_eq!(head.borrow().seq, 1);
    }
}

/// Whoever asks a node right after its start must not get the head of an empty log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_knows_the_head_from_its_first_moment() {
    let f = Fixture::postgres().await;
    run(&f.store, vec![Pay(1, outside(), wallet(1), 1)]).await;
    settle_log(&f.store).await;
    assert_eq!(f.second_node().await.head().borrow().seq, 1);
}

#[test]
fn every_field_of_an_event_is_in_its_digest() {
    let event = Event {
        id: skep_base::id::EventId::from_bytes([1; 16]),
        route: RouteKey::of("a"),
        version: 1,
        kind: "b".into(),
        at: Timestamp::from_ms(1),
        body: "{}".into(),
        notify: vec![],
    };
    let changed = [
        Event { id: skep_base::id::EventId::from_bytes([2; 16]), ..event.clone() },
        Event { route: RouteKey::of("b"), ..event.clone() },
        Event { version: 2, ..event.clone() },
        Event { kind: "c".into(), ..event.clone() },
        Event { at: Timestamp::from_ms(2), ..event.clone() },
        Event { body: "[]".into(), ..event.clone() },
    ];
    for other in changed {
        assert_ne!(other.digest(), event.digest());
    }
}
