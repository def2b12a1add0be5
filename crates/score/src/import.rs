//! Section 10: what another platform has counted, and what it is worth here.

use std::{cmp::Ordering, net::IpAddr, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::{AgentId, Hash32, Timestamp, ed25519::PublicKey, hash::json_sha256};
use skep_wire::{
    score::{
        BenchmarkStatus, BenchmarkTier, FailedCheck, Fraction, ImportAnswer, ImportRequest,
        ImportedCounts, InformalTier, KeyPurpose, KeySet, PassportIssuer, Probation, Publication,
        TrustedIssuer,
    },
    settle::Tier,
};

use crate::{
    atep::spki_pem,
    compute::Input,
    publish::VALID_FOR,
    track::{Track, WINDOW},
    verify,
};

/// 10.1: how much of what was counted elsewhere is left out, unless an agreement says otherwise.
pub const HAIRCUT: Fraction = Fraction::from_e4(5_000);
/// 10.1: local sessions before anything imported counts.
pub const PROBATION_SESSIONS: u32 = 15;
/// And if the local sessions alone are not enough then.
pub const PROBATION_SESSIONS_EXTENDED: u64 = 30;
/// 10.1: how long ago the first session must be.
pub const AGE_MIN: Duration = Duration::from_secs(30 * 24 * 3600);
/// Exports that are remembered. One lives for a day, and a newer one replaces it.
pub const DIGESTS_MAX: usize = 8;

/// Platforms without an agreement whose tiers are shown; the oldest goes.
pub const INFORMAL_MAX: usize = 4;

/// What was brought from elsewhere, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    pub platform: String,
    /// Of the publication that was brought.
    pub digest: Hash32,
    pub counts: ImportedCounts,
    /// The tier that its passport and its publication say.
    pub tier: Tier,
    pub haircut: Fraction,
    pub probation_sessions: u32,
    pub computed_at: Timestamp,
    pub imported_at: Timestamp,
}

impl Imported {
    /// What it counts was in the 90 days before it was computed; 90 days later nothing is left.
    pub fn ends_at(&self) -> Timestamp {
        self.computed_at.plus(WINDOW)
    }

    pub fn lives(&self, now: Timestamp) -> bool {
        now < self.ends_at()
    }

    /// 11.3: it skips the first phase, and no review.
    pub fn shown_tier(&self) -> Tier {
        self.tier.min(Tier::Verified)
    }

    pub fn probation(&self, local_sessions: u64, local_tier: BenchmarkTier) -> Probation {
        probation(self.probation_sessions, local_sessions, local_tier)
    }
}

/// What is local and what was imported; halves stay halves.
pub(crate) fn join(local: &Input, counts: &ImportedCounts, haircut: Fraction, tier: Tier) -> Input {
    let weight = f64::from(Fraction::ONE.e4() - haircut.e4());
    let part = |count: u64| count as f64 * weight / f64::from(Fraction::ONE.e4());
    Input {
        conduit_sessions: local.conduit_sessions + part(counts.conduit_sessions),
        conduit_successful: local.conduit_successful + part(counts.conduit_successful),
        ap2_sessions: local.ap2_sessions + part(counts.ap2_sessions),
        ap2_successful: local.ap2_successful + part(counts.ap2_successful),
        trust_tier: local.trust_tier.max(tier),
        ..*local
    }
}

/// 10.1, step 5.
pub(crate) fn probation(first: u32, local_sessions: u64, local_tier: BenchmarkTier) -> Probation {
    let first = u64::from(first);
    let alone = local_tier != BenchmarkTier::None;
    let sessions_needed = match local_sessions >= first && !alone {
        true => PROBATION_SESSIONS_EXTENDED.max(first),
        false => first,
    };
    Probation { local_sessions, sessions_needed, over: local_sessions >= sessions_needed }
}

/// Where an issuer's keys are.
const KEYS_PATH: &str = "/.well-known/swarmscore-keys";
/// The longest name of a platform, in bytes.
const PLATFORM_LEN_MAX: usize = 255;
/// The longest id of a passport, in bytes; ours have 36.
const PASSPORT_ID_LEN_MAX: usize = 128;

