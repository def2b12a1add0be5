//! Section 8: what a stranger can check of a publication, level by level. Each check has a stable
//! name, and those of recomputed fields are the fields' paths.

use std::time::Duration;

use serde_json::Value;
use skep_base::{Hash32, Timestamp, ed25519::Signature};
pub use skep_wire::score::signed_bytes;
use skep_wire::score::{
    BenchmarkStatus, BenchmarkTier, FORMULA_VERSION, FailedCheck, KeyPurpose, KeySet, Publication,
    RECENT_PROOFS_MAX, SWARMSCORE_VERSION, VerifyAnswer, VerifyLevel,
};

use crate::{
    parameters::are_allowed,
    publish::{VALID_FOR, derive},
};

mod evidence;
mod imports;
mod plain;
pub use evidence::{Proofs, VERDICT_BEFORE_REFUND, VERDICT_BEFORE_RELEASE, certificate};
use plain::Reading;

/// How far the clocks of two platforms may be apart.
pub const CLOCK_SKEW_MAX: Duration = Duration::from_secs(5 * 60);
/// Differences of one publication that are told.
const FAILED_MAX: usize = 64;

/// Where the issuer's keys come from.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    pub keys: &'a KeySet,
    /// The host that the keys were fetched from, where they were.
    pub host: Option<&'a str>,
}

/// What was found so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    failed: Vec<FailedCheck>,
}

impl Findings {
    pub(crate) fn fail(&mut self, level: VerifyLevel, check: &str, detail: impl Into<String>) {
        if self.failed.len() < FAILED_MAX {
            let (check, detail) = (check.to_owned(), detail.into());
            self.failed.push(FailedCheck { level, check, detail });
        }
    }

    pub(crate) fn expect(&mut self, level: VerifyLevel, check: &str, holds: bool, detail: &str) {
        if !holds {
            self.fail(level, check, detail);
        }
    }

    fn holds(&self, level: VerifyLevel) -> bool {
        self.failed.iter().all(|failed| failed.level != level)
    }
}

/// Checks L1 and L2. Without keys there is no L1, and so no level holds.
pub fn publication(said: &Value, source: Option<&Source<'_>>, now: Timestamp) -> VerifyAnswer {
    let mut findings = Findings::default();
    let reading = match plain::read(said) {
        Ok(reading) => reading,
        Err(e) => {
            findings.fail(VerifyLevel::L1, "format", e.to_string());
            return answer(findings, now);
        }
    };
    let read = &reading.publication;
    let signature_valid = check_l1(said, read, source, now, &mut findings);
    let derived = check_l2(&reading, &mut findings);
    VerifyAnswer {
        recomputed_score: Some(derived.score.value),
        matches: derived.score.value == read.score.value && derived.score.tier == read.score.tier,
        signature_valid,
        ..answer(findings, now)
    }
}

fn answer(findings: Findings, now: Timestamp) -> VerifyAnswer {
    let level = match (findings.holds(VerifyLevel::L1), findings.holds(VerifyLevel::L2)) {
        (false, _) => None,
        (true, false) => Some(VerifyLevel::L1),
        (true, true) => Some(VerifyLevel::L2),
    };
    VerifyAnswer {
        verified: findings.failed.is_empty(),
        level,
        recomputed_score: None,
        matches: false,
        signature_valid: false,
        failed_checks: findings.failed,
        coverage: None,
        checked_at: now,
    }
}

