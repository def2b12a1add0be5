//! What a swarm agrees on before anything happens: its founders, its start, its patience.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use skep_base::{Did, Hash32, Timestamp, ed25519::PublicKey, hash::json_sha256};

/// All waiting times, in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// How long those who were elected stay in office.
    pub epoch_ms: u64,
    /// How long before its end the next election begins.
    pub election_ms: u64,
    /// ASIP 12.
    pub keepalive_ms: u64,
    /// ASIP 12: a leader that is not heard for so long is followed by another.
    pub silence_ms: u64,
    /// Decision 50.
    pub board_ms: u64,
    /// ASIP 6.
    pub commit_ms: u64,
    pub reveal_ms: u64,
    pub critique_ms: u64,
    pub vote_ms: u64,
    /// For one attempt at one part, and a board's time more where it is divided.
    pub execution_ms: u64,
    /// How long witnesses wait for a leader that has nothing to wait for.
    pub view_ms: u64,
    /// After how long something is sent again.
    pub resend_ms: u64,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            epoch_ms: 3_600_000,
            election_ms: 120_000,
            keepalive_ms: 10_000,
            silence_ms: 30_000,
            board_ms: 5_000,
            commit_ms: 60_000,
            reveal_ms: 60_000,
            critique_ms: 60_000,
            vote_ms: 120_000,
            execution_ms: 420_000,
            view_ms: 15_000,
            resend_ms: 3_000,
        }
    }
}

impl Timing {
    /// From a board's first word to its last ballot, unless the vote is held longer.
    pub fn deliberation_ms(&self) -> u64 {
        self.commit_ms + self.reveal_ms + self.critique_ms + self.vote_ms
    }

    /// The longest time from the first invitation to the last ballot, voting twice as long once.
    pub fn planning_ms(&self) -> u64 {
        self.board_ms + self.deliberation_ms() + 2 * self.vote_ms + self.view_ms
    }

    /// How long one attempt at a part may take that so many boards, one below the other, may
    /// divide: each of them plans first.
    pub fn part_ms(&self, levels: u64) -> u64 {
        self.execution_ms + levels * self.planning_ms()
    }

    /// How long one coordinator may take for its parts, of which so many boards, one below the
    /// other, may divide the hardest: a first attempt and some others, and each of the first two
    /// may have to be planned.
    pub fn coordination_ms(&self, levels: u64) -> u64 {
        4 * self.execution_ms + 2 * levels * self.planning_ms()
    }
}

/// A swarm's first document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Genesis {
    pub swarm: String,
    pub start: Timestamp,
    /// Those who are members in the first epoch.
    pub founders: Vec<PublicKey>,
    /// Whose word about reputation and stake counts.
    pub issuers: Vec<PublicKey>,
    /// Zero bits that a proof of work needs.
    pub difficulty: u32,
    pub timing: Timing,
}

impl Genesis {
    pub fn hash(&self) -> Hash32 {
        json_sha256(self).expect("a genesis document holds texts and small numbers")
    }

    /// Decision 46. The first epoch is 1.
    pub fn epoch_at(&self, now: Timestamp) -> u64 {
        let since = now.since(self.start).as_millis();
        let passed = since / u128::from(self.timing.epoch_ms.max(1));
        1 + u64::try_from(passed).unwrap_or(u64::MAX - 1)
    }

    pub fn epoch_start(&self, epoch: u64) -> Timestamp {
        let passed = epoch.saturating_sub(1).saturating_mul(self.timing.epoch_ms);
        self.start.plus(Duration::from_millis(passed))
    }

    /// When the election for an epoch begins.
    pub fn election_start(&self, epoch: u64) -> Timestamp {
        self.epoch_start(epoch).minus(Duration::from_millis(self.timing.election_ms))
    }

    pub fn is_issuer(&self, did: &Did) -> bool {
        self.issuers.iter().any(|key| key.did() == *did)
    }
}
