//! Decision 14: a hire is paid by its buyer, or by a wallet that said it pays for this buyer.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::{
    AgentId, Timestamp,
    wallet::{WalletKey, WalletSignature},
};

use super::{HireFacts, HireRequest, SignedError, WalletSigned, signed::statement_of};

/// The longest time a binding lasts, in seconds: 31 days.
pub const WALLET_BINDING_SECONDS_MAX: i64 = 31 * 24 * 3600;

/// A wallet's word that it pays for an agent's hires. The buyer's signature over the hire covers
/// it, so that both have signed; nobody keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WalletBinding {
    /// The buyer whose hires are paid.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub agent_id: AgentId,
    /// The wallet that pays.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub wallet: AgentId,
    /// Unix times in seconds: good from the first on, and before the second.
    pub issued_at: i64,
    pub expires_at: i64,
    /// The wallet's, over everything else and the type `skep/wallet-binding/v1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub signature: Option<WalletSignature>,
}

/// Why a wallet may not pay for a hire.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BindingRefusal {
    #[error("the wallet pays for {bound_to}, and the hire is {buyer}'s")]
    OtherAgent { bound_to: AgentId, buyer: AgentId },
    #[error("the buyer pays with its own wallet, which takes no binding")]
    OwnWallet,
    #[error("a binding ends after it begins, at most {WALLET_BINDING_SECONDS_MAX} seconds later")]
    BadSpan { issued_at: i64, expires_at: i64 },
    #[error("the wallet has not signed that it pays for the buyer: {0}")]
    Signature(SignedError),
    #[error("the wallet's binding is not good before {from}")]
    NotYet { from: Timestamp },
    #[error("the wallet's binding ended at {at}")]
    Expired { at: Timestamp },
}

impl WalletSigned for WalletBinding {
    fn signer(&self) -> AgentId {
        self.wallet
    }

    fn signature(&self) -> Option<WalletSignature> {
        self.signature
    }

    fn set_signature(&mut self, signature: WalletSignature) {
        self.signature = Some(signature);
    }

    fn statement(&self) -> Result<Value, SignedError> {
        let mut statement = statement_of(self)?;
        let kind = Value::String("skep/wallet-binding/v1".to_owned());
        if let Some(object) = statement.as_object_mut() {
            object.insert("type".to_owned(), kind);
        }
        Ok(statement)
    }
}

impl WalletBinding {
    /// The wallet says that it pays for `agent_id`. Times are Unix times in seconds.
    pub fn signed_by(
        wallet: &WalletKey,
        agent_id: AgentId,
        (issued_at, expires_at): (i64, i64),
    ) -> Result<WalletBinding, SignedError> {
        let address = wallet.address();
        let mut binding =
            WalletBinding { agent_id, wallet: address, issued_at, expires_at, signature: None };
        binding.sign(wallet)?;
        Ok(binding)
    }

    pub fn starts_at(&self) -> Timestamp {
        Timestamp::from_ms(self.issued_at.saturating_mul(1000))
    }

    pub fn ends_at(&self) -> Timestamp {
        Timestamp::from_ms(self.expires_at.saturating_mul(1000))
    }

    /// Whether it is good now. Whether it is good at all is another question.
    pub fn check_time(&self, now: Timestamp) -> Result<(), BindingRefusal> {
        let (from, at) = (self.starts_at(), self.ends_at());
        match now {
            now if now < from => Err(BindingRefusal::NotYet { from }),
            now if now >= at => Err(BindingRefusal::Expired { at }),
            _ => Ok(()),
        }
    }

    /// All but the time.
    fn check(&self, buyer: AgentId) -> Result<(), BindingRefusal> {
        let WalletBinding { agent_id, wallet, issued_at, expires_at, .. } = *self;
        if agent_id != buyer {
            return Err(BindingRefusal::OtherAgent { bound_to: agent_id, buyer });
        }
        if wallet == buyer {
            return Err(BindingRefusal::OwnWallet);
        }
        let span = expires_at.saturating_sub(issued_at);
        if !(1..=WALLET_BINDING_SECONDS_MAX).contains(&span) {
            return Err(BindingRefusal::BadSpan { issued_at, expires_at });
        }
        self.check_signature().map(drop).map_err(BindingRefusal::Signature)
    }
}

/// Who pays for a hire, at whatever time: the buyer, or the wallet that its hire names, and then
/// nobody else. One hire has one payer, so that it cannot be paid twice.
fn payer_of(buyer: AgentId, binding: Option<&WalletBinding>) -> Result<AgentId, BindingRefusal> {
    match binding {
        None => Ok(buyer),
        Some(binding) => binding.check(buyer).map(|()| binding.wallet),
    }
}

impl HireFacts {
    /// Who pays for it. What depends on the time is asked by
    /// [`check_payer_time`](HireFacts::check_payer_time).
    pub fn payer(&self) -> Result<AgentId, BindingRefusal> {
        payer_of(self.buyer_id, self.payer.as_ref())
    }

    /// Whether who pays may do so now.
    pub fn check_payer_time(&self, now: Timestamp) -> Result<(), BindingRefusal> {
        self.payer.as_ref().map_or(Ok(()), |binding| binding.check_time(now))
    }
}

impl HireRequest {
    /// Who pays for it, as the node decides it; the time aside.
    pub fn payer(&self) -> Result<AgentId, BindingRefusal> {
        payer_of(self.buyer_id, self.payer.as_ref())
    }
}
