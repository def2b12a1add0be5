//! SHP: listings, hires, receipts and what belongs to them.

mod binding;
mod budget;
mod clarify;
mod escrow;
mod listing;
mod receipt;
mod request;
mod search;
mod signed;
mod terms;
#[cfg(test)]
mod tests;
mod verification;

pub use self::{
    binding::{BindingRefusal, WALLET_BINDING_SECONDS_MAX, WalletBinding},
    budget::{BUDGET_DEPTH_MAX, BUDGET_SECONDS_MAX, Budget, BudgetIssuer, BudgetToken},
    clarify::{
        BRIEF_LEN_MAX, CLARIFY_BUYER_MS, CLARIFY_PER_DAY, CLARIFY_SELLER_MS, COUNTER_PAUSE_MS,
        Clarified, ClarifyRequest, Counter, OPTIONS_MAX, Quote,
    },
    escrow::{
        ESCROW_WAIT_MS_MAX, EscrowOrder, EscrowTerms, EscrowVerb, HireEscrow, TimeoutRefund,
        WINDOW_ASYNC_MS, WINDOW_SYNC_MS,
    },
    listing::{
        DESCRIPTION_LEN_MAX, ENDPOINT_LEN_MAX, EndpointProof, Listing, ListingAccepted,
        ListingRemoval, MAX_LATENCY_MS_MAX, MAX_LATENCY_MS_MIN, listing_id,
    },
    receipt::{
        CounterSignature, CounterSigned, Findings, HIRE_ID_LEN_MAX, HirePayload, Judgement, NO_TX,
        Rating, Receipt, ReceiptAccepted, StoredReceipt,
    },
    request::{
        HIRE_FRESH_MS, HIRE_NONCE_LEN_MAX, HireEnvelope, HireFacts, HireReceipt, HireRequest,
        HireResponse, JobAccepted, JobCallback, JobError, JobStatus, direct_payment_nonce,
        is_shown_with_hire, receipt_id,
    },
    search::{
        Found, Match, Ranking, Reputation, SEARCH_LIMIT_DEFAULT, SEARCH_LIMIT_MAX, Search,
        SearchAnswer,
    },
    signed::{SignedError, WalletSigned},
    terms::{
        Clarifies, NotAPaymentMode, PAYMENT_MODE_LEN_MAX, PROTOCOL, PROTOCOL_CLARIFY, PaymentMode,
        UnknownProtocol, Usdc, check_protocol,
    },
    verification::{CHECKS_MAX, Check, Verification, VerificationSummary},
};
