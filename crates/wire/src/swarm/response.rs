//! What answers a request (ASIP "Response", "Error Response").
//!
//! Answers are not signed, so nothing is decided by them: they tell whoever asked what to expect,
//! and what counts comes as signed messages. Messages without an id get none.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use skep_base::{Did, json as canonical};

use super::{ErrorCode, HandshakeResult, MESSAGE_LEN_MAX, OpenError, RpcError, Signed};

/// The longest id of a request.
pub const ID_LEN_MAX: usize = 128;
/// The longest answer: a few short fields.
pub const RESPONSE_LEN_MAX: usize = 16 << 10;
/// Requests whose answers one node waits for; older ones are forgotten.
pub const ASKED_MAX: usize = 1_024;

/// What a response repeats of its request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(untagged)]
pub enum RequestId {
    Number(i64),
    Text(String),
}

impl RequestId {
    /// `null` is no id.
    pub(super) fn read(id: Option<Value>) -> Result<Option<RequestId>, OpenError> {
        let wrong = Err(OpenError::Envelope("an id is a short text or a whole number"));
        match id {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.len() <= ID_LEN_MAX => {
                Ok(Some(RequestId::Text(text)))
            }
            Some(Value::Number(number)) => match number.as_i64() {
                Some(number) => Ok(Some(RequestId::Number(number))),
                None => wrong,
            },
            Some(_) => wrong,
        }
    }
}

/// 4. What answers `hierarchy.assign_tier`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierResult {
    pub accepted: bool,
    pub agent_id: Did,
}

/// 5, 9. What answers `task.inject` and `task.assign`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskResult {
    pub accepted: bool,
    pub task_id: String,
}

/// 10. What answers `task.submit_result`: it has arrived. What it is worth says the verification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmitReceipt {
    pub task_id: String,
    pub artifact_id: String,
    pub accepted: bool,
}

/// The `result` of a response. Which one it is follows from the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Reply {
    Handshake(HandshakeResult),
    Tier(TierResult),
    Task(TaskResult),
    Submitted(SubmitReceipt),
}

impl Reply {
    pub fn accepted(&self) -> bool {
        match self {
            Reply::Handshake(result) => result.accepted,
            Reply::Tier(result) => result.accepted,
            Reply::Task(result) => result.accepted,
            Reply::Submitted(result) => result.accepted,
        }
    }

    fn read(method: &str, result: Value) -> Result<Reply, OpenError> {
        let read = match method {
            "swarm.handshake" => serde_json::from_value(result).map(Reply::Handshake),
            "hierarchy.assign_tier" => serde_json::from_value(result).map(Reply::Tier),
            "task.inject" | "task.assign" => serde_json::from_value(result).map(Reply::Task),
            "task.submit_result" => serde_json::from_value(result).map(Reply::Submitted),
            _ => return Err(OpenError::Envelope("this method has no result")),
        };
        read.map_err(|_| OpenError::Envelope("the result is not that of the request"))
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// Absent where the request could not be read far enough to see one.
    pub id: Option<RequestId>,
    pub outcome: Result<Reply, RpcError>,
}

impl Response {
    pub fn to_json(&self) -> Value {
        let mut envelope = json!({"jsonrpc": "2.0", "id": self.id});
        match &self.outcome {
            Ok(reply) => envelope["result"] = json!(reply),
            Err(error) => envelope["error"] = json!(error),
        }
        envelope
    }

    /// What answers a text that [`Signed::open`] has refused; nothing if no answer is wanted.
    pub fn refusing(text: &[u8], error: &OpenError) -> Option<Response> {
        let unread = text.len() > MESSAGE_LEN_MAX || matches!(error, OpenError::Json(_));
        let read = if unread { None } else { canonical::parse(text).ok() };
        let id = match read {
            Some(Value::Object(mut envelope)) => {
                // Two nodes that answer answers would never stop.
                if envelope.contains_key("result") || envelope.contains_key("error") {
                    return None;
                }
                match RequestId::read(envelope.remove("id")) {
                    Ok(None) => return None,
                    Ok(id) => id,
                    Err(_) => None,
                }
            }
            _ => None,
        };
        let error = RpcError::new(error.code(), error.to_string());
        Some(Response { id, outcome: Err(error) })
    }
}

/// The requests that a node has sent, newest last: answers to others mean nothing to it.
#[derive(Clone, Debug, Default)]
pub struct Asked(VecDeque<(RequestId, &'static str)>);

impl Asked {
    /// Notes a request; what has no id or gets no answer is not one.
    pub fn note(&mut self, request: &Signed) {
        let method = request.message.method();
        let Some(id) = request.id.clone().filter(|_| request.message.is_request()) else {
            return;
        };
        if self.0.len() >= ASKED_MAX {
            self.0.pop_front();
        }
        self.0.push_back((id, method));
    }

    /// Reads an answer; nothing if nobody here has asked.
    ///
    /// The same request may go to several agents, and each answers: it stays noted.
    pub fn open(&self, text: &[u8]) -> Result<Option<Response>, OpenError> {
        if text.len() > RESPONSE_LEN_MAX {
            return Err(OpenError::TooLong { len: text.len(), max: RESPONSE_LEN_MAX });
        }
        let json = canonical::parse(text).map_err(|error| OpenError::Json(error.to_string()))?;
        let Value::Object(mut envelope) = json else {
            return Err(OpenError::Envelope("an answer is a JSON object"));
        };
        if envelope.remove("jsonrpc") != Some(json!("2.0")) {
            return Err(OpenError::Envelope("jsonrpc must be \"2.0\""));
        }
        let id = RequestId::read(envelope.remove("id"))?;
        let outcome = Outcome::read(envelope)?;
        let Some((id, method)) = id.and_then(|id| self.0.iter().rfind(|(known, _)| *known == id))
        else {
            return Ok(None);
        };
        let outcome = match outcome {
            Outcome::Result(result) => Ok(Reply::read(method, result)?),
            Outcome::Error(error) => Err(error),
        };
        Ok(Some(Response { id: Some(id.clone()), outcome }))
    }
}

enum Outcome {
    Result(Value),
    Error(RpcError),
}

impl Outcome {
    /// Exactly one of the two, and nothing else.
    fn read(mut envelope: Map<String, Value>) -> Result<Outcome, OpenError> {
        let (result, error) = (envelope.remove("result"), envelope.remove("error"));
        match (result, error, envelope.is_empty()) {
            (Some(result), None, true) => Ok(Outcome::Result(result)),
            (None, Some(error), true) => serde_json::from_value(error)
                .map(Outcome::Error)
                .map_err(|_| OpenError::Envelope("an error has a code and a message")),
            _ => Err(OpenError::Envelope("an answer has a result or an error")),
        }
    }
}

impl RpcError {
    /// An error with its reason in words.
    pub fn new(code: ErrorCode, reason: impl Into<String>) -> RpcError {
        RpcError { data: json!({"reason": reason.into()}), ..RpcError::from(code) }
    }
}
