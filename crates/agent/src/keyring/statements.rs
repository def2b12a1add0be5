//! What a keyring signs about itself.

use serde::Serialize;
use skep_base::{
    AgentId, Did, Hash32, Timestamp,
    ed25519::{PublicKey, SecretKey, Signature},
    hash::sha256,
    wallet::WalletSignature,
};
use skep_wire::identity::{
    Attachment, Binding, KeyChange, RecoveryCancellation, RegisterAgent, Revocation, Rotation,
    Statement,
};

use super::{Keyring, StageError};
use crate::Phrase;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no key is staged: stage one before it is sent")]
pub struct NothingStaged;

impl Keyring {
    /// "These two keys are one agent", signed by both, and by the operator if there is one.
    pub fn registration(
        &self,
        now: Timestamp,
        operator: Option<&SecretKey>,
        name: Option<String>,
        webhook_url: Option<String>,
    ) -> RegisterAgent {
        let binding = Binding {
            agent_id: self.agent_id(),
            public_key: self.public_key(),
            recovery_key: Some(self.recovery_key),
            operator: operator.map(|operator| operator.public().did()),
            name,
            webhook_hash: webhook_url.as_deref().map(webhook_hash),
            issued_at: now,
        };
        let operator_signature = operator.map(|operator| signed(&binding, operator));
        RegisterAgent { operator_signature, webhook_url, ..self.bind(binding) }
    }

    /// Signs a binding with both keys of the agent. The operator, where it names one, signs at its
    /// own place.
    pub fn bind(&self, binding: Binding) -> RegisterAgent {
        RegisterAgent {
            wallet_signature: self.signed_by_wallet(&binding),
            key_signature: signed(&binding, &self.current),
            binding,
            operator_signature: None,
            webhook_url: None,
        }
    }

    /// Replaces the current key by the staged one, at once.
    pub fn rotation(&self, now: Timestamp) -> Result<KeyChange, NothingStaged> {
        let next = self.pending.as_ref().ok_or(NothingStaged)?;
        let statement = self.replacement(now, self.public_key(), next);
        Ok(KeyChange::Rotate {
            wallet_signature: self.signed_by_wallet(&statement),
            old_key_signature: signed(&statement, &self.current),
            new_key_signature: signed(&statement, next),
            statement,
        })
    }

    /// Replaces `old_key`, which may be lost, by the staged one, after the node's delay.
    pub fn recovery(
        &self,
        phrase: &Phrase,
        now: Timestamp,
        old_key: PublicKey,
    ) -> Result<KeyChange, StageError> {
        self.check_phrase(phrase)?;
        let next = self.pending.as_ref().ok_or(StageError::NothingStaged)?;
        let statement = self.replacement(now, old_key, next);
        Ok(KeyChange::Recover {
            recovery_signature: signed(&statement, &phrase.recovery_key()),
            new_key_signature: signed(&statement, next),
            statement,
        })
    }

    fn replacement(&self, now: Timestamp, old_key: PublicKey, next: &SecretKey) -> Rotation {
        Rotation { agent_id: self.agent_id(), old_key, new_key: next.public(), issued_at: now }
    }

    /// Objects to a recovery that somebody else has asked for.
    pub fn cancellation(&self, now: Timestamp, new_key: PublicKey) -> KeyChange {
        let statement = RecoveryCancellation { agent_id: self.agent_id(), new_key, issued_at: now };
        KeyChange::CancelRecovery {
            wallet_signature: Some(self.signed_by_wallet(&statement)),
            key_signature: Some(signed(&statement, &self.current)),
            statement,
        }
    }

    /// Ends the current key or an older one.
    pub fn revocation(
        &self,
        now: Timestamp,
        key: PublicKey,
        compromised_since: Option<Timestamp>,
    ) -> KeyChange {
        let statement =
            Revocation { agent_id: self.agent_id(), key, compromised_since, issued_at: now };
        KeyChange::Revoke {
            wallet_signature: Some(self.signed_by_wallet(&statement)),
            key_signature: (key == self.public_key()).then(|| signed(&statement, &self.current)),
            recovery_signature: None,
            statement,
        }
    }

    /// Puts the agent under an operator.
    pub fn attachment(&self, now: Timestamp, operator: &SecretKey) -> KeyChange {
        let statement = Attachment {
            agent_id: self.agent_id(),
            operator: operator.public().did(),
            issued_at: now,
        };
        KeyChange::Attach {
            key_signature: signed(&statement, &self.current),
            operator_signature: signed(&statement, operator),
            statement,
        }
    }

    fn signed_by_wallet(&self, statement: &impl Statement) -> WalletSignature {
        let signature = statement.sign_with_wallet(&self.wallet);
        signature.expect("a statement of texts has a canonical form")
    }
}

fn signed(statement: &impl Statement, key: &SecretKey) -> Signature {
    let signature = statement.sign(key);
    signature.expect("a statement of texts has a canonical form")
}

fn webhook_hash(url: &str) -> Hash32 {
    sha256(url.as_bytes())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RegistrationError {
    #[error("the wallet {expected} did not sign the binding")]
    Wallet { expected: AgentId },
    #[error("the key that the binding names did not sign it")]
    Key,
    #[error("the webhook's address is not the one whose hash was signed")]
    Webhook,
    #[error("the binding names the operator {operator}, who did not sign it")]
    OperatorMissing { operator: Did },
    #[error("there is an operator's signature, but the binding names no operator")]
    OperatorUnnamed,
    #[error("the given key is not the first key of the operator {operator}")]
    OperatorKey { operator: Did },
    #[error("the signature of the operator {operator} does not verify")]
    Operator { operator: Did },
}

/// Who stands behind the operator that a binding names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OperatorCheck {
    /// The agent is its own operator.
    None,
    Verified,
    /// The signature is there; judging it takes the operator's key.
    NotChecked,
}

/// Checks the signatures of a registration. A DID does not say its key: without `operator_key`
/// the operator's signature stays unchecked.
pub fn verify_registration(
    registration: &RegisterAgent,
    operator_key: Option<&PublicKey>,
) -> Result<OperatorCheck, RegistrationError> {
    let binding = &registration.binding;
    let expected = binding.agent_id;
    if binding.wallet_signer(&registration.wallet_signature) != Some(expected) {
        return Err(RegistrationError::Wallet { expected });
    }
    binding
        .verify(&binding.public_key, &registration.key_signature)
        .map_err(|_| RegistrationError::Key)?;
    // The address may be left out, as it is where registrations are shown to others.
    let webhook = registration.webhook_url.as_deref().map(webhook_hash);
    if webhook.is_some() && webhook != binding.webhook_hash {
        return Err(RegistrationError::Webhook);
    }
    let (operator, signature) = match (binding.operator, registration.operator_signature) {
        (None, None) => return Ok(OperatorCheck::None),
        (None, Some(_)) => return Err(RegistrationError::OperatorUnnamed),
        (Some(operator), None) => return Err(RegistrationError::OperatorMissing { operator }),
        (Some(operator), Some(signature)) => (operator, signature),
    };
    let Some(key) = operator_key else {
        return Ok(OperatorCheck::NotChecked);
    };
    if key.did() != operator {
        return Err(RegistrationError::OperatorKey { operator });
    }
    binding.verify(key, &signature).map_err(|_| RegistrationError::Operator { operator })?;
    Ok(OperatorCheck::Verified)
}
