//! 12.3: a requester may ask for a provider that holds a benchmark.

use skep_base::AgentId;
use skep_score::compute::gaps;
use skep_store::Turn;
use skep_wire::{problem::BenchmarkGap, score::BenchmarkTier};

use super::{Scored, base_of};
use crate::{DealRefusal, Market, answer::Stop};

/// All that others are told of an agent whose score is not published.
const TOO_NEW: &str = "the agent has fewer than ten sessions";

impl Market {
    /// The benchmark must be held, and the score must still be good for it. `by`: who hears it if
    /// it is not.
    pub(crate) fn require_benchmark(
        &self,
        turn: &Turn,
        who: Scored<'_>,
        by: AgentId,
    ) -> Result<(), Stop> {
        let (track, base) = (self.track_of(turn, &who.agent)?, base_of(turn, &who.agent)?);
        let parameters = self.parameters();
        let around = who.around(self, turn, &base, &parameters)?;
        let (input, score) = track.score(&around);
        let imported = track.combined(&around).filter(|combined| combined.probation.over);
        let tier = imported.map_or(score.tier, |imported| imported.score.tier.max(score.tier));
        let holds = track.held() != BenchmarkTier::None;
        if holds && tier != BenchmarkTier::None {
            return Ok(());
        }
        let required_score = parameters.standard.score;
        // Decision 38: what it has so far is its own to know.
        if by != who.agent && !track.is_published(turn.now()) {
            let qualification_gaps = vec![TOO_NEW.to_owned()];
            let (current_score, gap) = (0, required_score);
            let reason = BenchmarkGap { current_score, required_score, gap, qualification_gaps };
            return Err(DealRefusal::BenchmarkRequired { reason }.into());
        }
        let current_score = score.value();
        let gap = required_score.saturating_sub(current_score);
        let mut qualification_gaps = gaps(&input, &score, &parameters);
        // Who lacks points only has an empty list in the specification too: `gap` says it.
        if !holds && gap == 0 && qualification_gaps.is_empty() {
            qualification_gaps.push("the benchmark was revoked, or is not granted yet".to_owned());
        }
        let reason = BenchmarkGap { current_score, required_score, gap, qualification_gaps };
        Err(DealRefusal::BenchmarkRequired { reason }.into())
    }
}
