//! Nodes that lie. A liar runs the same machine as everybody; what it hears and says is altered on
//! the way, so that it stays plausible for as long as its lies allow.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use skep_base::{Did, Hash32, Timestamp, hash::sha256};
use skep_swarm::{epoch::Epoch, genesis::Genesis, judge};
use skep_wire::swarm::{
    Assign, Certificate, Chosen, Computed, Inject, Invite, Keepalive, Location, Message, Observed,
    Outcome, Plan, Share, Signed, Step, Subject, Task, TaskStatus, Value, Word, named,
};

use crate::{
    lie::Lie,
    rng::Rng,
    schemer::{Plot, Schemer},
    trick::{self, Trickster},
};

/// How the ids of tasks begin that a flood is made of.
pub(crate) const JUNK: &str = "junk-";
/// How many messages a liar remembers in order to repeat them.
const REMEMBERED_MAX: usize = 64;
/// How many messages one burst of a flood has.
const BURST: usize = 10;
/// How long a flood's orders may take: a time that could be meant, or as long as anybody may ask.
const JUNK_LASTS: [Duration; 2] = [Duration::from_secs(120), Duration::from_secs(29 * 86_400)];
/// How often a liar that forges, repeats or floods does so, when it says something.
const EXTRA_PERCENT: u32 = 10;
/// The largest whole number that JSON can hold.
const HELD_LONGEST_MS: u64 = (1 << 53) - 1;

/// Something to be sent.
#[derive(Clone, Debug)]
pub enum Draft {
    Say {
        /// In whose name; only liars speak in others'.
        signer: Did,
        to: Vec<Did>,
        message: Box<Message>,
        attached: Vec<Arc<Signed>>,
    },
    /// With an order of its own attached.
    Order { to: Vec<Did>, order: Box<Message>, message: Box<Message> },
    /// As it is, whoever signed it.
    Again { to: Vec<Did>, message: Arc<Signed> },
}

/// What became of what the machine wanted to say.
#[derive(Debug, Default)]
pub struct Altered {
    pub drafts: Vec<Draft>,
    /// The node is gone, for good.
    pub dies: bool,
}

pub struct Liar {
    me: Did,
    lies: Vec<Lie>,
    rng: Rng,
    peers: Arc<[Did]>,
    remembered: Vec<Arc<Signed>>,
    /// By task: what another has committed to, and its plan.
    stolen_hashes: BTreeMap<String, Hash32>,
    stolen_plans: BTreeMap<String, Plan>,
    schemer: Schemer,
    trickster: Trickster,
    extra: u32,
    extra_max: u32,
}

impl Liar {
    /// `friends`: all who lie, itself among them.
    pub fn new(
        me: Did,
        lies: Vec<Lie>,
        rng: Rng,
        peers: Arc<[Did]>,
        friends: Arc<BTreeSet<Did>>,
        extra_max: u32,
    ) -> Liar {
        Liar {
            me,
            lies,
            rng,
            trickster: Trickster::new(me, peers.clone()),
            peers,
            remembered: Vec::new(),
            stolen_hashes: BTreeMap::new(),
            stolen_plans: BTreeMap::new(),
            schemer: Schemer::new(friends),
            extra: 0,
            extra_max,
        }
    }

    pub fn lies(&self) -> &[Lie] {
        &self.lies
    }

    fn has(&self, lie: Lie) -> bool {
        self.lies.contains(&lie)
    }

    /// What it says at once to something that it hears, before its machine has its turn.
    pub fn hear(&mut self, epoch: &Epoch, message: &Arc<Signed>) -> Vec<Draft> {
        match &message.message {
            Message::Commit(commit) if commit.proposer != self.me => {
                self.stolen_hashes.insert(commit.task_id.clone(), commit.plan_hash);
            }
            Message::Reveal(reveal) if reveal.plan.proposer != self.me => {
                self.stolen_plans.insert(reveal.task_id.clone(), reveal.plan.clone());
            }
            _ => {}
        }
        let remembers = self.has(Lie::Replay) || self.has(Lie::FatBundles);
        if remembers && message.meta.signer != self.me {
            if self.remembered.len() < REMEMBERED_MAX {
                self.remembered.push(message.clone());
            } else {
                let place = self.rng.index(REMEMBERED_MAX);
                self.remembered[place] = message.clone();
            }
        }
        if self.has(Lie::Silent) {
            return Vec::new();
        }
        let mut drafts = self.trick(epoch, message);
        let leader = message.meta.signer;
        let plots = self.plot().is_some() || self.has(Lie::RaceChair);
        if let Message::Certificate(certificate) = &message.message
            && (self.has(Lie::SignEverything) || plots && self.schemer.is_friend(&leader))
        {
            drafts.extend(self.sign_everything(leader, certificate));
        }
        if plots {
            let said = self.schemer.hear(message).into_iter();
            drafts.extend(said.map(|(to, message, attached)| self.say(to, message, attached)));
        }
        drafts
    }

