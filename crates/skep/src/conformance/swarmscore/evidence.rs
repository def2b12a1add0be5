//! 8.4, 8.5 and 14: what others can check, and the passport.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use skep_market::{Known, check_score};
use skep_score::{
    vc,
    verify::{Source, signed_bytes},
};
use skep_wire::score::{BenchmarkTier, IssuerKey, KeyPurpose, VerifyLevel, VerifyRequest};

use super::{DEALS, SESSIONS, World};

/// Receipts that are asked for.
const SETTLEMENTS: usize = 100;

pub(super) async fn the_endpoint_names_what_was_changed(world: &World) -> Result<String> {
    let ben = world.provider.id().to_string();
    let certificate = world.ann.certificate(&ben, Some(SETTLEMENTS)).await?;
    let publication = certificate.publication.clone();
    let whole = VerifyRequest { publication: publication.clone(), certificate: Some(certificate) };
    let answer = world.ann.verify_score(&whole).await?;
    ensure!(answer.level == Some(VerifyLevel::L3), "{:?}", answer.failed_checks);
    let mut told = Vec::new();
    let rate = "dimensions.commercial_reliability.ap2_rate_90d";
    for (field, value, names) in [
        ("/score/value", json!(999), ["signature", "score.value"]),
        ("/issuer/platform", json!("elsewhere.example"), ["platform_url", "keys"]),
        ("/dimensions/commercial_reliability/ap2_successful_90d", json!(0), ["signature", rate]),
    ] {
        let mut changed = publication.clone();
        *changed.pointer_mut(field).context("a field is missing")? = value;
        let request = VerifyRequest { publication: changed, certificate: None };
        let answer = world.ann.verify_score(&request).await?;
        ensure!(!answer.verified, "{field} was changed, and it verified");
        let failed: Vec<&str> = answer.failed_checks.iter().map(|f| f.check.as_str()).collect();
        ensure!(names.iter().all(|name| failed.contains(name)), "{field}: {failed:?}");
        told.push(names.join(" and "));
    }
    Ok(format!("L3 holds; changed: {}", told.join(", ")))
}

pub(super) async fn a_stranger_checks_the_certificate_offline(world: &World) -> Result<String> {
    let ben = world.provider.id().to_string();
    let certificate = world.ann.certificate(&ben, Some(SETTLEMENTS)).await?;
    let keys = world.ann.score_keys().await?;
    let source = Source { keys: &keys, host: Some(world.home.name()) };
    let at = world.publication().await?.issuer.computed_at;
    let check = |certificate: &skep_wire::score::Certificate| {
        check_score(&certificate.publication, Some(certificate), Known::issuer(&source), at)
    };
    let answer = check(&certificate);
    ensure!(answer.level == Some(VerifyLevel::L3), "{:?}", answer.failed_checks);
    let coverage = answer.coverage.context("no coverage")?;
    ensure!(coverage.facts_shown == (DEALS + SESSIONS) as u64, "{coverage:?}");
    ensure!(coverage.settlements_proven == DEALS as u64, "{coverage:?}");
    let mut changed = certificate.clone();
    let fact = changed.facts.last_mut().context("no facts")?;
    fact.fact.ok = !fact.fact.ok;
    let refused = check(&changed);
    ensure!(!refused.verified, "a changed fact went unseen");
    let mut shortened = certificate;
    shortened.facts.remove(0);
    ensure!(!check(&shortened).verified, "a missing fact went unseen");
    Ok(format!(
        "{} facts, {} receipts, {} session proofs; a changed fact: {}",
        coverage.facts_shown,
        coverage.settlements_proven,
        coverage.sessions_proven,
        refused.failed_checks.first().map_or("", |failed| &failed.check)
    ))
}

pub(super) async fn the_passport_carries_the_benchmark(world: &World) -> Result<String> {
    let ben = world.provider.id().to_string();
    let passport = world.ann.public_passport(&ben).await?;
    let extension = passport.extensions.tier();
    ensure!(extension == BenchmarkTier::Standard, "the extension says {extension:?}");
    let badges = serde_json::to_value(&passport.badges)?;
    let named = badges.to_string();
    ensure!(named.contains("swarmscore:benchmark_standard"), "{named}");
    let keys = world.ann.score_keys().await?;
    let key = keys.find(&passport.issuer.kid, KeyPurpose::Publication);
    let key = key.and_then(IssuerKey::public_key).context("its key is not published")?;
    let signature = passport.issuer.signature.context("it is not signed")?;
    let bytes = signed_bytes(&serde_json::to_value(&passport)?).context("it is not canonical")?;
    ensure!(key.verify(&bytes, &signature).is_ok(), "the passport's signature does not verify");
    let mut credential = world.ann.passport_credential(&ben).await?;
    let suite = credential["proof"]["cryptosuite"].clone();
    ensure!(suite == "eddsa-jcs-2022", "{suite}");
    vc::check(&credential, &key)?;
    credential["credentialSubject"]["passport"]["trust_tier"]["current"] = json!("TRUSTED");
    ensure!(vc::check(&credential, &key).is_err(), "a changed credential verified");
    let profile = serde_json::to_value(world.ann.score_profile().await?)?;
    ensure!(profile["profile_name"] == "swarmscore-v1", "{profile}");
    let count = badges.as_array().map_or(0, Vec::len);
    Ok(format!("{count} badges, benchmark {}, also as a credential", extension.as_str()))
}
