//! What the two sides do, and what time does.

use skep_base::{AgentId, Amount, Hash32, Timestamp, money::Rounding};
use skep_wire::settle::{
    DeliveryStatus, Outcome, RefundReason, ReviewStatus, Role, SplitOffer, VerificationSpec,
    VerificationStatus, engine,
};

use super::{
    Attempt, BASELINE_WAIT, Closed, Contest, DISPUTE_REVIEW, Delivered, DepositEnd, Effect, GRACE,
    Method, OBJECTION_WINDOW, REQUESTER_CANCELS_WITHIN, Refusal, Review, Stepped,
};
use crate::{agreement, escrow, money::WHOLE_E4, review, terms::Policy, verification};

impl Stepped {
    /// 3.4, decisions 25, 26, 29b.
    pub(super) fn deliver(
        &mut self,
        delivered: Delivered,
        mut spec: VerificationSpec,
        verifier: Option<AgentId>,
        on_word: impl FnOnce() -> Result<bool, &'static str>,
    ) -> Result<(), Refusal> {
        self.before_delivery()?;
        let deadline = self.deal.terms.deadline.plus(GRACE);
        if self.now >= deadline {
            return Err(Refusal::DeadlinePassed { deadline });
        }
        if delivered.status == DeliveryStatus::Failed {
            self.deal.delivered = Some(delivered);
            return self.cancelled(RefundReason::DeliveryFailed, "delivery.failed");
        }
        let waited = self.now >= self.deal.accepted_at.plus(BASELINE_WAIT);
        if spec.fingerprint_delta && self.deal.baseline.is_none() && !waited {
            return Err(Refusal::BaselinePending);
        }
        spec.baseline_fingerprint = self.deal.baseline;
        let self_attested =
            on_word().map_err(|why| Refusal::AutoApproveNotAgreed { why: why.to_owned() })?;
        self.deal.delivered = Some(delivered);
        if self_attested {
            spec.kind = engine::SELF_ATTESTED.to_owned();
            let number = self.attempt(spec, None, None, None)?;
            self.set_status(number, verification::Input::Acknowledge)?;
            self.deal.window_until = Some(self.now.plus(OBJECTION_WINDOW));
            self.tell("delivery.self_attested");
            return Ok(());
        }
        self.ask(spec, verifier, review::Cause::NoVerifier)?;
        self.tell("delivery.received");
        Ok(())
    }

    /// Asks whoever the terms say.
    fn ask(
        &mut self,
        spec: VerificationSpec,
        verifier: Option<AgentId>,
        without: review::Cause,
    ) -> Result<(), Refusal> {
        let deadline = self.now.plus(std::time::Duration::from_secs(self.deal.terms.timeout_s));
        let who = match spec.kind.as_str() {
            engine::HUMAN => return self.open_review(spec, review::Cause::Human),
            engine::REQUESTER => Some(self.deal.requester),
            _ => verifier,
        };
        if who.is_none() {
            return self.open_review(spec, without);
        }
        let number = self.attempt(spec, who, Some(deadline), None)?;
        self.effects.push(Effect::Ask { attempt: number });
        Ok(())
    }

    /// Another attempt by a verifier, after an error or an objection.
    pub(super) fn ask_again(
        &mut self,
        spec: VerificationSpec,
        verifier: Option<AgentId>,
        without: review::Cause,
    ) -> Result<(), Refusal> {
        self.ask(spec, verifier, without)
    }

    /// Puts the deal before the reviewers; the decision is a verification of its own (decision 32).
    pub(super) fn open_review(
        &mut self,
        mut spec: VerificationSpec,
        cause: review::Cause,
    ) -> Result<(), Refusal> {
        spec.kind = engine::HUMAN.to_owned();
        let after = |seconds| self.now.plus(std::time::Duration::from_secs(seconds));
        let deadline = match cause {
            review::Cause::Dispute => Some(self.now.plus(DISPUTE_REVIEW)),
            _ => self.deal.terms.review_deadline_s.map(after),
        };
        let before = self.deal.last_attempt().map(|a| self.deal.id.verification(a.number));
        let attempt = self.attempt(spec, None, deadline, before)?;
        let status = ReviewStatus::Pending;
        self.deal.review = Some(Review { status, cause, opened_at: self.now, deadline, attempt });
        self.deal.window_until = None;
        self.effects.push(Effect::OpenReview);
        Ok(())
    }