/// 10.2 and decision 41a: nobody is trusted without a word on how its sessions are verified, nor by
/// keys that another host has. `dev` as in [`is_key_url`].
pub fn check_issuer(entry: &TrustedIssuer, dev: bool) -> Result<(), &'static str> {
    if entry.statement.trim().is_empty() {
        return Err("statement must say how its sessions are verified independently");
    }
    if entry.platform.len() > PLATFORM_LEN_MAX {
        return Err("platform is a host's name");
    }
    let host = Some(entry.platform.as_str());
    if verify::host_of(&entry.platform_url) != host || verify::host_of(&entry.key_url) != host {
        return Err("platform is the host of platform_url and of key_url");
    }
    if entry.keys.is_none() && !is_key_url(&entry.key_url, dev) {
        return Err("key_url begins with https://: on the way keys could be changed");
    }
    Ok(())
}

/// Whether keys may be fetched from there: nobody on the way can change them. `dev` allows this
/// machine without TLS.
pub fn is_key_url(url: &str, dev: bool) -> bool {
    let here = || verify::host_of(url).is_some_and(is_loopback);
    url.starts_with("https://") || (dev && here())
}

/// Whether a host, with or without a port, is this machine.
fn is_loopback(host: &str) -> bool {
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let name = host.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(host, |it| it.0);
    let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name == "localhost" || inner.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Why something is not imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the {what} cannot be read: {detail}")]
    Unreadable { what: &'static str, detail: String },
    #[error("the publication does not hold: {}", names(.failed))]
    BadPublication { failed: Vec<FailedCheck> },
    #[error("the passport is not signed by the platform that it names")]
    BadPassport,
    #[error("the passport and the publication do not belong together: {what}")]
    OtherPassport { what: &'static str },
    #[error("the passport belongs to another agent")]
    OtherAgent,
    #[error("another agent has brought this record: one record is one agent's")]
    Taken,
    #[error("its platform has revoked its benchmark, or has its operator under review")]
    Revoked,
    #[error("{open} of its disputes are open at its platform")]
    Disputed { open: u32 },
    #[error("the passport's first session must be at least 30 days ago")]
    TooYoung,
    #[error("this was exported here")]
    OwnExport,
    #[error("this export was imported already")]
    Repeated,
    #[error("a newer export of the same platform was imported already")]
    Older,
}

impl Refusal {
    /// A stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::Unreadable { .. } => "import_unreadable",
            Refusal::BadPublication { .. } => "import_bad_publication",
            Refusal::BadPassport => "import_bad_passport",
            Refusal::OtherPassport { .. } => "import_other_passport",
            Refusal::OtherAgent => "import_other_agent",
            Refusal::Taken => "import_taken",
            Refusal::Revoked => "import_revoked",
            Refusal::Disputed { .. } => "import_disputed",
            Refusal::TooYoung => "import_too_young",
            Refusal::OwnExport => "import_own_export",
            Refusal::Repeated => "import_repeated",
            Refusal::Older => "import_older",
        }
    }
}

fn names(failed: &[FailedCheck]) -> String {
    let names: Vec<&str> = failed.iter().map(|failed| failed.check.as_str()).collect();
    names.join(", ")
}

/// What is read of a passport from elsewhere; ids there may look otherwise.
#[derive(Deserialize)]
struct Foreign {
    passport_id: String,
    agent_id: String,
    issuer: PassportIssuer,
    statistics: ForeignStatistics,
    trust_tier: ForeignTier,
    #[serde(default)]
    identity: ForeignIdentity,
}

#[derive(Deserialize)]
struct ForeignStatistics {
    first_session_at: Option<Timestamp>,
}

#[derive(Deserialize)]
struct ForeignTier {
    current: Tier,
}

#[derive(Default, Deserialize)]
struct ForeignIdentity {
    public_key: Option<String>,
}

/// Who imports, and where.
#[derive(Clone, Copy, Debug)]
pub struct Applicant<'a> {
    pub agent: &'a AgentId,
    pub key: &'a PublicKey,
    /// What this platform is called: its own exports are not taken back.
    pub here: &'a str,
}

/// An export that was read; nothing was checked yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    pub platform: String,
    pub platform_url: String,
    pub passport_id: String,
    pub digest: Hash32,
    pub tier: Tier,
    pub counts: ImportedCounts,
    pub computed_at: Timestamp,
}

