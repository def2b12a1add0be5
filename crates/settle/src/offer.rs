//! What is on the table: the request, changed by each counter-offer.

use serde::{Deserialize, Serialize};
use skep_base::{Amount, Asset, Money, Timestamp, money::DecimalText};
use skep_wire::settle::{
    DealOptions, Hints, NegotiationRequest, NegotiationResponse, ResponseStatus, Role,
    TEXT_LEN_MAX, VCAP_VERSION,
};

use crate::criteria;

/// The longest time-out, window or review deadline that a deal may agree on: 90 days.
pub const DURATION_S_MAX: u64 = 90 * 24 * 3600;

/// Why a message cannot stand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct BadMessage {
    pub field: String,
    pub problem: String,
}

pub(crate) fn bad(field: &str, problem: impl Into<String>) -> BadMessage {
    BadMessage { field: field.to_owned(), problem: problem.into() }
}

/// The terms as they would be if somebody said yes now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    pub price: Money,
    pub service_type: String,
    pub description: String,
    pub deadline: Option<Timestamp>,
    /// What the requester wants checked, and what it let the provider add.
    pub criteria: Hints,
    pub options: DealOptions,
    /// Only a holder of a benchmark may take it (SwarmScore 12.3).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requires_benchmark: bool,
}

impl Offer {
    /// The requester's first offer.
    pub fn open(message: &NegotiationRequest) -> Result<Offer, BadMessage> {
        check_header(&message.vcap_version, &message.message_type, "negotiation_request")?;
        if message.negotiation_id.as_deref().is_some_and(|id| !id.is_empty()) {
            return Err(bad("negotiation_id", "the marketplace gives it: leave it out"));
        }
        let request = &message.request;
        let price = money(
            "request.budget_amount",
            &request.budget_amount,
            request.budget_amount_minor,
            request.budget_currency,
        )?;
        let options = message.metadata.as_ref().and_then(|m| m.skep.clone()).unwrap_or_default();
        let offer = Offer {
            price,
            service_type: request.service_type.clone(),
            description: request.description.clone(),
            deadline: request.deadline_utc,
            criteria: message.verification_hints.clone().unwrap_or_default(),
            options,
            requires_benchmark: message.requires_benchmark(),
        };
        offer.check()
    }

    /// The table after `by` has countered.
    pub fn counter(&self, by: Role, message: &NegotiationResponse) -> Result<Offer, BadMessage> {
        let mut next = self.clone();
        let terms = message.counter_terms.clone().unwrap_or_default();
        if terms.currency.is_some_and(|currency| currency != self.price.asset) {
            return Err(bad("counter_terms.currency", "a deal stays in the currency it began in"));
        }
        match (&terms.amount, terms.amount_minor) {
            (Some(amount), minor) => {
                next.price = money("counter_terms.amount", amount, minor, self.price.asset)?;
            }
            (None, Some(minor)) => next.price.amount = minor,
            (None, None) => {}
        }
        next.description = terms.description.unwrap_or(next.description);
        next.deadline = terms.deadline_utc.or(next.deadline);
        match by {
            Role::Requester => {
                if let Some(hints) = &message.verification_hints {
                    next.criteria = hints.clone();
                }
            }
            Role::Provider => {
                if let Some(hints) = &message.provider_verification_hints {
                    next.criteria = criteria::fill(&next.criteria, hints);
                }
            }
        }
        if let Some(options) = message.metadata.as_ref().and_then(|m| m.skep.clone()) {
            if by == Role::Provider && options.auto_approve == Some(true) {
                let problem = "only the requester can offer to take the provider's word";
                return Err(bad("metadata.skep.auto_approve", problem));
            }
            next.options = over(options, &self.options);
        }
        next.check()
    }

    /// Accepting changes nothing: what an acceptance repeats must be what is on the table.
    pub fn check_acceptance(&self, message: &NegotiationResponse) -> Result<(), Changed> {
        let options = message.metadata.as_ref().and_then(|metadata| metadata.skep.clone());
        if options.is_some_and(|options| over(options, &self.options) != self.options) {
            return Err(bad("metadata.skep", UNCHANGED).into());
        }
        let Some(terms) = &message.counter_terms else { return Ok(()) };
        let price = Changed::Price(PriceChanged { on_the_table: self.price });
        if terms.currency.is_some_and(|currency| currency != self.price.asset) {
            return Err(price);
        }
        let minor = terms.amount_minor.map(|amount| Money { amount, asset: self.price.asset });
        let said = terms
            .amount
            .as_ref()
            .map(|text| Money::parse_decimal(text.as_str(), self.price.asset).ok());
        if said.is_some_and(|said| said != Some(self.price))
            || minor.is_some_and(|minor| minor != self.price)
        {
            return Err(price);
        }
        if terms.description.as_ref().is_some_and(|text| *text != self.description) {
            return Err(bad("counter_terms.description", UNCHANGED).into());
        }
        if terms.deadline_utc.is_some_and(|deadline| Some(deadline) != self.deadline) {
            return Err(bad("counter_terms.deadline_utc", UNCHANGED).into());
        }
        Ok(())
    }

