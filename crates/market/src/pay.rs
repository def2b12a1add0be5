//! Payments over x402.

mod record;

pub use self::record::{PaymentRecord, payment_key};
