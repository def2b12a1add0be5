//! 3, 5, 6 and 8.2: what a listing must say.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use skep_base::{
    Timestamp,
    json::{FREE_DEPTH_MAX, depth},
};
use skep_wire::hire::{
    DESCRIPTION_LEN_MAX, Listing, MAX_LATENCY_MS_MAX, MAX_LATENCY_MS_MIN, PaymentMode,
};

use crate::{
    capability::{self, Capability, Version},
    endpoint,
};

#[cfg(test)]
mod tests;

/// How far a listing's time may be from ours.
pub const ISSUED_WITHIN: Duration = Duration::from_secs(300);
/// Listings that one agent may publish in a minute.
pub const LISTINGS_PER_MINUTE: usize = 10;
/// Listings that one agent may have at a time.
pub const LISTINGS_PER_AGENT_MAX: usize = 200;
/// Of these, listings of one capability: each has a payment mode of its own.
pub const LISTINGS_PER_CAPABILITY_MAX: usize = 4;
/// The longest name of a chain, in bytes.
pub const CHAIN_LEN_MAX: usize = 64;
/// All fields that are not ours together, as JSON, in bytes.
pub const EXTRA_LEN_MAX: usize = 4096;
/// How often a seller's address is asked whether it is still there.
pub const CHECK_EVERY: Duration = Duration::from_secs(600);
/// Failures in a row after which an address counts as dead.
pub const FAILURES_MAX: u32 = 2;
/// After so long a dead listing is removed.
pub const DEAD_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// Why a listing is not taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "word", rename_all = "snake_case")]
pub enum ListingRefusal {
    #[error("{detail}")]
    BadCapability { detail: String },
    #[error("a price is more than 0")]
    ZeroPrice,
    #[error("max_latency_ms is {MAX_LATENCY_MS_MIN} to {MAX_LATENCY_MS_MAX}, not {given}")]
    BadLatency { given: u64 },
    #[error("{detail}")]
    BadEndpoint { detail: String },
    #[error("a description has at most {DESCRIPTION_LEN_MAX} bytes")]
    DescriptionTooLong,
    #[error("the capability has no verification_version {given:?} that may still be offered")]
    BadVersion { given: String },
    #[error("capabilities of the taxonomy are not clarified: they say all there is to say")]
    ClarifiesStandard,
    #[error(
        "platform_escrow:{named} is not here: this node is platform_escrow:{here}; name \
             another one by its address, as custom_escrow:URL"
    )]
    WrongEscrow { named: String, here: String },
    #[error("{detail}")]
    BadEscrowAddress { detail: String },
    #[error("the currency is USDC, not {given:?}")]
    BadCurrency { given: String },
    #[error("{detail}")]
    TooLarge { detail: String },
    #[error("issued_at is missing: it lets a later listing replace an earlier one")]
    NoIssueTime,
}

/// What a listing that may stand is known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sound {
    /// `scheme://host:port` of its endpoint.
    pub origin: String,
    /// Which of the capability's checks it promises: 0 for `v0`.
    pub verification: i64,
}

/// What the node says of itself.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pub marketplace: &'a str,
    /// This machine's addresses may be named.
    pub dev: bool,
    pub now: Timestamp,
}

