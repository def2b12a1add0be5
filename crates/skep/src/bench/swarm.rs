//! Swarms: what a checked message costs, how fast votes are counted, and what a task costs each
//! member as the swarm grows.

use std::{
    collections::BTreeMap,
    hint::black_box,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use skep_base::{Did, Timestamp, ed25519::SecretKey, hash::sha256};
use skep_sim::{Report, Setup};
use skep_swarm::tally::{Ballot, borda, instant_runoff};
use skep_wire::swarm::{End, KnownKeys, Message, Meta, PlanVote, Share, Signed};

use super::{Figure, progress};

/// Bytes that are signed in the message that is measured.
const MESSAGE_LEN: usize = 512;
/// A checked message takes at most 1.3 times as long as its signature alone.
const OPEN_BAR: f64 = 1.0 / 1.3;
/// A tenth of what the reference takes for a vote of 110 ballots on ten plans.
const RUNOFF_REFERENCE_S: f64 = 46e-6;
/// Ballots and candidates: a full board with its Senate, and far more than that.
const SMALL: (usize, usize) = (110, 10);
const LARGE: (usize, usize) = (10_000, 100);
/// How long messages are lost where some are: longer than a task takes.
const LOSS_MS: u64 = 300_000;
/// How large the swarms are, one after the other.
const SIZES: [u64; 4] = [10, 100, 1_000, 10_000];
/// Up to this size the mean of some runs is taken; larger ones are run once.
const REPEATED_MAX: u64 = 100;
const REPEATS: usize = 5;
/// Seeds that are tried for a run whose task is done: some clients reject or cancel theirs.
const SEEDS_MAX: u64 = 40;

pub(super) fn measure(
    time: Duration,
    nodes: u64,
    report: &mut dyn FnMut(Figure) -> Result<()>,
) -> Result<()> {
    progress("messages checked by one core");
    let (opened, bare) = messages(time)?;
    report(Figure::new(
        "messages of 512 bytes read and checked by one core (peer: their bare Ed25519 checks)",
        opened,
        bare,
        "a second",
        Some(OPEN_BAR),
    ))?;
    tallies(time, report)?;
    swarms(nodes, report)
}

/// Messages opened, and signatures checked, a second.
fn messages(time: Duration) -> Result<(f64, f64)> {
    let key = SecretKey::from_seed([5; 32]);
    let signed = vote(&key)?;
    let text = serde_json::to_vec(&signed.to_json())?;
    let mut keys = KnownKeys::default();
    keys.learn(key.public());
    let public = key.public();
    let (mut rounds, mut open_time, mut bare_time) = (0_u64, Duration::ZERO, Duration::ZERO);
    // Both in turns, so that a busy moment of the machine hits both.
    while open_time + bare_time < time {
        let started = Instant::now();
        for _ in 0..100 {
            black_box(Signed::open(black_box(&text), &keys)?);
        }
        open_time += started.elapsed();
        let started = Instant::now();
        for _ in 0..100 {
            public.verify(black_box(signed.payload()), signed.signature())?;
        }
        bare_time += started.elapsed();
        rounds += 100;
    }
    let rate = |time: Duration| rounds as f64 / time.as_secs_f64();
    Ok((rate(open_time), rate(bare_time)))
}

/// A ballot whose signed bytes are as many as are measured.
fn vote(key: &SecretKey) -> Result<Signed> {
    let voter = key.public().did();
    let sealed = |padding: usize| {
        let meta = Meta {
            signer: voter,
            swarm: "bench".to_owned(),
            epoch: 1,
            sent_at: Timestamp::from_ms(1_800_000_000_000),
        };
        let vote = PlanVote {
            task_id: "task-1".to_owned(),
            epoch: 1,
            voter,
            rankings: vec!["plan-1".to_owned(), "p".repeat(padding)],
            critic_scores: BTreeMap::new(),
        };
        Signed::seal(meta, Message::PlanVote(vote), Vec::new(), key)
    };
    let shortest = sealed(0).payload().len();
    let padding = MESSAGE_LEN.checked_sub(shortest).context("a ballot is longer than that")?;
    let signed = sealed(padding);
    ensure!(signed.payload().len() == MESSAGE_LEN, "the ballot has another length");
    Ok(signed)
}

fn tallies(time: Duration, report: &mut dyn FnMut(Figure) -> Result<()>) -> Result<()> {
    progress("votes");
    let runoff = |(ballots, plans): (usize, usize)| {
        let ids: Vec<String> = (0..plans).map(|plan| format!("plan-{plan}")).collect();
        let ballots = ballots_of(ballots, &ids);
        per_second(time, || instant_runoff(&ids, &ballots))
    };
    let small = runoff(SMALL);
    report(Figure::new(
        "votes of 110 ballots on 10 plans, IRV (peer: a tenth of the reference's time)",
        small,
        1.0 / RUNOFF_REFERENCE_S,
        "votes/s",
        Some(1.0),
    ))?;
    let ballots = |rate: f64, (ballots, _): (usize, usize)| rate * ballots as f64;
    report(Figure::new(
        "IRV of 10,000 ballots on 100 plans (peer: of 110 on 10)",
        ballots(runoff(LARGE), LARGE),
        ballots(small, SMALL),
        "ballots/s",
        None,
    ))?;
    let election = |(voters, candidates): (usize, usize)| {
        let (standing, votes) = election_of(voters, candidates);
        per_second(time, || borda(&standing, &votes, candidates / 2))
    };
    let few = election(SMALL);
    report(Figure::new(
        "elections with 110 voters and 10 candidates, Borda (peer: IRV of that size)",
        few,
        small,
        "elections/s",
        None,
    ))?;
    report(Figure::new(
        "Borda of 10,000 voters and 100 candidates (peer: of 110 and 10)",
        ballots(election(LARGE), LARGE),
        ballots(few, SMALL),
        "ballots/s",
        None,
    ))
}

fn per_second<T>(time: Duration, mut work: impl FnMut() -> T) -> f64 {
    let (mut done, started) = (0_u64, Instant::now());
    while done == 0 || started.elapsed() < time / 4 {
        black_box(work());
        done += 1;
    }
    done as f64 / started.elapsed().as_secs_f64()
}

fn did(number: usize) -> Did {
    Did::from_fingerprint(sha256(&number.to_be_bytes()))
}

/// A permutation of its own for each voter.
fn shuffled<T: Clone>(voter: usize, list: &[T]) -> Vec<T> {
    let mut numbered: Vec<_> = list.iter().enumerate().collect();
    let lot = |index: usize| sha256(&[voter.to_be_bytes(), index.to_be_bytes()].concat());
    numbered.sort_by_cached_key(|(index, _)| lot(*index).0);
    numbered.into_iter().map(|(_, item)| item.clone()).collect()
}

fn ballots_of(count: usize, plans: &[String]) -> Vec<Ballot> {
    let ballot = |voter: usize| Ballot {
        voter: did(voter),
        rankings: shuffled(voter, plans),
        critic_scores: BTreeMap::new(),
    };
    (0..count).map(ballot).collect()
}

type Votes = Vec<(Did, Share, Vec<Did>)>;

fn election_of(voters: usize, candidates: usize) -> (BTreeMap<Did, Share>, Votes) {
    let standing: Vec<Did> = (0..candidates).map(did).collect();
    let weight = |number: usize| Share::percent(50 + (number % 50) as u32);
    let votes = (0..voters)
        .map(|voter| (did(candidates + voter), weight(voter), shuffled(voter, &standing)))
        .collect();
    (standing.iter().enumerate().map(|(number, did)| (*did, weight(number))).collect(), votes)
}

/// What one task came to, as the mean of some runs.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    /// Received by a node, about the task.
    messages: f64,
    bytes: f64,
    /// By the node that received most.
    busiest: f64,
    plan_ms: f64,
    result_ms: f64,
    events_per_s: f64,
    virtual_per_s: f64,
}

