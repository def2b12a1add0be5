//! The agreement between both sides, and what can happen to it besides delivery.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::{
    AgentId, Amount, Hash32, Money, Timestamp,
    id::{DealId, VerificationId},
};

use super::{
    escrow::{EscrowHold, EscrowStatus, SettlementReceipt},
    negotiation::{DealOptions, Hints, NegotiationStatus, Role},
    verification::{Outcome, VerificationRequest, VerificationStatus},
};

/// 4.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum AgreementStatus {
    Active,
    Completed,
    Disputed,
    Cancelled,
}

/// Whether what is owed beyond the escrow has been paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum PaymentStatus {
    /// Nothing is owed.
    Clear,
    /// A debt is open; every credit of the debtor pays it first.
    PaymentDue,
    /// A debt has been open for more than seven days.
    Defaulted,
}

/// Why money went back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum RefundReason {
    /// An engine found the criteria not met.
    VerificationFailed,
    /// A person did.
    Rejected,
    /// The provider delivered `failed`.
    DeliveryFailed,
    /// Nothing was delivered in time.
    DeadlineMissed,
    /// The provider cancelled before delivery.
    CancelledByProvider,
    /// The requester cancelled when it may.
    CancelledByRequester,
    /// Both agreed to cancel, or to divide the price.
    Agreed,
    /// The agreed time for a review passed.
    ReviewDeadline,
}

impl RefundReason {
    /// Whether it counts against the provider's score (decision 31).
    pub fn is_providers_fault(self) -> bool {
        match self {
            RefundReason::VerificationFailed
            | RefundReason::Rejected
            | RefundReason::DeliveryFailed
            | RefundReason::DeadlineMissed
            // Else whoever is about to fail would cancel.
            | RefundReason::CancelledByProvider => true,
            RefundReason::CancelledByRequester
            | RefundReason::Agreed
            | RefundReason::ReviewDeadline => false,
        }
    }
}

/// One side's proposal to divide the price; the other's same words settle it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SplitOffer {
    pub by: Role,
    /// What the provider would get.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub released_minor: Amount,
}

/// `GET /vcap/v1/agreements/{id}`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Agreement {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub negotiation_id: DealId,
    pub status: AgreementStatus,
    pub escrow_status: EscrowStatus,
    pub payment_status: PaymentStatus,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub requester: AgentId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub provider: AgentId,
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub price: Money,
    pub criteria: Hints,
    pub options: DealOptions,
    /// The terms as they were hashed.
    pub terms: Value,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub terms_hash: Hash32,
    pub escrow: EscrowHold,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub accepted_at: Timestamp,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub deadline: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub delivered_at: Option<Timestamp>,
    /// Each attempt to verify, oldest first.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub verifications: Vec<VerificationId>,
    /// Why it ended, where it was refunded or cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<RefundReason>,
    /// Whether a dispute is open.
    pub dispute_open: bool,
    /// Until when a failed verdict can be disputed, or an automatic approval objected to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub window_until: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_offer: Option<SplitOffer>,
    /// The requester has asked to cancel; the provider's word is awaited.
    pub cancel_asked: bool,
    /// Whether the baseline that the terms want has been taken.
    pub baseline_taken: bool,
    /// Whether both sides have the same operator: such deals are never scored.
    pub linked: bool,
}

/// `POST /vcap/v1/agreements/{id}/cancel`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Cancel {}

/// `POST /vcap/v1/agreements/{id}/disputes`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Dispute {
    pub reason: String,
}

/// `POST /vcap/v1/agreements/{id}/objections`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Objection {
    pub reason: String,
}

/// `POST /vcap/v1/agreements/{id}/refunds`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RefundRequest {}

/// `POST /vcap/v1/agreements/{id}/splits`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Split {
    /// What the provider gets of the price; the rest stays with the requester.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub released_minor: Amount,
}

/// Where a review stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ReviewStatus {
    Pending,
    Decided,
    /// The agreed time passed: the requester was refunded, or the disputed verdict stood.
    Lapsed,
}

/// An entry of the review queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Review {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub negotiation_id: DealId,
    pub status: ReviewStatus,
    /// `timeout`, `error`, `human`, `dispute`, `objection` or `no_verifier`.
    pub cause: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub opened_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub deadline: Option<Timestamp>,
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub price: Money,
    pub description: String,
}

/// 7.3: everything that a reviewer needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReviewFile {
    pub review: Review,
    /// The agreement with its terms and the escrow hold.
    pub agreement: Agreement,
    /// The delivery as it came.
    pub delivery: Option<Value>,
    /// Callbacks so far, late ones included.
    pub callbacks: Vec<Value>,
    /// What each side said when it disputed or objected.
    pub statements: Vec<String>,
    /// What the reviewer answers: the decision is a callback to this.
    pub request: VerificationRequest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub supersedes: Option<VerificationId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disputed_outcome: Option<Outcome>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_status: Option<VerificationStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settlement: Option<SettlementReceipt>,
}

/// ATEP's tiers, lowest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Tier {
    #[default]
    Unverified,
    Basic,
    Verified,
    Trusted,
}

/// What the market thinks of a provider, where it matters for a deal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Standing {
    /// Which part of a price is held, in 1/10000 (decision 8).
    pub modifier_e4: u16,
    pub tier: Tier,
    /// The provider's subscription, which may lower the fee.
    pub subscription: Option<String>,
    /// Whether the platform fronts a fifth of the hold (decision 11).
    pub subsidised: bool,
    /// The part that is really held, where a score says so.
    #[serde(skip)]
    pub effective_e4: Option<u16>,
}

impl Standing {
    /// The part of a price that is really held: all of it while nobody knows the provider
    /// (decision 8).
    pub fn effective_modifier_e4(&self) -> u16 {
        match (self.effective_e4, self.tier) {
            (Some(effective), _) => effective,
            (None, Tier::Unverified) => 10_000,
            (None, _) => self.modifier_e4,
        }
    }
}

impl Default for Standing {
    /// Of somebody unknown: everything is held.
    fn default() -> Standing {
        let (modifier_e4, tier) = (10_000, Tier::Unverified);
        let (subscription, subsidised, effective_e4) = (None, false, None);
        Standing { modifier_e4, tier, subscription, subsidised, effective_e4 }
    }
}

/// Where a negotiation stands after a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NegotiationAnswer {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub negotiation_id: DealId,
    pub status: NegotiationStatus,
    /// Whose answer is awaited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<Role>,
    pub rounds: u8,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub expires_at: Timestamp,
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub price: Money,
    /// 3.3, once the offer is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escrow: Option<EscrowHold>,
}

/// Where a deal stands after a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DealAnswer {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub negotiation_id: DealId,
    pub agreement: AgreementStatus,
    pub escrow: EscrowStatus,
    /// The last verification, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub verification_id: Option<VerificationId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<VerificationStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub verifier: Option<AgentId>,
}

/// What became of a callback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CallbackTaken {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub verification_id: VerificationId,
    pub status: VerificationStatus,
    pub escrow: EscrowStatus,
    /// It was known already, and changed nothing.
    pub duplicate: bool,
}
