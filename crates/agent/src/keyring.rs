//! An agent's keys, and what they sign.
//!
//! The first identity key comes from the recovery phrase; a rotation brings in one that nothing
//! but the file holds. So whoever finds the phrase of an agent that has rotated cannot act for it
//! at once: the way back with the phrase is a recovery, which waits and can be objected to.

use std::{fmt, path::Path};

use serde::Serialize;
use skep_base::{
    AgentId, Did,
    ed25519::{PublicKey, SecretKey, Signature},
    wallet::WalletKey,
};

use crate::{Passphrase, Phrase};

mod file;
mod seal;
mod statements;
#[cfg(test)]
mod tests;

pub use file::{KeyringLock, LockError, OpenError, SaveError};
pub use seal::{KdfCost, KdfCostOutOfBounds, UnsealError};
pub use statements::{NothingStaged, OperatorCheck, RegistrationError, verify_registration};

/// Identity keys that a phrase is asked for; nobody recovers this often.
pub const KEY_NUMBER_MAX: u32 = 1000;

/// The keys of one agent. Secrets are wiped when dropped and never printed.
#[derive(Clone)]
pub struct Keyring {
    wallet: WalletKey,
    current: SecretKey,
    /// The next identity key, from before it is sent to a node until the node's answer is known.
    pending: Option<SecretKey>,
    recovery_key: PublicKey,
    /// Identity keys before the current one, oldest first.
    history: Vec<PublicKey>,
    operator: Option<SecretKey>,
    kdf: KdfCost,
}

/// What a keyring file says in the clear. Whoever can write the file can change it; only opening
/// the keyring shows that nobody did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PublicInfo {
    pub agent_id: AgentId,
    pub did: Did,
    pub public_key: PublicKey,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a phrase gives identity keys number 0 to {KEY_NUMBER_MAX}, not {number}")]
pub struct KeyNumberTooLarge {
    pub number: u32,
}

#[derive(Debug, thiserror::Error)]
pub enum StageError {
    #[error("another key is staged already: finish or drop that rotation first")]
    AlreadyStaged,
    #[error("no key is staged")]
    NothingStaged,
    #[error("the recovery phrase is of another agent, {found}")]
    PhraseOfAnotherAgent { found: AgentId },
    #[error("all identity keys of the recovery phrase are used up")]
    PhraseUsedUp,
    #[error(transparent)]
    Save(#[from] SaveError),
}

impl Keyring {
    /// Keys of a new agent, and the phrase that makes them again. The keyring does not hold the
    /// phrase: show it to its owner now.
    pub fn create(entropy: [u8; 32]) -> (Keyring, Phrase) {
        let phrase = Phrase::from_entropy(entropy);
        let keyring = Keyring::derived(&phrase, 0);
        (keyring, phrase)
    }

    /// The keyring with identity key `number` of a phrase: 0 for one that was never recovered.
    pub fn from_phrase(phrase: &Phrase, number: u32) -> Result<Keyring, KeyNumberTooLarge> {
        if number > KEY_NUMBER_MAX {
            return Err(KeyNumberTooLarge { number });
        }
        Ok(Keyring::derived(phrase, number))
    }

    fn derived(phrase: &Phrase, number: u32) -> Keyring {
        Keyring {
            wallet: phrase.wallet(),
            current: phrase.identity_key(number),
            pending: None,
            recovery_key: phrase.recovery_key().public(),
            history: (0..number).map(|number| phrase.identity_key(number).public()).collect(),
            operator: None,
            kdf: KdfCost::DEFAULT,
        }
    }

    /// Another cost of guessing the passphrase, from the next save on.
    pub fn with_kdf(self, kdf: KdfCost) -> Keyring {
        Keyring { kdf, ..self }
    }

    /// The operator's key beside the agent's, for operators with few agents.
    pub fn with_operator(self, operator: SecretKey) -> Keyring {
        Keyring { operator: Some(operator), ..self }
    }

    pub fn agent_id(&self) -> AgentId {
        self.wallet.address()
    }

    /// Made from the first identity key; rotations do not change it.
    pub fn did(&self) -> Did {
        self.history.first().copied().unwrap_or(self.public_key()).did()
    }

