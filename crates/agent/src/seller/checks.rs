//! A seller's own look at parameters and results, before anybody pays for them.

use serde_json::{Value, json};
use skep_hire::capability;
use skep_wire::hire::Verification;

use super::offer::{Offer, Ware};
use crate::buyer::Checker;

/// What is wrong with an offer's capability and the version that it promises.
pub(crate) fn check_promise(name: &str, version: Option<&str>) -> Result<(), String> {
    capability::is_valid_id(name).map_err(|error| error.to_string())?;
    match (capability::find(name), version) {
        (Some(found), Some(version)) if !found.has_version(version) => {
            Err(format!("there is no check {version}"))
        }
        _ => Ok(()),
    }
}

/// What is wrong with parameters.
pub(crate) fn check_params(
    checker: &dyn Checker,
    ware: &Ware,
    params: &Value,
) -> Result<(), Vec<String>> {
    if !params.is_object() {
        return Err(vec!["params is no object".to_owned()]);
    }
    ware.schemas.check_input(params)?;
    let offer = &ware.offer;
    checker.check_params(&offer.capability, offer.verification_version.as_deref(), params)
}

/// What the capability's own check says of a result.
pub(crate) async fn verify(
    checker: &dyn Checker,
    offer: &Offer,
    params: &Value,
    result: &Value,
) -> Verification {
    let version = offer.verification_version.as_deref();
    checker.verify(&offer.capability, version, params, result).await
}

/// What parameters and results of an offer look like.
pub(crate) fn schema(offer: &Offer) -> Value {
    if let Some(own) = &offer.schema {
        return own.clone();
    }
    let version = offer.verification_version.as_deref().unwrap_or("v0");
    let found = capability::find(&offer.capability);
    let any = || json!({ "type": "object" });
    let side = |of: fn(&capability::Capability, &str) -> Option<Value>| {
        found.as_ref().and_then(|found| of(found, version)).unwrap_or_else(any)
    };
    json!({
        "capability": offer.capability,
        "input": side(capability::Capability::input_schema),
        "output": side(capability::Capability::output_schema),
    })
}
