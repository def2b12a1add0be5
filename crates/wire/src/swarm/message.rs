//! All methods, and who may sign which.

use serde::Serialize;
use serde_json::Value;
use skep_base::{Did, Timestamp, json as canonical};

use super::{
    Accept, Assign, AssignTier, Candidacy, Certificate, Commit, Critique, Decline, Dissolve,
    ElectionVote, Handshake, Inject, Invite, Keepalive, Meta, OpenError, OwnKeys, PlanVote, Ready,
    Reveal, SignedAttestation, SubmitResult, Succession, Verification,
    envelope::{
        ATTACHED_LEN_MAX, ATTACHED_MAX, BOARD_ATTACHED_MAX, BOARD_LEN_MAX, MESSAGE_LEN_MAX,
        PLAN_LEN_MAX, RESULT_LEN_MAX, STRANGER_LEN_MAX, SWARM_LEN_MAX, TALK_LEN_MAX, check_len,
    },
    task::named,
};

macro_rules! methods {
    ($($name:literal => $variant:ident($type:ty),)*) => {
        /// What a message says.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Message { $($variant($type),)* }

        impl Message {
            pub const METHODS: [&str; 20] = [$($name,)*];

            pub fn method(&self) -> &'static str {
                match self { $(Message::$variant(_) => $name,)* }
            }

            /// The canonical JSON that a signature covers.
            pub fn payload(&self, meta: &Meta) -> Vec<u8> {
                match self { $(Message::$variant(body) => write($name, body, meta),)* }
            }

            pub(super) fn read(
                method: &str,
                mut params: Value,
            ) -> Result<(Meta, Message), OpenError> {
                match method {
                    $($name => {
                        let wrong = |why: String| OpenError::Params { method: $name, why };
                        let meta = read_meta(&mut params).map_err(wrong)?;
                        let body: $type =
                            serde_json::from_value(params).map_err(|e| wrong(e.to_string()))?;
                        Ok((meta, Message::$variant(body)))
                    })*
                    _ => Err(OpenError::Method(method.chars().take(64).collect())),
                }
            }
        }
    };
}

methods! {
    "swarm.handshake" => Handshake(Handshake),
    "election.candidacy" => Candidacy(Candidacy),
    "election.vote" => ElectionVote(ElectionVote),
    "hierarchy.assign_tier" => AssignTier(AssignTier),
    "task.inject" => Inject(Inject),
    "consensus.proposal_commit" => Commit(Commit),
    "consensus.proposal_reveal" => Reveal(Reveal),
    "consensus.vote" => PlanVote(PlanVote),
    "task.assign" => Assign(Assign),
    "task.submit_result" => SubmitResult(SubmitResult),
    "task.verification" => Verification(Verification),
    "swarm.keepalive" => Keepalive(Keepalive),
    "hierarchy.succession" => Succession(Succession),
    "board.invite" => Invite(Invite),
    "board.accept" => Accept(Accept),
    "board.decline" => Decline(Decline),
    "board.ready" => Ready(Ready),
    "board.dissolve" => Dissolve(Dissolve),
    "discussion.critique" => Critique(Critique),
    "consensus.certificate" => Certificate(Certificate),
}

#[derive(Serialize)]
struct Payload<'a, T> {
    method: &'a str,
    params: Params<'a, T>,
}

#[derive(Serialize)]
struct Params<'a, T> {
    #[serde(flatten)]
    body: &'a T,
    _meta: &'a Meta,
}

fn write<T: Serialize>(method: &str, body: &T, meta: &Meta) -> Vec<u8> {
    let payload = Payload { method, params: Params { body, _meta: meta } };
    canonical::to_vec(&payload).expect("messages hold numbers that JSON can hold")
}

fn read_meta(params: &mut Value) -> Result<Meta, String> {
    let fields = params.as_object_mut().ok_or("an object is expected")?;
    let meta = fields.remove("_meta").ok_or("_meta is missing")?;
    let meta: Meta = serde_json::from_value(meta).map_err(|error| format!("_meta: {error}"))?;
    if meta.swarm.is_empty() || meta.swarm.len() > SWARM_LEN_MAX {
        return Err(format!("the name of a swarm has 1 to {SWARM_LEN_MAX} bytes"));
    }
    Ok(meta)
}

impl Message {
    /// Gives a task from outside its full id. Its originator may write it without its own name,
    /// later as well; within a swarm every id has one.
    pub(super) fn name_task(mut self, signer: &Did) -> Message {
        match &mut self {
            Message::Inject(m) => m.task.task_id = named(&m.task.task_id, signer),
            Message::Dissolve(Dissolve { task_id, .. })
            | Message::Verification(Verification { task_id, .. })
                if !task_id.contains('@') =>
            {
                *task_id = named(task_id, signer);
            }
            _ => {}
        }
        self
    }

