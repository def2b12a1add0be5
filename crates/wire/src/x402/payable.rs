//! A node's word that it would take a payment, for whoever is to be paid with it.
//!
//! The buyer of a signed hire asks its node before it pays. With the answer the seller need not ask
//! the same node the same thing a moment later. The word reserves nothing, no more than an answer
//! to the seller's own question would.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use skep_base::{
    AgentId, Amount, Timestamp,
    ed25519::{PublicKey, SecretKey, Signature},
};

use super::Rail;

/// The header that brings it to a seller, beside the payment.
pub const PAYABLE: &str = "skep-payable";
/// How long a node's word is good. The seller looks at its own clock: where clocks differ by more
/// it asks.
pub const PAYABLE_FRESH: Duration = Duration::from_secs(2);
/// What is signed begins with this, and nothing else that is signed does.
const PAYABLE_DOMAIN: &str = "skep/payable/v1";

/// A node's word about one payment of one signed hire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Payable {
    /// When the node looked.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub at: Timestamp,
    /// The key whose hash the ledger's asset is.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub key: PublicKey,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub signature: Signature,
}

/// What a node's word is about. The hash names the ledger, the payer and the nonce, which is that
/// of one hire or of one escrow's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayableFacts<'a> {
    pub tx_hash: &'a str,
    pub to: AgentId,
    pub amount: Amount,
    /// Unix times in seconds.
    pub window: (u128, u128),
    pub network: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPayable {
    #[error("it is another node's word")]
    OtherNode,
    #[error("the node looked too long ago, or its clock is another")]
    NotFresh,
    #[error("the node did not say this")]
    Signature,
}

impl PayableFacts<'_> {
    fn words(&self, at: Timestamp) -> String {
        let PayableFacts { tx_hash, to, amount, window: (after, before), network } = self;
        let (amount, at) = (amount.minor(), at.as_ms());
        format!("{PAYABLE_DOMAIN}\n{tx_hash}\n{to}\n{amount}\n{after}\n{before}\n{network}\n{at}")
    }
}

impl Payable {
    pub fn sign(key: &SecretKey, facts: &PayableFacts<'_>, at: Timestamp) -> Payable {
        let signature = key.sign(facts.words(at).as_bytes());
        Payable { at, key: key.public(), signature }
    }

    /// Whether it is the fresh word of the node that takes payments on this ledger.
    pub fn check(
        &self,
        rail: &Rail,
        facts: &PayableFacts<'_>,
        now: Timestamp,
    ) -> Result<(), BadPayable> {
        if Rail::asset_of(&self.key) != rail.asset {
            return Err(BadPayable::OtherNode);
        }
        if now.since(self.at).max(self.at.since(now)) > PAYABLE_FRESH {
            return Err(BadPayable::NotFresh);
        }
        let words = facts.words(self.at);
        self.key.verify(words.as_bytes(), &self.signature).map_err(|_| BadPayable::Signature)
    }
}