    pub fn public_key(&self) -> PublicKey {
        self.current.public()
    }

    pub fn recovery_key(&self) -> PublicKey {
        self.recovery_key
    }

    /// Identity keys before the current one, oldest first, as far as this keyring knows.
    pub fn history(&self) -> &[PublicKey] {
        &self.history
    }

    /// The staged key, if there is one.
    pub fn pending_key(&self) -> Option<PublicKey> {
        self.pending.as_ref().map(SecretKey::public)
    }

    pub fn public_info(&self) -> PublicInfo {
        PublicInfo { agent_id: self.agent_id(), did: self.did(), public_key: self.public_key() }
    }

    pub fn sign(&self, message: &[u8]) -> Signature {
        self.current.sign(message)
    }

    /// The current identity key, for signing HTTP calls.
    pub fn secret(&self) -> &SecretKey {
        &self.current
    }

    pub fn wallet(&self) -> &WalletKey {
        &self.wallet
    }

    pub fn operator(&self) -> Option<&SecretKey> {
        self.operator.as_ref()
    }

    /// Puts a new key into the file beside the current one. Only then may it be sent: a key that
    /// a node knows and no file holds would be lost with the process.
    pub fn stage_rotation(
        &mut self,
        path: &Path,
        passphrase: &Passphrase,
        entropy: [u8; 32],
    ) -> Result<PublicKey, StageError> {
        self.stage(path, passphrase, SecretKey::from_seed(entropy))
    }

    /// Like [`Self::stage_rotation`], with the first key of the phrase that was never used. `used`
    /// are the keys that a node knows of this agent.
    pub fn stage_recovery(
        &mut self,
        path: &Path,
        passphrase: &Passphrase,
        phrase: &Phrase,
        used: &[PublicKey],
    ) -> Result<PublicKey, StageError> {
        self.check_phrase(phrase)?;
        let is_used = |key: &PublicKey| {
            *key == self.public_key() || used.contains(key) || self.history.contains(key)
        };
        let next = (0..=KEY_NUMBER_MAX)
            .map(|number| phrase.identity_key(number))
            .find(|key| !is_used(&key.public()))
            .ok_or(StageError::PhraseUsedUp)?;
        self.stage(path, passphrase, next)
    }

    fn stage(
        &mut self,
        path: &Path,
        passphrase: &Passphrase,
        next: SecretKey,
    ) -> Result<PublicKey, StageError> {
        if self.pending.is_some() {
            return Err(StageError::AlreadyStaged);
        }
        let public = next.public();
        self.become_saved(Keyring { pending: Some(next), ..self.clone() }, path, passphrase)?;
        Ok(public)
    }

    /// Makes the staged key the current one, once a node has accepted it.
    pub fn promote_rotation(
        &mut self,
        path: &Path,
        passphrase: &Passphrase,
    ) -> Result<(), StageError> {
        let mut next = self.clone();
        let current = next.pending.take().ok_or(StageError::NothingStaged)?;
        next.history.push(next.current.public());
        next.current = current;
        self.become_saved(next, path, passphrase)
    }

    /// Forgets the staged key. It is gone for ever: be sure that no node has accepted it.
    pub fn drop_rotation(
        &mut self,
        path: &Path,
        passphrase: &Passphrase,
    ) -> Result<(), StageError> {
        if self.pending.is_none() {
            return Err(StageError::NothingStaged);
        }
        self.become_saved(Keyring { pending: None, ..self.clone() }, path, passphrase)
    }

    /// The file first: memory never knows what a crash would make unknown.
    fn become_saved(
        &mut self,
        next: Keyring,
        path: &Path,
        passphrase: &Passphrase,
    ) -> Result<(), StageError> {
        next.save(path, passphrase)?;
        *self = next;
        Ok(())
    }

    fn check_phrase(&self, phrase: &Phrase) -> Result<(), StageError> {
        let found = phrase.wallet().address();
        if found != self.agent_id() {
            return Err(StageError::PhraseOfAnotherAgent { found });
        }
        Ok(())
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring")
            .field("agent_id", &self.agent_id())
            .field("did", &self.did())
            .field("public_key", &self.public_key())
            .finish_non_exhaustive()
    }
}
