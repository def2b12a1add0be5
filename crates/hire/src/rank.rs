//! In which order sellers are found, and why.

use skep_base::Amount;

#[cfg(test)]
mod tests;

/// The order, for people.
pub const RANKED_BY: &str = "sellers that answer first, then those with more confirmed hires \
                             (counted in powers of two), then cheaper ones, then by listing id";

/// Bits that the price takes up in a score: 17 million USDC, and whatever is dearer is equal.
const PRICE_BITS: u32 = 44;
const PRICE_MAX: i64 = (1 << PRICE_BITS) - 1;
/// Hires beyond 2^30 are equal.
const BUCKET_MAX: u32 = 31;

/// What the order is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Whether its address answered when it was last asked.
    pub alive: bool,
    /// Hires that were paid and whose buyer has counter-signed without a dispute.
    pub confirmed: u64,
    pub price: Amount,
}

impl Facts {
    /// Powers of two: a hire more is worth less the more there are, and the place in the index
    /// moves seldom.
    fn bucket(&self) -> u32 {
        (u64::BITS - self.confirmed.leading_zeros()).min(BUCKET_MAX)
    }

    /// Higher is better. It is exact in a double, as JSON has it.
    pub fn score(&self) -> i64 {
        let cheap = PRICE_MAX - self.price.minor().min(PRICE_MAX);
        let bucket = i64::from(self.bucket()) << PRICE_BITS;
        let alive = i64::from(self.alive) << (PRICE_BITS + 5);
        alive + bucket + cheap
    }

    /// The score in words, most important first. `coarse` hides the exact count.
    pub fn because(&self, coarse: bool) -> Vec<String> {
        let alive = match self.alive {
            true => "its address answers".to_owned(),
            false => "its address did not answer twice in a row".to_owned(),
        };
        let confirmed = match (self.bucket(), self.confirmed) {
            (0, _) => "no confirmed hires yet".to_owned(),
            (bucket, _) if coarse => format!("at least {} confirmed hires", 1_u64 << (bucket - 1)),
            (_, 1) => "1 confirmed hire".to_owned(),
            (_, confirmed) => format!("{confirmed} confirmed hires"),
        };
        let price = skep_base::Money::new(self.price, skep_base::Asset::USDC).to_decimal();
        vec![alive, confirmed, format!("costs {price} USDC")]
    }
}
