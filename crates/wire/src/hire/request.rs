//! 7.1 and 7.2: a hire, and what is answered.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::{
    AgentId, Hash32, Timestamp,
    hash::{keccak256, sha256_parts},
    id::{Id, ReceiptId},
    wallet::WalletSignature,
};

use super::{
    BudgetToken, PaymentMode, Receipt, SignedError, Usdc, Verification, WalletBinding,
    WalletSigned, signed::wallet_signed,
};

/// The longest nonce of a hire, in bytes.
pub const HIRE_NONCE_LEN_MAX: usize = 128;
/// How far a hire's time may be from the seller's.
pub const HIRE_FRESH_MS: u64 = 5 * 60 * 1000;

/// `POST /hire`. A buyer of Skep signs it; a plain x402 client sends no signature, or no body that
/// says who it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HireRequest {
    pub protocol: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub buyer_id: AgentId,
    pub capability: String,
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub params: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub max_price_usdc: Option<Usdc>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_latency_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub preferred_payment_mode: Option<PaymentMode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_token: Option<BudgetToken>,
    /// The wallet that pays, where that is not the buyer's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payer: Option<WalletBinding>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote_token: Option<String>,
    /// The seller that it is meant for: nobody else can use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub seller_id: Option<AgentId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
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

wallet_signed!(HireRequest, buyer_id, hashing "params");

impl HireRequest {
    /// The hire without its parameters, still signed: what a facilitator is shown.
    pub fn envelope(&self) -> Result<HireEnvelope, SignedError> {
        Ok(HireEnvelope { statement: self.statement()?, signature: self.signature })
    }

    /// The EIP-3009 nonce that pays directly for this hire and nothing else.
    pub fn payment_nonce(&self) -> Result<Hash32, SignedError> {
        let is_shown = self.budget_token.is_some() || self.payer.is_some();
        Ok(payment_nonce(&self.digest()?, is_shown))
    }
}

/// A signed hire whose `params` are only there as `params_hash`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HireEnvelope {
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub statement: Value,
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub signature: Option<WalletSignature>,
}

/// What a node reads of an envelope.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct HireFacts {
    pub buyer_id: AgentId,
    pub capability: String,
    pub params_hash: Hash32,
    #[serde(default)]
    pub seller_id: Option<AgentId>,
    #[serde(default)]
    pub max_price_usdc: Option<Usdc>,
    #[serde(default)]
    pub budget_token: Option<BudgetToken>,
    #[serde(default)]
    pub payer: Option<WalletBinding>,
    #[serde(default)]
    pub nonce: Option<String>,
    #[serde(default)]
    pub issued_at: Option<Timestamp>,
}

impl HireFacts {
    /// As [`HireRequest::payment_nonce`]. `digest`: the hire's.
    pub fn payment_nonce(&self, digest: &Hash32) -> Hash32 {
        payment_nonce(digest, self.budget_token.is_some() || self.payer.is_some())
    }
}

impl HireEnvelope {
    /// As [`HireRequest::payment_nonce`]. `digest`: the hire's.
    pub fn payment_nonce(&self, digest: &Hash32) -> Hash32 {
        let says = |name: &str| self.statement.get(name).is_some_and(|value| !value.is_null());
        payment_nonce(digest, says("budget_token") || says("payer"))
    }

    /// Checks that the buyer signed it. Gives the hire's digest and what it says.
    pub fn check(&self) -> Result<(Hash32, HireFacts), SignedError> {
        let facts: HireFacts = serde_json::from_value(self.statement.clone())
            .map_err(|e| SignedError::NotSignable(e.to_string()))?;
        let signature = self.signature.ok_or(SignedError::Unsigned)?;
        let digest = skep_base::wallet::object_hash(&self.statement)
            .map_err(|e| SignedError::NotSignable(e.to_string()))?;
        let signer = skep_base::wallet::recover_message(digest.as_bytes(), &signature)
            .map_err(|e| SignedError::BadSignature(e.to_string()))?;
        match signer == facts.buyer_id {
            true => Ok((digest, facts)),
            false => Err(SignedError::WrongSigner { signer, expected: facts.buyer_id }),
        }
    }
}

/// What the nonce of a payment begins with that is taken only with its hire: that says under which
/// budget it is made, or for whom.
const SHOWN_WITH_HIRE: &[u8; 8] = b"skephire";

fn payment_nonce(hire: &Hash32, is_shown: bool) -> Hash32 {
    let mut nonce = direct_payment_nonce(hire);
    if is_shown {
        nonce.0[..SHOWN_WITH_HIRE.len()].copy_from_slice(SHOWN_WITH_HIRE);
    }
    nonce
}

/// Whether a payment is good only together with the hire that it is for.
pub fn is_shown_with_hire(nonce: &Hash32) -> bool {
    nonce.as_bytes().starts_with(SHOWN_WITH_HIRE)
}

/// The nonce of a hire without budget that its buyer pays itself. Whoever knows the hire knows its
/// payment by it, also where the seller did not show the hire.
pub fn direct_payment_nonce(hire: &Hash32) -> Hash32 {
    keccak256(&[b"skep/hire-payment/v1", hire.as_bytes().as_slice()].concat())
}

/// The id of the receipt of a hire, the same on every retry. `unique`: the signed hire's digest, or
/// the payment's nonce.
pub fn receipt_id(seller: &AgentId, buyer: &AgentId, unique: &Hash32) -> ReceiptId {
    let parts: [&[u8]; 4] =
        [b"skep/receipt", seller.as_bytes(), buyer.as_bytes(), unique.as_bytes()];
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&sha256_parts(&parts).as_bytes()[..16]);
    Id::from_bytes(bytes)
}

/// 7.1: the receipt inside an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HireReceipt {
    pub receipt_id: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub buyer_id: AgentId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub seller_id: AgentId,
    pub capability: String,
    pub tx_hash: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub price_paid_usdc: Usdc,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub payment_mode: PaymentMode,
    pub escrow_provider: Option<String>,
    /// Unix time in seconds.
    pub completed_at: i64,
}

/// 7.1: the answer to a hire that was done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HireResponse {
    pub protocol: String,
    pub receipt: HireReceipt,
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub result: Value,
    /// The seller's own run of the check.
    pub verification: Verification,
    /// Given by the registry when the buyer counter-signs, so it is null here.
    #[serde(default)]
    pub rating_token: Option<String>,
    /// As the registry has it, signed by the seller, for the buyer's counter-signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_receipt: Option<Receipt>,
}

/// 7.2: the answer to a hire with a `callback_url`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobAccepted {
    pub job_id: String,
    pub estimated_completion_ms: u64,
}

/// Why a job has no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobError {
    pub code: String,
    pub detail: String,
}

/// `GET /jobs/{id}`, and what is posted to the callback address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum JobStatus {
    Pending { job_id: String, estimated_completion_ms: u64 },
    Complete { job_id: String, response: Box<HireResponse> },
    Failed { job_id: String, error: JobError },
}

/// What is posted to a callback address: the job's end, signed by the seller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobCallback {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub seller_id: AgentId,
    pub job: JobStatus,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub sent_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub signature: Option<WalletSignature>,
}

wallet_signed!(JobCallback, seller_id, hashing "job");
