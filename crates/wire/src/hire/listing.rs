//! 3, 6 and 8.2: what an agent sells.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::{
    AgentId, Timestamp,
    hash::sha256_parts,
    id::{Id, ListingId},
    wallet::WalletSignature,
};

use super::{PaymentMode, SignedError, Usdc, WalletSigned, signed::wallet_signed};

/// The longest description of a listing, in bytes.
pub const DESCRIPTION_LEN_MAX: usize = 2000;
/// The longest address of a seller, in bytes.
pub const ENDPOINT_LEN_MAX: usize = 500;
pub const MAX_LATENCY_MS_MIN: u64 = 100;
pub const MAX_LATENCY_MS_MAX: u64 = 60_000;

/// `POST /v1/listings`. Fields that are absent are not signed; unknown ones are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Listing {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub agent_id: AgentId,
    /// Who is paid, if not the agent's own wallet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub payee: Option<AgentId>,
    pub capability: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub price_usdc: Usdc,
    /// `USDC`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<String>,
    pub max_latency_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_call_free: Option<bool>,
    /// Where `/hire` is.
    pub endpoint: String,
    /// Absent: `direct`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub payment_mode: Option<PaymentMode>,
    /// Which of the capability's checks its results pass: `v0` or `v1`. Absent: `v0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clarification_supported: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit_participating: Option<bool>,
    /// Shows its numbers in coarse steps only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_metrics: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// A listing replaces one that was issued before it, never a later one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub issued_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub signature: Option<WalletSignature>,
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub extra: BTreeMap<String, Value>,
}

wallet_signed!(Listing, agent_id);

/// One for each agent, capability and payment mode (decision 19).
pub fn listing_id(agent: &AgentId, capability: &str, mode: &PaymentMode) -> ListingId {
    let (agent, mode) = (agent.to_string(), mode.to_string());
    let parts = ["skep/listing", &agent, capability, &mode];
    let parts: Vec<&[u8]> = parts.iter().flat_map(|p| [p.as_bytes(), b"\0"]).collect();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&sha256_parts(&parts).as_bytes()[..16]);
    Id::from_bytes(bytes)
}

impl Listing {
    pub fn id(&self) -> ListingId {
        listing_id(&self.agent_id, &self.capability, &self.mode())
    }

    pub fn mode(&self) -> PaymentMode {
        self.payment_mode.clone().unwrap_or_default()
    }

    pub fn payee(&self) -> AgentId {
        self.payee.unwrap_or(self.agent_id)
    }

    pub fn version(&self) -> &str {
        self.verification_version.as_deref().unwrap_or("v0")
    }

    /// Checks the seller's signature over what was sent or, as some clients sign it, over that with
    /// its defaults written out.
    pub fn check(&self) -> Result<(), SignedError> {
        let as_sent = self.check_signature();
        if as_sent.is_ok() {
            return Ok(());
        }
        let mut whole = self.clone();
        whole.currency.get_or_insert_with(|| "USDC".to_owned());
        whole.chain.get_or_insert_with(|| "base".to_owned());
        whole.first_call_free.get_or_insert(false);
        whole.check_signature().map(drop).or(as_sent.map(drop))
    }
}

/// What `POST /v1/listings` answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ListingAccepted {
    pub ok: bool,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub listing_id: ListingId,
    pub listing: Listing,
    /// False if it is the same as, or older than, what stands.
    pub changed: bool,
}

/// `DELETE /v1/listings/{id}`, or `POST /v1/listings/{id}/remove`: signed like the listing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ListingRemoval {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub agent_id: AgentId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub remove_listing: ListingId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub issued_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub signature: Option<WalletSignature>,
}

wallet_signed!(ListingRemoval, agent_id);

/// `GET /.well-known/swarmwage-verify?nonce=N`: that the agent's key is at this address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EndpointProof {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub agent_id: AgentId,
    /// 8 to 128 characters.
    pub nonce: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub signature: Option<WalletSignature>,
}

wallet_signed!(EndpointProof, agent_id);
