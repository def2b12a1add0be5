//! The JSON-RPC envelope, and what a signature covers (ASIP "Message Envelope", decision 42).

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use skep_base::{
    Did, Hash32, Timestamp,
    ed25519::Signature,
    hash::sha256,
    json::{self as canonical, FREE_DEPTH_MAX},
};

use super::{
    ChainError, ErrorCode, KEY_LINKS_MAX, KeyLink, Message, OwnKeys, RequestId, hex_signature,
};
use crate::identity::Statement;

/// The longest message, without what is attached to it (decision 49).
pub const MESSAGE_LEN_MAX: usize = 1 << 20;
/// The longest message with everything that is attached.
pub const ATTACHED_LEN_MAX: usize = 64 << 20;
/// How many messages can be attached to a certificate: what an outcome follows from.
pub const ATTACHED_MAX: usize = 200_000;
/// And to what else carries some: an order, who has agreed to sit, who acts for whom.
pub const BOARD_ATTACHED_MAX: usize = 1_000;
/// The longest of these with what is attached.
pub const BOARD_LEN_MAX: usize = 4 << 20;
/// The longest message of a kind that is kept although its signer may be no member.
pub const STRANGER_LEN_MAX: usize = 64 << 10;
/// The longest message with a plan. A record that has two of each voter's words at most, those of
/// all liars as long as they may be, can still be attached.
pub const PLAN_LEN_MAX: usize = 256 << 10;
/// The longest of a board's other messages: whoever sits there is told all of them.
pub const TALK_LEN_MAX: usize = 64 << 10;
/// The longest message with a result: those of all parts of a task can be attached together.
pub const RESULT_LEN_MAX: usize = 960 << 10;
/// The longest name of a swarm.
pub const SWARM_LEN_MAX: usize = 64;

/// Binds a message to who sent it, where and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    pub signer: Did,
    pub swarm: String,
    pub epoch: u64,
    pub sent_at: Timestamp,
}

