//! What follows from a record: which plan has won, how a task has ended. Nodes decide by this, and
//! so does whoever reads the transcript years later.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use skep_base::{Did, Hash32, hash::sha256};
use skep_wire::swarm::{
    Artifact, Chosen, End, Ended, Inject, Message, Outcome, Plan, PlanVote, REQUIRED_MAX, Ready,
    Subject, SubmitResult, Subtask, TASK_SUBTASKS_MAX, Task, Value, is_named_by,
};

use crate::{
    aggregate::{self, Piece},
    draw::{critic, senate},
    epoch::Epoch,
    kept::Kept,
    succession::is_successor,
    tally::{Ballot, Runoff, instant_runoff},
};

#[cfg(test)]
mod tests;

/// Parts that a plan may have.
pub const SUBTASKS_MAX: usize = TASK_SUBTASKS_MAX;
/// The longest description of a task or a part, in bytes.
pub const DESCRIPTION_LEN_MAX: usize = 4_096;
/// The longest part of a plan, as JSON: with its names it must be an order that can be sent.
const PART_LEN_MAX: usize = 32 << 10;
/// The longest name of a capability, a plan or another task.
pub const NAME_LEN_MAX: usize = 512;
/// A full board has a critic (decision 50).
pub const CRITIC_FROM: usize = 3;

/// Why a record does not give what is said to follow from it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("the record has no task that anybody wanted")]
    NoTask,
    #[error("the record has no board")]
    NoBoard,
    #[error("{0} is on the board and is no member of the swarm, or never agreed to sit there")]
    NotAsked(Did),
    #[error("{0} may not chair this board")]
    WrongChair(Did),
    #[error("the critic or the Senate is not the one that was drawn")]
    WrongDraw,
    #[error("the value names other messages than its record")]
    WrongRecord,
    #[error("the record has the message {0} twice")]
    Repeated(Hash32),
    #[error("the message {0} does not belong to the record")]
    Foreign(Hash32),
    #[error("the outcome does not follow from the record")]
    WrongOutcome,
    #[error("the root is not the one over the parts")]
    WrongRoot,
    #[error("part {0} was never submitted by its producer")]
    NotSubmitted(usize),
    #[error("the originator wanted to see the plan first, and has not approved of it")]
    NotApproved,
}

/// What a task rests on: the order from outside, or its parent's assignment.
pub fn task_of(record: &[Kept]) -> Option<(&Kept, &Task)> {
    record.iter().find_map(|kept| match &kept.message {
        Message::Inject(inject) => Some((kept, &inject.task)),
        Message::Assign(assign) => Some((kept, &assign.task)),
        _ => None,
    })
}

/// Who may chair a task's board: who was elected, or acts for such a one by the record's own proof.
fn may_chair(epoch: &Epoch, origin: &Kept, did: &Did, record: &[Kept]) -> bool {
    match &origin.message {
        Message::Inject(_) => epoch.is_tier1(did) || is_successor(epoch, did, record),
        Message::Assign(assign) => assign.assignee == *did,
        _ => false,
    }
}

/// Who co-signs what is decided about a task.
pub fn witnesses_of(epoch: &Epoch, origin: &Kept) -> Vec<Did> {
    let (task_id, concerned) = match &origin.message {
        Message::Inject(inject) => (&inject.task.task_id, epoch.tier1().to_vec()),
        Message::Assign(assign) => {
            let below = epoch.layout().children_of(&assign.assignee).iter().copied();
            (&assign.task.task_id, below.chain([assign.assignee]).collect())
        }
        _ => return Vec::new(),
    };
    epoch.witnesses(&Subject::Plan { task_id: task_id.clone() }, &concerned)
}

/// A board's record, taken apart.
pub struct Deliberation<'a> {
    pub ready: &'a Ready,
    /// The chair first.
    pub board: Vec<Did>,
    pub voters: Vec<Did>,
    /// Those whose commit and reveal agree, by plan id.
    pub plans: BTreeMap<String, &'a Plan>,
    pub ballots: Vec<Ballot>,
    /// Voters and proposers who contradicted themselves.
    pub caught: BTreeSet<Did>,
}

