//! Recorded browser sessions (VCAP appendix A): what an agent may do, and what it left behind.
//!
//! A step of a session is a [`settle::Action`](crate::settle::Action), as a verifier's is: one
//! chain, one check, one way out as evidence.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::{
    AgentId, Amount, Asset, Hash32, Timestamp,
    ed25519::{PublicKey, Signature},
    id::SessionId,
};

use crate::settle::{Action, Attachment, ErrorReport, Tier};

/// What a session's proof says that it is.
pub const SESSION_FORMAT: &str = "skep/conduit-session/v1";
/// A session in which nothing is done is failed after so long.
pub const SESSION_IDLE_MAX: Duration = Duration::from_secs(5 * 60);
/// And any session after so long.
pub const SESSION_LIFE_MAX: Duration = Duration::from_secs(15 * 60);
/// Actions of one session.
pub const SESSION_ACTIONS_MAX: u32 = 256;
/// What one action gives back, in bytes; what was longer is cut.
pub const DATA_LEN_MAX: usize = 256 * 1024;
/// The largest screenshot, in bytes.
pub const SCREENSHOT_LEN_MAX: usize = 1024 * 1024;

macro_rules! actions {
    ($($name:ident $text:literal $cost:ident $tier:ident: $doc:literal;)+) => {
        /// Appendix A, whole.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        pub enum ActionType {
            $(#[doc = $doc] #[serde(rename = $text)] $name,)+
        }

        impl ActionType {
            pub const ALL: [ActionType; 25] = [$(ActionType::$name,)+];

            pub fn as_str(self) -> &'static str {
                match self { $(ActionType::$name => $text,)+ }
            }

            pub fn cost_category(self) -> CostCategory {
                match self { $(ActionType::$name => CostCategory::$cost,)+ }
            }

            /// The lowest tier that may do this (decision 40). Password and payment fields ask for
            /// more, whatever writes into them.
            pub fn tier(self) -> Tier {
                match self { $(ActionType::$name => Tier::$tier,)+ }
            }
        }
    };
}

actions! {
    Navigate "NAVIGATE" Billable Unverified: "Loads a URL.";
    Click "CLICK" Billable Basic: "Clicks an element.";
    Type "TYPE" Billable Basic: "Types into an element, key by key.";
    Fill "FILL" Billable Basic: "Sets the value of a field.";
    Extract "EXTRACT" Billable Unverified: "Reads text.";
    Screenshot "SCREENSHOT" Billable Unverified: "Takes a picture.";
    Scroll "SCROLL" Free Unverified: "Scrolls the page.";
    Wait "WAIT" Free Unverified: "Waits for some time.";
    WaitFor "WAIT_FOR" Free Unverified: "Waits until a selector matches.";
    KeyPress "KEY_PRESS" Free Basic: "Presses a key.";
    Hover "HOVER" Free Basic: "Moves the pointer over an element.";
    SelectOption "SELECT_OPTION" Billable Basic: "Chooses from a list.";
    HandleDialog "HANDLE_DIALOG" Free Basic: "Accepts or dismisses a dialog.";
    NavigateBack "NAVIGATE_BACK" Billable Unverified: "Goes back in the history.";
    ConsoleMessages "CONSOLE_MESSAGES" Free Unverified: "Reads what the page has logged.";
    Eval "EVAL" Billable Verified: "Runs JavaScript.";
    ExtractMain "EXTRACT_MAIN" Billable Unverified: "Reads the main text of the page.";
    OutputToFile "OUTPUT_TO_FILE" Free Unverified: "Keeps data as a file of the session.";
    AccessibilitySnapshot "ACCESSIBILITY_SNAPSHOT" Billable Unverified:
        "Reads the accessibility tree.";
    NetworkRequests "NETWORK_REQUESTS" Free Unverified: "Reads what the page has requested.";
    Map "MAP" Billable Unverified: "Finds the pages of a site.";
    Crawl "CRAWL" Billable Unverified: "Visits the pages of a site.";
    Fingerprint "FINGERPRINT" Billable Unverified: "Hashes what the page says.";
    CheckChanged "CHECK_CHANGED" Billable Unverified: "Compares with an earlier fingerprint.";
    ExportProof "EXPORT_PROOF" Free Unverified: "Gives the proof of the session so far.";
}

/// Appendix A, third column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum CostCategory {
    Billable,
    Free,
}

/// `POST /conduit/sessions`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OpenSession {
    /// What the session may cost at most; it is held until the session is closed. Without it, the
    /// price of 25 billable actions is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub max_cost_minor: Option<Amount>,
    /// What the session is for, for whoever reads its proof.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
}

/// `POST /conduit/sessions/{id}/actions`. Which fields an action takes is in the documentation;
/// one that it does not know is refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Act {
    pub action: ActionType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// CSS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// What is typed, filled in, chosen, kept as a file, or answered to a prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// KEY_PRESS: `Enter`, `Tab`, `ArrowDown`, `a`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// EVAL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// OUTPUT_TO_FILE: a name without a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// WAIT: how long; WAIT_FOR and NAVIGATE: how long at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
    /// SCROLL: pixels down, or up if negative; without them, to the selector or to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pixels: Option<i32>,
    /// HANDLE_DIALOG.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept: Option<bool>,
    /// CHECK_CHANGED: the fingerprint to compare with; the session's last one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub baseline: Option<Hash32>,
    /// MAP and CRAWL: links from the first page on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u8>,
    /// MAP and CRAWL: pages at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<u16>,
    /// A picture after any action; of all of the page for SCREENSHOT with `full_page`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub screenshot: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub full_page: bool,
}

