//! One run from its seed to its report.

use std::{collections::BTreeSet, sync::Arc};

use skep_base::{Did, Timestamp};
use skep_swarm::{
    epoch::Epoch,
    genesis::Genesis,
    node::{Node, Profile},
    pow,
};
use skep_wire::{
    identity::Statement,
    swarm::{
        Attestation, Evidence, KnownKeys, Location, Quality, Resources, Score, Share, Signed,
        SignedAttestation,
    },
};

use crate::{
    agent::{Agent, skills},
    bug::Planted,
    client::{Client, Known, Order, Wish},
    door::Door,
    heard::Heard,
    invariant::{Invariant, Violation, Watch},
    liar::Liar,
    lie::Lie,
    map::Map,
    network::{Cut, Network, Weather, scatter},
    polls::Polls,
    rng::Rng,
    seal::{Key, Registry, Signatures},
    setup::Setup,
    timeline::Timeline,
    trace::Trace,
    traffic::{Counts, Load, Traffic},
    world::{Parts, Slot, Stop, World},
};

/// When every simulated swarm was founded.
const START: Timestamp = Timestamp::from_ms(1_800_000_000_000);
/// Before this nothing happens, so that a clock that is slow is not before the foundation.
const FIRST_MS: i64 = 1_000;
/// A turn that a crash ends has sent fewer messages than this.
const MIDWAY_MAX: u64 = 4;
/// How wrong a node's clock can be.
const SKEW_MAX_MS: i64 = 500;
/// Newcomers may still come so long after the first client.
const LAST_COMES_MS: u64 = 60_000;
/// Members that a newcomer knows of.
const CONTACTS: usize = 3;
/// Nodes come up within this time.
const BOOT_MS: u64 = 2_000;
/// Clients come within this time.
const INJECT_MS: u64 = 60_000;
/// How long a task may take.
const TASK_MS: (u64, u64) = (600_000, 900_000);
/// Faults last so long, from when the first client comes: shorter than any task may take.
const FAULTS_MS: (u64, u64) = (60_000, 180_000);
/// Nodes stop and networks fall apart while tasks are on their way.
const FAULT_BEGINS_MS: u64 = 90_000;
/// How long after its deadline, or after the last fault, a task may still be on its way: the views
/// of its last certificate, each a little longer than the one before.
pub const GRACE_MS: i64 = 240_000;
/// A swarm in which all tasks have ended is watched for so long.
const AFTERWARDS_MS: i64 = 40_000;
/// More events than any run of a few tasks needs.
const EVENTS_MAX: u64 = 200_000_000;
/// So many of the liars have a lie more that is drawn apart.
const APART_PERCENT: u32 = 40;
/// Simulated proofs of work are checked like others; they are just quickly found.
const DIFFICULTY: u32 = 4;
/// Which agents the keys of a run belong to: nodes count from 0, others from here.
const CLIENT_KEYS: u64 = 1 << 32;
const ISSUER_KEY: u64 = 1 << 33;

/// What became of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskOutcome {
    pub task_id: String,
    pub wish: Wish,
    pub injected_ms: i64,
    /// When the first honest node knew the plan, and the end.
    pub planned_ms: Option<i64>,
    pub ended_ms: Option<i64>,
    /// What the client has heard.
    pub known: Option<Known>,
    pub was_heard: bool,
}

/// What a run came to.
#[derive(Debug)]
pub struct Report {
    pub setup: Setup,
    pub counts: Counts,
    /// What was sent, by kind.
    pub traffic: Traffic,
    pub trace_hash: Trace,
    pub outcomes: Vec<TaskOutcome>,
    pub violations: Vec<Violation>,
    /// Messages received, node by node.
    pub loads: Vec<Load>,
    pub liars: Vec<Vec<Lie>>,
    /// Newcomers that became members.
    pub joined: usize,
    pub virtual_ms: i64,
    pub timeline: Option<Timeline>,
    pub genesis: Arc<Genesis>,
    /// Those of members and clients.
    pub keys: KnownKeys,
    /// Of elections, successions and tasks, as `Setup::keep_messages` wants them.
    pub messages: Vec<Arc<Signed>>,
    pub map: Map,
}

