//! A few nodes in one room, whose agents answer at once.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use skep_base::{AgentId, Did, Timestamp, ed25519::SecretKey};
use skep_swarm::{
    aggregate::{self, Piece},
    challenge,
    genesis::{Genesis, Timing},
    node::{Answer, Ask, Door, Event, Input, Node, Output, Profile},
    pow,
};
use skep_wire::identity::{Rotation, Statement};
use skep_wire::swarm::{
    CriticScore, ErrorCode, Evidence, Inject, KeyLink, KnownKeys, Location, Message, Meta, Plan,
    Resources, Response, Score, Share, Signed, Subtask, Task, TaskStatus, named,
};

pub const SWARM: &str = "test";

pub fn start() -> Timestamp {
    Timestamp::from_ms(1_800_000_000_000)
}

pub fn secret(n: u8) -> SecretKey {
    SecretKey::from_seed([n + 1; 32])
}

/// The full id of a task of the usual client's.
pub fn id(plain: &str) -> String {
    named(plain, &secret(100).public().did())
}

pub fn score(did: Did) -> Score {
    Score {
        agent_id: did,
        proof_of_compute: Share::ONE,
        reputation: Share::ZERO,
        uptime: Share::ONE,
        stake: Share::ZERO,
    }
}

pub fn profile(key: &SecretKey) -> Profile {
    let did = key.public().did();
    Profile {
        key: key.public(),
        key_chain: Vec::new(),
        capabilities: vec!["text".to_owned()],
        resources: Resources::default(),
        location: Location::default(),
        score: score(did),
        evidence: Evidence::default(),
        published: Vec::new(),
        proof_of_work: pow::solve(&did, 8),
    }
}

pub struct Room {
    pub keys: BTreeMap<Did, SecretKey>,
    pub nodes: BTreeMap<Did, Node>,
    pub genesis: Arc<Genesis>,
    pub now: Timestamp,
    pub line: VecDeque<(Did, Arc<Signed>)>,
    pub events: Vec<(Did, Event)>,
    pub refusals: Vec<(Did, ErrorCode)>,
    /// Who has answered whom what.
    pub answers: Vec<(Did, Did, Response)>,
    /// Every message that was sent, for a transcript.
    pub sent: Vec<Arc<Signed>>,
    /// What reached those who are no members.
    pub outside: Vec<(Did, Arc<Signed>)>,
    /// Work that this agent delivers is wrong, so many times.
    pub wrong: BTreeMap<Did, u32>,
    /// Who does no work for the challenge of an epoch.
    pub idle: BTreeSet<Did>,
    /// What agents do not answer at once, and what they have not answered.
    pub unanswered: fn(&Ask) -> bool,
    pub open: Vec<(Did, Ask)>,
    /// How hard planned parts are.
    pub complexity: Share,
    /// What never arrives.
    pub lost: fn(&Room, &Did, &Signed) -> bool,
    /// What each node opens messages with; without them nobody looks at signatures.
    pub doors: Option<BTreeMap<Did, KnownKeys>>,
}

impl Room {
    pub fn new(n: u8) -> Room {
        Room::timed(n, Timing::default())
    }

    pub fn timed(n: u8, timing: Timing) -> Room {
        let keys: Vec<SecretKey> = (0..n).map(secret).collect();
        let genesis = Arc::new(Genesis {
            swarm: SWARM.to_owned(),
            start: start(),
            founders: keys.iter().map(SecretKey::public).collect(),
            issuers: Vec::new(),
            difficulty: 8,
            timing,
        });
        let node = |key: &SecretKey| Node::new(genesis.clone(), profile(key));
        let nodes = keys.iter().map(|key| (key.public().did(), node(key))).collect();
        let keys = keys.into_iter().map(|key| (key.public().did(), key)).collect();
        let mut room = Room {
            keys,
            nodes,
            genesis,
            now: start(),
            line: VecDeque::new(),
            events: Vec::new(),
            refusals: Vec::new(),
            answers: Vec::new(),
            sent: Vec::new(),
            outside: Vec::new(),
            wrong: BTreeMap::new(),
            idle: BTreeSet::new(),
            unanswered: |_| false,
            open: Vec::new(),
            complexity: Share::percent(20),
            lost: |_, _, _| false,
            doors: None,
        };
        room.run(1);
        room
    }

    pub fn known_keys(&self) -> KnownKeys {
        let mut known = KnownKeys::default();
        for key in self.keys.values() {
            known.learn(key.public());
        }
        known
    }

    pub fn tier1(&self) -> Vec<Did> {
        self.any().epoch().tier1().to_vec()
    }

    pub fn any(&self) -> &Node {
        self.nodes.values().next().expect("a room has nodes")
    }

