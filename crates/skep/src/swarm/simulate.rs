//! `skep swarm simulate`: a whole swarm in one process, the same each time.

mod report;

use std::{
    fs,
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use anyhow::{Context, Result, bail};
use clap::Args;
use skep_sim::{Lie, Report, Setup, picture, run};
use skep_swarm::transcript::Transcript;
use skep_wire::swarm::Share;

use self::report::{Many, One};
use crate::deal::words::print_json;

/// More nodes than fit into the memory of most machines.
const NODES_MAX: u64 = 20_000;
const TASKS_MAX: u64 = 1_000;
const FAULTS_MAX: u64 = 10_000;
const FLOOD_MAX: i64 = 1_000_000;
/// Shorter than this, there is hardly a time without an election.
const EPOCH_MIN_S: u64 = 120;
const EPOCH_MAX_S: u64 = 365 * 24 * 3600;
/// Every epoch until then is simulated.
const BEGIN_MAX_S: u64 = 24 * 3600;
/// Seeds whose violations are told one by one.
const BROKEN_MAX: usize = 20;

/// Run a whole swarm with a network that fails and nodes that lie, reproducible from its seed
///
/// Whatever is not said is drawn from the seed. Exits 1 if an invariant is broken, and prints the
/// command that shows it again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  skep swarm simulate
  skep swarm simulate --seed 7 --svg run.svg
  skep swarm simulate --nodes 31 --byzantine 10 --loss 0.05 --transcript run.json
  skep swarm simulate --seed 1 --seeds 1000")]
pub struct Simulate {
    /// How many nodes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=NODES_MAX))]
    nodes: Option<u64>,
    /// How many of the nodes are no founders and come while the swarm runs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=NODES_MAX))]
    newcomers: Option<u64>,
    /// How many tasks come from outside
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(0..=TASKS_MAX))]
    tasks: Option<u64>,
    /// What everything is drawn from
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// The share of messages that never arrive, from 0 to 1
    #[arg(long, value_name = "P", value_parser = share)]
    loss: Option<Share>,
    /// The share of messages that arrive twice, from 0 to 1
    #[arg(long, value_name = "P", value_parser = share)]
    duplication: Option<Share>,
    /// How many nodes lie; less than a third of the founders is borne
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=NODES_MAX))]
    byzantine: Option<u64>,
    /// How often the network falls apart, and heals
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=FAULTS_MAX))]
    partition: Option<u64>,
    /// How often an honest node stops, and starts again from its disk
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=FAULTS_MAX))]
    crashes: Option<u64>,
    /// How long those who were elected stay in office, in seconds
    #[arg(
        long,
        value_name = "SECONDS",
        value_parser = clap::value_parser!(u64).range(EPOCH_MIN_S..=EPOCH_MAX_S)
    )]
    epoch: Option<u64>,
    /// The same in milliseconds
    #[arg(
        long,
        value_name = "MS",
        conflicts_with = "epoch",
        value_parser = clap::value_parser!(u64).range(EPOCH_MIN_S * 1_000..=EPOCH_MAX_S * 1_000)
    )]
    epoch_ms: Option<u64>,
    /// When the first client comes, in milliseconds: after an epoch, elections have been held
    #[arg(
        long,
        value_name = "MS",
        value_parser = clap::value_parser!(u64).range(0..=BEGIN_MAX_S * 1_000)
    )]
    begin_ms: Option<u64>,
    /// What those who lie do, such as DropBallots,FalseWork; each picks some if nothing is said
    #[arg(long, value_name = "LIE,...", value_delimiter = ',', value_parser = lie)]
    lies: Option<Vec<Lie>>,
    /// How many messages one liar may add to what it has to say
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=FLOOD_MAX))]
    flood: Option<u32>,
    /// How long the network and nodes fail after the first client comes, in milliseconds
    #[arg(
        long,
        value_name = "MS",
        value_parser = clap::value_parser!(u64).range(1..=BEGIN_MAX_S * 1_000)
    )]
    faults_ms: Option<u64>,
    /// Run so many seeds, from --seed on, on all cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,
    /// Draw the run into this file
    #[arg(long, value_name = "FILE", conflicts_with = "seeds")]
    svg: Option<PathBuf>,
    /// Write all that was signed into this file, for skep swarm verify
    #[arg(long, value_name = "FILE", conflicts_with = "seeds")]
    transcript: Option<PathBuf>,
}

fn lie(name: &str) -> Result<Lie, String> {
    let names = || Lie::all().map(|lie| lie.to_string()).collect::<Vec<_>>().join(", ");
    Lie::named(name).ok_or_else(|| format!("the lies are {}", names()))
}

fn share(text: &str) -> Result<Share, String> {
    let wanted = || "a number from 0 to 1 is wanted, such as 0.05".to_owned();
    let number: f64 = text.parse().map_err(|_| wanted())?;
    if !(0.0..=1.0).contains(&number) {
        return Err(wanted());
    }
    // Six decimals are all that a share has.
    Ok(Share::from_e6((number * f64::from(Share::ONE.e6())).round() as u32))
}