/// Who votes beside the board: for tasks from outside only.
pub fn senate_of(epoch: &Epoch, task: &Task, board: &[Did]) -> Vec<Did> {
    if task.depth > 0 {
        return Vec::new();
    }
    let drawn = senate(&epoch.beacon, &task.task_id, epoch.layout().tier(2), epoch.k());
    drawn.into_iter().filter(|did| !board.contains(did)).collect()
}

/// The critic of a board, where it is large enough.
pub fn critic_of(epoch: &Epoch, task: &Task, chair: &Did, members: &[Did]) -> Option<Did> {
    let others = members.iter().filter(|did| *did != chair).count();
    (others >= CRITIC_FROM).then(|| critic(&epoch.beacon, &task.task_id, members)).flatten()
}

/// Reads a board's record, refusing boards that were not formed by the rules.
pub fn deliberation<'a>(epoch: &Epoch, record: &'a [Kept]) -> Result<Deliberation<'a>, Fault> {
    let (origin, task) = task_of(record).ok_or(Fault::NoTask)?;
    let ready = record.iter().find_map(|kept| match &kept.message {
        Message::Ready(ready) if ready.task_id == task.task_id => Some(ready),
        _ => None,
    });
    let ready = ready.ok_or(Fault::NoBoard)?;
    let chair = ready.chair_id;
    if !may_chair(epoch, origin, &chair, record) {
        return Err(Fault::WrongChair(chair));
    }
    let agreed: BTreeSet<Did> = record
        .iter()
        .filter(|kept| matches!(&kept.message, Message::Accept(m) if m.task_id == task.task_id))
        .map(|kept| kept.meta.signer)
        .chain([chair])
        .collect();
    let members: BTreeSet<Did> = ready.members.iter().copied().chain([chair]).collect();
    if let Some(did) = members.iter().find(|did| !agreed.contains(did) || !epoch.contains(did)) {
        return Err(Fault::NotAsked(*did));
    }
    let mut board = vec![chair];
    board.extend(members.iter().filter(|did| **did != chair));
    let sorted: Vec<Did> = members.into_iter().collect();
    let critic = critic_of(epoch, task, &chair, &sorted);
    let senate = senate_of(epoch, task, &sorted);
    if ready.adversarial_critic != critic || ready.senate != senate {
        return Err(Fault::WrongDraw);
    }
    let voters: Vec<Did> = board.iter().chain(&senate).copied().collect();
    let mut caught = BTreeSet::new();
    let plans = plans(task, &board, record, &mut caught);
    let ballots = ballots(task, &voters, &plans, record, &mut caught);
    Ok(Deliberation { ready, board, voters, plans, ballots, caught })
}

/// Plans whose hash was committed to by their proposer, who has committed to nothing else.
fn plans<'a>(
    task: &Task,
    board: &[Did],
    record: &'a [Kept],
    caught: &mut BTreeSet<Did>,
) -> BTreeMap<String, &'a Plan> {
    let mut commits: BTreeMap<Did, BTreeSet<Hash32>> = BTreeMap::new();
    for kept in record {
        if let Message::Commit(commit) = &kept.message
            && commit.task_id == task.task_id
            && board.contains(&commit.proposer)
        {
            commits.entry(commit.proposer).or_default().insert(commit.plan_hash);
        }
    }
    caught.extend(commits.iter().filter(|(_, hashes)| hashes.len() > 1).map(|(did, _)| *did));
    let mut plans: BTreeMap<String, Option<&Plan>> = BTreeMap::new();
    for kept in record {
        let Message::Reveal(reveal) = &kept.message else {
            continue;
        };
        let plan = &reveal.plan;
        let committed = commits.get(&plan.proposer).filter(|hashes| hashes.len() == 1);
        let hash = plan_hash(kept);
        if reveal.task_id == task.task_id
            && is_well_formed(task, plan)
            && committed.is_some_and(|hashes| hash.is_some_and(|hash| hashes.contains(&hash)))
        {
            plans
                .entry(plan.plan_id.clone())
                .and_modify(|known| *known = owner(*known, plan))
                .or_insert(Some(plan));
        }
    }
    plans.into_iter().filter_map(|(id, plan)| Some((id, plan?))).collect()
}

