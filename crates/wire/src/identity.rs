//! Who is who: agents, operators and their keys.
//!
//! An agent has two keys, and each vouches for the other: both sign the same [`Binding`], which
//! names both. Every statement says what it is in its `type`, so that no signature can be taken
//! for another.

use serde::{Deserialize, Serialize};
use skep_base::{
    AgentId, Did, Hash32, Timestamp,
    ed25519::{BadSignature, PublicKey, SecretKey, Signature},
    json::CanonicalError,
    wallet::{WalletKey, WalletSignature},
};

use crate::score::OperatorReview;

/// The longest name of an agent or an operator, in bytes.
pub const NAME_LEN_MAX: usize = 200;
/// The longest address for notices, in bytes.
pub const WEBHOOK_URL_LEN_MAX: usize = 2000;

/// A statement that keys sign.
pub trait Statement: Serialize {
    /// What the signed object's `type` says.
    const TYPE: &'static str;

    /// The canonical bytes that an Ed25519 key signs.
    fn signed_bytes(&self) -> Result<Vec<u8>, CanonicalError> {
        skep_base::json::to_vec(&Typed { kind: Self::TYPE, statement: self })
    }

    /// Signs with an Ed25519 key.
    fn sign(&self, key: &SecretKey) -> Result<Signature, CanonicalError> {
        Ok(key.sign(&self.signed_bytes()?))
    }

    /// Checks an Ed25519 signature.
    fn verify(&self, key: &PublicKey, signature: &Signature) -> Result<(), BadSignature> {
        let bytes = self.signed_bytes().map_err(|_| BadSignature)?;
        key.verify(&bytes, signature)
    }

    /// Signs with a wallet: EIP-191 over the Keccak-256 hash of the canonical bytes.
    fn sign_with_wallet(&self, wallet: &WalletKey) -> Option<WalletSignature> {
        wallet.sign_object(&Typed { kind: Self::TYPE, statement: self }).ok()
    }

    /// The wallet that signed.
    fn wallet_signer(&self, signature: &WalletSignature) -> Option<AgentId> {
        let typed = Typed { kind: Self::TYPE, statement: self };
        skep_base::wallet::recover_object(&typed, signature).ok()
    }
}

#[derive(Serialize)]
struct Typed<'a, T: ?Sized> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    statement: &'a T,
}

/// "These two keys are one agent." Signed by both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Binding {
    /// The wallet's address, and the agent's name in the market.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub agent_id: AgentId,
    /// Base64url.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub public_key: PublicKey,
    /// The key that the recovery phrase makes; it can replace a lost key, with a delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub recovery_key: Option<PublicKey>,
    /// The operator's DID. Without one, the agent is its own operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub operator: Option<Did>,
    /// For people; says nothing about who it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// SHA-256 of the webhook's address: signed, yet the address is not shown to others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub webhook_hash: Option<Hash32>,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub issued_at: Timestamp,
}

impl Statement for Binding {
    const TYPE: &'static str = "skep/agent-binding/v1";
}

/// `POST /v1/agents`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RegisterAgent {
    pub binding: Binding,
    /// The wallet's signature over the binding.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub wallet_signature: WalletSignature,
    /// The Ed25519 key's signature over the binding.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub key_signature: Signature,
    /// The operator's signature over the binding, where it names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub operator_signature: Option<Signature>,
    /// Where notices go; its hash stands in the binding. Without one the agent polls its inbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_url: Option<String>,
}

/// "I am an operator." Signed by the operator's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OperatorStatement {
    pub name: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub public_key: PublicKey,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub issued_at: Timestamp,
}

impl Statement for OperatorStatement {
    const TYPE: &'static str = "skep/operator/v1";
}

/// `POST /v1/operators`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RegisterOperator {
    pub statement: OperatorStatement,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub key_signature: Signature,
}

