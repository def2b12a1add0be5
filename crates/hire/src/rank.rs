//! In which order sellers are found, and why.

use serde::{Deserialize, Serialize};
use skep_base::Amount;
use skep_wire::score::{BenchmarkTier, Phase};

#[cfg(test)]
mod tests;

/// The order, for people.
pub const RANKED_BY: &str = "sellers that answer first, then by points (20 for each doubling of \
                             the confirmed hires, 20 for each 100 of the SwarmScore, 30 for \
                             newcomers, 0.7 of all that while the operator is under review), then \
                             cheaper ones, then by listing id";

/// Bits that the price takes up in a score: 4 million USDC, and whatever is dearer is equal.
const PRICE_BITS: u32 = 42;
const PRICE_MAX: i64 = (1 << PRICE_BITS) - 1;
/// Bits that the points take up.
const POINT_BITS: u32 = 10;
/// Hires beyond 2^30 are equal.
const BUCKET_MAX: u32 = 31;
const POINTS_PER_DOUBLING: i64 = 20;
const POINTS_PER_HUNDRED: i64 = 20;
/// SwarmScore 11.3: newcomers are seen, before those with a single hire and after all others.
const NEWCOMER_POINTS: i64 = 30;
/// SwarmScore 9.7, in tenths.
const UNDER_REVIEW_TENTHS: i64 = 7;

/// What is known of the seller itself, when the listing was last put in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Seller {
    /// Hundreds of its SwarmScore: in steps, so that the place in the index moves seldom.
    pub score_hundreds: u8,
    /// The benchmark that it holds.
    pub benchmark: BenchmarkTier,
    /// How far it has come; it moves nothing.
    pub phase: Phase,
    /// In its first 30 days.
    pub newcomer: bool,
    /// Its operator is in a cool-down.
    pub under_review: bool,
}

/// What the order is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Whether its address answered when it was last asked.
    pub alive: bool,
    /// Hires that were paid and whose buyer has counter-signed without a dispute.
    pub confirmed: u64,
    pub price: Amount,
    pub seller: Seller,
}

impl Facts {
    /// Powers of two: a hire more is worth less the more there are, and the place in the index
    /// moves seldom.
    fn bucket(&self) -> u32 {
        (u64::BITS - self.confirmed.leading_zeros()).min(BUCKET_MAX)
    }

    fn points(&self) -> i64 {
        let hires = i64::from(self.bucket()) * POINTS_PER_DOUBLING;
        let score = i64::from(self.seller.score_hundreds.min(10)) * POINTS_PER_HUNDRED;
        let newcomer = if self.seller.newcomer { NEWCOMER_POINTS } else { 0 };
        let points = hires + score + newcomer;
        if self.seller.under_review { points * UNDER_REVIEW_TENTHS / 10 } else { points }
    }

    /// Higher is better. It is exact in a double, as JSON has it.
    pub fn score(&self) -> i64 {
        let cheap = PRICE_MAX - self.price.minor().min(PRICE_MAX);
        let alive = i64::from(self.alive) << (PRICE_BITS + POINT_BITS);
        alive + (self.points() << PRICE_BITS) + cheap
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
        let mut because = vec![alive, confirmed];
        let seller = &self.seller;
        if seller.score_hundreds > 0 {
            let least = u16::from(seller.score_hundreds) * 100;
            because.push(format!("a SwarmScore of at least {least}"));
        }
        if seller.newcomer {
            because.push("new here, so that it is seen".to_owned());
        }
        if seller.under_review {
            because
                .push(format!("operator under review: its points count 0.{UNDER_REVIEW_TENTHS}"));
        }
        let price = skep_base::Money::new(self.price, skep_base::Asset::USDC).to_decimal();
        because.push(format!("costs {price} USDC"));
        because
    }
}
