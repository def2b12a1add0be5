//! What a simulation came to, for people and for programs.

use std::{collections::BTreeMap, io::Write};

use anyhow::Result;
use serde::Serialize;
use skep_base::Hash32;
use skep_sim::{Known, Report, TaskOutcome, Violation, Wish};
use skep_wire::swarm::{Chosen, Share, plain_id};

use crate::deal::words::word;

/// One run.
#[derive(Debug, Serialize)]
pub struct One {
    seed: u64,
    nodes: usize,
    loss: Share,
    duplication: Share,
    partitions: usize,
    crashes: usize,
    epoch_s: u64,
    /// What each dishonest node does, by its number.
    liars: BTreeMap<usize, Vec<String>>,
    tasks: Vec<Task>,
    events: u64,
    messages: u64,
    bytes: u64,
    lost: u64,
    refused: u64,
    forged: u64,
    restarts: u64,
    virtual_ms: i64,
    trace: String,
    violations: Vec<Broken>,
    /// The command that runs it again.
    pub replay: String,
}

#[derive(Debug, Serialize)]
struct Task {
    task_id: String,
    /// How it ended, as its client knows it.
    outcome: String,
    /// What its client wanted beside a result.
    wish: String,
    injected_ms: i64,
    planned_ms: Option<i64>,
    ended_ms: Option<i64>,
    parts: usize,
    parts_done: usize,
    root: Option<Hash32>,
}

#[derive(Debug, Serialize)]
struct Broken {
    seed: u64,
    invariant: &'static str,
    at_ms: i64,
    node: Option<usize>,
    what: String,
    replay: String,
}

impl Broken {
    fn new(seed: u64, violation: &Violation) -> Broken {
        Broken {
            seed,
            invariant: violation.invariant.name(),
            at_ms: violation.at_ms,
            node: violation.node,
            what: violation.what.clone(),
            replay: violation.replay.clone(),
        }
    }

    fn print(&self, out: &mut dyn Write) -> Result<()> {
        let node = self.node.map_or_else(String::new, |node| format!(" at node {node}"));
        let after = seconds(self.at_ms);
        writeln!(out, "BROKEN     {} after {after}{node}: {}", self.invariant, self.what)?;
        Ok(())
    }
}

impl Task {
    fn new(task: &TaskOutcome) -> Task {
        let (outcome, parts) = match &task.known {
            Some(Known::Ended(ended)) => (word(&ended.end), &ended.parts[..]),
            Some(Known::Unplanned(chosen)) => (unplanned(chosen).to_owned(), &[][..]),
            None if task.was_heard => ("open".to_owned(), &[][..]),
            None => ("never_taken".to_owned(), &[][..]),
        };
        Task {
            task_id: plain_id(&task.task_id),
            outcome,
            wish: match task.wish {
                Wish::Result => "result".to_owned(),
                Wish::Approve => "approve".to_owned(),
                Wish::Reject => "reject".to_owned(),
                Wish::Cancel { after_ms } => format!("cancel after {}", seconds(after_ms)),
            },
            injected_ms: task.injected_ms,
            planned_ms: task.planned_ms,
            ended_ms: task.ended_ms,
            parts: parts.len(),
            parts_done: parts.iter().filter(|part| part.is_some()).count(),
            root: match &task.known {
                Some(Known::Ended(ended)) => Some(ended.root),
                _ => None,
            },
        }
    }

    fn print(&self, out: &mut dyn Write) -> Result<()> {
        write!(out, "{:<10} {}", self.task_id, self.outcome)?;
        if self.root.is_some() {
            write!(out, ", {} of {} parts", self.parts_done, self.parts)?;
        }
        write!(out, "; injected at {}", seconds(self.injected_ms))?;
        for (name, at_ms) in [("planned", self.planned_ms), ("ended", self.ended_ms)] {
            if let Some(at_ms) = at_ms {
                write!(out, ", {name} {} later", seconds(at_ms - self.injected_ms))?;
            }
        }
        if self.wish != "result" {
            write!(out, "; its client: {}", self.wish)?;
        }
        writeln!(out)?;
        match &self.root {
            Some(root) => Ok(writeln!(out, "           root {root}")?),
            None => Ok(()),
        }
    }
}

fn unplanned(chosen: &Chosen) -> &'static str {
    match chosen {
        Chosen::Plan { .. } => "planned",
        Chosen::NoPlan => "no_plan",
        Chosen::TooLate => "too_late",
        Chosen::Cancelled => "cancelled",
    }
}

