use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde_json::json;
use skep_base::hash::sha256;
use skep_market::Market;
use skep_wire::{
    admin::{AdminAct, AdminRequest},
    identity::{Binding, RegisterAgent},
    notice::{WEBHOOK_TIMESTAMP, WebhookAttempt, WebhookOutcome},
    settle::Outcome,
};
use tokio::{net::TcpListener, sync::watch};

use crate::{
    deal_world::World,
    fixture::*,
    on_both_engines,
    receiver::{Got, Plain, Receiver, sending},
};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

impl Fixture {
    /// Registers somebody whose notices go to `url`, or brings the address up to date.
    async fn register_at(&self, who: &Person, url: Option<&str>) {
        self.tick();
        let webhook_hash = url.map(|url| sha256(url.as_bytes()));
        let binding = Binding { webhook_hash, ..who.binding(self.now()) };
        let webhook_url = url.map(str::to_owned);
        let request = RegisterAgent { webhook_url, ..who.registration(&binding) };
        self.market.register_agent(request).await.unwrap();
    }

    /// Ann, who has money, and Ben, whose notices go to `url`; what was told so far is delivered.
    async fn ann_and_ben_at(&self, market: &Market, url: &str) -> (Person, Person) {
        let (ann, ben) = (Person::new(1), Person::new(2));
        self.register(&ann).await;
        self.register_at(&ben, Some(url)).await;
        self.fund(&ann, 900, 1000).await;
        assert_eq!(drain(market).await, 1, "Ben is told that he is registered");
        (ann, ben)
    }
}

/// Does what is due now until nothing is; says how many.
async fn drain(market: &Market) -> usize {
    let mut all = 0;
    loop {
        match market.do_due_jobs().await.unwrap() {
            0 => return all,
            some => all += some,
        }
    }
}

async fn pay(f: &Fixture, from: &Person, to: &Person, n: u64) {
    f.tick();
    f.pay(&from.signed(&format!("pay {n}")), payment(n, to, 1)).await.unwrap();
}

/// `attempt status-or-error outcome` of the attempts for events of one kind, newest first.
async fn log(market: &Market, who: &Person, kind: &str) -> Vec<String> {
    let line = |a: &WebhookAttempt| {
        let answer = a.status.map_or_else(|| a.error.clone().unwrap(), |s| s.to_string());
        let outcome = match a.outcome {
            WebhookOutcome::Delivered => "delivered",
            WebhookOutcome::Retry { .. } => "retry",
            WebhookOutcome::GivenUp => "given up",
        };
        format!("{} {answer} {outcome}", a.attempt)
    };
    let log = market.webhook_log(&who.id()).await.unwrap();
    log.iter().filter(|a| a.kind == kind).map(line).collect()
}

