//! SHP's registry: what is sold, how it is found, and what is known of each hire.

mod challenge;
mod countersign;
mod counts;
mod listing;
mod liveness;
mod payload;
mod receipt;
mod refusal;
mod sample;
mod search;
mod token;
mod view;

use serde::Serialize;
use skep_base::AgentId;
use skep_store::{Load, Lock, RouteKey, Turn};

pub use self::{
    challenge::Challenge,
    refusal::HireRefusal,
    sample::{SAMPLE_POPULAR, SAMPLE_RARE, sample_listing},
};
pub(crate) use self::{
    countersign::Receipts,
    listing::{ListingRecord, listing_key},
    liveness::CHECK_JOB,
    receipt::{ReceiptRecord, Submission, judged, load_judged, paid_out, receipt_key},
    token::TokenSecret,
};
use crate::{answer::Stop, identity::agent_key, notice};

/// Loads agents that are told of something.
fn load_told(load: &mut Load, agents: &[AgentId]) {
    load.records.extend(agents.iter().map(|agent| (agent_key(agent), Lock::None)));
}

/// Writes an event, tells those whom it is about, and sends notices to those of them who have a
/// webhook. Who is not registered has an inbox all the same, for when it is.
fn announce(
    turn: &mut Turn,
    route: &RouteKey,
    kind: &'static str,
    body: &impl Serialize,
    agents: &[AgentId],
) -> Result<(), Stop> {
    let event = turn.event(route, kind, body, agents)?;
    Ok(notice::tell_loaded(turn, event, kind, route, agents, body)?)
}