    fn check(self) -> Result<Offer, BadMessage> {
        if self.price.amount.is_zero() {
            return Err(bad("request.budget_amount", "a deal costs more than zero"));
        }
        for (field, text) in
            [("description", &self.description), ("service_type", &self.service_type)]
        {
            if text.len() > TEXT_LEN_MAX {
                return Err(bad(field, format!("it has at most {TEXT_LEN_MAX} bytes")));
            }
        }
        let options = &self.options;
        for (field, seconds) in [
            ("dispute_window_s", options.dispute_window_s),
            ("timeout_s", options.timeout_s),
            ("review_deadline_s", options.review_deadline_s),
        ] {
            if seconds.is_some_and(|s| s > DURATION_S_MAX) {
                let field = format!("metadata.skep.{field}");
                return Err(bad(&field, format!("at most {DURATION_S_MAX} seconds")));
            }
        }
        if options.timeout_s == Some(0) || options.review_deadline_s == Some(0) {
            return Err(bad("metadata.skep", "a time-out is longer than nothing"));
        }
        criteria::check(&self.criteria)?;
        Ok(self)
    }
}

const UNCHANGED: &str = "an acceptance changes nothing; say it in a counter-offer";

/// An acceptance said something else than what is on the table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Changed {
    #[error(transparent)]
    Price(PriceChanged),
    #[error(transparent)]
    Terms(#[from] BadMessage),
}

/// An acceptance named another price than the offer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("the price on the table is {on_the_table}; another price is a counter-offer")]
pub struct PriceChanged {
    pub on_the_table: Money,
}

/// What every response must say of itself.
pub fn check_response(message: &NegotiationResponse) -> Result<(), BadMessage> {
    check_header(&message.vcap_version, &message.message_type, "negotiation_response")?;
    let empty = message.counter_terms.is_none()
        && message.provider_verification_hints.is_none()
        && message.verification_hints.is_none()
        && message.metadata.is_none();
    if message.response_status == ResponseStatus::Countered && empty {
        return Err(bad("counter_terms", "a counter-offer changes something"));
    }
    Ok(())
}

/// What every message says first.
pub fn check_header(version: &str, found: &str, expected: &str) -> Result<(), BadMessage> {
    if version.split('.').next() != VCAP_VERSION.split('.').next() {
        return Err(bad("vcap_version", format!("this node speaks {VCAP_VERSION}")));
    }
    if found != expected {
        return Err(bad("message_type", format!("expected {expected}")));
    }
    Ok(())
}

fn money(
    field: &str,
    text: &DecimalText,
    minor: Option<Amount>,
    asset: Asset,
) -> Result<Money, BadMessage> {
    let money =
        Money::parse_decimal(text.as_str(), asset).map_err(|e| bad(field, e.to_string()))?;
    match minor {
        Some(minor) if minor != money.amount => {
            Err(bad(field, "amount and minor units are not the same"))
        }
        _ => Ok(money),
    }
}

/// Options of a counter-offer over those that were on the table.
fn over(new: DealOptions, old: &DealOptions) -> DealOptions {
    DealOptions {
        remainder_policy: new.remainder_policy.or(old.remainder_policy),
        dispute_window_s: new.dispute_window_s.or(old.dispute_window_s),
        timeout_s: new.timeout_s.or(old.timeout_s),
        review_deadline_s: new.review_deadline_s.or(old.review_deadline_s),
        verifier: new.verifier.or(old.verifier),
        verifier_price_minor: new.verifier_price_minor.or(old.verifier_price_minor),
        auto_approve: new.auto_approve.or(old.auto_approve),
        // It belongs to the offer that said it.
        offer_expires_at: new.offer_expires_at,
    }
}

#[cfg(test)]
mod tests;
