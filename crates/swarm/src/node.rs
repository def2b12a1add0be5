//! One agent's part in a swarm: verified messages, the time and its own agent's answers go in;
//! messages, questions to its agent and news come out.
//!
//! A node does nothing by itself. Whoever runs it signs what it sends and wakes it when it asks to
//! be woken. What it says to itself comes back to it like others' messages, in the same turn. At
//! the end of a turn the node is stored together with what it gave back, before anything of that
//! leaves. After a crash both are read back: what was to be sent last is sent again, in case it was
//! not, and [`Input::Resumed`] brings back the questions that went down with the program.

mod answers;
mod ballots;
mod computing;
mod deliberating;
mod elections;
mod exporting;
mod graves;
mod jobs;
mod keys;
mod lengths;
mod newcomers;
mod patience;
mod peers;
mod place;
mod planning;
mod resuming;
mod shares;
mod successions;
mod table;
mod tasks;
mod withdrawing;
mod working;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use skep_base::{Did, Hash32, Timestamp, ed25519::PublicKey};
use skep_wire::swarm::{
    CriticScore, Critique, Ended, ErrorCode, Evidence, KeyLink, Location, Message, Plan,
    ProofOfWork, Published, Resources, Response, Score, Signed, Subject, SubmitResult, Task, Value,
};

use crate::{accord::Act, coordinate::Coordinate, epoch::Epoch, genesis::Genesis, kept::Kept};

use self::{
    computing::Challenge, elections::Election, graves::Grave, jobs::Job, peers::Peer, place::Place,
    successions::Running, tasks::TaskState,
};
pub use self::{
    keys::Door,
    newcomers::{CONTACTS_MAX, GUESTS_MAX},
    tasks::APPROVAL_MAX_MS,
};

/// Elections whose records a node keeps: tasks live in the one that they began in.
const EPOCHS_KEPT: usize = 4;
/// Certificates of elections that are kept for others with all that they follow from.
const CERTIFIED_MAX: usize = 24;
/// Bytes of older ones, of which the signatures are kept and the keys of who has joined: enough to
/// follow. Who is further behind cannot catch up.
const CERTIFIED_OLD_LEN_MAX: usize = 16 << 20;

/// Who a node is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// The first key, of which its DID is made.
    pub key: PublicKey,
    /// How that became the one that signs now.
    #[serde(default)]
    pub key_chain: Vec<KeyLink>,
    pub capabilities: Vec<String>,
    pub resources: Resources,
    /// Where it believes to be before it has measured anything.
    pub location: Location,
    /// What it claims when it stands for election.
    pub score: Score,
    pub evidence: Evidence,
    /// Its published scores, newest first.
    #[serde(default)]
    pub published: Vec<Published>,
    pub proof_of_work: ProofOfWork,
}

#[derive(Clone, Debug)]
pub enum Input {
    Message(Arc<Signed>),
    /// The time that the node asked for has come.
    Tick,
    /// It was read back from its store after a crash.
    Resumed,
    Answer(Answer),
    /// Its agent has changed its key: from now on messages are signed by the new one.
    Rotated(Box<KeyLink>),
}

/// What a node asks its own agent.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    Plan {
        task: Task,
    },
    Critique {
        task: Task,
        plans: Vec<Plan>,
        is_critic: bool,
    },
    Vote {
        task: Task,
        plans: Vec<Plan>,
        critiques: Vec<Critique>,
    },
    Execute {
        task: Task,
        attempt: u32,
        reason: Option<String>,
    },
    Check {
        task: Task,
        result: Box<SubmitResult>,
    },
    /// A nonce for [`crate::challenge::check`], as soon as it can be found.
    Compute {
        epoch: u64,
        beacon: Hash32,
        difficulty: u32,
    },
}