/// Runs a whole swarm until its tasks have ended, and some time longer.
pub fn run(setup: &Setup) -> Report {
    let mut world = build(setup);
    let last_ms = world.parts.clients.iter().map(|client| ms_of(client.task.deadline)).max();
    let horizon_ms = last_ms.unwrap_or(FIRST_MS) + 2 * GRACE_MS;
    let horizon_ms = horizon_ms.max(world.parts.door.until_ms());
    let mut quiet_since_ms = None;
    while world.now_ms < horizon_ms && world.counts.events < EVENTS_MAX {
        if world.is_quiet() {
            let since_ms = *quiet_since_ms.get_or_insert(world.now_ms);
            if world.now_ms > since_ms + AFTERWARDS_MS {
                if still_open(&world).is_empty() {
                    break;
                }
                quiet_since_ms = None;
            }
        } else {
            quiet_since_ms = None;
        }
        if !world.step() {
            break;
        }
    }
    finish(setup, world, horizon_ms)
}

/// Clients' tasks that some honest node does not know to be over.
fn still_open(world: &World) -> Vec<(usize, String)> {
    let clients = &world.parts.clients;
    let from_clients = |id: &str| clients.iter().any(|client| client.task.task_id == id);
    world.open_ends().into_iter().filter(|(_, id)| from_clients(id)).collect()
}

fn ms_of(time: Timestamp) -> i64 {
    time.as_ms() - START.as_ms()
}

/// Every client of a task that somebody took knows its end, and the one that nodes know.
fn ask_clients(world: &mut World) {
    let now_ms = world.now_ms;
    let lost: Vec<String> = world
        .parts
        .clients
        .iter()
        .filter(|client| client.known.is_none())
        .filter(|client| {
            client.heard_ms.is_some() || world.parts.watch.was_taken(&client.task.task_id)
        })
        .map(|client| format!("the client of {} has not heard its end", client.task.task_id))
        .collect();
    for what in lost {
        world.parts.watch.report(now_ms, None, Invariant::TaskOnce, what);
    }
    let Parts { clients, watch, planted, .. } = &mut world.parts;
    for client in clients {
        let id = &client.task.task_id;
        client.known.as_mut().into_iter().for_each(|known| planted.mislead(known));
        client.known.iter().for_each(|known| watch.compare(now_ms, id, known));
    }
}

fn finish(setup: &Setup, mut world: World, horizon_ms: i64) -> Report {
    let now_ms = world.now_ms;
    ask_clients(&mut world);
    let open = still_open(&world);
    if now_ms >= horizon_ms {
        for (node, task_id) in open {
            let what = format!("{task_id} is still open");
            world.parts.watch.report(now_ms, Some(node), Invariant::EndsInTime, what);
        }
    }
    let late_ms = now_ms - GRACE_MS.max(2 * setup.timing.epoch_ms as i64);
    if late_ms >= world.parts.faults_until_ms {
        let due = world.parts.genesis.epoch_at(Timestamp::from_ms(START.as_ms() + late_ms));
        for (node, elected) in world.behind(due) {
            let what = format!("epoch {elected} is the last that was elected, {due} has begun");
            world.parts.watch.report(now_ms, Some(node), Invariant::ElectionsEnd, what);
        }
    }
    world.look_who_leads();
    let map = map(&world.parts);
    let joined = world.joined(setup.founders());
    let Parts { clients, slots, watch, mut timeline, keys, heard, genesis, .. } = world.parts;
    let mut known = KnownKeys::default();
    keys.iter().chain(clients.iter().map(|client| &client.key)).for_each(|k| known.learn(k.public));
    if let Some(timeline) = &mut timeline {
        timeline.end_ms = now_ms;
    }
    let outcomes = clients
        .into_iter()
        .map(|client| TaskOutcome {
            planned_ms: watch.planned_ms(&client.task.task_id),
            ended_ms: watch.ended_ms(&client.task.task_id),
            task_id: client.task.task_id,
            wish: client.wish,
            injected_ms: client.injected_ms,
            known: client.known,
            was_heard: client.heard_ms.is_some(),
        })
        .collect();
    let lies = |slot: &Slot| slot.liar.as_ref().map_or(Vec::new(), |liar| liar.lies().to_vec());
    Report {
        setup: setup.clone(),
        counts: world.counts,
        traffic: world.traffic,
        trace_hash: world.trace,
        outcomes,
        loads: slots.iter().map(|slot| slot.load).collect(),
        liars: slots.iter().map(lies).collect(),
        violations: watch.into_violations(),
        joined,
        virtual_ms: now_ms,
        timeline,
        genesis,
        keys: known,
        messages: heard.map_or_else(Vec::new, Heard::into_messages),
        map,
    }
}

