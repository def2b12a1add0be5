//! 14.1 and 14.4: how SwarmScore is registered as a profile of ATEP. Criteria are the
//! registered ones, descriptions are our own, and what is added has fields of its own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{event::BenchmarkTier, passport::BadgeKind};

/// One field of the extension.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExtensionField {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    pub required: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Computation {
    pub algorithm: String,
    pub deterministic: bool,
    pub stateless: bool,
    pub reference_implementation: String,
    /// Which arithmetic.
    pub formula_version: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CertificationTier {
    pub name: BenchmarkTier,
    pub badge_type: BadgeKind,
    pub criteria: String,
}

/// 14.4.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BadgeRegistration {
    pub badge_type: BadgeKind,
    pub label: String,
    pub description: String,
    pub criteria: String,
    pub expiry: String,
}

/// 14.1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Profile {
    pub profile_name: String,
    pub profile_version: String,
    pub base_specification: String,
    pub profile_type: String,
    pub description: String,
    pub extension_fields: BTreeMap<String, ExtensionField>,
    pub computation: Computation,
    pub certification_tiers: Vec<CertificationTier>,
    pub badges: Vec<BadgeRegistration>,
}

impl Profile {
    /// SwarmScore's own.
    pub fn swarmscore() -> Profile {
        Profile {
            profile_name: "swarmscore-v1".to_owned(),
            profile_version: "1.0".to_owned(),
            base_specification: "atep-v1.0".to_owned(),
            profile_type: "certification".to_owned(),
            description: "A score from 0 to 1000 that anybody can compute again from what an \
                          agent did in recorded sessions and in escrows."
                .to_owned(),
            extension_fields: extension_fields(),
            computation: Computation {
                algorithm: "computeSwarmScore".to_owned(),
                deterministic: true,
                stateless: true,
                reference_implementation: REFERENCE.to_owned(),
                formula_version: super::FORMULA_VERSION.to_owned(),
            },
            certification_tiers: vec![
                CertificationTier {
                    name: BenchmarkTier::Standard,
                    badge_type: BadgeKind::BenchmarkStandard,
                    criteria: criteria(700, 50, 25, "0.95"),
                },
                CertificationTier {
                    name: BenchmarkTier::Elite,
                    badge_type: BadgeKind::BenchmarkElite,
                    criteria: criteria(850, 150, 50, "0.97"),
                },
            ],
            badges: vec![
                BadgeRegistration::standard(), //
                BadgeRegistration::elite(),
            ],
        }
    }
}

fn extension_fields() -> BTreeMap<String, ExtensionField> {
    let field = |kind: &str| ExtensionField {
        kind: kind.to_owned(),
        required: true,
        ..ExtensionField::default()
    };
    let choice = |values: &[&str]| ExtensionField {
        values: values.iter().map(|value| (*value).to_owned()).collect(),
        ..field("enum")
    };
    let range =
        |kind: &str, max: f64| ExtensionField { min: Some(0.0), max: Some(max), ..field(kind) };
    let fields = [
        ("conduitSessions90d", field("integer")),
        ("conduitSuccessful90d", field("integer")),
        ("ap2Sessions90d", field("integer")),
        ("ap2Successful90d", field("integer")),
        ("swarmScore", range("integer", 1000.0)),
        ("swarmScoreTier", choice(&["NONE", "STANDARD", "ELITE"])),
        ("escrowModifier", range("float", 1.0)),
        ("benchmarkStatus", choice(&["ACTIVE", "SUSPENDED", "REVOKED", "NONE"])),
        (
            "benchmarkHistory",
            ExtensionField {
                items: Some("BenchmarkEvent".to_owned()),
                required: false,
                ..field("array")
            },
        ),
        (
            "proofChainRoot",
            ExtensionField {
                format: Some("sha256-hex".to_owned()),
                required: false,
                ..field("string")
            },
        ),
    ];
    fields.into_iter().map(|(name, field)| (name.to_owned(), field)).collect()
}

fn criteria(score: u16, conduit: u32, ap2: u32, rate: &str) -> String {
    format!(
        "swarmScore >= {score} AND conduitSessions90d >= {conduit} AND ap2Sessions90d >= {ap2} \
         AND combinedSuccessRate90d >= {rate} AND atepTier >= VERIFIED AND \
         hasCryptographicIdentity AND disputedSessionsActive == 0"
    )
}

impl BadgeRegistration {
    pub fn standard() -> BadgeRegistration {
        BadgeRegistration {
            badge_type: BadgeKind::BenchmarkStandard,
            label: "SwarmScore Benchmark".to_owned(),
            description: "What this agent did and can prove is enough to let it work alone."
                .to_owned(),
            criteria: "SwarmScore >= 700, VERIFIED tier, 50+ Conduit sessions (90d), 25+ AP2 \
                       sessions (90d), >= 95% combined success rate (90d), crypto identity, zero \
                       active disputes"
                .to_owned(),
            expiry: ROLLING.to_owned(),
        }
    }

    pub fn elite() -> BadgeRegistration {
        BadgeRegistration {
            badge_type: BadgeKind::BenchmarkElite,
            label: "SwarmScore Benchmark Elite".to_owned(),
            description: "One of the most reliable agents, in recorded sessions and in escrows \
                          alike."
                .to_owned(),
            criteria: "SwarmScore >= 850, VERIFIED tier, 150+ Conduit sessions (90d), 50+ AP2 \
                       sessions (90d), >= 97% combined success rate (90d), crypto identity, zero \
                       active disputes"
                .to_owned(),
            expiry: ROLLING.to_owned(),
        }
    }
}

const ROLLING: &str = "rolling (continuous re-evaluation)";
const REFERENCE: &str = "https://github.com/swarmsync-ai/swarmscore-spec/blob/main/src/compute.ts";
