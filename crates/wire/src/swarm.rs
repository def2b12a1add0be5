//! ASIP: the messages of a swarm, each signed by the agent that sends it.
//!
//! ```
//! use skep_base::{Timestamp, ed25519::SecretKey};
//! use skep_wire::swarm::{Keepalive, KnownKeys, Message, Meta, Signed};
//!
//! let key = SecretKey::from_seed([7; 32]);
//! let (me, now) = (key.public().did(), Timestamp::from_ms(1_800_000_000_000));
//! let meta = Meta { signer: me, swarm: "public".to_owned(), epoch: 3, sent_at: now };
//! let body = Keepalive::new(me, 3, now);
//! let sent = Signed::seal(meta, Message::Keepalive(body), Vec::new(), &key);
//!
//! let text = serde_json::to_vec(&sent.to_json())?;
//! let mut keys = KnownKeys::default();
//! keys.learn(key.public());
//! assert_eq!(Signed::open(&text, &keys)?.hash(), sent.hash());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod certificate;
mod chain;
mod envelope;
mod error;
pub mod examples;
mod keys;
mod message;
mod peer;
mod published;
mod response;
mod share;
mod task;
#[cfg(test)]
mod tests;
mod text;

pub use certificate::*;
pub use chain::*;
pub use envelope::*;
pub use error::*;
pub use keys::{KEYS_MAX, KnownKeys, OfAnyTime};
pub use message::Message;
pub use peer::*;
pub use published::Published;
pub use response::*;
pub use share::Share;
pub use task::*;
pub use text::{hex_signature, key_text};

/// What this version of the protocol is called in handshakes and on the wire.
pub const PROTOCOL_VERSION: &str = "/openswarm/1.0.0";
