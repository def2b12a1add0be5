//! What a gateway keeps of a session while it runs: the log, its chain, and what lies beside it.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use skep_base::{
    AgentId, Amount, Hash32, Timestamp,
    ed25519::SecretKey,
    hash::{json_sha256, sha256},
    id::SessionId,
    json::CanonicalError,
};
use skep_wire::{
    conduit::{
        Act, Acted, ActionDone, GatewayStamp, RequestMark, SESSION_ACTIONS_MAX, SessionBundle,
        SessionProof, SessionStatus,
    },
    settle::{Action, Attachment, ErrorReport},
};

use crate::{proof::link, session_proof::seal};

/// What the pictures and files of one session may come to, in bytes.
pub const ATTACHMENTS_LEN_MAX: usize = 8 * 1024 * 1024;
/// Minor units of USDC in a cent, for the log's whole cents.
const CENT_MINOR: i64 = 10_000;
/// The longest text of a step that stands in the log whole, in bytes.
const TEXT_LEN_MAX: usize = 4096;
/// The longest reason of a step that failed, in characters.
const SNIPPET_LEN_MAX: usize = 200;
/// How much of a longer one does.
const BEGINNING_LEN: usize = 256;
/// The name of a gateway's one key.
pub const GATEWAY_KID: &str = "gateway";

/// A session as its gateway has it.
#[derive(Clone, Debug)]
pub struct Recording {
    session_id: SessionId,
    agent_id: AgentId,
    purpose: Option<String>,
    opened_at: Timestamp,
    log: Vec<Value>,
    head: Option<Hash32>,
    attachments: Vec<Attachment>,
    attachments_len: usize,
    last: Option<Acted>,
}

/// What is to be done about an action that somebody wants at an index.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// Nothing has it: the action is to be done.
    Free,
    /// This very request was done there, and its answer may have been lost.
    Done(Box<Acted>),
    /// Another was done there.
    Taken(Box<Acted>),
    /// That index is long past, or still to come.
    Elsewhere,
}

/// What an action came to, before it is in the log.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub url: Option<String>,
    pub data: Value,
    pub snippet: Option<String>,
    /// What it was given, secrets left out.
    pub input: Option<Value>,
    /// A PNG.
    pub screenshot: Option<Vec<u8>>,
    pub file: Option<(String, Vec<u8>)>,
    pub fingerprint: Option<Hash32>,
    pub error: Option<ErrorReport>,
    pub fatal: bool,
}

/// When an action was done, and what it costs.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    pub at: Timestamp,
    pub duration_ms: u64,
    pub price: Amount,
}

impl Recording {
    pub fn open(
        session_id: SessionId,
        agent_id: AgentId,
        purpose: Option<String>,
        opened_at: Timestamp,
    ) -> Recording {
        Recording {
            session_id,
            agent_id,
            purpose,
            opened_at,
            log: Vec::new(),
            head: None,
            attachments: Vec::new(),
            attachments_len: 0,
            last: None,
        }
    }

    pub fn actions(&self) -> u32 {
        u32::try_from(self.log.len()).unwrap_or(u32::MAX)
    }

    /// Where an action stands. Only the last one's answer is kept: whoever asks for a new index has
    /// stored what was before it.
    pub fn place(&self, index: u32, mark: &RequestMark) -> Place {
        if index == self.actions() && index < SESSION_ACTIONS_MAX {
            return Place::Free;
        }
        match &self.last {
            Some(acted) if index + 1 == self.actions() => {
                let (same, acted) = (acted.mark == *mark, Box::new(acted.clone()));
                if same { Place::Done(acted) } else { Place::Taken(acted) }
            }
            _ => Place::Elsewhere,
        }
    }