/// One of the numbers of a cost.
type Of = fn(&Cost) -> f64;

fn swarms(nodes: u64, report: &mut dyn FnMut(Figure) -> Result<()>) -> Result<()> {
    let mut smaller: Option<(u64, Cost)> = None;
    // A swarm that breaks its own rules is no reason to hide what the others cost.
    let mut broken = Vec::new();
    for size in SIZES.into_iter().filter(|size| *size <= nodes.max(SIZES[0])) {
        progress(&format!("a swarm of {size}"));
        let calm = cost(size, Share::ZERO, &mut broken)?;
        progress(&format!("a swarm of {size}, a tenth of all messages lost"));
        let lossy = cost(size, Share::percent(10), &mut broken)?;
        let pairs: [(&str, Of, &str); 5] = [
            ("messages received by a node for a task", |cost| cost.messages, "messages"),
            ("bytes received by a node for a task", |cost| cost.bytes, "bytes"),
            ("messages received by the busiest node", |cost| cost.busiest, "messages"),
            ("from injection to plan", |cost| cost.plan_ms, "virtual ms"),
            ("from injection to result", |cost| cost.result_ms, "virtual ms"),
        ];
        for (what, of, unit) in pairs {
            let name = format!("{size} nodes: {what}, 10 % lost (peer: nothing lost)");
            report(Figure::new(&name, of(&lossy), of(&calm), unit, None))?;
        }
        let name = format!("{size} nodes: simulated time (peer: the clock on the wall)");
        report(Figure::new(&name, calm.virtual_per_s, 1.0, "seconds a second", None))?;
        if let Some((few, cost)) = smaller {
            let name = format!("events simulated, {size} nodes (peer: {few} nodes)");
            let (ours, peer) = (calm.events_per_s, cost.events_per_s);
            report(Figure::new(&name, ours, peer, "events/s", None))?;
            // What a growth with the logarithm would allow.
            let allowed = cost.messages * (size as f64).ln() / (few as f64).ln();
            let name = format!(
                "messages per node that log N allows from {few} to {size} (peer: received)"
            );
            report(Figure::new(&name, allowed, calm.messages, "messages", Some(1.0)))?;
        }
        smaller = Some((size, calm));
    }
    ensure!(broken.is_empty(), "{} runs broke an invariant: {}", broken.len(), broken.join("; "));
    Ok(())
}

