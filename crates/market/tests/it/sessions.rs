//! Browser sessions: money, repetitions, races and lost gateways, with a gateway of the test's own
//! that records and signs as the real one does, and has no browser.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use serde_json::{Value, json};
use skep_base::{
    Amount, Asset,
    ed25519::{PublicKey, SecretKey},
    id::SessionId,
};
use skep_market::{
    Calling, Conduit, Failure, Gateway, Guarded, Known, Market, Refusal, SessionRefusal, Signed,
    check_score,
};
use skep_score::verify::Source;
use skep_settle::{
    recording::{Outcome, Place, Recording, Stamp},
    session::{self, Prices},
    session_proof,
};
use skep_store::AccountId;
use skep_wire::{
    conduit::{
        Act, Acted, ActionType, CloseSession, GatewayAct, GatewayClose, GatewayError, GatewayOpen,
        OpenSession, SESSION_IDLE_MAX, SESSION_LIFE_MAX, Session, SessionProof, SessionStatus,
    },
    score::{BadgeKind, KeyPurpose, VerifyLevel},
    settle::{ErrorReport, Standing, Tier},
};

use crate::{fixture::*, on_both_engines};

/// Records what it is told, and says what the test wants.
#[derive(Debug, Default)]
pub struct Fake {
    sessions: Mutex<BTreeMap<SessionId, (Recording, Option<SessionProof>)>>,
    performed: AtomicU32,
    /// Does what it is asked, and its answer is lost.
    loses_answers: AtomicBool,
    is_gone: AtomicBool,
    /// Another node's, which knows nothing of this one's sessions.
    is_elsewhere: AtomicBool,
    has_no_browser: AtomicBool,
    /// Has not answered yet, so that nobody knows its key.
    is_silent: AtomicBool,
}

fn key() -> SecretKey {
    SecretKey::from_seed([50; 32])
}

fn gone<T>() -> Result<T, GatewayError> {
    Err(GatewayError::Unreachable { detail: "connection refused".to_owned() })
}

impl Fake {
    fn forget(&self) {
        self.sessions.lock().unwrap().clear();
    }

    fn open_now(&self, id: SessionId, request: GatewayOpen) -> Result<PublicKey, GatewayError> {
        if self.is_gone.load(Relaxed) {
            return gone();
        }
        if self.has_no_browser.load(Relaxed) {
            return Err(GatewayError::NoBrowser { detail: "install chromium".to_owned() });
        }
        let recording = Recording::open(id, request.agent_id, request.purpose, id.time());
        self.sessions.lock().unwrap().insert(id, (recording, None));
        Ok(key().public())
    }

    fn act_now(&self, id: SessionId, asked: GatewayAct) -> Result<Acted, GatewayError> {
        if self.is_gone.load(Relaxed) {
            return gone();
        }
        let mut sessions = self.sessions.lock().unwrap();
        let (recording, proof) = sessions.get_mut(&id).ok_or(GatewayError::UnknownSession)?;
        if proof.is_some() {
            return Err(GatewayError::Over { reason: "closed".to_owned() });
        }
        match recording.place(asked.index, &asked.mark) {
            Place::Free => {}
            Place::Done(acted) => return Ok(*acted),
            Place::Taken(acted) => return Err(GatewayError::Taken { acted }),
            Place::Elsewhere => return Err(GatewayError::Moved),
        }
        let text = asked.act.text.as_deref().unwrap_or_default();
        match text {
            "into a password" => return Err(GatewayError::TierTooLow { required: Tier::Verified }),
            "nonsense" => return Err(GatewayError::BadAction { detail: "no".to_owned() }),
            _ => {}
        }
        self.performed.fetch_add(1, Relaxed);
        let error = (text == "fails" || text == "dies").then(|| ErrorReport {
            code: "no_match".to_owned(),
            detail: "nothing matches".to_owned(),
        });
        let picture = asked.act.screenshot.then(|| b"png".to_vec());
        let outcome = Outcome {
            url: asked.act.url.clone(),
            data: json!({ "n": asked.index }),
            screenshot: picture,
            error,
            fatal: text == "dies",
            ..Outcome::default()
        };
        let stamp = Stamp { at: id.time(), duration_ms: 1, price: asked.price_minor };
        let acted = recording.add(&asked.act, asked.mark, outcome, stamp).unwrap();
        if self.loses_answers.load(Relaxed) { gone() } else { Ok(acted) }
    }

