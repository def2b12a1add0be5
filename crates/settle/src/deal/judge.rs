//! What a verdict does.

use skep_base::{AgentId, Amount};
use skep_wire::settle::{Outcome, RefundReason, ReviewStatus, Role, VerificationStatus, engine};

use super::{Attempt, DepositEnd, Effect, Method, Refusal, Stepped, Verdict};
use crate::{agreement, escrow, review, verification};

impl Stepped {
    /// 3.6, decisions 29 and 29a. The proof has been checked.
    pub(super) fn decide(
        &mut self,
        number: u8,
        verdict: Verdict,
        substitute: Option<AgentId>,
    ) -> Result<(), Refusal> {
        let attempt = self.deal.attempt(number).ok_or(Refusal::UnknownAttempt)?.clone();
        // Nobody was asked about the provider's word: it is objected to, or it stands.
        if attempt.spec.kind == engine::SELF_ATTESTED {
            return Err(Refusal::NotTheVerifier);
        }
        let released = self.released_by(&attempt, &verdict)?;
        if attempt.spec.kind == engine::HUMAN {
            self.close_review()?;
        }
        self.set_status(number, verification::Input::Verdict(verdict.outcome))?;
        let method = match verdict.proof.bundle {
            true => Method::Proof,
            false => Method::BundleLess,
        };
        let known = self.attempt_mut(number)?;
        known.proof = Some(verdict.proof);
        known.failure_reason = verdict.failure_reason;
        match verdict.outcome {
            Outcome::Verified => {
                self.verdict_is_due(&attempt);
                self.released(released, (method, Some(number)), self.deposit_end(released))
            }
            Outcome::Failed => {
                self.verdict_is_due(&attempt);
                self.rejected(number, RefundReason::VerificationFailed)
            }
            Outcome::Rejected => {
                self.verdict_is_due(&attempt);
                self.rejected(number, RefundReason::Rejected)
            }
            Outcome::Error => self.could_not_tell(&attempt, substitute),
        }
    }

    fn released_by(&self, attempt: &Attempt, verdict: &Verdict) -> Result<Amount, Refusal> {
        let price = self.deal.terms.price.amount;
        match verdict.released {
            None => Ok(price),
            Some(_) if attempt.spec.kind != engine::HUMAN => Err(Refusal::SplitNotAllowed),
            Some(part) if part.is_zero() || part > price => Err(Refusal::BadSplit),
            Some(_) if verdict.outcome != Outcome::Verified => Err(Refusal::BadSplit),
            Some(part) => Ok(part),
        }
    }

    /// A verifier is paid for its verdict, whatever that is (decision 10).
    fn verdict_is_due(&mut self, attempt: &Attempt) {
        if !matches!(attempt.spec.kind.as_str(), engine::HUMAN | engine::REQUESTER) {
            self.deal.verifier_due = attempt.verifier;
        }
    }

    /// The work is good.
    pub(super) fn released(
        &mut self,
        released: Amount,
        rests_on: (Method, Option<u8>),
        deposit: Option<DepositEnd>,
    ) -> Result<(), Refusal> {
        let input = match self.deal.agreement {
            agreement::State::Disputed { .. } => agreement::Input::Overturn,
            _ => agreement::Input::Verify,
        };
        self.deal.agreement = agreement::step(self.deal.agreement, input)?;
        self.settle(escrow::Input::Release, released, rests_on, deposit)?;
        self.tell("escrow.released");
        Ok(())
    }

    /// The work is not good. Unless it was contested before, that can be contested for a while.
    fn rejected(&mut self, number: u8, reason: RefundReason) -> Result<(), Refusal> {
        if matches!(self.deal.agreement, agreement::State::Disputed { .. }) {
            return self.upheld(Some(number), self.deposit_end(Amount::ZERO));
        }
        self.deal.verdict_reason = Some(reason);
        let window_s = self.deal.terms.dispute_window_s;
        let input = agreement::Input::Reject { contestable: window_s > 0 };
        self.deal.agreement = agreement::step(self.deal.agreement, input)?;
        if window_s > 0 {
            let window = std::time::Duration::from_secs(window_s);
            self.deal.window_until = Some(self.now.plus(window));
            self.tell("verification.failed");
            return Ok(());
        }
        self.refunded(Some(number), None)
    }

    /// The window passed, or a reviewer said the same again.
    pub(super) fn upheld(
        &mut self,
        attempt: Option<u8>,
        deposit: Option<DepositEnd>,
    ) -> Result<(), Refusal> {
        self.deal.agreement = agreement::step(self.deal.agreement, agreement::Input::Uphold)?;
        self.refunded(attempt, deposit)
    }