    /// Adds an action that was done, and gives what the caller hears of it.
    pub fn add(
        &mut self,
        act: &Act,
        mark: RequestMark,
        mut result: Outcome,
        stamp: Stamp,
    ) -> Result<Acted, CanonicalError> {
        let attachments = self.take_attachments(&mut result);
        let kept_hash = |media: &str| {
            attachments.iter().find(|kept| kept.media_type == media).map(|kept| kept.sha256)
        };
        let data_sha256 = match (kept_hash(FILE_TYPE), &result.data) {
            (Some(file), _) => Some(file),
            (None, Value::Null) => None,
            // A number that canonical JSON does not know is hashed as it is written.
            (None, data) => {
                Some(json_sha256(data).unwrap_or_else(|_| sha256(data.to_string().as_bytes())))
            }
        };
        let mut event = Action::begun(self.log.len(), act.action.as_str(), stamp.at);
        event.url = result.url.map(short);
        event.selector = act.selector.clone().map(short);
        event.success = result.error.is_none();
        event.cost_cents = cents(stamp.price);
        event.cost_category = Some(act.action.cost_category());
        event.duration_ms = Some(stamp.duration_ms);
        let why = |error: &ErrorReport| first_chars(&format!("{}: {}", error.code, error.detail));
        event.data_snippet = result.error.as_ref().map(why).or(result.snippet);
        event.input = Some(with_cost(result.input, stamp.price));
        event.data_sha256 = data_sha256;
        event.screenshot_sha256 = kept_hash(PICTURE_TYPE);
        event.fingerprint = result.fingerprint;
        let event = serde_json::to_value(&event).unwrap_or_default();
        let head = link(self.head, &event)?;
        self.log.push(event.clone());
        self.head = Some(head);
        for new in &attachments {
            if self.attachments.iter().all(|known| known.sha256 != new.sha256) {
                self.attachments.push(new.clone());
            }
        }
        let done = ActionDone { event, head, data: result.data, attachments, error: result.error };
        let acted = Acted { done, mark, fatal: result.fatal };
        self.last = Some(acted.clone());
        Ok(acted)
    }

    /// Pictures and files as far as there is room; the first that does not fit is the error.
    fn take_attachments(&mut self, result: &mut Outcome) -> Vec<Attachment> {
        let picture = result.screenshot.take().map(|bytes| (PICTURE_TYPE, None, bytes));
        let file = result.file.take().map(|(name, bytes)| (FILE_TYPE, Some(name), bytes));
        let mut taken = Vec::new();
        for (media_type, name, bytes) in picture.into_iter().chain(file) {
            let sha256 = sha256(&bytes);
            let known = self.attachments.iter().any(|known| known.sha256 == sha256);
            if !known && self.attachments_len + bytes.len() > ATTACHMENTS_LEN_MAX {
                let detail =
                    format!("a session keeps {ATTACHMENTS_LEN_MAX} bytes of pictures and files");
                let full = ErrorReport { code: "attachments_full".to_owned(), detail };
                result.error.get_or_insert(full);
                continue;
            }
            if !known {
                self.attachments_len += bytes.len();
            }
            let (media_type, data) = (media_type.to_owned(), STANDARD.encode(&bytes));
            taken.push(Attachment { sha256, media_type, name, data });
        }
        taken
    }

    /// The signed proof of all so far.
    pub fn seal(
        &self,
        status: SessionStatus,
        reason: Option<String>,
        at: Timestamp,
        software: &str,
        key: &SecretKey,
    ) -> Result<SessionProof, CanonicalError> {
        let bundle = SessionBundle {
            format: String::new(),
            session_id: self.session_id,
            agent_id: self.agent_id,
            status,
            reason,
            purpose: self.purpose.clone(),
            action_log: self.log.clone(),
            action_log_head: self.head,
            chain_alg: String::new(),
            gateway: GatewayStamp {
                kid: GATEWAY_KID.to_owned(),
                public_key: key.public(),
                software: software.to_owned(),
            },
            opened_at: self.opened_at,
            // A clock that was put back must not spoil the proof.
            closed_at: at.max(self.opened_at),
        };
        let mut attachments = self.attachments.clone();
        attachments.sort_by_key(|kept| kept.sha256);
        seal(bundle, attachments, key)
    }
}

const PICTURE_TYPE: &str = "image/png";
const FILE_TYPE: &str = "text/plain";

/// Rounded up to whole cents; the exact price is in the input.
fn cents(price: Amount) -> u32 {
    let minor = price.minor();
    let up = minor / CENT_MINOR + i64::from(minor % CENT_MINOR > 0);
    u32::try_from(up).unwrap_or(u32::MAX)
}

fn first_chars(text: &str) -> String {
    text.chars().take(SNIPPET_LEN_MAX).collect()
}

/// What is long stands in the log by its beginning and its hash, so that a log stays readable.
fn short(text: String) -> String {
    if text.len() <= TEXT_LEN_MAX {
        return text;
    }
    let (begins, length) = (&text[..text.floor_char_boundary(BEGINNING_LEN)], text.len());
    format!("{begins}… ({length} bytes, sha256 {})", sha256(text.as_bytes()))
}

fn with_cost(input: Option<Value>, price: Amount) -> Value {
    let mut input = match input {
        Some(Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    for value in input.values_mut() {
        if let Value::String(text) = value {
            *text = short(std::mem::take(text));
        }
    }
    input.insert("cost_minor".to_owned(), json!(price.to_string()));
    Value::Object(input)
}

#[cfg(test)]
mod tests;