    fn attempt(
        &mut self,
        spec: VerificationSpec,
        verifier: Option<AgentId>,
        deadline: Option<Timestamp>,
        supersedes: Option<skep_base::id::VerificationId>,
    ) -> Result<u8, Refusal> {
        if self.deal.attempts.len() >= super::ATTEMPTS_MAX {
            return Err(Refusal::TooManyAttempts);
        }
        let number = u8::try_from(self.deal.attempts.len() + 1).unwrap_or(u8::MAX);
        self.deal.attempts.push(Attempt {
            number,
            status: VerificationStatus::Pending,
            verifier,
            spec,
            created_at: self.now,
            deadline,
            proof: None,
            failure_reason: None,
            supersedes,
        });
        Ok(number)
    }

    pub(super) fn acknowledge(&mut self, attempt: u8, by: AgentId) -> Result<(), Refusal> {
        let known = self.deal.attempt(attempt).ok_or(Refusal::UnknownAttempt)?;
        if known.verifier != Some(by) {
            return Err(Refusal::NotTheVerifier);
        }
        let before = known.status;
        self.set_status(attempt, verification::Input::Acknowledge)?;
        if before == VerificationStatus::Pending {
            self.tell("verification.running");
        }
        Ok(())
    }

    /// Decision 33.
    pub(super) fn baseline(&mut self, by: AgentId, fingerprint: Hash32) -> Result<(), Refusal> {
        let wanted = self.deal.baseline_by == Some(by)
            && self.deal.baseline.is_none()
            && self.deal.delivered.is_none();
        if !wanted {
            return Err(Refusal::NoBaselineWanted);
        }
        self.deal.baseline = Some(fingerprint);
        self.tell("baseline.taken");
        Ok(())
    }

    /// Decision 29a.
    pub(super) fn cancel(&mut self, by: Role) -> Result<(), Refusal> {
        self.before_delivery()?;
        let late = self.now >= self.deal.terms.deadline;
        let reason = match by {
            Role::Provider if self.deal.cancel_asked => RefundReason::Agreed,
            Role::Provider => RefundReason::CancelledByProvider,
            Role::Requester if late => RefundReason::DeadlineMissed,
            Role::Requester if self.now < self.deal.accepted_at.plus(REQUESTER_CANCELS_WITHIN) => {
                RefundReason::CancelledByRequester
            }
            Role::Requester => {
                if !self.deal.cancel_asked {
                    self.deal.cancel_asked = true;
                    self.tell("cancel.asked");
                }
                return Ok(());
            }
        };
        self.cancelled(reason, "agreement.cancelled")
    }

    /// Decision 31.
    pub(super) fn claim_refund(&mut self) -> Result<(), Refusal> {
        self.before_delivery()?;
        let from = self.deal.terms.deadline.plus(GRACE);
        if self.now < from {
            return Err(Refusal::DeadlineNotPassed { from });
        }
        self.cancelled(RefundReason::DeadlineMissed, "agreement.cancelled")
    }

    fn before_delivery(&self) -> Result<(), Refusal> {
        match self.deal.delivered {
            None => Ok(()),
            Some(Delivered { at, .. }) => Err(Refusal::Delivered { at }),
        }
    }

    fn cancelled(&mut self, reason: RefundReason, told: &'static str) -> Result<(), Refusal> {
        self.deal.agreement = agreement::step(self.deal.agreement, agreement::Input::Cancel)?;
        self.settle(escrow::Input::Refund(reason), Amount::ZERO, (Method::None, None), None)?;
        self.tell(told);
        Ok(())
    }

    pub(super) fn dispute(
        &mut self,
        by: Role,
        reason: String,
        policy: &Policy,
    ) -> Result<(), Refusal> {
        if self.deal.contest.is_some() {
            return Err(Refusal::DisputeOpen);
        }
        let open = self.deal.agreement == agreement::State::Disputed { open: true };
        let in_time = self.deal.window_until.is_some_and(|until| self.now < until);
        let judged = self.deal.last_attempt().map(|attempt| attempt.spec.clone());
        let (true, true, Some(spec)) = (open, in_time, judged) else {
            return Err(Refusal::NothingToDispute);
        };
        let (part, whole) = (i128::from(policy.deposit_bps), i128::from(WHOLE_E4));
        let price = self.deal.terms.price.amount;
        let deposit = price.mul_ratio(part, whole, Rounding::Ceil).unwrap_or(price);
        let contest = Contest { by, deposit };
        self.deal.contest = Some(contest);
        self.deal.statements.push(reason);
        self.open_review(spec, review::Cause::Dispute)?;
        if !deposit.is_zero() {
            self.effects.push(Effect::TakeDeposit(contest));
        }
        self.tell("agreement.disputed");
        Ok(())
    }

