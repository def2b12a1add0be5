//! What callers are told when a step of a deal is refused.

use skep_market::DealRefusal;
use skep_settle::{deal, negotiation, proof::Fault, review, verification};

use crate::code::Code;

pub(super) fn of_deal(reason: &DealRefusal) -> Code {
    match reason {
        DealRefusal::UnknownDeal { .. } => Code::UnknownDeal,
        DealRefusal::Message { .. } => Code::BadMessage,
        DealRefusal::SelfDeal => Code::SelfDeal,
        DealRefusal::Talks { reason } => match reason {
            negotiation::Refusal::NotYourTurn => Code::NotYourTurn,
            negotiation::Refusal::Closed => Code::NegotiationClosed,
            negotiation::Refusal::Expired { .. } => Code::OfferExpired,
            negotiation::Refusal::TooManyRounds => Code::TooManyRounds,
        },
        DealRefusal::Price { .. } => Code::PriceChanged,
        DealRefusal::FundingFailed { .. } => Code::EscrowFundingFailed,
        DealRefusal::RemainderLimit { .. } => Code::RemainderLimit,
        DealRefusal::AdvanceLimit { .. } => Code::AdvanceLimit,
        DealRefusal::DeadlineInPast { .. } => Code::DeadlineInPast,
        DealRefusal::BadExpiry { .. } => Code::BadExpiry,
        DealRefusal::Step { reason } => of_step(reason),
        DealRefusal::Criteria { .. } => Code::CriteriaChanged,
        DealRefusal::NotTheProvider => Code::NotTheProvider,
        DealRefusal::NotTheRequester => Code::NotTheRequester,
        DealRefusal::Proof { reason } => of_proof(reason),
        DealRefusal::UnknownVerifier { .. } => Code::UnknownVerifier,
        DealRefusal::VerifierNotIndependent { .. } => Code::VerifierNotIndependent,
        DealRefusal::VerifierLacksEngine { .. } => Code::VerifierLacksEngine,
        DealRefusal::VerifierTooDear { .. } => Code::VerifierTooDear,
        DealRefusal::UnknownVerifierKey { .. } => Code::UnknownVerifierKey,
        DealRefusal::VerifierKeyRevoked { .. } => Code::VerifierKeyRevoked,
        DealRefusal::VerifierKeyExpired { .. } => Code::VerifierKeyExpired,
        DealRefusal::BadKeyId => Code::BadKeyId,
        DealRefusal::BadVerifier { .. } => Code::BadVerifier,
        DealRefusal::NotAReviewer { .. } => Code::NotAReviewer,
        DealRefusal::ReviewersOnly => Code::ReviewersOnly,
        DealRefusal::BadCompletionTime { .. } => Code::BadCompletionTime,
        DealRefusal::BundleUnreachable { .. } => Code::BundleUnreachable,
        DealRefusal::BenchmarkRequired { .. } => Code::BenchmarkRequired,
        DealRefusal::NotSettled => Code::NotSettled,
        DealRefusal::AskAgain => Code::DealBusy,
    }
}

fn of_step(reason: &deal::Refusal) -> Code {
    match reason {
        deal::Refusal::AlreadySettled => Code::AlreadySettled,
        deal::Refusal::Delivered { .. } => Code::AlreadyDelivered,
        deal::Refusal::DeadlinePassed { .. } => Code::DeadlinePassed,
        deal::Refusal::DeadlineNotPassed { .. } => Code::DeadlineNotPassed,
        deal::Refusal::AutoApproveNotAgreed { .. } => Code::AutoApproveNotAgreed,
        deal::Refusal::BaselinePending => Code::BaselinePending,
        deal::Refusal::NoBaselineWanted => Code::NoBaselineWanted,
        deal::Refusal::UnknownAttempt => Code::UnknownVerification,
        deal::Refusal::NotTheVerifier => Code::NotTheVerifier,
        deal::Refusal::Verification { reason } => match reason {
            verification::Refusal::Over { .. } => Code::VerificationOver,
            verification::Refusal::TooLate { .. } => Code::VerificationTimedOut,
        },
        deal::Refusal::Review { reason } => match reason {
            review::Refusal::Over | review::Refusal::TooLate { .. } => Code::ReviewOver,
        },
        deal::Refusal::NothingToDispute => Code::NothingToDispute,
        deal::Refusal::DisputeOpen => Code::DisputeOpen,
        deal::Refusal::NothingToObject => Code::NothingToObject,
        deal::Refusal::BadSplit => Code::BadSplit,
        deal::Refusal::SplitNotAllowed => Code::SplitNotAllowed,
        deal::Refusal::TooManyAttempts => Code::TooManyAttempts,
    }
}

fn of_proof(fault: &Fault) -> Code {
    match fault {
        Fault::NoBundle => Code::ProofMissing,
        Fault::Unreadable { .. } => Code::ProofUnreadable,
        Fault::HashMismatch { .. } => Code::ProofHashMismatch,
        Fault::ForeignBundle { .. } => Code::ProofForeign,
        Fault::OtherSpec => Code::ProofOtherSpec,
        Fault::OutcomeMismatch => Code::ProofOutcomeMismatch,
        Fault::FieldMismatch { .. } => Code::ProofFieldMismatch,
        Fault::BrokenChain { .. } => Code::ProofChainBroken,
        Fault::BadAction { .. } => Code::ProofBadAction,
        Fault::BadAttachment { .. } => Code::ProofBadAttachment,
        Fault::ContentChanged => Code::ProofContentChanged,
        Fault::ForeignIdentity => Code::ProofForeignIdentity,
        Fault::BadSignature { .. } => Code::ProofBadSignature,
    }
}
