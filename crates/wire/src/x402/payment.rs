use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::{
    AgentId, Amount, Hash32,
    wallet::{
        BadWalletSignature, WalletKey, WalletSignature,
        eip712::{Domain, Field, digest, struct_hash, type_hash},
        recover_digest,
    },
};

use super::{EXACT, Requirements, RequirementsV1, Resource, identifier_of, ledger_network};

const AUTHORIZATION_TYPE: &str = "TransferWithAuthorization(address from,address to,\
     uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)";

/// EIP-3009, as JSON has it: numbers are strings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Authorization {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub from: AgentId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub to: AgentId,
    pub value: String,
    /// Unix times in seconds.
    pub valid_after: String,
    pub valid_before: String,
    /// `0x` and 64 hex digits.
    pub nonce: String,
}

impl Authorization {
    pub fn new(
        (from, to): (AgentId, AgentId),
        value: Amount,
        (valid_after, valid_before): (i64, i64),
        nonce: &Hash32,
    ) -> Authorization {
        Authorization {
            from,
            to,
            value: value.minor().to_string(),
            valid_after: valid_after.to_string(),
            valid_before: valid_before.to_string(),
            nonce: nonce.to_prefixed(),
        }
    }

    pub fn amount(&self) -> Option<Amount> {
        self.value.parse::<i64>().ok().and_then(Amount::new)
    }

    /// From when and until when it is good, in seconds; whatever is later than any clock is so.
    pub fn window(&self) -> Option<(u128, u128)> {
        Some((self.valid_after.parse().ok()?, self.valid_before.parse().ok()?))
    }

    pub fn nonce(&self) -> Option<Hash32> {
        self.nonce.strip_prefix("0x")?.to_ascii_lowercase().parse().ok()
    }

    /// What the wallet signs.
    pub fn digest(&self, domain: &Domain) -> Result<Hash32, PaymentError> {
        let bad = |what: &str| PaymentError::Malformed(format!("{what} is not readable"));
        let (after, before) = self.window().ok_or_else(|| bad("the window"))?;
        let fields = [
            Field::Address(self.from),
            Field::Address(self.to),
            Field::Uint256(self.value.parse().map_err(|_| bad("the value"))?),
            Field::Uint256(after),
            Field::Uint256(before),
            Field::Bytes32(self.nonce().ok_or_else(|| bad("the nonce"))?),
        ];
        let hash = struct_hash(type_hash(AUTHORIZATION_TYPE), &fields);
        Ok(digest(domain.separator(), hash))
    }

    pub fn sign(&self, domain: &Domain, key: &WalletKey) -> Result<WalletSignature, PaymentError> {
        Ok(key.sign_digest(&self.digest(domain)?))
    }

    /// Checks that `from` signed it for this domain.
    pub fn check(&self, domain: &Domain, signature: &str) -> Result<(), PaymentError> {
        let signature: WalletSignature = signature.parse()?;
        let signer = recover_digest(&self.digest(domain)?, &signature)?;
        match signer == self.from {
            true => Ok(()),
            false => Err(PaymentError::WrongSigner),
        }
    }
}

/// `payload` of the scheme `exact`. The signature is kept as it came, since a bad one has a reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExactPayload {
    pub authorization: Authorization,
    pub signature: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PaymentError {
    #[error("the payment cannot be read: {0}")]
    Malformed(String),
    #[error("x402 version {0} is not spoken here, only 1 and 2")]
    Version(u64),
    #[error("the payment's signature does not hold: {0}")]
    Signature(#[from] BadWalletSignature),
    #[error("the payment is not signed by the wallet that it takes from")]
    WrongSigner,
}

/// A payment of either version.
#[derive(Clone, Debug, PartialEq)]
pub struct Payment {
    pub version: u8,
    pub scheme: String,
    pub network: String,
    pub payload: ExactPayload,
    /// Version 2: what the client says it accepted and for what.
    pub accepted: Option<Requirements>,
    pub resource: Option<Resource>,
    /// The extension `payment-identifier`.
    pub identifier: Option<String>,
    /// As it came, for the facilitator.
    pub raw: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawV2 {
    payload: ExactPayload,
    accepted: Requirements,
    #[serde(default)]
    resource: Option<Resource>,
}

#[derive(Deserialize)]
struct RawV1 {
    scheme: String,
    network: String,
    payload: ExactPayload,
}

impl Payment {
    /// Reads what a client sent.
    pub fn read(raw: Value) -> Result<Payment, PaymentError> {
        let bad = |e: serde_json::Error| PaymentError::Malformed(e.to_string());
        let identifier = identifier_of(&raw);
        match raw.get("x402Version").and_then(Value::as_u64) {
            Some(2) => {
                let read: RawV2 = serde_json::from_value(raw.clone()).map_err(bad)?;
                let RawV2 { payload, accepted, resource } = read;
                Ok(Payment {
                    version: 2,
                    scheme: accepted.scheme.clone(),
                    network: accepted.network.clone(),
                    payload,
                    accepted: Some(accepted),
                    resource,
                    identifier,
                    raw,
                })
            }
            Some(1) => {
                let read: RawV1 = serde_json::from_value(raw.clone()).map_err(bad)?;
                let RawV1 { scheme, network, payload } = read;
                let (accepted, resource) = (None, None);
                Ok(Payment {
                    version: 1,
                    scheme,
                    network,
                    payload,
                    accepted,
                    resource,
                    identifier,
                    raw,
                })
            }
            Some(other) => Err(PaymentError::Version(other)),
            None => Err(PaymentError::Malformed("x402Version is missing".to_owned())),
        }
    }

    /// A payment of version 2, as a client of Skep makes it.
    pub fn new(accepted: Requirements, resource: Resource, payload: ExactPayload) -> Payment {
        let raw = serde_json::json!({
            "x402Version": 2, "payload": payload, "resource": resource, "accepted": accepted,
        });
        Payment {
            version: 2,
            scheme: EXACT.to_owned(),
            network: ledger_network(),
            payload,
            accepted: Some(accepted),
            resource: Some(resource),
            identifier: None,
            raw,
        }
    }

    pub fn payer(&self) -> AgentId {
        self.payload.authorization.from
    }

    /// The requirements of this payment's version, as a facilitator wants them.
    pub fn requirements(&self, v2: &Requirements, v1: &RequirementsV1) -> Value {
        let value = match self.version {
            1 => serde_json::to_value(v1),
            _ => serde_json::to_value(v2),
        };
        value.unwrap_or_default()
    }
}
