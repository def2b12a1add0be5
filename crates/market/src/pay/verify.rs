use std::sync::atomic::Ordering;

use skep_base::Timestamp;
use skep_wire::x402::{FacilitatorRequest, Payable, PayableFacts, VerifyResponse};

use super::{
    budget::settled,
    check::{Standing, accounts, check, keys, nonce_used},
    claim::{Claim, Unclaimed},
    refusal::PayRefusal,
};
use crate::{Failure, Market};

impl Market {
    /// Whether a payment would be taken now. Nothing is written or locked.
    pub async fn x402_verify(
        &self,
        request: &FacilitatorRequest,
    ) -> Result<VerifyResponse, Failure> {
        let claim = match self.claim(request) {
            Ok(claim) => claim,
            Err(unclaimed) => return Ok(invalid(unclaimed)),
        };
        let payer = Some(claim.payer);
        let refusal = match self.look_at(&claim).await {
            Ok((Standing::New, at)) => {
                claim.payable.store(true, Ordering::Relaxed);
                let payable = self.payable(&claim, at);
                let yes = VerifyResponse { is_valid: true, payer, ..VerifyResponse::default() };
                return Ok(VerifyResponse { payable, ..yes });
            }
            Ok((Standing::Taken(_), _)) => nonce_used(),
            Err(Failure::Refused(refusal)) => PayRefusal::of(refusal),
            Err(failure) => return Err(failure),
        };
        Ok(invalid((refusal, payer)))
    }

    /// The check, by one look at the database, and when that was.
    async fn look_at(&self, claim: &Claim) -> Result<(Standing, Timestamp), Failure> {
        let accounts = accounts(claim).map_err(skep_store::StoreError::from)?;
        let glance = self.glance(keys(claim), accounts).await?;
        let outside = self.outside()(super::facts::Facts::now(&glance));
        Ok((settled(check(&glance, outside, claim))?, outside))
    }

    /// The node's word for the seller of a signed hire. An id that a client gave the payment is not
    /// in it; who gives one has its seller ask.
    fn payable(&self, claim: &Claim, at: Timestamp) -> Option<Payable> {
        if claim.hire.is_none() || claim.identifier.is_some() {
            return None;
        }
        let facts = PayableFacts {
            tx_hash: &claim.tx_hash,
            to: claim.to,
            amount: claim.amount,
            window: claim.window,
            network: &claim.network,
        };
        Some(Payable::sign(&self.settlement_key, &facts, at))
    }
}

fn invalid((refusal, payer): Unclaimed) -> VerifyResponse {
    VerifyResponse {
        is_valid: false,
        invalid_reason: Some(refusal.reason),
        invalid_message: Some(refusal.message),
        payer,
        payable: None,
    }
}