/// Why a message is refused before anybody looks at what it says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("the message is not strict JSON: {0}")]
    Json(String),
    #[error("the params nest deeper than {max} levels")]
    TooDeep { max: usize },
    #[error("the message has {len} bytes; {max} are allowed")]
    TooLong { len: usize, max: usize },
    #[error("{0}")]
    Envelope(&'static str),
    #[error("at most {max} messages can be attached to {method}")]
    Attached { method: &'static str, max: usize },
    #[error("a message of the swarm {0:?} is none of this one")]
    OtherSwarm(String),
    #[error("there is no method {0:?}")]
    Method(String),
    #[error("the params are not those of {method}: {why}")]
    Params { method: &'static str, why: String },
    #[error("{0} may not sign this message")]
    WrongSigner(Did),
    #[error("the key of {0} is not known")]
    UnknownSigner(Did),
    #[error("the keys of {signer} do not follow from one another: {why}")]
    Keys { signer: Did, why: ChainError },
    #[error("the signature does not fit")]
    BadSignature,
}

impl OpenError {
    pub fn code(&self) -> ErrorCode {
        match self {
            OpenError::Json(_) => ErrorCode::ParseError,
            OpenError::TooLong { .. }
            | OpenError::Envelope(_)
            | OpenError::Attached { .. }
            | OpenError::OtherSwarm(_) => ErrorCode::InvalidRequest,
            OpenError::Method(_) => ErrorCode::MethodNotFound,
            OpenError::Params { .. } | OpenError::TooDeep { .. } => ErrorCode::InvalidParams,
            OpenError::WrongSigner(_)
            | OpenError::UnknownSigner(_)
            | OpenError::Keys { .. }
            | OpenError::BadSignature => ErrorCode::InvalidSignature,
        }
    }
}

/// Makes signatures: a node's key, or what stands for it in a simulation.
pub trait Sign {
    fn sign(&self, bytes: &[u8]) -> Signature;
}

impl Sign for skep_base::ed25519::SecretKey {
    fn sign(&self, bytes: &[u8]) -> Signature {
        skep_base::ed25519::SecretKey::sign(self, bytes)
    }
}

/// That an agent has signed something.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    pub signer: &'a Did,
    /// The keys that a message brings along; they count for the DID that the first hashes to.
    pub own: Option<OwnKeys<'a>>,
    /// Part of what another message rests on, so that it may be older than its signer's newest key.
    pub is_attached: bool,
    pub bytes: &'a [u8],
    pub signature: &'a Signature,
}

/// Knows whose signature is good.
pub trait Check {
    fn check(&self, claim: &Claim<'_>) -> Result<(), OpenError>;

    /// The changes by which a signer's keys are known here, which then go along with its message.
    /// Who only reads what somebody has opened before leaves it as it is.
    fn links(&self, signer: &Did) -> Option<Vec<KeyLink>> {
        let _ = signer;
        None
    }
}

/// A message whose signature was made or checked by this process.
#[derive(Clone, Debug)]
pub struct Signed {
    pub meta: Meta,
    pub message: Message,
    /// Of requests: what their response repeats. Not signed.
    pub id: Option<RequestId>,
    /// The signed bytes: canonical JSON of method and params.
    payload: Box<[u8]>,
    signature: Signature,
    hash: Hash32,
    /// How its signer's first key became the one that has signed it: whoever it is attached for may
    /// not have heard of that, or of another change. Not signed, since the links are.
    key_chain: Vec<KeyLink>,
    /// What it refers to; each is signed for itself.
    pub attached: Vec<Arc<Signed>>,
}

impl PartialEq for Signed {
    fn eq(&self, other: &Signed) -> bool {
        self.hash == other.hash && self.signature == other.signature
    }
}

impl Signed {
    pub fn seal(
        meta: Meta,
        message: Message,
        attached: Vec<Arc<Signed>>,
        key: &dyn Sign,
    ) -> Signed {
        let payload = message.payload(&meta).into_boxed_slice();
        let signature = key.sign(&payload);
        let hash = sha256(&payload);
        let message = message.name_task(&meta.signer);
        let key_chain = Vec::new();
        Signed { meta, message, id: None, payload, signature, hash, key_chain, attached }
    }

    /// The same message, of which an answer is wanted where its method has one. Its id is its own
    /// hash: whoever sends it again asks the same.
    pub fn asking(mut self) -> Signed {
        if self.message.is_request() {
            self.id = Some(RequestId::Text(self.hash.to_string()));
        }
        self
    }

    /// SHA-256 of the signed bytes: the message's name everywhere.
    pub fn hash(&self) -> Hash32 {
        self.hash
    }

    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// What its signature says.
    pub fn claim(&self, is_attached: bool) -> Claim<'_> {
        Claim {
            signer: &self.meta.signer,
            own: self.message.own_keys(),
            is_attached,
            bytes: &self.payload,
            signature: &self.signature,
        }
    }

    /// The message alone, as it is attached to others.
    pub fn without_attachments(&self) -> Signed {
        let attached = Vec::new();
        Signed {
            meta: self.meta.clone(),
            message: self.message.clone(),
            id: self.id.clone(),
            payload: self.payload.clone(),
            signature: self.signature,
            hash: self.hash,
            key_chain: self.key_chain.clone(),
            attached,
        }
    }

    /// How many bytes it takes on the wire, about: its attachments included.
    pub fn wire_len(&self) -> usize {
        /// The envelope around the signed bytes.
        const AROUND: usize = 190;
        /// A change of key, with its two signatures.
        const LINK: usize = 720;
        let attached: usize = self.attached.iter().map(|message| message.wire_len()).sum();
        self.payload.len() + AROUND + LINK * self.key_chain.len() + attached
    }

    pub fn to_json(&self) -> Value {
        let mut envelope = self.bare_json();
        if !self.attached.is_empty() {
            // One level: what is attached stands for itself.
            let bare = |message: &Arc<Signed>| Value::Object(message.bare_json());
            let attached = self.attached.iter().map(bare).collect();
            envelope.insert("attached".to_owned(), Value::Array(attached));
        }
        Value::Object(envelope)
    }

    fn bare_json(&self) -> Map<String, Value> {
        let mut envelope: Map<String, Value> =
            canonical::read_own(&self.payload).expect("signed bytes are a JSON object");
        envelope.insert("jsonrpc".to_owned(), json!("2.0"));
        envelope.insert("signature".to_owned(), json!(hex_signature::write(&self.signature)));
        if let Some(id) = &self.id {
            envelope.insert("id".to_owned(), json!(id));
        }
        if !self.key_chain.is_empty() {
            envelope.insert("key_chain".to_owned(), json!(self.key_chain));
        }
        envelope
    }

    /// What holds for every message, however it has come here: its length, and what it carries.
    /// Agents may sit in several swarms, and what they have signed in one says nothing in another.
    pub fn check_bounds(&self) -> Result<(), OpenError> {
        let method = self.message.method();
        check_len(&self.payload, method)?;
        self.check_attached(self.attached.len())?;
        for inner in &self.attached {
            check_len(&inner.payload, inner.message.method())?;
            self.check_inner(inner)?;
        }
        let len = self.wire_len();
        let max = Message::whole_len_max(method);
        if len > max { Err(OpenError::TooLong { len, max }) } else { Ok(()) }
    }

    fn check_attached(&self, count: usize) -> Result<(), OpenError> {
        let method = self.message.method();
        let max = Message::attached_max(method);
        if count > max { Err(OpenError::Attached { method, max }) } else { Ok(()) }
    }

    fn check_inner(&self, inner: &Signed) -> Result<(), OpenError> {
        if !inner.attached.is_empty() {
            return Err(NOT_FLAT);
        }
        match inner.meta.swarm == self.meta.swarm {
            true => Ok(()),
            false => Err(OpenError::OtherSwarm(inner.meta.swarm.clone())),
        }
    }

    /// Reads a message and checks it and all that is attached.
    pub fn open(text: &[u8], keys: &dyn Check) -> Result<Signed, OpenError> {
        if text.len() > ATTACHED_LEN_MAX {
            return Err(OpenError::TooLong { len: text.len(), max: ATTACHED_LEN_MAX });
        }
        let envelope =
            canonical::parse(text).map_err(|error| OpenError::Json(error.to_string()))?;
        Self::from_json(envelope, keys)
    }

    pub fn from_json(envelope: Value, keys: &dyn Check) -> Result<Signed, OpenError> {
        let mut envelope = object(envelope)?;
        let attached = envelope.remove("attached");
        // Whoever has not signed itself makes nobody check what others have signed.
        let mut opened = Self::read(envelope)?;
        opened.key_chain = opened.check(keys, false, None)?;
        match attached {
            None => return Ok(opened),
            Some(Value::Array(list)) => {
                opened.check_attached(list.len())?;
                let read = |inner| opened.read_inner(inner);
                let mut list = list.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
                check_together(&mut list, keys)?;
                opened.attached = list.into_iter().map(Arc::new).collect();
            }
            Some(_) => return Err(NOT_FLAT),
        }
        opened.check_bounds()?;
        Ok(opened)
    }

    fn read_inner(&self, inner: Value) -> Result<Signed, OpenError> {
        let inner = object(inner)?;
        if inner.contains_key("attached") {
            return Err(NOT_FLAT);
        }
        let inner = Self::read(inner)?;
        self.check_inner(&inner)?;
        Ok(inner)
    }

    /// One message, without what is attached; its signature is not checked yet.
    fn read(mut envelope: Map<String, Value>) -> Result<Signed, OpenError> {
        if envelope.get("jsonrpc") != Some(&json!("2.0")) {
            return Err(OpenError::Envelope("jsonrpc must be \"2.0\""));
        }
        let id = RequestId::read(envelope.remove("id"))?;
        let key_chain = links(envelope.remove("key_chain"))?;
        let signature = envelope.get("signature").and_then(Value::as_str);
        let signature = signature.and_then(hex_signature::read).ok_or(OpenError::BadSignature)?;
        let Some(Value::String(method)) = envelope.remove("method") else {
            return Err(OpenError::Envelope("a message has a method"));
        };
        let params = envelope.remove("params").unwrap_or_else(|| json!({}));
        // Others attach and store it: what can be read alone must be readable in all of that.
        if canonical::depth(&params) > FREE_DEPTH_MAX {
            return Err(OpenError::TooDeep { max: FREE_DEPTH_MAX });
        }
        let signed = json!({"method": method, "params": params});
        let payload = canonical::to_vec(&signed).map_err(|e| OpenError::Json(e.to_string()))?;
        check_len(&payload, &method)?;
        let (meta, message) = Message::read(&method, params)?;
        if message.named_signer().is_some_and(|named| *named != meta.signer) {
            return Err(OpenError::WrongSigner(meta.signer));
        }
        let hash = sha256(&payload);
        let message = message.name_task(&meta.signer);
        let (payload, attached) = (payload.into_boxed_slice(), Vec::new());
        Ok(Signed { meta, message, id, payload, signature, hash, key_chain, attached })
    }

    /// Checks its signature and those of its evidence; the changes of key that it is good by.
    /// `shown` are the signer's keys where another message, that came along, brings them.
    fn check(
        &self,
        keys: &dyn Check,
        is_attached: bool,
        shown: Option<OwnKeys<'_>>,
    ) -> Result<Vec<KeyLink>, OpenError> {
        let (claim, known) = (self.claim(is_attached), keys.links(&self.meta.signer));
        // Who speaks for itself is known or not: what is shown counts in what others attach.
        let may_show = claim.own.is_none() && (is_attached || known.is_none());
        let beside = OwnKeys::ending(&self.key_chain).or(shown).filter(|_| may_show);
        // What is known comes first: keys that somebody shows make nothing worse.
        let good_by = match (keys.check(&claim), beside) {
            (Err(OpenError::UnknownSigner(_) | OpenError::BadSignature), Some(_)) => {
                keys.check(&Claim { own: beside, ..claim })?;
                beside.map(|beside| beside.links.to_vec())
            }
            (checked, _) => {
                checked?;
                known.or_else(|| Some(self.key_chain.clone()))
            }
        };
        for signed in self.message.evidence() {
            let bytes = signed.attestation.signed_bytes().map_err(|_| OpenError::BadSignature)?;
            keys.check(&Claim {
                signer: &signed.attestation.attester,
                own: None,
                is_attached: true,
                bytes: &bytes,
                signature: &signed.signature,
            })?;
        }
        Ok(good_by.filter(|_| claim.own.is_none()).unwrap_or_default())
    }
}

/// Checks messages that come along together: handshakes and orders bring the keys of whoever has
/// signed them, a DID being the hash of its first key, and so the others of the same signers can be
/// checked by somebody who has never met these.
fn check_together(list: &mut [Signed], keys: &dyn Check) -> Result<(), OpenError> {
    let mut shown: BTreeMap<Did, OwnKeys<'_>> = BTreeMap::new();
    for message in list.iter() {
        if let Some(own) = message.message.own_keys() {
            let known = shown.entry(message.meta.signer).or_insert(own);
            if own.links.len() > known.links.len() {
                *known = own;
            }
        }
    }
    let check =
        |message: &Signed| message.check(keys, true, shown.get(&message.meta.signer).copied());
    let good_by = list.iter().map(check).collect::<Result<Vec<_>, _>>()?;
    list.iter_mut().zip(good_by).for_each(|(message, links)| message.key_chain = links);
    Ok(())
}

/// Changes of key that came with a message.
fn links(json: Option<Value>) -> Result<Vec<KeyLink>, OpenError> {
    const WRONG: OpenError = OpenError::Envelope("key_chain is a list of changes of a key");
    let Some(json) = json else {
        return Ok(Vec::new());
    };
    let links: Vec<KeyLink> = serde_json::from_value(json).map_err(|_| WRONG)?;
    if links.len() > KEY_LINKS_MAX { Err(WRONG) } else { Ok(links) }
}

const NOT_FLAT: OpenError = OpenError::Envelope("attached is a flat list of messages");

fn object(envelope: Value) -> Result<Map<String, Value>, OpenError> {
    match envelope {
        Value::Object(envelope) => Ok(envelope),
        _ => Err(OpenError::Envelope("a message is a JSON object")),
    }
}

pub(super) fn check_len(payload: &[u8], method: &str) -> Result<(), OpenError> {
    let (len, max) = (payload.len(), Message::len_max(method));
    if len > max { Err(OpenError::TooLong { len, max }) } else { Ok(()) }
}