    /// Decision 26: the requester does not take the provider's word.
    pub(super) fn object(
        &mut self,
        reason: String,
        verifier: Option<AgentId>,
    ) -> Result<(), Refusal> {
        let in_time = self.deal.window_until.is_some_and(|until| self.now < until);
        let (true, true, Some(word)) =
            (self.deal.is_self_attested(), in_time, self.deal.last_attempt())
        else {
            return Err(Refusal::NothingToObject);
        };
        let (number, mut spec) = (word.number, word.spec.clone());
        self.set_status(number, verification::Input::Verdict(Outcome::Rejected))?;
        self.deal.statements.push(reason);
        self.deal.window_until = None;
        self.deal.terms.engine().clone_into(&mut spec.kind);
        // Who objects does not judge: what only the requester could check goes to a reviewer.
        if spec.kind == engine::REQUESTER {
            self.open_review(spec, review::Cause::Objection)?;
        } else {
            self.ask(spec, verifier, review::Cause::Objection)?;
        }
        self.tell("delivery.objected");
        Ok(())
    }

    /// Decision 29b: the same words of both sides divide the price.
    pub(super) fn split(&mut self, by: Role, released: Amount) -> Result<(), Refusal> {
        if released > self.deal.terms.price.amount {
            return Err(Refusal::BadSplit);
        }
        match self.deal.split_offer {
            Some(offer) if offer.by != by && offer.released_minor == released => {}
            before => {
                let offer = SplitOffer { by, released_minor: released };
                if before != Some(offer) {
                    self.deal.split_offer = Some(offer);
                    self.tell("split.offered");
                }
                return Ok(());
            }
        }
        self.deal.agreement = agreement::step(self.deal.agreement, agreement::Input::Agree)?;
        if let Some(open) = self.deal.attempts.last_mut()
            && matches!(open.status, VerificationStatus::Pending | VerificationStatus::Running)
        {
            open.status = VerificationStatus::Error;
            open.failure_reason = Some("both sides agreed before there was a verdict".to_owned());
        }
        let input = match released.is_zero() {
            true => escrow::Input::Refund(RefundReason::Agreed),
            false => escrow::Input::Release,
        };
        self.settle(input, released, (Method::Agreed, None), Some(DepositEnd::Returned))?;
        self.tell("agreement.split");
        Ok(())
    }

    /// What happens when nobody does anything.
    pub(super) fn tick(&mut self) -> Result<(), Refusal> {
        if self.deal.due_at().is_none_or(|due| self.now < due) {
            return Ok(());
        }
        if self.deal.is_in_review() {
            return self.review_lapsed();
        }
        if self.deal.is_self_attested() {
            let number = self.deal.last_attempt().map_or(0, |attempt| attempt.number);
            self.set_status(number, verification::Input::Verdict(Outcome::Verified))?;
            let rests_on = (Method::SelfAttested, Some(number));
            return self.released(self.deal.terms.price.amount, rests_on, None);
        }
        if self.deal.window_until.is_some() {
            let attempt = self.deal.last_attempt().map(|attempt| attempt.number);
            return self.upheld(attempt, None);
        }
        let Some(attempt) = self.deal.last_attempt() else { return self.claim_refund() };
        let (number, spec) = (attempt.number, attempt.spec.clone());
        self.set_status(number, verification::Input::Tick)?;
        let reason = "the verification timed out and went to a reviewer".to_owned();
        self.attempt_mut(number)?.failure_reason = Some(reason);
        self.open_review(spec, review::Cause::Timeout)?;
        self.tell("verification.timeout");
        Ok(())
    }

    /// Closes the escrow, whichever way.
    pub(super) fn settle(
        &mut self,
        input: escrow::Input,
        released: Amount,
        (method, attempt): (Method, Option<u8>),
        deposit: Option<DepositEnd>,
    ) -> Result<(), Refusal> {
        self.deal.escrow = escrow::step(self.deal.escrow, input)?;
        self.deal.closed = Some(Closed { at: self.now, released, method, attempt });
        self.deal.window_until = None;
        if let Some(review) = self.deal.review.as_mut()
            && review.status == ReviewStatus::Pending
        {
            review.status = ReviewStatus::Decided;
            self.effects.push(Effect::CloseReview);
        }
        let deposit = self.deal.contest.zip(deposit);
        self.effects.push(Effect::Settle { released, deposit });
        Ok(())
    }

    pub(super) fn tell(&mut self, kind: &'static str) {
        self.effects.push(Effect::Tell(kind));
    }
}
