//! SHP: listings, hires, receipts and what belongs to them.

mod verification;

pub use self::verification::{CHECKS_MAX, Check, Verification, VerificationSummary};
