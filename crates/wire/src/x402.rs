//! Payment over HTTP: x402, versions 2 and 1, scheme `exact` on EVM networks (EIP-3009).
//!
//! Version 2 speaks in headers, version 1 in the 402's body and in headers of its own; one 402 can
//! serve both. What a payment says is the same in both and is read into [`Payment`].

mod extension;
mod facilitator;
mod payable;
mod payment;
mod requirements;
#[cfg(test)]
mod tests;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Serialize, de::DeserializeOwned};

pub use self::{
    extension::{
        BAZAAR, IDENTIFIER_LEN, PAYMENT_IDENTIFIER, identifier_of, is_identifier,
        payment_identifier,
    },
    facilitator::{
        DiscoveredResource, Discovery, FacilitatorRequest, Pagination, SettleResponse, SkepTerms,
        Supported, SupportedKind, VerifyResponse, reason,
    },
    payable::{BadPayable, PAYABLE, PAYABLE_FRESH, Payable, PayableFacts},
    payment::{Authorization, ExactPayload, Payment, PaymentError},
    requirements::{
        ExactExtra, PaymentRequired, PaymentRequiredV1, Rail, Requirements, RequirementsV1,
        Resource,
    },
};

/// Headers of version 2.
pub const PAYMENT_REQUIRED: &str = "payment-required";
pub const PAYMENT_SIGNATURE: &str = "payment-signature";
pub const PAYMENT_RESPONSE: &str = "payment-response";
/// Headers of version 1.
pub const X_PAYMENT: &str = "x-payment";
pub const X_PAYMENT_RESPONSE: &str = "x-payment-response";
/// The longest header with a payment, in bytes.
pub const PAYMENT_HEADER_LEN_MAX: usize = 16 * 1024;

/// The only scheme that is spoken.
pub const EXACT: &str = "exact";
/// The built-in ledger's chain id for clients of version 2: a private one ("SKEP").
pub const LEDGER_CHAIN_ID: u64 = 0x534b_4550;
/// What clients of version 1 are told instead: they know fixed names only (decision 13).
pub const V1_NETWORK: &str = "base-sepolia";
pub const V1_CHAIN_ID: u64 = 84532;

/// The built-in ledger as clients of version 2 name it.
pub fn ledger_network() -> String {
    format!("eip155:{LEDGER_CHAIN_ID}")
}

/// JSON in a header: base64 with padding.
pub fn to_header<T: Serialize>(value: &T) -> String {
    STANDARD.encode(serde_json::to_vec(value).unwrap_or_default())
}

pub fn from_header<T: DeserializeOwned>(text: &str) -> Result<T, PaymentError> {
    if text.len() > PAYMENT_HEADER_LEN_MAX {
        return Err(PaymentError::Malformed("it is too long".to_owned()));
    }
    let bad = |e: &dyn ToString| PaymentError::Malformed(e.to_string());
    let bytes = STANDARD.decode(text.trim()).map_err(|e| bad(&e))?;
    serde_json::from_slice(&bytes).map_err(|e| bad(&e))
}