/// Judges what a listing says, all but its signature and its time.
pub fn check(listing: &Listing, place: Place<'_>) -> Result<Sound, ListingRefusal> {
    capability::is_valid_id(&listing.capability)
        .map_err(|bad| ListingRefusal::BadCapability { detail: bad.to_string() })?;
    let standard = capability::find(&listing.capability);
    if listing.price_usdc.amount().is_zero() {
        return Err(ListingRefusal::ZeroPrice);
    }
    if !(MAX_LATENCY_MS_MIN..=MAX_LATENCY_MS_MAX).contains(&listing.max_latency_ms) {
        return Err(ListingRefusal::BadLatency { given: listing.max_latency_ms });
    }
    if listing.description.as_ref().is_some_and(|text| text.len() > DESCRIPTION_LEN_MAX) {
        return Err(ListingRefusal::DescriptionTooLong);
    }
    check_size(listing)?;
    if let Some(given) = listing.currency.as_ref().filter(|given| *given != "USDC") {
        return Err(ListingRefusal::BadCurrency { given: short(given) });
    }
    if standard.is_some() && listing.clarification_supported == Some(true) {
        return Err(ListingRefusal::ClarifiesStandard);
    }
    match listing.mode() {
        PaymentMode::PlatformEscrow(named) if named != place.marketplace => {
            let here = place.marketplace.to_owned();
            return Err(ListingRefusal::WrongEscrow { named: short(&named), here });
        }
        PaymentMode::CustomEscrow(url) => {
            let good = endpoint::origin(&url, place.dev);
            good.map_err(|detail| ListingRefusal::BadEscrowAddress { detail })?;
        }
        PaymentMode::Direct | PaymentMode::PlatformEscrow(_) => {}
    }
    let verification = check_version(listing, standard.as_ref(), place.now)?;
    let origin = endpoint::origin(&listing.endpoint, place.dev)
        .map_err(|detail| ListingRefusal::BadEndpoint { detail })?;
    Ok(Sound { origin, verification })
}

/// What search shows of everybody must be short, and readable for whoever searches.
fn check_size(listing: &Listing) -> Result<(), ListingRefusal> {
    let too_large = |detail: String| Err(ListingRefusal::TooLarge { detail });
    if listing.chain.as_ref().is_some_and(|chain| chain.len() > CHAIN_LEN_MAX) {
        return too_large(format!("a chain's name has at most {CHAIN_LEN_MAX} bytes"));
    }
    if listing.extra.values().any(|value| depth(value) > FREE_DEPTH_MAX) {
        return too_large(format!("what is added nests at most {FREE_DEPTH_MAX} levels deep"));
    }
    let length = serde_json::to_string(&listing.extra).map_or(usize::MAX, |text| text.len());
    if length > EXTRA_LEN_MAX {
        return too_large(format!("what is added has at most {EXTRA_LEN_MAX} bytes as JSON"));
    }
    Ok(())
}

/// `v0`, `v1`, … as a number.
pub fn version_number(version: &str) -> Option<i64> {
    let digits = version.strip_prefix('v')?;
    let number: u16 = digits.parse().ok()?;
    (number.to_string() == digits).then_some(i64::from(number))
}

/// Which version is promised: one that the capability has and that has not ended (8.2). Whoever
/// sells something of its own has its own.
fn check_version(
    listing: &Listing,
    standard: Option<&Capability>,
    now: Timestamp,
) -> Result<i64, ListingRefusal> {
    let given = listing.version();
    let ended = |version: &&Version| version.ends.is_some_and(|end| end <= now);
    let offered = standard.is_none_or(|capability| {
        let known = capability.versions.iter().find(|version| version.name == given);
        known.is_some_and(|version| !ended(&version))
    });
    let number = version_number(given).filter(|_| offered);
    number.ok_or_else(|| ListingRefusal::BadVersion { given: short(given) })
}

/// How much of a stranger's word is repeated.
fn short(text: &str) -> String {
    text.chars().take(64).collect()
}

/// Whether a listing's time fits to ours, outside.
pub fn is_fresh(issued_at: Timestamp, now: Timestamp) -> bool {
    issued_at.minus(ISSUED_WITHIN) <= now && now <= issued_at.plus(ISSUED_WITHIN)
}

/// How long to wait before one more listing may come, given when the last ones did, newest last.
pub fn wait_for_turn(earlier: &[Timestamp], now: Timestamp) -> Option<Duration> {
    const MINUTE: Duration = Duration::from_secs(60);
    let tenth = earlier.len().checked_sub(LISTINGS_PER_MINUTE).and_then(|at| earlier.get(at))?;
    let free_at = tenth.plus(MINUTE);
    (free_at > now).then(|| free_at.since(now))
}
