//! Section 10: a record that moves from one platform to another.

use serde_json::{Value, json};
use skep_base::{AgentId, Timestamp, ed25519::SecretKey};
use skep_score::{
    Track,
    atep::{self, Holder},
    import::{self, Applicant, HAIRCUT, PROBATION_SESSIONS, Refusal},
    money::FULL_E4,
    parameters::Parameters,
    publish,
    verify::{self, Source},
};
use skep_wire::{
    score::{
        BenchmarkState, BenchmarkStatus, BenchmarkTier, ImportRequest, Phase, Publication,
        TrustedIssuer,
    },
    settle::Tier,
};

use crate::world::{DAY, World, agent, agent_key, around, time};

pub fn export(world: &World) -> ImportRequest {
    let publication = world.publication(false);
    let key = agent_key().public();
    let holder = Holder {
        agent: &agent(),
        track: &world.track,
        breadth: &world.breadth,
        base: &world.base(),
        key: Some((&key, time(0))),
        publication: Some(&publication),
        history: &[],
        now: world.now,
    };
    let passport = atep::passport(&holder, &world.house.platform()).sign(&world.house.issuer);
    ImportRequest {
        source_publication: serde_json::to_value(publication).unwrap(),
        source_passport: serde_json::to_value(passport.unwrap()).unwrap(),
    }
}

pub fn trusted(world: &World) -> TrustedIssuer {
    TrustedIssuer {
        platform: world.house.platform.to_owned(),
        platform_url: world.house.url.to_owned(),
        key_url: format!("{}/.well-known/swarmscore-keys", world.house.url),
        keys: None,
        import_haircut: HAIRCUT,
        probation_sessions: PROBATION_SESSIONS,
        trusted_since: time(0),
        verification_method: "cryptographic_proof_chain".to_owned(),
        statement: "sessions are recorded by a gateway of its own".to_owned(),
    }
}

fn check(world: &World, request: &ImportRequest, now: Timestamp) -> Result<(), Refusal> {
    check_as(world, request, agent(), &agent_key(), now)
}

fn check_as(
    world: &World,
    request: &ImportRequest,
    agent: AgentId,
    key: &SecretKey,
    now: Timestamp,
) -> Result<(), Refusal> {
    let key = key.public();
    let applicant = Applicant { agent: &agent, key: &key, here: "two.example:8402" };
    import::check(request, &world.house.keys(), &applicant, now)
}

#[test]
fn an_export_is_taken_once_and_only_by_its_agent() {
    let source = World::standard(1);
    let request = export(&source);
    assert_eq!(request.source_publication.get("with_imports"), None);
    let now = source.now;
    check(&source, &request, now).unwrap();
    let stranger = SecretKey::from_seed([9; 32]);
    // The same key under another id is the same agent; neither is not.
    check_as(&source, &request, AgentId([0x22; 20]), &agent_key(), now).unwrap();
    let other = check_as(&source, &request, AgentId([0x22; 20]), &stranger, now);
    assert_eq!(other, Err(Refusal::OtherAgent));

    let mut track = Track::default();
    let read = import::read(&request).unwrap();
    let answer = import::accept(&read, &trusted(&source), &mut track, now).unwrap();
    assert!(answer.accepted && !answer.probation.unwrap().over);
    assert_eq!((answer.phase, answer.imported.conduit_sessions), (Phase::Verified, 80));
    let again = import::accept(&read, &trusted(&source), &mut track, now);
    assert_eq!(again, Err(Refusal::Repeated));
    // An export from before that one is no news.
    let mut older = read.clone();
    older.digest.0[0] ^= 1;
    older.computed_at = Timestamp::from_ms(read.computed_at.as_ms() - 1);
    let older = import::accept(&older, &trusted(&source), &mut track, now);
    assert_eq!(older, Err(Refusal::Older));
    let mut shown = Track::default();
    import::note(&read, &mut shown).unwrap();
    assert_eq!(import::note(&read, &mut shown), Err(Refusal::Repeated));
    let informal = import::informal(&read, true, &shown, now);
    assert!(!informal.accepted && informal.source_tier == Tier::Verified);
    assert_eq!((informal.phase, shown.informal.len()), (Phase::Unverified, 1));
    // An agreement takes the place of what was only shown.
    import::accept(&read, &trusted(&source), &mut shown, now).unwrap();
    assert!(shown.informal.is_empty());
}

#[test]
fn keys_are_asked_for_at_the_platforms_own_host_only() {
    let mut read = import::read(&export(&World::standard(1))).unwrap();
    let keys = Some("https://one.example/.well-known/swarmscore-keys".to_owned());
    assert_eq!(import::own_key_url(&read), keys);
    for url in [
        "https://one.example/a",
        "https://two.example",
        "https://u@one.example",
        "https://one.example:81",
        "file://one.example",
        "one.example",
    ] {
        read.platform_url = url.to_owned();
        assert_eq!(import::own_key_url(&read), None, "{url}");
    }
}