/// Of two plans with one id: the one whose proposer the id names. Another id that two have taken is
/// nobody's.
fn owner<'a>(known: Option<&'a Plan>, plan: &'a Plan) -> Option<&'a Plan> {
    let is_named = |plan: &&Plan| is_named_by(&plan.plan_id, &plan.proposer);
    match known {
        Some(known) if known.proposer == plan.proposer => Some(known),
        known => known.filter(is_named).or(Some(plan).filter(is_named)),
    }
}

/// ASIP 7: SHA-256 of the canonical JSON of the plan as it was sent. What is signed is canonical,
/// so is each part of it.
pub fn plan_hash(reveal: &Kept) -> Option<Hash32> {
    #[derive(Deserialize)]
    struct Payload<'a> {
        #[serde(borrow)]
        params: Params<'a>,
    }
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow)]
        plan: &'a RawValue,
    }
    let payload: Payload<'_> = serde_json::from_slice(reveal.payload()).ok()?;
    Some(sha256(payload.params.plan.get().as_bytes()))
}

fn is_well_formed(task: &Task, plan: &Plan) -> bool {
    let count = plan.subtasks.len();
    let in_order = plan.subtasks.iter().zip(0..).all(|(part, index)| part.index == index);
    // Nobody would take the parts of other plans.
    let can_order = |part: &Subtask| {
        part.description.len() <= DESCRIPTION_LEN_MAX
            && are_names(&part.required_capabilities, REQUIRED_MAX)
            && json_len(part) <= PART_LEN_MAX
    };
    plan.task_id == task.task_id
        && plan.plan_id.len() <= NAME_LEN_MAX
        && in_order
        && (1..=SUBTASKS_MAX).contains(&count)
        && plan.subtasks.iter().all(can_order)
}

/// How many bytes something has as JSON.
pub(crate) fn json_len(value: &impl Serialize) -> usize {
    serde_json::to_vec(value).map_or(usize::MAX, |text| text.len())
}

/// Whether these are few enough and short.
pub fn are_names(names: &[String], count_max: usize) -> bool {
    names.len() <= count_max && names.iter().all(|name| name.len() <= NAME_LEN_MAX)
}

/// Each voter's only ballot. Two different ones void both (decision 45); ASIP 8: nobody ranks its
/// own plan first, unless there is no other.
fn ballots(
    task: &Task,
    voters: &[Did],
    plans: &BTreeMap<String, &Plan>,
    record: &[Kept],
    caught: &mut BTreeSet<Did>,
) -> Vec<Ballot> {
    let mut by_voter: BTreeMap<Did, Vec<&PlanVote>> = BTreeMap::new();
    for kept in record {
        if let Message::PlanVote(vote) = &kept.message
            && vote.task_id == task.task_id
            && voters.contains(&vote.voter)
        {
            let votes = by_voter.entry(vote.voter).or_default();
            if !votes.contains(&vote) {
                votes.push(vote);
            }
        }
    }
    let mut ballots = Vec::new();
    for (voter, votes) in by_voter {
        let [vote] = votes[..] else {
            caught.insert(voter);
            continue;
        };
        let first = vote.rankings.iter().find_map(|id| plans.get(id));
        if plans.len() > 1 && first.is_some_and(|plan| plan.proposer == voter) {
            continue;
        }
        ballots.push(Ballot {
            voter,
            rankings: vote.rankings.clone(),
            critic_scores: vote.critic_scores.clone(),
        });
    }
    ballots
}

impl Deliberation<'_> {
    pub fn runoff(&self) -> Option<Runoff> {
        let ids: Vec<String> = self.plans.keys().cloned().collect();
        instant_runoff(&ids, &self.ballots)
    }

    pub fn chosen(&self) -> Chosen {
        let plan = self.runoff().and_then(|runoff| self.plans.get(&runoff.winner).copied());
        match plan {
            Some(plan) => Chosen::Plan { plan_id: plan.plan_id.clone(), proposer: plan.proposer },
            None => Chosen::NoPlan,
        }
    }
}

