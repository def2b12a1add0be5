use std::sync::atomic::Ordering;

use skep_wire::x402::{FacilitatorRequest, VerifyResponse};

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
        let refusal = match self.look_at(&claim).await {
            Ok(Standing::New) => {
                claim.payable.store(true, Ordering::Relaxed);
                None
            }
            Ok(Standing::Taken(_)) => Some(nonce_used()),
            Err(Failure::Refused(refusal)) => Some(PayRefusal::of(refusal)),
            Err(failure) => return Err(failure),
        };
        let payer = Some(claim.payer);
        Ok(match refusal {
            None => VerifyResponse { is_valid: true, payer, ..VerifyResponse::default() },
            Some(refusal) => invalid((refusal, payer)),
        })
    }

    /// The check, by one look at the database.
    pub(super) async fn look_at(&self, claim: &Claim) -> Result<Standing, Failure> {
        let accounts = accounts(claim).map_err(skep_store::StoreError::from)?;
        let glance = self.glance(keys(claim), accounts).await?;
        let outside = self.outside()(super::facts::Facts::now(&glance));
        settled(check(&glance, outside, claim))
    }
}

fn invalid((refusal, payer): Unclaimed) -> VerifyResponse {
    VerifyResponse {
        is_valid: false,
        invalid_reason: Some(refusal.reason),
        invalid_message: Some(refusal.message),
        payer,
    }
}
