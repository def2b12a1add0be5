//! VCAP's messages (sections 3.1 to 3.7) and what Skep adds to them.
//!
//! Unknown fields are ignored when a message is read and kept in what is hashed: a message that
//! counts is stored as it came, and its hash is over that. What VCAP leaves to implementations
//! travels in `metadata.skep` ([`DealOptions`]), in `custom`, or beside the fields of the spec.

pub mod criteria;
mod deal;
mod delivery;
mod escrow;
mod negotiation;
mod schema;
mod verification;
mod verifier;

pub use self::{
    deal::{
        Agreement, AgreementStatus, CallbackTaken, Cancel, DealAnswer, Dispute, NegotiationAnswer,
        Objection, PaymentStatus, RefundReason, RefundRequest, Review, ReviewFile, ReviewStatus,
        Split, SplitOffer, Standing, Tier,
    },
    delivery::{Artifact, DeliveryBody, DeliveryStatus, ServiceDelivery},
    escrow::{
        EscrowHold, EscrowSettlement, EscrowStatus, Evidence, FeeSplit, PlatformFee,
        SettlementReceipt,
    },
    negotiation::{
        CounterTerms, DealOptions, Hints, Metadata, Negotiation, NegotiationRequest,
        NegotiationResponse, NegotiationStatus, Party, RemainderPolicy, ResponseStatus, Role,
        WorkRequest,
    },
    schema::{MESSAGES, schema},
    verification::{
        Action, AgentIdentity, Attachment, BaselineReport, Context, ErrorReport, Fingerprints,
        Outcome, ProofBody, ProofBundle, SplitVerdict, Verification, VerificationCallback,
        VerificationRequest, VerificationSpec, VerificationStatus, VerifierStamp,
    },
    verifier::{EngineOffer, NewVerifierKey, RegisterVerifier, Verifier, VerifierKey},
};

/// What `vcap_version` says.
pub const VCAP_VERSION: &str = "1.0";

/// The key id under which an agent's own key signs, where the requester is the verifier.
pub const AGENT_KID: &str = "agent";
/// The longest delivery or callback with its proof bundle, in bytes.
pub const DOCUMENT_LEN_MAX: usize = 512 * 1024;
/// Attachments of one callback.
pub const ATTACHMENTS_MAX: usize = 4;
/// All attachments of one callback together, in bytes of base64.
pub const ATTACHMENTS_LEN_MAX: usize = 1536 * 1024;
/// The longest callback with its attachments, in bytes.
pub const CALLBACK_LEN_MAX: usize = DOCUMENT_LEN_MAX + ATTACHMENTS_LEN_MAX;
/// The longest name or media type of an attachment, in bytes.
pub const ATTACHMENT_NAME_LEN_MAX: usize = 128;
/// The longest piece of text in a message that people read, in bytes.
pub const TEXT_LEN_MAX: usize = 8 * 1024;
/// Artifacts of one delivery.
pub const ARTIFACTS_MAX: usize = 32;
/// The longest `extracted_content`, in bytes; what was longer is cut.
pub const EXTRACT_LEN_MAX: usize = 16 * 1024;
/// Actions of one log.
pub const ACTIONS_MAX: usize = 256;

/// The engines that this program has, besides a person's judgement.
pub mod engine {
    pub const HTTP: &str = "http";
    pub const API: &str = "api";
    pub const ARTIFACT: &str = "artifact";
    /// A real browser.
    pub const BROWSER: &str = "browser";
    /// A language model with a rubric.
    pub const LLM: &str = "llm";
    /// Several engines: all, any, at least n, or in order.
    pub const COMPOSITE: &str = "composite";
    /// A reviewer decides.
    pub const HUMAN: &str = "human";
    /// The requester decides.
    pub const REQUESTER: &str = "requester";
    /// The provider's own word, where the requester agreed to that (decision 26).
    pub const SELF_ATTESTED: &str = "self_attested";
}
