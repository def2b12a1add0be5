//! The JSON-RPC envelope, and what a signature covers (ASIP "Message Envelope", decision 42).

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use skep_base::{Did, Hash32, Timestamp, ed25519::Signature, hash::sha256, json as canonical};

use super::{ChainError, ErrorCode, Message, OwnKeys, RequestId, hex_signature};
use crate::identity::Statement;

/// The longest message, without what is attached to it (decision 49).
pub const MESSAGE_LEN_MAX: usize = 1 << 20;
/// The longest message with everything that is attached.
pub const ATTACHED_LEN_MAX: usize = 64 << 20;
/// How many messages can be attached to one.
pub const ATTACHED_MAX: usize = 200_000;
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
    #[error("the message has {0} bytes; {MESSAGE_LEN_MAX} are allowed")]
    TooLong(usize),
    #[error("{0}")]
    Envelope(&'static str),
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
            OpenError::TooLong(_) | OpenError::Envelope(_) => ErrorCode::InvalidRequest,
            OpenError::Method(_) => ErrorCode::MethodNotFound,
            OpenError::Params { .. } => ErrorCode::InvalidParams,
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
    pub sent_at: Timestamp,
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
    /// What it refers to; each is signed for itself.
    pub attached: Vec<Arc<Signed>>,
}

impl PartialEq for Signed {
    fn eq(&self, other: &Signed) -> bool {
        self.hash == other.hash && self.signature == other.signature
    }
}

fn is_short(method: &str, payload: &[u8]) -> bool {
    payload.len() <= MESSAGE_LEN_MAX || Message::may_be_long(method)
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
        Signed { meta, message, id: None, payload, signature, hash, attached }
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
            sent_at: self.meta.sent_at,
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
            attached,
        }
    }

    /// How many bytes it takes on the wire, about: its attachments included.
    pub fn wire_len(&self) -> usize {
        /// The envelope around the signed bytes.
        const AROUND: usize = 190;
        let attached: usize = self.attached.iter().map(|message| message.wire_len()).sum();
        self.payload.len() + AROUND + attached
    }

    /// Whether others may open it: what [`Signed::open`] asks of lengths and numbers, by
    /// [`Signed::wire_len`].
    pub fn fits(&self) -> bool {
        is_short(self.message.method(), &self.payload)
            && self.attached.len() <= ATTACHED_MAX
            && self.wire_len() <= ATTACHED_LEN_MAX
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
            serde_json::from_slice(&self.payload).expect("signed bytes are a JSON object");
        envelope.insert("jsonrpc".to_owned(), json!("2.0"));
        envelope.insert("signature".to_owned(), json!(hex_signature::write(&self.signature)));
        if let Some(id) = &self.id {
            envelope.insert("id".to_owned(), json!(id));
        }
        envelope
    }

    /// Reads a message and checks it and all that is attached.
    pub fn open(text: &[u8], keys: &dyn Check) -> Result<Signed, OpenError> {
        if text.len() > ATTACHED_LEN_MAX {
            return Err(OpenError::TooLong(text.len()));
        }
        let envelope =
            canonical::parse(text).map_err(|error| OpenError::Json(error.to_string()))?;
        Self::from_json(envelope, keys)
    }

    pub fn from_json(envelope: Value, keys: &dyn Check) -> Result<Signed, OpenError> {
        let Value::Object(envelope) = envelope else {
            return Err(OpenError::Envelope("a message is a JSON object"));
        };
        Self::from_object(envelope, keys, true)
    }

    fn from_object(
        mut envelope: Map<String, Value>,
        keys: &dyn Check,
        may_attach: bool,
    ) -> Result<Signed, OpenError> {
        if envelope.get("jsonrpc") != Some(&json!("2.0")) {
            return Err(OpenError::Envelope("jsonrpc must be \"2.0\""));
        }
        let attached = match envelope.remove("attached") {
            None => Vec::new(),
            Some(Value::Array(list)) if may_attach && list.len() <= ATTACHED_MAX => list
                .into_iter()
                .map(|inner| match inner {
                    Value::Object(inner) => Self::from_object(inner, keys, false).map(Arc::new),
                    _ => Err(OpenError::Envelope("a message is a JSON object")),
                })
                .collect::<Result<_, _>>()?,
            Some(_) => return Err(OpenError::Envelope("attached is a flat list of messages")),
        };
        let id = RequestId::read(envelope.remove("id"))?;
        let signature = envelope.get("signature").and_then(Value::as_str);
        let signature = signature.and_then(hex_signature::read).ok_or(OpenError::BadSignature)?;
        let Some(Value::String(method)) = envelope.remove("method") else {
            return Err(OpenError::Envelope("a message has a method"));
        };
        let params = envelope.remove("params").unwrap_or_else(|| json!({}));
        let signed = json!({"method": method, "params": params});
        let payload = canonical::to_vec(&signed).map_err(|e| OpenError::Json(e.to_string()))?;
        if !is_short(&method, &payload) {
            return Err(OpenError::TooLong(payload.len()));
        }
        let (meta, message) = Message::read(&method, params)?;
        if message.named_signer().is_some_and(|named| *named != meta.signer) {
            return Err(OpenError::WrongSigner(meta.signer));
        }
        let hash = sha256(&payload);
        let payload = payload.into_boxed_slice();
        let opened = Signed { meta, message, id, payload, signature, hash, attached };
        keys.check(&opened.claim(!may_attach))?;
        for signed in opened.message.evidence() {
            let bytes = signed.attestation.signed_bytes().map_err(|_| OpenError::BadSignature)?;
            keys.check(&Claim {
                signer: &signed.attestation.attester,
                own: None,
                is_attached: true,
                bytes: &bytes,
                signature: &signed.signature,
                ..opened.claim(true)
            })?;
        }
        Ok(opened)
    }
}