/// 8.2 with an Ed25519 key (decision 37). Says whether the signature verifies.
fn check_l1(
    said: &Value,
    read: &Publication,
    source: Option<&Source<'_>>,
    now: Timestamp,
    findings: &mut Findings,
) -> bool {
    let issuer = &read.issuer;
    let mut expect = |check: &str, holds: bool, detail: &str| {
        findings.expect(VerifyLevel::L1, check, holds, detail);
    };
    expect("expired", now < read.valid_until, "its time is over");
    let soon = now.plus(CLOCK_SKEW_MAX);
    expect("computed_at", issuer.computed_at <= soon, "it was computed in the future");
    let host = host_of(&issuer.platform_url);
    let named = host.is_some_and(|host| host == issuer.platform);
    expect("platform_url", named, "it is not the address of the platform");
    let Some(source) = source else {
        findings.fail(VerifyLevel::L1, "keys", "the issuer's keys are not known");
        return false;
    };
    let from = source.host.is_none_or(|host| host == issuer.platform);
    expect("issuer_host", from, "the keys are those of another host");
    let Some(entry) = source.keys.find(&issuer.kid, KeyPurpose::Publication) else {
        findings.fail(VerifyLevel::L1, "kid", "the issuer has no such key");
        return false;
    };
    let in_time = entry.is_valid_at(issuer.computed_at);
    expect("key_validity", in_time, "the key was not valid when it signed");
    let signed = entry.public_key().zip(issuer.signature).is_some_and(|(key, signature)| {
        is_signed(said, &signature, |bytes| key.verify(bytes, &signature).is_ok())
    });
    expect("signature", signed, "it does not verify with the issuer's key");
    signed
}

fn is_signed(said: &Value, signature: &Signature, verifies: impl Fn(&[u8]) -> bool) -> bool {
    // The signature is read in one spelling only.
    let spelled = said["issuer"]["signature"].as_str() == Some(&signature.to_string());
    spelled && signed_bytes(said).is_some_and(|bytes| verifies(&bytes))
}

/// The host of an address, with its port if it names one.
pub fn host_of(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let host = rest.split(['/', '?', '#']).next()?;
    (!host.is_empty() && !host.contains('@')).then_some(host)
}

/// 8.3: everything that follows from other fields is computed again.
fn check_l2(reading: &Reading, findings: &mut Findings) -> Publication {
    let read = &reading.publication;
    check_inputs(read, findings);
    if !reading.is_plain {
        check_additions(read, findings);
        check_benchmark(read, findings);
        check_log(read, findings);
    }
    let derived = derive(read);
    let values = (serde_json::to_value(read), serde_json::to_value(&derived));
    if let (Ok(stated), Ok(computed)) = values {
        compare("", (&stated, &computed), &reading.unstated, findings);
    }
    derived
}

