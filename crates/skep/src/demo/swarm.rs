//! The part of the story in which a swarm with many liars plans a task, and proves it.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use skep_base::ed25519::SecretKey;
use skep_sim::{Report, Setup, TaskOutcome};
use skep_swarm::transcript::{TaskReport, Transcript};
use skep_wire::swarm::{Chosen, Message, Meta, Outcome, Signed, Step, Subject, Word};

use super::Story;
use crate::swarm::{short, simulate::transcript, verify::subject};

const NODES: usize = 31;
/// As many as a swarm of this size bears.
const LIARS: usize = 10;
/// Some clients take their task back: the first seed whose client does not is told about.
const SEEDS_MAX: u64 = 5;

/// What came of it.
#[derive(Debug, Default)]
pub struct Swarms {
    pub tasks_planned: u64,
    pub transcripts_checked: u64,
    pub transcripts_refused: u64,
}

pub fn tell(story: &mut Story<'_>) -> Result<Swarms> {
    story.chapter("A swarm of 31 simulated nodes, ten of them dishonest, plans a task")?;
    let (report, task) = planned()?;
    let after = |at_ms: i64| format!("{:.1} s", (at_ms - task.injected_ms) as f64 / 1_000.0);
    let counts = &report.counts;
    story.line(&format!(
        "{} messages, {} refused, {} forged; no invariant is broken",
        counts.messages, counts.refused, counts.forged
    ))?;
    if let (Some(planned_ms), Some(ended_ms)) = (task.planned_ms, task.ended_ms) {
        let (plan, end) = (after(planned_ms), after(ended_ms));
        story.line(&format!("the plan was certified after {plan}, the result after {end}"))?;
    }
    story.line(&format!("again: {}", report.setup.command()))?;
    checked(story, &report, &task.task_id)
}

fn planned() -> Result<(Report, TaskOutcome)> {
    for seed in 1..=SEEDS_MAX {
        let setup = Setup {
            byzantine: LIARS,
            real_signatures: true,
            keep_messages: true,
            ..Setup::calm(seed, NODES, 1)
        };
        let report = skep_sim::run(&setup);
        if let Some(violation) = report.violations.first() {
            anyhow::bail!("{violation}");
        }
        let planned = report.outcomes.iter().find(|task| task.planned_ms.is_some()).cloned();
        if let Some(task) = planned.filter(|task| task.ended_ms.is_some()) {
            return Ok((report, task));
        }
    }
    anyhow::bail!("no task was planned in {SEEDS_MAX} swarms")
}

/// `task_id`: the client's. Liars bring tasks of their own.
fn checked(story: &mut Story<'_>, report: &Report, task_id: &str) -> Result<Swarms> {
    story.chapter("A stranger has nothing but the transcript, and decides everything again")?;
    let written = transcript(report);
    let text = serde_json::to_vec(&written)?;
    let found = Transcript::read(&text)?.verify();
    ensure!(found.differences.is_empty(), "{:?}", found.differences);
    let planned = |task: &&TaskReport| {
        task.task_id == task_id && matches!(task.chosen, Some(Chosen::Plan { .. }))
    };
    let task = found.tasks.iter().find(planned).context("the plan is not in the transcript")?;
    story.line(&format!(
        "{} signed messages; {} of {} witnesses have certified the plan",
        found.messages, task.signatures, task.witnesses
    ))?;
    story.line(&format!(
        "{} on the board, {} in the Senate, {} plans, {} ballots, {} rounds: the same plan wins",
        task.board.len(),
        task.senate.len(),
        task.plans.len(),
        task.ballots,
        task.rounds.len()
    ))?;
    for liar in &task.caught {
        story.line(&format!("{} said two different things: neither counts", short(liar)))?;
    }
    let said = refusal(&with_other_ballot(written)?)?;
    story.line(&format!("with one ballot changed, it is refused: {said}"))?;
    let said = refusal(&with_other_winner(report, task_id)?)?;
    story.line(&format!("with another winner, signed by one liar: {said}"))?;
    let tasks_planned = found.tasks.iter().filter(planned).count() as u64;
    Ok(Swarms { tasks_planned, transcripts_checked: 1, transcripts_refused: 2 })
}

/// Why a transcript does not hold.
fn refusal(changed: &Value) -> Result<String> {
    match Transcript::read(&serde_json::to_vec(changed)?) {
        Err(error) => Ok(error.to_string()),
        Ok(read) => {
            let differences = read.verify().differences;
            let first = differences.first().context("a changed transcript holds")?;
            Ok(format!("{}: {}", subject(&first.about), first.why))
        }
    }
}

fn with_other_ballot(mut written: Value) -> Result<Value> {
    let messages = written["messages"].as_array_mut().context("there are messages")?;
    let ballot = messages.iter_mut().find(|message| message["method"] == "consensus.vote");
    ballot.context("somebody has voted")?["params"]["rankings"] = json!(["another plan"]);
    Ok(written)
}

/// A certificate of an outcome that only one has signed, with everybody's signatures for another.
fn with_other_winner(report: &Report, task_id: &str) -> Result<Value> {
    let key = SecretKey::from_seed([31; 32]);
    let mut messages = report.messages.clone();
    for message in &mut messages {
        let Message::Certificate(certificate) = &message.message else { continue };
        let mut certificate = certificate.clone();
        if let Word::Bundle { step: Step::Commit, value } = &mut certificate.word
            && matches!(&certificate.subject, Subject::Plan { task_id: id } if id == task_id)
        {
            value.outcome = Outcome::Plan(Chosen::NoPlan);
            let meta = Meta { signer: key.public().did(), ..message.meta.clone() };
            let body = Message::Certificate(certificate);
            *message = Arc::new(Signed::seal(meta, body, message.attached.clone(), &key));
        }
    }
    let mut keys = report.keys.clone();
    keys.learn(key.public());
    Ok(Transcript::write(&report.genesis, &keys, &messages))
}