    /// What it wants to make final instead of what it has to propose.
    fn plot(&self) -> Option<Plot> {
        let plots = [
            (Lie::TwoBundles, Plot::Split),
            (Lie::PadRecord, Plot::Pad),
            (Lie::DropBallots, Plot::Drop),
            (Lie::HidePlans, Plot::Hide),
            (Lie::StandAlone, Plot::StandAlone),
            (Lie::CountFew, Plot::CountFew),
        ];
        plots.into_iter().find(|(lie, _)| self.has(*lie)).map(|(_, plot)| plot)
    }

    fn trick(&mut self, epoch: &Epoch, message: &Arc<Signed>) -> Vec<Draft> {
        let mut drafts = Vec::new();
        if self.has(Lie::JumpViews) {
            drafts.extend(self.trickster.jump(epoch, message));
        }
        if self.has(Lie::RaceChair) {
            drafts.extend(self.trickster.race(epoch, message));
            if self.trickster.is_race(message) {
                let said = self.schemer.end_first(epoch, message);
                drafts.extend(said.map(|(to, message, record)| self.say(to, message, record)));
            }
        }
        if self.has(Lie::SquatId) {
            drafts.extend(self.trickster.squat(epoch, message));
        }
        if let Message::Reveal(reveal) = &message.message
            && self.has(Lie::LateCommit)
        {
            drafts.extend(self.trickster.copy(reveal));
        }
        drafts
    }

    fn sign_everything(&mut self, leader: Did, certificate: &Certificate) -> Vec<Draft> {
        let Word::Propose { value } = &certificate.word else {
            return Vec::new();
        };
        let sign = |step| {
            let word = Word::Sign { step, hash: value.hash() };
            let message = Message::Certificate(Certificate { word, ..certificate.clone() });
            self.say(vec![leader], message, Vec::new())
        };
        [Step::Prepare, Step::Commit].into_iter().map(sign).collect()
    }

    /// Alters what the machine says.
    pub fn speak(
        &mut self,
        world: (Timestamp, &Epoch, &Genesis),
        to: Vec<Did>,
        message: Message,
        attached: Vec<Arc<Signed>>,
    ) -> Altered {
        if self.has(Lie::Silent) {
            return Altered::default();
        }
        let (now, epoch, genesis) = world;
        if self.has(Lie::JumpViews) && self.trickster.is_hushed(&message) {
            return Altered::default();
        }
        if let Message::Certificate(certificate) = &message
            && let Some(plot) = self.plot()
            && let Some(said) =
                self.schemer.speak(plot, (epoch, genesis), &to, certificate, &attached)
        {
            let said = said.into_iter();
            let drafts = said.map(|(to, message, attached)| self.say(to, message, attached));
            return Altered { drafts: drafts.collect(), dies: false };
        }
        let (to, message) = match message {
            Message::Ready(ready) if self.has(Lie::DropBallots) => {
                match self.trickster.sit_alone(epoch, &ready) {
                    Some(alone) => {
                        ([vec![self.me], alone.senate.clone()].concat(), Message::Ready(alone))
                    }
                    None => (to, Message::Ready(ready)),
                }
            }
            message => (to, message),
        };
        let is_certificate = matches!(message, Message::Certificate(_)) && !attached.is_empty();
        let attached = match self.has(Lie::FatBundles) && is_certificate {
            true => self.trickster.fatten(attached, &self.remembered),
            false => attached,
        };
        let mut altered = self.main_word(to, message, attached);
        if !altered.dies && self.extra < self.extra_max && self.rng.percent(EXTRA_PERCENT) {
            let more = self.extras(now, epoch.number());
            self.extra += more.len() as u32;
            altered.drafts.extend(more);
        }
        altered
    }

