//! Why the registry says no.

use serde::{Deserialize, Serialize};
use skep_base::id::ListingId;
use skep_hire::{
    listing::{LISTINGS_PER_AGENT_MAX, LISTINGS_PER_CAPABILITY_MAX, ListingRefusal},
    receipt::ReceiptRefusal,
};
use skep_wire::hire::SignedError;

use crate::{Failure, Refusal, answer::Stop};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "word", rename_all = "snake_case")]
pub enum HireRefusal {
    #[error(transparent)]
    Listing { reason: ListingRefusal },
    #[error(transparent)]
    Receipt { reason: ReceiptRefusal },
    /// The wallet's signature in a message does not hold.
    #[error("{detail}")]
    BadSignature { detail: String },
    #[error("an agent publishes at most {per_minute} listings in a minute")]
    TooManyListings { per_minute: usize, wait_ms: u64 },
    #[error(
        "an agent has at most {LISTINGS_PER_AGENT_MAX} listings, {LISTINGS_PER_CAPABILITY_MAX} of \
         one capability"
    )]
    ListingsFull,
    #[error("{origin} does not show that the agent's key is there: {detail}")]
    EndpointNotProven { origin: String, detail: String },
    #[error("this node cannot ask endpoints who they are; publish at another one")]
    NoEgress,
    #[error("there is no listing {listing}")]
    UnknownListing { listing: ListingId },
    #[error("the listing was removed after this was signed; sign it anew")]
    ListingRemoved,
    #[error("the listing was published anew after this was signed")]
    ListingNewer,
    #[error("nobody, or not only one, is paid at this address")]
    NobodyPaidThere,
    #[error("{detail}")]
    BadSearch { detail: String },
    #[error("there is no capability {capability:?}")]
    UnknownCapability { capability: String },
}

impl From<ListingRefusal> for HireRefusal {
    fn from(reason: ListingRefusal) -> HireRefusal {
        HireRefusal::Listing { reason }
    }
}

impl From<ReceiptRefusal> for HireRefusal {
    fn from(reason: ReceiptRefusal) -> HireRefusal {
        HireRefusal::Receipt { reason }
    }
}

impl From<SignedError> for HireRefusal {
    fn from(error: SignedError) -> HireRefusal {
        HireRefusal::BadSignature { detail: error.to_string() }
    }
}

impl From<HireRefusal> for Refusal {
    fn from(reason: HireRefusal) -> Refusal {
        Refusal::Hire { reason }
    }
}

/// Every reason of the registry ends a step, and a use case, in the same way.
macro_rules! ends {
    ($($reason:ty),+) => {$(
        impl From<$reason> for Stop {
            fn from(reason: $reason) -> Stop {
                Stop::Refused(HireRefusal::from(reason).into())
            }
        }

        impl From<$reason> for Failure {
            fn from(reason: $reason) -> Failure {
                Failure::Refused(HireRefusal::from(reason).into())
            }
        }
    )+};
}

ends!(HireRefusal, ListingRefusal, ReceiptRefusal, SignedError);
