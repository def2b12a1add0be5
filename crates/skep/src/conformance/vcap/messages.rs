//! 3.1 to 3.7, as they really are.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use skep_wire::settle::{MESSAGES, Outcome, ResponseStatus};

use super::World;
use crate::stage;

/// One deal with each of the seven messages, each checked against the schema that the node serves.
pub(super) async fn all_seven_are_valid_by_their_published_schemas(w: &World) -> Result<String> {
    let terms = json!({"metadata": {"skep": {"verifier": w.verifier.id()}}});
    let offer = stage::request(w.requester.id(), w.provider.id(), terms);
    let id = w.ann.open_negotiation(&offer).await?.value.negotiation_id;
    let acceptance = stage::response(id, ResponseStatus::Accepted);
    let hold = w.ben.respond(&acceptance).await?.value.escrow.context("no escrow_hold")?;
    let delivery = stage::delivery(id, w.provider.id(), json!({}));
    let delivered = w.ben.deliver(&delivery).await?.value;
    let verification = delivered.verification_id.context("no verification_request")?;
    let verifier = w.verifier.actor.client(&w.url)?;
    let request = verifier.verification(verification).await?.request;
    let callback = w.verifier.seal(w.verifier.finding(&request, Outcome::Verified))?;
    verifier.callback(&callback).await?;
    let settlement = w.ann.settlement(id).await?.settlement;
    let messages: [Value; 7] = [
        offer,
        serde_json::to_value(acceptance)?,
        serde_json::to_value(hold)?,
        delivery,
        serde_json::to_value(request)?,
        serde_json::to_value(callback)?,
        serde_json::to_value(settlement)?,
    ];
    for (name, message) in MESSAGES.iter().zip(&messages) {
        ensure!(message["message_type"] == *name, "{name} calls itself something else");
        let schema = w.ann.message_schema(name).await?;
        let schema = jsonschema::validator_for(&schema)
            .map_err(|error| anyhow::anyhow!("the schema of {name}: {error}"))?;
        schema.validate(message).map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
        let mut broken = message.clone();
        broken["message_type"] = json!("something_else");
        ensure!(!schema.is_valid(&broken), "the schema of {name} takes anything");
    }
    Ok("each message of one deal is valid by the schema at /vcap/v1/schemas".to_owned())
}
