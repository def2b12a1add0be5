//! Scores and passports over HTTP, of an agent that has done nothing yet.

use serde_json::{Value, json};
use skep_base::{AgentId, Hash32};
use skep_score::{Track, publish::passport_id, vc};
use skep_store::{
    Bug, Call, Decision, Load, Lock, RecordKey, RouteKey, ScoreFact, ScoreTotals, Turn, WantedFacts,
};
use skep_wire::{
    score::{
        HEADER_EFFECTIVE_MODIFIER, HEADER_MODIFIER, HEADER_SCORE, HEADER_TIER, ImportRequest,
        KeyPurpose, VerifyLevel, VerifyRequest,
    },
    settle::Tier,
};

use crate::world::{Node, Request, config};

fn path(agent: &impl ToString) -> String {
    format!("/v1/swarmscore/{}", agent.to_string())
}

#[tokio::test]
async fn a_newcomers_score_is_its_own() {
    let node = Node::start(config()).await;
    let (ada, bob) = (node.register(1).await, node.register(2).await);
    let address = ada.wallet.address();
    let stranger = node.send(&Request::get(&path(&address))).await;
    assert_eq!((stranger.status, stranger.code().as_str()), (404, "score_not_published"));
    let other = node.send(&Request::get(&path(&address)).signed(&node, &bob)).await;
    assert_eq!(other.code(), "score_not_published");
    let own = node.send(&Request::get(&path(&address)).signed(&node, &ada)).await;
    assert_eq!((own.status, own.json()["score"]["value"].clone()), (200, json!(0)));
    assert_eq!(own.header(HEADER_SCORE), "", "nothing is published");
    let by_passport = node.send(&Request::get(&path(&passport_id(&address)))).await;
    assert_eq!(by_passport.code(), "score_not_published");
    for (name, code) in [
        ("0x0000000000000000000000000000000000000007", "unknown_agent"),
        ("00000000-0000-8000-8000-000000000000", "unknown_agent"),
        ("ada", "malformed_id"),
    ] {
        assert_eq!(node.send(&Request::get(&path(&name))).await.code(), code, "{name}");
    }
    let certificate = format!("/conduit/agents/{address}/benchmark-certificate");
    assert_eq!(node.send(&Request::get(&certificate)).await.code(), "score_not_published");
    let few = format!("{certificate}?settlements=9");
    assert_eq!(node.send(&Request::get(&few)).await.code(), "malformed_query");

    let client = node.client(&ada);
    let view = client.score(&address.to_string()).await.unwrap();
    assert!(!view.published && view.benchmark_history.is_empty());
    assert_eq!(view.publication.signal, "New agent — no track record yet");
    assert_eq!(client.benchmark_history(&address.to_string(), Some(9)).await.unwrap(), []);
    let bobs = node.client(&bob).score(&address.to_string()).await.unwrap_err();
    assert_eq!(bobs.code(), "score_not_published");
}

/// Writes a track record as so many good settlements would have left it.
async fn pretend(node: &Node, agent: AgentId, settlements: i64) {
    let tier = if settlements < 10 { Tier::Unverified } else { Tier::Basic };
    let key = RecordKey { route: RouteKey::of(agent), kind: "score", id: agent.to_string() };
    let load = Load {
        records: vec![(key.clone(), Lock::Exclusive)],
        facts: vec![WantedFacts::of(&agent, Lock::Exclusive)],
        ..Load::default()
    };
    let step = move |turn: &mut Turn| {
        let track = Track { tier, ..Track::default() };
        turn.put(&key, &track.into_stored())?;
        turn.add_fact(ScoreFact {
            agent,
            at: turn.now(),
            n: 1,
            dimension: "ap2".to_owned(),
            source: "made up".to_owned(),
            ok: true,
            released_cents: 0,
            counterparty: None,
            proof: None,
            chain: Hash32::ZERO,
            totals: ScoreTotals { ap2: settlements, ap2_ok: settlements, ..ScoreTotals::default() },
        })?;
        Ok::<_, Bug>(Decision::Commit("null".to_owned()))
    };
    let call = Call { load, guards: vec![], step: Box::new(step) };
    node.market.store().call(call).await.unwrap();
}

#[tokio::test]
async fn whatever_tells_of_an_agent_has_its_score_in_the_headers() {
    let node = Node::start(config()).await;
    let (ada, bob) = (node.register(1).await, node.register(2).await);
    let (ada, bob) = (ada.wallet.address(), bob.wallet.address());
    pretend(&node, ada, 10).await;
    pretend(&node, bob, 9).await;
    let names = [HEADER_SCORE, HEADER_TIER, HEADER_MODIFIER, HEADER_EFFECTIVE_MODIFIER];
    for about in [
        "/v1/agents/{}",
        "/v1/agents/{}/receipts",
        "/v1/agents/{}/listings",
        "/v1/swarmscore/{}",
        "/agents/{}/passport/public",
    ] {
        let told = async |agent: AgentId| {
            let target = about.replace("{}", &agent.to_string());
            let answer = node.send(&Request::get(&target)).await;
            (answer.status, names.map(|name| answer.header(name).to_owned()))
        };
        // Ten of fifty settlements, all of them good: 120 points.
        let (status, said) = told(ada).await;
        let expected = ["120", "NONE", "0.904", "0.904"].map(str::to_owned);
        assert_eq!((status, said), (200, expected), "{about}");
        let (_, said) = told(bob).await;
        assert_eq!(said, names.map(|_| String::new()), "{about}: nine are too few");
    }
}