    fn main_word(&mut self, to: Vec<Did>, message: Message, attached: Vec<Arc<Signed>>) -> Altered {
        let is_proposal = |m: &Message| {
            matches!(m, Message::Certificate(Certificate { word: Word::Propose { .. }, .. }))
        };
        let is_end = |m: &Message| {
            matches!(
                m,
                Message::Certificate(Certificate {
                    word: Word::Bundle { step: Step::Commit, .. },
                    ..
                })
            )
        };
        let dies = matches!(message, Message::Ready(_)) && self.has(Lie::DieAsChair)
            || is_proposal(&message) && self.has(Lie::DieAsLeader);
        if dies || is_end(&message) && self.has(Lie::HalfCertificate) {
            let (half, _) = self.halves(to);
            return Altered { drafts: vec![self.say(half, message, attached)], dies };
        }
        let message = if self.has(Lie::FalsePlace) { self.misplace(message) } else { message };
        let message = if self.has(Lie::FalseCompute) { self.pretend(message) } else { message };
        let slanders = self.has(Lie::FalseWitness) || self.has(Lie::CountFew);
        let message = if slanders { self.slander(message) } else { message };
        match self.second_version(&message) {
            Some(Version::Instead(message)) => {
                Altered { drafts: vec![self.say(to, message, attached)], dies }
            }
            Some(Version::Beside(other)) => {
                let drafts = vec![
                    self.say(to.clone(), message, attached.clone()),
                    self.say(to, other, attached),
                ];
                Altered { drafts, dies }
            }
            Some(Version::ToHalf(other)) => {
                let (one, two) = self.halves(to);
                let drafts =
                    vec![self.say(one, message, attached.clone()), self.say(two, other, attached)];
                Altered { drafts, dies }
            }
            Some(Version::OnlyToSome) => {
                let to = to.into_iter().filter(is_told).collect();
                Altered { drafts: vec![self.say(to, message, attached)], dies }
            }
            Some(Version::Nothing) => Altered::default(),
            None => Altered { drafts: vec![self.say(to, message, attached)], dies },
        }
    }

    fn pretend(&mut self, mut message: Message) -> Message {
        if let Message::Keepalive(keepalive) = &mut message {
            let nonce = self.rng.next_u64() >> 11;
            let claims = self.rng.percent(10);
            keepalive.computed =
                keepalive.computed.filter(|_| claims).map(|said| Computed { nonce, ..said });
        }
        message
    }

    /// Has seen the best of its friends and the worst of everybody else.
    fn slander(&self, mut message: Message) -> Message {
        if let Message::ElectionVote(vote) = &mut message {
            for (did, seen) in &mut vote.observed {
                let share = if self.schemer.is_friend(did) { Share::ONE } else { Share::ZERO };
                *seen = Observed { uptime: share, proof_of_compute: share };
            }
        }
        message
    }

    /// Puts itself somewhere else; times that it echoes are sometimes right, delays never.
    fn misplace(&mut self, mut message: Message) -> Message {
        let mut axis = || (self.rng.unit() - 0.5) * 40.0;
        let place = Location { x: axis(), y: axis(), z: axis() };
        match &mut message {
            Message::Keepalive(keepalive) => {
                keepalive.location_vector = Some(place);
                keepalive.location_error = Share::ZERO;
                for echo in &mut keepalive.echoes {
                    let held_ms = [0, echo.held_ms + 20, HELD_LONGEST_MS];
                    echo.held_ms = self.rng.pick(&held_ms).copied().unwrap_or(0);
                    if self.rng.percent(20) {
                        echo.timestamp = Timestamp::from_ms((self.rng.next_u64() >> 22) as i64);
                    }
                }
            }
            Message::ElectionVote(vote) => vote.location_vector = Some(place),
            Message::Candidacy(candidacy) => candidacy.location_vector = place,
            _ => {}
        }
        message
    }

