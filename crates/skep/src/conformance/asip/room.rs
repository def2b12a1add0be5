//! A few nodes in one room: what one sends arrives at once and in order, and seconds pass when
//! they are told to.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use skep_base::{Did, Timestamp, ed25519::SecretKey};
use skep_sim::agent::Agent;
use skep_swarm::{
    epoch::Epoch,
    genesis::{Genesis, Timing},
    node::{Event, Input, Node, Output, Profile},
    pow,
    transcript::{Report, Transcript},
};
use skep_wire::swarm::{
    End, Ended, ErrorCode, Evidence, Inject, KnownKeys, Location, Message, Meta, Resources,
    Response, Score, Share, Signed, Task, TaskStatus, named,
};

/// Proofs of work in a room; the protocol's own is shown where it counts.
const DIFFICULTY: u32 = 8;
/// Whoever is no founder.
pub const CLIENT: u8 = 200;

pub fn secret(n: u8) -> SecretKey {
    SecretKey::from_seed([n.wrapping_add(1); 32])
}

pub struct Room {
    pub genesis: Arc<Genesis>,
    pub keys: BTreeMap<Did, SecretKey>,
    pub nodes: BTreeMap<Did, Node>,
    pub agents: BTreeMap<Did, Agent>,
    pub now: Timestamp,
    pub line: VecDeque<(Did, Arc<Signed>)>,
    /// Every message that was sent.
    pub sent: Vec<Arc<Signed>>,
    pub events: Vec<(Did, Event)>,
    pub answers: Vec<(Did, Response)>,
    refused: Vec<(Did, ErrorCode)>,
}

impl Room {
    pub fn new(members: u8) -> Room {
        let keys: Vec<SecretKey> = (0..members).map(secret).collect();
        let genesis = Arc::new(Genesis {
            swarm: "conformance".to_owned(),
            start: Timestamp::from_ms(1_800_000_000_000),
            founders: keys.iter().map(SecretKey::public).collect(),
            issuers: Vec::new(),
            difficulty: DIFFICULTY,
            timing: Timing::default(),
        });
        let keys: BTreeMap<Did, SecretKey> =
            keys.into_iter().map(|key| (key.public().did(), key)).collect();
        let node = |key: &SecretKey| Node::new(genesis.clone(), profile(key, DIFFICULTY));
        let agent = |me: &Did| Agent { seed: 1, me: *me, botches: false, accepts_all: false };
        let mut room = Room {
            now: genesis.start,
            nodes: keys.iter().map(|(did, key)| (*did, node(key))).collect(),
            agents: keys.keys().map(|did| (*did, agent(did))).collect(),
            genesis,
            keys,
            line: VecDeque::new(),
            sent: Vec::new(),
            events: Vec::new(),
            answers: Vec::new(),
            refused: Vec::new(),
        };
        room.run(1);
        room
    }

    pub fn epoch(&self) -> Arc<Epoch> {
        let newest = self.nodes.values().map(Node::epoch).max_by_key(|epoch| epoch.number());
        newest.cloned().unwrap_or_else(|| Epoch::founding(&self.genesis))
    }

    /// The first of Tier 1.
    pub fn leader(&self) -> Result<Did> {
        self.epoch().tier1().first().copied().context("nobody leads")
    }

    pub fn key(&self, did: &Did) -> Result<SecretKey> {
        self.keys.get(did).cloned().context("this is no founder")
    }

    pub fn seal(&self, by: &SecretKey, message: Message) -> Signed {
        self.seal_in(self.genesis.epoch_at(self.now), by, message)
    }

    pub fn seal_in(&self, epoch: u64, by: &SecretKey, message: Message) -> Signed {
        let (signer, swarm) = (by.public().did(), self.genesis.swarm.clone());
        let meta = Meta { signer, swarm, epoch, sent_at: self.now };
        Signed::seal(meta, message, Vec::new(), by)
    }

    pub fn task(&self, id: &str) -> Task {
        Task {
            task_id: named(id, &secret(CLIENT).public().did()),
            parent_task_id: None,
            epoch: self.epoch().number(),
            status: TaskStatus::Pending,
            description: "Compare three markets".to_owned(),
            assigned_to: None,
            tier_level: 1,
            subtasks: Vec::new(),
            created_at: self.now,
            deadline: self.now.plus(Duration::from_secs(7_200)),
            capabilities_required: Vec::new(),
            depth: 0,
            index: 0,
            complexity: Share::percent(80),
            needs_approval: false,
        }
    }

    /// A client's task.
    pub fn order(&self, task: Task) -> Signed {
        let client = secret(CLIENT);
        let (originator, pub_key) = (client.public().did(), Some(client.public()));
        let inject = Inject { task, originator, pub_key, key_chain: Vec::new() };
        self.seal(&client, Message::Inject(inject)).asking()
    }

