//! 9.4: whether the benchmark still tells agents apart.

use skep_base::AgentId;
use skep_score::{Track, parameters::QUALIFIED_MAX};
use skep_store::Turn;
use skep_wire::{admin::QualificationReport, score::BenchmarkTier, settle::Tier};

use super::admin::quarter;
use crate::{Failure, Market};

const VERIFIED: &str = "score:verified";
const QUALIFIED: &str = "score:qualified";
const ELITE: &str = "score:elite";

/// Keeps the lists that the report counts.
pub(super) fn enlist(turn: &mut Turn, agent: &AgentId, track: &Track) {
    let mut on = |list, is: bool| match is {
        true => turn.enlist(list, agent),
        false => turn.delist(list, agent),
    };
    on(VERIFIED, track.tier >= Tier::Verified);
    on(QUALIFIED, track.held() != BenchmarkTier::None);
    on(ELITE, track.held() == BenchmarkTier::Elite);
}

impl Market {
    /// How many of those who could hold a benchmark do.
    pub async fn qualification_report(&self) -> Result<QualificationReport, Failure> {
        let at = self.store.now().await?;
        let (verified, _) = self.store.list_len(VERIFIED).await?;
        let (qualified, _) = self.store.list_len(QUALIFIED).await?;
        let (elite, _) = self.store.list_len(ELITE).await?;
        let rate = if verified > 0 { qualified as f64 / verified as f64 } else { 0.0 };
        let advice = match rate > QUALIFIED_MAX {
            true => "too many qualify: set tighter minimums with `skep admin parameters`",
            false => "the minimums may stay as they are",
        };
        Ok(QualificationReport {
            at,
            quarter: quarter(at),
            parameters_version: self.parameters().version,
            verified,
            qualified,
            elite,
            rate,
            limit: QUALIFIED_MAX,
            advice: advice.to_owned(),
        })
    }
}
