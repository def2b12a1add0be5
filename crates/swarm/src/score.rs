//! What an agent's word weighs in an election, and what it must show for it (ASIP 2, 44a).

use std::collections::{BTreeMap, btree_map::Entry};

use skep_base::{Did, Hash32};
use skep_wire::swarm::{Evidence, Quality, Score, Share, SignedAttestation};

use crate::draw;

#[cfg(test)]
mod tests;

/// Who claims less cannot stand for Tier 1.
pub const COMPOSITE_MIN: Share = Share::percent(30);
/// Nor can who was away for more than half of an epoch.
pub const UPTIME_MIN: Share = Share::percent(50);
/// What every member's vote weighs at least (decision 44a).
pub const WEIGHT_MIN: Share = Share::percent(10);
/// How many stand in one election; better ones displace the weakest.
pub const CANDIDATES_MAX: usize = 100;
/// How many members the beacon draws to watch one agent: two dishonest ones cannot move a median.
pub const ATTESTERS: usize = 5;
/// How many attestations are looked at: two qualities by each attester in two epochs, and room for
/// issuers. Each costs a signature check, so a stranger cannot send more of them to us.
pub const EVIDENCE_MAX: usize = 64;

/// 0.25 proof of compute + 0.40 reputation + 0.20 uptime + 0.15 stake, rounded down.
pub fn composite(score: &Score) -> Share {
    weigh(score.proof_of_compute, score.reputation, score.uptime, score.stake)
}

fn weigh(proof_of_compute: Share, reputation: Share, uptime: Share, stake: Share) -> Share {
    let sum_e8 = 25 * u64::from(proof_of_compute.e6())
        + 40 * u64::from(reputation.e6())
        + 20 * u64::from(uptime.e6())
        + 15 * u64::from(stake.e6());
    Share::from_e6((sum_e8 / 100) as u32)
}

/// Whether a score is enough for a candidacy.
pub fn may_stand(score: &Score) -> bool {
    composite(score) >= COMPOSITE_MIN && score.uptime >= UPTIME_MIN
}

/// What an agent can show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidenced {
    pub proof_of_compute: Share,
    pub reputation: Share,
    pub uptime: Share,
    pub stake: Share,
}

/// Whose attestations a swarm believes.
pub trait Trust {
    /// Signed by an issuer of reputations or stakes that the swarm trusts.
    fn issuer_signed(&self, a: &SignedAttestation) -> bool;
    /// Signed by the member that it names.
    fn witness_signed(&self, a: &SignedAttestation) -> bool;
    /// Who was drawn to watch the subject: see [`attesters`].
    fn attesters(&self, subject: &Did) -> Vec<Did>;
}

/// The members that watch a subject: those with the lowest lots, itself apart.
pub fn attesters(beacon: &Hash32, subject: &Did, members: &[Did]) -> Vec<Did> {
    let others: Vec<Did> = members.iter().filter(|did| *did != subject).copied().collect();
    let mut drawn = draw::by_lot(beacon, &subject.to_string(), &others);
    drawn.truncate(ATTESTERS);
    drawn
}

/// What the evidence shows of a subject in an epoch.
///
/// Of reputation and stake the best that a trusted issuer signed: who shows its own evidence
/// chooses it anyway. Of uptime and proof of compute the lower median over its attesters.
pub fn evidenced(subject: &Did, epoch: u64, evidence: &Evidence, trust: &dyn Trust) -> Evidenced {
    let mut attesters = trust.attesters(subject);
    attesters.sort_unstable();
    attesters.dedup();
    attesters.retain(|did| did != subject);
    let mut shown = Evidenced::default();
    let (mut compute, mut uptime) = (Attested::default(), Attested::default());
    for signed in evidence.0.iter().take(EVIDENCE_MAX) {
        let said = &signed.attestation;
        // Evidence of the last epoch counts, too: this one's is still being made.
        let recent = said.epoch == epoch || said.epoch.checked_add(1) == Some(epoch);
        if said.subject != *subject || !recent {
            continue;
        }
        let by_attester =
            || attesters.binary_search(&said.attester).is_ok() && trust.witness_signed(signed);
        match said.quality {
            Quality::Reputation if trust.issuer_signed(signed) => {
                shown.reputation = shown.reputation.max(said.value);
            }
            Quality::Stake if trust.issuer_signed(signed) => {
                shown.stake = shown.stake.max(said.value);
            }
            Quality::ProofOfCompute if by_attester() => compute.add(signed),
            Quality::Uptime if by_attester() => uptime.add(signed),
            Quality::Reputation | Quality::Stake | Quality::ProofOfCompute | Quality::Uptime => {}
        }
    }
    shown.proof_of_compute = compute.lower_median(attesters.len());
    shown.uptime = uptime.lower_median(attesters.len());
    shown
}

/// What each attester said, once: its newest word, and of two in one epoch the lower.
#[derive(Default)]
struct Attested(BTreeMap<Did, (u64, Share)>);

impl Attested {
    fn add(&mut self, signed: &SignedAttestation) {
        let said = &signed.attestation;
        match self.0.entry(said.attester) {
            Entry::Vacant(entry) => {
                entry.insert((said.epoch, said.value));
            }
            Entry::Occupied(mut entry) => {
                let (epoch, value) = *entry.get();
                if said.epoch > epoch || (said.epoch == epoch && said.value < value) {
                    entry.insert((said.epoch, said.value));
                }
            }
        }
    }

    /// Who said nothing counts as 0.
    fn lower_median(&self, attesters: usize) -> Share {
        let mut values: Vec<Share> = self.0.values().map(|(_, value)| *value).collect();
        values.resize(attesters, Share::ZERO);
        values.sort_unstable();
        values.get(attesters.saturating_sub(1) / 2).copied().unwrap_or(Share::ZERO)
    }
}

/// Whether more is claimed than is shown (-32003).
pub fn beyond_evidence(claimed: &Score, evidenced: &Evidenced) -> bool {
    claimed.proof_of_compute > evidenced.proof_of_compute
        || claimed.reputation > evidenced.reputation
        || claimed.uptime > evidenced.uptime
        || claimed.stake > evidenced.stake
}

/// What an agent's vote weighs.
pub fn weight(evidenced: &Evidenced) -> Share {
    let Evidenced { proof_of_compute, reputation, uptime, stake } = *evidenced;
    weigh(proof_of_compute, reputation, uptime, stake).max(WEIGHT_MIN)
}
