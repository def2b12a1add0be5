//! What is held, and what moves when a deal opens and closes (decisions 8 to 11, 29b).
//!
//! A deal's money is described by legs between named places; the market carries them out in one
//! transaction. Whatever the amounts, the escrow's account ends at zero.

use serde::{Deserialize, Serialize};
use skep_base::{Amount, money::Rounding};
use skep_wire::settle::RemainderPolicy;

/// Parts of a hold or a fee are counted in these.
pub const WHOLE_E4: u32 = 10_000;
/// The largest fee that a node can take: it always fits into the smallest hold.
pub const FEE_BPS_MAX: u32 = 2_000;
/// The smallest part of a price that is held (decision 8).
pub const MODIFIER_E4_MIN: u16 = 2_500;
/// What the platform fronts of a newcomer's hold (decision 11).
const SUBSIDY_E4: i128 = 2_000;

/// The money of one deal, fixed at acceptance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stake {
    pub price: Amount,
    /// What of the price lies in escrow.
    pub hold: Amount,
    /// The rest of the price.
    pub remainder: Amount,
    pub policy: RemainderPolicy,
    /// What the provider's score asks to be held (decision 8).
    pub modifier_e4: u16,
    /// What is held. Deals that are older than scores have only the one above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_modifier_e4: Option<u16>,
    /// The fee's rate never gets higher than this.
    pub fee_cap_bps: u32,
    /// Which part of the fee the buyer carries.
    pub buyer_share_bps: u32,
    /// The buyer's largest share, held beside the price.
    pub fee_reserved: Amount,
    pub verifier_price: Amount,
    /// What of the hold comes from the platform.
    pub subsidy: Amount,
}

/// Whose money it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    Requester,
    Provider,
    Escrow,
    Verifier,
    Subsidy,
    Fees,
}

/// One thing to do with money. The label names it within its deal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leg {
    Move {
        label: &'static str,
        from: Place,
        to: Place,
        amount: Amount,
    },
    /// What the payer lacks becomes a debt.
    Pay {
        label: &'static str,
        from: Place,
        to: Place,
        amount: Amount,
    },
    /// Sets money of the requester aside for the provider.
    Reserve {
        amount: Amount,
    },
    /// Pays a part of what was set aside and frees the rest.
    Capture {
        amount: Amount,
    },
    /// Frees what was set aside.
    Free,
}

/// A fee and who carries it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fee {
    pub rate_bps: u32,
    pub buyer: Amount,
    pub seller: Amount,
}

impl Fee {
    /// On what is released: the total rounded half to even, the buyer's share down (decision 10).
    pub fn on(released: Amount, rate_bps: u32, buyer_share_bps: u32) -> Option<Fee> {
        let whole = i128::from(WHOLE_E4);
        let total = released.mul_ratio(rate_bps.into(), whole, Rounding::HalfEven)?;
        let buyer = total.mul_ratio(buyer_share_bps.into(), whole, Rounding::Floor)?;
        Some(Fee { rate_bps, buyer, seller: total.checked_sub(buyer)? })
    }

    pub fn total(&self) -> Amount {
        self.buyer.checked_add(self.seller).unwrap_or(Amount::MAX)
    }
}

impl Stake {
    /// `None` if an amount is too large, or a rate is not one.
    pub fn new(
        price: Amount,
        modifier_e4: u16,
        policy: RemainderPolicy,
        (fee_cap_bps, buyer_share_bps): (u32, u32),
        verifier_price: Amount,
        subsidised: bool,
    ) -> Option<Stake> {
        let whole = i128::from(WHOLE_E4);
        if fee_cap_bps > FEE_BPS_MAX || buyer_share_bps > WHOLE_E4 {
            return None;
        }
        let modifier_e4 = modifier_e4.clamp(MODIFIER_E4_MIN, 10_000);
        let hold = price.mul_ratio(modifier_e4.into(), whole, Rounding::Ceil)?;
        let subsidy = match subsidised {
            true => hold.mul_ratio(SUBSIDY_E4, whole, Rounding::Floor)?,
            false => Amount::ZERO,
        };
        let stake = Stake {
            price,
            hold,
            remainder: price.checked_sub(hold)?,
            policy,
            modifier_e4,
            effective_modifier_e4: Some(modifier_e4),
            fee_cap_bps,
            buyer_share_bps,
            fee_reserved: Fee::on(price, fee_cap_bps, buyer_share_bps)?.buyer,
            verifier_price,
            subsidy,
        };
        stake.in_escrow_checked().map(|_| stake)
    }

