//! A deal from acceptance to its last cent: agreement, escrow, verifications and review joined.

mod act;
mod judge;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use skep_base::{
    AgentId, Amount, Did, Hash32, Timestamp,
    ed25519::Signature,
    id::{DealId, VerificationId},
};
use skep_wire::settle::{
    DeliveryStatus, Outcome, RefundReason, ReviewStatus, Role, SplitOffer, Tier, VerificationSpec,
    VerificationStatus, engine,
};

use crate::{
    agreement, escrow, review,
    terms::{Policy, Terms},
    verification,
};

/// After the deadline the provider has this much longer (decision 31).
pub const GRACE: Duration = Duration::from_secs(3600);
/// A requester may think again for so long after acceptance (decision 29a).
pub const REQUESTER_CANCELS_WITHIN: Duration = Duration::from_secs(15 * 60);
/// How long a disputed verdict waits for a reviewer; then it stands (decision 29a).
pub const DISPUTE_REVIEW: Duration = Duration::from_secs(72 * 3600);
/// How long a requester may object to the provider's word (decision 26).
pub const OBJECTION_WINDOW: Duration = Duration::from_secs(24 * 3600);
/// How long a delivery waits for the baseline to be taken.
pub const BASELINE_WAIT: Duration = Duration::from_secs(300);
/// Attempts to verify one deal: one, one more after an error, and reviews.
pub const ATTEMPTS_MAX: usize = 8;

/// The proof of a verdict, as it is kept with the settlement (9.5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProofRef {
    pub hash: Hash32,
    pub signature: Signature,
    /// Whose word it is.
    pub by: AgentId,
    pub kid: String,
    /// Whether a bundle was there to be checked.
    pub bundle: bool,
}

/// One attempt to verify.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// From 1.
    pub number: u8,
    pub status: VerificationStatus,
    /// Who is to say: a verifier, or the requester. Nobody in particular if a reviewer is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifier: Option<AgentId>,
    pub spec: VerificationSpec,
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<ProofRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<VerificationId>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Review {
    pub status: ReviewStatus,
    pub cause: review::Cause,
    pub opened_at: Timestamp,
    pub deadline: Option<Timestamp>,
    /// The attempt that the reviewer answers.
    pub attempt: u8,
}

/// A dispute with what its opener put down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contest {
    pub by: Role,
    pub deposit: Amount,
}

/// How an escrow closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    pub at: Timestamp,
    pub released: Amount,
    pub method: Method,
    /// The attempt whose verdict it rests on.
    pub attempt: Option<u8>,
}

/// What a settlement rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// A verdict with a checked bundle.
    Proof,
    /// A verdict by signature alone.
    BundleLess,
    /// The provider's word, as agreed. Never scored.
    SelfAttested,
    /// Both sides' signatures.
    Agreed,
    /// No verdict: cancelled, or too late.
    None,
}

impl Method {
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Proof => "proof",
            Method::BundleLess => "bundle_less",
            Method::SelfAttested => "self_attested",
            Method::Agreed => "agreed",
            Method::None => "none",
        }
    }
}

/// A deal since its acceptance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Deal {
    pub id: DealId,
    pub requester: AgentId,
    pub provider: AgentId,
    pub requester_operator: Did,
    pub provider_operator: Did,
    pub terms: Terms,
    pub terms_hash: Hash32,
    pub accepted_at: Timestamp,
    pub agreement: agreement::State,
    pub escrow: escrow::State,
    /// Of the delivery as it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered: Option<Delivered>,
    pub attempts: Vec<Attempt>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<Review>,
    /// Until when a verdict can be contested, or the provider's word objected to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_until: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contest: Option<Contest>,
    /// Why the disputed verdict would refund.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict_reason: Option<RefundReason>,
    /// What the sides said when they disputed or objected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statements: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_offer: Option<SplitOffer>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancel_asked: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline_by: Option<AgentId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Hash32>,
    /// The verifier whose verdict is to be paid for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifier_due: Option<AgentId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<Closed>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivered {
    pub at: Timestamp,
    pub hash: Hash32,
    pub status: DeliveryStatus,
}