    fn refunded(
        &mut self,
        attempt: Option<u8>,
        deposit: Option<DepositEnd>,
    ) -> Result<(), Refusal> {
        let reason = self.deal.verdict_reason.unwrap_or(RefundReason::Rejected);
        let proof = attempt.and_then(|n| self.deal.attempt(n)).and_then(|a| a.proof.as_ref());
        let method = match proof {
            Some(proof) if proof.bundle => Method::Proof,
            Some(_) => Method::BundleLess,
            None => Method::None,
        };
        let input = escrow::Input::Refund(reason);
        self.settle(input, Amount::ZERO, (method, attempt), deposit)?;
        self.tell("escrow.refunded");
        Ok(())
    }

    /// Decision 29: an error moves no money. One more verifier, then a person.
    fn could_not_tell(
        &mut self,
        attempt: &Attempt,
        substitute: Option<AgentId>,
    ) -> Result<(), Refusal> {
        let errors = self.deal.attempts.iter();
        let errors = errors.filter(|a| a.status == VerificationStatus::Error).count();
        let again = errors < 2 && attempt.spec.kind != engine::HUMAN;
        match substitute.filter(|_| again) {
            Some(other) => {
                self.ask_again(attempt.spec.clone(), Some(other), review::Cause::Error)?;
            }
            None => {
                let cause = match &self.deal.contest {
                    Some(_) => review::Cause::Dispute,
                    None => review::Cause::Error,
                };
                self.open_review(attempt.spec.clone(), cause)?;
                // A reviewer who cannot tell does not make the wait longer.
                if attempt.spec.kind == engine::HUMAN
                    && let Some(review) = self.deal.review.as_mut()
                    && let Some(next) = self.deal.attempts.last_mut()
                {
                    (review.deadline, next.deadline) = (attempt.deadline, attempt.deadline);
                }
            }
        }
        self.tell("verification.error");
        Ok(())
    }

    fn close_review(&mut self) -> Result<(), Refusal> {
        let now = self.now;
        let review = self.deal.review.as_mut().ok_or(Refusal::UnknownAttempt)?;
        review.status = review::step(review.status, review.deadline, now, review::Input::Decide)?;
        self.effects.push(Effect::CloseReview);
        Ok(())
    }

    /// The agreed time for a review has passed: a disputed verdict stands, and else the requester
    /// is refunded (decisions 29a, 30).
    pub(super) fn review_lapsed(&mut self) -> Result<(), Refusal> {
        let now = self.now;
        let review = self.deal.review.as_mut().ok_or(Refusal::UnknownAttempt)?;
        let (number, cause) = (review.attempt, review.cause);
        review.status = review::step(review.status, review.deadline, now, review::Input::Tick)?;
        if review.status != ReviewStatus::Lapsed {
            return Ok(());
        }
        self.effects.push(Effect::CloseReview);
        self.set_status(number, verification::Input::Tick)?;
        if cause == review::Cause::Dispute {
            let disputed = self.deal.bad_verdict().map(|attempt| attempt.number);
            return self.upheld(disputed, Some(DepositEnd::Returned));
        }
        self.deal.agreement = agreement::step(self.deal.agreement, agreement::Input::Cancel)?;
        let input = escrow::Input::Refund(RefundReason::ReviewDeadline);
        self.settle(input, Amount::ZERO, (Method::None, None), None)?;
        self.tell("escrow.refunded");
        Ok(())
    }

    /// Decision 29a: the loser pays.
    fn deposit_end(&self, released: Amount) -> Option<DepositEnd> {
        let contest = self.deal.contest?;
        let price = self.deal.terms.price.amount;
        let winner = match released {
            released if released == price => Role::Provider,
            released if released.is_zero() => Role::Requester,
            _ => return Some(DepositEnd::Returned),
        };
        Some(match (winner == contest.by, contest.by) {
            (false, _) => DepositEnd::Lost,
            (true, Role::Provider) => DepositEnd::PaidByOther,
            // The verdict was the requester's already: nobody else has contested anything.
            (true, Role::Requester) => DepositEnd::Returned,
        })
    }

    pub(super) fn set_status(
        &mut self,
        number: u8,
        input: verification::Input,
    ) -> Result<(), Refusal> {
        let now = self.now;
        let attempt = self.attempt_mut(number)?;
        attempt.status = verification::step(attempt.status, attempt.deadline, now, input)?;
        Ok(())
    }

    pub(super) fn attempt_mut(&mut self, number: u8) -> Result<&mut Attempt, Refusal> {
        let known = self.deal.attempts.iter_mut().find(|attempt| attempt.number == number);
        known.ok_or(Refusal::UnknownAttempt)
    }
}
