//! Records from elsewhere: whose they are, and by which keys they are believed.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use skep_base::ed25519::PublicKey;
use skep_market::{
    AdminRefusal, Answered, Challenge, Egress, EgressFailure, Failure, ImportWord, Market, Refusal,
    ScoreRefusal, Sending,
};
use skep_score::{
    Breadth, Fact, NumberedFact,
    atep::{self, Holder},
    parameters::Parameters,
    publish::{self, Platform, Record},
    track::Around,
};
use skep_store::track_key;
use skep_wire::{
    admin::{AdminAct, AdminRequest},
    score::{
        Dimension, Fraction, ImportAnswer, ImportRequest, IssuerKey, KeyPurpose, KeySet, Phase,
        TrustedIssuer, VerifyRequest,
    },
};

use super::*;

type Brought = Result<Answered<ImportAnswer>, Failure>;

/// An agent's record on another platform.
struct Elsewhere {
    agent: AgentId,
    key: PublicKey,
    url: &'static str,
    since: Timestamp,
}

fn issuer() -> SecretKey {
    SecretKey::from_seed([44; 32])
}

fn keys() -> KeySet {
    let valid = (Timestamp::from_ms(0), Timestamp::from_ms(i64::from(u32::MAX) * 1000));
    let key = IssuerKey::ed25519("score-1", &issuer().public(), KeyPurpose::Publication, valid);
    KeySet { keys: vec![key] }
}

impl Elsewhere {
    /// The person's record, begun forty days ago under its address and its first key.
    fn of(who: &Person, now: Timestamp) -> Elsewhere {
        let since = now.minus(40 * DAY);
        Elsewhere { agent: who.id(), key: who.key.public(), url: "https://one.example", since }
    }

    fn platform(&self) -> &'static str {
        self.url.split_once("://").unwrap().1
    }

    fn export(&self, now: Timestamp) -> ImportRequest {
        let (mut track, mut facts) = (Track::default(), Vec::new());
        for n in 0..60 {
            let mut fact = Fact {
                dimension: Dimension::Ap2,
                source: format!("deal {n}"),
                ok: true,
                released_cents: 100,
                counterparty: Some(AgentId([n; 20])),
                proof: None,
                at: self.since,
            };
            facts.push(NumberedFact { n: track.count(&self.agent, &mut fact), fact });
        }
        track.tier = Tier::Verified;
        let (base, breadth) = (Totals::default(), Breadth::default());
        let parameters = &Parameters::SPEC;
        let around = Around { now, base: &base, has_key: true, cooldown: false, parameters };
        let by = Platform { platform: self.platform(), platform_url: self.url, kid: "score-1" };
        let record = Record {
            agent: &self.agent,
            track: &track,
            around: &around,
            chain_before: Hash32::ZERO,
            facts: &facts,
            breadth: &breadth,
            with_imports: false,
        };
        let publication = publish::publication(&record, &by).sign(&issuer()).unwrap();
        let holder = Holder {
            agent: &self.agent,
            track: &track,
            breadth: &breadth,
            base: &base,
            key: Some((&self.key, self.since)),
            publication: Some(&publication),
            history: &[],
            now,
        };
        let passport = atep::passport(&holder, &by).sign(&issuer()).unwrap();
        ImportRequest {
            source_publication: serde_json::to_value(&publication).unwrap(),
            source_passport: serde_json::to_value(passport).unwrap(),
        }
    }

    fn entry(&self, keys: Option<KeySet>) -> TrustedIssuer {
        TrustedIssuer {
            platform: self.platform().to_owned(),
            platform_url: self.url.to_owned(),
            key_url: format!("{}/.well-known/swarmscore-keys", self.url),
            keys,
            import_haircut: Fraction::from_e4(5_000),
            probation_sessions: 15,
            trusted_since: self.since,
            verification_method: "cryptographic_proof_chain".to_owned(),
            statement: "we looked".to_owned(),
        }
    }
}

/// Gives the issuer's keys wherever it is asked, and counts how often.
#[derive(Debug, Default)]
struct Host(AtomicUsize);