fn path_to(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// What nobody has stated is not compared.
fn compare(
    path: &str,
    (stated, computed): (&Value, &Value),
    unstated: &[String],
    findings: &mut Findings,
) {
    if unstated.iter().any(|unstated| unstated == path) {
        return;
    }
    match (stated, computed) {
        (Value::Object(stated), Value::Object(computed)) => {
            for (name, value) in computed {
                let stated = stated.get(name).unwrap_or(&Value::Null);
                compare(&path_to(path, name), (stated, value), unstated, findings);
            }
        }
        (stated, computed) if stated != computed => {
            let detail = format!("{stated} is stated, {computed} follows from the inputs");
            findings.fail(VerifyLevel::L2, path, detail);
        }
        _ => {}
    }
}

/// What must hold among the inputs themselves.
fn check_inputs(read: &Publication, findings: &mut Findings) {
    let mut expect = |check: &str, holds: bool, detail: &str| {
        findings.expect(VerifyLevel::L2, check, holds, detail);
    };
    let version = read.swarmscore_version == SWARMSCORE_VERSION;
    expect("swarmscore_version", version, "this version is not known");
    let formula = read.formula_version == FORMULA_VERSION;
    expect("formula_version", formula, "this formula is not known");
    expect("parameters", are_allowed(&read.parameters), "they are looser than the specification's");
    let lives = read.issuer.computed_at < read.valid_until;
    expect("valid_until", lives, "it was over before it was computed");
    let technical = &read.dimensions.technical_execution;
    let conduit = technical.conduit_successful_90d <= technical.conduit_sessions_90d
        && technical.verified_proof_count <= technical.conduit_sessions_90d
        && technical.conduit_sessions_90d <= technical.conduit_sessions_lifetime;
    expect("dimensions.technical_execution", conduit, "a part is larger than the whole");
    let commercial = &read.dimensions.commercial_reliability;
    let ap2 = commercial.ap2_successful_90d <= commercial.ap2_sessions_90d
        && commercial.ap2_sessions_90d <= commercial.ap2_sessions_lifetime
        && commercial.escrow_released_90d_cents <= commercial.total_escrow_released_cents
        && read.diversity.counterparties <= commercial.ap2_sessions_90d;
    expect("dimensions.commercial_reliability", ap2, "a part is larger than the whole");
}

/// What goes beyond the specification, which leaves the time to the issuer (7.2).
fn check_additions(read: &Publication, findings: &mut Findings) {
    let short = read.valid_until <= read.issuer.computed_at.plus(VALID_FOR);
    let detail = "a publication lives for 24 hours at most";
    findings.expect(VerifyLevel::L2, "valid_until", short, detail);
}

fn check_benchmark(read: &Publication, findings: &mut Findings) {
    let benchmark = &read.benchmark;
    let active = benchmark.status == BenchmarkStatus::Active;
    let mut expect = |check: &str, holds: bool, detail: &str| {
        findings.expect(VerifyLevel::L2, check, holds, detail);
    };
    let held = active == (benchmark.tier != BenchmarkTier::None);
    expect("benchmark.tier", held, "a level is held while the benchmark is active, and only then");
    let since = active == benchmark.continuous_since.is_some();
    expect("benchmark.continuous_since", since, "it does not fit the status");
    let first = match (benchmark.first_earned_at, benchmark.continuous_since) {
        (first, Some(since)) => first.is_some_and(|first| first <= since),
        (None, None) => benchmark.status != BenchmarkStatus::Suspended,
        (Some(_), None) => true,
    };
    expect("benchmark.first_earned_at", first, "it does not fit the streak");
    let now = read.issuer.computed_at;
    let times =
        [benchmark.first_earned_at, benchmark.last_evaluated_at, benchmark.continuous_since];
    let past = times.into_iter().flatten().all(|time| time <= now);
    expect("benchmark.times", past, "a time lies in the future");
    if let Some(with) = &read.with_imports {
        let counts = &with.imported;
        let parts = counts.conduit_successful <= counts.conduit_sessions
            && counts.ap2_successful <= counts.ap2_sessions;
        expect("with_imports.imported", parts, "a part is larger than the whole");
        let lives = with.ends_at > now;
        expect("with_imports.ends_at", lives, "what was imported is over");
    }
}

fn check_log(read: &Publication, findings: &mut Findings) {
    let mut expect = |check: &str, holds: bool, detail: &str| {
        findings.expect(VerifyLevel::L2, check, holds, detail);
    };
    let technical = &read.dimensions.technical_execution;
    let commercial = &read.dimensions.commercial_reliability;
    let log = &read.evidence.log;
    let lifetime =
        technical.conduit_sessions_lifetime.checked_add(commercial.ap2_sessions_lifetime);
    expect("evidence.log.last_n", lifetime == Some(log.last_n), "it is not the sum of both kinds");
    let window = technical.conduit_sessions_90d.checked_add(commercial.ap2_sessions_90d);
    let span = log.last_n.checked_sub(log.first_n).and_then(|span| span.checked_add(1));
    // No facts at all: the first number is the next one.
    let span = span.or((log.last_n.checked_add(1) == Some(log.first_n)).then_some(0));
    expect("evidence.log.first_n", span.is_some() && span == window, "it is not the window's size");
    let chains = [&log.chain_before, &log.chain_after, &read.evidence.proof_chain_root];
    let spelled = chains.iter().all(|chain| untagged(chain).is_some());
    expect("evidence.log.chain", spelled, "a hash is sha256: and 64 hex digits");
    let ends = log.chain_after == read.evidence.proof_chain_root;
    expect("evidence.proof_chain_root", ends, "it is not where the log ends");
    let moves = (log.chain_before == log.chain_after) == (window == Some(0));
    expect("evidence.log.chain_before", moves, "it does not fit the number of facts");
    let recent = &read.evidence.recent_proof_hashes;
    let few = recent.len() <= RECENT_PROOFS_MAX
        && recent.len() as u64 <= technical.verified_proof_count
        && recent.iter().all(|hash| untagged(hash).is_some());
    expect("evidence.recent_proof_hashes", few, "they do not fit the number of proofs");
}

/// The hash in `sha256:…`.
pub(crate) fn untagged(text: &str) -> Option<Hash32> {
    text.strip_prefix("sha256:")?.parse().ok()
}