    /// Signs a message as somebody, now.
    pub fn seal(&self, by: &SecretKey, message: Message) -> Arc<Signed> {
        self.seal_with(by, message, Vec::new())
    }

    pub fn seal_with(
        &self,
        by: &SecretKey,
        message: Message,
        attached: Vec<Arc<Signed>>,
    ) -> Arc<Signed> {
        self.seal_as(by.public().did(), by, message, attached)
    }

    pub fn seal_as(
        &self,
        signer: Did,
        by: &SecretKey,
        message: Message,
        attached: Vec<Arc<Signed>>,
    ) -> Arc<Signed> {
        let epoch = self.genesis.epoch_at(self.now);
        let meta = Meta { signer, swarm: SWARM.to_owned(), epoch, sent_at: self.now };
        Arc::new(Signed::seal(meta, message, attached, by))
    }

    pub fn task(&self, id: &str) -> Task {
        Task {
            task_id: self::id(id),
            parent_task_id: None,
            epoch: self.any().epoch().number(),
            status: TaskStatus::Pending,
            description: "Write a report".to_owned(),
            assigned_to: None,
            tier_level: 1,
            subtasks: Vec::new(),
            created_at: self.now,
            deadline: self.now.plus(std::time::Duration::from_secs(3_600)),
            capabilities_required: Vec::new(),
            depth: 0,
            index: 0,
            complexity: Share::percent(80),
            needs_approval: false,
        }
    }

    pub fn inject(&self, by: &SecretKey, task: Task) -> Message {
        let (originator, pub_key) = (by.public().did(), Some(by.public()));
        let _ = self;
        Message::Inject(Inject { task, originator, pub_key, key_chain: Vec::new() })
    }

    /// Gives a message to one node and does what follows, in its order.
    pub fn deliver(&mut self, to: &Did, message: Arc<Signed>) {
        self.line.push_back((*to, message));
        self.settle();
    }

    /// The one code with which a node refuses a message.
    pub fn refused(&mut self, to: &Did, message: Arc<Signed>) -> Option<ErrorCode> {
        self.refusals.clear();
        self.deliver(to, message);
        self.refusals.iter().find(|(did, _)| did == to).map(|(_, code)| *code)
    }

    pub fn settle(&mut self) {
        while self.advance() {}
    }

    /// The next message; whether there was one.
    pub fn advance(&mut self) -> bool {
        let Some((to, message)) = self.line.pop_front() else {
            return false;
        };
        if !(self.lost)(self, &to, &message)
            && let Some(message) = self.let_in(&to, message)
        {
            let refused = self.refusals.len();
            self.step(&to, Input::Message(message.clone()));
            if self.refusals.len() == refused
                && let Some(keys) = self.doors.as_mut().and_then(|doors| doors.get_mut(&to))
            {
                keys.meet(&message);
            }
        }
        true
    }

    /// From now on nodes look at signatures.
    pub fn guard(&mut self) {
        let keys = |(did, node): (&Did, &Node)| (*did, node.known_keys());
        self.doors = Some(self.nodes.iter().map(keys).collect());
    }

    fn let_in(&mut self, to: &Did, message: Arc<Signed>) -> Option<Arc<Signed>> {
        // What a node has said to itself did not come from anywhere.
        let keys = self.doors.as_ref().and_then(|doors| doors.get(to));
        let keys = keys.filter(|_| message.meta.signer != *to);
        let (Some(keys), Some(node)) = (keys, self.nodes.get(to)) else {
            return Some(message);
        };
        let text = message.to_json().to_string();
        match Signed::open(text.as_bytes(), &Door { keys, node }) {
            Ok(opened) => Some(Arc::new(opened)),
            Err(error) => {
                self.refusals.push((*to, error.code()));
                None
            }
        }
    }

    /// Gives an agent another key.
    pub fn rotate(&mut self, did: &Did, new: SecretKey) {
        let link = link(&self.keys[did], &new, self.now);
        self.keys.insert(*did, new);
        if let Some(own) = self.doors.as_mut().and_then(|doors| doors.get_mut(did)) {
            let mut chain = own.get(did).expect("a node knows itself").clone();
            chain.add(link.clone()).expect("a good link");
            own.follow(chain).expect("it goes on from what is known");
        }
        self.step(did, Input::Rotated(Box::new(link)));
    }

    /// Lets seconds pass.
    pub fn run(&mut self, seconds: u32) {
        for _ in 0..seconds {
            for did in self.nodes.keys().copied().collect::<Vec<_>>() {
                if self.nodes[&did].wake_at().is_some_and(|at| at <= self.now) {
                    self.step(&did, Input::Tick);
                    self.settle();
                }
            }
            self.now = self.now.plus(std::time::Duration::from_secs(1));
        }
    }

