//! What is counted of a listing's hires, a little with each.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use skep_base::Timestamp;
use skep_hire::receipt::is_disputed;
use skep_wire::hire::{CounterSignature, Judgement, Reputation};

const DAY_MS: i64 = 24 * 3600 * 1000;
/// How many days a recent hire is recent.
const RECENT_DAYS: i64 = 30;
/// A latency that is longer counts as this much: one buyer cannot spoil the mean.
const LATENCY_MS_MAX: u64 = 3_600_000;

/// Only what was paid between independent parties counts: anything else is free to make up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// The buyer has counter-signed, and there is no dispute.
    pub(crate) confirmed: u64,
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(super) latency_ms_sum: u64,
    pub(super) latencies: u64,
    /// Receipts by day.
    pub(super) days: BTreeMap<i64, u64>,
}

impl Counts {
    pub(super) fn add_receipt(&mut self, now: Timestamp) {
        let today = now.as_ms().div_euclid(DAY_MS);
        *self.days.entry(today).or_default() += 1;
        self.days.retain(|day, _| *day > today - RECENT_DAYS - 1);
    }

    /// A result stands otherwise than before.
    pub(super) fn rejudge(&mut self, before: Judgement, after: Judgement) {
        match before {
            Judgement::Passed => self.passed = self.passed.saturating_sub(1),
            Judgement::Failed => self.failed = self.failed.saturating_sub(1),
            Judgement::NotVerifiable | Judgement::NotVerifiedByBuyer => {}
        }
        match after {
            Judgement::Passed => self.passed += 1,
            Judgement::Failed => self.failed += 1,
            Judgement::NotVerifiable | Judgement::NotVerifiedByBuyer => {}
        }
    }

    /// What the buyer says besides how the result stands.
    pub(super) fn add_word(&mut self, word: &CounterSignature) {
        if !is_disputed(word) {
            self.confirmed += 1;
        }
        if let Some(latency) = word.latency_ms {
            self.latency_ms_sum = self.latency_ms_sum.saturating_add(latency.min(LATENCY_MS_MAX));
            self.latencies += 1;
        }
    }

    /// The part of the judged hires that passed, in 1/10000.
    pub(super) fn success_bps(&self) -> Option<i64> {
        let judged = self.passed + self.failed;
        let bps = (u128::from(self.passed) * 10_000).checked_div(u128::from(judged))?;
        i64::try_from(bps).ok()
    }

    /// As others may know it: `coarse` in steps only, as the seller wants it.
    pub(super) fn known_success_bps(&self, coarse: bool) -> Option<i64> {
        self.success_bps().map(|bps| if coarse { bps / 500 * 500 } else { bps })
    }

    /// `coarse`: in steps only, as the seller wants it.
    pub(super) fn reputation(&self, now: Timestamp, coarse: bool) -> Reputation {
        let today = now.as_ms().div_euclid(DAY_MS);
        let recent: u64 = self.days.range(today - RECENT_DAYS + 1..).map(|(_, n)| n).sum();
        let success = self.known_success_bps(coarse);
        let latency = self.latency_ms_sum.checked_div(self.latencies);
        let round = |number: u64| if coarse { power_of_ten(number) } else { number };
        Reputation {
            success_rate: success.map(|bps| bps as f64 / 10_000.0),
            avg_latency_ms: latency.map(round),
            last_30d_hire_count: Some(round(recent)),
            ..Reputation::default()
        }
    }
}

/// The greatest power of ten that is not greater; 0 of 0.
fn power_of_ten(number: u64) -> u64 {
    number.checked_ilog10().map_or(0, |digits| 10_u64.pow(digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(n: i64) -> Timestamp {
        Timestamp::from_ms(1_800_000_000_000 + n * DAY_MS)
    }

    #[test]
    fn recent_hires_grow_old() {
        let mut counts = Counts::default();
        for n in [0, 0, 10, 29] {
            counts.add_receipt(day(n));
        }
        let recent = |n: i64| counts.reputation(day(n), false).last_30d_hire_count;
        assert_eq!([29, 30, 40, 59].map(recent), [Some(4), Some(2), Some(1), Some(0)]);
        assert_eq!(counts.reputation(day(0), false).success_rate, None);
    }

    #[test]
    fn coarse_numbers_are_steps() {
        let numbers = [0, 1, 9, 10, 99, 12_345].map(power_of_ten);
        assert_eq!(numbers, [0, 1, 1, 10, 10, 10_000]);
        let counts = Counts { passed: 99, failed: 1, ..Counts::default() };
        assert_eq!(counts.reputation(day(0), false).success_rate, Some(0.99));
        assert_eq!(counts.reputation(day(0), true).success_rate, Some(0.95));
    }
}