impl Read {
    /// What the record is called, in all of its exports. A host has no slash.
    pub fn record_name(&self) -> String {
        format!("{}/{}", self.platform, self.passport_id)
    }
}

/// Reads an export, so that its platform can be looked up.
pub fn read(request: &ImportRequest) -> Result<Read, Refusal> {
    let (publication, passport) = parse(request)?;
    let digest = json_sha256(&request.source_publication)
        .map_err(|e| Refusal::Unreadable { what: "publication", detail: e.to_string() })?;
    Ok(Read {
        platform: publication.issuer.platform.clone(),
        platform_url: publication.issuer.platform_url.clone(),
        passport_id: publication.agent_passport_id.clone(),
        digest,
        // Others are shown the publication only.
        tier: passport.trust_tier.current.min(publication.gates.atep_tier),
        counts: counts(&publication),
        computed_at: publication.issuer.computed_at,
    })
}

/// What a publication says that was counted in its window.
pub(crate) fn counts(publication: &Publication) -> ImportedCounts {
    let technical = &publication.dimensions.technical_execution;
    let commercial = &publication.dimensions.commercial_reliability;
    ImportedCounts {
        conduit_sessions: technical.conduit_sessions_90d,
        conduit_successful: technical.conduit_successful_90d,
        ap2_sessions: commercial.ap2_sessions_90d,
        ap2_successful: commercial.ap2_successful_90d,
    }
}

/// Where a platform's own host keeps its keys, if the address that it names is that host's and
/// nothing below it.
pub fn own_key_url(read: &Read) -> Option<String> {
    let url = read.platform_url.trim_end_matches('/');
    let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let is_own = host == read.platform && host.len() <= PLATFORM_LEN_MAX;
    is_own.then(|| format!("{url}{KEYS_PATH}"))
}

fn parse(request: &ImportRequest) -> Result<(Publication, Foreign), Refusal> {
    let unreadable =
        |what, e: serde_json::Error| Refusal::Unreadable { what, detail: e.to_string() };
    let publication = Publication::deserialize(&request.source_publication);
    let passport = Foreign::deserialize(&request.source_passport);
    let publication = publication.map_err(|e| unreadable("publication", e))?;
    // Both become a name that is kept.
    let named = is_name(&publication.issuer.platform, PLATFORM_LEN_MAX)
        && is_name(&publication.agent_passport_id, PASSPORT_ID_LEN_MAX);
    if !named {
        let detail = "its platform or its passport's id is no name".to_owned();
        return Err(Refusal::Unreadable { what: "publication", detail });
    }
    Ok((publication, passport.map_err(|e| unreadable("passport", e))?))
}