/// A verdict whose proof was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub outcome: Outcome,
    pub proof: ProofRef,
    pub failure_reason: Option<String>,
    /// A reviewer's division of the price: what is released.
    pub released: Option<Amount>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// 3.4. `verifier`: who would look at it, if an engine can.
    Deliver {
        hash: Hash32,
        status: DeliveryStatus,
        spec: VerificationSpec,
        auto_approve: bool,
        tier: Tier,
        verifier: Option<AgentId>,
    },
    /// The verifier has begun.
    Acknowledge {
        attempt: u8,
        by: AgentId,
    },
    /// 3.6. `substitute`: who would look again if this was an error.
    Decide {
        attempt: u8,
        verdict: Verdict,
        substitute: Option<AgentId>,
    },
    Baseline {
        by: AgentId,
        fingerprint: Hash32,
    },
    Cancel {
        by: Role,
    },
    /// The deadline has passed: anyone may ask for the refund.
    ClaimRefund,
    Dispute {
        by: Role,
        reason: String,
    },
    Object {
        reason: String,
        verifier: Option<AgentId>,
    },
    Split {
        by: Role,
        released: Amount,
    },
    /// Time has passed.
    Tick,
}

/// What becomes of a dispute's deposit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DepositEnd {
    /// Nobody lost: it goes back.
    Returned,
    /// The opener lost it.
    Lost,
    /// It goes back, and the other side pays as much.
    PaidByOther,
}

/// What a step owes the world.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Close the escrow's account: so much of the price goes to the provider.
    Settle {
        released: Amount,
        deposit: Option<(Contest, DepositEnd)>,
    },
    /// Ask the attempt's verifier.
    Ask {
        attempt: u8,
    },
    /// Put it before the reviewers.
    OpenReview,
    /// Take it off the reviewers' list.
    CloseReview,
    TakeDeposit(Contest),
    /// Tell both sides, under this name.
    Tell(&'static str),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum Refusal {
    #[error("the escrow was settled before")]
    AlreadySettled,
    #[error("the work was delivered at {at}; from then on a verdict decides")]
    Delivered { at: Timestamp },
    #[error("the time for delivery ended at {deadline}")]
    DeadlinePassed { deadline: Timestamp },
    #[error("a refund can be asked for from {from} on")]
    DeadlineNotPassed { from: Timestamp },
    #[error("the provider's word is not enough: {why}")]
    AutoApproveNotAgreed { why: String },
    #[error("the page's state before the work is still being taken; deliver again in a moment")]
    BaselinePending,
    #[error("no baseline is wanted from this agent now")]
    NoBaselineWanted,
    #[error("there is no such verification of this deal")]
    UnknownAttempt,
    #[error("another verifier was asked")]
    NotTheVerifier,
    #[error(transparent)]
    Verification { reason: verification::Refusal },
    #[error(transparent)]
    Review { reason: review::Refusal },
    #[error("no verdict can be contested now")]
    NothingToDispute,
    #[error("a dispute is open already")]
    DisputeOpen,
    #[error("there is nothing to object to now")]
    NothingToObject,
    #[error("at most the price can be released, and a verdict divides all of it")]
    BadSplit,
    #[error("only a reviewer divides a price")]
    SplitNotAllowed,
    #[error("too many attempts to verify this deal")]
    TooManyAttempts,
}

impl From<verification::Refusal> for Refusal {
    fn from(reason: verification::Refusal) -> Refusal {
        Refusal::Verification { reason }
    }
}

impl From<review::Refusal> for Refusal {
    fn from(reason: review::Refusal) -> Refusal {
        Refusal::Review { reason }
    }
}

impl From<escrow::AlreadySettled> for Refusal {
    fn from(_: escrow::AlreadySettled) -> Refusal {
        Refusal::AlreadySettled
    }
}

impl From<agreement::OutOfTurn> for Refusal {
    fn from(_: agreement::OutOfTurn) -> Refusal {
        Refusal::AlreadySettled
    }
}