#[tokio::test]
async fn passports_are_signed_in_both_forms() {
    let node = Node::start(config()).await;
    let (ada, bob) = (node.register(1).await, node.register(2).await);
    let address = ada.wallet.address().to_string();
    let client = node.client(&ada);
    let keys = client.score_keys().await.unwrap();
    let full = client.passport(&address).await.unwrap();
    let key = keys.find(&full.issuer.kid, KeyPurpose::Publication).unwrap().public_key().unwrap();
    let signature = full.issuer.signature.unwrap();
    let value = serde_json::to_value(&full).unwrap();
    key.verify(&skep_score::verify::signed_bytes(&value).unwrap(), &signature).unwrap();
    assert!(full.identity.public_key.unwrap().contains("BEGIN PUBLIC KEY"));
    assert_eq!(node.client(&bob).passport(&address).await.unwrap_err().code(), "not_yours");

    let by_passport = client.public_passport(&full.passport_id).await.unwrap();
    assert_eq!(by_passport.passport_id, full.passport_id);
    assert!(by_passport.extensions.swarmscore.is_none(), "too new");
    let shown = serde_json::to_value(&by_passport).unwrap();
    assert!(shown.get("identity").is_none() && shown.get("agent_id").is_none());
    let credential = client.passport_credential(&address).await.unwrap();
    vc::check(&credential, &key).unwrap();
    let mut forged = credential;
    forged["credentialSubject"]["passport"]["statistics"]["total_sessions"] = json!(999);
    vc::check(&forged, &key).unwrap_err();
    let odd = format!("/agents/{address}/passport/public?format=pdf");
    assert_eq!(node.send(&Request::get(&odd)).await.code(), "malformed_query");
}

#[tokio::test]
async fn publications_are_checked_level_by_level() {
    let node = Node::start(config()).await;
    let ada = node.register(1).await;
    let address = ada.wallet.address().to_string();
    let client = node.client(&ada);
    let publication = client.publication(&address).await.unwrap();
    let check = async |publication: &Value, certificate| {
        let request = VerifyRequest { publication: publication.clone(), certificate };
        client.verify_score(&request).await.unwrap()
    };
    let good = check(&publication, None).await;
    assert_eq!((good.verified, good.level), (true, Some(VerifyLevel::L2)), "{good:?}");
    let certificate = client.certificate(&address, None).await.unwrap();
    assert_eq!(certificate.publication, publication, "the same document for everybody");
    let whole = check(&publication, Some(certificate)).await;
    assert_eq!((whole.verified, whole.level), (true, Some(VerifyLevel::L3)), "{whole:?}");
    let mut changed = publication.clone();
    changed["score"]["value"] = json!(1);
    let bad = check(&changed, None).await;
    assert!(!bad.verified && !bad.signature_valid && !bad.matches, "{bad:?}");
    let foreign = publication["issuer"]["platform"].clone();
    changed["issuer"]["platform"] = json!(format!("not.{}", foreign.as_str().unwrap()));
    let unknown = check(&changed, None).await;
    assert!(unknown.failed_checks.iter().any(|failed| failed.check == "keys"), "{unknown:?}");
    let junk = check(&json!([]), None).await;
    assert_eq!(junk.level, None);
}

#[tokio::test]
async fn records_travel_only_where_they_may() {
    let node = Node::start(config()).await;
    let (ada, bob) = (node.register(1).await, node.register(2).await);
    let address = ada.wallet.address().to_string();
    let client = node.client(&ada);
    let export = client.export_score(&address).await.unwrap();
    assert_eq!(node.client(&bob).export_score(&address).await.unwrap_err().code(), "not_yours");
    assert!(export.publication.get("with_imports").is_none());
    let own = client.import_score(&ImportRequest::from(export.clone())).await.unwrap_err();
    assert_eq!(own.code(), "import_own_export");
    // Without an agreement nothing counts, and nobody is asked for keys.
    let mut foreign = ImportRequest::from(export);
    foreign.source_publication["issuer"]["platform"] = json!("elsewhere.example");
    let answer = client.import_score(&foreign).await.unwrap().value;
    assert!(!answer.accepted && answer.imported == Default::default(), "{answer:?}");
    let junk = ImportRequest { source_publication: json!({}), source_passport: json!({}) };
    assert_eq!(client.import_score(&junk).await.unwrap_err().code(), "import_unreadable");
    assert!(client.trust_registry().await.unwrap().trusted_issuers.is_empty());
    let profile = client.score_profile().await.unwrap();
    assert_eq!(profile.badges.len(), 2);
}