impl Simulate {
    pub fn run(self, json: bool, out: &mut dyn Write) -> Result<()> {
        match self.seeds {
            Some(seeds) => self.many(seeds, json, out),
            None => self.one(json, out),
        }
    }

    /// What is drawn from a seed, and what was said instead.
    fn setup(&self, seed: u64) -> Result<Setup> {
        let drawn = Setup::from_seed(seed);
        let or = |said: Option<u64>, drawn: usize| said.map_or(drawn, |number| number as usize);
        let nodes = or(self.nodes, drawn.nodes);
        // Where others found it than were drawn, all do.
        let drawn_newcomers = if nodes == drawn.nodes { drawn.newcomers } else { 0 };
        let newcomers = or(self.newcomers, drawn_newcomers);
        if newcomers >= nodes {
            bail!("--newcomers {newcomers} leaves nobody of {nodes} to found the swarm");
        }
        let liars_borne = (nodes - newcomers - 1) / 3;
        let mut timing = drawn.timing.clone();
        if let Some(epoch_ms) = self.epoch_ms.or(self.epoch.map(|epoch_s| epoch_s * 1_000)) {
            timing.epoch_ms = epoch_ms;
        }
        let setup = Setup {
            nodes,
            newcomers,
            tasks: or(self.tasks, drawn.tasks),
            loss: self.loss.unwrap_or(drawn.loss),
            duplication: self.duplication.unwrap_or(drawn.duplication),
            byzantine: or(self.byzantine, drawn.byzantine.min(liars_borne)),
            partitions: or(self.partition, drawn.partitions),
            crashes: or(self.crashes, drawn.crashes),
            timing,
            begin_ms: self.begin_ms.unwrap_or(drawn.begin_ms),
            lies: self.lies.clone().or(drawn.lies),
            flood: self.flood.unwrap_or(drawn.flood),
            faults_ms: self.faults_ms.or(drawn.faults_ms),
            picture: self.svg.is_some(),
            keep_messages: self.transcript.is_some(),
            real_signatures: self.transcript.is_some() || drawn.real_signatures,
            ..drawn
        };
        if setup.byzantine > nodes {
            bail!("--byzantine {} is more than there are nodes: {nodes}", setup.byzantine);
        }
        Ok(setup)
    }

    fn one(&self, json: bool, out: &mut dyn Write) -> Result<()> {
        let report = run(&self.setup(self.seed)?);
        if let Some(path) = &self.svg {
            let drawn = picture(&report).context("the run was not drawn")?;
            write_file(path, drawn.as_bytes())?;
        }
        if let Some(path) = &self.transcript {
            write_file(path, &serde_json::to_vec(&transcript(&report))?)?;
        }
        let told = One::new(&report);
        match json {
            true => print_json(out, &told)?,
            false => told.print(out)?,
        }
        match report.violations.len() {
            0 => Ok(()),
            count => bail!("{count} times an invariant is broken; again: {}", told.replay),
        }
    }

    fn many(&self, seeds: u64, json: bool, out: &mut dyn Write) -> Result<()> {
        let last = self.seed.checked_add(seeds - 1).context("there are not so many seeds")?;
        // Whatever was said wrong is wrong for the first seed, too.
        self.setup(self.seed)?;
        let (next, told) = (AtomicU64::new(0), Mutex::new(Many::new(self.seed, last)));
        let bar = match std::io::stderr().is_terminal() {
            true => indicatif::ProgressBar::new(seeds),
            false => indicatif::ProgressBar::hidden(),
        };
        let worker = || -> Result<()> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= seeds {
                    return Ok(());
                }
                let report = run(&self.setup(self.seed + number)?);
                told.lock().unwrap_or_else(PoisonError::into_inner).add(&report, BROKEN_MAX);
                bar.inc(1);
            }
        };
        let threads = thread::available_parallelism().map_or(1, |count| count.get());
        thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
            // All of them first: a panic that nobody asked for would be ours.
            let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
            ended
                .into_iter()
                .try_for_each(|ended| ended.unwrap_or_else(|_| bail!("a run panicked")))
        })?;
        bar.finish_and_clear();
        let told = told.into_inner().unwrap_or_else(PoisonError::into_inner);
        match json {
            true => print_json(out, &told)?,
            false => told.print(out)?,
        }
        match told.broken {
            0 => Ok(()),
            broken => bail!("{broken} of {seeds} seeds break an invariant"),
        }
    }
}

/// All that was signed in a run about elections and tasks.
pub fn transcript(report: &Report) -> serde_json::Value {
    Transcript::write(&report.genesis, &report.keys, &report.messages)
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).with_context(|| format!("{} cannot be written", path.display()))
}