    fn second_version(&self, message: &Message) -> Option<Version> {
        match message {
            Message::Commit(commit) if self.has(Lie::LateCommit) => {
                let late = self.trickster.commit(&commit.task_id);
                Some(late.map_or(Version::Nothing, Version::Instead))
            }
            Message::Reveal(reveal) if self.has(Lie::LateCommit) => {
                let late = self.trickster.reveal(&reveal.task_id);
                Some(late.map_or(Version::Nothing, Version::Instead))
            }
            Message::Commit(commit) => {
                let mut other = commit.clone();
                if self.has(Lie::StealPlan) {
                    other.plan_hash = *self.stolen_hashes.get(&commit.task_id)?;
                    return Some(Version::Instead(Message::Commit(other)));
                }
                other.plan_hash = sha256(commit.plan_hash.as_bytes());
                self.has(Lie::EquivocateCommit).then_some(Version::ToHalf(Message::Commit(other)))
            }
            Message::SubmitResult(_) if self.has(Lie::WithholdWork) => Some(Version::Nothing),
            Message::SubmitResult(result) if self.has(Lie::InventedParts) => {
                let invented = trick::invented(result)?;
                Some(Version::Instead(Message::SubmitResult(invented)))
            }
            Message::Reveal(_) if self.has(Lie::WithholdReveal) => Some(Version::Nothing),
            Message::Reveal(_) if self.has(Lie::RevealToHalf) => Some(Version::OnlyToSome),
            Message::Reveal(reveal) if self.has(Lie::StealPlan) => {
                let mut other = reveal.clone();
                other.plan = self.stolen_plans.get(&reveal.task_id)?.clone();
                other.plan.proposer = self.me;
                Some(Version::Instead(Message::Reveal(other)))
            }
            Message::PlanVote(vote) => {
                let mut other = vote.clone();
                other.rankings.reverse();
                self.ballot(vote.rankings.len(), Message::PlanVote(other))
            }
            Message::ElectionVote(vote) => {
                let mut other = vote.clone();
                other.candidate_rankings.reverse();
                self.ballot(vote.candidate_rankings.len(), Message::ElectionVote(other))
            }
            Message::Candidacy(candidacy) if self.has(Lie::Boast) => {
                let mut other = candidacy.clone();
                other.score.proof_of_compute = Share::ONE;
                other.score.reputation = Share::ONE;
                other.score.uptime = Share::ONE;
                other.score.stake = Share::ONE;
                Some(Version::Instead(Message::Candidacy(other)))
            }
            Message::Certificate(certificate) if self.has(Lie::EquivocateProposal) => {
                let Word::Propose { value } = &certificate.word else {
                    return None;
                };
                let word = Word::Propose { value: other_value(value) };
                let other = Certificate { word, ..certificate.clone() };
                Some(Version::ToHalf(Message::Certificate(other)))
            }
            _ => None,
        }
    }

    fn ballot(&self, choices: usize, other: Message) -> Option<Version> {
        if choices < 2 {
            None
        } else if self.has(Lie::DoubleVote) {
            Some(Version::Beside(other))
        } else {
            self.has(Lie::EquivocateBallot).then_some(Version::ToHalf(other))
        }
    }

    fn extras(&mut self, now: Timestamp, epoch: u64) -> Vec<Draft> {
        let mut drafts = Vec::new();
        let strangers = self.some_peers(3);
        if self.has(Lie::Replay)
            && let Some(message) = self.rng.pick(&self.remembered).cloned()
        {
            drafts.push(Draft::Again { to: strangers.clone(), message });
        }
        if self.has(Lie::Forge)
            && let Some(&victim) = self.rng.pick(&self.peers)
        {
            let keepalive = Keepalive::new(victim, 1, now);
            drafts.push(Draft::Say {
                signer: victim,
                to: strangers.clone(),
                message: Box::new(Message::Keepalive(keepalive)),
                attached: Vec::new(),
            });
        }
        if self.has(Lie::Flood) {
            for _ in 0..BURST {
                drafts.push(self.junk(now, epoch, strangers.clone()));
            }
        }
        drafts
    }

