//! Why a step of a deal is refused.

use serde::{Deserialize, Serialize};
use skep_base::{AgentId, Timestamp, id::DealId};
use skep_settle::{
    BadMessage, criteria::CriteriaChanged, deal, negotiation, offer::PriceChanged, proof,
};
use skep_wire::problem::BenchmarkGap;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "word", rename_all = "snake_case")]
pub enum DealRefusal {
    #[error("there is no deal {deal} that you are a part of")]
    UnknownDeal { deal: DealId },
    #[error(transparent)]
    Message { reason: BadMessage },
    #[error("requester and provider are the same agent")]
    SelfDeal,
    #[error(transparent)]
    Talks { reason: negotiation::Refusal },
    #[error(transparent)]
    Price { reason: PriceChanged },
    #[error(
        "the requester's wallet has {available_minor} minor units free, {needed_minor} are needed"
    )]
    FundingFailed { needed_minor: i64, available_minor: i64 },
    #[error("promises may reach {limit_minor} minor units, and would be {would_be_minor}")]
    RemainderLimit { limit_minor: i64, would_be_minor: i64 },
    #[error("open advances may reach {limit_minor} minor units, and would be {would_be_minor}")]
    AdvanceLimit { limit_minor: i64, would_be_minor: i64 },
    #[error("the deadline {deadline} has passed already")]
    DeadlineInPast { deadline: Timestamp },
    #[error("the offer would expire at {expires_at}, which is past or more than 90 days ahead")]
    BadExpiry { expires_at: Timestamp },
    #[error(transparent)]
    Step { reason: deal::Refusal },
    #[error(transparent)]
    Criteria { reason: CriteriaChanged },
    #[error("only the provider of this deal delivers")]
    NotTheProvider,
    #[error("only the requester of this deal may do that")]
    NotTheRequester,
    #[error(transparent)]
    Proof { reason: proof::Fault },
    #[error("{agent} is not registered as a verifier; see POST /vcap/v1/verifiers")]
    UnknownVerifier { agent: AgentId },
    #[error("{agent} is one of the sides, or run by the operator of one")]
    VerifierNotIndependent { agent: AgentId },
    #[error("{agent} has no engine {engine}")]
    VerifierLacksEngine { agent: AgentId, engine: String },
    #[error("{agent} asks {price_minor} minor units for a verdict, and the terms give less")]
    VerifierTooDear { agent: AgentId, price_minor: i64 },
    #[error("the verifier has no key {kid}")]
    UnknownVerifierKey { kid: String },
    #[error("the verifier's key {kid} was revoked")]
    VerifierKeyRevoked { kid: String },
    #[error("the verifier's key {kid} is not valid at this time")]
    VerifierKeyExpired { kid: String },
    #[error("a key id is 1 to 64 letters, digits, dots, dashes and underscores, used once")]
    BadKeyId,
    #[error("{what}")]
    BadVerifier { what: String },
    #[error("{agent} is not a reviewer of this marketplace")]
    NotAReviewer { agent: AgentId },
    #[error("this verification is a reviewer's to decide: POST /vcap/v1/reviews/…/decision")]
    ReviewersOnly,
    #[error("completed_at {completed_at} lies before the request, a day ago or in the future")]
    BadCompletionTime { completed_at: Timestamp },
    #[error("the proof bundle cannot be fetched: {detail}")]
    BundleUnreachable { detail: String },
    #[error(transparent)]
    BenchmarkRequired { reason: BenchmarkGap },
    #[error("there is no settlement yet")]
    NotSettled,
    /// Never leaves the market: what was prepared outside the transaction was not enough.
    #[error("the deal changed meanwhile; try again")]
    AskAgain,
}

impl From<deal::Refusal> for DealRefusal {
    fn from(reason: deal::Refusal) -> DealRefusal {
        DealRefusal::Step { reason }
    }
}

impl From<BadMessage> for DealRefusal {
    fn from(reason: BadMessage) -> DealRefusal {
        DealRefusal::Message { reason }
    }
}

impl From<negotiation::Refusal> for DealRefusal {
    fn from(reason: negotiation::Refusal) -> DealRefusal {
        DealRefusal::Talks { reason }
    }
}

impl From<proof::Fault> for DealRefusal {
    fn from(reason: proof::Fault) -> DealRefusal {
        DealRefusal::Proof { reason }
    }
}

impl From<CriteriaChanged> for DealRefusal {
    fn from(reason: CriteriaChanged) -> DealRefusal {
        DealRefusal::Criteria { reason }
    }
}
