//! What is simulated: drawn from a seed, or said.

use skep_swarm::genesis::Timing;
use skep_wire::swarm::Share;

use crate::{bug::Bug, lie::Lie, rng::Rng};

/// The smallest swarm that bears a liar.
const FOUNDERS_MIN: usize = 4;
/// So many of the swarms that hold elections have newcomers.
const JOINED_PERCENT: u32 = 60;
/// As much as many seeds can be run with: what a flood orders is planned and done.
const FLOOD: u32 = 30;
/// So many of the others have clients that come when leaders have had time to fail.
const LATE_PERCENT: u32 = 25;
const LATE_MS: u64 = 90_000;

/// What is simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    pub seed: u64,
    pub nodes: usize,
    /// How many of the nodes have not founded the swarm and come while it runs.
    pub newcomers: usize,
    pub tasks: usize,
    pub loss: Share,
    pub duplication: Share,
    /// How many nodes lie. Invariants hold for less than a third of the founders.
    pub byzantine: usize,
    /// How often the network falls apart, and heals.
    pub partitions: usize,
    /// How often an honest node stops, and starts again from what it has stored.
    pub crashes: usize,
    /// What liars do; each picks some of all if nothing is said.
    pub lies: Option<Vec<Lie>>,
    /// What one liar says beyond what its machine says: floods end, runs must, too.
    pub flood: u32,
    pub timing: Timing,
    /// When clients begin to come: in later epochs, elections have been held.
    pub begin_ms: u64,
    /// How long faults last after that; drawn from the seed if nothing is said.
    pub faults_ms: Option<u64>,
    /// Real signatures take longer and change nothing but the trace.
    pub real_signatures: bool,
    /// Keep what a picture needs.
    pub picture: bool,
    /// Keep what honest nodes heard, for a transcript; which wants real signatures.
    pub keep_messages: bool,
    /// After so many turns in all, whoever had the last one is stored and read back, which changes
    /// nothing; 0: never.
    pub reread_every: u64,
    pub bug: Option<Bug>,
}

/// Waiting times for runs of some minutes: as much longer than messages and agents take as the
/// protocol's own.
pub fn brisk() -> Timing {
    Timing {
        epoch_ms: 3_600_000,
        election_ms: 60_000,
        keepalive_ms: 10_000,
        silence_ms: 30_000,
        board_ms: 3_000,
        commit_ms: 12_000,
        reveal_ms: 8_000,
        critique_ms: 8_000,
        vote_ms: 12_000,
        execution_ms: 40_000,
        view_ms: 8_000,
        resend_ms: 2_000,
    }
}

impl Setup {
    /// A small swarm with as many faults as it must bear, all drawn from the seed.
    pub fn from_seed(seed: u64) -> Setup {
        let mut rng = Rng::fork(seed, "setup");
        // Large swarms take long and break no sooner.
        let nodes = match rng.below(10) {
            0..=6 => rng.between(4, 16),
            7..=8 => rng.between(17, 31),
            _ => rng.between(32, 50),
        } as usize;
        let calm = rng.percent(20);
        let mut upto = |high: u64| if calm { 0 } else { rng.between(0, high) };
        let loss = Share::percent(upto(15) as u32);
        let duplication = Share::percent(upto(10) as u32);
        let (partitions, crashes) = (upto(2) as usize, upto(3) as usize);
        let mut timing = brisk();
        let mut begin_ms = 0;
        if rng.percent(30) {
            timing.epoch_ms = rng.between(120_000, 300_000);
            begin_ms = rng.between(0, timing.epoch_ms + timing.epoch_ms / 4);
        }
        let tasks = rng.between(1, 3) as usize;
        let byzantine = rng.between(0, (nodes as u64 - 1) / 3) as usize;
        let real_signatures = rng.percent(2);
        // Newcomers are drawn apart: what else is drawn from a seed stays what it was.
        let mut rng = Rng::fork(seed, "newcomers");
        let mut newcomers = 0;
        if timing.epoch_ms < brisk().epoch_ms && rng.percent(JOINED_PERCENT) {
            newcomers = rng.between(1, 1 + nodes as u64 / 4) as usize;
            newcomers = newcomers.min(nodes - FOUNDERS_MIN);
            begin_ms += rng.below(timing.epoch_ms);
        }
        // Some clients come when leaders that are silent have been followed by others.
        if begin_ms == 0 && rng.percent(LATE_PERCENT) {
            begin_ms = LATE_MS;
        }
        Setup {
            seed,
            nodes,
            newcomers,
            tasks,
            loss,
            duplication,
            byzantine: byzantine.min((nodes - newcomers - 1) / 3),
            partitions,
            crashes,
            lies: None,
            flood: FLOOD,
            timing,
            begin_ms,
            faults_ms: None,
            real_signatures,
            picture: false,
            keep_messages: false,
            reread_every: 0,
            bug: None,
        }
    }