    fn in_escrow_checked(&self) -> Option<Amount> {
        self.hold.checked_add(self.fee_reserved)?.checked_add(self.verifier_price)
    }

    /// All that lies in escrow while it is held, but a dispute's deposit.
    pub fn in_escrow(&self) -> Amount {
        self.in_escrow_checked().unwrap_or(Amount::MAX)
    }

    /// What the requester's wallet gives at acceptance, but for the remainder.
    pub fn from_requester(&self) -> Amount {
        minus(self.in_escrow(), self.subsidy)
    }

    /// What the requester must have at acceptance: its part of the escrow, the remainder
    /// (decision 9), and what it repays if the deal is released (decision 11).
    pub fn needed(&self) -> Amount {
        self.in_escrow().checked_add(self.remainder).unwrap_or(Amount::MAX)
    }

    /// At acceptance.
    pub fn open(&self) -> Vec<Leg> {
        let (requester, escrow) = (Place::Requester, Place::Escrow);
        let mut legs = Legs::default();
        legs.go("hold", requester, escrow, self.from_requester());
        legs.go("subsidy", Place::Subsidy, escrow, self.subsidy);
        match self.policy {
            _ if self.remainder.is_zero() => {}
            RemainderPolicy::OnRelease => {}
            RemainderPolicy::Reserve => legs.0.push(Leg::Reserve { amount: self.remainder }),
            RemainderPolicy::Advance => {
                legs.go("advance", requester, Place::Provider, self.remainder);
            }
        }
        legs.0
    }

    /// At settlement: `released` of the price goes to the provider. `None` if that is more than
    /// the price, or the rate above what was agreed.
    pub fn close(
        &self,
        released: Amount,
        rate_bps: u32,
        verifier_due: bool,
    ) -> Option<(Vec<Leg>, Fee)> {
        if released > self.price || rate_bps > self.fee_cap_bps {
            return None;
        }
        let fee = Fee::on(released, rate_bps, self.buyer_share_bps)?;
        let advanced = match self.policy {
            RemainderPolicy::Advance => self.remainder,
            RemainderPolicy::OnRelease | RemainderPolicy::Reserve => Amount::ZERO,
        };
        let still_due = minus(released, advanced);
        let from_hold = still_due.min(self.hold);
        let from_remainder = minus(still_due, from_hold);
        let fee_from_hold = fee.seller.min(from_hold);
        let verifier = if verifier_due { self.verifier_price } else { Amount::ZERO };
        let left = minus(minus(minus(self.in_escrow(), from_hold), fee.buyer), verifier);
        let to_subsidy = self.subsidy.min(left);

        use Place::*;
        let mut legs = Legs::default();
        legs.go("release", Escrow, Provider, minus(from_hold, fee_from_hold));
        legs.go("fee", Escrow, Fees, fee.buyer.checked_add(fee_from_hold)?);
        legs.go("verifier", Escrow, Verifier, verifier);
        legs.go("subsidy_back", Escrow, Subsidy, to_subsidy);
        legs.go("refund", Escrow, Requester, minus(left, to_subsidy));
        if self.policy == RemainderPolicy::Reserve && !self.remainder.is_zero() {
            legs.0.push(match from_remainder.is_zero() {
                true => Leg::Free,
                false => Leg::Capture { amount: from_remainder },
            });
        } else {
            legs.pay("remainder", Requester, Provider, from_remainder);
        }
        legs.pay("subsidy_repaid", Requester, Subsidy, minus(self.subsidy, to_subsidy));
        legs.pay("advance_back", Provider, Requester, minus(advanced, released));
        legs.pay("fee_owed", Provider, Fees, minus(fee.seller, fee_from_hold));
        Some((legs.0, fee))
    }
}

#[derive(Default)]
struct Legs(Vec<Leg>);

impl Legs {
    fn go(&mut self, label: &'static str, from: Place, to: Place, amount: Amount) {
        if !amount.is_zero() {
            self.0.push(Leg::Move { label, from, to, amount });
        }
    }

    fn pay(&mut self, label: &'static str, from: Place, to: Place, amount: Amount) {
        if !amount.is_zero() {
            self.0.push(Leg::Pay { label, from, to, amount });
        }
    }
}

/// What is left, and nothing if it is less than that.
fn minus(from: Amount, amount: Amount) -> Amount {
    from.checked_sub(amount).unwrap_or(Amount::ZERO)
}

#[cfg(test)]
mod tests;
