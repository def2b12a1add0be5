//! The browser, as use cases see it.

use std::{fmt::Debug, pin::Pin};

use skep_base::{ed25519::PublicKey, id::SessionId};
use skep_wire::conduit::{
    Acted, GatewayAct, GatewayClose, GatewayError, GatewayOpen, SessionProof,
};

/// A question to the gateway.
pub type Calling<'a, T> = Pin<Box<dyn Future<Output = Result<T, GatewayError>> + Send + 'a>>;

/// Runs browsers and records what is done in them, in this process or in another. Whoever drops a
/// question does not stop what it began.
pub trait Gateway: Send + Sync + Debug {
    /// The key that it signs with, as far as that is known.
    fn key(&self) -> Option<PublicKey>;

    /// Starts a browser, and gives the key that the proof will be signed by.
    fn open(&self, session: SessionId, request: GatewayOpen) -> Calling<'_, PublicKey>;

    /// Does one action. The same action at the same index again gives the same answer.
    fn act(&self, session: SessionId, request: GatewayAct) -> Calling<'_, Acted>;

    /// Ends a session and gives its proof. Whoever asks first decides how it ended; whoever asks
    /// again gets the same proof.
    fn close(&self, session: SessionId, request: GatewayClose) -> Calling<'_, SessionProof>;
}
