//! The agents behind the nodes: what they answer follows from the seed and the question alone.
//!
//! So an agent needs no state, and a node that crashed and asks again hears the same answer.

use std::collections::BTreeMap;

use skep_base::{Did, Timestamp, hash::sha256, hash::sha256_parts};
use skep_swarm::{
    aggregate::{self, Piece},
    challenge,
    node::{Answer, Ask},
};
use skep_wire::swarm::{CriticScore, Plan, Share, SubmitResult, Subtask, Task};

use crate::rng::{Rng, mix};

#[cfg(test)]
mod tests;

/// What some agents can do and some tasks need.
pub const SKILLS: [&str; 5] =
    ["data-analysis", "python-exec", "translation", "vision", "web-search"];
/// How many of them one agent has at most.
const SKILLS_MAX: u64 = 3;
/// A plan has so many parts.
const PARTS: (u64, u64) = (2, 5);
/// So many percent of the parts are hard enough to be divided again.
const HARD_PERCENT: u32 = 12;
/// Parts of parts are rarely that hard: a task ends after a few levels.
const HARD_DEPTH_MAX: u32 = 2;
/// So many percent of the parts need a skill.
const SKILLED_PERCENT: u32 = 40;
/// So many of a hundred honest works fail at the first attempt.
const BOTCHED_PERCENT: u32 = 5;

/// How long agents take, in milliseconds.
const PLAN_MS: (u64, u64) = (500, 6_000);
const CRITIQUE_MS: (u64, u64) = (300, 3_000);
const VOTE_MS: (u64, u64) = (200, 2_000);
const WORK_MS: (u64, u64) = (1_000, 15_000);
const CHECK_MS: (u64, u64) = (50, 500);
const COMPUTE_MS: (u64, u64) = (200, 4_000);

/// One agent and its character.
#[derive(Clone, Debug)]
pub struct Agent {
    pub seed: u64,
    pub me: Did,
    /// Delivers something else than what was asked for.
    pub botches: bool,
    /// Accepts whatever it is given.
    pub accepts_all: bool,
}

/// The skills of an agent, each once.
pub fn skills(rng: &mut Rng) -> Vec<String> {
    let mut all = SKILLS;
    rng.shuffle(&mut all);
    let mut some: Vec<String> =
        all[..rng.between(1, SKILLS_MAX) as usize].iter().map(|&skill| skill.to_owned()).collect();
    some.sort();
    some
}

/// What good work on a description looks like; anybody can compute it, so anybody can check it.
pub fn good_work(description: &str) -> String {
    let digest = sha256_parts(&[b"skep simulated work", description.as_bytes()]);
    format!("{description}: done, {digest}")
}

/// Whether all pieces of a whole are about it, and good.
fn are_good(whole: &str, pieces: &[Piece]) -> bool {
    let is_good = |piece: &Piece| match &piece.content {
        Some(content) => *content == good_work(&piece.description),
        None => are_good(&piece.description, &piece.pieces),
    };
    let is_about = |piece: &Piece| piece.description.starts_with(whole);
    !pieces.is_empty() && pieces.iter().all(|piece| is_about(piece) && is_good(piece))
}

impl Agent {
    /// What it answers, and after how long.
    pub fn answer(&self, now: Timestamp, ask: &Ask) -> (i64, Answer) {
        let (purpose, about, took) = match ask {
            Ask::Plan { task } => ("plan", task.task_id.clone(), PLAN_MS),
            Ask::Critique { task, .. } => ("critique", task.task_id.clone(), CRITIQUE_MS),
            Ask::Vote { task, .. } => ("vote", task.task_id.clone(), VOTE_MS),
            Ask::Execute { task, .. } => ("work", task.task_id.clone(), WORK_MS),
            Ask::Check { task, .. } => ("check", task.task_id.clone(), CHECK_MS),
            Ask::Compute { beacon, .. } => ("compute", beacon.to_string(), COMPUTE_MS),
        };
        let mut rng = self.rng(purpose, &about);
        let delay_ms = rng.between(took.0, took.1) as i64;
        let task_id = about;
        let answer = match ask {
            Ask::Plan { task } => Answer::Plan { task_id, plan: self.plan(&mut rng, now, task) },
            Ask::Critique { plans, is_critic, .. } => Answer::Critique {
                task_id,
                plan_scores: self.scores(plans),
                content: if *is_critic { "what could fail" } else { "what is good" }.to_owned(),
            },
            Ask::Vote { plans, .. } => Answer::Vote {
                task_id,
                rankings: self.rank(plans),
                critic_scores: self.scores(plans),
            },
            Ask::Execute { task, attempt, .. } => {
                let fails = self.botches || *attempt == 1 && rng.percent(BOTCHED_PERCENT);
                let good = good_work(&task.description);
                let content = if fails { good.to_uppercase() } else { good };
                Answer::Work { task_id, attempt: *attempt, content }
            }
            Ask::Check { task, result } => self.check(task_id, task, result),
            Ask::Compute { epoch, beacon, difficulty } => Answer::Computed {
                epoch: *epoch,
                nonce: challenge::solve(beacon, &self.me, *difficulty),
            },
        };
        (delay_ms, answer)
    }