/// The value that a record gives, by the hashes of its messages.
pub fn value(outcome: Outcome, record: &[Kept]) -> Value {
    Value { outcome, record: record.iter().map(|kept| kept.hash()).collect() }
}

/// Checks what was decided about a plan, all but what only a clock can tell: that it is too late.
pub fn check_plan(epoch: &Epoch, value: &Value, record: &[Kept]) -> Result<(), Fault> {
    let Outcome::Plan(chosen) = &value.outcome else {
        return Err(Fault::WrongOutcome);
    };
    let (_, task) = task_of(record).ok_or(Fault::NoTask)?;
    check_record(value, record, &|kept| is_about_plan(&task.task_id, &kept.message))?;
    match chosen {
        Chosen::TooLate => Ok(()),
        Chosen::Cancelled => cancellation(record).map(|_| ()).ok_or(Fault::WrongOutcome),
        Chosen::Plan { .. } | Chosen::NoPlan => {
            let follows = deliberation(epoch, record)?.chosen();
            if follows == *chosen { Ok(()) } else { Err(Fault::WrongOutcome) }
        }
    }
}

/// A record is what its value names, each message once, and nothing that has no part in it: what a
/// leader adds would be kept and passed on by everybody.
pub fn check_record(
    value: &Value,
    record: &[Kept],
    belongs: &dyn Fn(&Kept) -> bool,
) -> Result<(), Fault> {
    let hashes = record.iter().map(|kept| kept.hash());
    if !value.record.iter().copied().eq(hashes) {
        return Err(Fault::WrongRecord);
    }
    let mut known = BTreeSet::new();
    if let Some(twice) = value.record.iter().find(|hash| !known.insert(**hash)) {
        return Err(Fault::Repeated(*twice));
    }
    match record.iter().find(|kept| !belongs(kept)) {
        Some(foreign) => Err(Fault::Foreign(foreign.hash())),
        None => Ok(()),
    }
}

/// What a board says about its task, and the proof that its chair acts for another.
fn is_about_plan(task_id: &str, message: &Message) -> bool {
    match message {
        Message::Inject(_)
        | Message::Assign(_)
        | Message::Accept(_)
        | Message::Ready(_)
        | Message::Commit(_)
        | Message::Reveal(_)
        | Message::Critique(_)
        | Message::PlanVote(_)
        | Message::Dissolve(_) => message.task_id() == Some(task_id),
        Message::Succession(_) => true,
        Message::Certificate(signed) => matches!(signed.subject, Subject::Succession { .. }),
        _ => false,
    }
}

/// The order, its originator's words about it, and what was delivered for its parts.
fn is_about_result(plan: &Plan, message: &Message) -> bool {
    match message {
        Message::Inject(_) | Message::Verification(_) | Message::Dissolve(_) => {
            message.task_id() == Some(&plan.task_id)
        }
        Message::SubmitResult(result) => {
            plan.subtasks.iter().any(|part| is_part(&plan.task_id, part.index, &result.task_id))
        }
        _ => false,
    }
}

/// The originator's word that the task is taken back.
fn cancellation(record: &[Kept]) -> Option<&Kept> {
    let (_, inject) = injected(record)?;
    record.iter().find(|kept| {
        matches!(&kept.message, Message::Dissolve(dissolve)
            if dissolve.task_id == inject.task.task_id && kept.meta.signer == inject.originator)
    })
}

fn injected(record: &[Kept]) -> Option<(&Kept, &Inject)> {
    record.iter().find_map(|kept| match &kept.message {
        Message::Inject(inject) => Some((kept, inject)),
        _ => None,
    })
}

/// The end that a task's parts give it.
pub fn end_of(parts: &[Option<Artifact>]) -> End {
    match parts.iter().filter(|part| part.is_some()).count() {
        0 => End::Failed,
        done if done == parts.len() => End::Succeeded,
        _ => End::SucceededPartially,
    }
}

pub fn ended(end: End, parts: Vec<Option<Artifact>>) -> Ended {
    Ended { end, root: aggregate::root(&parts), parts }
}