    /// Who must have signed it, where the message itself says so (decision 42). Of the others,
    /// whoever coordinates the task (`task.assign`), coordinates or injected it
    /// (`task.verification`, `board.dissolve`), is of the branch (`hierarchy.succession`) or is a
    /// witness (`consensus.certificate`) may sign; that only a node that knows the task can tell.
    pub fn named_signer(&self) -> Option<&Did> {
        match self {
            Message::Handshake(m) => Some(&m.agent_id),
            Message::Candidacy(m) => Some(&m.agent_id),
            Message::ElectionVote(m) => Some(&m.voter),
            Message::AssignTier(m) => Some(&m.parent_id),
            Message::Inject(m) => Some(&m.originator),
            Message::Commit(m) => Some(&m.proposer),
            Message::Reveal(m) => Some(&m.plan.proposer),
            Message::PlanVote(m) => Some(&m.voter),
            Message::SubmitResult(m) => Some(&m.agent_id),
            Message::Keepalive(m) => Some(&m.agent_id),
            Message::Invite(m) => Some(&m.chair),
            Message::Accept(m) => Some(&m.agent_id),
            Message::Decline(m) => Some(&m.agent_id),
            Message::Ready(m) => Some(&m.chair_id),
            Message::Critique(m) => Some(&m.voter_id),
            Message::Assign(_)
            | Message::Verification(_)
            | Message::Succession(_)
            | Message::Dissolve(_)
            | Message::Certificate(_) => None,
        }
    }

    /// Whether its method has a result (ASIP "Method Registry").
    pub fn is_request(&self) -> bool {
        matches!(
            self,
            Message::Handshake(_)
                | Message::AssignTier(_)
                | Message::Inject(_)
                | Message::Assign(_)
                | Message::SubmitResult(_)
        )
    }

    /// The keys that a message brings along for its signer.
    pub fn own_keys(&self) -> Option<OwnKeys<'_>> {
        let (newest, links) = match self {
            Message::Handshake(m) => (&m.pub_key, &m.key_chain),
            Message::Inject(m) => (m.pub_key.as_ref()?, &m.key_chain),
            _ => return None,
        };
        Some(OwnKeys { newest, links })
    }

    /// What others have signed about its signer.
    pub fn evidence(&self) -> &[SignedAttestation] {
        match self {
            Message::Handshake(m) => &m.evidence.0,
            Message::Candidacy(m) => &m.evidence.0,
            _ => &[],
        }
    }

    /// The task that it belongs to.
    pub fn task_id(&self) -> Option<&str> {
        use super::Subject;
        match self {
            Message::Inject(m) => Some(&m.task.task_id),
            Message::Commit(m) => Some(&m.task_id),
            Message::Reveal(m) => Some(&m.task_id),
            Message::PlanVote(m) => Some(&m.task_id),
            Message::Assign(m) => Some(&m.task.task_id),
            Message::SubmitResult(m) => Some(&m.task_id),
            Message::Verification(m) => Some(&m.task_id),
            Message::Invite(m) => Some(&m.task_id),
            Message::Accept(m) => Some(&m.task_id),
            Message::Decline(m) => Some(&m.task_id),
            Message::Ready(m) => Some(&m.task_id),
            Message::Dissolve(m) => Some(&m.task_id),
            Message::Critique(m) => Some(&m.task_id),
            Message::Certificate(m) => match &m.subject {
                Subject::Plan { task_id } | Subject::Result { task_id } => Some(task_id),
                Subject::Election { .. } | Subject::Succession { .. } => None,
            },
            Message::Handshake(_)
            | Message::Candidacy(_)
            | Message::ElectionVote(_)
            | Message::AssignTier(_)
            | Message::Keepalive(_)
            | Message::Succession(_) => None,
        }
    }

    /// How many signed bytes a message of this method has at most.
    pub(super) fn len_max(method: &str) -> usize {
        match method {
            // An election's record names every member; it travels by request and response.
            "consensus.certificate" => ATTACHED_LEN_MAX,
            "swarm.handshake" | "election.candidacy" | "election.vote" | "task.inject"
            | "task.verification" | "board.dissolve" => STRANGER_LEN_MAX,
            "board.invite"
            | "board.accept"
            | "board.decline"
            | "board.ready"
            | "task.assign"
            | "consensus.proposal_commit"
            | "discussion.critique"
            | "consensus.vote" => TALK_LEN_MAX,
            "consensus.proposal_reveal" => PLAN_LEN_MAX,
            "task.submit_result" => RESULT_LEN_MAX,
            _ => MESSAGE_LEN_MAX,
        }
    }

    /// Whether it can be sent in a swarm, and otherwise how much too long it is.
    pub fn check_len(&self, signer: Did, swarm: &str) -> Result<(), OpenError> {
        // The longest that these can be.
        let (epoch, sent_at) = (canonical::MAX_INTEGER.unsigned_abs(), Timestamp::MAX);
        let meta = Meta { signer, swarm: swarm.to_owned(), epoch, sent_at };
        check_len(&self.payload(&meta), self.method())
    }

    /// How many messages can be attached to one of this method: the others need none.
    pub(super) fn attached_max(method: &str) -> usize {
        match method {
            "consensus.certificate" => ATTACHED_MAX,
            "board.invite" | "board.ready" | "hierarchy.succession" => BOARD_ATTACHED_MAX,
            // The originator's own, passed on, and the order with its keys.
            "board.dissolve" | "task.verification" => 2,
            _ => 0,
        }
    }

    /// How long a message of this method is with what is attached.
    pub(super) fn whole_len_max(method: &str) -> usize {
        match method {
            "consensus.certificate" => ATTACHED_LEN_MAX,
            _ => BOARD_LEN_MAX,
        }
    }
}