fn cost(size: u64, loss: Share, broken: &mut Vec<String>) -> Result<Cost> {
    let wanted = if size <= REPEATED_MAX { REPEATS } else { 1 };
    let (mut costs, mut seed) = (Vec::new(), 0);
    while costs.len() < wanted {
        seed += 1;
        ensure!(seed <= SEEDS_MAX, "only {} swarms of {size} did their task", costs.len());
        let setup = Setup { loss, faults_ms: Some(LOSS_MS), ..Setup::calm(seed, size as usize, 1) };
        let started = Instant::now();
        let run = skep_sim::run(&setup);
        let took = started.elapsed();
        match run.violations.first() {
            None => costs.extend(cost_of(&run, took)),
            Some(found) => broken.push(format!("{} ({})", found.invariant, found.replay)),
        }
    }
    let mean = |of: Of| costs.iter().map(of).sum::<f64>() / costs.len() as f64;
    Ok(Cost {
        messages: mean(|cost| cost.messages),
        bytes: mean(|cost| cost.bytes),
        busiest: mean(|cost| cost.busiest),
        plan_ms: mean(|cost| cost.plan_ms),
        result_ms: mean(|cost| cost.result_ms),
        events_per_s: mean(|cost| cost.events_per_s),
        virtual_per_s: mean(|cost| cost.virtual_per_s),
    })
}

/// What a run cost, if its task was done.
fn cost_of(run: &Report, took: Duration) -> Option<Cost> {
    let [task] = &run.outcomes[..] else { return None };
    let done = matches!(&task.known, Some(skep_sim::Known::Ended(ended))
        if ended.end == End::Succeeded);
    let (planned_ms, ended_ms) = (task.planned_ms?, task.ended_ms?);
    let nodes = run.loads.len() as f64;
    done.then(|| Cost {
        messages: run.loads.iter().map(|load| f64::from(load.work)).sum::<f64>() / nodes,
        bytes: run.loads.iter().map(|load| load.work_bytes as f64).sum::<f64>() / nodes,
        busiest: run.loads.iter().map(|load| load.work).max().map_or(0.0, f64::from),
        plan_ms: (planned_ms - task.injected_ms) as f64,
        result_ms: (ended_ms - task.injected_ms) as f64,
        events_per_s: run.counts.events as f64 / took.as_secs_f64(),
        virtual_per_s: run.virtual_ms as f64 / 1_000.0 / took.as_secs_f64(),
    })
}
