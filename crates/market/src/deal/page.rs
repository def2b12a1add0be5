//! A verdict as people may look at it, by a link that only those get who may read the verdict.

use serde_json::Value;
use skep_base::{AgentId, Hash32, Money, Timestamp, id::VerificationId};
use skep_wire::settle::{Attachment, SettlementReceipt, Verification};

use super::{DealRefusal, settlement_record_key};
use crate::{Failure, Market};

/// All that a page shows.
#[derive(Clone, Debug)]
pub struct ProofView {
    pub verification: Verification,
    pub requester: AgentId,
    pub provider: AgentId,
    pub price: Money,
    pub accepted_at: Timestamp,
    /// Of the settlement that rests on this verdict.
    pub receipt: Option<SettlementReceipt>,
}

impl Market {
    /// Where a verdict can be looked at.
    pub(super) fn proof_page(&self, id: VerificationId) -> String {
        format!("/proofs/{id}?token={}", self.page_token(id))
    }

    /// A verdict, to whoever has its link.
    pub async fn proof_view(&self, id: VerificationId, token: &str) -> Result<ProofView, Failure> {
        let may_see = self.opens(id, token);
        if !may_see {
            return Err(unknown(id));
        }
        let (deal, verification) = self.verification_if(id, |_| may_see).await?;
        let receipt: Option<SettlementReceipt> = self.read(settlement_record_key(&deal.id)).await?;
        let rests_here =
            |receipt: &SettlementReceipt| receipt.settlement.verification_id == Some(id);
        Ok(ProofView {
            verification,
            requester: deal.requester,
            provider: deal.provider,
            price: deal.terms.price,
            accepted_at: deal.accepted_at,
            receipt: receipt.filter(rests_here),
        })
    }

    /// What an action of this verdict names by its hash.
    pub async fn proof_attachment(
        &self,
        id: VerificationId,
        token: &str,
        sha256: Hash32,
    ) -> Result<Attachment, Failure> {
        let view = self.proof_view(id, token).await?;
        let callback = view.verification.callback.unwrap_or_default();
        let hex = sha256.to_string();
        let names = |action: &Value| {
            ["screenshot_sha256", "data_sha256"].iter().any(|field| action[*field] == hex.as_str())
        };
        if !callback["action_log"].as_array().is_some_and(|log| log.iter().any(names)) {
            return Err(unknown(id));
        }
        let given = callback["attachments"].as_array().into_iter().flatten();
        let mut given = given.filter(|attachment| attachment["sha256"] == hex.as_str());
        let found = given.next().and_then(|found| serde_json::from_value(found.clone()).ok());
        found.ok_or_else(|| unknown(id))
    }
}

fn unknown(id: VerificationId) -> Failure {
    DealRefusal::UnknownDeal { deal: id.deal() }.into()
}