    pub fn step(&mut self, did: &Did, input: Input) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(did) else {
            if let Input::Message(message) = input {
                self.outside.push((*did, message));
            }
            return;
        };
        for output in node.step(now, input) {
            match output {
                Output::Send { to, message, attached } => {
                    let sealed = self.seal_as(*did, &self.keys[did], message, attached);
                    self.sent.push(sealed.clone());
                    self.line.extend(to.into_iter().map(|to| (to, sealed.clone())));
                }
                Output::Ask(Ask::Compute { .. }) if self.idle.contains(did) => {}
                Output::Ask(ask) if (self.unanswered)(&ask) => self.open.push((*did, ask)),
                Output::Ask(ask) => {
                    let answer = self.answer(did, ask);
                    self.step(did, Input::Answer(answer));
                }
                Output::Event(event) => self.events.push((*did, event)),
                Output::Answer { to, response } => self.answers.push((*did, to, response)),
                Output::Refused { code, .. } => self.refusals.push((*did, code)),
            }
        }
    }

    pub fn answer(&mut self, did: &Did, ask: Ask) -> Answer {
        let good = CriticScore {
            feasibility: Share::percent(80),
            parallelism: Share::percent(50),
            completeness: Share::percent(90),
            risk: Share::percent(10),
        };
        match ask {
            Ask::Plan { task } => {
                let plan = plan(&task, did, self.complexity);
                Answer::Plan { task_id: task.task_id, plan }
            }
            Ask::Critique { task, plans, .. } => {
                let plan_scores = plans.into_iter().map(|plan| (plan.plan_id, good)).collect();
                Answer::Critique { task_id: task.task_id, plan_scores, content: "Good".to_owned() }
            }
            Ask::Vote { task, plans, .. } => {
                let alone = plans.len() == 1;
                let others = plans.iter().filter(|plan| alone || plan.proposer != *did);
                let rankings = others.map(|plan| plan.plan_id.clone()).collect();
                let critic_scores = plans.iter().map(|p| (p.plan_id.clone(), good)).collect();
                Answer::Vote { task_id: task.task_id, rankings, critic_scores }
            }
            Ask::Execute { task, attempt, .. } => {
                let wrong = self.wrong.entry(*did).or_default();
                let content = if *wrong > 0 { "nonsense" } else { "done" };
                *wrong = wrong.saturating_sub(1);
                let content = format!("{content}: {}", task.description);
                Answer::Work { task_id: task.task_id, attempt, content }
            }
            Ask::Compute { epoch, beacon, difficulty } => {
                Answer::Computed { epoch, nonce: challenge::solve(&beacon, did, difficulty) }
            }
            Ask::Check { task, result } => {
                let content = result.content.unwrap_or_default();
                let accepted = match result.parts.is_empty() {
                    true => content.starts_with("done"),
                    false => aggregate::pieces(&content).is_some_and(|all| are_done(&all)),
                };
                let reason = (!accepted).then(|| "nonsense".to_owned());
                let artifact_id = result.artifact.artifact_id;
                Answer::Checked { task_id: task.task_id, artifact_id, accepted, reason }
            }
        }
    }
}

fn are_done(pieces: &[Piece]) -> bool {
    pieces.iter().all(|piece| match &piece.content {
        Some(content) => content.starts_with("done"),
        None => are_done(&piece.pieces),
    })
}

pub fn link(old: &SecretKey, new: &SecretKey, issued_at: Timestamp) -> KeyLink {
    let agent_id = AgentId::ZERO;
    let (old_key, new_key) = (old.public(), new.public());
    let statement = Rotation { agent_id, old_key, new_key, issued_at };
    let [old_key_signature, new_key_signature] =
        [old, new].map(|key| statement.sign(key).expect("a statement is plain JSON"));
    KeyLink { statement, old_key_signature, new_key_signature }
}

pub fn plan(task: &Task, did: &Did, complexity: Share) -> Plan {
    let part = |index: u32| Subtask {
        index,
        description: format!("part {index} of {}", task.description),
        required_capabilities: Vec::new(),
        estimated_complexity: complexity,
    };
    let name = &did.to_string()[10..18];
    Plan {
        // Everybody says the same: it is made its own by each node.
        plan_id: "plan-1".to_owned(),
        task_id: task.task_id.clone(),
        proposer: *did,
        epoch: task.epoch,
        subtasks: (0..3).map(part).collect(),
        rationale: "In three parts".to_owned(),
        estimated_parallelism: Share::ONE,
        created_at: task.created_at,
        salt: Some(format!("salt of {name}")),
    }
}
