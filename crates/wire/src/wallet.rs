//! Money of an agent: balances, transfers and holds.

use serde::{Deserialize, Serialize};
use skep_base::{
    AgentId, Hash32, Money, Timestamp,
    ed25519::{PublicKey, Signature},
    id::{EventId, TransferId},
};

use crate::identity::Statement;

/// One asset of a wallet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Balance {
    /// What can be spent or held.
    #[cfg_attr(feature = "openapi", schema(value_type = MoneyDoc))]
    pub available: Money,
    /// What open holds have set aside.
    #[cfg_attr(feature = "openapi", schema(value_type = MoneyDoc))]
    pub held: Money,
    /// What the next credits will pay first.
    #[cfg_attr(feature = "openapi", schema(value_type = MoneyDoc))]
    pub owed: Money,
}

/// How [`Money`] looks: the decimal for people, the minor units for programs.
#[cfg(feature = "openapi")]
#[derive(utoipa::ToSchema)]
pub struct MoneyDoc {
    #[schema(example = "12.50")]
    pub amount: String,
    #[schema(example = "12500000")]
    pub amount_minor: String,
    #[schema(example = "USDC")]
    pub asset: String,
}

/// `GET /v1/agents/{id}/wallet`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Wallet {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub agent_id: AgentId,
    pub balances: Vec<Balance>,
}

/// Whether a transfer moves money at once or sets it aside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum TransferMode {
    #[default]
    Posted,
    /// A hold: the payer posts it, or the payee voids it.
    Pending,
}

/// `POST /v1/transfers`: from the signer's wallet to another agent's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewTransfer {
    /// Chosen by the caller: a retry with the same id is the same transfer.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: TransferId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub to: AgentId,
    #[cfg_attr(feature = "openapi", schema(value_type = MoneyDoc))]
    pub money: Money,
    #[serde(default)]
    pub mode: TransferMode,
}

/// `POST /v1/transfers/{id}/post`: pays what was held, or a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PostTransfer {
    /// All of it if absent; what is not posted returns to the payer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<MoneyDoc>))]
    pub money: Option<Money>,
}

/// `POST /v1/transfers/{id}/void`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct VoidTransfer {}

/// Where a transfer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum TransferState {
    Pending,
    Posted,
    Voided,
}

/// `GET /v1/transfers/{id}`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Transfer {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: TransferId,
    /// An account of the ledger, such as `wallet:0x…:USDC`.
    pub from: String,
    pub to: String,
    #[cfg_attr(feature = "openapi", schema(value_type = MoneyDoc))]
    pub money: Money,
    pub state: TransferState,
    /// What was paid in the end, if it was held first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<MoneyDoc>))]
    pub posted: Option<Money>,
}

/// A line of `GET /v1/agents/{id}/transfers`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HistoryLine {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: TransferId,
    /// `posted`, `pending`, `post` or `void`.
    pub kind: String,
    pub from: String,
    pub to: String,
    #[cfg_attr(feature = "openapi", schema(value_type = MoneyDoc))]
    pub money: Money,
    /// The hold that a post or void ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub pending: Option<TransferId>,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub at: Timestamp,
}

/// `POST /v1/dev/faucet`: test money, where the node was made with `--dev`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Faucet {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: TransferId,
    #[cfg_attr(feature = "openapi", schema(value_type = MoneyDoc))]
    pub money: Money,
    /// Who gets it, also an address that is no agent's; the caller if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub to: Option<AgentId>,
}

/// `POST /v1/dev/clock`: moves the clock ahead, where the node was made with `--dev`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AdvanceClock {
    /// At most ten years in all.
    pub seconds: u64,
}

/// What the node's clock says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClockTime {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub now: Timestamp,
}

/// A line of the event log, or of an inbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EventLine {
    /// Gapless.
    pub seq: i64,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: EventId,
    pub kind: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub at: Timestamp,
    pub route: String,
    pub version: i64,
    /// Exactly as it was hashed.
    pub body: String,
    /// SHA-256 over the hash before, the number and the event.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub hash: Hash32,
}

/// "My log ends here." Signed by the node: whoever keeps it can tell later that nothing before it
/// was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LogHead {
    pub seq: i64,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub hash: Hash32,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub at: Timestamp,
}

impl Statement for LogHead {
    const TYPE: &'static str = "skep/log-head/v1";
}

/// `GET /v1/log/head`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SignedLogHead {
    pub head: LogHead,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub key: PublicKey,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub signature: Signature,
}
