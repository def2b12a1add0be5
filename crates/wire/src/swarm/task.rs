//! Work: tasks, plans, boards, ballots and results (ASIP 5–11, 14–19).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use skep_base::{Did, Hash32, Timestamp, ed25519::PublicKey};

use super::{KeyLink, Share, text::at_most};

/// Parts that a task names: as many as a plan may have.
pub const TASK_SUBTASKS_MAX: usize = 64;
/// Capabilities that a task or a part of a plan asks for.
pub const REQUIRED_MAX: usize = 32;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskStatus {
    #[default]
    Pending,
    ProposalPhase,
    VotingPhase,
    InProgress,
    Completed,
    Failed,
    Rejected,
}

/// How much of a DID is in the names that tasks have by it.
const TAG_DIGITS: usize = 16;

/// The bytes that a task's id grows by, with whose it is.
pub const TAG_LEN: usize = TAG_DIGITS + 1;

fn tag(by: &Did) -> String {
    let mut text = by.fingerprint().to_string();
    text.truncate(TAG_DIGITS);
    format!("@{text}")
}

/// The id of a task with the one who orders it: two may choose the same id, and nobody takes
/// another one's.
pub fn named(task_id: &str, by: &Did) -> String {
    let tag = tag(by);
    if task_id.ends_with(&tag) { task_id.to_owned() } else { format!("{task_id}{tag}") }
}

pub fn is_named_by(task_id: &str, by: &Did) -> bool {
    task_id.ends_with(&tag(by))
}

/// An id as people write it: without who ordered the task and its parts.
pub fn plain_id(task_id: &str) -> String {
    let mut parts = task_id.split('@');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| match part.split_at_checked(TAG_DIGITS) {
        Some((tag, rest)) if tag.bytes().all(|byte| byte.is_ascii_hexdigit()) => text + rest,
        _ => text + "@" + part,
    })
}

/// 5, 9: a task or a part of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    pub task_id: String,
    #[serde(default)]
    pub parent_task_id: Option<String>,
    pub epoch: u64,
    #[serde(default)]
    pub status: TaskStatus,
    pub description: String,
    #[serde(default)]
    pub assigned_to: Option<Did>,
    pub tier_level: u32,
    #[serde(default, deserialize_with = "at_most::list::<_, _, TASK_SUBTASKS_MAX>")]
    pub subtasks: Vec<String>,
    pub created_at: Timestamp,
    pub deadline: Timestamp,
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "at_most::list::<_, _, REQUIRED_MAX>"
    )]
    pub capabilities_required: Vec<String>,
    /// How deep it lies below the task that came from outside.
    #[serde(default, skip_serializing_if = "is_default")]
    pub depth: u32,
    /// Its place among its parent's parts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub index: u32,
    /// How hard it is, by the plan that made it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub complexity: Share,
    /// Whoever injected it wants to see the plan before anybody works.
    #[serde(default, skip_serializing_if = "is_default")]
    pub needs_approval: bool,
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// 5. `task.inject`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inject {
    pub task: Task,
    pub originator: Did,
    /// The originator need not be a member: its key comes along.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "super::key_text::option")]
    pub pub_key: Option<PublicKey>,
    /// How the DID's first key became this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key_chain: Vec<KeyLink>,
}

/// 6. `consensus.proposal_commit`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    pub task_id: String,
    pub proposer: Did,
    pub epoch: u64,
    pub plan_hash: Hash32,
}

/// 7. A part of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subtask {
    pub index: u32,
    pub description: String,
    #[serde(default, deserialize_with = "at_most::list::<_, _, REQUIRED_MAX>")]
    pub required_capabilities: Vec<String>,
    pub estimated_complexity: Share,
}

/// 7. How somebody would divide a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub plan_id: String,
    pub task_id: String,
    pub proposer: Did,
    pub epoch: u64,
    pub subtasks: Vec<Subtask>,
    pub rationale: String,
    pub estimated_parallelism: Share,
    pub created_at: Timestamp,
    /// Unguessable, so that a commit tells nothing (decision 50).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub salt: Option<String>,
}

/// 7. `consensus.proposal_reveal`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reveal {
    pub task_id: String,
    pub plan: Plan,
}

/// 8, 19: what a critic gives a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CriticScore {
    pub feasibility: Share,
    pub parallelism: Share,
    pub completeness: Share,
    pub risk: Share,
}

/// 8. `consensus.vote`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanVote {
    pub task_id: String,
    pub epoch: u64,
    pub voter: Did,
    pub rankings: Vec<String>,
    #[serde(default)]
    pub critic_scores: BTreeMap<String, CriticScore>,
}

/// 9. `task.assign`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assign {
    pub task: Task,
    pub assignee: Did,
    pub parent_task_id: String,
    pub winning_plan_id: String,
}

/// 10. What was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    pub artifact_id: String,
    pub task_id: String,
    pub producer: Did,
    /// CIDv1, raw, SHA-256 (decision 49).
    pub content_cid: String,
    /// The root over the content's chunks, or over the parts' artifacts (decision 47).
    pub merkle_hash: Hash32,
    pub content_type: String,
    pub size_bytes: u64,
    pub created_at: Timestamp,
}

/// A part's place in the result of the whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub index: u64,
    pub size: u64,
    pub hashes: Vec<Hash32>,
}

/// 10. `task.submit_result`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmitResult {
    pub task_id: String,
    pub agent_id: Did,
    pub artifact: Artifact,
    #[serde(default)]
    pub merkle_proof: Vec<Hash32>,
    /// The content itself; that of an aggregate is its pieces. Without it nothing is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The parts of which an aggregate is made, in the order of their index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Artifact>,
}

/// 11. `task.verification`; by the originator about the plan of a task that needs approval, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    pub task_id: String,
    pub agent_id: Did,
    pub accepted: bool,
    #[serde(default)]
    pub reason: Option<String>,
    /// The plan that is approved or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_id: Option<String>,
    /// The content that a coordinator has looked at: there may be several of one part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_cid: Option<String>,
}

/// 14. `board.invite`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invite {
    pub task_id: String,
    pub task_digest: String,
    pub complexity_estimate: Share,
    pub depth: u32,
    pub required_capabilities: Vec<String>,
    pub capacity: u32,
    pub chair: Did,
}

/// 15. `board.accept`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accept {
    pub task_id: String,
    pub agent_id: Did,
    pub active_tasks: u32,
    pub capabilities: Vec<String>,
    #[serde(default)]
    pub affinity_scores: BTreeMap<String, Share>,
}

/// 16. `board.decline`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decline {
    pub task_id: String,
    pub agent_id: Did,
}

/// 17. `board.ready`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    pub task_id: String,
    pub chair_id: Did,
    pub members: Vec<Did>,
    #[serde(default)]
    pub adversarial_critic: Option<Did>,
    /// Who votes beside the board (decision 44).
    #[serde(default)]
    pub senate: Vec<Did>,
    /// What is planned, as the one who wants it signed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
}

/// 18. `board.dissolve`; by the originator it is a cancellation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dissolve {
    pub task_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// 19. `discussion.critique`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Critique {
    pub task_id: String,
    pub voter_id: Did,
    pub round: u32,
    pub plan_scores: BTreeMap<String, CriticScore>,
    pub content: String,
}