on_both_engines! {
    async fn a_reviewer_is_told_that_a_case_waits(f: Fixture) {
        let receiver = Receiver::start(&[200]).await;
        let w = World::new(f).await;
        w.f.register_at(&w.rex.person, Some(&receiver.url("rex"))).await;
        let market = sending(w.market());
        drain(&market).await;
        w.f.kinds().await;
        let inbox = async || market.inbox(&w.rex.id(), 0, 100).await.unwrap().items;
        let (known, sent) = (inbox().await.len(), receiver.got().len());
        // Terms that leave it to a person, and a verifier that says nothing.
        w.delivered(json!({"verification_hints": {"type": "human"}})).await;
        w.f.tick();
        w.delivered(json!({})).await;
        w.f.clock.advance(2 * DAY);
        drain(&market).await;
        w.f.kinds().await;
        let inbox = inbox().await;
        let waits: Vec<_> = inbox[known..].iter().map(|e| (e.id.to_string(), &*e.kind)).collect();
        let kinds: Vec<&str> = waits.iter().map(|(_, kind)| *kind).collect();
        assert_eq!(kinds, ["delivery.received", "verification.timeout"]);
        let got = receiver.got();
        let told: Vec<_> = got[sent..].iter().map(|got| got.id().to_owned()).collect();
        assert_eq!(told, waits.into_iter().map(|(id, _)| id).collect::<Vec<_>>());
    }

    async fn an_agent_is_told_what_becomes_of_its_score(f: Fixture) {
        let receiver = Receiver::start(&[200]).await;
        let w = World::new(f).await;
        w.f.register_at(&w.ben, Some(&receiver.url("ben"))).await;
        let market = sending(w.market());
        for _ in 0..10 {
            let (_, verification) = w.delivered(json!({})).await;
            w.judge(verification, Outcome::Verified).await.unwrap();
        }
        let act = AdminAct::RevokeBenchmark { agent_id: w.ben.id(), at: None };
        market.admin(AdminRequest { act, reason: "fraud".to_owned() }).await.unwrap();
        drain(&market).await;
        w.f.kinds().await;
        let inbox = market.inbox(&w.ben.id(), 0, 200).await.unwrap().items;
        let got = receiver.got();
        for kind in ["tier.promoted", "benchmark.changed"] {
            let events = inbox.iter().filter(|event| event.kind == kind);
            let ids: Vec<String> = events.map(|event| event.id.to_string()).collect();
            let told: Vec<&str> =
                got.iter().filter(|got| got.kind() == kind).map(Got::id).collect();
            assert_eq!((told, ids.len()), (ids.iter().map(String::as_str).collect(), 1), "{kind}");
        }
    }

    async fn a_notice_is_signed_and_delivered_once(f: Fixture) {
        let receiver = Receiver::start(&[200]).await;
        let market = sending(&f.market);
        let (ann, ben) = f.ann_and_ben_at(&market, &receiver.url("ben?x=1")).await;
        pay(&f, &ann, &ben, 1).await;
        let paid_at = f.now();
        f.clock.advance(3 * SECOND);
        assert_eq!(drain(&market).await, 1);
        assert_eq!(receiver.kinds(), ["agent.registered", "transfer.posted"]);
        let Got { path, headers, .. } = &receiver.got()[1];
        assert_eq!(path, "/ben?x=1");
        assert_eq!(headers["content-type"], "application/json");
        assert_eq!(headers[WEBHOOK_TIMESTAMP], (f.now().as_ms() / 1000).to_string());

        let got = &receiver.got()[1];
        assert!(got.is_signed(&market, f.now()));
        assert!(!got.is_signed(&market.clone().with_webhook_key(log_key()), f.now()));
        let mut forged = got.clone();
        forged.body[20] ^= 1;
        assert!(!forged.is_signed(&market, f.now()));
        assert_eq!(got.json()["timestamp"], paid_at.to_string());
        f.kinds().await;
        let event = market.inbox(&ben.id(), 0, 10).await.unwrap().items.pop().unwrap();
        assert_eq!((event.kind.as_str(), event.id.to_string()), ("transfer.posted", got.id().into()));
        let told: serde_json::Value = serde_json::from_str(&event.body).unwrap();
        assert_eq!(got.json()["data"], told);

        f.clock.advance(3 * DAY);
        assert_eq!(drain(&market).await, 0);
        assert_eq!(receiver.got().len(), 2);
        assert_eq!(log(&market, &ben, "transfer.posted").await, ["1 200 delivered"]);
        assert_eq!(market.webhook_log(&ann.id()).await.unwrap(), []);
    }

    async fn whoever_has_a_webhook_is_told_all_that_is_in_the_inbox(f: Fixture) {
        let receiver = Receiver::start(&[204]).await;
        let market = sending(&f.market);
        let (ann, ben) = (Person::new(1), Person::new(2));
        f.register_at(&ann, Some(&receiver.url("ann"))).await;
        f.register_at(&ben, Some(&receiver.url("ben"))).await;
        f.register_at(&ben, Some(&receiver.url("ben?again"))).await;
        f.fund(&ann, 900, 1000).await;
        pay(&f, &ann, &ben, 1).await;
        f.pay(&ann.signed("hold"), hold(2, &ben, 20)).await.unwrap();
        f.pay(&ann.signed("hold"), hold(3, &ben, 30)).await.unwrap();
        f.market.transfer_post(&ann.signed("post"), id(2), Default::default()).await.unwrap();
        f.market.transfer_void(&ben.signed("void"), id(3)).await.unwrap();
        let change = ben.rotate(&ben.other_key(5), f.now());
        f.change(&ben, change).await.unwrap();
        drain(&market).await;
        f.kinds().await;
        for (who, count) in [(&ann, 7), (&ben, 8)] {
            let inbox = market.inbox(&who.id(), 0, 100).await.unwrap().items;
            assert_eq!(inbox.len(), count);
            let inbox: BTreeSet<_> =
                inbox.into_iter().map(|e| (e.id.to_string(), e.kind)).collect();
            let name = if who.id() == ann.id() { "/ann" } else { "/ben" };
            let got = receiver.got();
            let told = got.iter().filter(|got| got.path.starts_with(name));
            let told: BTreeSet<_> = told.map(|got| (got.id().to_owned(), got.kind())).collect();
            assert_eq!(told, inbox);
        }
        assert_eq!(receiver.got().len(), 15, "each once");
    }

    async fn a_receiver_that_fails_is_tried_again_with_the_same_id(f: Fixture) {
        let receiver = Receiver::start(&[200, 500, 404, 503, 202]).await;
        let market = sending(&f.market);
        let (ann, ben) = f.ann_and_ben_at(&market, &receiver.url("ben")).await;
        pay(&f, &ann, &ben, 1).await;
        for wait in [5, 30, 120] {
            assert_eq!(drain(&market).await, 1);
            assert!(receiver.got().last().unwrap().is_signed(&market, f.now()));
            let last = market.webhook_log(&ben.id()).await.unwrap().remove(0);
            let WebhookOutcome::Retry { retry_at } = last.outcome else { panic!("{last:?}") };
            let waited = retry_at.since(f.now()).as_millis() as f64 / 1000.0;
            assert!((waited - f64::from(wait)).abs() <= f64::from(wait) / 10.0, "{waited}");
            f.clock.advance(retry_at.since(f.now()) - MS);
            assert_eq!(drain(&market).await, 0, "not before its time");
            f.clock.advance(MS);
        }
        assert_eq!(drain(&market).await, 1);
        f.clock.advance(3 * DAY);
        assert_eq!(drain(&market).await, 0);
        let got = receiver.got();
        assert_eq!(got.len(), 5);
        assert!(got[1..].iter().all(|g| g.id() == got[1].id() && g.body == got[1].body));
        let told = log(&market, &ben, "transfer.posted").await;
        assert_eq!(told, ["4 202 delivered", "3 503 retry", "2 404 retry", "1 500 retry"]);
        let ids: BTreeSet<_> = market.webhook_log(&ben.id()).await.unwrap().iter()
            .filter(|a| a.kind == "transfer.posted").map(|a| a.event_id.to_string()).collect();
        assert_eq!(ids, BTreeSet::from([got[1].id().to_owned()]));
    }

    async fn a_receiver_that_is_gone_gets_no_more_of_it(f: Fixture) {
        let receiver = Receiver::start(&[200, 410, 200]).await;
        let market = sending(&f.market);
        let (ann, ben) = f.ann_and_ben_at(&market, &receiver.url("ben")).await;
        pay(&f, &ann, &ben, 1).await;
        assert_eq!(drain(&market).await, 1);
        f.clock.advance(3 * DAY);
        assert_eq!(drain(&market).await, 0);
        assert_eq!(log(&market, &ben, "transfer.posted").await, ["1 410 given up"]);
        pay(&f, &ann, &ben, 2).await;
        assert_eq!(drain(&market).await, 1, "it was about that one notice");
    }

    async fn in_the_end_a_notice_is_given_up(f: Fixture) {
        let receiver = Receiver::start(&[200, 500]).await;
        let market = sending(&f.market);
        let (ann, ben) = f.ann_and_ben_at(&market, &receiver.url("ben")).await;
        pay(&f, &ann, &ben, 1).await;
        for _ in 0..150 {
            drain(&market).await;
            f.clock.advance(HOUR / 2);
        }
        assert_eq!(receiver.got().len(), 12);
        let log = log(&market, &ben, "transfer.posted").await;
        assert_eq!(log.len(), 11);
        assert_eq!((log[0].as_str(), log[1].as_str()), ("11 500 given up", "10 500 retry"));
    }

    async fn nobody_at_the_door_is_a_failure_too(f: Fixture) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/x", listener.local_addr().unwrap());
        drop(listener);
        let market = sending(&f.market);
        let (ann, ben) = f.ann_and_ben_at(&market, &url).await;
        pay(&f, &ann, &ben, 1).await;
        assert_eq!(drain(&market).await, 1);
        assert_eq!(log(&market, &ben, "transfer.posted").await, ["1 refused retry"]);
        f.clock.advance(6 * SECOND);
        assert_eq!(drain(&market).await, 2, "the registration's and the payment's");
        let told = log(&market, &ben, "transfer.posted").await;
        assert_eq!(told, ["2 refused retry", "1 refused retry"]);
    }

    async fn a_hanging_receiver_keeps_nobody_waiting(f: Fixture) {
        let (slow, quick) = (Receiver::start(&[200]).await, Receiver::start(&[200]).await);
        let market = sending(&f.market);
        let (ann, ben) = f.ann_and_ben_at(&market, &slow.url("ben")).await;
        let cleo = Person::new(3);
        f.register_at(&cleo, Some(&quick.url("cleo"))).await;
        drain(&market).await;
        slow.hang();
        pay(&f, &ann, &ben, 1).await;
        pay(&f, &ann, &cleo, 2).await;
        let busy = market.clone();
        let working = tokio::spawn(async move { busy.do_due_jobs().await.unwrap() });
        quick.arrival(2).await;
        slow.arrival(2).await;
        assert_eq!(log(&market, &ben, "transfer.posted").await, [""; 0], "Ben's still hangs");
        slow.wake();
        assert_eq!(working.await.unwrap(), 2);
        assert_eq!(log(&market, &ben, "transfer.posted").await, ["1 200 delivered"]);
        assert_eq!(log(&market, &cleo, "transfer.posted").await, ["1 200 delivered"]);
    }

    /// What comes due while a receiver hangs is not left for when it stops.
    async fn a_hanging_receiver_does_not_stop_the_worker(f: Fixture) {
        let (slow, quick) = (Receiver::start(&[200]).await, Receiver::start(&[200]).await);
        let market = sending(&f.market);
        let (ann, ben) = f.ann_and_ben_at(&market, &slow.url("ben")).await;
        slow.hang();
        let (stop, stopping) = watch::channel(false);
        let working = tokio::spawn(market.clone().work(stopping));
        pay(&f, &ann, &ben, 1).await;
        slow.arrival(2).await;
        let cleo = Person::new(3);
        f.register_at(&cleo, Some(&quick.url("cleo"))).await;
        quick.arrival(1).await;
        assert_eq!(log(&market, &ben, "transfer.posted").await, [""; 0], "Ben's still hangs");
        slow.wake();
        stop.send_replace(true);
        working.await.unwrap();
        assert_eq!(log(&market, &ben, "transfer.posted").await, ["1 200 delivered"]);
    }

    async fn a_broken_host_is_left_alone_for_a_while(f: Fixture) {
        let (broken, other) = (
            Receiver::start(&[200, 500, 500, 500, 500, 500, 500, 200]).await,
            Receiver::start(&[200]).await,
        );
        let market = sending(&f.market);
        let (ann, ben) = f.ann_and_ben_at(&market, &broken.url("ben")).await;
        for n in 1..=6 {
            pay(&f, &ann, &ben, n).await;
        }
        assert_eq!(drain(&market).await, 6);
        let failed_at = f.now();
        // After six failures in a row it rests a minute, whatever is due.
        f.register_at(&Person::new(3), Some(&other.url("cleo"))).await;
        pay(&f, &ann, &ben, 7).await;
        assert_eq!(drain(&market).await, 1, "Cleo's only");
        f.clock.advance(failed_at.plus(Duration::from_secs(60)).since(f.now()) - MS);
        assert_eq!(drain(&market).await, 0);
        assert_eq!(broken.got().len(), 7);
        f.clock.advance(MS);
        assert_eq!(market.do_due_jobs().await.unwrap(), 1, "one to see whether it is back");
        assert_eq!(market.do_due_jobs().await.unwrap(), 4, "it is: as many as a host may have");
        assert_eq!(drain(&market).await, 2);
        let told: BTreeSet<_> = broken.got().iter().map(|got| got.id().to_owned()).collect();
        assert_eq!((broken.got().len(), told.len()), (14, 8));
        assert_eq!(market.webhook_log(&ben.id()).await.unwrap().len(), 14);
    }

    /// Otherwise whoever names somebody else's host as its own could silence it.
    async fn a_wrong_address_does_not_break_its_host(f: Fixture) {
        let host = Receiver::start_with(|path, _| if path == "/cleo" { 200 } else { 404 }).await;
        let market = sending(&f.market);
        let (ann, ben) = f.ann_and_ben_at(&market, &host.url("ben")).await;
        for n in 1..=9 {
            pay(&f, &ann, &ben, n).await;
        }
        assert_eq!(drain(&market).await, 9);
        let cleo = Person::new(3);
        f.register_at(&cleo, Some(&host.url("cleo"))).await;
        assert_eq!(drain(&market).await, 1);
        assert_eq!(log(&market, &cleo, "agent.registered").await, ["1 200 delivered"]);
    }

    async fn a_notice_goes_where_the_agent_is_now(f: Fixture) {
        let (old, new) = (Receiver::start(&[200, 500]).await, Receiver::start(&[200]).await);
        let market = sending(&f.market);
        let (ann, ben) = f.ann_and_ben_at(&market, &old.url("ben")).await;
        pay(&f, &ann, &ben, 1).await;
        assert_eq!(drain(&market).await, 1);
        f.register_at(&ben, Some(&new.url("ben"))).await;
        f.clock.advance(6 * SECOND);
        drain(&market).await;
        assert_eq!(old.got().len(), 2);
        let kinds: BTreeSet<_> = new.kinds().into_iter().collect();
        assert_eq!(kinds, BTreeSet::from(["agent.updated".into(), "transfer.posted".into()]));
        let moved = new.got().into_iter().find(|got| got.kind() == "transfer.posted").unwrap();
        assert_eq!((moved.id(), new.got().len()), (old.got()[1].id(), 2));
        let told = log(&market, &ben, "transfer.posted").await;
        assert_eq!(told, ["1 200 delivered", "1 500 retry"], "a new host begins anew");
    }

    async fn a_notice_to_nowhere_just_ends(f: Fixture) {
        let receiver = Receiver::start(&[200]).await;
        let market = sending(&f.market);
        let (ann, ben) = f.ann_and_ben_at(&market, &receiver.url("ben")).await;
        pay(&f, &ann, &ben, 1).await;
        f.register_at(&ben, None).await;
        assert_eq!(drain(&market).await, 1);
        f.clock.advance(3 * DAY);
        assert_eq!(drain(&market).await, 0);
        assert_eq!(receiver.got().len(), 1);
        assert_eq!(log(&market, &ben, "transfer.posted").await, [""; 0]);
    }

    async fn a_node_without_egress_leaves_notices_to_others(f: Fixture) {
        let receiver = Receiver::start(&[200]).await;
        let (ann, ben) = (Person::new(1), Person::new(2));
        f.register(&ann).await;
        f.register_at(&ben, Some(&receiver.url("ben"))).await;
        assert_eq!(drain(&f.market).await, 0);
        f.clock.advance(DAY);
        let market = sending(&f.market);
        assert_eq!(drain(&market).await, 1);
        assert_eq!(log(&market, &ben, "agent.registered").await, ["1 200 delivered"]);
    }

    async fn the_log_keeps_the_latest_fifty(f: Fixture) {
        let receiver = Receiver::start(&[200]).await;
        let market = sending(&f.market);
        let (ann, ben) = f.ann_and_ben_at(&market, &receiver.url("ben")).await;
        for n in 1..=53 {
            pay(&f, &ann, &ben, n).await;
            assert_eq!(drain(&market).await, 1);
        }
        let log = market.webhook_log(&ben.id()).await.unwrap();
        let told: Vec<_> = log.iter().map(|attempt| attempt.event_id.to_string()).collect();
        let mut got: Vec<_> = receiver.got().iter().map(|got| got.id().to_owned()).collect();
        got.reverse();
        assert_eq!(told, got[..50]);
    }
}

/// The whole patience of a node, once: no receiver holds a place for longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_never_answers_is_a_failure() {
    let f = Fixture::sqlite().await;
    let receiver = Receiver::start(&[200]).await;
    let market = sending(&f.market);
    let (ann, ben) = f.ann_and_ben_at(&market, &receiver.url("ben")).await;
    receiver.hang();
    pay(&f, &ann, &ben, 1).await;
    assert_eq!(drain(&market).await, 1);
    assert_eq!(log(&market, &ben, "transfer.posted").await, ["1 timeout retry"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_cannot_sign_says_so() {
    let f = Fixture::sqlite().await;
    let receiver = Receiver::start(&[200]).await;
    let ben = Person::new(2);
    f.register_at(&ben, Some(&receiver.url("ben"))).await;
    let unsigned = f.market.clone().with_egress(Arc::new(Plain));
    assert_eq!(drain(&unsigned).await, 1);
    assert_eq!(log(&f.market, &ben, "agent.registered").await, ["1 no_webhook_key retry"]);
    assert_eq!((receiver.got().len(), f.market.node_keys().webhook), (0, None));
}