fn map(parts: &Parts) -> Map {
    Map {
        dids: parts.keys.iter().map(|key| key.did).collect(),
        real: parts.network.places()[..parts.slots.len()].to_vec(),
        believed: parts.slots.iter().map(Slot::coordinate).collect(),
        epoch: parts.leading.clone(),
    }
}

fn build(setup: &Setup) -> World {
    let kind = if setup.real_signatures { Signatures::Real } else { Signatures::Fast };
    let mut rng = Rng::fork(setup.seed, "build");
    let keys: Vec<Key> =
        (0..setup.nodes as u64).map(|number| Key::derive(kind, setup.seed, number)).collect();
    let issuer = Key::derive(kind, setup.seed, ISSUER_KEY);
    let genesis = Arc::new(Genesis {
        swarm: "simulated".to_owned(),
        start: START,
        founders: keys[..setup.founders()].iter().map(|key| key.public).collect(),
        issuers: vec![issuer.public],
        difficulty: DIFFICULTY,
        timing: setup.timing.clone(),
    });
    let clients = clients(setup, kind, &mut rng);
    let mut registry = Registry::new(kind);
    keys.iter().chain(clients.iter().map(|client| &client.key)).for_each(|key| registry.enter(key));

    let begin_ms = FIRST_MS + setup.begin_ms as i64;
    let drawn_ms = rng.between(FAULTS_MS.0, FAULTS_MS.1);
    let faults_ms = setup.faults_ms.unwrap_or(drawn_ms) as i64;
    let faults_until_ms = begin_ms + if setup.has_faults() { faults_ms } else { 0 };
    let calm_from_ms = if setup.has_faults() { faults_until_ms } else { 0 };
    let places = scatter(&mut rng, setup.nodes + setup.tasks);
    let cuts = cuts(setup, faults_until_ms, &mut rng);
    let slots = slots(setup, &genesis, &issuer, &keys, &mut rng);
    let timeline = setup.picture.then(|| Timeline {
        nodes: setup.nodes,
        liars: slots.iter().map(|slot| !slot.is_honest()).collect(),
        cuts: cuts.iter().map(|cut| (cut.from_ms, cut.until_ms)).collect(),
        ..Timeline::default()
    });
    let weather =
        Weather { loss: setup.loss, duplication: setup.duplication, cuts, faults_until_ms };
    let mut world = World::new(Parts {
        leading: Epoch::founding_shared(&genesis),
        planted: Planted::new(setup.bug, &genesis),
        door: Door::new(setup.timing.clone(), Epoch::founding_shared(&genesis), calm_from_ms),
        polls: Polls::new(&Epoch::founding_shared(&genesis)),
        genesis,
        keys,
        slots,
        clients,
        registry,
        network: Network::new(places, weather, Rng::fork(setup.seed, "network")),
        watch: Watch::new(setup.command()),
        timeline,
        heard: setup.keep_messages.then(Heard::default),
        faults_until_ms,
        grace_ms: GRACE_MS,
        reread_every: setup.reread_every,
    });
    schedule(setup, &mut world, faults_until_ms, &mut rng);
    world
}