/// The deal after one input, and what is owed for it.
pub fn step(
    deal: &Deal,
    now: Timestamp,
    policy: &Policy,
    input: Input,
) -> Result<(Deal, Vec<Effect>), Refusal> {
    let mut next = Stepped { deal: deal.clone(), now, effects: Vec::new() };
    if deal.escrow != escrow::State::Held {
        return match input {
            // A timer that comes late finds nothing to do.
            Input::Tick => Ok((next.deal, next.effects)),
            Input::Decide { attempt, .. } | Input::Acknowledge { attempt, .. } => {
                let status = deal.attempt(attempt).ok_or(Refusal::UnknownAttempt)?.status;
                Err(verification::Refusal::Over { status }.into())
            }
            _ => Err(Refusal::AlreadySettled),
        };
    }
    match input {
        Input::Deliver { hash, status, spec, auto_approve, tier, verifier } => {
            next.deliver(
                Delivered { at: now, hash, status },
                spec,
                verifier,
                || match auto_approve {
                    true => policy.allows_auto_approve(&deal.terms, tier).map(|()| true),
                    false => Ok(false),
                },
            )?;
        }
        Input::Acknowledge { attempt, by } => next.acknowledge(attempt, by)?,
        Input::Decide { attempt, verdict, substitute } => {
            next.decide(attempt, verdict, substitute)?;
        }
        Input::Baseline { by, fingerprint } => next.baseline(by, fingerprint)?,
        Input::Cancel { by } => next.cancel(by)?,
        Input::ClaimRefund => next.claim_refund()?,
        Input::Dispute { by, reason } => next.dispute(by, reason, policy)?,
        Input::Object { reason, verifier } => next.object(reason, verifier)?,
        Input::Split { by, released } => next.split(by, released)?,
        Input::Tick => next.tick()?,
    }
    Ok((next.deal, next.effects))
}

/// A deal in the middle of a step.
struct Stepped {
    deal: Deal,
    now: Timestamp,
    effects: Vec<Effect>,
}

impl Deal {
    pub fn role_of(&self, agent: &AgentId) -> Option<Role> {
        match agent {
            agent if *agent == self.requester => Some(Role::Requester),
            agent if *agent == self.provider => Some(Role::Provider),
            _ => None,
        }
    }

    pub fn agent_of(&self, role: Role) -> AgentId {
        match role {
            Role::Requester => self.requester,
            Role::Provider => self.provider,
        }
    }

    pub fn attempt(&self, number: u8) -> Option<&Attempt> {
        self.attempts.iter().find(|attempt| attempt.number == number)
    }

    /// The attempt that counts now.
    pub fn last_attempt(&self) -> Option<&Attempt> {
        self.attempts.last()
    }

    /// The attempt that found the work bad, which can be or was contested.
    pub fn bad_verdict(&self) -> Option<&Attempt> {
        self.verdict_reason?;
        // Reviewers may have said since that they cannot tell.
        self.attempts.iter().rev().find(|attempt| {
            matches!(attempt.status, VerificationStatus::Failed | VerificationStatus::Rejected)
        })
    }

    /// Whether a reviewer is asked.
    pub fn is_in_review(&self) -> bool {
        self.review.as_ref().is_some_and(|review| review.status == ReviewStatus::Pending)
    }

    /// Whether the provider's word is waiting for an objection.
    pub(crate) fn is_self_attested(&self) -> bool {
        self.last_attempt().is_some_and(|attempt| {
            attempt.spec.kind == engine::SELF_ATTESTED
                && attempt.status == VerificationStatus::Running
        })
    }

    /// When something happens if nobody does anything. `None`: only a person's word helps, or it
    /// is all over.
    pub fn due_at(&self) -> Option<Timestamp> {
        if self.escrow != escrow::State::Held {
            return None;
        }
        if let Some(review) = self.review.as_ref().filter(|r| r.status == ReviewStatus::Pending) {
            return review.deadline;
        }
        if self.window_until.is_some() {
            return self.window_until;
        }
        match self.last_attempt() {
            None => Some(self.terms.deadline.plus(GRACE)),
            Some(attempt) => attempt.deadline,
        }
    }
}