fn is_name(text: &str, len_max: usize) -> bool {
    (1..=len_max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// 10.1, step 3: signatures, sums, and that it is the same agent.
pub fn check(
    request: &ImportRequest,
    keys: &KeySet,
    applicant: &Applicant<'_>,
    now: Timestamp,
) -> Result<(), Refusal> {
    let (publication, passport) = parse(request)?;
    let platform = &publication.issuer.platform;
    if platform == applicant.here {
        return Err(Refusal::OwnExport);
    }
    let source = verify::Source { keys, host: None };
    let failed = verify::publication(&request.source_publication, Some(&source), now).failed_checks;
    if !failed.is_empty() {
        return Err(Refusal::BadPublication { failed });
    }
    check_pair(request, keys, &publication, &passport)?;
    let by_id = passport.agent_id == applicant.agent.to_string();
    let by_key = passport.identity.public_key == Some(spki_pem(applicant.key));
    if !by_id && !by_key {
        return Err(Refusal::OtherAgent);
    }
    check_standing(&publication)?;
    let first = passport.statistics.first_session_at;
    if first.is_none_or(|first| now.since(first) < AGE_MIN) {
        return Err(Refusal::TooYoung);
    }
    Ok(())
}

/// That the passport is the one that was exported with the publication: its issuer has signed many,
/// and an old one may say more.
fn check_pair(
    request: &ImportRequest,
    keys: &KeySet,
    publication: &Publication,
    passport: &Foreign,
) -> Result<(), Refusal> {
    let other = |what| Err(Refusal::OtherPassport { what });
    if passport.passport_id != publication.agent_passport_id {
        return other("they have different ids");
    }
    if passport.issuer.platform != publication.issuer.platform {
        return other("they are of different platforms");
    }
    if !is_signed(&request.source_passport, &passport.issuer, keys) {
        return Err(Refusal::BadPassport);
    }
    let (issued, computed) = (passport.issuer.issued_at, publication.issuer.computed_at);
    if issued.since(computed).max(computed.since(issued)) > VALID_FOR {
        return other("more than a day lies between them");
    }
    if passport.trust_tier.current != publication.gates.atep_tier {
        return other("they say different tiers");
    }
    // Decision 40: it may be absent.
    let carried = &request.source_passport["extensions"]["swarmscore"];
    let digest = |document| json_sha256(document).ok();
    if !carried.is_null() && digest(carried) != digest(&request.source_publication) {
        return other("the passport carries another publication");
    }
    Ok(())
}

/// What its platform holds against an agent does not stay behind (9.7).
fn check_standing(publication: &Publication) -> Result<(), Refusal> {
    let gates = &publication.gates;
    if publication.benchmark.status == BenchmarkStatus::Revoked || gates.operator_under_review {
        return Err(Refusal::Revoked);
    }
    match gates.disputed_sessions_active {
        0 => Ok(()),
        open => Err(Refusal::Disputed { open }),
    }
}

fn is_signed(passport: &Value, issuer: &PassportIssuer, keys: &KeySet) -> bool {
    let key = keys
        .find(&issuer.kid, KeyPurpose::Publication)
        .filter(|key| key.is_valid_at(issuer.issued_at))
        .and_then(|key| key.public_key());
    let (Some(key), Some(signature)) = (key, issuer.signature) else {
        return false;
    };
    verify::signed_bytes(passport).is_some_and(|bytes| key.verify(&bytes, &signature).is_ok())
}

/// 10.1, step 4: what counts of an export that was checked. The same one counts once.
pub fn accept(
    read: &Read,
    issuer: &TrustedIssuer,
    track: &mut Track,
    now: Timestamp,
) -> Result<ImportAnswer, Refusal> {
    if track.import_digests.contains(&read.digest) {
        return Err(Refusal::Repeated);
    }
    let before = track.imported.as_ref().filter(|before| before.platform == read.platform);
    if before.is_some_and(|before| read.computed_at <= before.computed_at) {
        return Err(Refusal::Older);
    }
    let imported = Imported {
        platform: read.platform.clone(),
        digest: read.digest,
        counts: read.counts,
        tier: read.tier,
        haircut: issuer.import_haircut,
        probation_sessions: issuer.probation_sessions,
        computed_at: read.computed_at,
        imported_at: now,
    };
    let ends_at = imported.ends_at();
    track.bring(imported);
    let local_sessions = track.totals.sessions();
    Ok(ImportAnswer {
        accepted: true,
        noted: true,
        platform: read.platform.clone(),
        digest: read.digest,
        source_tier: read.tier,
        imported: read.counts,
        import_haircut: Some(issuer.import_haircut),
        probation: Some(probation(issuer.probation_sessions, local_sessions, track.held())),
        phase: track.phase(now),
        ends_at: Some(ends_at),
    })
}

/// 10.1, step 4, without an agreement: a tier whose signature was checked is shown, and nothing
/// counts.
pub fn note(read: &Read, track: &mut Track) -> Result<InformalTier, Refusal> {
    let before = track.informal.iter().find(|before| before.platform == read.platform);
    match before.map(|before| read.computed_at.cmp(&before.computed_at)) {
        Some(Ordering::Equal) => return Err(Refusal::Repeated),
        Some(Ordering::Less) => return Err(Refusal::Older),
        Some(Ordering::Greater) | None => {}
    }
    let informal = InformalTier {
        platform: read.platform.clone(),
        tier: read.tier,
        unverified: true,
        computed_at: read.computed_at,
    };
    track.note(informal.clone());
    Ok(informal)
}

/// What is answered without an agreement. `noted`: whether its tier is shown.
pub fn informal(read: &Read, noted: bool, track: &Track, now: Timestamp) -> ImportAnswer {
    ImportAnswer {
        accepted: false,
        noted,
        platform: read.platform.clone(),
        digest: read.digest,
        source_tier: read.tier,
        imported: ImportedCounts::default(),
        import_haircut: None,
        probation: None,
        phase: track.phase(now),
        ends_at: None,
    }
}