/// "This key takes the place of that one." Signed by the wallet, the old key and the new key; or
/// by the recovery key and the new key, and then it waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Rotation {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub agent_id: AgentId,
    /// The key that is replaced, revoked or not.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub old_key: PublicKey,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub new_key: PublicKey,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub issued_at: Timestamp,
}

impl Statement for Rotation {
    const TYPE: &'static str = "skep/key-rotation/v1";
}

/// "This key is no longer mine alone." Signed by the wallet, the key itself or the recovery key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Revocation {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub agent_id: AgentId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub key: PublicKey,
    /// What the key signed after this time goes to review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub compromised_since: Option<Timestamp>,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub issued_at: Timestamp,
}

impl Statement for Revocation {
    const TYPE: &'static str = "skep/key-revocation/v1";
}

/// "I did not ask for that recovery." Signed by the wallet or the current key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RecoveryCancellation {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub agent_id: AgentId,
    /// The key that the recovery would bring in.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub new_key: PublicKey,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub issued_at: Timestamp,
}

impl Statement for RecoveryCancellation {
    const TYPE: &'static str = "skep/recovery-cancellation/v1";
}

/// "From now on this operator answers for me." Signed by the agent's key and the operator's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Attachment {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub agent_id: AgentId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub operator: Did,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub issued_at: Timestamp,
}

impl Statement for Attachment {
    const TYPE: &'static str = "skep/operator-attachment/v1";
}

/// `POST /v1/agents/{id}/keys`: every change of an agent's keys. Each carries its own signatures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum KeyChange {
    /// Replaces the Ed25519 key at once. Money does not leave the wallet for 24 hours.
    Rotate {
        statement: Rotation,
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        wallet_signature: WalletSignature,
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        old_key_signature: Signature,
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        new_key_signature: Signature,
    },
    /// Replaces a lost key after a delay in which the wallet or the old key can object.
    Recover {
        statement: Rotation,
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        recovery_signature: Signature,
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        new_key_signature: Signature,
    },
    CancelRecovery {
        statement: RecoveryCancellation,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
        wallet_signature: Option<WalletSignature>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
        key_signature: Option<Signature>,
    },
    /// Ends a key. Any one of the three signatures is enough.
    Revoke {
        statement: Revocation,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
        wallet_signature: Option<WalletSignature>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
        key_signature: Option<Signature>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
        recovery_signature: Option<Signature>,
    },
    /// Puts the agent under an operator.
    Attach {
        statement: Attachment,
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        key_signature: Signature,
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        operator_signature: Signature,
    },
}

/// One of an agent's keys, past or present.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AgentKey {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub public_key: PublicKey,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub since: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub revoked_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub compromised_since: Option<Timestamp>,
    /// The signed statements that brought it in, so that a stranger can follow the chain.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub proof: serde_json::Value,
}

/// A recovery that waits for its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PendingRecovery {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub new_key: PublicKey,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub effective_at: Timestamp,
}

/// `GET /v1/agents/{id}`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Agent {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub agent_id: AgentId,
    /// Made from the first key; it stays when keys change.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub did: Did,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Who answers for the agent; its own DID where nobody else does.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub operator: Did,
    /// The key that signs now; absent while it is revoked and not yet replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub current_key: Option<PublicKey>,
    /// Oldest first.
    pub keys: Vec<AgentKey>,
    /// The signed words of registration, without the webhook's address.
    pub registration: RegisterAgent,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_recovery: Option<PendingRecovery>,
    /// Until then no money leaves the wallet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub money_frozen_until: Option<Timestamp>,
    /// Debts that it left open for more than seven days.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub defaults: u32,
    /// How often it took money back for work that passed the platform's own check.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refunds_despite_pass: u32,
    /// SwarmScore 9.7, rule 4: its operator answers for fraud, whatever the agent itself has done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_review: Option<OperatorReview>,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub registered_at: Timestamp,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// What registering an operator answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Operator {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub operator: Did,
    pub registration: RegisterOperator,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub registered_at: Timestamp,
}