    /// Gives a message to a node and does all that follows; the code with which it was refused.
    pub fn give(&mut self, to: &Did, message: Signed) -> Option<ErrorCode> {
        self.refused.clear();
        self.line.push_back((*to, Arc::new(message)));
        self.settle();
        self.refused.iter().find(|(did, _)| did == to).map(|(_, code)| *code)
    }

    pub fn settle(&mut self) {
        while self.advance() {}
    }

    /// The next message; whether there was one.
    pub fn advance(&mut self) -> bool {
        let Some((to, message)) = self.line.pop_front() else {
            return false;
        };
        self.step(&to, Input::Message(message));
        true
    }

    /// Lets seconds pass.
    pub fn run(&mut self, seconds: u64) {
        for _ in 0..seconds {
            for did in self.nodes.keys().copied().collect::<Vec<_>>() {
                let wanted = self.nodes.get(&did).and_then(Node::wake_at);
                if wanted.is_some_and(|at| at <= self.now) {
                    self.step(&did, Input::Tick);
                    self.settle();
                }
            }
            self.now = self.now.plus(Duration::from_secs(1));
        }
    }

    fn step(&mut self, did: &Did, input: Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let now = self.now;
            let (Some(node), Some(key)) = (self.nodes.get_mut(did), self.keys.get(did).cloned())
            else {
                return;
            };
            for output in node.step(now, input) {
                match output {
                    Output::Send { to, message, attached } => {
                        let mut sealed = self.seal(&key, message);
                        sealed.attached = attached;
                        let sealed = Arc::new(sealed);
                        self.sent.push(sealed.clone());
                        self.line.extend(to.into_iter().map(|to| (to, sealed.clone())));
                    }
                    Output::Ask(ask) => {
                        let answer = self.agents.get(did).map(|agent| agent.answer(now, &ask).1);
                        inputs.extend(answer.map(Input::Answer));
                    }
                    Output::Event(event) => self.events.push((*did, event)),
                    Output::Answer { response, .. } => self.answers.push((*did, response)),
                    Output::Refused { code, .. } => self.refused.push((*did, code)),
                }
            }
        }
    }

    /// Lets a task be done, for at most so many seconds.
    pub fn finish(&mut self, seconds: u64) -> Result<Ended> {
        for _ in 0..seconds {
            if self.ends().next().is_some() {
                break;
            }
            self.run(1);
        }
        let ended = self.ends().next().cloned();
        let ended = ended.with_context(|| format!("nothing had ended after {seconds} s"))?;
        ensure!(self.ends().all(|other| *other == ended), "two nodes know different ends");
        Ok(ended)
    }

    fn ends(&self) -> impl Iterator<Item = &Ended> {
        self.events.iter().filter_map(|(_, event)| match event {
            Event::Ended { ended, .. } => Some(ended),
            _ => None,
        })
    }

    /// A room in which a task was done.
    pub fn with_a_task(members: u8) -> Result<Room> {
        let mut room = Room::new(members);
        let (leader, order) = (room.leader()?, room.order(room.task("task")));
        room.sent.push(Arc::new(order.clone()));
        if let Some(code) = room.give(&leader, order) {
            bail!("the task was refused with {}", code.code());
        }
        let ended = room.finish(7_200)?;
        ensure!(ended.end == End::Succeeded, "the task ended as {:?}", ended.end);
        Ok(room)
    }

    pub fn keys(&self) -> KnownKeys {
        let mut keys = KnownKeys::default();
        self.keys.values().for_each(|key| keys.learn(key.public()));
        keys
    }

    /// What an auditor makes of all that was sent.
    pub fn audit(&self) -> Result<Report> {
        let written = Transcript::write(&self.genesis, &self.keys(), &self.sent);
        Ok(Transcript::read(&serde_json::to_vec(&written)?)?.verify())
    }

    pub fn said<'a, T>(&'a self, pick: impl Fn(&'a Message) -> Option<T>) -> Vec<(Did, T)> {
        let said = |sent: &'a Arc<Signed>| Some((sent.meta.signer, pick(&sent.message)?));
        self.sent.iter().filter_map(said).collect()
    }
}

pub fn profile(key: &SecretKey, difficulty: u32) -> Profile {
    let did = key.public().did();
    Profile {
        key: key.public(),
        key_chain: Vec::new(),
        capabilities: skep_sim::agent::SKILLS.map(str::to_owned).to_vec(),
        resources: Resources::default(),
        location: Location::default(),
        score: score(did),
        evidence: Evidence::default(),
        published: Vec::new(),
        proof_of_work: pow::solve(&did, difficulty),
    }
}

/// Of somebody about whom no issuer has said anything.
pub fn score(agent_id: Did) -> Score {
    let (reputation, stake) = (Share::ZERO, Share::ZERO);
    Score { agent_id, proof_of_compute: Share::ONE, reputation, uptime: Share::ONE, stake }
}
