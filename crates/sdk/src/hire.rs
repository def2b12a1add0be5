//! The calls of SHP: registry, receipts, escrows and budgets. Their messages carry signatures of
//! their own.

use serde_json::Value;
use skep_base::{
    AgentId, Hash32,
    id::{DealId, ListingId},
};
use skep_wire::{
    Page,
    hire::{
        Budget, BudgetToken, CounterSignature, CounterSigned, EscrowOrder, EscrowVerb, Found,
        HireEscrow, HirePayload, Listing, ListingAccepted, ListingRemoval, Receipt,
        ReceiptAccepted, Search, SearchAnswer, StoredReceipt, TimeoutRefund,
    },
};

use crate::{Client, Error, client::Call};

impl Client {
    /// Publishes a signed listing. The node asks its endpoint to prove who it is.
    pub async fn publish_listing(&self, listing: &Listing) -> Result<ListingAccepted, Error> {
        Ok(self.send(&Call::post("/v1/listings", listing)?).await?.value)
    }

    pub async fn remove_listing(&self, removal: &ListingRemoval) -> Result<Value, Error> {
        let path = format!("/v1/listings/{}/remove", removal.remove_listing);
        Ok(self.send(&Call::post(path, removal)?).await?.value)
    }

    pub async fn listing(&self, id: ListingId) -> Result<Found, Error> {
        Ok(self.send(&Call::get(format!("/v1/listings/{id}"))).await?.value)
    }

    pub async fn listings_of(&self, agent: &AgentId) -> Result<Page<Found>, Error> {
        Ok(self.send(&Call::get(format!("/v1/agents/{agent}/listings"))).await?.value)
    }

    pub async fn search(&self, search: &Search) -> Result<SearchAnswer, Error> {
        Ok(self.send(&Call::post("/v1/search", search)?).await?.value)
    }

    /// The seller's side of a receipt. The same receipt again is fine.
    pub async fn submit_receipt(&self, receipt: &Receipt) -> Result<ReceiptAccepted, Error> {
        let call = Call::post("/v1/receipts", receipt)?.signed_if(self.agent_id().is_some());
        Ok(self.send(&call).await?.value)
    }

    /// The buyer's side. The same again is fine. It carries its own signature.
    pub async fn countersign(&self, signature: &CounterSignature) -> Result<CounterSigned, Error> {
        let path = format!("/v1/receipts/{}/countersign", signature.hire_id);
        let call = Call::post(path, signature)?;
        let told: CounterSigned = self.send(&call).await?.value;
        if !told.rating_token.is_empty() || self.agent_id().is_none() {
            return Ok(told);
        }
        // It had come before, and the first answer was lost: a token that has left once is given
        // to the signer alone.
        Ok(self.send(&call.signed()).await?.value)
    }

    pub async fn submit_payload(&self, id: &str, payload: &HirePayload) -> Result<Value, Error> {
        Ok(self.send(&Call::post(format!("/v1/receipts/{id}/payload"), payload)?).await?.value)
    }

    pub async fn receipt(&self, id: &str) -> Result<StoredReceipt, Error> {
        Ok(self.send(&Call::get(format!("/v1/receipts/{id}"))).await?.value)
    }

    pub async fn receipts_of(
        &self,
        agent: &AgentId,
        cursor: Option<&str>,
    ) -> Result<Page<StoredReceipt>, Error> {
        let call = Call::get(format!("/v1/agents/{agent}/receipts")).query("cursor", cursor);
        Ok(self.send(&call).await?.value)
    }

    pub async fn hire_escrow(&self, id: DealId) -> Result<HireEscrow, Error> {
        Ok(self.send(&Call::get(format!("/v1/escrows/{id}"))).await?.value)
    }

    /// Releases or refunds what is held. The same order again is fine.
    pub async fn order_escrow(&self, order: &EscrowOrder) -> Result<HireEscrow, Error> {
        let verb = match order.verb {
            EscrowVerb::Release => "release",
            EscrowVerb::Refund => "refund",
        };
        let path = format!("/v1/escrows/{}/{verb}", order.escrow_id);
        Ok(self.send(&Call::post(path, order)?).await?.value)
    }

    pub async fn timeout_refund(&self, id: DealId) -> Result<HireEscrow, Error> {
        let path = format!("/v1/escrows/{id}/timeout-refund");
        Ok(self.send(&Call::post(path, &TimeoutRefund {})?).await?.value)
    }

    pub async fn register_budget(&self, token: &BudgetToken) -> Result<Budget, Error> {
        Ok(self.send(&Call::post("/v1/budgets", token)?).await?.value)
    }

    pub async fn budget(&self, id: &Hash32) -> Result<Budget, Error> {
        Ok(self.send(&Call::get(format!("/v1/budgets/{id}"))).await?.value)
    }
}
