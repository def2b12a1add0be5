//! Payments over HTTP: the node as an x402 facilitator for its own ledger.
//!
//! A payment is a wallet's signed authorization (EIP-3009). It is taken once: what names it is its
//! payer and its nonce, and whoever sends it again hears what was answered the first time.

mod budget;
mod check;
mod claim;
mod claims;
mod discover;
mod escrow;
mod facts;
mod judge;
mod record;
mod refusal;
mod settle;
mod sides;
mod verify;

use std::collections::BTreeMap;

use skep_wire::x402::{
    BAZAAR, EXACT, PAYMENT_IDENTIFIER, Rail, Supported, SupportedKind, V1_NETWORK, ledger_network,
};

pub(crate) use self::{
    budget::BUDGET_JOB,
    claims::Claims,
    escrow::{ESCROW_JOB, HireEscrowRecord, escrow_key},
    judge::JUDGE_JOB,
    record::{PaymentRecord, payment_key},
};
pub use self::{
    discover::{DISCOVERY_OFFSET_MAX, ResourceFilter},
    escrow::EscrowRefusal,
    refusal::PayRefusal,
};
use crate::Market;

/// The ledger's name and version, as wallets sign for them.
const RAIL_NAME: &str = "Skep Ledger USD";
const RAIL_VERSION: &str = "1";
/// Extensions of x402 that are understood.
const EXTENSIONS: [&str; 2] = [PAYMENT_IDENTIFIER, BAZAAR];

impl Market {
    /// This node's ledger as something to pay with. Its addresses are derived from the key that
    /// signs settlements, so that a payment for one node is worth nothing at another.
    pub fn rail(&self) -> Rail {
        let key = self.settlement_key.public();
        Rail {
            asset: Rail::asset_of(&key),
            name: RAIL_NAME.to_owned(),
            version: RAIL_VERSION.to_owned(),
            escrow_address: Rail::escrow_address_of(&key),
            escrow_provider: self.marketplace.to_string(),
        }
    }

    /// What the facilitator can do.
    pub fn x402_supported(&self) -> Supported {
        let rail = serde_json::to_value(self.rail()).unwrap_or_default();
        let extra = rail.as_object().cloned().unwrap_or_default();
        let kind = |x402_version, network| SupportedKind {
            x402_version,
            scheme: EXACT.to_owned(),
            network,
            extra: extra.clone(),
        };
        Supported {
            kinds: vec![kind(2, ledger_network()), kind(1, V1_NETWORK.to_owned())],
            extensions: EXTENSIONS.map(str::to_owned).to_vec(),
            signers: BTreeMap::new(),
        }
    }
}
