//! Looks at what strangers point to: one guarded client for their addresses, and the engines that
//! check delivered work.
//!
//! [`Egress`] is the only way from this project to an address that somebody else chose (decision
//! 34): it refuses private networks whatever name or redirect leads there, and caps size and time.
//! [`Engines`] answers a VCAP verification request with what was found and a log of how (3.5, 6);
//! signing that and sending it back is the verifier's part. [`Checker`] runs the checks of SHP's
//! capabilities, those that take files apart in a process of their own.
//!
//! ```
//! use skep_probe::{Egress, Policy};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let egress = Egress::new(Policy::default())?;
//! let refused = egress.get("http://169.254.169.254/latest/meta-data/").await;
//! assert_eq!(refused.unwrap_err().code(), "refused_address");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod engine;

pub mod browser;
pub mod checker;
pub mod egress;
pub mod gateway;

pub use self::{
    checker::{Checker, NotLooked},
    egress::{Egress, EgressError, Fetched, Lookup, Policy, Request},
    engine::{ApiKey, Engines, Examination, LlmConfig, LlmStyle, known_offers},
};
