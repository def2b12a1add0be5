use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use skep_base::{
    AgentId, Amount, Hash32, ed25519::PublicKey, hash::keccak256, wallet::eip712::Domain,
};

use super::{EXACT, LEDGER_CHAIN_ID, V1_CHAIN_ID, V1_NETWORK, ledger_network};

/// What is sold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Resource {
    pub url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

/// One way to pay, version 2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Requirements {
    pub scheme: String,
    /// CAIP-2: `eip155:N`.
    pub network: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub amount: Amount,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub asset: AgentId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub pay_to: AgentId,
    pub max_timeout_seconds: u64,
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub extra: Map<String, Value>,
}

/// One way to pay, version 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RequirementsV1 {
    pub scheme: String,
    /// `base-sepolia`
    pub network: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub max_amount_required: Amount,
    #[serde(default)]
    pub resource: String,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub mime_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub output_schema: Option<Value>,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub pay_to: AgentId,
    pub max_timeout_seconds: u64,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub asset: AgentId,
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub extra: Map<String, Value>,
}

/// The `PAYMENT-REQUIRED` header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PaymentRequired {
    pub x402_version: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub resource: Resource,
    pub accepts: Vec<Requirements>,
    #[serde(default)]
    pub extensions: Map<String, Value>,
}

/// The body of a 402.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PaymentRequiredV1 {
    pub x402_version: u8,
    pub error: String,
    pub accepts: Vec<RequirementsV1>,
}

/// What `extra` says of the token, so that a wallet can sign for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExactExtra {
    pub name: String,
    pub version: String,
}

/// The built-in ledger as a payment rail (decision 13): never a real token's address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Rail {
    /// The ledger's asset, an address of its own for each node.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub asset: AgentId,
    /// Of the signing domain.
    pub name: String,
    pub version: String,
    /// Where payments into this node's escrow go.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub escrow_address: AgentId,
    /// `platform_escrow:<this>`
    pub escrow_provider: String,
}

/// What the addresses of a node's ledger are hashed from, before its key.
const ASSET_LABEL: &str = "skep/ledger-asset/v1";
const ESCROW_LABEL: &str = "skep/ledger-escrow/v1";

impl Rail {
    /// The asset of the node that signs settlements with this key: a payment for one node is worth
    /// nothing at another.
    pub fn asset_of(key: &PublicKey) -> AgentId {
        address(ASSET_LABEL, key)
    }

    /// Where payments into that node's escrow go.
    pub fn escrow_address_of(key: &PublicKey) -> AgentId {
        address(ESCROW_LABEL, key)
    }

    /// The domain that a payment is signed for.
    pub fn domain(&self, chain_id: u64) -> Domain {
        Domain {
            name: self.name.clone(),
            version: self.version.clone(),
            chain_id,
            verifying_contract: self.asset,
        }
    }

    /// The chain that a network's name means here.
    pub fn chain_id(network: &str) -> Option<u64> {
        match network {
            V1_NETWORK => Some(V1_CHAIN_ID),
            network if network == ledger_network() => Some(LEDGER_CHAIN_ID),
            _ => None,
        }
    }

    fn extra(&self) -> Map<String, Value> {
        let value = json!({ "name": self.name, "version": self.version });
        value.as_object().cloned().unwrap_or_default()
    }

    /// What names a payment on this ledger, known before it is taken: `0x` and 64 hex digits.
    pub fn tx_hash(&self, payer: &AgentId, nonce: &Hash32) -> String {
        let parts = [self.asset.as_bytes().as_slice(), payer.as_bytes(), nonce.as_bytes()];
        keccak256(&parts.concat()).to_prefixed()
    }

    /// How to pay `amount` to `pay_to`, for clients of version 2.
    pub fn requirements(&self, amount: Amount, pay_to: AgentId, timeout_s: u64) -> Requirements {
        Requirements {
            scheme: EXACT.to_owned(),
            network: ledger_network(),
            amount,
            asset: self.asset,
            pay_to,
            max_timeout_seconds: timeout_s,
            extra: self.extra(),
        }
    }

    /// The same for clients of version 1.
    pub fn requirements_v1(&self, v2: &Requirements, resource: &Resource) -> RequirementsV1 {
        RequirementsV1 {
            scheme: EXACT.to_owned(),
            network: V1_NETWORK.to_owned(),
            max_amount_required: v2.amount,
            resource: resource.url.clone(),
            description: resource.description.clone().unwrap_or_default(),
            mime_type: resource.mime_type.clone().unwrap_or_default(),
            output_schema: None,
            pay_to: v2.pay_to,
            max_timeout_seconds: v2.max_timeout_seconds,
            asset: self.asset,
            extra: self.extra(),
        }
    }
}

fn address(label: &str, key: &PublicKey) -> AgentId {
    let hash = keccak256(&[label.as_bytes(), key.as_bytes()].concat());
    let mut address = [0; 20];
    address.copy_from_slice(&hash.as_bytes()[12..]);
    AgentId::from_bytes(address)
}
