//! The capabilities' own checks, run beside everything else.

use std::{fmt, pin::Pin};

use serde_json::Value;
use skep_hire::capability;
use skep_probe::NotLooked;
use skep_wire::hire::Verification;

/// Runs a capability's checks (8.1).
pub trait Checker: Send + Sync + fmt::Debug {
    /// What is wrong with parameters, before anybody is asked.
    fn check_params(
        &self,
        capability: &str,
        version: Option<&str>,
        params: &Value,
    ) -> Result<(), Vec<String>> {
        capability::check_params(capability, version, params)
    }

    /// Whether there is a check for what a listing promises. Whatever a checker knows beyond the
    /// taxonomy it says here: money goes into escrow only for what can be checked.
    fn can_check(&self, capability: &str, version: Option<&str>) -> bool {
        let found = capability::find(capability);
        found.is_some_and(|found| version.is_none_or(|version| found.has_version(version)))
    }

    fn verify<'a>(
        &'a self,
        capability: &'a str,
        version: Option<&'a str>,
        params: &'a Value,
        result: &'a Value,
    ) -> Pin<Box<dyn Future<Output = Verification> + Send + 'a>>;

    /// The same, if it can be told that nobody has looked: that is no word about the result.
    fn look<'a>(
        &'a self,
        capability: &'a str,
        version: Option<&'a str>,
        params: &'a Value,
        result: &'a Value,
    ) -> Pin<Box<dyn Future<Output = Result<Verification, NotLooked>> + Send + 'a>> {
        let looking = self.verify(capability, version, params, result);
        Box::pin(async move { Ok(looking.await) })
    }
}

/// The taxonomy's checks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taxonomy;

impl Checker for Taxonomy {
    fn verify<'a>(
        &'a self,
        capability: &'a str,
        version: Option<&'a str>,
        params: &'a Value,
        result: &'a Value,
    ) -> Pin<Box<dyn Future<Output = Verification> + Send + 'a>> {
        let (name, version) = (capability.to_owned(), version.map(str::to_owned));
        let (params, result) = (params.clone(), result.clone());
        Box::pin(async move {
            // A large picture takes a while, and others wait for this thread.
            let looking = tokio::task::spawn_blocking(move || {
                capability::verify(&name, version.as_deref(), &params, &result)
            });
            let failed = |_| Verification::not_verifiable("the check itself has failed");
            looking.await.unwrap_or_else(failed)
        })
    }
}

/// The same, and strangers' pictures, sound and code are taken apart in a process of their own.
impl Checker for skep_probe::Checker {
    fn verify<'a>(
        &'a self,
        capability: &'a str,
        version: Option<&'a str>,
        params: &'a Value,
        result: &'a Value,
    ) -> Pin<Box<dyn Future<Output = Verification> + Send + 'a>> {
        Box::pin(skep_probe::Checker::verify(self, capability, version, params, result))
    }

    fn look<'a>(
        &'a self,
        capability: &'a str,
        version: Option<&'a str>,
        params: &'a Value,
        result: &'a Value,
    ) -> Pin<Box<dyn Future<Output = Result<Verification, NotLooked>> + Send + 'a>> {
        Box::pin(skep_probe::Checker::look(self, capability, version, params, result))
    }
}
