//! Keys of simulated agents, and the check that every message passes before it is delivered.
//!
//! Real signatures cost most of a run's time. The fast ones are keyed hashes whose secrets only the
//! registry knows: nobody in the simulation can make one for somebody else, either.

use std::collections::{HashMap, HashSet};

use skep_base::{
    Did, Hash32,
    ed25519::{PublicKey, SecretKey, Signature},
    hash::sha256_parts,
};
use skep_wire::swarm::{Check, Claim, KnownKeys, OpenError, Sign, Signed};

#[cfg(test)]
mod tests;

/// Keeps the secrets of different runs and purposes apart.
const KEY_LABEL: &[u8] = b"skep simulated key";
const FAST_LABEL: &[u8] = b"skep fast signature";

/// How a run's messages are signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signatures {
    Real,
    Fast,
}

/// What an agent signs with.
pub struct Key {
    pub public: PublicKey,
    pub did: Did,
    secret: SecretKey,
    kind: Signatures,
}

impl Key {
    /// The key of one agent in one run.
    pub fn derive(kind: Signatures, seed: u64, number: u64) -> Key {
        let parts = [KEY_LABEL, &seed.to_be_bytes(), &number.to_be_bytes()];
        let secret = SecretKey::from_seed(sha256_parts(&parts).0);
        let public = secret.public();
        Key { public, did: public.did(), secret, kind }
    }

    /// For what the protocol always signs with Ed25519: attestations.
    pub fn secret(&self) -> &SecretKey {
        &self.secret
    }

    fn fast_secret(&self) -> Hash32 {
        sha256_parts(&[FAST_LABEL, self.secret.seed().as_slice()])
    }
}

impl Sign for Key {
    fn sign(&self, bytes: &[u8]) -> Signature {
        match self.kind {
            Signatures::Real => self.secret.sign(bytes),
            Signatures::Fast => fast(&self.fast_secret(), bytes),
        }
    }
}

fn fast(secret: &Hash32, bytes: &[u8]) -> Signature {
    let half = sha256_parts(&[secret.as_bytes(), bytes]);
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(half.as_bytes());
    signature[32..].copy_from_slice(half.as_bytes());
    Signature::from_bytes(signature)
}

/// Knows all keys of a run and which messages it has found good.
pub struct Registry {
    kind: Signatures,
    known: KnownKeys,
    /// Only looked up, never walked: its order means nothing.
    secrets: HashMap<Did, Hash32>,
    /// Messages that others may attach, so that each is checked once.
    good: HashSet<(Hash32, Signature)>,
}

impl Registry {
    pub fn new(kind: Signatures) -> Registry {
        Registry {
            kind,
            known: KnownKeys::default(),
            secrets: HashMap::new(),
            good: HashSet::new(),
        }
    }

    pub fn enter(&mut self, key: &Key) {
        match self.kind {
            Signatures::Real => self.known.learn(key.public),
            Signatures::Fast => {
                self.secrets.insert(key.did, key.fast_secret());
            }
        }
    }

    /// Whether a node may be handed this message: what `Signed::open` asks of a text.
    pub fn admit(&mut self, message: &Signed) -> Result<(), OpenError> {
        message.check_bounds()?;
        self.admit_as(message, false)?;
        message.attached.iter().try_for_each(|inner| self.admit_as(inner, true))
    }

    fn admit_as(&mut self, message: &Signed, is_attached: bool) -> Result<(), OpenError> {
        let name = (message.hash(), *message.signature());
        if !self.good.contains(&name) {
            if message.message.named_signer().is_some_and(|named| *named != message.meta.signer) {
                return Err(OpenError::WrongSigner(message.meta.signer));
            }
            self.check(&message.claim(is_attached))?;
            if may_be_attached(message) {
                self.good.insert(name);
            }
        }
        Ok(())
    }
}

/// Keepalives are most of the messages of a large swarm, and nobody passes them on.
fn may_be_attached(message: &Signed) -> bool {
    !matches!(message.message, skep_wire::swarm::Message::Keepalive(_))
}

impl Check for Registry {
    fn check(&self, claim: &Claim<'_>) -> Result<(), OpenError> {
        match self.kind {
            Signatures::Real => self.known.check(claim),
            Signatures::Fast => {
                let signer = claim.signer;
                let secret = self.secrets.get(signer).ok_or(OpenError::UnknownSigner(*signer))?;
                let fits = fast(secret, claim.bytes) == *claim.signature;
                if fits { Ok(()) } else { Err(OpenError::BadSignature) }
            }
        }
    }
}