    /// A swarm in which nothing fails and nobody lies.
    pub fn calm(seed: u64, nodes: usize, tasks: usize) -> Setup {
        Setup {
            nodes,
            newcomers: 0,
            tasks,
            loss: Share::ZERO,
            duplication: Share::ZERO,
            byzantine: 0,
            partitions: 0,
            crashes: 0,
            timing: brisk(),
            begin_ms: 0,
            faults_ms: None,
            real_signatures: false,
            ..Setup::from_seed(seed)
        }
    }

    pub fn founders(&self) -> usize {
        self.nodes - self.newcomers
    }

    /// Whether anything fails, liars apart.
    pub(crate) fn has_faults(&self) -> bool {
        let lossy = self.loss > Share::ZERO || self.duplication > Share::ZERO;
        lossy || self.partitions + self.crashes > 0
    }

    /// The command that runs it again: the seed, and whatever was not drawn from it.
    pub fn command(&self) -> String {
        let drawn = Setup::from_seed(self.seed);
        let mut command = format!("skep swarm simulate --seed {}", self.seed);
        let mut add = |differs: bool, name: &str, value: String| {
            if differs {
                command.push_str(&format!(" --{name} {value}"));
            }
        };
        add(self.nodes != drawn.nodes, "nodes", self.nodes.to_string());
        let others = if self.nodes == drawn.nodes { drawn.newcomers } else { 0 };
        add(self.newcomers != others, "newcomers", self.newcomers.to_string());
        add(self.tasks != drawn.tasks, "tasks", self.tasks.to_string());
        add(self.loss != drawn.loss, "loss", self.loss.to_string());
        let doubled = self.duplication != drawn.duplication;
        add(doubled, "duplication", self.duplication.to_string());
        // What is drawn for another size may be more than this one bears.
        let same_size = self.nodes == drawn.nodes && self.newcomers == drawn.newcomers;
        let liars_differ = self.byzantine != drawn.byzantine || !same_size;
        add(liars_differ, "byzantine", self.byzantine.to_string());
        add(self.partitions != drawn.partitions, "partition", self.partitions.to_string());
        add(self.crashes != drawn.crashes, "crashes", self.crashes.to_string());
        let (epoch_ms, begin_ms) = (self.timing.epoch_ms, self.begin_ms);
        add(epoch_ms != drawn.timing.epoch_ms, "epoch-ms", epoch_ms.to_string());
        add(begin_ms != drawn.begin_ms, "begin-ms", begin_ms.to_string());
        let lies = self.lies.iter().flatten().map(Lie::to_string).collect::<Vec<_>>();
        add(self.lies != drawn.lies, "lies", lies.join(","));
        add(self.flood != drawn.flood, "flood", self.flood.to_string());
        let faults_ms = self.faults_ms.unwrap_or_default();
        add(self.faults_ms != drawn.faults_ms, "faults-ms", faults_ms.to_string());
        command
    }
}
