//! The keys that a node or an auditor has learnt.

use std::{borrow::Cow, collections::BTreeMap};

use skep_base::{Did, ed25519::PublicKey};

use super::{ChainError, Check, Claim, KeyChain, OpenError, Signed};

/// Agents whose keys a node keeps: more than any swarm has members.
pub const KEYS_MAX: usize = 100_000;

/// Chains of keys by the DIDs that their first keys hash to.
///
/// The first chain that is known of an agent stays: only its own newest key can add to it, so that
/// whoever has stolen an older one gains nothing.
#[derive(Clone, Debug, Default)]
pub struct KnownKeys(BTreeMap<Did, KeyChain>);

impl KnownKeys {
    /// A key that the genesis or a transcript names.
    pub fn learn(&mut self, key: PublicKey) {
        self.0.entry(key.did()).or_insert_with(|| KeyChain::new(key));
    }

    /// A chain takes the place of a shorter one that it goes on from, and of no other.
    pub fn follow(&mut self, chain: KeyChain) -> Result<(), ChainError> {
        match self.0.get(&chain.did()) {
            Some(known) if chain.extends(known) => {}
            Some(known) if known.extends(&chain) => return Err(ChainError::Outdated),
            Some(_) => return Err(ChainError::Forked),
            None => {}
        }
        self.0.insert(chain.did(), chain);
        Ok(())
    }

    /// Learns what an opened message says about its signer's keys, once its node has taken it.
    pub fn meet(&mut self, message: &Signed) {
        let is_known = self.0.contains_key(&message.meta.signer);
        if let Some(Ok(chain)) = message.message.own_keys().map(|own| own.chain())
            && chain.did() == message.meta.signer
            && (is_known || self.0.len() < KEYS_MAX)
        {
            // Opened twice, or by way of another: what is known stays.
            let _ = self.follow(chain);
        }
    }

    pub fn get(&self, did: &Did) -> Option<&KeyChain> {
        self.0.get(did)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Did, &KeyChain)> {
        self.0.iter()
    }

    /// For old messages: every key counts for what was sent before it was replaced.
    pub fn at_their_time(&self) -> AtTheirTime<'_> {
        AtTheirTime(self)
    }

    /// The chain by which a message is judged.
    fn chain(&self, claim: &Claim<'_>) -> Result<Cow<'_, KeyChain>, OpenError> {
        let signer = *claim.signer;
        let wrong = |why| OpenError::Keys { signer, why };
        let own = claim.own.map(|own| own.chain()).transpose().map_err(wrong)?;
        let own = own.filter(|chain| chain.did() == signer);
        match (self.0.get(&signer), own) {
            (None, None) => Err(OpenError::UnknownSigner(signer)),
            (None, Some(own)) => Ok(Cow::Owned(own)),
            (Some(known), Some(own)) if known.extends(&own) => Ok(Cow::Borrowed(known)),
            (Some(known), Some(own)) if own.extends(known) => Ok(Cow::Owned(own)),
            (Some(_), Some(_)) => Err(wrong(ChainError::Forked)),
            (Some(known), None) => Ok(Cow::Borrowed(known)),
        }
    }
}

impl Check for KnownKeys {
    /// A message is signed by the newest key. What is attached may be older than that.
    fn check(&self, claim: &Claim<'_>) -> Result<(), OpenError> {
        if claim.is_attached {
            return self.at_their_time().check(claim);
        }
        let chain = self.chain(claim)?;
        chain.newest().verify(claim.bytes, claim.signature).map_err(|_| OpenError::BadSignature)
    }
}

/// Judges each message by the keys that were good when it says that it was sent.
#[derive(Clone, Copy, Debug)]
pub struct AtTheirTime<'a>(&'a KnownKeys);

impl Check for AtTheirTime<'_> {
    fn check(&self, claim: &Claim<'_>) -> Result<(), OpenError> {
        let chain = self.0.chain(claim)?;
        let fits = |key: &PublicKey| key.verify(claim.bytes, claim.signature).is_ok();
        if chain.keys_at(claim.sent_at).any(fits) { Ok(()) } else { Err(OpenError::BadSignature) }
    }
}
