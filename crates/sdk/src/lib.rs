//! A typed client of the Skep API: it signs, retries what may be retried, and says what went
//! wrong by its code.
//!
//! It keeps no state beyond its connections and knows no rules of the market: the node decides.
//!
//! ```no_run
//! # async fn run(agent: skep_base::AgentId, key: skep_base::ed25519::SecretKey)
//! #     -> Result<(), skep_sdk::Error> {
//! use skep_sdk::Client;
//!
//! let client = Client::new("http://127.0.0.1:4020")?.with_key(agent, key);
//! for balance in client.wallet().await?.balances {
//!     println!("{}", balance.available.to_decimal());
//! }
//! # Ok(())
//! # }
//! ```

mod admin;
mod client;
mod deals;
mod endpoints;
mod error;
mod gateway;
mod hire;
mod retry;
mod sessions;
mod x402;

pub use self::{
    admin::AdminClient,
    client::{Client, Written},
    error::Error,
    gateway::GatewayClient,
    retry::Retries,
};