    fn close_now(&self, id: SessionId, asked: GatewayClose) -> Result<SessionProof, GatewayError> {
        if self.is_gone.load(Relaxed) {
            return gone();
        }
        let mut sessions = self.sessions.lock().unwrap();
        let (recording, proof) = sessions.get_mut(&id).ok_or(GatewayError::UnknownSession)?;
        let sealed = proof.get_or_insert_with(|| {
            recording.seal(asked.status, asked.reason, id.time(), "fake", &key()).unwrap()
        });
        Ok(sealed.clone())
    }
}

impl Gateway for Fake {
    fn key(&self) -> Option<PublicKey> {
        if self.is_silent.load(Relaxed) {
            return None;
        }
        let seed = if self.is_elsewhere.load(Relaxed) { 51 } else { 50 };
        Some(SecretKey::from_seed([seed; 32]).public())
    }

    fn open(&self, session: SessionId, request: GatewayOpen) -> Calling<'_, PublicKey> {
        Box::pin(async move { self.open_now(session, request) })
    }

    fn act(&self, session: SessionId, request: GatewayAct) -> Calling<'_, Acted> {
        Box::pin(async move { self.act_now(session, request) })
    }

    fn close(&self, session: SessionId, request: GatewayClose) -> Calling<'_, SessionProof> {
        Box::pin(async move { self.close_now(session, request) })
    }
}

/// A market with a gateway and an agent that has 1,000,000 minor units.
struct Room {
    f: Fixture,
    market: Market,
    fake: Arc<Fake>,
    ann: Person,
    ben: Person,
}

impl Room {
    async fn new(f: Fixture) -> Room {
        let (ann, ben) = f.two().await;
        f.fund(&ann, 901, 999_000).await;
        let fake = Arc::new(Fake::default());
        let market = f.market.clone().with_gateway(fake.clone());
        Room { f, market, fake, ann, ben }
    }

    async fn open(&self, max: i64) -> Session {
        let request = OpenSession { max_cost_minor: Amount::new(max), purpose: None };
        let signed = self.ann.signed(&format!("open {max}"));
        self.market.session_open(&signed, request).await.unwrap().value
    }

    async fn act(&self, id: SessionId, act: Act) -> Result<u64, Failure> {
        let signed = self.ann.signed(&format!("{act:?}"));
        self.act_signed(&signed, id, act).await
    }

    async fn act_signed(&self, signed: &Signed, id: SessionId, act: Act) -> Result<u64, Failure> {
        let done = self.market.session_act(signed, id, act).await?.value;
        Ok(done.event["index"].as_u64().unwrap())
    }

    async fn close(&self, id: SessionId, failed: Option<&str>) -> Result<Session, Failure> {
        let request = CloseSession { failed: failed.map(str::to_owned) };
        let signed = self.ann.signed(&format!("close {failed:?}"));
        Ok(self.market.session_close(&signed, id, request).await?.value)
    }

    async fn see(&self, id: SessionId) -> Session {
        self.market.session(&self.ann.id(), id).await.unwrap()
    }

    async fn fees(&self) -> i64 {
        self.market.store().journal_balance(AccountId::fees(Asset::USDC)).await.unwrap()
    }

    async fn balance(&self) -> String {
        self.f.balance(&self.ann).await
    }
}

fn go(n: u32) -> Act {
    Act::navigate(&format!("https://a.example/{n}"))
}

fn saying(text: &str) -> Act {
    Act { text: Some(text.to_owned()), ..go(0) }
}

fn reason<T: std::fmt::Debug>(result: Result<T, Failure>) -> SessionRefusal {
    match refusal(result) {
        Refusal::Session { reason } => reason,
        other => panic!("expected a session's refusal, not {other:?}"),
    }
}

fn is_over<T: std::fmt::Debug>(result: Result<T, Failure>) -> bool {
    matches!(reason(result), SessionRefusal::Rule { reason: session::Refusal::Over { .. } })
}