impl One {
    pub fn new(report: &Report) -> One {
        let (setup, counts) = (&report.setup, &report.counts);
        let lies = |lies: &[skep_sim::Lie]| lies.iter().map(spaced).collect();
        let liars = report.liars.iter().enumerate().filter(|(_, all)| !all.is_empty());
        let broken = report.violations.iter().map(|found| Broken::new(setup.seed, found));
        One {
            seed: setup.seed,
            nodes: setup.nodes,
            loss: setup.loss,
            duplication: setup.duplication,
            partitions: setup.partitions,
            crashes: setup.crashes,
            epoch_s: setup.timing.epoch_ms / 1_000,
            liars: liars.map(|(number, all)| (number, lies(all))).collect(),
            tasks: report.outcomes.iter().map(Task::new).collect(),
            events: counts.events,
            messages: counts.messages,
            bytes: counts.bytes,
            lost: counts.lost,
            refused: counts.refused,
            forged: counts.forged,
            restarts: counts.restarts,
            virtual_ms: report.virtual_ms,
            trace: report.trace_hash.to_string(),
            violations: broken.collect(),
            replay: setup.command(),
        }
    }

    pub fn print(&self, out: &mut dyn Write) -> Result<()> {
        writeln!(
            out,
            "simulated  {} nodes, {} of them liars, seed {}",
            self.nodes,
            self.liars.len(),
            self.seed
        )?;
        writeln!(
            out,
            "           loss {} %, duplication {} %, {} partitions, {} crashes, epochs of {} s",
            percent(self.loss),
            percent(self.duplication),
            self.partitions,
            self.crashes,
            self.epoch_s
        )?;
        if self.liars.len() > (self.nodes - 1) / 3 {
            writeln!(out, "           more than a third lie: nothing is guaranteed")?;
        }
        for (number, lies) in &self.liars {
            writeln!(out, "liar {number:<5} {}", lies.join(", "))?;
        }
        self.tasks.iter().try_for_each(|task| task.print(out))?;
        writeln!(
            out,
            "messages   {}, {} bytes, {} lost; refused {}, forged {}",
            self.messages, self.bytes, self.lost, self.refused, self.forged
        )?;
        writeln!(
            out,
            "time       {} simulated, {} events, {} restarts",
            seconds(self.virtual_ms),
            self.events,
            self.restarts
        )?;
        writeln!(out, "trace      {}", self.trace)?;
        writeln!(out, "again      {}", self.replay)?;
        if self.violations.is_empty() {
            writeln!(out, "holds      no invariant is broken")?;
        }
        self.violations.iter().try_for_each(|broken| broken.print(out))
    }
}

/// `EquivocateCommit` as people write it.
fn spaced(name: &impl std::fmt::Debug) -> String {
    let mut text = String::new();
    for letter in format!("{name:?}").chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push(' ');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

fn percent(share: Share) -> f64 {
    f64::from(share.e6()) / 10_000.0
}

fn seconds(ms: i64) -> String {
    format!("{:.1} s", ms as f64 / 1_000.0)
}

/// Many runs.
#[derive(Debug, Serialize)]
pub struct Many {
    first_seed: u64,
    last_seed: u64,
    runs: u64,
    nodes: u64,
    liars: u64,
    events: u64,
    messages: u64,
    virtual_ms: i64,
    /// How tasks ended.
    outcomes: BTreeMap<String, u64>,
    /// Seeds that break an invariant.
    pub broken: u64,
    violations: Vec<Broken>,
}

impl Many {
    pub fn new(first_seed: u64, last_seed: u64) -> Many {
        Many {
            first_seed,
            last_seed,
            runs: 0,
            nodes: 0,
            liars: 0,
            events: 0,
            messages: 0,
            virtual_ms: 0,
            outcomes: BTreeMap::new(),
            broken: 0,
            violations: Vec::new(),
        }
    }

    pub fn add(&mut self, report: &Report, told_max: usize) {
        self.runs += 1;
        self.nodes += report.setup.nodes as u64;
        self.liars += report.setup.byzantine as u64;
        self.events += report.counts.events;
        self.messages += report.counts.messages;
        self.virtual_ms += report.virtual_ms;
        for task in report.outcomes.iter().map(Task::new) {
            *self.outcomes.entry(task.outcome).or_default() += 1;
        }
        if let Some(first) = report.violations.first() {
            self.broken += 1;
            // Threads end in any order; the report has one.
            self.violations.push(Broken::new(report.setup.seed, first));
            self.violations.sort_by_key(|broken| broken.seed);
            self.violations.truncate(told_max);
        }
    }

    pub fn print(&self, out: &mut dyn Write) -> Result<()> {
        writeln!(out, "simulated  seeds {} to {}", self.first_seed, self.last_seed)?;
        writeln!(
            out,
            "           {} nodes, {} of them liars; {} messages, {} events, {} simulated",
            self.nodes,
            self.liars,
            self.messages,
            self.events,
            seconds(self.virtual_ms)
        )?;
        let outcome = |(name, count): (&String, &u64)| format!("{name} {count}");
        let outcomes: Vec<String> = self.outcomes.iter().map(outcome).collect();
        writeln!(out, "tasks      {}", outcomes.join(", "))?;
        if self.broken == 0 {
            writeln!(out, "holds      no invariant is broken")?;
        }
        for broken in &self.violations {
            broken.print(out)?;
            writeln!(out, "           {}", broken.replay)?;
        }
        Ok(())
    }
}
