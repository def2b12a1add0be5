//! The words every part of Skep shares: ids, money, time, keys, hashes, canonical JSON and Merkle
//! trees.
//!
//! It does no I/O, reads no clock and draws no random bytes: time and entropy come in as arguments,
//! so that whatever is computed here is computed again, bit for bit, by every other node and by an
//! auditor years later. It knows no protocol either; listings, escrows and tasks live in the crates
//! above it.
//!
//! ```
//! use skep_base::{Asset, Money, ed25519::SecretKey, json};
//!
//! let price = Money::parse_decimal("12.50", Asset::USDC)?;
//! let offer = json::to_vec(&serde_json::json!({ "price": price, "capability": "chart.generate"
//! }))?;
//! assert!(offer.starts_with(br#"{"capability":"chart.generate","price":{"amount":"12.50""#));
//!
//! let key = SecretKey::from_seed([7; 32]);
//! let signature = key.sign(&offer);
//! key.public().verify(&offer, &signature)?;
//! assert!(key.public().did().to_string().starts_with("did:swarm:"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod text;

pub mod ed25519;
pub mod hash;
pub mod id;
pub mod json;
pub mod merkle;
pub mod money;
pub mod time;
pub mod wallet;

pub use hash::Hash32;
pub use id::{AgentId, Did};
pub use money::{Amount, Asset, Money};
pub use time::{Clock, Timestamp};
