//! Payments whose words and signatures were found good a moment ago.
//!
//! A payment is shown to the node three times: by the buyer, by the seller before its work, and
//! when it is taken. What it says does not change in between; where it stands is looked up each
//! time.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use skep_base::{Hash32, hash::sha256_parts};
use skep_wire::x402::{FacilitatorRequest, Rail, SkepTerms};

use super::claim::{Claim, Unclaimed};
use crate::{Market, recent::Recent};

/// Longer requests are read anew each time, in bytes: strangers cannot fill the memory.
const REQUEST_LEN_MAX: usize = 16 * 1024;

/// By the hash of the whole request.
#[derive(Debug, Default)]
pub(crate) struct Claims(Recent<Hash32, Arc<Claim>>);

impl Claims {
    /// What a request says, if its signatures hold.
    fn read(&self, rail: &Rail, request: &FacilitatorRequest) -> Result<Arc<Claim>, Unclaimed> {
        let key = key(rail, request);
        if let Some(known) = key.and_then(|key| self.0.get(&key)) {
            return Ok(known);
        }
        let claim = Arc::new(Claim::read(rail, request)?);
        if let Some(key) = key {
            self.0.insert(key, Arc::clone(&claim));
        }
        Ok(claim)
    }
}

/// Names a request and the ledger that it is for; nothing for a long one. The receipt that may
/// come along is no part of the claim.
fn key(rail: &Rail, request: &FacilitatorRequest) -> Option<Hash32> {
    let FacilitatorRequest { x402_version, payment_payload, payment_requirements, skep } = request;
    let terms = skep.as_ref().map(|SkepTerms { hire, escrow, receipt: _ }| (hire, escrow));
    let words = (x402_version, payment_payload, payment_requirements, terms);
    let text = serde_json::to_vec(&words).ok()?;
    let short = text.len() <= REQUEST_LEN_MAX;
    short.then(|| sha256_parts(&[rail.asset.as_bytes(), &text]))
}

impl Market {
    pub(super) fn claim(&self, request: &FacilitatorRequest) -> Result<Arc<Claim>, Unclaimed> {
        self.claims.read(&self.rail(), request)
    }
}
