//! The virtual world: one clock, one queue, all nodes and clients, and what goes wrong between
//! them.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, HashMap, HashSet, VecDeque},
    sync::Arc,
};

use skep_base::{Did, Hash32, Timestamp};
use skep_swarm::{
    coordinate::Coordinate,
    epoch::Epoch,
    genesis::Genesis,
    node::{Answer, Ask, Event, Input, Node, Output},
};
use skep_wire::swarm::{Message, Meta, Response, Signed};

use crate::{
    agent::Agent,
    bug::{self, Planted},
    client::Client,
    door::Door,
    heard::Heard,
    invariant::{Invariant, Watch},
    liar::{Altered, Draft, Liar},
    network::Network,
    polls::Polls,
    seal::{Key, Registry},
    timeline::{Phase, Timeline},
    trace::Trace,
    traffic::{Counts, Load, Traffic},
};

mod answers;
mod crashes;
mod elections;
mod errands;

pub use self::crashes::Stop;

/// What a node says to itself in one turn; more means that it would never stop.
const SELF_TALK_MAX: u32 = 10_000;
/// So often in a row a node may want to be woken at once: more means that it never rests.
const RESTLESS_MAX: u32 = 100;
/// The shortest time between two ticks of a node.
const TICK_MIN_MS: i64 = 1;

/// Something that will happen.
struct Entry {
    at_ms: i64,
    /// What was put in earlier happens earlier.
    sequence: u64,
    what: What,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl Entry {
    fn key(&self) -> (i64, u64) {
        (self.at_ms, self.sequence)
    }
}

enum What {
    Deliver { to: u32, genuine: bool, message: Arc<Signed> },
    Response { to: u32, response: Box<Response> },
    Wake { node: u32 },
    Answer { node: u32, answer: Box<Answer> },
    Crash { node: u32, stop: Stop },
    Restart { node: u32 },
    Come { node: u32 },
    Client { client: u32 },
}

/// One node with everything around it.
pub struct Slot {
    /// Absent while it is down.
    node: Option<Node>,
    /// A newcomer's, before it has come.
    yet_to_come: Option<Node>,
    /// What it had on its disk when it went down.
    stored: Option<String>,
    /// And beside it: what it wanted to send in its last turn, of which some may not have left.
    outbox: Vec<Output>,
    /// How it stops with its next turn.
    stop: Option<Stop>,
    pub skew_ms: i64,
    wake_ms: Option<i64>,
    restless: u32,
    pub agent: Agent,
    pub liar: Option<Box<Liar>>,
    pub load: Load,
}

impl Slot {
    pub fn new(node: Node, skew_ms: i64, agent: Agent, liar: Option<Box<Liar>>) -> Slot {
        let load = Load::default();
        let (node, stored, yet_to_come, wake_ms) = (Some(node), None, None, None);
        let (outbox, stop, restless) = (Vec::new(), None, 0);
        Slot {
            node,
            yet_to_come,
            stored,
            outbox,
            stop,
            skew_ms,
            wake_ms,
            restless,
            agent,
            liar,
            load,
        }
    }

    pub fn is_honest(&self) -> bool {
        self.liar.is_none()
    }

