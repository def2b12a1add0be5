//! How an agent changes its key and stays who it is (decisions 1, 2).
//!
//! A DID is the hash of the first key. Each change is the market's own statement, signed by the
//! key before it and by the new one, so that one rotation serves both places.

use serde::{Deserialize, Serialize};
use skep_base::{
    Did,
    ed25519::{PublicKey, Signature},
};

use crate::identity::{Rotation, Statement};

/// How often an agent can change its key. Everybody has to check the whole chain.
pub const KEY_LINKS_MAX: usize = 32;

/// One change of an agent's key. What the market answers to a rotation can be read as one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyLink {
    pub statement: Rotation,
    pub old_key_signature: Signature,
    pub new_key_signature: Signature,
}

/// Why keys do not follow from one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    #[error("a chain of keys has at most {KEY_LINKS_MAX} links")]
    TooLong,
    #[error("link {0} does not begin with the key before it")]
    Gap(usize),
    #[error("link {0} is of another agent, or earlier than the one before it")]
    OutOfOrder(usize),
    #[error("link {0} is not signed by both of its keys")]
    BadSignature(usize),
    #[error("another chain of this agent's keys is known")]
    Forked,
    #[error("a longer chain of this agent's keys is known")]
    Outdated,
}

/// The keys that a message brings along for its signer.
#[derive(Clone, Copy, Debug)]
pub struct OwnKeys<'a> {
    /// The key that signs now.
    pub newest: &'a PublicKey,
    pub links: &'a [KeyLink],
}

impl<'a> OwnKeys<'a> {
    /// Those that end with the last of some changes, if there are any.
    pub fn ending(links: &'a [KeyLink]) -> Option<OwnKeys<'a>> {
        let newest = &links.last()?.statement.new_key;
        Some(OwnKeys { newest, links })
    }

    pub fn chain(&self) -> Result<KeyChain, ChainError> {
        KeyChain::ending(*self.newest, self.links)
    }
}

/// An agent's keys, from the one that its DID is made of to the one that signs now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyChain {
    first: PublicKey,
    links: Vec<KeyLink>,
}

impl KeyChain {
    /// A key that was never changed.
    pub fn new(first: PublicKey) -> KeyChain {
        KeyChain { first, links: Vec::new() }
    }

    /// Follows the links and checks each.
    pub fn follow(first: PublicKey, links: &[KeyLink]) -> Result<KeyChain, ChainError> {
        if links.len() > KEY_LINKS_MAX {
            return Err(ChainError::TooLong);
        }
        let mut chain = KeyChain::new(first);
        links.iter().try_for_each(|link| chain.add(link.clone()))?;
        Ok(chain)
    }

    /// The chain that ends with `newest`; without links, that is the first key, too.
    pub fn ending(newest: PublicKey, links: &[KeyLink]) -> Result<KeyChain, ChainError> {
        let first = links.first().map_or(newest, |link| link.statement.old_key);
        let chain = KeyChain::follow(first, links)?;
        if *chain.newest() != newest { Err(ChainError::Gap(links.len())) } else { Ok(chain) }
    }

    /// Adds a change of key.
    pub fn add(&mut self, link: KeyLink) -> Result<(), ChainError> {
        let (at, rotation) = (self.links.len(), &link.statement);
        if at >= KEY_LINKS_MAX {
            return Err(ChainError::TooLong);
        }
        if rotation.old_key != *self.newest() || self.keys().any(|key| *key == rotation.new_key) {
            return Err(ChainError::Gap(at));
        }
        if let Some(last) = self.links.last().map(|link| &link.statement)
            && (last.agent_id != rotation.agent_id || last.issued_at > rotation.issued_at)
        {
            return Err(ChainError::OutOfOrder(at));
        }
        let old = rotation.verify(&rotation.old_key, &link.old_key_signature);
        let new = rotation.verify(&rotation.new_key, &link.new_key_signature);
        old.and(new).map_err(|_| ChainError::BadSignature(at))?;
        self.links.push(link);
        Ok(())
    }

    pub fn did(&self) -> Did {
        self.first.did()
    }

    pub fn first(&self) -> &PublicKey {
        &self.first
    }

    pub fn links(&self) -> &[KeyLink] {
        &self.links
    }

    /// The key that signs now.
    pub fn newest(&self) -> &PublicKey {
        self.links.last().map_or(&self.first, |link| &link.statement.new_key)
    }

    pub(super) fn keys(&self) -> impl DoubleEndedIterator<Item = &PublicKey> {
        let later = self.links.iter().map(|link| &link.statement.new_key);
        std::iter::once(&self.first).chain(later)
    }

    /// Whether `self` is `older` with changes added, or the same.
    pub fn extends(&self, older: &KeyChain) -> bool {
        self.first == older.first
            && self.links.len() >= older.links.len()
            && self.links.iter().zip(&older.links).all(|(a, b)| a.statement == b.statement)
    }
}
