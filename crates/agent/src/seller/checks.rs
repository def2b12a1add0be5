//! A seller's own look at parameters and results, before anybody pays for them.

use serde_json::{Value, json};
use skep_wire::hire::Verification;

use super::offer::Offer;

/// Looks at results.
#[derive(Clone, Debug, Default)]
pub struct Checker;

pub(crate) fn check_id(capability: &str) -> Result<(), String> {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
    match (3..=128).contains(&capability.len()) && capability.chars().all(good) {
        true => Ok(()),
        false => Err("it is no name of a capability".to_owned()),
    }
}

/// What is wrong with parameters.
pub(crate) fn check_params(_offer: &Offer, params: &Value) -> Result<(), Vec<String>> {
    match params.is_object() {
        true => Ok(()),
        false => Err(vec!["params is no object".to_owned()]),
    }
}

/// What the capability's own check says of a result.
pub(crate) async fn verify(
    _checker: &Checker,
    _offer: &Offer,
    _params: &Value,
    _result: &Value,
) -> Verification {
    Verification::not_verifiable("there is no check for it")
}

/// What parameters and results of an offer look like.
pub(crate) fn schema(offer: &Offer) -> Value {
    let any = json!({ "type": "object" });
    offer.schema.clone().unwrap_or_else(|| json!({ "input": any, "output": any }))
}