    /// Where it believes to be, unless it is down.
    pub fn coordinate(&self) -> Option<Coordinate> {
        self.node.as_ref().map(|node| *node.place())
    }
}

/// What a world is made of.
pub struct Parts {
    pub genesis: Arc<Genesis>,
    pub keys: Vec<Key>,
    pub slots: Vec<Slot>,
    pub clients: Vec<Client>,
    /// Whom clients know to lead.
    pub leading: Arc<Epoch>,
    pub registry: Registry,
    pub network: Network,
    pub watch: Watch,
    pub door: Door,
    pub polls: Polls,
    pub planted: Planted,
    pub timeline: Option<Timeline>,
    pub heard: Option<Heard>,
    /// After this nothing fails any more.
    pub faults_until_ms: i64,
    /// How long after its deadline, or after the last fault, a task may still be on its way.
    pub grace_ms: i64,
    /// After so many turns somebody is stored and read back.
    pub reread_every: u64,
}

pub struct World {
    pub parts: Parts,
    pub now_ms: i64,
    queue: BinaryHeap<Reverse<Entry>>,
    sequence: u64,
    /// Only looked up, never walked.
    numbers: HashMap<Did, u32>,
    /// Messages without what was attached to them; only looked up.
    bare: HashMap<Hash32, Arc<Signed>>,
    deadlines: BTreeMap<String, i64>,
    /// Whom clients turn to.
    acting: Vec<Did>,
    pub counts: Counts,
    pub traffic: Traffic,
    pub trace: Trace,
}

impl World {
    pub fn new(parts: Parts) -> World {
        let nodes = parts.keys.iter().map(|key| key.did);
        let clients = parts.clients.iter().map(|client| client.key.did);
        let numbers = nodes.chain(clients).zip(0..).collect();
        let deadline = |client: &Client| {
            let ms = client.task.deadline.as_ms() - parts.genesis.start.as_ms();
            (client.task.task_id.clone(), ms)
        };
        let deadlines = parts.clients.iter().map(deadline).collect();
        World {
            parts,
            now_ms: 0,
            queue: BinaryHeap::new(),
            sequence: 0,
            numbers,
            bare: HashMap::new(),
            deadlines,
            acting: Vec::new(),
            counts: Counts::default(),
            traffic: Traffic::default(),
            trace: Trace::default(),
        }
    }

    fn push(&mut self, at_ms: i64, what: What) {
        self.sequence += 1;
        self.queue.push(Reverse(Entry { at_ms, sequence: self.sequence, what }));
    }

    /// A node's first turn.
    pub fn start(&mut self, node: usize, at_ms: i64) {
        self.parts.slots[node].wake_ms = Some(at_ms);
        self.push(at_ms, What::Wake { node: node as u32 });
    }

    /// A newcomer's first turn; until then it is not there.
    pub fn join(&mut self, node: usize, at_ms: i64) {
        let did = self.parts.keys[node].did;
        if self.parts.slots[node].is_honest() {
            self.parts.door.expect(node, did, at_ms);
        }
        let slot = &mut self.parts.slots[node];
        slot.yet_to_come = slot.node.take();
        if let Some(timeline) = &mut self.parts.timeline {
            timeline.down(0, node);
        }
        self.push(at_ms, What::Come { node: node as u32 });
    }

    /// Newcomers that are members by the newest election that they know.
    pub fn joined(&self, founders: usize) -> usize {
        let newcomers = self.parts.slots[founders..].iter();
        newcomers.filter_map(|slot| slot.node.as_ref()).filter(|node| node.is_member()).count()
    }

    pub fn crash(&mut self, node: usize, from_ms: i64, until_ms: i64, stop: Stop) {
        self.push(from_ms, What::Crash { node: node as u32, stop });
        self.push(until_ms, What::Restart { node: node as u32 });
    }

    /// A client's next turn.
    pub fn turn(&mut self, client: usize, at_ms: i64) {
        self.push(at_ms, What::Client { client: client as u32 });
    }

    /// Whether no task is on its way any more, and no fault will come.
    pub fn is_quiet(&self) -> bool {
        self.now_ms >= self.parts.faults_until_ms.max(self.parts.door.until_ms())
            && !self.parts.watch.has_open()
            && self.parts.clients.iter().all(|client| client.known.is_some())
    }

    /// The next event; whether there was one.
    pub fn step(&mut self) -> bool {
        let Some(Reverse(entry)) = self.queue.pop() else {
            return false;
        };
        self.now_ms = self.now_ms.max(entry.at_ms);
        match entry.what {
            What::Deliver { to, genuine, message } => self.deliver(to as usize, genuine, message),
            What::Response { to, response } => self.deliver_answer(to as usize, &response),
            What::Wake { node } => self.wake(node as usize, entry.at_ms),
            What::Answer { node, answer } => {
                if self.parts.slots[node as usize].node.is_some() {
                    self.mark(2, node as usize);
                    self.feed(node as usize, Input::Answer(*answer));
                }
            }
            What::Crash { node, stop: Stop::Between } => self.go_down(node as usize),
            What::Crash { node, stop } => self.parts.slots[node as usize].stop = Some(stop),
            What::Restart { node } => self.come_up(node as usize),
            What::Come { node } => self.come(node as usize),
            What::Client { client } => self.client_turn(client as usize),
        }
        self.parts.watch.pass_time(self.now_ms);
        true
    }

