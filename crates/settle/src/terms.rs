//! The terms of a deal as acceptance fixes and hashes them (decision 25).

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use skep_base::{AgentId, Amount, Hash32, Timestamp, hash::json_sha256, id::DealId};
use skep_wire::settle::{DealOptions, Hints, Standing, Tier, VCAP_VERSION, engine};

use crate::{criteria, money::Stake, offer::Offer};

/// How long an engine may take (3.5).
pub const ENGINE_TIMEOUT_S: u64 = 1800;
/// How long a person may take to answer as the verifier.
pub const PERSON_TIMEOUT_S: u64 = 24 * 3600;
/// How long an offer stands if it does not say (decision 23).
pub const OFFER_LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// When the work is due if the terms do not say (decision 31).
pub const DELIVERY_TIME: Duration = Duration::from_secs(7 * 24 * 3600);

/// What the node's operator has set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub fee_bps: u32,
    pub buyer_share_bps: u32,
    /// Other rates for providers with a subscription (10.2).
    pub fee_tiers: BTreeMap<String, u32>,
    /// What the opener of a dispute puts down, as a part of the price.
    pub deposit_bps: u32,
    /// Open remainders together stay under so many times the requester's free balance.
    pub remainder_multiple: i64,
    /// The dearest deal that is released on the provider's word, in whole units of its asset.
    pub auto_approve_units_max: i64,
    pub subsidy: SubsidyLimits,
    /// Refunds what a reviewer has not decided after so long. A deviation from 7.1 if set.
    pub review_deadline_s: Option<u64>,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            fee_bps: 0,
            buyer_share_bps: 5_000,
            fee_tiers: BTreeMap::new(),
            deposit_bps: 500,
            remainder_multiple: 4,
            auto_approve_units_max: 50,
            subsidy: SubsidyLimits::default(),
            review_deadline_s: None,
        }
    }
}

/// For whom the platform fronts a part of the hold (decision 11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubsidyLimits {
    /// A provider's first settled escrows, with those under way.
    pub deals: u32,
    /// The dearest deal, in whole units of its asset.
    pub price_units_max: i64,
    /// Deals under way of one operator's agents, on either side.
    pub open_per_operator: u32,
    /// And of one requester.
    pub open_per_requester: u32,
}

impl Default for SubsidyLimits {
    fn default() -> SubsidyLimits {
        SubsidyLimits {
            deals: 10,
            price_units_max: 500,
            open_per_operator: 20,
            open_per_requester: 5,
        }
    }
}

impl SubsidyLimits {
    /// Whether a deal of this price is cheap enough.
    pub fn covers(&self, price: skep_base::Money) -> bool {
        let unit = 10_i64.checked_pow(price.asset.exponent()).unwrap_or(1);
        price.amount.minor() <= self.price_units_max.saturating_mul(unit)
    }
}

impl Policy {
    /// The rate for a provider, never above what was agreed (decision 10).
    pub fn rate(&self, standing: &Standing, cap_bps: u32) -> u32 {
        let tier = standing.subscription.as_ref().and_then(|name| self.fee_tiers.get(name));
        (*tier.unwrap_or(&self.fee_bps)).min(cap_bps)
    }

    /// Whether the provider's word may be enough for such a deal (decision 26).
    pub fn allows_auto_approve(&self, terms: &Terms, tier: Tier) -> Result<(), &'static str> {
        if !terms.auto_approve {
            return Err("the requester has not agreed to it in the terms");
        }
        if tier < Tier::Trusted {
            return Err("the provider is not TRUSTED");
        }
        let unit = 10_i64.checked_pow(terms.price.asset.exponent()).unwrap_or(1);
        if terms.price.amount.minor() > self.auto_approve_units_max.saturating_mul(unit) {
            return Err("the price is above the limit for it");
        }
        Ok(())
    }
}

/// What both sides have signed by offering and accepting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    pub price: skep_base::Money,
    pub stake: Stake,
    pub service_type: String,
    pub description: String,
    pub deadline: Timestamp,
    pub criteria: Hints,
    pub timeout_s: u64,
    pub dispute_window_s: u64,
    pub review_deadline_s: Option<u64>,
    pub verifier: Option<AgentId>,
    pub auto_approve: bool,
}

impl Terms {
    /// Closes an offer. `None` if its amounts do not fit.
    pub fn close(
        offer: &Offer,
        now: Timestamp,
        policy: &Policy,
        standing: &Standing,
    ) -> Option<Terms> {
        let options = &offer.options;
        let criteria = criteria::freeze(&offer.criteria);
        let by_person = matches!(criteria.kind.as_deref(), Some(engine::HUMAN | engine::REQUESTER));
        let timeout_s = if by_person { PERSON_TIMEOUT_S } else { ENGINE_TIMEOUT_S };
        // A subscription may lower the fee later, so the cap is the higher of both rates.
        let rate = policy.rate(standing, u32::MAX).max(policy.fee_bps);
        let stake = Stake::new(
            offer.price.amount,
            standing.effective_modifier_e4(),
            options.remainder_policy.unwrap_or_default(),
            (rate, policy.buyer_share_bps),
            options.verifier_price_minor.unwrap_or(Amount::ZERO),
            standing.subsidised,
        )?;
        let stake = Stake { modifier_e4: standing.modifier_e4, ..stake };
        Some(Terms {
            price: offer.price,
            stake,
            service_type: offer.service_type.clone(),
            description: offer.description.clone(),
            deadline: offer.deadline.unwrap_or_else(|| now.plus(DELIVERY_TIME)),
            criteria,
            timeout_s: options.timeout_s.unwrap_or(timeout_s),
            dispute_window_s: options.dispute_window_s.unwrap_or(0),
            review_deadline_s: options.review_deadline_s.or(policy.review_deadline_s),
            verifier: options.verifier,
            auto_approve: options.auto_approve.unwrap_or(false),
        })
    }

    /// The engine that judges.
    pub fn engine(&self) -> &str {
        self.criteria.kind.as_deref().unwrap_or(engine::REQUESTER)
    }

    pub fn options(&self) -> DealOptions {
        DealOptions {
            remainder_policy: Some(self.stake.policy),
            dispute_window_s: Some(self.dispute_window_s),
            timeout_s: Some(self.timeout_s),
            review_deadline_s: self.review_deadline_s,
            verifier: self.verifier,
            verifier_price_minor: Some(self.stake.verifier_price),
            auto_approve: Some(self.auto_approve),
            offer_expires_at: None,
        }
    }

    /// The document that is hashed: what was said, word for word, and what follows from it.
    pub fn document(
        &self,
        deal: DealId,
        (requester, provider): (AgentId, AgentId),
        accepted_at: Timestamp,
        messages: &[Value],
    ) -> Value {
        let (request, responses) = messages.split_first().unwrap_or((&Value::Null, &[]));
        json!({
            "vcap_version": VCAP_VERSION,
            "negotiation_id": deal,
            "requester": requester,
            "provider": provider,
            "accepted_at": accepted_at,
            "request": request,
            "responses": responses,
            "agreed": self,
        })
    }
}

/// SHA-256 over the canonical JSON of a terms document.
pub fn hash(document: &Value) -> Result<Hash32, skep_base::json::CanonicalError> {
    json_sha256(document)
}

/// 3.3's memo, which binds an escrow to its terms.
pub fn release_condition(hash: &Hash32) -> String {
    format!("vcap:terms:sha256:{hash}")
}

#[cfg(test)]
mod tests;