#[test]
fn forged_expired_and_foreign_exports_are_refused() {
    let source = World::standard(1);
    let request = export(&source);
    let failed = |request: &ImportRequest, now| match check(&source, request, now) {
        Err(Refusal::BadPublication { failed }) => failed[0].check.clone(),
        other => panic!("{other:?}"),
    };
    let mut forged = request.clone();
    forged.source_publication["dimensions"]["technical_execution"]["conduit_sessions_90d"] =
        json!(81);
    assert_eq!(failed(&forged, source.now), "signature");
    let expired = Timestamp::from_ms(source.now.as_ms() + DAY);
    assert_eq!(failed(&request, expired), "expired");
    // Signed again by another key, under the same name.
    let thief = World::standard(2);
    let mut resigned = request.clone();
    thief.resign(&mut resigned.source_publication);
    assert_eq!(failed(&resigned, source.now), "signature");
    // A sum that does not follow, signed by the issuer itself.
    let mut wrong = request.clone();
    wrong.source_publication["score"]["value"] = json!(999);
    source.resign(&mut wrong.source_publication);
    assert_eq!(failed(&wrong, source.now), "score.value");

    let change = |pointer: &str, value: Value, sign: bool| {
        let mut changed = request.clone();
        *changed.source_passport.pointer_mut(pointer).unwrap() = value;
        if sign {
            source.resign(&mut changed.source_passport);
        }
        check(&source, &changed, source.now)
    };
    let tier = "/trust_tier/current";
    assert_eq!(change(tier, json!("TRUSTED"), false), Err(Refusal::BadPassport));
    let code = |pointer: &str, value: Value| change(pointer, value, true).unwrap_err().code();
    assert_eq!(code("/passport_id", json!("other")), "import_other_passport");
    assert_eq!(code("/issuer/platform", json!("other")), "import_other_passport");
    let young = json!(Timestamp::from_ms(source.now.as_ms() - 30 * DAY + 1));
    let first = "/statistics/first_session_at";
    assert_eq!(change(first, young, true), Err(Refusal::TooYoung));
    let old = json!(Timestamp::from_ms(source.now.as_ms() - 30 * DAY));
    assert_eq!(change(first, old, true), Ok(()));
    // A platform does not take back what it exported.
    let own = World::standard(2);
    assert_eq!(check(&own, &export(&own), own.now), Err(Refusal::OwnExport));
    for id in ["", "a b", "a\u{0}b", &"a".repeat(129)] {
        let mut unnamed = request.clone();
        unnamed.source_publication["agent_passport_id"] = json!(id);
        assert_eq!(import::read(&unnamed).unwrap_err().code(), "import_unreadable", "{id:?}");
    }
    let rubbish = ImportRequest { source_publication: json!(1), source_passport: json!({"a": []}) };
    assert_eq!(check(&source, &rubbish, source.now).unwrap_err().code(), "import_unreadable");
}

#[test]
fn a_passport_comes_with_its_own_publication() {
    let mut source = World::standard(1);
    let request = export(&source);
    let passport = |change: &dyn Fn(&mut Value)| {
        let mut changed = request.clone();
        change(&mut changed.source_passport);
        source.resign(&mut changed.source_passport);
        check(&source, &changed, source.now)
    };
    let other = |what| Err(Refusal::OtherPassport { what });
    // Up to a day lies between them, either way.
    let issued = |ms: i64| {
        let at = Timestamp::from_ms(source.now.as_ms() + ms);
        passport(&|passport| passport["issuer"]["issued_at"] = json!(at))
    };
    assert_eq!((issued(DAY), issued(-DAY)), (Ok(()), Ok(())));
    let apart = other("more than a day lies between them");
    assert_eq!((issued(DAY + 1), issued(-DAY - 1)), (apart.clone(), apart));
    let tier = passport(&|passport| passport["trust_tier"]["current"] = json!("TRUSTED"));
    assert_eq!(tier, other("they say different tiers"));
    // Decision 40: an extension may be absent, and is the same document otherwise.
    let carried =
        |value: Value| passport(&|passport| passport["extensions"]["swarmscore"] = value.clone());
    assert_eq!(carried(json!(null)), Ok(()));
    assert_eq!(passport(&|passport| passport["extensions"] = json!({})), Ok(()));
    let mut changed = request.source_publication.clone();
    changed["score_gap"] = json!(7);
    let another = other("the passport carries another publication");
    assert_eq!((carried(changed), carried(json!("none"))), (another.clone(), another));
    // A passport of some weeks ago, which its issuer has signed as well.
    source.now = Timestamp::from_ms(source.now.as_ms() + 20 * DAY);
    let mut newer = export(&source);
    newer.source_passport = request.source_passport;
    assert_eq!(check(&source, &newer, source.now), other("more than a day lies between them"));
}