fn schedule(setup: &Setup, world: &mut World, faults_until_ms: i64, rng: &mut Rng) {
    for node in 0..setup.founders() {
        world.start(node, FIRST_MS + rng.below(BOOT_MS) as i64);
    }
    let mut comes = Rng::fork(setup.seed, "comes");
    for node in setup.founders()..setup.nodes {
        let after_ms = BOOT_MS + comes.below(setup.begin_ms + LAST_COMES_MS);
        world.join(node, FIRST_MS + after_ms as i64);
    }
    for client in 0..setup.tasks {
        world.turn(client, world.parts.clients[client].injected_ms);
    }
    // Drawn apart: what else is drawn from a seed stays what it was.
    let mut stops = Rng::fork(setup.seed, "stops");
    for _ in 0..setup.crashes {
        let stop = match stops.below(4) {
            0 => Stop::Between,
            1 => Stop::Deaf,
            _ => Stop::Midway(stops.below(MIDWAY_MAX) as usize),
        };
        let node = rng.index(setup.nodes);
        let (from_ms, until_ms) = fault(setup, faults_until_ms, rng);
        // What a newcomer has on its disk before it comes is nothing.
        if world.parts.slots[node].is_honest() && node < setup.founders() {
            world.crash(node, from_ms, until_ms, stop);
        }
    }
}

fn clients(setup: &Setup, kind: Signatures, rng: &mut Rng) -> Vec<Client> {
    let mut client = |number: usize| {
        let first_ms = FIRST_MS + (BOOT_MS + setup.begin_ms) as i64;
        let inject_ms = first_ms + rng.below(INJECT_MS) as i64;
        let created_at = Timestamp::from_ms(START.as_ms() + inject_ms);
        let lasts_ms = rng.between(TASK_MS.0, TASK_MS.1) as i64;
        let wish = match rng.below(20) {
            0 => Wish::Approve,
            1 => Wish::Reject,
            2 => Wish::Cancel { after_ms: rng.between(1_000, 120_000) as i64 },
            _ => Wish::Result,
        };
        let order = Order {
            number,
            inject_ms,
            created_at,
            deadline: Timestamp::from_ms(created_at.as_ms() + lasts_ms),
            complexity: rng.share(20, 90),
            wish,
        };
        let key = Key::derive(kind, setup.seed, CLIENT_KEYS + number as u64);
        Client::new(key, &order, rng.index(setup.nodes))
    };
    (0..setup.tasks).map(&mut client).collect()
}

/// When something fails, and until when.
fn fault(setup: &Setup, faults_until_ms: i64, rng: &mut Rng) -> (i64, i64) {
    let begin_ms = FIRST_MS + setup.begin_ms as i64 + rng.below(FAULT_BEGINS_MS) as i64;
    let from_ms = begin_ms.min(faults_until_ms - 1);
    (from_ms, rng.between(from_ms as u64 + 1, faults_until_ms as u64) as i64)
}

fn cuts(setup: &Setup, faults_until_ms: i64, rng: &mut Rng) -> Vec<Cut> {
    let endpoints = setup.nodes + setup.tasks;
    (0..setup.partitions)
        .map(|_| {
            let (from_ms, until_ms) = fault(setup, faults_until_ms, rng);
            let share = rng.share(10, 50);
            Cut { from_ms, until_ms, side: (0..endpoints).map(|_| rng.chance(share)).collect() }
        })
        .collect()
}

