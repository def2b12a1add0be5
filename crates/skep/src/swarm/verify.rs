//! `skep swarm verify`: everything that a swarm has decided, decided again, without asking anybody.

use std::{
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::Serialize;
use skep_base::Hash32;
use skep_swarm::transcript::{PartReport, Report, RoundReport, TaskReport, Transcript, Try};
use skep_wire::swarm::{Chosen, Subject, plain_id};

use super::{short, short_list};
use crate::deal::words::{plain, print_json, word};

/// The longest transcript that is read.
const TRANSCRIPT_LEN_MAX: u64 = 512 << 20;

/// Check a transcript offline: every signature, election, draw, vote, plan and result
#[derive(Debug, Args)]
#[command(after_help = "Example: skep swarm verify run.json

Exits 1 if a signature is bad or something else was decided than follows from what was signed, and
says where. The genesis document is part of the transcript: compare its hash with the one that you
know the swarm by.")]
pub struct Verify {
    /// A transcript; - reads stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Serialize)]
struct Told<'a> {
    verified: bool,
    swarm: &'a str,
    genesis: Hash32,
    #[serde(flatten)]
    report: &'a Report,
}

impl Verify {
    pub fn run(self, json: bool, out: &mut dyn Write) -> Result<()> {
        let name = self.file.display();
        let bytes = read(&self.file)?;
        let transcript = match Transcript::read(&bytes) {
            Ok(transcript) => transcript,
            Err(error) => bail!("{name}: {}", plain(&error.to_string())),
        };
        let report = transcript.verify();
        let verified = report.differences.is_empty();
        let genesis = &transcript.genesis;
        let told =
            Told { verified, swarm: &genesis.swarm, genesis: genesis.hash(), report: &report };
        match json {
            true => print_json(out, &told)?,
            false => {
                let (swarm, founders) = (plain(&genesis.swarm), genesis.founders.len());
                writeln!(out, "swarm      {swarm}, founded by {founders}")?;
                writeln!(out, "genesis    {}", told.genesis)?;
                print(&report, out)?;
            }
        }
        match report.differences.len() {
            0 => Ok(()),
            1 => bail!("{name} does not hold: there is a difference"),
            count => bail!("{name} does not hold: there are {count} differences"),
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let (mut bytes, name) = (Vec::new(), path.display());
    let limit = TRANSCRIPT_LEN_MAX + 1;
    let read = match path == Path::new("-") {
        true => io::stdin().take(limit).read_to_end(&mut bytes),
        false => fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)),
    };
    read.with_context(|| format!("{name} cannot be read"))?;
    let length_max = TRANSCRIPT_LEN_MAX >> 20;
    ensure!(bytes.len() as u64 <= TRANSCRIPT_LEN_MAX, "{name} is longer than {length_max} MiB");
    Ok(bytes)
}

fn print(report: &Report, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "messages   {}, every signature is good", report.messages)?;
    for epoch in &report.followed {
        writeln!(out, "election   for epoch {epoch}: signed, its ballots are not there to count")?;
    }
    for epoch in &report.elections {
        writeln!(out, "election   for epoch {epoch}: the same are elected")?;
    }
    if report.successions > 0 {
        writeln!(out, "successors {}, each with enough signatures", report.successions)?;
    }
    let elections = report.elections.len() + report.followed.len();
    if report.tasks.is_empty() && elections == 0 {
        writeln!(out, "empty      nothing is decided in it, so nothing is shown by it")?;
    }
    report.tasks.iter().try_for_each(|task| print_task(task, out))?;
    for difference in &report.differences {
        let about = plain(&subject(&difference.about));
        writeln!(out, "DIFFERS    {about}: {}", plain(&difference.why))?;
    }
    if report.differences.is_empty() {
        writeln!(out, "holds      all of it follows from what was signed")?;
    }
    Ok(())
}

fn print_task(task: &TaskReport, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{}", plain(&plain_id(&task.task_id)))?;
    let mut line = |name: &str, text: String| writeln!(out, "  {name:<10} {}", plain(&text));
    let (signed, witnesses) = (task.signatures, task.witnesses);
    line("certified", format!("by {signed} of {witnesses} witnesses, in epoch {}", task.epoch))?;
    if !task.board.is_empty() {
        line("board", format!("{} (the first one chairs)", short_list(&task.board)))?;
    }
    if let Some(critic) = &task.critic {
        line("critic", short(critic))?;
    }
    if !task.senate.is_empty() {
        line("Senate", short_list(&task.senate))?;
    }
    if !task.plans.is_empty() {
        line("plans", task.plans.join(", "))?;
        line("ballots", task.ballots.to_string())?;
    }
    for (number, round) in (1..).zip(&task.rounds) {
        line(&format!("round {number}"), round_text(round))?;
    }
    line(
        "winner",
        match &task.chosen {
            Some(Chosen::Plan { plan_id, proposer }) => {
                format!("{plan_id}, by {}", short(proposer))
            }
            Some(Chosen::NoPlan) => "none: nobody's plan counts".to_owned(),
            Some(Chosen::TooLate) => "none: the deadline came first".to_owned(),
            Some(Chosen::Cancelled) => "none: it was taken back".to_owned(),
            None => "none".to_owned(),
        },
    )?;
    if !task.caught.is_empty() {
        line("caught", format!("{} (said two different things)", short_list(&task.caught)))?;
    }
    if let Some(ended) = &task.ended {
        let done = ended.parts.iter().filter(|part| part.is_some()).count();
        line("end", format!("{}, {done} of {} parts", word(&ended.end), ended.parts.len()))?;
        line("root", ended.root.to_string())?;
    }
    for part in &task.parts {
        line(&format!("part {}", part.index + 1), part_text(part))?;
    }
    Ok(())
}

/// Who was given a part, one after the other, and what was said of the work.
fn part_text(part: &PartReport) -> String {
    let told = |order: &Try| {
        let refused = order.verdicts.iter().filter(|verdict| !verdict.accepted).count();
        let end = match (order.verdicts.last(), refused) {
            (Some(last), 0) if last.accepted => "accepted".to_owned(),
            (Some(last), count) if last.accepted => format!("refused {count} times, accepted"),
            (_, 0) => "nothing is said of its work".to_owned(),
            (_, count) => format!("refused {count} times"),
        };
        format!("{}: {end}", short(&order.assignee))
    };
    let tries: Vec<String> = part.tries.iter().map(told).collect();
    match (&part.producer, tries.is_empty()) {
        (Some(producer), true) => format!("by {}", short(producer)),
        (None, true) => "not done".to_owned(),
        (Some(_), false) => tries.join("; "),
        (None, false) => format!("{}; not done", tries.join("; ")),
    }
}

fn round_text(round: &RoundReport) -> String {
    let tally = |(plan, votes): (&String, &u64)| format!("{plan} {votes}");
    let tallies: Vec<String> = round.tallies.iter().map(tally).collect();
    match &round.eliminated {
        Some(plan) => format!("{}; {plan} is out", tallies.join(", ")),
        None => tallies.join(", "),
    }
}

/// What a difference is about.
pub fn subject(subject: &Subject) -> String {
    match subject {
        Subject::Election { after } => format!("the election that follows epoch {after}"),
        Subject::Succession { epoch, leader } => {
            format!("the successor of {} in epoch {epoch}", short(leader))
        }
        Subject::Plan { task_id } => format!("the plan of {}", plain_id(task_id)),
        Subject::Result { task_id } => format!("the result of {}", plain_id(task_id)),
    }
}
