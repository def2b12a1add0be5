//! What a changed track record means for others: for the heartbeat, and for search.

use skep_base::AgentId;
use skep_score::track::Shown;
use skep_store::Turn;

use crate::answer::Stop;

/// From now on somebody looks at this agent from time to time.
pub(super) fn heartbeat_begins(_turn: &mut Turn, _agent: &AgentId) -> Result<(), Stop> {
    Ok(())
}

/// Search should show something else of this agent.
pub(super) fn search_changed(
    _turn: &mut Turn,
    _agent: &AgentId,
    _shown: Shown,
) -> Result<(), Stop> {
    Ok(())
}
