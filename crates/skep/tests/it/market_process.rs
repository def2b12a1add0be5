//! What a node does for a deal by itself: looks at pages, refuses roads inwards, tells by webhook.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};
use skep_agent::Passphrase;
use skep_base::{AgentId, Clock, id::DealId};
use skep_sdk::Client;
use skep_store::SystemClock;
use skep_testkit::process::Child;
use skep_wire::{
    notice::{self, NoticeError, WebhookOutcome},
    settle::{Agreement, EscrowStatus, Outcome, Verification, VerificationStatus},
};

use crate::{
    proof_page::get,
    site::{Page, Site},
    stage::{
        self, Actor, Hand, PRICE, agree, deliver, free, furnish, moves, seen, settled, until, usdc,
    },
};

/// Runs a conformance report and finds each of its checks in the source.
#[track_caller]
fn conformed(spec: &str, levels: &Value, lines: usize) {
    let home = tempfile::tempdir().unwrap();
    let report = stage::told(stage::skep(home.path()).args(["conformance", spec]));
    assert_eq!(report["levels"], *levels);
    let shown = report["lines"].as_array().unwrap();
    assert_eq!(shown.len(), lines);
    let mut checks = BTreeSet::new();
    for line in shown {
        assert_eq!(line["passed"], true, "{line:#}");
        let check = line["check"].as_str().unwrap();
        let (module, function) = check.split_once("::").unwrap();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/conformance").join(spec);
        let source = fs::read_to_string(folder.join(module).with_extension("rs")).unwrap();
        assert!(source.contains(&format!("async fn {function}(")), "{check} is not there");
        checks.insert(check);
    }
    assert_eq!(checks.len(), lines, "a check stands for two lines");
}

#[test]
fn vcap_is_conformed_to_by_checks_that_exist() {
    conformed("vcap", &json!([["Core", true], ["Verified", true], ["Full", true]]), 15);
}

#[test]
fn shp_is_conformed_to_by_checks_that_exist() {
    conformed("shp", &json!([["Hire", true], ["Escrow", true], ["Clarify", true]]), 32);
}

#[test]
fn swarmscore_is_conformed_to_by_checks_that_exist() {
    let levels = json!([["Core", true], ["Verified", true], ["Portable", true], ["Full", true]]);
    conformed("swarmscore", &levels, 20);
}

#[test]
fn asip_is_conformed_to_by_checks_that_exist() {
    let levels =
        json!([["Messages", true], ["Hierarchy", true], ["Consensus", true], ["Execution", true]]);
    conformed("asip", &levels, 27);
}

/// A node with its own verifier, and a person beside it who has the same engine.
struct World {
    site: Site,
    ann: Client,
    ben: Client,
    hand: Hand,
    hands: Client,
    built_in: AgentId,
    folder: tempfile::TempDir,
    _node: Child,
}

impl World {
    async fn open() -> World {
        World::open_where(|_, _| ()).await
    }

    /// Its node's folder and command may be changed before it starts.
    async fn open_where(furnished: impl FnOnce(&Path, &mut Command)) -> World {
        let folder = tempfile::tempdir().unwrap();
        let (hand, built_in) = (Hand::new(3), furnish(folder.path(), 1));
        let id = hand.actor.id().to_string();
        let mut up = stage::up(folder.path(), &["--accredit", &id]);
        furnished(folder.path(), &mut up);
        let node = Child::spawn(&mut up).unwrap();
        let hands = hand.enter(node.url(), &["http", "human"]).await;
        let (ann, ben) = (Actor::new(1), Actor::new(2));
        let (ann, ben) = (ann.enter(node.url(), None).await, ben.enter(node.url(), None).await);
        ann.faucet(usdc(100)).await.unwrap();
        // It registers itself a moment after the node is ready.
        until("the built-in verifier", async || ann.verifier(&built_in).await.ok()).await;
        World { site: Site::open(), ann, ben, hand, hands, built_in, folder, _node: node }
    }

