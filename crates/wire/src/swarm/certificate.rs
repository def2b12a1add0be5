//! `consensus.certificate`: how those concerned make one outcome final (decision 45).
//!
//! A leader proposes a value, the witnesses sign its hash twice, and the second set of
//! ⌊2n/3⌋+1 signatures is the certificate. A leader that fails is followed by the next one in
//! another view.

use serde::{Deserialize, Serialize};
use skep_base::{Did, Hash32};

use super::{Artifact, Share, Succession, task::is_default};

/// 20. `consensus.certificate`, a method of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate {
    pub subject: Subject,
    /// Counts the leaders that have been tried.
    pub view: u32,
    #[serde(flatten)]
    pub word: Word,
}

/// What an outcome is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "about", rename_all = "snake_case")]
pub enum Subject {
    /// Who follows those who were elected for an epoch. That is decided once, however many
    /// elections it takes: were it asked for each next epoch, two could follow one.
    Election {
        after: u64,
    },
    Succession {
        epoch: u64,
        leader: Did,
    },
    Plan {
        task_id: String,
    },
    Result {
        task_id: String,
    },
}

/// The two times that a witness signs a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    Prepare,
    Commit,
}

/// What a certificate message says. Messages it refers to are attached to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "snake_case")]
pub enum Word {
    /// The leader's value. Attached: the record, and the signatures that justify it.
    Propose { value: Value },
    /// A witness's signature.
    Sign { step: Step, hash: Hash32 },
    /// Enough signatures of one step, attached. With the value for those who have not seen it.
    Bundle { step: Step, value: Value },
    /// "I wait no longer." With the value that it has prepared, signatures and record attached.
    NextView {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prepared: Option<Prepared>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared {
    pub view: u32,
    pub value: Value,
}

/// An outcome and the messages from which it follows, by their hashes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value {
    pub outcome: Outcome,
    pub record: Vec<Hash32>,
}

impl Value {
    /// What witnesses sign.
    pub fn hash(&self) -> Hash32 {
        skep_base::hash::json_sha256(self).expect("a value has no floats out of range")
    }
}

/// What was decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    Election(Elected),
    Succession(Succession),
    Plan(Chosen),
    Result(Ended),
}

/// Who is in the swarm in an epoch, and who leads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Elected {
    pub epoch: u64,
    /// The epoch whose members have certified this one.
    pub previous: u64,
    /// By DID, in their order.
    pub members: Vec<Member>,
    /// The winners, best first.
    pub tier1: Vec<Did>,
}

/// What an election record says of one member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    pub did: Did,
    /// Its composite score as the evidence of its candidacy allows; least without one.
    pub weight: Share,
    /// Elections that it has let pass, and was not heard, since its last ballot.
    #[serde(default, skip_serializing_if = "is_default")]
    pub missed: u32,
    /// Where it is in the network, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_us: Option<[i64; 3]>,
}

/// The plan that won, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "chosen", rename_all = "snake_case")]
pub enum Chosen {
    Plan {
        plan_id: String,
        proposer: Did,
    },
    /// Nobody's plan counts.
    NoPlan,
    /// The deadline passed before there was one.
    TooLate,
    /// Whoever injected the task has taken it back.
    Cancelled,
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    pub end: End,
    /// The root over the parts' artifacts, in the order of their index.
    pub root: Hash32,
    /// One for each part of the plan; a missing one was not done.
    pub parts: Vec<Option<Artifact>>,
}

/// The ways a task can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    Succeeded,
    /// Some parts are missing.
    SucceededPartially,
    /// No part was done in time.
    Failed,
    /// There was no plan to follow.
    Unplanned,
    /// The originator did not approve of the plan.
    Rejected,
    Cancelled,
}