fn slots(
    setup: &Setup,
    genesis: &Arc<Genesis>,
    issuer: &Key,
    keys: &[Key],
    rng: &mut Rng,
) -> Vec<Slot> {
    let mut numbers: Vec<usize> = (0..setup.nodes).collect();
    rng.shuffle(&mut numbers);
    let lying: BTreeSet<usize> = numbers.into_iter().take(setup.byzantine).collect();
    let peers: Arc<[Did]> = keys.iter().map(|key| key.did).collect();
    let friends: Arc<BTreeSet<Did>> =
        Arc::new(lying.iter().map(|number| keys[*number].did).collect());
    let epochs = genesis.epoch_at(Timestamp::from_ms(
        START.as_ms() + (setup.begin_ms + TASK_MS.1 + INJECT_MS) as i64 + 2 * GRACE_MS,
    ));
    let mut slot = |(number, key): (usize, &Key)| {
        let lies =
            if lying.contains(&number) { choose_lies(setup, number, rng) } else { Vec::new() };
        let agent = Agent {
            seed: setup.seed,
            me: key.did,
            botches: lies.contains(&Lie::FalseWork),
            accepts_all: lies.contains(&Lie::AcceptAll),
        };
        let liar = (!lies.is_empty()).then(|| {
            let own = Rng::fork(setup.seed, &format!("liar {number}"));
            Box::new(Liar::new(key.did, lies, own, peers.clone(), friends.clone(), setup.flood))
        });
        let skew_ms = rng.between(0, 2 * SKEW_MAX_MS as u64) as i64 - SKEW_MAX_MS;
        let profile = profile(key, issuer, epochs, rng);
        let node = if number < setup.founders() {
            Node::new(genesis.clone(), profile)
        } else {
            let mut rng = Rng::fork(setup.seed, &format!("contacts {number}"));
            let contacts: Vec<Did> =
                (0..CONTACTS).map(|_| keys[rng.index(setup.founders())].did).collect();
            Node::newcomer(genesis.clone(), profile, &contacts)
        };
        Slot::new(node, skew_ms, agent, liar)
    };
    keys.iter().enumerate().map(&mut slot).collect()
}

fn choose_lies(setup: &Setup, number: usize, rng: &mut Rng) -> Vec<Lie> {
    if let Some(lies) = &setup.lies {
        return lies.clone();
    }
    let mut all = Lie::DRAWN;
    rng.shuffle(&mut all);
    let mut lies = all[..rng.between(1, 4) as usize].to_vec();
    for (name, among) in Lie::DRAWN_APART {
        let mut rng = Rng::fork(setup.seed, &format!("{name} of {number}"));
        if rng.percent(APART_PERCENT) {
            lies.extend(rng.pick(among));
        }
    }
    lies
}

fn profile(key: &Key, issuer: &Key, epochs: u64, rng: &mut Rng) -> Profile {
    let (reputation, stake) = (rng.share(20, 100), rng.share(0, 100));
    let mut evidence = Vec::new();
    for epoch in 1..=epochs {
        for (quality, value) in [(Quality::Reputation, reputation), (Quality::Stake, stake)] {
            let attestation =
                Attestation { subject: key.did, quality, value, epoch, attester: issuer.did };
            let signature =
                attestation.sign(issuer.secret()).expect("an attestation is small and plain");
            evidence.push(SignedAttestation { attestation, signature });
        }
    }
    Profile {
        key: key.public,
        key_chain: Vec::new(),
        capabilities: skills(rng),
        resources: Resources { cpu_cores: 8, ram_gb: 16, gpu_vram_gb: None, disk_gb: 100 },
        // Nobody is told where it is: nodes measure it.
        location: Location::default(),
        score: Score {
            agent_id: key.did,
            // What nobody has observed does not count, so everybody claims all.
            proof_of_compute: Share::ONE,
            reputation,
            uptime: Share::ONE,
            stake,
        },
        evidence: Evidence(evidence),
        published: Vec::new(),
        proof_of_work: pow::solve(&key.did, DIFFICULTY),
    }
}
