//! What an agent's word weighs in an election, and what it must show for it (ASIP 2, 44a).

use skep_base::Did;
use skep_wire::swarm::{Evidence, Quality, RANKINGS_MAX, Score, Share};

#[cfg(test)]
mod tests;

/// Who claims less cannot stand for Tier 1.
pub const COMPOSITE_MIN: Share = Share::percent(30);
/// Nor can who was away for more than half of an epoch.
pub const UPTIME_MIN: Share = Share::percent(50);
/// What every member's vote weighs at least (decision 44a).
pub const WEIGHT_MIN: Share = Share::percent(10);
/// How many stand in one election; better ones displace the weakest.
pub const CANDIDATES_MAX: usize = RANKINGS_MAX;
/// How many members of a large swarm the beacon draws to watch one agent: two dishonest ones cannot
/// move a median. In a small one everybody watches everybody.
pub const ATTESTERS: usize = 5;
/// How many attestations are looked at: more than any agent has issuers.
pub const EVIDENCE_MAX: usize = 64;

/// 0.25 proof of compute + 0.40 reputation + 0.20 uptime + 0.15 stake, rounded down.
pub fn composite(score: &Score) -> Share {
    let sum_e8 = 25 * u64::from(score.proof_of_compute.e6())
        + 40 * u64::from(score.reputation.e6())
        + 20 * u64::from(score.uptime.e6())
        + 15 * u64::from(score.stake.e6());
    Share::from_e6((sum_e8 / 100) as u32)
}

/// Whether a score is enough for a candidacy.
pub fn may_stand(score: &Score) -> bool {
    composite(score) >= COMPOSITE_MIN && score.uptime >= UPTIME_MIN
}

/// What issuers that the swarm trusts have signed about an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidenced {
    pub reputation: Share,
    pub stake: Share,
}

/// What the evidence shows of a subject in an epoch: the best that a trusted issuer signed, since
/// who shows its own evidence chooses it anyway.
pub fn evidenced(
    subject: &Did,
    epoch: u64,
    evidence: &Evidence,
    is_issuer: impl Fn(&Did) -> bool,
) -> Evidenced {
    let mut shown = Evidenced::default();
    for signed in evidence.0.iter().take(EVIDENCE_MAX) {
        let said = &signed.attestation;
        // Evidence of the last epoch counts, too: this one's is still being made.
        let recent = said.epoch == epoch || said.epoch.checked_add(1) == Some(epoch);
        if said.subject != *subject || !recent || !is_issuer(&said.attester) {
            continue;
        }
        let best = match said.quality {
            Quality::Reputation => &mut shown.reputation,
            Quality::Stake => &mut shown.stake,
        };
        *best = said.value.max(*best);
    }
    shown
}

/// Whether more is claimed than is shown (-32003). Uptime and proof of compute are cut to what was
/// observed instead: nobody knows that when it claims.
pub fn is_beyond(claimed: &Score, shown: &Evidenced) -> bool {
    claimed.reputation > shown.reputation || claimed.stake > shown.stake
}

/// The upper median of what watchers have seen, the least first; nothing where nobody has.
pub fn upper_median(seen: &[Share]) -> Share {
    seen.get(seen.len() / 2).copied().unwrap_or(Share::ZERO)
}