#[test]
fn whom_its_platform_has_found_to_cheat_does_not_leave_by_an_export() {
    let source = World::standard(1);
    let said = |change: &dyn Fn(&mut Publication)| {
        let mut publication = source.publication(false);
        change(&mut publication);
        let publication = publish::derive(&publication).sign(&source.house.issuer).unwrap();
        let mut request = export(&source);
        request.source_publication = serde_json::to_value(publication).unwrap();
        request.source_passport["extensions"]["swarmscore"] = request.source_publication.clone();
        source.resign(&mut request.source_passport);
        check(&source, &request, source.now)
    };
    assert_eq!(said(&|_| {}), Ok(()));
    let revoked = said(&|publication| {
        publication.benchmark = BenchmarkState {
            status: BenchmarkStatus::Revoked,
            tier: BenchmarkTier::None,
            continuous_since: None,
            ..publication.benchmark.clone()
        };
    });
    assert_eq!(revoked, Err(Refusal::Revoked));
    let under_review = said(&|publication| publication.gates.operator_under_review = true);
    assert_eq!(under_review, Err(Refusal::Revoked));
    let disputed = said(&|publication| publication.gates.disputed_sessions_active = 2);
    assert_eq!(disputed, Err(Refusal::Disputed { open: 2 }));
}

#[test]
fn keys_are_taken_over_tls_or_from_this_machine_for_tests() {
    let (other, here) = ("http://one.example/keys", "http://127.0.0.1:4020/keys");
    assert!(import::is_key_url("https://one.example/keys", false));
    for url in [here, "http://localhost/keys", "http://[::1]/keys", "http://[::1]:80/keys"] {
        assert!(import::is_key_url(url, true) && !import::is_key_url(url, false), "{url}");
    }
    for url in [other, "http://127.0.0.1.example/", "http://127.0.0.1@one.example/", "file://[::1]"]
    {
        assert!(!import::is_key_url(url, true) && !import::is_key_url(url, false), "{url}");
    }
    let mut entry = trusted(&World::new(1));
    assert_eq!(import::check_issuer(&entry, false), Ok(()));
    entry.key_url = other.to_owned();
    assert!(import::check_issuer(&entry, true).unwrap_err().contains("https"));
    // Nothing is fetched where the keys were given.
    entry.keys = Some(World::new(1).house.keys());
    assert_eq!(import::check_issuer(&entry, false), Ok(()));
}

#[test]
fn what_was_imported_counts_by_halves_after_probation_and_ends() {
    let mut source = World::standard(1);
    // 161 and 61: odd numbers leave halves.
    for _ in 0..81 {
        source.session(true);
    }
    for i in 0..21 {
        source.settlement(true, crate::world::buyer(i % 8));
    }
    let mut world = World::new(2);
    world.now = source.now;
    let read = import::read(&export(&source)).unwrap();
    import::accept(&read, &trusted(&source), &mut world.track, world.now).unwrap();
    let publication = world.publication(true);
    let with = publication.with_imports.clone().unwrap();
    assert_eq!((with.conduit_sessions_90d, with.ap2_sessions_90d), (80.5, 30.5));
    assert_eq!((with.atep_tier, publication.phase), (Tier::Verified, Phase::Verified));
    assert_eq!((publication.score.value, publication.gates.atep_tier), (0, Tier::Unverified));
    assert_eq!(publication.escrow.effective_modifier.e4(), FULL_E4);
    assert!(world.track.is_published(world.now));
    assert!(world.publication(false).with_imports.is_none());

    let state = |world: &World| {
        let (base, parameters) = (world.base(), Parameters::SPEC);
        let around = around(world.now, &base, &parameters);
        let modifiers = world.track.modifiers(&around);
        let keys = world.house.keys();
        let source = Source { keys: &keys, host: None };
        let answer = verify::publication(&world.value(), Some(&source), world.now);
        assert_eq!(answer.failed_checks, []);
        let said = world.publication(true);
        assert_eq!(said.escrow.effective_modifier.e4(), modifiers.effective_e4);
        let with = said.with_imports.unwrap();
        (with.probation.sessions_needed, with.probation.over, said.score.value, with.score)
    };
    for _ in 0..14 {
        world.session(true);
    }
    // 4 points for each session that succeeded, 12 for each escrow: 92.5 and 29.5 of them.
    assert_eq!(state(&world), (15, false, 56, 370 + 354));
    world.session(true);
    let (needed, over, ..) = state(&world);
    assert_eq!((needed, over), (30, false));
    for i in 0..14 {
        world.settlement(true, crate::world::buyer(i % 5));
    }
    let (needed, over, local, _) = state(&world);
    assert_eq!((needed, over), (30, false));
    assert_eq!(world.track.held(), BenchmarkTier::None);
    world.settlement(true, agent());
    let (needed, over, _, with) = state(&world);
    assert_eq!((needed, over), (30, true));
    // Now the sum of both is enough, and the local score alone would not be.
    assert!(with >= 700 && local < 700, "{with} {local}");
    assert_eq!(world.track.held(), BenchmarkTier::Standard);

    // 90 days after it was computed nothing is left of it.
    world.now = Timestamp::from_ms(read.computed_at.as_ms() + 90 * DAY);
    world.session(true);
    assert!(world.publication(true).with_imports.is_none());
    assert_eq!(world.track.held(), BenchmarkTier::None);
}
