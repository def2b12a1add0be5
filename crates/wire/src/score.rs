//! SwarmScore and ATEP: what is published, exported and imported.
//!
//! What somebody else has signed is carried as it came ([`serde_json::Value`]): its signature is
//! over fields that this program may not know.

mod certificate;
mod event;
mod fact;
mod fraction;
mod keys;
mod parameters;
mod passport;
mod portability;
mod profile;
mod publication;
#[cfg(test)]
mod tests;
mod verify;
mod view;

pub use self::{
    certificate::{Certificate, ImportSource, Ordered, Settled, Verdict},
    event::{BenchmarkEvent, BenchmarkEventType, BenchmarkStatus, BenchmarkTier, Evaluator},
    fact::{Dimension, Fact, NumberedFact},
    fraction::Fraction,
    keys::{ALG_ED25519, IssuerKey, KeyPurpose, KeySet},
    parameters::{Level, Parameters},
    passport::{
        Badge, BadgeEvidence, BadgeKind, Blocked, Capabilities, Extensions, HistoricalBadge,
        Identity, Passport, PassportIssuer, PublicPassport, PublicStatistics, PublicTier, Safety,
        Statistics, TrustTier,
    },
    portability::{
        Export, ImportAnswer, ImportRequest, ImportedCounts, InformalTier, Probation,
        TrustRegistry, TrustedIssuer,
    },
    profile::{BadgeRegistration, CertificationTier, Computation, ExtensionField, Profile},
    publication::{
        BenchmarkState, Commercial, Dimensions, Diversity, Escrow, Evidence, GateResults, Issuer,
        LogSpan, Phase, Publication, ScoreValue, Technical, VolumeFlag, WithImports, passport_id,
        signed_bytes,
    },
    verify::{Coverage, FailedCheck, VerifyAnswer, VerifyLevel, VerifyRequest},
    view::{OperatorReview, ScoreView},
};

/// What `swarmscore_version` says.
pub const SWARMSCORE_VERSION: &str = "1.0";
/// What `atep_version` says.
pub const ATEP_VERSION: &str = "1.0";
/// Which arithmetic a score was made with (decision 36).
pub const FORMULA_VERSION: &str = "swarmscore/1.0";

/// 7.4.
pub const HEADER_SCORE: &str = "x-swarmscore";
pub const HEADER_TIER: &str = "x-swarmscore-tier";
pub const HEADER_MODIFIER: &str = "x-swarmscore-escrow-modifier";
/// Our own beside them: what is really held (decision 8).
pub const HEADER_EFFECTIVE_MODIFIER: &str = "x-swarmscore-effective-modifier";

/// 8.4: session proofs in a certificate, and proof hashes in a publication.
pub const RECENT_PROOFS_MAX: usize = 10;
/// Facts in a certificate, and the facts that flags are looked for in.
pub const CERTIFICATE_FACTS_MAX: usize = 1000;
/// Settlement receipts in a certificate.
pub const CERTIFICATE_SETTLEMENTS_MAX: usize = 100;
/// Domains in a passport, the most frequent ones.
pub const PASSPORT_DOMAINS_MAX: usize = 50;
/// Events of a benchmark's history in a passport, the newest ones.
pub const PASSPORT_HISTORY_MAX: usize = 50;
