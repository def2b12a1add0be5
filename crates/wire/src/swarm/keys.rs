//! The keys that a node or an auditor has learnt.

use std::{borrow::Cow, collections::BTreeMap};

use skep_base::{Did, ed25519::PublicKey};

use super::{ChainError, Check, Claim, KeyChain, KeyLink, OpenError, Signed};

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

    /// For old messages: every key that an agent has had.
    pub fn of_any_time(&self) -> OfAnyTime<'_> {
        OfAnyTime(self)
    }

    /// The keys that a message brings along for its signer.
    fn own(claim: &Claim<'_>) -> Result<Option<KeyChain>, OpenError> {
        let signer = *claim.signer;
        let own = claim.own.map(|own| own.chain()).transpose();
        let own = own.map_err(|why| OpenError::Keys { signer, why })?;
        Ok(own.filter(|chain| chain.did() == signer))
    }

    /// The chain by which a message is judged.
    fn chain(&self, claim: &Claim<'_>) -> Result<Cow<'_, KeyChain>, OpenError> {
        let signer = *claim.signer;
        match (self.0.get(&signer), KnownKeys::own(claim)?) {
            (None, None) => Err(OpenError::UnknownSigner(signer)),
            (None, Some(own)) => Ok(Cow::Owned(own)),
            (Some(known), Some(own)) if known.extends(&own) => Ok(Cow::Borrowed(known)),
            (Some(known), Some(own)) if own.extends(known) => Ok(Cow::Owned(own)),
            (Some(_), Some(_)) => Err(OpenError::Keys { signer, why: ChainError::Forked }),
            (Some(known), None) => Ok(Cow::Borrowed(known)),
        }
    }
}

impl Check for KnownKeys {
    /// A message is signed by the newest key. What is attached may be older than that.
    fn check(&self, claim: &Claim<'_>) -> Result<(), OpenError> {
        if claim.is_attached {
            return self.of_any_time().check(claim);
        }
        let chain = self.chain(claim)?;
        chain.newest().verify(claim.bytes, claim.signature).map_err(|_| OpenError::BadSignature)
    }

    fn links(&self, signer: &Did) -> Option<Vec<KeyLink>> {
        Some(self.0.get(signer).map(|chain| chain.links().to_vec()).unwrap_or_default())
    }
}

/// Judges a message by all keys that its signer has had, as far as is known or shown.
///
/// Which of them was good when it was sent nobody can tell: its signer writes the time by itself.
/// And two honest nodes may have been told of different changes. What is good for one of them, who
/// attaches it, must be good for the others.
#[derive(Clone, Copy, Debug)]
pub struct OfAnyTime<'a>(&'a KnownKeys);

impl Check for OfAnyTime<'_> {
    fn check(&self, claim: &Claim<'_>) -> Result<(), OpenError> {
        let own = KnownKeys::own(claim)?;
        let chains = [self.0.get(claim.signer), own.as_ref()];
        if chains.iter().all(Option::is_none) {
            return Err(OpenError::UnknownSigner(*claim.signer));
        }
        let mut keys = chains.into_iter().flatten().flat_map(|chain| chain.keys().rev());
        let fits = |key: &PublicKey| key.verify(claim.bytes, claim.signature).is_ok();
        if keys.any(fits) { Ok(()) } else { Err(OpenError::BadSignature) }
    }
}