    fn mark(&mut self, kind: u64, who: usize) {
        self.counts.events += 1;
        self.trace.add(self.now_ms as u64);
        self.trace.add(kind << 32 | who as u64);
    }

    fn deliver(&mut self, to: usize, genuine: bool, message: Arc<Signed>) {
        let Some(slot) = self.parts.slots.get_mut(to) else {
            return self.deliver_to_client(to, genuine, &message);
        };
        if slot.node.is_none() || self.parts.planted.swallows(&message) {
            self.counts.lost += 1;
            return;
        }
        if Phase::of(&message.message).is_upkeep() {
            slot.load.upkeep += 1;
        } else {
            slot.load.work += 1;
            slot.load.work_bytes += message.wire_len() as u64;
        }
        self.mark(1, to);
        self.trace.add_hash(&message.hash());
        if genuine {
            self.feed(to, Input::Message(message));
        } else {
            self.counts.forged += 1;
        }
    }

    fn wake(&mut self, node: usize, at_ms: i64) {
        let slot = &mut self.parts.slots[node];
        // Whoever was woken in the meantime has set another time.
        if slot.node.is_some() && slot.wake_ms == Some(at_ms) {
            slot.wake_ms = None;
            self.mark(3, node);
            self.feed(node, Input::Tick);
            let slot = &mut self.parts.slots[node];
            let is_due = slot.wake_ms == Some(self.now_ms + TICK_MIN_MS);
            slot.restless = if is_due { slot.restless + 1 } else { 0 };
            if slot.restless == RESTLESS_MAX {
                let what = "a node never rests".to_owned();
                self.parts.watch.report(self.now_ms, Some(node), Invariant::EndsInTime, what);
            }
        }
    }

    fn come(&mut self, node: usize) {
        self.parts.slots[node].node = self.parts.slots[node].yet_to_come.take();
        self.mark(9, node);
        if let Some(timeline) = &mut self.parts.timeline {
            timeline.up(self.now_ms, node);
        }
        self.feed(node, Input::Tick);
    }

    fn time_of(&self, node: usize) -> Timestamp {
        let skew_ms = self.parts.slots[node].skew_ms;
        Timestamp::from_ms(self.parts.genesis.start.as_ms() + self.now_ms + skew_ms)
    }

    /// Gives a node an input, and itself whatever it says to itself.
    fn feed(&mut self, node: usize, input: Input) {
        let stop = self.parts.slots[node].stop.take();
        if stop == Some(Stop::Deaf) {
            return self.go_down(node);
        }
        let mut inputs = VecDeque::from([input]);
        let mut turns = 0;
        while let Some(input) = inputs.pop_front() {
            turns += 1;
            if turns > SELF_TALK_MAX {
                let what = "a node talks to itself for ever".to_owned();
                self.parts.watch.report(self.now_ms, Some(node), Invariant::EndsInTime, what);
                break;
            }
            let slot = &mut self.parts.slots[node];
            let heard = match (&mut slot.liar, &slot.node, &input) {
                (Some(liar), Some(up), Input::Message(message)) => liar.hear(up.epoch(), message),
                (None, _, Input::Message(message)) if self.parts.planted.is_careless() => {
                    bug::cosign(self.parts.keys[node].did, message)
                }
                _ => Vec::new(),
            };
            heard.into_iter().for_each(|draft| self.post(node, draft, &mut inputs));
            if let (Some(heard), Input::Message(message)) = (&mut self.parts.heard, &input)
                && self.parts.slots[node].is_honest()
            {
                heard.hear(message);
            }
            let now = self.time_of(node);
            let Some(machine) = &mut self.parts.slots[node].node else {
                return;
            };
            for output in machine.step(now, input) {
                match stop {
                    Some(Stop::Midway(leave)) => {
                        self.perform_midway(node, output, leave, &mut inputs);
                    }
                    _ => self.perform(node, now, output, &mut inputs),
                }
            }
        }
        if stop.is_some() {
            return self.go_down(node);
        }
        let is_reread = self.counts.events.checked_rem(self.parts.reread_every) == Some(0);
        if let (true, Some(up)) = (is_reread, &mut self.parts.slots[node].node) {
            *up = crashes::read(&crashes::written(up));
        }
        self.set_timer(node);
    }

