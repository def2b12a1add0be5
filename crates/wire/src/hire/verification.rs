//! 8.1: what a capability's check found in a result.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Check {
    pub name: String,
    pub passed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The outcome of a verification function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Verification {
    pub checks: Vec<Check>,
    /// Never true of what nobody can check.
    pub all_passed: bool,
    /// False where there is no check for the capability: such a result is neither good nor bad.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub verifiable: bool,
    /// `v0` or `v1`: which of the capability's checks it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_yes(value: &bool) -> bool {
    *value
}

impl Verification {
    /// What the checks say together.
    pub fn of(version: &str, checks: Vec<Check>) -> Verification {
        let all_passed = !checks.is_empty() && checks.iter().all(|check| check.passed);
        Verification { checks, all_passed, verifiable: true, version: Some(version.to_owned()) }
    }

    /// There is no check for it (decision 16).
    pub fn not_verifiable(why: &str) -> Verification {
        let detail = Some(why.to_owned());
        let check = Check { name: "verifiable".to_owned(), passed: false, detail };
        Verification { checks: vec![check], all_passed: false, verifiable: false, version: None }
    }

    /// Whether a check looked and found something wrong.
    pub fn failed(&self) -> bool {
        self.verifiable && !self.all_passed
    }

    /// As receipts carry it.
    pub fn summary(&self) -> VerificationSummary {
        let checks = self.checks.iter().take(CHECKS_MAX);
        VerificationSummary {
            all_passed: self.all_passed,
            checks: checks.map(|check| (check.name.clone(), check.passed)).collect(),
        }
    }
}

/// The most checks that a receipt names.
pub const CHECKS_MAX: usize = 32;

/// A verification as it stands in a receipt: names and whether they passed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct VerificationSummary {
    pub all_passed: bool,
    pub checks: BTreeMap<String, bool>,
}
