//! The checks of results, as use cases see them.

use std::{fmt::Debug, pin::Pin};

use serde_json::Value;
use skep_wire::hire::Verification;

/// A check under way.
pub type Checking<'a> = Pin<Box<dyn Future<Output = Verification> + Send + 'a>>;

/// Runs a capability's verification function (8.1). Whoever implements it takes strangers' files
/// apart where they can do no harm.
pub trait Checks: Send + Sync + Debug {
    fn verify<'a>(
        &'a self,
        capability: &'a str,
        version: Option<&'a str>,
        params: &'a Value,
        result: &'a Value,
    ) -> Checking<'a>;
}