    fn set_timer(&mut self, node: usize) {
        let slot = &mut self.parts.slots[node];
        let Some(wanted) = slot.node.as_ref().and_then(|up| up.wake_at()) else {
            return;
        };
        let in_world = wanted.as_ms() - self.parts.genesis.start.as_ms() - slot.skew_ms;
        let at_ms = in_world.max(self.now_ms + TICK_MIN_MS);
        if slot.wake_ms != Some(at_ms) {
            slot.wake_ms = Some(at_ms);
            self.push(at_ms, What::Wake { node: node as u32 });
        }
    }

    fn perform(
        &mut self,
        node: usize,
        now: Timestamp,
        output: Output,
        inputs: &mut VecDeque<Input>,
    ) {
        match output {
            Output::Send { to, message, attached } => {
                let signer = self.parts.keys[node].did;
                let slot = &mut self.parts.slots[node];
                let altered = match (&mut slot.liar, &slot.node) {
                    (Some(liar), Some(up)) => {
                        liar.speak((now, up.epoch(), up.genesis()), to, message, attached)
                    }
                    _ => Altered {
                        drafts: vec![Draft::Say {
                            signer,
                            to,
                            message: Box::new(self.parts.planted.say(message)),
                            attached,
                        }],
                        dies: false,
                    },
                };
                altered.drafts.into_iter().for_each(|draft| self.post(node, draft, inputs));
                if altered.dies {
                    self.parts.slots[node].node = None;
                    inputs.clear();
                    if let Some(timeline) = &mut self.parts.timeline {
                        timeline.down(self.now_ms, node);
                    }
                }
            }
            Output::Ask(ask) => self.ask(node, now, &ask),
            Output::Event(event) => self.observe(node, event),
            Output::Answer { to, response } => self.send_answer(node, &to, response),
            Output::Refused { .. } => self.counts.refused += 1,
        }
    }

    fn ask(&mut self, node: usize, now: Timestamp, ask: &Ask) {
        let (delay_ms, answer) = self.parts.slots[node].agent.answer(now, ask);
        let at_ms = self.now_ms + delay_ms;
        if let Some(timeline) = &mut self.parts.timeline {
            timeline.think(self.now_ms, at_ms, node, ask);
        }
        self.push(at_ms, What::Answer { node: node as u32, answer: Box::new(answer) });
    }

    fn observe(&mut self, node: usize, event: Event) {
        if !self.parts.slots[node].is_honest() {
            return;
        }
        let Some(event) = self.parts.planted.alter(node, event) else {
            return;
        };
        let due_ms = match &event {
            Event::Injected { task_id } | Event::PlanDecided { task_id, .. } => {
                let deadline_ms = self.deadlines.get(task_id).copied();
                let last_ms = deadline_ms.map(|ms| ms.max(self.parts.faults_until_ms));
                last_ms.map(|ms| ms + self.parts.grace_ms)
            }
            _ => None,
        };
        if let (Event::Injected { .. }, Some(up)) = (&event, &self.parts.slots[node].node) {
            self.counts.in_place += u64::from(!up.epoch().is_tier1(&up.did()));
        }
        self.mark(6, node);
        self.parts.watch.observe(self.now_ms, node, &event, due_ms);
        if let Event::Elected { epoch, hash } = &event {
            self.look_at_election(node, *epoch, hash);
        }
        if let Some(timeline) = &mut self.parts.timeline {
            timeline.event(self.now_ms, node, &event);
        }
    }