    /// Work that nobody wants: to be planned, to be divided, to be done, to be decided.
    fn junk(&mut self, now: Timestamp, epoch: u64, to: Vec<Did>) -> Draft {
        let task_id = named(&format!("{JUNK}{:016x}", self.rng.next_u64()), &self.me);
        let lasts = self.rng.pick(&JUNK_LASTS).copied().unwrap_or_default();
        let invite = Message::Invite(Invite {
            task_id: task_id.clone(),
            task_digest: String::new(),
            complexity_estimate: Share::ZERO,
            depth: 0,
            required_capabilities: Vec::new(),
            capacity: 3,
            chair: self.me,
        });
        let task = Task {
            task_id: task_id.clone(),
            parent_task_id: None,
            epoch,
            status: TaskStatus::Pending,
            description: String::new(),
            assigned_to: None,
            tier_level: 1,
            subtasks: Vec::new(),
            created_at: now,
            deadline: now.plus(lasts),
            capabilities_required: Vec::new(),
            depth: 0,
            index: 0,
            complexity: Share::ZERO,
            needs_approval: false,
        };
        let part = self.junk_part(&task);
        let part = |assignee: Did| {
            let task = Task { assigned_to: Some(assignee), ..part.clone() };
            let parent_task_id = task.parent_task_id.clone().unwrap_or_default();
            let winning_plan_id = String::new();
            Message::Assign(Assign { task, assignee, parent_task_id, winning_plan_id })
        };
        let order = || {
            let inject = Inject {
                task: task.clone(),
                originator: self.me,
                pub_key: None,
                key_chain: Vec::new(),
            };
            Message::Inject(inject)
        };
        let waits = Certificate {
            subject: Subject::Plan { task_id: task_id.clone() },
            view: 1,
            word: Word::NextView { prepared: None },
        };
        let (order, message) = match (self.rng.below(5), to.first()) {
            (0, _) => (part(self.me), invite),
            (1, _) => (order(), Message::Certificate(waits)),
            (2, Some(&one)) => return self.say(vec![one], part(one), Vec::new()),
            (3, _) => return self.say(to, order(), Vec::new()),
            _ => (order(), invite),
        };
        Draft::Order { to, order: Box::new(order), message: Box::new(message) }
    }

    /// A part of a task that nobody knows, or of another's plan as it is there: once more, and
    /// nobody has asked for it.
    fn junk_part(&mut self, task: &Task) -> Task {
        let known: Vec<&Plan> = self.stolen_plans.values().collect();
        let plan = self.rng.pick(&known).copied().filter(|_| self.rng.percent(50));
        let attempt = self.rng.below(1 << 16) as u32;
        let part = plan.and_then(|plan| Some((plan, self.rng.pick(&plan.subtasks)?)));
        let (parent, index) = match part {
            Some((plan, part)) => (plan.task_id.clone(), part.index),
            None => (task.task_id.clone(), 0),
        };
        let mut junk = Task {
            task_id: named(&judge::part_id(&parent, index, attempt), &self.me),
            parent_task_id: Some(parent),
            depth: 1,
            index,
            ..task.clone()
        };
        if let Some((_, part)) = part {
            junk.description.clone_from(&part.description);
            junk.capabilities_required.clone_from(&part.required_capabilities);
            junk.complexity = part.estimated_complexity;
        }
        junk
    }

    fn some_peers(&mut self, count: usize) -> Vec<Did> {
        (0..count).filter_map(|_| self.rng.pick(&self.peers).copied()).collect()
    }

    fn say(&self, to: Vec<Did>, message: Message, attached: Vec<Arc<Signed>>) -> Draft {
        Draft::Say { signer: self.me, to, message: Box::new(message), attached }
    }

    /// The liar itself is in both halves, so that its own machine goes on.
    fn halves(&self, to: Vec<Did>) -> (Vec<Did>, Vec<Did>) {
        let middle = to.len() / 2;
        let mut one = to;
        let mut two = one.split_off(middle);
        if two.contains(&self.me) {
            two.retain(|did| *did != self.me);
            one.push(self.me);
        }
        (one, two)
    }
}

enum Version {
    Instead(Message),
    Beside(Message),
    ToHalf(Message),
    /// The same, and always to the same ones.
    OnlyToSome,
    Nothing,
}

/// Whether somebody is of the half that is told, whoever else is.
fn is_told(did: &Did) -> bool {
    did.to_string().bytes().last().is_some_and(|byte| byte % 2 == 0)
}

/// Another value that a careless witness might sign.
fn other_value(value: &Value) -> Value {
    let mut other = value.clone();
    match &mut other.outcome {
        Outcome::Election(elected) => elected.tier1.reverse(),
        Outcome::Succession(succession) => succession.branch_agents.reverse(),
        Outcome::Plan(chosen @ Chosen::Plan { .. }) => *chosen = Chosen::NoPlan,
        Outcome::Plan(_) | Outcome::Result(_) => {
            other.record.pop();
        }
    }
    if let Outcome::Result(ended) = &mut other.outcome
        && let Some(part) = ended.parts.iter_mut().find(|part| part.is_some())
    {
        *part = None;
    }
    other
}
