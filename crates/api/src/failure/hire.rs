//! What callers are told when the registry says no.

use std::time::Duration;

use skep_hire::{listing::ListingRefusal, receipt::ReceiptRefusal};
use skep_market::HireRefusal;

use crate::code::Code;

pub(super) fn of_hire(reason: &HireRefusal) -> Code {
    match reason {
        HireRefusal::Listing { reason } => of_listing(reason),
        HireRefusal::Receipt { reason } => of_receipt(reason),
        HireRefusal::BadSignature { .. } => Code::BadWalletSignature,
        HireRefusal::TooManyListings { .. } => Code::TooManyListings,
        HireRefusal::ListingsFull => Code::ListingsFull,
        HireRefusal::EndpointNotProven { .. } => Code::EndpointNotProven,
        HireRefusal::NoEgress => Code::NoEgress,
        HireRefusal::UnknownListing { .. } => Code::UnknownListing,
        HireRefusal::ListingRemoved => Code::ListingRemoved,
        HireRefusal::ListingNewer => Code::ListingNewer,
        HireRefusal::NobodyPaidThere => Code::NobodyPaidThere,
        HireRefusal::BadSearch { .. } => Code::BadSearch,
        HireRefusal::UnknownCapability { .. } => Code::UnknownCapability,
    }
}

/// How long to wait before it may work.
pub(super) fn wait(reason: &HireRefusal) -> Option<Duration> {
    match reason {
        HireRefusal::TooManyListings { wait_ms, .. } => Some(Duration::from_millis(*wait_ms)),
        _ => None,
    }
}

fn of_listing(reason: &ListingRefusal) -> Code {
    match reason {
        ListingRefusal::BadCapability { .. } => Code::BadCapability,
        ListingRefusal::ZeroPrice => Code::BadPrice,
        ListingRefusal::BadLatency { .. } => Code::BadLatency,
        ListingRefusal::BadEndpoint { .. } => Code::BadEndpoint,
        ListingRefusal::DescriptionTooLong => Code::DescriptionTooLong,
        ListingRefusal::BadVersion { .. } => Code::BadVerificationVersion,
        ListingRefusal::ClarifiesStandard => Code::NotClarifiable,
        ListingRefusal::WrongEscrow { .. } => Code::WrongEscrow,
        ListingRefusal::BadEscrowAddress { .. } => Code::BadEscrowAddress,
        ListingRefusal::BadCurrency { .. } => Code::BadCurrency,
        ListingRefusal::TooLarge { .. } => Code::ListingTooLarge,
        ListingRefusal::NoIssueTime => Code::IssuedAtMissing,
    }
}

fn of_receipt(reason: &ReceiptRefusal) -> Code {
    match reason {
        ReceiptRefusal::BadProtocol { .. } => Code::BadProtocolVersion,
        ReceiptRefusal::BadHireId { .. } => Code::BadHireId,
        ReceiptRefusal::BadReceipt { .. } => Code::BadReceipt,
        ReceiptRefusal::SelfHire => Code::SelfHire,
        ReceiptRefusal::NotFresh { .. } => Code::ReceiptNotFresh,
        ReceiptRefusal::UnknownListing { .. } => Code::UnknownListing,
        ReceiptRefusal::WrongPayee { .. } => Code::WrongPayee,
        ReceiptRefusal::UnknownPayment { .. } => Code::UnknownPayment,
        ReceiptRefusal::PaymentMismatch { .. } => Code::PaymentMismatch,
        ReceiptRefusal::BadFreeCall => Code::BadFreeCall,
        ReceiptRefusal::NoFreeCalls => Code::BadFreeCall,
        ReceiptRefusal::FreeCallUsed { .. } => Code::FreeCallUsed,
        ReceiptRefusal::PaymentUsed { .. } => Code::PaymentUsed,
        ReceiptRefusal::DuplicateHireId { .. } => Code::DuplicateHireId,
        ReceiptRefusal::UnknownReceipt { .. } => Code::UnknownReceipt,
        ReceiptRefusal::WrongReceiptHash => Code::WrongReceiptHash,
        ReceiptRefusal::NotTheBuyer { .. } => Code::NotTheBuyer,
        ReceiptRefusal::AlreadyCounterSigned => Code::AlreadyCountersigned,
        ReceiptRefusal::NoPayloadWanted => Code::NoPayloadWanted,
        ReceiptRefusal::PayloadMismatch { .. } => Code::PayloadMismatch,
    }
}