    /// Signs and sends; what a node says to itself comes back at once.
    fn post(&mut self, node: usize, draft: Draft, inputs: &mut VecDeque<Input>) {
        let (to, message) = match draft {
            Draft::Again { to, message } => (to, message),
            Draft::Order { to, order, message } => {
                let (key, now) = (&self.parts.keys[node], self.time_of(node));
                let order = Arc::new(self.seal(key, key.did, now, *order, Vec::new()));
                (to, Arc::new(self.seal(key, key.did, now, *message, vec![order])))
            }
            Draft::Say { signer, to, message, attached } => {
                let now = self.time_of(node);
                let attached = self.flat(attached);
                (to, Arc::new(self.seal(&self.parts.keys[node], signer, now, *message, attached)))
            }
        };
        self.parts.watch.see(&message);
        self.parts.door.see(&message, self.parts.slots[node].is_honest());
        let me = self.parts.keys[node].did;
        if to.contains(&me) {
            inputs.push_back(Input::Message(message.clone()));
        }
        self.send(node, &to, &message);
    }

    /// What is attached travels without its own attachments.
    fn flat(&mut self, mut attached: Vec<Arc<Signed>>) -> Vec<Arc<Signed>> {
        for message in attached.iter_mut().filter(|message| !message.attached.is_empty()) {
            let bare = self.bare.entry(message.hash()).or_insert_with(|| {
                let mut bare = Signed::clone(message);
                bare.attached = Vec::new();
                Arc::new(bare)
            });
            *message = bare.clone();
        }
        attached
    }

    fn seal(
        &self,
        key: &Key,
        signer: Did,
        now: Timestamp,
        message: Message,
        attached: Vec<Arc<Signed>>,
    ) -> Signed {
        let genesis = &self.parts.genesis;
        let epoch = genesis.epoch_at(now);
        let meta = Meta { signer, swarm: genesis.swarm.clone(), epoch, sent_at: now };
        Signed::seal(meta, message, attached, key)
    }

    fn send(&mut self, from: usize, to: &[Did], message: &Arc<Signed>) {
        let admitted = self.parts.registry.admit(message);
        let genuine = admitted.is_ok();
        let is_honest = self.parts.slots.get(from).is_none_or(Slot::is_honest);
        if let Some(error) = admitted.err().filter(|_| is_honest) {
            let what = format!("{} cannot be opened: {error}", message.message.method());
            self.parts.watch.report(self.now_ms, Some(from), Invariant::Opens, what);
        }
        let mut known = HashSet::new();
        if is_honest && message.attached.iter().any(|inner| !known.insert(inner.hash())) {
            let what = format!("{} has something attached twice", message.message.method());
            self.parts.watch.report(self.now_ms, Some(from), Invariant::Opens, what);
        }
        let bytes = message.wire_len() as u64;
        let before = self.counts.messages;
        for did in to {
            let Some(&number) = self.numbers.get(did) else {
                continue;
            };
            if number as usize == from {
                continue;
            }
            self.counts.messages += 1;
            self.counts.bytes += bytes;
            let arrivals = self.parts.network.carry(self.now_ms, from, number as usize);
            if arrivals == [None, None] {
                self.counts.lost += 1;
            }
            if let Some(timeline) = &mut self.parts.timeline {
                timeline.send(self.now_ms, from, number as usize, arrivals[0], &message.message);
            }
            for at_ms in arrivals.into_iter().flatten() {
                let message = message.clone();
                self.push(at_ms, What::Deliver { to: number, genuine, message });
            }
        }
        self.traffic.add(message, self.counts.messages - before);
    }

    /// Honest members that know no election as new as the clock wants it, by node and epoch.
    pub fn behind(&self, due: u64) -> Vec<(usize, u64)> {
        let members = self.parts.slots.iter().enumerate().filter(|(_, slot)| slot.is_honest());
        let up = members.filter_map(|(number, slot)| Some((number, slot.node.as_ref()?)));
        up.filter(|(_, node)| node.is_member())
            .map(|(number, node)| (number, node.epoch().number()))
            .filter(|(_, elected)| *elected < due)
            .collect()
    }

    /// The ends of clients' tasks that a node does not know; it knows of the tasks.
    pub fn open_ends(&self) -> Vec<(usize, String)> {
        let mut open = Vec::new();
        for (number, slot) in self.parts.slots.iter().enumerate() {
            let (true, Some(node)) = (slot.is_honest(), &slot.node) else {
                continue;
            };
            let missing = node.ends().into_iter().filter(|(_, ended)| ended.is_none());
            open.extend(missing.map(|(task_id, _)| (number, task_id.to_owned())));
        }
        open
    }
}