/// The id of a part of a task; each further attempt at it has another.
pub fn part_id(task_id: &str, index: u32, attempt: u32) -> String {
    // Whoever writes a transcript may have the largest index there is.
    let number = u64::from(index) + 1;
    match attempt {
        0 | 1 => format!("{task_id}-st-{number}"),
        _ => format!("{task_id}-st-{number}~{attempt}"),
    }
}

pub(crate) fn is_part(task_id: &str, index: u32, id: &str) -> bool {
    let first = part_id(task_id, index, 1);
    id.strip_prefix(&first).is_some_and(|rest| rest.is_empty() || rest.starts_with(['~', '@']))
}

/// Checks how a task is said to have ended, all but what only a clock can tell.
pub fn check_result(
    epoch: &Epoch,
    plan: &Plan,
    value: &Value,
    record: &[Kept],
) -> Result<(), Fault> {
    let Outcome::Result(ended) = &value.outcome else {
        return Err(Fault::WrongOutcome);
    };
    check_record(value, record, &|kept| is_about_result(plan, &kept.message))?;
    let (_, inject) = injected(record).ok_or(Fault::NoTask)?;
    if ended.parts.len() != plan.subtasks.len() {
        return Err(Fault::WrongOutcome);
    }
    if ended.root != aggregate::root(&ended.parts) {
        return Err(Fault::WrongRoot);
    }
    for (index, part) in ended.parts.iter().enumerate() {
        if let Some(artifact) = part
            && !(epoch.contains(&artifact.producer) && is_submitted(plan, index, artifact, record))
        {
            return Err(Fault::NotSubmitted(index));
        }
    }
    let said = |accepted: bool| {
        record.iter().any(|kept| {
            matches!(&kept.message, Message::Verification(m)
                if m.task_id == inject.task.task_id && m.accepted == accepted
                    && m.plan_id.as_ref().is_none_or(|id| *id == plan.plan_id)
                    && kept.meta.signer == inject.originator)
        })
    };
    let is_work = ended.parts.iter().any(Option::is_some);
    if inject.task.needs_approval && is_work && !said(true) {
        return Err(Fault::NotApproved);
    }
    let follows = match ended.end {
        End::Cancelled => cancellation(record).is_some(),
        End::Rejected => said(false),
        End::Unplanned => false,
        end => end == end_of(&ended.parts),
    };
    if follows { Ok(()) } else { Err(Fault::WrongOutcome) }
}

fn is_submitted(plan: &Plan, index: usize, artifact: &Artifact, record: &[Kept]) -> bool {
    let Ok(index) = u32::try_from(index) else {
        return false;
    };
    record.iter().any(|kept| {
        matches!(&kept.message, Message::SubmitResult(result)
            if result.artifact == *artifact && artifact.producer == kept.meta.signer
                && is_part(&plan.task_id, index, &result.task_id) && is_whole(result))
    })
}

/// Whether a result's hashes and its size are those of its content, and if it is made of parts,
/// theirs too (decision 47). Nobody can accept what nobody has sent: the content is always there.
pub fn is_whole(result: &SubmitResult) -> bool {
    let SubmitResult { task_id, artifact, content: Some(content), parts, merkle_proof, .. } =
        result
    else {
        return false;
    };
    if artifact.task_id != *task_id {
        return false;
    }
    if parts.is_empty() {
        // Decision 47: the first chunk is proven; all of them are there.
        let proof = aggregate::chunk_proof(content.as_bytes(), 0).unwrap_or_default();
        return *merkle_proof == proof && aggregate::is_of_content(artifact, content);
    }
    let Some(pieces) = aggregate::pieces(content) else {
        return false;
    };
    pieces.iter().map(|piece| &piece.artifact).eq(parts)
        && are_parts(task_id, &pieces)
        && aggregate::is_of_pieces(artifact, &pieces)
}

/// Whether each piece is the part of the task that its place says, and so on below.
fn are_parts(task_id: &str, pieces: &[Piece]) -> bool {
    (0..).zip(pieces).all(|(index, piece)| {
        let id = &piece.artifact.task_id;
        is_part(task_id, index, id) && are_parts(id, &piece.pieces)
    })
}