impl Host {
    fn asked(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Egress for Host {
    fn post(&self, _: String, _: Vec<(String, String)>, _: Vec<u8>) -> Sending<'_, u16> {
        let (code, detail) = ("unreachable".to_owned(), String::new());
        Box::pin(async { Err(EgressFailure { code, detail }) })
    }

    fn get_here(&self, _: String, _: usize) -> Sending<'_, Vec<u8>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Ok(serde_json::to_vec(&keys()).unwrap()) })
    }

    fn get(&self, url: String, body_max: usize) -> Sending<'_, Vec<u8>> {
        self.get_here(url, body_max)
    }
}

/// The address of one person, and the first key of the same person under another address: both
/// could say that they are who the record names.
async fn split(f: &Fixture, number: u8) -> (Person, Person, Elsewhere) {
    let there = Person::new(number);
    let record = Elsewhere::of(&there, f.now());
    let other_key = there.other_key(2);
    let by_key = Person::new(number + 1).with_key(Person::new(number).key);
    let by_id = there.with_key(other_key);
    for person in [&by_id, &by_key] {
        f.register(person).await;
    }
    (by_id, by_key, record)
}

async fn bring(market: &Market, who: &Person, export: &ImportRequest) -> Brought {
    let body = export.source_publication.to_string();
    market.import_score(&who.signed(&body), export.clone()).await
}

impl World {
    /// Track records of 220 agents, most of them with addresses before all others.
    async fn fill_track_records(&self) {
        let agents: Vec<AgentId> = (0..220)
            .map(|n| {
                let mut address = [if n < 210 { 0 } else { 0xff }; 20];
                address[19] = n;
                AgentId(address)
            })
            .collect();
        let facts = agents.iter().map(|agent| WantedFacts::of(agent, Lock::Exclusive)).collect();
        let load = Load { facts, ..Load::default() };
        let keys: Vec<_> = agents.iter().map(track_key).collect();
        let step = move |turn: &mut Turn| {
            for key in &keys {
                turn.put(key, &Track::default().into_stored())?;
            }
            Ok::<_, Bug>(Decision::Commit("null".to_owned()))
        };
        let call = Call { load, guards: vec![], step: Box::new(step) };
        self.market().store().call(call).await.unwrap();
    }
}

/// Gives the issuer's keys, and ends the agreement with it while it is asked.
#[derive(Debug)]
struct Dropper {
    market: Market,
    platform: &'static str,
}

impl Egress for Dropper {
    fn post(&self, _: String, _: Vec<(String, String)>, _: Vec<u8>) -> Sending<'_, u16> {
        let (code, detail) = ("unreachable".to_owned(), String::new());
        Box::pin(async { Err(EgressFailure { code, detail }) })
    }

    fn get_here(&self, _: String, _: usize) -> Sending<'_, Vec<u8>> {
        Box::pin(async {
            drop_issuer(&self.market, self.platform).await.unwrap();
            Ok(serde_json::to_vec(&keys()).unwrap())
        })
    }

    fn get(&self, url: String, body_max: usize) -> Sending<'_, Vec<u8>> {
        self.get_here(url, body_max)
    }
}

async fn drop_issuer(market: &Market, platform: &str) -> Result<(), Failure> {
    let act = AdminAct::DropIssuer { platform: platform.to_owned() };
    market.admin(AdminRequest { act, reason: "a test".to_owned() }).await.map(drop)
}

async fn trust(market: &Market, issuer: TrustedIssuer) -> Result<(), Failure> {
    let act = AdminAct::TrustIssuer { issuer };
    market.admin(AdminRequest { act, reason: "a test".to_owned() }).await.map(drop)
}

fn word(result: Brought) -> ImportWord {
    match refusal(result) {
        Refusal::Score { reason: ScoreRefusal::Import { word, .. } } => word,
        other => panic!("{other:?}"),
    }
}

