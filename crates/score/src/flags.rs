//! 9.3: too much volume between the same few is shown. It changes no score.

use std::collections::BTreeMap;

use skep_base::AgentId;
use skep_wire::score::{Dimension, NumberedFact, VolumeFlag};

#[cfg(test)]
mod tests;

/// Fewer settlements say nothing about one counterparty.
const ONE_SETTLEMENTS_MIN: u64 = 10;
/// More than this part of them with one is flagged.
const ONE_SHARE_PERCENT: u64 = 50;
/// Fewer settlements say nothing about a small set.
const FEW_SETTLEMENTS_MIN: u64 = 20;
/// How many a small set is.
const FEW: usize = 3;
const FEW_SHARE_PERCENT: u64 = 70;

/// Whom an agent's settlements were with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    pub counterparties: u64,
    pub flags: Vec<VolumeFlag>,
}

/// Looks at the newest facts of the window.
pub fn volume(facts: &[NumberedFact]) -> Volume {
    let mut with: BTreeMap<AgentId, u64> = BTreeMap::new();
    let mut settlements = 0;
    for NumberedFact { fact, .. } in facts {
        if fact.dimension == Dimension::Ap2 {
            settlements += 1;
            if let Some(counterparty) = fact.counterparty {
                *with.entry(counterparty).or_default() += 1;
            }
        }
    }
    let mut counts: Vec<u64> = with.values().copied().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let more_than = |part: u64, percent: u64| part * 100 > settlements * percent;
    let one = counts.first().copied().unwrap_or(0);
    let few = counts.iter().take(FEW).sum();
    let mut flags = Vec::new();
    if settlements >= ONE_SETTLEMENTS_MIN && more_than(one, ONE_SHARE_PERCENT) {
        flags.push(VolumeFlag::SingleCounterpartyVolume);
    }
    if settlements >= FEW_SETTLEMENTS_MIN && more_than(few, FEW_SHARE_PERCENT) {
        flags.push(VolumeFlag::FewCounterpartiesVolume);
    }
    Volume { counterparties: counts.len() as u64, flags }
}
