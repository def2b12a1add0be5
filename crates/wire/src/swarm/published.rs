//! A SwarmScore as evidence of reputation (decision 44a).

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::{
    Did, Timestamp,
    ed25519::{PublicKey, Signature},
    wallet::WalletSignature,
};

use super::Share;
use crate::{
    identity::{Binding, Statement},
    score::{Issuer, passport_id, signed_bytes},
};

/// What a full score is.
const SCORE_MAX: u32 = 1_000;

/// A publication as its issuer has signed it, with the proof of whose it is: it names an agent of
/// the market, whose wallet and key vouch for one another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// As it was served: its signature covers fields that this program may not know.
    pub publication: Value,
    pub binding: Binding,
    pub wallet_signature: WalletSignature,
    pub key_signature: Signature,
}

/// What counts of a publication here.
#[derive(Deserialize)]
struct Read {
    agent_passport_id: String,
    issuer: Issuer,
    score: Points,
    valid_until: Timestamp,
}

#[derive(Deserialize)]
struct Points {
    value: u16,
}

impl Published {
    /// The score, if it is about this agent, was good at that time, and one of these has signed it.
    pub fn score(&self, subject: &Did, at: Timestamp, issuers: &[PublicKey]) -> Option<Share> {
        let read = Read::deserialize(&self.publication).ok()?;
        let agent = &self.binding.agent_id;
        let is_current = read.issuer.computed_at <= at && at < read.valid_until;
        if !is_current || read.agent_passport_id != passport_id(agent) || !self.is_of(subject) {
            return None;
        }
        let (bytes, signature) = (signed_bytes(&self.publication)?, read.issuer.signature?);
        let signed = issuers.iter().any(|key| key.verify(&bytes, &signature).is_ok());
        let points_e6 = u32::from(read.score.value) * (Share::ONE.e6() / SCORE_MAX);
        signed.then(|| Share::from_e6(points_e6))
    }

    /// Whether the wallet and the DID's first key have both signed that they are one agent.
    fn is_of(&self, subject: &Did) -> bool {
        let binding = &self.binding;
        binding.public_key.did() == *subject
            && binding.verify(&binding.public_key, &self.key_signature).is_ok()
            && binding.wallet_signer(&self.wallet_signature) == Some(binding.agent_id)
    }
}
