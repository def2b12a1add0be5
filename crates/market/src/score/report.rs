//! 9.4: whether the benchmark still tells agents apart.

use std::{sync::PoisonError, time::Duration};

use serde::{Deserialize, Serialize};
use skep_base::AgentId;
use skep_score::{Track, parameters::QUALIFIED_MAX};
use skep_store::{Load, Lock, RecordKey, Turn};
use skep_wire::{admin::QualificationReport, score::BenchmarkTier, settle::Tier};

use super::admin::quarter;
use crate::{Failure, Market};

const VERIFIED: &str = "score:verified";
const QUALIFIED: &str = "score:qualified";
const ELITE: &str = "score:elite";
/// Quarters whose reports are at hand: ten years. The log keeps all.
const QUARTERS_KEPT: usize = 40;
/// How long a rate is told again: strangers ask for it, and counting takes its time.
const RATE_KEPT: Duration = Duration::from_secs(60);

/// The lists that the report counts, and whether a track record belongs on each. The rate is a part
/// of the VERIFIED agents: whoever is that only by an import stands on none of them.
pub(super) fn lists(track: &Track) -> [(&'static str, bool); 3] {
    let verified = track.tier >= Tier::Verified;
    [
        (VERIFIED, verified),
        (QUALIFIED, verified && track.held() != BenchmarkTier::None),
        (ELITE, verified && track.held() == BenchmarkTier::Elite),
    ]
}

/// Keeps the lists that the report counts.
pub(super) fn enlist(turn: &mut Turn, agent: &AgentId, track: &Track) {
    for (list, belongs) in lists(track) {
        match belongs {
            true => turn.enlist(list, agent),
            false => turn.delist(list, agent),
        }
    }
}

/// What is known of the quarters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Quarters {
    /// The one that runs; its report is written when it is over.
    running: String,
    /// Newest first, at most [`QUARTERS_KEPT`].
    reports: Vec<QualificationReport>,
}

fn quarters_key() -> RecordKey {
    RecordKey::own("score_quarters", "score_quarters")
}

impl Market {
    /// How many of those who could hold a benchmark do, now and at the ends of earlier quarters.
    pub async fn qualification_report(&self) -> Result<QualificationReport, Failure> {
        let known: Option<Quarters> = self.read(quarters_key()).await?;
        let history = known.map(|known| known.reports).unwrap_or_default();
        Ok(QualificationReport { history, ..self.figures().await? })
    }

    async fn figures(&self) -> Result<QualificationReport, Failure> {
        let at = self.store.now().await?;
        let (verified, _) = self.store.list_len(VERIFIED).await?;
        let (qualified, _) = self.store.list_len(QUALIFIED).await?;
        let (elite, _) = self.store.list_len(ELITE).await?;
        let rate = if verified > 0 { qualified as f64 / verified as f64 } else { 0.0 };
        let over_limit = rate > QUALIFIED_MAX;
        let advice = match over_limit {
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
            over_limit,
            advice: advice.to_owned(),
            history: Vec::new(),
        })
    }

    /// The rate, and whether it is above the limit, as it was within the last minute.
    pub async fn qualification_rate(&self) -> Result<(f64, bool), Failure> {
        let now = self.store.now().await?;
        let kept = *self.office.rate.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, rate)) = kept
            && now.since(at) < RATE_KEPT
        {
            return Ok(rate);
        }
        let figures = self.figures().await?;
        let rate = (figures.rate, figures.over_limit);
        *self.office.rate.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, rate));
        Ok(rate)
    }

    /// 9.4: once a quarter is over, writes down how many qualify. Whichever node looks first does
    /// it, once. After a time without any node the report is of the last quarter that one ran in,
    /// with the figures of now: `at` tells. Says whether a report was written.
    pub async fn close_quarter(&self) -> Result<bool, Failure> {
        let key = quarters_key();
        let known: Option<Quarters> = self.read(key.clone()).await?;
        let now = self.store.now().await?;
        if known.is_some_and(|known| known.running >= quarter(now)) {
            return Ok(false);
        }
        let figures = self.figures().await?;
        let load = Load { records: vec![(key.clone(), Lock::Exclusive)], ..Load::default() };
        let closed = self.run(load, vec![], move |turn| {
            let mut quarters: Quarters = turn.record(&key)?.unwrap_or_default();
            let running = quarter(turn.now());
            if quarters.running >= running {
                return Ok(false);
            }
            let over = std::mem::replace(&mut quarters.running, running);
            // Of the quarter in which a node is new nothing was seen to end yet.
            let is_first = over.is_empty();
            if !is_first {
                let report = QualificationReport { quarter: over, ..figures.clone() };
                turn.event(&key.route, "score.qualification_report", &report, &[])?;
                quarters.reports.insert(0, report);
                quarters.reports.truncate(QUARTERS_KEPT);
            }
            turn.put(&key, &quarters)?;
            Ok(!is_first)
        });
        Ok(closed.await?.value)
    }
}

#[cfg(test)]
mod tests;