/// And what the agent says.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Plan { task_id: String, plan: Plan },
    Critique { task_id: String, plan_scores: BTreeMap<String, CriticScore>, content: String },
    Vote { task_id: String, rankings: Vec<String>, critic_scores: BTreeMap<String, CriticScore> },
    Work { task_id: String, attempt: u32, content: String },
    Checked { task_id: String, artifact_id: String, accepted: bool, reason: Option<String> },
    Computed { epoch: u64, nonce: u64 },
}

/// What has happened, for whoever watches.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Elected {
        epoch: u64,
        hash: Hash32,
    },
    Succession {
        epoch: u64,
        leader: Did,
        successor: Did,
    },
    Injected {
        task_id: String,
    },
    PlanDecided {
        task_id: String,
        value: Value,
    },
    Ended {
        task_id: String,
        ended: Ended,
    },
    Executed {
        task_id: String,
    },
    /// Nobody wants this work any more: the agent can stop.
    Withdrawn {
        task_id: String,
    },
    /// What the agent has answered is too long to be sent.
    Unsaid {
        task_id: String,
        method: &'static str,
        reason: String,
    },
    VoterCaught {
        did: Did,
        task_id: String,
    },
}

#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "most are messages, and none lives long")]
pub enum Output {
    /// To be signed and sent. If `to` names the node itself, it gets the message back.
    Send {
        to: Vec<Did>,
        message: Message,
        attached: Vec<Arc<Signed>>,
    },
    Ask(Ask),
    Event(Event),
    /// To be sent back as it is to whoever asked. It decides nothing.
    Answer {
        to: Did,
        response: Response,
    },
    /// For whoever keeps count of peers.
    Refused {
        signer: Did,
        hash: Hash32,
        code: ErrorCode,
        reason: String,
    },
}

/// Why a message is not acted upon.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    pub code: ErrorCode,
    pub reason: String,
}

pub(crate) fn refuse<T>(code: ErrorCode, reason: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { code, reason: reason.into() })
}

/// An agent in a swarm. All of it can be stored and read back at any time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Node {
    #[serde(with = "shared")]
    genesis: Arc<Genesis>,
    profile: Profile,
    me: Did,
    /// The elections known to be final, by epoch.
    #[serde(with = "crate::epoch")]
    epochs: BTreeMap<u64, Arc<Epoch>>,
    /// The certificates of the newest ones, for those who have missed them.
    certified: VecDeque<Kept>,
    /// The greetings in them, by who has joined: messages of those are opened with their keys.
    #[serde(default)]
    joined: BTreeMap<Did, Kept>,
    peers: BTreeMap<Did, Peer>,
    place: Place,
    challenge: Challenge,
    keepalive_at: Timestamp,
    /// Whom this node has said who it is, lately.
    greetings: BTreeMap<Did, Timestamp>,
    /// Members that a newcomer knows of.
    contacts: Vec<Did>,
    /// Keepalives since it has changed its key.
    #[serde(default)]
    told_key: u32,
    /// When the first sign of life went out.
    started: Option<Timestamp>,
    election: Option<Election>,
    successions: Vec<Running>,
    tasks: BTreeMap<String, TaskState>,
    /// Tasks that are over, oldest first: forgotten when there are too many.
    over: VecDeque<String>,
    /// Tasks that were forgotten before nobody could order them any more.
    #[serde(default)]
    graves: BTreeMap<String, Grave>,
    jobs: BTreeMap<String, Job>,
    /// When each originator has injected something lately.
    injections: BTreeMap<Did, Vec<Timestamp>>,
}

mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::genesis::Genesis;

    pub(super) fn serialize<S: Serializer>(it: &Arc<Genesis>, to: S) -> Result<S::Ok, S::Error> {
        Genesis::serialize(it, to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Arc<Genesis>, D::Error> {
        Genesis::deserialize(from).map(Arc::new)
    }
}

pub(crate) fn plus(now: Timestamp, ms: u64) -> Timestamp {
    now.plus(Duration::from_millis(ms))
}

impl Node {
    pub fn new(genesis: Arc<Genesis>, profile: Profile) -> Node {
        let founding = Epoch::founding_shared(&genesis);
        let founding_number = founding.number();
        Node {
            me: profile.key.did(),
            epochs: BTreeMap::from([(founding.number(), founding)]),
            certified: VecDeque::new(),
            joined: BTreeMap::new(),
            peers: BTreeMap::new(),
            place: Place::new(profile.location),
            challenge: Challenge::new(founding_number, genesis.start),
            keepalive_at: genesis.start,
            greetings: BTreeMap::new(),
            contacts: Vec::new(),
            told_key: 0,
            started: None,
            election: None,
            successions: Vec::new(),
            tasks: BTreeMap::new(),
            over: VecDeque::new(),
            graves: BTreeMap::new(),
            jobs: BTreeMap::new(),
            injections: BTreeMap::new(),
            genesis,
            profile,
        }
    }

    pub fn did(&self) -> Did {
        self.me
    }

    pub fn genesis(&self) -> &Genesis {
        &self.genesis
    }

    /// Where it is in the network, as far as it has measured.
    pub fn place(&self) -> &Coordinate {
        self.place.coordinate()
    }

    /// The newest election that is final here.
    pub fn epoch(&self) -> &Arc<Epoch> {
        self.epochs.values().next_back().expect("the founding epoch is always there")
    }

    /// Takes one input. What comes back is to be done in its order, after the node was stored.
    pub fn step(&mut self, now: Timestamp, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        match input {
            Input::Message(signed) => {
                let kept = Kept(signed);
                let taken = self.take(now, &kept, &mut out);
                self.answer(now, &kept, &taken, &mut out);
                if let Err(Refusal { code, reason }) = taken {
                    let (signer, hash) = (kept.meta.signer, kept.hash());
                    out.push(Output::Refused { signer, hash, code, reason });
                }
            }
            Input::Tick => self.tick(now, &mut out),
            Input::Resumed => {
                self.ask_again(now, &mut out);
                self.tick(now, &mut out);
            }
            Input::Answer(answer) => self.take_answer(now, answer, &mut out),
            Input::Rotated(link) => {
                let hash = link.statement.new_key.fingerprint();
                if let Err(Refusal { code, reason }) = self.rotate(*link, &mut out) {
                    out.push(Output::Refused { signer: self.me, hash, code, reason });
                }
            }
        }
        out
    }

    /// When the next [`Input::Tick`] is wanted.
    pub fn wake_at(&self) -> Option<Timestamp> {
        let tasks = self.tasks.values().filter_map(|task| task.wake_at());
        let successions = self.successions.iter().filter_map(|running| running.wake_at());
        let election = self.election_wake_at();
        tasks.chain(successions).chain([self.keepalive_at, election]).min()
    }

    fn tick(&mut self, now: Timestamp, out: &mut Vec<Output>) {
        self.keep_alive(now, out);
        self.run_election(now, out);
        self.watch_leader(now, out);
        self.run_tasks(now, out);
    }

    fn take(&mut self, now: Timestamp, kept: &Kept, out: &mut Vec<Output>) -> Result<(), Refusal> {
        if kept.meta.swarm != self.genesis.swarm {
            return refuse(ErrorCode::InvalidRequest, "this message is of another swarm");
        }
        // Not everything here was opened from a text.
        if let Err(error) = kept.check_bounds() {
            return refuse(error.code(), error.to_string());
        }
        let epoch = self.genesis.epoch_at(now);
        // Decision 46.
        if kept.meta.epoch.abs_diff(epoch) > 1 {
            return refuse(ErrorCode::EpochMismatch, format!("it is epoch {epoch} here"));
        }
        let signer = &kept.meta.signer;
        let is_member = self.epochs.values().any(|epoch| epoch.contains(signer));
        match &kept.message {
            Message::Handshake(hello) => return self.take_handshake(now, kept, hello, out),
            Message::Inject(inject) => return self.take_inject(now, kept, inject, out),
            Message::Verification(m) => return self.take_verification(now, kept, m, out),
            Message::Dissolve(m) => return self.take_dissolve(kept, m, out),
            Message::Candidacy(m) => return self.take_candidacy(now, kept, m),
            Message::ElectionVote(m) => return self.take_election_vote(now, kept, m),
            _ if !is_member && !self.may_say_as_guest(kept) => {
                return refuse(ErrorCode::InvalidSignature, "the signer is no member");
            }
            _ => {}
        }
        match &kept.message {
            Message::Keepalive(m) => self.take_keepalive(now, m, out)?,
            Message::AssignTier(m) => self.take_tier(m)?,
            Message::Succession(m) => self.take_succession(now, kept, m, out)?,
            Message::Certificate(m) => self.take_certificate(now, kept, &m.subject, out),
            Message::Invite(m) => self.take_invite(now, kept, m, out)?,
            Message::Accept(m) => self.take_accept(now, kept, m, out)?,
            Message::Decline(m) => self.take_decline(now, kept, m, out)?,
            Message::Ready(m) => self.take_ready(now, kept, m, out)?,
            Message::Commit(m) => self.take_commit(now, kept, m, out)?,
            Message::Reveal(m) => self.take_reveal(now, kept, m, out)?,
            Message::Critique(m) => self.take_critique(now, kept, m, out)?,
            Message::PlanVote(m) => self.take_ballot(now, kept, m, out)?,
            Message::Assign(m) => self.take_assign(now, kept, m, out)?,
            Message::SubmitResult(m) => self.take_result(kept, m, out)?,
            _ => {}
        }
        Ok(())
    }

    fn take_certificate(
        &mut self,
        now: Timestamp,
        kept: &Kept,
        subject: &Subject,
        out: &mut Vec<Output>,
    ) {
        match subject {
            Subject::Election { after } => self.take_election_word(now, kept, *after, out),
            Subject::Succession { epoch, leader } => {
                self.take_succession_word(now, kept, *epoch, *leader, out);
            }
            Subject::Plan { task_id } => self.take_plan_word(now, kept, task_id, out),
            Subject::Result { task_id } => self.take_result_word(now, kept, task_id, out),
        }
    }

    fn take_answer(&mut self, now: Timestamp, answer: Answer, out: &mut Vec<Output>) {
        match answer {
            Answer::Plan { task_id, plan } => self.propose_plan(now, &task_id, plan, out),
            Answer::Critique { task_id, plan_scores, content } => {
                self.send_critique(&task_id, plan_scores, content, out);
            }
            Answer::Vote { task_id, rankings, critic_scores } => {
                self.send_ballot(&task_id, rankings, critic_scores, out);
            }
            Answer::Work { task_id, attempt, content } => {
                self.submit_work(now, (&task_id, attempt), &content, out);
            }
            Answer::Checked { task_id, artifact_id, accepted, reason } => {
                self.take_check(now, &task_id, &artifact_id, accepted, reason, out);
            }
            Answer::Computed { epoch, nonce } => self.take_computed(epoch, nonce),
        }
    }
}

/// Turns what an accord wants into messages; whether a value is wanted, and whether it is decided.
pub(crate) fn perform(acts: Vec<Act>, out: &mut Vec<Output>) -> (bool, bool) {
    let (mut wanted, mut decided) = (false, false);
    for act in acts {
        match act {
            Act::Send { to, certificate, attached } if !to.is_empty() => {
                out.push(Output::Send {
                    to,
                    message: Message::Certificate(*certificate),
                    attached,
                });
            }
            Act::Send { .. } => {}
            Act::Wanted => wanted = true,
            Act::Decided => decided = true,
        }
    }
    (wanted, decided)
}

pub(crate) fn send(to: Vec<Did>, message: Message) -> Output {
    Output::Send { to, message, attached: Vec::new() }
}
