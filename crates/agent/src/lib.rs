//! What runs beside an agent: its keyring, what it buys, and a verifier's daily work.
//!
//! A [`Keyring`] is made from the 24 words of a [`Phrase`], lives in one encrypted file and signs
//! the statements that say who the agent is. What `skep keys` does is in [`command`].
//!
//! ```
//! use skep_agent::{Keyring, verify_registration};
//! use skep_base::Timestamp;
//!
//! let (keyring, phrase) = Keyring::create([7; 32]);
//! assert_eq!(phrase.words().split(' ').count(), 24);
//!
//! let registration = keyring.registration(Timestamp::EPOCH, None, None, None);
//! verify_registration(&registration, None)?;
//! assert_eq!(registration.binding.agent_id, keyring.agent_id());
//!
//! let again = Keyring::from_phrase(&phrase, 0)?;
//! assert_eq!(again.did(), keyring.did());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod buyer;
pub mod command;
pub mod journal;
pub mod keyring;
pub mod passphrase;
pub mod path;
pub mod phrase;
pub mod seller;
pub mod verifier;

mod derive;

pub use buyer::{Buyer, BuyerConfig, HireError, HireOrder, Hired};
pub use keyring::{Keyring, PublicInfo, verify_registration};
pub use passphrase::Passphrase;
pub use phrase::Phrase;
