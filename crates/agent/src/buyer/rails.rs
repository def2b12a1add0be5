//! Which ledger a hire is paid on, and whose word that is.

use skep_wire::{hire::PaymentMode, x402::Rail};

use super::{
    Buyer, HireError,
    desk::{self, Desk},
    entry::Open,
    lock,
};

impl Buyer {
    /// Where the money of a payment mode is.
    pub(super) fn desk(&self, mode: &PaymentMode) -> Desk {
        match mode {
            PaymentMode::CustomEscrow(url) => {
                Desk::Other { egress: self.inner.egress.clone(), base: url.clone() }
            }
            _ => Desk::Own(self.inner.config.node.clone()),
        }
    }

    /// Where the receipt of a hire is: with its money, or at home if it was free.
    pub(super) fn receipt_desk(&self, open: &Open) -> Desk {
        match open.authorized {
            Some(_) => self.desk(&open.intent.listing.mode()),
            None => Desk::Own(self.inner.config.node.clone()),
        }
    }

    /// The ledger that a payment mode is paid on, asked for once.
    pub(super) async fn rail(&self, mode: &PaymentMode) -> Result<Rail, HireError> {
        let key = match mode {
            PaymentMode::CustomEscrow(url) => url.clone(),
            _ => String::new(),
        };
        if let Some(rail) = lock(&self.inner.rails).get(&key) {
            return Ok(rail.clone());
        }
        let rail = match mode {
            PaymentMode::CustomEscrow(url) => self.foreign_rail(url).await?,
            _ => self.desk(mode).rail().await?,
        };
        lock(&self.inner.rails).insert(key, rail.clone());
        Ok(rail)
    }

    /// The ledger of somebody else's node. It must be a ledger of its own: a payment in an asset
    /// that is the own node's, or another trusted one's, could be taken there as well.
    async fn foreign_rail(&self, url: &str) -> Result<Rail, HireError> {
        let config = &self.inner.config;
        desk::check_escrow_url(url, config.allow_loopback)?;
        let mode = PaymentMode::CustomEscrow(url.to_owned());
        let rail = self.desk(&mode).rail().await?;
        let base = |url: &str| url.trim_end_matches('/').to_owned();
        let known = lock(&self.inner.rails).get("").cloned();
        let own = match known {
            Some(own) => own,
            None => self.desk(&PaymentMode::Direct).rail().await?,
        };
        if rail.asset == own.asset && base(url) != base(config.node.url()) {
            return Err(desk::not_its_own(url).into());
        }
        for other in config.custom_escrows.iter().filter(|other| base(other) != base(url)) {
            if desk::check_escrow_url(other, config.allow_loopback).is_err() {
                continue;
            }
            let desk = self.desk(&PaymentMode::CustomEscrow(other.clone()));
            // One that is away cannot be asked; the own node's money is safe in any case.
            if desk.rail().await.is_ok_and(|theirs| theirs.asset == rail.asset) {
                return Err(desk::not_its_own(url).into());
            }
        }
        Ok(rail)
    }
}