impl Act {
    pub fn new(action: ActionType) -> Act {
        Act {
            action,
            url: None,
            selector: None,
            text: None,
            key: None,
            script: None,
            name: None,
            ms: None,
            pixels: None,
            accept: None,
            baseline: None,
            depth: None,
            pages: None,
            screenshot: false,
            full_page: false,
        }
    }

    pub fn navigate(url: &str) -> Act {
        Act { url: Some(url.to_owned()), ..Act::new(ActionType::Navigate) }
    }
}

/// IDLE → RUNNING → COMPLETED or FAILED, and no other way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum SessionStatus {
    /// Open, and nothing was done yet.
    Idle,
    Running,
    Completed,
    Failed,
}

/// What one action came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ActionDone {
    /// The step as it stands in the chain.
    pub event: Value,
    /// The chain's head with it.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub head: Hash32,
    /// All that it gave; the event has the beginning and the hash.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
    /// Screenshots and files, by the hashes in the event.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// Why it did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorReport>,
}

impl ActionDone {
    pub fn action(&self) -> Result<Action, serde_json::Error> {
        serde_json::from_value(self.event.clone())
    }
}

/// Who recorded a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GatewayStamp {
    pub kid: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub public_key: PublicKey,
    pub software: String,
}

/// What a session was, whole. `proof_hash` is the SHA-256 of its canonical JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionBundle {
    /// [`SESSION_FORMAT`]
    pub format: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub session_id: SessionId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub agent_id: AgentId,
    pub status: SessionStatus,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
    /// As they were recorded; [`Action`] is how they are read.
    pub action_log: Vec<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub action_log_head: Option<Hash32>,
    /// `sha256-jcs-hex/1`
    pub chain_alg: String,
    pub gateway: GatewayStamp,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub opened_at: Timestamp,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub closed_at: Timestamp,
}

/// What the gateway signs, as canonical JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionBody {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub session_id: SessionId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub agent_id: AgentId,
    pub status: SessionStatus,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub proof_hash: Hash32,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub closed_at: Timestamp,
}

/// A session's proof. It checks offline, and so do the attachments beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionProof {
    /// [`SessionBundle`], as it was signed.
    pub bundle: Value,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub proof_hash: Hash32,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub signature: Signature,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
}

/// `GET /conduit/sessions/{id}`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Session {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub session_id: SessionId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub agent_id: AgentId,
    pub status: SessionStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
    /// Actions so far.
    pub actions: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub head: Option<Hash32>,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub asset: Asset,
    /// What is held for it.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub max_cost_minor: Amount,
    /// What it has cost so far.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub cost_minor: Amount,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub opened_at: Timestamp,
    /// When it is closed as FAILED if its owner does not close it.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub expires_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub closed_at: Option<Timestamp>,
    /// Where people can look at the proof: a path on the node. Whoever has it may look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof_page: Option<String>,
}

/// `POST /conduit/sessions/{id}/close`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CloseSession {
    /// Why it failed; without it the session is completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// One step of a session with all that was kept of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Step {
    /// As it stands in the chain.
    pub event: Value,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub head: Hash32,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub cost_minor: Amount,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorReport>,
}

/// What a gateway says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayInfo {
    pub public_key: PublicKey,
    pub software: String,
}

/// A node asks its gateway for a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayOpen {
    pub agent_id: AgentId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
}

/// A node asks its gateway to act, having checked who asks and what it may cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GatewayAct {
    pub index: u32,
    pub mark: RequestMark,
    pub act: Act,
    pub tier: Tier,
    pub price_minor: Amount,
}

/// What makes a request the same request: a gateway does it once, and says whose it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestMark {
    pub key: String,
    /// Of what was asked.
    pub fingerprint: Hash32,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Acted {
    pub done: ActionDone,
    pub mark: RequestMark,
    /// The browser is gone: the session can only be closed.
    #[serde(default)]
    pub fatal: bool,
}

/// A node asks its gateway for the proof.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayClose {
    pub status: SessionStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Why a gateway did not do it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum GatewayError {
    #[error("{detail}")]
    NoBrowser { detail: String },
    #[error("every browser of the gateway is in use; try again in a moment")]
    Busy,
    #[error("the gateway has no such session")]
    UnknownSession,
    #[error("the session is over at the gateway: {reason}")]
    Over { reason: String },
    /// Nothing was done.
    #[error("{detail}")]
    BadAction { detail: String },
    /// Nothing was done.
    #[error("this needs the tier {required:?}")]
    TierTooLow { required: Tier },
    /// Something else was done under this index already; this is what.
    #[error("another action has that place")]
    Taken { acted: Box<Acted> },
    /// The caller's picture of the session is old.
    #[error("the session has moved on; look at it again")]
    Moved,
    #[error("the gateway cannot be reached: {detail}")]
    Unreachable { detail: String },
}
