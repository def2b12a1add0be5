//! The errors of ASIP, by their codes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $message:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ErrorCode { $($(#[$doc])* $name,)* }

        impl ErrorCode {
            pub const ALL: [ErrorCode; 15] = [$(ErrorCode::$name,)*];

            pub const fn code(self) -> i32 {
                match self { $(ErrorCode::$name => $code,)* }
            }

            pub const fn message(self) -> &'static str {
                match self { $(ErrorCode::$name => $message,)* }
            }
        }
    };
}

codes! {
    /// The text is not JSON, or JSON that two readers would read differently.
    ParseError = -32700, "Parse error";
    /// Not a JSON-RPC message, too large, or not for this node to decide.
    InvalidRequest = -32600, "Invalid Request";
    MethodNotFound = -32601, "Method not found";
    InvalidParams = -32602, "Invalid params";
    /// Not signed by its signer, or its signer may not say this.
    InvalidSignature = -32000, "Invalid signature";
    EpochMismatch = -32001, "Epoch mismatch";
    InvalidPow = -32002, "Invalid PoW";
    /// A score is claimed beyond its evidence, or too low for what is asked.
    InsufficientReputation = -32003, "Insufficient reputation";
    SelfVote = -31000, "Self-vote prohibited";
    /// A second commit, plan or ballot by the same agent.
    DuplicateProposal = -31001, "Duplicate proposal";
    CommitRevealMismatch = -31002, "Commit-reveal mismatch";
    VotingTimeout = -31003, "Voting timeout";
    TaskNotFound = -30000, "Task not found";
    ResultRejected = -30001, "Result rejected";
    DeadlineExceeded = -30002, "Deadline exceeded";
}

/// The `error` of a response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RpcError {
    pub code: i32,
    pub message: String,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
}

impl From<ErrorCode> for RpcError {
    fn from(code: ErrorCode) -> RpcError {
        RpcError { code: code.code(), message: code.message().to_owned(), data: Value::Null }
    }
}
