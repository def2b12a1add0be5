//! Which wallet pays, and its word that it pays for this buyer (decision 14).

use std::time::Duration;

use skep_base::{AgentId, Timestamp, wallet::WalletKey};
use skep_wire::hire::{WALLET_BINDING_SECONDS_MAX, WalletBinding};

use super::{Buyer, HireError, entry::Intent};

/// A wallet's word is good for so long beyond the payment: sellers are asked for their price first.
const MARGIN: Duration = Duration::from_secs(600);
/// It is good from so long ago on, for clocks that are behind.
const CLOCK_BEHIND: Duration = Duration::from_secs(300);

impl Buyer {
    /// Whose money is spent.
    pub fn payer(&self) -> AgentId {
        self.purse().address()
    }

    /// What payments are signed with.
    pub(super) fn purse(&self) -> &WalletKey {
        let config = &self.inner.config;
        config.pay_with.as_ref().unwrap_or(&config.wallet)
    }

    /// The wallet's word for a hire that may take so long, where another one than the buyer's pays.
    pub(super) fn binding(
        &self,
        now: Timestamp,
        patience_ms: u64,
    ) -> Result<Option<WalletBinding>, HireError> {
        let (purse, buyer) = (self.purse(), self.agent_id());
        if purse.address() == buyer {
            return Ok(None);
        }
        let life = Duration::from_millis(patience_ms) + self.inner.config.grace + MARGIN;
        let issued_at = seconds(now.minus(CLOCK_BEHIND));
        let last = issued_at.saturating_add(WALLET_BINDING_SECONDS_MAX);
        let expires_at = seconds(now.plus(life)).min(last);
        let signed = WalletBinding::signed_by(purse, buyer, (issued_at, expires_at));
        signed.map(Some).map_err(|error| HireError::Sign(error.to_string()))
    }
}

/// How long a payment for a hire may be good, in seconds: it ends before the wallet's word does.
pub(super) fn valid_s(intent: &Intent, wanted: Duration, now: Timestamp) -> u64 {
    let binding = intent.hire.payer.as_ref();
    let left = binding.map(|binding| binding.ends_at().since(now).as_secs().saturating_sub(1));
    left.map_or(wanted.as_secs(), |left| left.min(wanted.as_secs()))
}

fn seconds(at: Timestamp) -> i64 {
    at.as_ms().div_euclid(1000)
}