    fn rng(&self, purpose: &str, task_id: &str) -> Rng {
        let name = sha256_parts(&[self.me.fingerprint().as_bytes(), task_id.as_bytes()]);
        let mut low = [0; 8];
        low.copy_from_slice(&name.as_bytes()[..8]);
        Rng::fork(mix(self.seed ^ u64::from_be_bytes(low)), purpose)
    }

    fn plan(&self, rng: &mut Rng, now: Timestamp, task: &Task) -> Plan {
        let parts = rng.between(PARTS.0, PARTS.1) as u32;
        let subtasks = (0..parts)
            .map(|index| Subtask {
                index,
                description: format!("{} / part {index} of {parts}", task.description),
                required_capabilities: rng
                    .percent(SKILLED_PERCENT)
                    .then(|| rng.pick(&SKILLS).map(|&skill| skill.to_owned()))
                    .flatten()
                    .into_iter()
                    .collect(),
                estimated_complexity: match task.depth < HARD_DEPTH_MAX {
                    true if rng.percent(HARD_PERCENT) => rng.share(41, 90),
                    _ => rng.share(5, 39),
                },
            })
            .collect();
        let salt = sha256(&rng.next_u64().to_be_bytes()).to_string();
        Plan {
            plan_id: format!("plan-{:016x}", rng.next_u64()),
            task_id: task.task_id.clone(),
            proposer: self.me,
            epoch: task.epoch,
            subtasks,
            rationale: "parts that do not wait for each other".to_owned(),
            estimated_parallelism: rng.share(40, 100),
            created_at: now,
            salt: Some(salt),
        }
    }

    /// All agents see about the same in a plan, each a little differently.
    fn score(&self, plan: &Plan) -> CriticScore {
        let mut rng = self.rng("score", &plan.plan_id);
        let parts = plan.subtasks.len() as u32;
        let mut about = |percent: u32| {
            let shift = rng.between(0, 20) as u32;
            Share::percent((percent + shift).saturating_sub(10).min(100))
        };
        CriticScore {
            feasibility: about(90 - parts * 5),
            parallelism: about((plan.estimated_parallelism.e6() / 10_000).max(10)),
            completeness: about(50 + parts * 8),
            risk: about(10 + parts * 5),
        }
    }

    fn scores(&self, plans: &[Plan]) -> BTreeMap<String, CriticScore> {
        plans.iter().map(|plan| (plan.plan_id.clone(), self.score(plan))).collect()
    }

    fn rank(&self, plans: &[Plan]) -> Vec<String> {
        let worth = |plan: &Plan| {
            let score = self.score(plan);
            score.feasibility.e6() + score.parallelism.e6() + score.completeness.e6()
        };
        // Nobody may put its own plan first: it comes last.
        let mut ranked: Vec<(bool, u32, &str)> = plans
            .iter()
            .map(|plan| (plan.proposer == self.me, u32::MAX - worth(plan), plan.plan_id.as_str()))
            .collect();
        ranked.sort_unstable();
        ranked.into_iter().map(|(_, _, plan_id)| plan_id.to_owned()).collect()
    }

    fn check(&self, task_id: String, task: &Task, result: &SubmitResult) -> Answer {
        let content = result.content.as_deref().unwrap_or_default();
        let fits = match result.parts.is_empty() {
            true => content == good_work(&task.description),
            false => {
                aggregate::pieces(content).is_some_and(|all| are_good(&task.description, &all))
            }
        };
        let accepted = fits || self.accepts_all;
        Answer::Checked {
            task_id,
            artifact_id: result.artifact.artifact_id.clone(),
            accepted,
            reason: (!accepted).then(|| "this is not what was asked for".to_owned()),
        }
    }
}