on_both_engines! {
    async fn one_record_is_brought_by_one_agent(f: Fixture) {
        let w = World::new(f).await;
        let (ada, eve, record) = split(&w.f, 21).await;
        trust(w.market(), record.entry(Some(keys()))).await.unwrap();
        let first = record.export(w.f.now());
        w.f.tick();
        let (second, market) = (record.export(w.f.now()), w.market());
        assert!(bring(market, &ada, &first).await.unwrap().value.accepted);
        // Whatever export it is: the one that was brought, and one that nobody has seen.
        for export in [&first, &second] {
            assert_eq!(word(bring(market, &eve, export).await), ImportWord::Taken);
        }
        assert_eq!(market.track_record(&eve.id()).await.unwrap().0, Track::default());
        assert_eq!(word(bring(market, &ada, &first).await), ImportWord::Repeated);
        assert!(bring(market, &ada, &second).await.unwrap().value.accepted, "newer ones are fine");

        // Both at the same time, by exports of their own.
        let (bea, mel, record) = split(&w.f, 31).await;
        let exports = [record.export(w.f.now()), record.export(w.f.now().plus(MS))];
        let (by_id, by_key) =
            tokio::join!(bring(market, &bea, &exports[0]), bring(market, &mel, &exports[1]));
        let (taken, other) = if by_id.is_ok() { (by_id, by_key) } else { (by_key, by_id) };
        assert!(taken.unwrap().value.accepted);
        assert_eq!(word(other), ImportWord::Taken);
        w.scores_are_what_the_log_says().await;
    }

    async fn what_was_brought_ends_with_the_trust(f: Fixture) {
        let w = World::new(f).await;
        let (ada, eve, record) = split(&w.f, 21).await;
        let mut other = Elsewhere::of(&eve, w.f.now());
        other.url = "https://two.example";
        for of in [&record, &other] {
            trust(w.market(), of.entry(Some(keys()))).await.unwrap();
        }
        let first = record.export(w.f.now());
        bring(w.market(), &ada, &first).await.unwrap();
        bring(w.market(), &eve, &other.export(w.f.now())).await.unwrap();
        let lives = async |who: &Person| {
            let (track, _) = w.market().track_record(&who.id()).await.unwrap();
            track.live_import(w.f.now()).is_some()
        };
        // Another haircut is no distrust.
        w.f.tick();
        let changed = TrustedIssuer { probation_sessions: 30, ..record.entry(Some(keys())) };
        trust(w.market(), changed).await.unwrap();
        w.run_timers().await;
        assert!(lives(&ada).await);
        drop_issuer(w.market(), record.platform()).await.unwrap();
        // Dropped is dropped, however soon it is trusted again; what is brought since is good.
        w.f.tick();
        trust(w.market(), record.entry(Some(keys()))).await.unwrap();
        w.run_timers().await;
        assert_eq!((lives(&ada).await, lives(&eve).await), (false, true));
        assert_eq!(word(bring(w.market(), &ada, &first).await), ImportWord::Repeated);
        w.f.tick();
        drop_issuer(w.market(), record.platform()).await.unwrap();
        w.f.tick();
        trust(w.market(), record.entry(Some(keys()))).await.unwrap();
        bring(w.market(), &ada, &record.export(w.f.now())).await.unwrap();
        w.run_timers().await;
        assert!(lives(&ada).await, "it was brought after the drop");
        w.scores_are_what_the_log_says().await;
        let ended = w.f.kinds().await.into_iter().filter(|kind| kind == "score.import_ended");
        assert_eq!(ended.count(), 1);

        // More agents than anybody looks at in one go, with addresses before and after these.
        w.fill_track_records().await;
        w.f.tick();
        for of in [&record, &other] {
            drop_issuer(w.market(), of.platform()).await.unwrap();
        }
        w.run_timers().await;
        assert_eq!((lives(&ada).await, lives(&eve).await), (false, false));
    }

    async fn nothing_is_taken_from_who_is_dropped_meanwhile(f: Fixture) {
        let mut w = World::new(f).await;
        let (ada, _, record) = split(&w.f, 21).await;
        // The keys are fetched after the agreement was read: it ends just then.
        let plain = w.market().clone();
        let host = Arc::new(Dropper { market: plain.clone(), platform: record.platform() });
        w.f.market = plain.clone().with_egress(host);
        trust(&plain, record.entry(None)).await.unwrap();
        let export = record.export(w.f.now());
        match refusal(bring(w.market(), &ada, &export).await) {
            Refusal::Score { reason: ScoreRefusal::AgreementChanged { platform } } => {
                assert_eq!(platform, record.platform())
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(w.market().track_record(&ada.id()).await.unwrap().0.imported, None);
        // The export is as good as before.
        trust(&plain, record.entry(Some(keys()))).await.unwrap();
        assert!(bring(&plain, &ada, &export).await.unwrap().value.accepted);
        w.scores_are_what_the_log_says().await;
    }

    async fn a_tier_that_is_only_shown_is_one_agents_too(f: Fixture) {
        let mut w = World::new(f).await;
        let host = Arc::new(Host::default());
        w.f.market = w.f.market.clone().with_egress(host.clone());
        let (ada, eve, record) = split(&w.f, 21).await;
        let first = record.export(w.f.now());
        w.f.tick();
        let second = record.export(w.f.now());
        let market = w.market();
        let shown = bring(market, &eve, &first).await.unwrap().value;
        assert_eq!((shown.accepted, shown.noted, host.asked()), (false, true, 1));
        assert_eq!(word(bring(market, &ada, &second).await), ImportWord::Taken);
        // An agreement does not change whose it is.
        trust(market, record.entry(Some(keys()))).await.unwrap();
        assert_eq!(word(bring(market, &ada, &second).await), ImportWord::Taken);
        assert!(bring(market, &eve, &second).await.unwrap().value.accepted);
        w.scores_are_what_the_log_says().await;
    }

    /// 11.3: whoever is known elsewhere need not begin unseen; its points are its own all the same.
    async fn what_was_brought_shows_a_newcomer_to_everybody(f: Fixture) {
        let mut w = World::new(f).await;
        w.f.market = w.market().clone().with_listing_challenge(Challenge::Off);
        w.f.fund(&w.ann, 901, 1_000_000).await;
        let record = Elsewhere::of(&w.ben, w.f.now());
        trust(w.market(), record.entry(Some(keys()))).await.unwrap();
        let settled = |ap2, ap2_ok| Totals { ap2, ap2_ok, ..Totals::default() };
        w.pretend(move |track| track.totals = settled(9, 9)).await;
        let listing = w.ben.lists(w.f.now(), "http://127.0.0.1:9", json!({}));
        w.market().publish_listing(listing.clone()).await.unwrap();
        let found = async || {
            w.run_timers().await;
            let found = w.market().listing(listing.id()).await.unwrap();
            (found.phase, found.score_at_least, found.ranking.score)
        };
        let said = async || {
            let score = w.market().score_view(&w.ben.id(), None).await.unwrap();
            assert!(score.published);
            let over = score.publication.with_imports.map(|with| with.probation.over);
            (score.publication.signal, over)
        };
        let (phase, points, unseen) = found().await;
        assert_eq!((phase, points), (Phase::Unverified, None), "nine deals are nobody's business");
        let brought_at = w.f.now();
        bring(w.market(), &w.ben, &record.export(brought_at)).await.unwrap();
        // 20 points for the first hundred; half of sixty deals came along.
        assert_eq!(found().await, (Phase::Verified, Some(100), unseen + (20 << 42)));
        let ends = "sessions, imported ones included";
        let signal = format!("Established agent — 100.0% success over 39 {ends}");
        assert_eq!(said().await, (signal, Some(false)));

        w.pretend(move |track| track.totals = settled(29, 23)).await;
        w.paid().await;
        assert_eq!(w.track().await.tier, Tier::Basic);
        assert_eq!(found().await, (Phase::Verified, Some(200), unseen + (40 << 42)));
        let signal = format!("Established agent — 90.0% success over 60 {ends}");
        assert_eq!(said().await, (signal, Some(true)));

        w.f.clock.set(brought_at.plus(WINDOW));
        let alone = "Building track record — 30 sessions completed".to_owned();
        assert_eq!(said().await, (alone, None));
        w.f.clock.advance(2 * DAY);
        assert_eq!(found().await.0, Phase::Basic);
    }

    async fn a_replaced_key_ends_and_what_it_signed_stays_good(f: Fixture) {
        let w = World::new(f).await;
        let with = |n| w.market().clone().with_score_key(SecretKey::from_seed([n; 32]));
        let (old, new, beside) = (with(51), with(52), with(52));
        let said = async |market: &Market| {
            let ben = w.ben.id();
            serde_json::to_value(&*market.publication(&ben, Some(&ben)).await.unwrap()).unwrap()
        };
        let failed = async |publication: &Value| {
            let publication = publication.clone();
            let request = VerifyRequest { publication, certificate: None };
            let answer = new.verify_publication(request).await.unwrap();
            answer.failed_checks.into_iter().map(|failed| failed.check).collect::<Vec<_>>()
        };
        old.announce_score_keys().await.unwrap();
        let before = said(&old).await;
        w.f.tick();
        // Nodes on one database share their key: the second changes nothing.
        for node in [&new, &beside, &new] {
            node.announce_score_keys().await.unwrap();
        }
        let told = w.f.kinds().await;
        assert_eq!(told.iter().filter(|kind| *kind == "score.keys_announced").count(), 2);
        let valid = async |node: &Market| {
            let keys = node.score_keys().await.unwrap().keys;
            let of = keys.iter().filter(|key| key.purpose == KeyPurpose::Publication);
            of.map(|key| key.is_valid_at(w.f.now())).collect::<Vec<_>>()
        };
        // Also where the old one is still in use.
        assert_eq!((valid(&new).await, valid(&old).await), (vec![false, true], vec![false, true]));
        assert_eq!(failed(&before).await, Vec::<String>::new());
        w.f.clock.advance(2 * HOUR);
        assert_eq!(failed(&said(&old).await).await, ["key_validity"]);
        assert_eq!(failed(&said(&new).await).await, Vec::<String>::new());
        // Whichever a node starts with last is the one.
        old.announce_score_keys().await.unwrap();
        assert_eq!(valid(&new).await, [true, false]);
        w.f.audit_is_clean().await;
    }
}

#[tokio::test]
async fn keys_come_over_tls_unless_a_test_node_asks_its_own_machine() {
    let w = World::new(Fixture::sqlite().await).await;
    let host = Arc::new(Host::default());
    let dev = w.market().clone().with_egress(host.clone());
    let real = w.f.not_dev().with_egress(host.clone());
    let (_, _, mut record) = split(&w.f, 21).await;
    let ada = Person::new(23);
    w.f.register(&ada).await;
    (record.agent, record.key) = (ada.id(), ada.key.public());
    let bad_issuer = |result: Result<(), Failure>| match refusal(result) {
        Refusal::Admin { reason: AdminRefusal::BadIssuer { what } } => what,
        other => panic!("{other:?}"),
    };
    // Without an agreement a platform's own host is not even asked.
    record.url = "http://one.example";
    let export = record.export(w.f.now());
    for node in [&dev, &real] {
        let answer = bring(node, &ada, &export).await.unwrap().value;
        assert_eq!((answer.noted, host.asked()), (false, 0));
        assert!(bad_issuer(trust(node, record.entry(None)).await).contains("https://"));
    }
    // An entry that a test node may have is of no use to one for real money.
    record.url = "http://127.0.0.1:9";
    assert!(bad_issuer(trust(&real, record.entry(None)).await).contains("https://"));
    trust(&dev, record.entry(None)).await.unwrap();
    let export = record.export(w.f.now());
    match refusal(bring(&real, &ada, &export).await) {
        Refusal::Score { reason: ScoreRefusal::IssuerUnreachable { detail, .. } } => {
            assert!(detail.contains("https"), "{detail}")
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(host.asked(), 0);
    assert!(bring(&dev, &ada, &export).await.unwrap().value.accepted);
    assert_eq!(host.asked(), 1);
}
