//! Keys from a seed: BIP-32 for the wallet, SLIP-10 for Ed25519.

use hmac::{Hmac, KeyInit, Mac};
use k256::{NonZeroScalar, elliptic_curve::sec1::ToSec1Point};
use sha2::Sha512;
use zeroize::Zeroizing;

#[cfg(test)]
mod tests;

/// Added to an index, it makes the step a hardened one: a child's secret says nothing about its
/// siblings.
pub(crate) const HARDENED: u32 = 1 << 31;

/// A secret and the chain code that its children need as well.
pub(crate) struct Node {
    pub(crate) key: Zeroizing<[u8; 32]>,
    chain: Zeroizing<[u8; 32]>,
}

/// The hash at this step is no key, which happens once in 2^127 seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoSuchKey;

/// BIP-32: the secp256k1 node at `path`.
pub(crate) fn secp256k1(seed: &[u8], path: &[u32]) -> Result<Node, NoSuchKey> {
    let mut node = Node::split(hmac_sha512(b"Bitcoin seed", &[seed]));
    scalar(&node.key)?;
    for index in path {
        let parent = scalar(&node.key)?;
        let mac = if *index >= HARDENED {
            hmac_sha512(&*node.chain, &[&[0], &*node.key, &index.to_be_bytes()])
        } else {
            let public = k256::PublicKey::from_secret_scalar(&parent).to_sec1_point(true);
            hmac_sha512(&*node.chain, &[public.as_bytes(), &index.to_be_bytes()])
        };
        let child = Node::split(mac);
        let sum = NonZeroScalar::new(**scalar(&child.key)? + **parent).into_option();
        let key = Zeroizing::new(sum.ok_or(NoSuchKey)?.to_bytes().into());
        node = Node { key, chain: child.chain };
    }
    Ok(node)
}

/// SLIP-10: the Ed25519 node at `path`, where every step is hardened.
pub(crate) fn ed25519(seed: &[u8], path: &[u32]) -> Node {
    let mut node = Node::split(hmac_sha512(b"ed25519 seed", &[seed]));
    for index in path {
        let index = (index | HARDENED).to_be_bytes();
        node = Node::split(hmac_sha512(&*node.chain, &[&[0], &*node.key, &index]));
    }
    node
}

impl Node {
    fn split(mac: Zeroizing<[u8; 64]>) -> Self {
        let mut node = Node { key: Zeroizing::new([0; 32]), chain: Zeroizing::new([0; 32]) };
        node.key.copy_from_slice(&mac[..32]);
        node.chain.copy_from_slice(&mac[32..]);
        node
    }
}

fn scalar(bytes: &Zeroizing<[u8; 32]>) -> Result<Zeroizing<NonZeroScalar>, NoSuchKey> {
    NonZeroScalar::try_from(bytes.as_slice()).map(Zeroizing::new).map_err(|_| NoSuchKey)
}

fn hmac_sha512(key: &[u8], parts: &[&[u8]]) -> Zeroizing<[u8; 64]> {
    let mut mac = Hmac::<Sha512>::new_from_slice(key).expect("HMAC takes a key of any length");
    for part in parts {
        mac.update(part);
    }
    Zeroizing::new(mac.finalize().into_bytes().into())
}
