//! 8.5: what was checked of a publication, and what did not hold.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::Timestamp;

use super::certificate::Certificate;

/// 8.1, each including the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum VerifyLevel {
    /// The issuer signed it.
    L1,
    /// The numbers follow from the stated inputs.
    L2,
    /// The inputs are backed by evidence.
    L3,
}

/// `POST /v1/swarmscore/verify`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct VerifyRequest {
    #[cfg_attr(feature = "openapi", schema(value_type = crate::score::Publication))]
    pub publication: Value,
    /// For L3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Certificate>,
}

/// Something that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FailedCheck {
    pub level: VerifyLevel,
    /// A stable name, like `signature` or `score.value`.
    pub check: String,
    pub detail: String,
}

/// How much of the window's evidence a certificate shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Coverage {
    pub facts_stated: u64,
    /// Chained up to the publication's root.
    pub facts_shown: u64,
    /// Of these, by a proof or a receipt that was checked.
    pub sessions_proven: u64,
    pub settlements_proven: u64,
    /// Of these, by somebody else's signature too: the buyer's, or that of a verifier other than
    /// the marketplace's own. The others rest on the marketplace's word alone.
    #[serde(default)]
    pub settlements_independent: u64,
    /// Where something was imported: whether it was checked by keys that the checker has of the
    /// other platform. By those that came along anybody can have signed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imports_pinned: Option<bool>,
}

/// 8.5.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct VerifyAnswer {
    /// Nothing that was checked failed.
    pub verified: bool,
    /// The highest level that holds, with all below it.
    pub level: Option<VerifyLevel>,
    pub recomputed_score: Option<u16>,
    /// The recomputed score is the stated one.
    pub matches: bool,
    pub signature_valid: bool,
    #[serde(default)]
    pub failed_checks: Vec<FailedCheck>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage: Option<Coverage>,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub checked_at: Timestamp,
}
