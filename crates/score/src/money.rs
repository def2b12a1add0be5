//! 12.1 in whole numbers (decision 8).

use skep_base::{Amount, Asset};

#[cfg(test)]
mod tests;

/// Everything is held.
pub const FULL_E4: u16 = 10_000;
/// The least that is ever held.
pub const FLOOR_E4: u16 = 2_500;

/// Which part of a price is held at a score, in 1/10000: the exact value of what the
/// specification's double is near to.
pub fn modifier_e4(score: u16) -> u16 {
    FULL_E4.saturating_sub(score.saturating_mul(8)).max(FLOOR_E4)
}

/// US cents, rounded down; other currencies are not counted (decision 38).
pub fn cents(amount: Amount, asset: Asset) -> u64 {
    const USDC_PER_CENT: u64 = 10_000;
    let minor = u64::try_from(amount.minor()).unwrap_or(0);
    match asset {
        Asset::USD => minor,
        Asset::USDC => minor / USDC_PER_CENT,
        _ => 0,
    }
}