    /// A deal about a page, to be looked at by the built-in verifier first.
    async fn about(&self, url: &str, more: Value) -> DealId {
        let mut hints = json!({"type": "http", "url": url});
        hints.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        agree(&self.ann, &self.ben, hints, json!({"verifier": self.built_in})).await
    }

    async fn end(&self, id: DealId) -> (Agreement, Verification) {
        let agreement = settled(&self.ann, id).await;
        let last = *agreement.verifications.last().unwrap();
        let verification = self.ann.verification(last).await.unwrap();
        assert_eq!(verification.verifier, Some(self.built_in));
        assert_eq!(moves(&self.ann, id).await.len(), 1);
        (agreement, verification)
    }

    /// Ben delivers, and no verifier may look where the deal says: then a person is asked.
    async fn nobody_can_tell(&self, id: DealId) {
        let first = deliver(&self.ben, id, "Look there").await.unwrap();
        let failed = |v: &Verification| v.status == VerificationStatus::Error;
        let seen_first = seen(&self.ann, first, failed).await;
        assert_eq!(seen_first.verifier, Some(self.built_in));
        let callback = seen_first.callback.unwrap();
        assert_eq!(callback["proof_bundle"]["error"]["code"], "refused_address", "{callback:#}");
        assert_eq!(self.ann.escrow(id).await.unwrap().status, EscrowStatus::Held);
        let second = self.ann.agreement(id).await.unwrap().verifications[1];
        let asked = self.hands.verification(second).await.unwrap();
        assert_eq!(asked.verifier, Some(self.hand.actor.id()));
        let verdict = self.hand.verdict(&asked.request, Outcome::Error);
        let taken = self.hands.callback(&verdict).await.unwrap();
        assert_eq!(taken.escrow, EscrowStatus::Held);
        let file = self.hands.review(id).await.unwrap();
        assert_eq!((file.review.cause.as_str(), file.callbacks.len()), ("error", 2));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_built_in_verifier_looks_at_pages() {
    let world = World::open().await;
    let (site, hello) = (&world.site, json!({"expected_content": "hello"}));
    let changed = json!({"fingerprint_delta": true});
    let good = site.put("/good", Page::text("Well, hello there"));
    let other = site.put("/other", Page::text("Goodbye"));
    let (same, new) = (site.put("/same", Page::text("old")), site.put("/new", Page::text("old")));
    let wanted = [
        (world.about(&good, hello.clone()).await, EscrowStatus::Released, ""),
        (world.about(&other, hello.clone()).await, EscrowStatus::Refunded, "is not there"),
        (world.about(&site.url("/gone"), hello).await, EscrowStatus::Refunded, "404"),
        (world.about(&same, changed.clone()).await, EscrowStatus::Refunded, "not changed"),
        (world.about(&new, changed).await, EscrowStatus::Released, ""),
    ];
    for (id, ..) in &wanted[3..] {
        until("a baseline", async || {
            world.ann.agreement(*id).await.unwrap().baseline_taken.then_some(())
        })
        .await;
    }
    site.put("/new", Page::text("new"));
    for (id, ..) in wanted {
        deliver(&world.ben, id, "It is done").await.unwrap();
    }
    for (id, status, reason) in wanted {
        let (agreement, verification) = world.end(id).await;
        assert_eq!(agreement.escrow_status, status, "{verification:?}");
        let said = verification.failure_reason.unwrap_or_default();
        assert!(said.contains(reason) && said.is_empty() == reason.is_empty(), "{said:?}");
    }
    assert_eq!(free(&world.ben).await, 2 * PRICE);
    assert_eq!(free(&world.ann).await, 100_000_000 - 2 * PRICE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_road_inwards_is_an_error_and_moves_no_money() {
    let world = World::open().await;
    let inwards = world.site.put("/inwards", Page::to("http://169.254.169.254/latest/"));
    let roads = ["http://10.0.0.1/", "http://169.254.169.254/latest/", &inwards];
    for road in roads {
        let id = world.about(road, json!({"expected_content": "secret"})).await;
        world.nobody_can_tell(id).await;
    }
    assert_eq!(world.site.visits("/inwards").len(), 1);
    assert_eq!(world.hands.reviews(None, None).await.unwrap().items.len(), roads.len());
    let metrics = get(world.ann.url(), "/metrics");
    assert!(metrics.text().contains(&format!("reviews_waiting {}", roads.len())));
    let held = i64::try_from(roads.len()).unwrap() * PRICE;
    assert_eq!(free(&world.ann).await, 100_000_000 - held);
    assert_eq!(free(&world.ben).await, 0);
}

/// Decision 27: a verdict that only points to its bundle is worth as much later as one with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_that_lies_elsewhere_is_fetched_once_and_kept() {
    let world = World::open().await;
    let hints = json!({"type": "http", "url": world.site.url("/")});
    let options = json!({"verifier": world.hand.actor.id()});
    let id = agree(&world.ann, &world.ben, hints, options).await;
    let asked = deliver(&world.ben, id, "Look there").await.unwrap();
    let asked = world.hands.verification(asked).await.unwrap().request;
    let mut verdict = world.hand.verdict(&asked, Outcome::Verified);
    let bundle = verdict.proof_bundle.take().unwrap();
    // Another bundle than the one that was signed is none.
    let other = bundle.to_string().replace("READ", "LOOK");
    verdict.proof_bundle_uri = Some(world.site.put("/bundle", Page::text(&other)));
    assert!(world.hands.callback(&verdict).await.is_err());
    assert_eq!(world.ann.escrow(id).await.unwrap().status, EscrowStatus::Held);
    world.site.put("/bundle", Page::text(&bundle.to_string()));
    let taken = world.hands.callback(&verdict).await.unwrap();
    assert_eq!(taken.escrow, EscrowStatus::Released);
    world.site.put("/bundle", Page::status(410));
    let kept = world.ann.verification(asked.verification_id).await.unwrap().callback.unwrap();
    assert_eq!(kept["proof_bundle"], bundle);

    let keys = world.folder.path().join("ann.keys");
    let passphrase = Passphrase::new("correct horse".to_owned().into()).unwrap();
    Actor::new(1).keyring.save_new(&keys, &passphrase).unwrap();
    let skep = || {
        let mut skep = stage::skep(world.folder.path());
        skep.env("SKEP_KEYS", &keys).env("SKEP_PASSPHRASE", "correct horse");
        skep.env("SKEP_NODE", world.ann.url());
        skep
    };
    let deal = id.to_string();
    stage::told(skep().args(["proof", "export", &deal, "-o", "proof.json"]));
    let checked = stage::told(skep().args(["proof", "verify", "proof.json"]));
    assert_eq!(checked["ok"], true, "{checked:#}");
}

/// A name that the node finds in a file of the test's: what its resolver says can change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_turns_inwards_during_a_deal_is_an_error_and_moves_no_money() {
    let world = World::open_where(|folder, up| {
        up.env("LD_PRELOAD", "libnss_wrapper.so").env("NSS_WRAPPER_HOSTS", folder.join("hosts"));
        fs::write(folder.join("hosts"), "127.0.0.1 shop.example\n").unwrap();
    })
    .await;
    // The file is read again when its time has changed, in whole seconds.
    let turn = |address: &str, later: u64| {
        let hosts = world.folder.path().join("hosts");
        fs::write(&hosts, format!("{address} shop.example\n")).unwrap();
        let at = SystemTime::now() + Duration::from_secs(later);
        fs::File::open(&hosts).unwrap().set_modified(at).unwrap();
    };
    let changed = json!({"fingerprint_delta": true});
    let url = world.site.put("/page", Page::text("old")).replace("127.0.0.1", "shop.example");
    let ids = [world.about(&url, changed.clone()).await, world.about(&url, changed).await];
    for id in ids {
        let taken = async || world.ann.agreement(id).await.unwrap().baseline_taken.then_some(());
        until("a baseline", taken).await;
    }
    world.site.put("/page", Page::text("new"));
    assert_eq!(world.site.visits("/page").len(), ids.len());
    turn("10.0.0.1", 60);
    world.nobody_can_tell(ids[0]).await;
    assert_eq!(world.site.visits("/page").len(), ids.len());
    assert_eq!(free(&world.ben).await, 0);
    // The other deal's page is back where it was.
    turn("127.0.0.1", 120);
    deliver(&world.ben, ids[1], "It is done").await.unwrap();
    assert_eq!(world.end(ids[1]).await.0.escrow_status, EscrowStatus::Released);
    assert_eq!(world.ann.escrow(ids[0]).await.unwrap().status, EscrowStatus::Held);
    assert_eq!(free(&world.ben).await, PRICE);
    assert_eq!(free(&world.ann).await, 100_000_000 - 2 * PRICE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_is_told_of_a_deal_with_a_signature() {
    let (folder, site) = (tempfile::tempdir().unwrap(), Site::open());
    let node = Child::spawn(&mut stage::up(folder.path(), &[])).unwrap();
    let hook = site.put("/hook", Page::status(503));
    let ann = Actor::new(1).enter(node.url(), None).await;
    let ben = Actor::new(2).enter(node.url(), Some(hook)).await;
    ann.faucet(usdc(1)).await.unwrap();
    let hints = json!({"type": "artifact", "expected_content": "hello"});
    let offer = stage::offer(&ann, &ben, hints, json!({}));
    let id = ann.open_negotiation(&offer).await.unwrap().value.negotiation_id;
    // The receiver is down at first; the clock need not be waited for.
    until("the first notice", async || site.visits("/hook").pop()).await;
    site.put("/hook", Page::status(204));
    let retried =
        until("the log's word of it", async || ben.webhook_log().await.unwrap().pop()).await;
    assert_eq!((retried.status, retried.attempt), (Some(503), 1));
    assert!(matches!(retried.outcome, WebhookOutcome::Retry { .. }), "{retried:?}");
    ann.advance_clock(30).await.unwrap();
    ben.respond(&stage::acceptance(id)).await.unwrap();
    deliver(&ben, id, "Hello").await.unwrap();
    settled(&ann, id).await;

    // The webhook gets what is in the inbox, which is there for those who have none.
    let inbox = ben.inbox(None, Some(100)).await.unwrap().items;
    let inbox: BTreeMap<_, _> =
        inbox.into_iter().map(|line| (line.id.to_string(), line.kind)).collect();
    for kind in ["negotiation.requested", "agreement.created", "escrow.released"] {
        assert!(inbox.values().any(|told| told == kind), "{inbox:?}");
    }
    let log = until("all notices", async || {
        let log = ben.webhook_log().await.unwrap();
        let done = log.iter().filter(|line| line.outcome == WebhookOutcome::Delivered).count();
        (done >= inbox.len()).then_some(log)
    })
    .await;
    let done = log.iter().filter(|line| line.outcome == WebhookOutcome::Delivered);
    let done = done.map(|line| (line.event_id.to_string(), line.kind.clone()));
    assert_eq!(done.collect::<BTreeMap<_, _>>(), inbox);
    let keys = Client::new(node.url()).unwrap().node_keys().await.unwrap();
    let key = keys.webhook.unwrap();
    let visits = site.visits("/hook");
    assert_eq!(visits.len(), log.len(), "each attempt has its line: {log:#?}");
    let mut told = BTreeSet::new();
    for visit in &visits {
        let now = SystemClock.now();
        assert_eq!(notice::verify(&key, &visit.headers, &visit.body, now), Ok(()));
        let body: Value = serde_json::from_slice(&visit.body).unwrap();
        let event = visit.headers[notice::WEBHOOK_ID].to_str().unwrap().to_owned();
        assert_eq!(body["type"], json!(inbox[&event]));
        assert!(inbox[&event] == "agent.registered" || body["data"]["negotiation_id"] == json!(id));
        told.insert(event);
        let forged = visit.body.iter().map(|byte| byte ^ 1).collect::<Vec<_>>();
        let refused = notice::verify(&key, &visit.headers, &forged, now);
        assert_eq!(refused, Err(NoticeError::BadSignature));
    }
    assert_eq!(told.len(), inbox.len(), "a repetition has the id of the first notice");
    let stranger = ann.webhook_log().await.unwrap();
    assert!(stranger.is_empty(), "{stranger:?}");
}