on_both_engines! {
    async fn a_session_costs_what_was_done_and_the_rest_comes_back(f: Fixture) {
        let r = Room::new(f).await;
        let opened = r.open(10_000).await;
        let id = opened.session_id;
        assert_eq!(opened.status, SessionStatus::Idle);
        assert_eq!(r.balance().await, "990000/10000/0");
        assert_eq!(r.act(id, go(1)).await.unwrap(), 0);
        // What fails on the page is recorded, and costs its price.
        assert_eq!(r.act(id, saying("fails")).await.unwrap(), 1);
        let wait = Act { screenshot: true, ..Act::new(ActionType::Wait) };
        assert_eq!(r.act(id, wait).await.unwrap(), 2);
        assert_eq!(r.act(id, Act { screenshot: true, ..go(2) }).await.unwrap(), 3);
        let seen = r.see(id).await;
        assert_eq!((seen.status, seen.actions), (SessionStatus::Running, 4));
        assert_eq!(seen.cost_minor.minor(), 3000);
        let early = r.market.session_proof(&r.ann.id(), id).await;
        assert_eq!(reason(early), SessionRefusal::StillOpen);
        let closed = r.close(id, None).await.unwrap();
        assert_eq!((closed.status, closed.cost_minor.minor()), (SessionStatus::Completed, 3000));
        assert_eq!((r.balance().await.as_str(), r.fees().await), ("997000/0/0", 3000));
        let proof = r.market.session_proof(&r.ann.id(), id).await.unwrap();
        let bundle = session_proof::check(&proof, Some(&key().public())).unwrap();
        assert_eq!((bundle.action_log.len(), proof.attachments.len()), (4, 1));
        assert_eq!(bundle.action_log_head, closed.head);
        let page = r.market.session_steps(&r.ann.id(), id, None, 3).await.unwrap();
        assert_eq!((page.items.len(), page.next_cursor.as_deref()), (3, Some("3")));
        assert_eq!(page.items[1].error.as_ref().unwrap().code, "no_match");
        let rest = r.market.session_steps(&r.ann.id(), id, page.next_cursor, 3).await.unwrap();
        assert_eq!((rest.items.len(), rest.next_cursor), (1, None));
        // A stranger cannot tell it from none.
        let strangers = r.market.session(&r.ben.id(), id).await;
        assert_eq!(reason(strangers), SessionRefusal::UnknownSession { session: id });
        let kinds = r.f.kinds().await;
        assert_eq!(kinds.iter().filter(|kind| *kind == "session.action").count(), 4);
        r.f.audit_is_clean().await;
    }

    async fn only_what_was_proven_and_done_somewhere_counts(f: Fixture) {
        let r = Room::new(f).await;
        let counted = async || {
            let (track, _) = r.market.track_record(&r.ann.id()).await.unwrap();
            (track.totals.conduit, track.totals.conduit_ok, track.totals.proofs)
        };
        // Completed; failed; failed at once; nothing worked; only waited, nowhere; lost with its
        // gateway.
        for (failed, act, so_far) in [
            (None, go(1), (1, 1, 1)),
            (Some("enough"), go(1), (2, 1, 2)),
            (Some("enough"), saying("fails"), (3, 1, 3)),
            (None, saying("fails"), (3, 1, 3)),
            (None, Act::new(ActionType::Wait), (3, 1, 3)),
        ] {
            let id = r.open(5000).await.session_id;
            r.act(id, act).await.unwrap();
            r.close(id, failed).await.unwrap();
            assert_eq!(counted().await, so_far);
        }
        let id = r.open(5000).await.session_id;
        r.act(id, go(1)).await.unwrap();
        r.fake.forget();
        r.close(id, None).await.unwrap();
        assert_eq!(counted().await, (3, 1, 3));
        let facts = r.market.facts(&r.ann.id(), None, 9).await.unwrap();
        let proof = r.market.session_proof(&r.ann.id(), facts[1].source.parse().unwrap()).await;
        assert_eq!(facts[1].proof, Some(proof.unwrap().proof_hash));
        // Two sessions were somewhere; the third only tried.
        let capabilities = r.market.passport(&r.ann.id()).await.unwrap().capabilities;
        assert_eq!(capabilities.domains_worked, ["a.example"]);
        let elsewhere = Act { text: Some("fails".to_owned()), ..Act::navigate("https://b.example/") };
        let id = r.open(5000).await.session_id;
        for act in [elsewhere, go(2)] {
            r.act(id, act).await.unwrap();
        }
        r.close(id, None).await.unwrap();
        let capabilities = r.market.passport(&r.ann.id()).await.unwrap().capabilities;
        assert_eq!(capabilities.domains_worked, ["a.example"]);
        r.f.audit_is_clean().await;
        let report = r.market.recompute_scores(Box::new(|_, _| {})).await.unwrap();
        assert!(report.is_clean() && report.facts == 4, "{report:#?}");
    }

    async fn a_badge_that_ran_out_is_over_in_the_log_before_it_is_earned_again(f: Fixture) {
        let r = Room::new(f).await;
        let ann = r.ann.id();
        let proven = async || {
            let id = r.open(5000).await.session_id;
            r.act(id, go(1)).await.unwrap();
            r.close(id, None).await.unwrap();
        };
        proven().await;
        // One session is no score that search shows, so nobody looks meanwhile.
        r.f.clock.advance(91 * 24 * HOUR);
        r.market.do_due_jobs().await.unwrap();
        proven().await;
        let (track, _) = r.market.track_record(&ann).await.unwrap();
        let is_proven = |kind: BadgeKind| kind == BadgeKind::ConduitVerified;
        assert!(track.badges.iter().any(|badge| is_proven(badge.kind)), "{track:?}");
        assert!(track.past_badges.iter().any(|badge| is_proven(badge.badge_type)), "{track:?}");
        r.f.audit_is_clean().await;
        let log = r.market.store().events(0, 1000).await.unwrap();
        let told: Vec<bool> = log
            .iter()
            .filter(|logged| logged.event.kind == "badge.changed")
            .map(|logged| serde_json::from_str::<Value>(&logged.event.body).unwrap())
            .filter(|told| told["badge_type"] == json!(BadgeKind::ConduitVerified))
            .map(|told| told["expired_at"].is_null())
            .collect();
        assert_eq!(told, [true, false, true]);
        let report = r.market.recompute_scores(Box::new(|_, _| {})).await.unwrap();
        assert!(report.is_clean(), "{report:#?}");
    }

    async fn what_sessions_prove_is_open_to_strangers(f: Fixture) {
        let r = Room::new(f).await;
        r.market.announce_score_keys().await.unwrap();
        let ann = r.ann.id();
        let checked = async || {
            let certificate = r.market.certificate(&ann, None, 10).await.unwrap();
            let keys = r.market.score_keys().await.unwrap();
            let source = Source { keys: &keys, host: None };
            let (said, now) = (&certificate.publication, r.f.now());
            check_score(said, Some(&certificate), Known::issuer(&source), now)
        };
        for n in 0..11 {
            if n == 1 {
                r.f.clock.advance(HOUR);
            }
            let id = r.open(5000).await.session_id;
            r.act(id, go(n)).await.unwrap();
            r.close(id, (n == 5).then_some("lost its way")).await.unwrap();
        }
        let first = r.market.publication(&ann, None).await.unwrap();
        let technical = &first.dimensions.technical_execution;
        assert_eq!((technical.conduit_sessions_90d, technical.conduit_successful_90d), (11, 10));
        assert_eq!((first.score.value, first.diversity.domains_worked), (40, 1));
        let answer = checked().await;
        assert_eq!(answer.level, Some(VerifyLevel::L3), "{answer:?}");
        let coverage = answer.coverage.unwrap();
        assert_eq!((coverage.facts_shown, coverage.sessions_proven), (11, 10));
        let passport = r.market.passport(&ann).await.unwrap();
        assert_eq!(passport.capabilities.domains_worked, ["a.example"]);
        assert_eq!(passport.capabilities.task_types, ["NAVIGATE"]);

        // The same for everybody while nothing changes, and anew after an hour.
        r.f.clock.advance(HOUR / 2);
        assert_eq!(r.market.publication(&ann, None).await.unwrap(), first);
        r.f.clock.advance(HOUR);
        assert_ne!(r.market.publication(&ann, None).await.unwrap(), first);
        // The first session is 90 days old, the others are not: the chain goes on from there.
        r.f.clock.advance(90 * 24 * HOUR - 5 * HOUR / 2);
        let answer = checked().await;
        assert_eq!(answer.level, Some(VerifyLevel::L3), "{answer:?}");
        assert_eq!(answer.coverage.unwrap().facts_stated, 10);
        r.f.clock.advance(2 * HOUR);
        let answer = checked().await;
        assert_eq!((answer.level, answer.recomputed_score), (Some(VerifyLevel::L3), Some(0)));
        let report = r.market.recompute_scores(Box::new(|_, _| {})).await.unwrap();
        assert!(report.is_clean() && report.facts == 11, "{report:#?}");
    }

    async fn a_gateway_that_comes_later_is_announced_by_the_working_node(f: Fixture) {
        let r = Room::new(f).await;
        let announced = async || {
            // As a node knows it that has no gateway.
            let keys = r.f.market.score_keys().await.unwrap().keys;
            keys.iter().any(|key| key.purpose == KeyPurpose::Gateway)
        };
        r.fake.is_silent.store(true, Relaxed);
        r.market.announce_score_keys().await.unwrap();
        r.fake.is_silent.store(false, Relaxed);
        assert!(!announced().await);
        let (stop, stopping) = tokio::sync::watch::channel(false);
        let working = tokio::spawn(r.market.clone().work(stopping));
        for _ in 0..500 {
            if announced().await {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        stop.send(true).unwrap();
        working.await.unwrap();
        assert!(announced().await);
        let kinds = r.f.kinds().await;
        assert_eq!(kinds.iter().filter(|kind| *kind == "score.keys_announced").count(), 2);
    }

    async fn a_tier_that_was_earned_allows_more(f: Fixture) {
        let r = Room::new(f).await;
        let click = Act { selector: Some("a".to_owned()), ..Act::new(ActionType::Click) };
        for _ in 0..10 {
            let id = r.open(5000).await.session_id;
            assert!(r.act(id, click.clone()).await.is_err());
            r.act(id, go(1)).await.unwrap();
            r.close(id, None).await.unwrap();
        }
        let id = r.open(5000).await.session_id;
        r.act(id, click).await.unwrap();
    }

    async fn what_is_refused_changes_nothing_and_costs_nothing(f: Fixture) {
        let r = Room::new(f).await;
        let id = r.open(1500).await.session_id;
        let tier = |required, tier, action: &str| SessionRefusal::Rule {
            reason: session::Refusal::TierTooLow { action: action.to_owned(), required, tier },
        };
        let click = Act { selector: Some("a".to_owned()), ..Act::new(ActionType::Click) };
        let clicked = reason(r.act(id, click.clone()).await);
        assert_eq!(clicked, tier(Tier::Basic, Tier::Unverified, "CLICK"));
        // The page decides about some fields.
        let typed = r.act(id, saying("into a password")).await;
        assert_eq!(reason(typed), tier(Tier::Verified, Tier::Unverified, "NAVIGATE"));
        let nonsense = reason(r.act(id, saying("nonsense")).await);
        assert_eq!(nonsense, SessionRefusal::BadAction { detail: "no".to_owned() });
        assert_eq!(r.see(id).await.actions, 0);
        r.act(id, go(1)).await.unwrap();
        let dear = reason(r.act(id, go(2)).await);
        let action = "NAVIGATE".to_owned();
        let spent = session::Refusal::BudgetSpent { action, price_minor: 1000, left_minor: 500 };
        assert_eq!(dear, SessionRefusal::Rule { reason: spent });
        // A tier that was given allows more at once; waiting is free.
        let standing = Standing { tier: Tier::Basic, ..Standing::default() };
        r.market.set_standing(r.ann.id(), standing, "test".to_owned()).await.unwrap();
        r.act(id, Act { action: ActionType::Hover, ..click }).await.unwrap();
        r.act(id, Act::new(ActionType::Wait)).await.unwrap();
        assert_eq!(r.fake.performed.load(Relaxed), 3);
        assert_eq!(r.close(id, Some("enough")).await.unwrap().cost_minor.minor(), 1000);
        assert_eq!((r.balance().await.as_str(), r.fees().await), ("999000/0/0", 1000));
        let long = OpenSession { max_cost_minor: None, purpose: Some("x".repeat(2000)) };
        let refused = r.market.session_open(&r.ann.signed("long"), long).await;
        assert_eq!(reason(refused), SessionRefusal::PurposeTooLong);
        r.f.audit_is_clean().await;
    }

    async fn a_repeated_request_opens_acts_and_closes_once(f: Fixture) {
        let r = Room::new(f).await;
        let keyed = |nonce: &str, key: &str, body: &str| Signed {
            idempotency_key: Some(key.to_owned()),
            ..r.ann.signed_with(nonce, body)
        };
        let request = OpenSession { max_cost_minor: Amount::new(5000), purpose: None };
        let first = r.market.session_open(&keyed("n1", "open", "a"), request.clone()).await;
        let first = first.unwrap();
        r.f.clock.advance(Duration::from_secs(1));
        let again = r.market.session_open(&keyed("n2", "open", "a"), request.clone()).await;
        let again = again.unwrap();
        assert_eq!((first.replayed, again.replayed), (false, true));
        assert_eq!(first.value, again.value);
        assert_eq!(r.fake.sessions.lock().unwrap().len(), 1);
        let other = r.market.session_open(&keyed("n3", "open", "b"), request).await;
        assert!(matches!(other, Err(Failure::KeyReused(Guarded::IdempotencyKey))));

        let id = first.value.session_id;
        let acted = r.market.session_act(&keyed("n4", "act", "x"), id, go(1)).await.unwrap();
        let again = r.market.session_act(&keyed("n5", "act", "x"), id, go(1)).await.unwrap();
        assert_eq!((acted.replayed, again.replayed), (false, true));
        assert_eq!((&acted.value, r.fake.performed.load(Relaxed)), (&again.value, 1));
        // The same words under another key are another action.
        r.market.session_act(&keyed("n6", "act2", "x"), id, go(1)).await.unwrap();
        assert_eq!((r.fake.performed.load(Relaxed), r.see(id).await.actions), (2, 2));

        let done = CloseSession::default();
        let closed = r.market.session_close(&keyed("n7", "close", "c"), id, done.clone()).await;
        let closed = closed.unwrap();
        let again = r.market.session_close(&keyed("n8", "close", "c"), id, done).await.unwrap();
        assert_eq!((closed.replayed, again.replayed), (false, true));
        assert_eq!(closed.value, again.value);
        assert!(is_over(r.close(id, None).await));
        assert!(is_over(r.act(id, go(2)).await));
        // An action that was done while the session was open is still told.
        let late = r.market.session_act(&keyed("n9", "act", "x"), id, go(1)).await.unwrap();
        assert_eq!((late.replayed, late.value), (true, acted.value));
        r.f.audit_is_clean().await;
    }

    async fn what_was_done_is_kept_though_the_answer_was_lost(f: Fixture) {
        let r = Room::new(f).await;
        let id = r.open(10_000).await.session_id;
        r.fake.loses_answers.store(true, Relaxed);
        let signed = Signed { idempotency_key: Some("k".to_owned()), ..r.ann.signed("one") };
        let lost = r.act_signed(&signed, id, go(1)).await;
        assert!(matches!(reason(lost), SessionRefusal::GatewayUnavailable { .. }));
        assert_eq!(r.see(id).await.actions, 0);
        r.fake.loses_answers.store(false, Relaxed);
        // The same again: nothing is done twice.
        assert_eq!(r.act_signed(&signed, id, go(1)).await.unwrap(), 0);
        assert_eq!(r.fake.performed.load(Relaxed), 1);
        // Something else instead: what was done comes first, and is paid.
        r.fake.loses_answers.store(true, Relaxed);
        assert!(r.act(id, go(2)).await.is_err());
        r.fake.loses_answers.store(false, Relaxed);
        assert_eq!(r.act(id, go(3)).await.unwrap(), 2);
        assert_eq!((r.see(id).await.actions, r.see(id).await.cost_minor.minor()), (3, 3000));
        // And if the owner closes, the proof brings it.
        r.fake.loses_answers.store(true, Relaxed);
        assert!(r.act(id, Act { screenshot: true, ..go(4) }).await.is_err());
        r.fake.loses_answers.store(false, Relaxed);
        let closed = r.close(id, None).await.unwrap();
        assert_eq!((closed.actions, closed.cost_minor.minor()), (4, 4000));
        let proof = r.market.session_proof(&r.ann.id(), id).await.unwrap();
        assert_eq!(proof.attachments.len(), 1);
        session_proof::check(&proof, Some(&key().public())).unwrap();
        assert_eq!(r.fees().await, 4000);
        r.f.audit_is_clean().await;
    }

    async fn a_lost_gateway_costs_nothing(f: Fixture) {
        let r = Room::new(f).await;
        // Another node's gateway does not end a session that it has never had.
        let id = r.open(10_000).await.session_id;
        r.act(id, go(1)).await.unwrap();
        r.fake.is_elsewhere.store(true, Relaxed);
        let refused = r.act(id, go(2)).await;
        assert!(matches!(reason(refused), SessionRefusal::GatewayUnavailable { .. }));
        r.fake.is_elsewhere.store(false, Relaxed);
        // It was restarted, and knows nothing: the next action ends the session.
        r.fake.forget();
        assert!(is_over(r.act(id, go(2)).await));
        let seen = r.see(id).await;
        assert_eq!((seen.status, seen.cost_minor.minor()), (SessionStatus::Failed, 0));
        let none = r.market.session_proof(&r.ann.id(), id).await;
        assert!(matches!(reason(none), SessionRefusal::NoProof { .. }));
        assert_eq!((r.balance().await.as_str(), r.fees().await), ("1000000/0/0", 0));
        // It cannot be reached: the owner may try again, and in the end the timer gives the money
        // back.
        let id = r.open(10_000).await.session_id;
        r.act(id, go(1)).await.unwrap();
        r.fake.is_gone.store(true, Relaxed);
        let refused = r.close(id, Some("x")).await;
        assert!(matches!(reason(refused), SessionRefusal::GatewayUnavailable { .. }));
        r.f.clock.advance(SESSION_IDLE_MAX);
        r.market.do_due_jobs().await.unwrap();
        assert_eq!(r.see(id).await.status, SessionStatus::Running);
        r.f.clock.advance(Duration::from_secs(240));
        r.market.do_due_jobs().await.unwrap();
        assert_eq!(r.see(id).await.status, SessionStatus::Failed);
        assert_eq!((r.balance().await.as_str(), r.fees().await), ("1000000/0/0", 0));
        // A browser that dies is the end too, with a proof of what it did.
        r.fake.is_gone.store(false, Relaxed);
        let id = r.open(10_000).await.session_id;
        r.act(id, saying("dies")).await.unwrap();
        let seen = r.see(id).await;
        assert_eq!((seen.status, seen.cost_minor.minor()), (SessionStatus::Failed, 1000));
        assert!(r.market.session_proof(&r.ann.id(), id).await.is_ok());
        // Without a browser no money is held.
        r.fake.has_no_browser.store(true, Relaxed);
        let request = OpenSession { max_cost_minor: None, purpose: None };
        let none = r.market.session_open(&r.ann.signed("none"), request).await;
        let detail = "install chromium".to_owned();
        assert_eq!(reason(none), SessionRefusal::NoBrowser { detail });
        assert_eq!(r.balance().await, "999000/0/0");
        r.f.audit_is_clean().await;
    }

    async fn nobody_closes_it_and_time_does(f: Fixture) {
        let r = Room::new(f).await;
        let (idle, busy) = (r.open(2000).await.session_id, r.open(20_000).await.session_id);
        let mut passed = Duration::ZERO;
        let step = Duration::from_secs(4 * 60);
        while passed + step < SESSION_LIFE_MAX {
            passed += step;
            r.act(busy, go(1)).await.unwrap();
            r.f.clock.advance(step);
            r.market.do_due_jobs().await.unwrap();
        }
        let idle = r.see(idle).await;
        assert_eq!(idle.status, SessionStatus::Failed);
        assert_eq!(idle.reason.as_deref(), Some("nobody closed it in time"));
        assert_eq!(r.see(busy).await.status, SessionStatus::Running);
        r.act(busy, go(2)).await.unwrap();
        r.f.clock.advance(step);
        // Its time is over, and the timer has not come yet.
        assert!(is_over(r.act(busy, go(3)).await));
        r.market.do_due_jobs().await.unwrap();
        let seen = r.see(busy).await;
        assert_eq!((seen.status, seen.actions), (SessionStatus::Failed, 4));
        assert_eq!((r.balance().await.as_str(), r.fees().await), ("996000/0/0", 4000));
        assert!(r.market.session_proof(&r.ann.id(), busy).await.is_ok());
        r.f.audit_is_clean().await;
    }

    async fn an_agent_has_so_many_sessions_and_no_more(f: Fixture) {
        let r = Arc::new(Room::new(f).await);
        let mut opening = tokio::task::JoinSet::new();
        for n in 0..12 {
            let r = r.clone();
            opening.spawn(async move {
                let request = OpenSession { max_cost_minor: Amount::new(1000), purpose: None };
                r.market.session_open(&r.ann.signed(&format!("open {n}")), request).await
            });
        }
        let said = opening.join_all().await;
        assert_eq!(said.iter().filter(|said| said.is_ok()).count(), 4);
        for refused in said.iter().filter_map(|said| said.as_ref().err()) {
            let many = Refusal::Session { reason: SessionRefusal::TooManySessions { max: 4 } };
            assert!(matches!(refused, Failure::Refused(refusal) if *refusal == many), "{refused}");
        }
        assert_eq!(r.balance().await, "996000/4000/0");
        // Browsers that were started for nothing are closed.
        let is_open = |(_, proof): &&(Recording, Option<SessionProof>)| proof.is_none();
        let left = r.fake.sessions.lock().unwrap().values().filter(is_open).count();
        assert_eq!(left, 4);
        let request = OpenSession { max_cost_minor: None, purpose: None };
        let poor = r.market.session_open(&r.ben.signed("poor"), request).await;
        assert!(matches!(refusal(poor), Refusal::Ledger { .. }));
        let id = said.into_iter().find_map(Result::ok).unwrap().value.session_id;
        r.close(id, Some("not needed")).await.unwrap();
        r.open(1000).await;
        let request = OpenSession { max_cost_minor: Amount::new(999), purpose: None };
        let cheap = r.market.session_open(&r.ann.signed("cheap"), request).await;
        let least_minor = Amount::new(1000).unwrap();
        assert_eq!(reason(cheap), SessionRefusal::MaxCostTooLow { least_minor });
        r.f.audit_is_clean().await;
    }

    async fn what_was_sealed_is_paid_for_though_the_request_was_no_good(f: Fixture) {
        let r = Room::new(f).await;
        let id = r.open(10_000).await.session_id;
        let used = r.ann.signed("used");
        r.act_signed(&used, id, go(1)).await.unwrap();
        // The nonce belongs to another request.
        let again = r.ann.signed_with(&used.nonce, "close");
        let request = CloseSession { failed: None };
        let refused = r.market.session_close(&again, id, request).await;
        assert!(matches!(refused, Err(Failure::KeyReused(_))), "{refused:?}");
        let seen = r.see(id).await;
        assert_eq!((seen.status, seen.cost_minor.minor()), (SessionStatus::Completed, 1000));
        assert_eq!((r.balance().await.as_str(), r.fees().await), ("999000/0/0", 1000));
        r.f.audit_is_clean().await;
    }

    async fn many_at_once_act_in_order_and_close_once(f: Fixture) {
        let r = Arc::new(Room::new(f).await);
        let id = r.open(100_000).await.session_id;
        let mut acting = tokio::task::JoinSet::new();
        for n in 0..6 {
            let r = r.clone();
            acting.spawn(async move { r.act(id, go(n % 3)).await });
        }
        let mut indexes: Vec<u64> =
            acting.join_all().await.into_iter().filter_map(Result::ok).collect();
        indexes.sort_unstable();
        let seen = r.see(id).await;
        // Each that was answered has a place of its own.
        let mut apart = indexes.clone();
        apart.dedup();
        assert_eq!(indexes, apart);
        assert!(indexes.len() >= 3, "{indexes:?}");
        assert_eq!(u32::try_from(indexes.len()).unwrap(), seen.actions);
        assert_eq!(r.fake.performed.load(Relaxed), seen.actions);
        r.f.clock.advance(SESSION_IDLE_MAX);
        let mut closing = tokio::task::JoinSet::new();
        for n in 0..8 {
            let r = r.clone();
            closing.spawn(async move {
                match n % 4 {
                    0 => r.market.do_due_jobs().await.map(|_| false),
                    1 => r.close(id, Some("enough")).await.map(|_| true),
                    _ => r.close(id, None).await.map(|_| true),
                }
            });
        }
        for said in closing.join_all().await {
            assert!(said.is_ok() || is_over(said));
        }
        let closed = r.see(id).await;
        assert_eq!(closed.cost_minor, seen.cost_minor);
        assert_eq!(r.fees().await, seen.cost_minor.minor());
        let kinds = r.f.kinds().await;
        assert_eq!(kinds.iter().filter(|kind| *kind == "session.closed").count(), 1);
        r.f.audit_is_clean().await;
    }

    async fn sessions_may_be_free(f: Fixture) {
        let r = Room::new(f).await;
        let prices = Prices { billable: Amount::ZERO, ..Prices::default() };
        let conduit = Conduit { prices, sessions_max: 1 };
        let r = Room { market: r.market.clone().with_conduit(conduit), ..r };
        // Even somebody without a wallet may look.
        let request = OpenSession { max_cost_minor: None, purpose: Some("look".to_owned()) };
        let opened = r.market.session_open(&r.ben.signed("open"), request).await.unwrap().value;
        let id = opened.session_id;
        let empty = r.market.session_close(&r.ben.signed("c0"), id, CloseSession::default()).await;
        assert_eq!(reason(empty), SessionRefusal::Rule { reason: session::Refusal::NothingDone });
        r.market.session_act(&r.ben.signed("a"), id, go(1)).await.unwrap();
        let closed = r.market.session_close(&r.ben.signed("c"), id, CloseSession::default()).await;
        assert_eq!(closed.unwrap().value.status, SessionStatus::Completed);
        assert_eq!(r.fees().await, 0);
        r.f.audit_is_clean().await;
    }
}
