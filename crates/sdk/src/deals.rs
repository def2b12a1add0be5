//! The calls of VCAP, one method for each endpoint.

use serde::Serialize;
use serde_json::Value;
use skep_base::{
    AgentId, Amount, Hash32,
    id::{DealId, VerificationId},
};
use skep_wire::{
    Page,
    settle::{
        Agreement, BaselineReport, CallbackTaken, Cancel, DealAnswer, Dispute, EscrowHold,
        Negotiation, NegotiationAnswer, NegotiationResponse, NewVerifierKey, Objection,
        RefundRequest, RegisterVerifier, Review, ReviewFile, SettlementReceipt, Split, Standing,
        Verification, VerificationCallback, Verifier,
    },
};

use crate::{
    Client, Error,
    client::{Call, Written},
};

impl Client {
    /// Asks a provider for work: VCAP 3.1, typed or as JSON with fields of one's own.
    pub async fn open_negotiation<T: Serialize>(
        &self,
        request: &T,
    ) -> Result<Written<NegotiationAnswer>, Error> {
        self.send(&Call::post("/vcap/v1/negotiations", request)?.signed()).await
    }

    /// Accepts, rejects or counters: VCAP 3.2.
    pub async fn respond(
        &self,
        response: &NegotiationResponse,
    ) -> Result<Written<NegotiationAnswer>, Error> {
        let path = format!("/vcap/v1/negotiations/{}/responses", response.negotiation_id);
        self.send(&Call::post(path, response)?.signed()).await
    }

    pub async fn negotiation(&self, id: DealId) -> Result<Negotiation, Error> {
        self.look(format!("/vcap/v1/negotiations/{id}")).await
    }

    pub async fn escrow(&self, id: DealId) -> Result<EscrowHold, Error> {
        self.look(format!("/vcap/v1/escrows/{id}")).await
    }

    pub async fn agreement(&self, id: DealId) -> Result<Agreement, Error> {
        self.look(format!("/vcap/v1/agreements/{id}")).await
    }

    pub async fn settlement(&self, id: DealId) -> Result<SettlementReceipt, Error> {
        let call = Call::get(format!("/vcap/v1/settlements/{id}"));
        Ok(self.send(&call).await?.value)
    }

    /// Delivers work: VCAP 3.4, typed or as JSON with fields of one's own.
    pub async fn deliver<T: Serialize>(&self, delivery: &T) -> Result<Written<DealAnswer>, Error> {
        self.send(&Call::post("/vcap/v1/deliveries", delivery)?.signed()).await
    }

    pub async fn cancel_deal(&self, id: DealId) -> Result<DealAnswer, Error> {
        self.act(id, "cancel", &Cancel::default()).await
    }

    pub async fn dispute(&self, id: DealId, reason: &str) -> Result<DealAnswer, Error> {
        self.act(id, "disputes", &Dispute { reason: reason.to_owned() }).await
    }

    pub async fn object(&self, id: DealId, reason: &str) -> Result<DealAnswer, Error> {
        self.act(id, "objections", &Objection { reason: reason.to_owned() }).await
    }

    pub async fn claim_refund(&self, id: DealId) -> Result<DealAnswer, Error> {
        self.act(id, "refunds", &RefundRequest {}).await
    }

    /// Offers to release so much, or agrees to it.
    pub async fn split(&self, id: DealId, released_minor: Amount) -> Result<DealAnswer, Error> {
        self.act(id, "splits", &Split { released_minor }).await
    }

    pub async fn baseline(&self, id: DealId, fingerprint: Hash32) -> Result<DealAnswer, Error> {
        self.act(id, "baseline", &BaselineReport { fingerprint }).await
    }

    pub async fn verification(&self, id: VerificationId) -> Result<Verification, Error> {
        self.look(format!("/vcap/v1/verifications/{id}")).await
    }

    pub async fn acknowledge(&self, id: VerificationId) -> Result<DealAnswer, Error> {
        let path = format!("/vcap/v1/verifications/{id}/ack");
        Ok(self.send(&Call::post(path, &serde_json::json!({}))?.signed()).await?.value)
    }

    /// Sends a verdict; its proof is its signature.
    pub async fn callback(&self, callback: &VerificationCallback) -> Result<CallbackTaken, Error> {
        let path = format!("/vcap/v1/verifications/{}/callback", callback.verification_id);
        Ok(self.send(&Call::post(path, callback)?).await?.value)
    }

    /// What waits for a reviewer, oldest first.
    pub async fn reviews(
        &self,
        cursor: Option<&str>,
        limit: Option<usize>,
    ) -> Result<Page<Review>, Error> {
        let call = Call::get("/vcap/v1/reviews").query("cursor", cursor).query("limit", limit);
        Ok(self.send(&call.signed()).await?.value)
    }

    pub async fn review(&self, id: DealId) -> Result<ReviewFile, Error> {
        self.look(format!("/vcap/v1/reviews/{id}")).await
    }

    /// A reviewer's verdict.
    pub async fn decide_review(
        &self,
        callback: &VerificationCallback,
    ) -> Result<CallbackTaken, Error> {
        let id = callback.verification_id.deal();
        let call = Call::post(format!("/vcap/v1/reviews/{id}/decision"), callback)?;
        Ok(self.send(&call).await?.value)
    }

    pub async fn register_verifier(&self, request: &RegisterVerifier) -> Result<Verifier, Error> {
        Ok(self.send(&Call::post("/vcap/v1/verifiers", request)?.signed()).await?.value)
    }

    pub async fn verifier(&self, id: &AgentId) -> Result<Verifier, Error> {
        Ok(self.send(&Call::get(format!("/vcap/v1/verifiers/{id}"))).await?.value)
    }

    /// The verifiers, oldest first.
    pub async fn verifiers(&self, cursor: Option<&str>) -> Result<Page<Verifier>, Error> {
        Ok(self.send(&Call::get("/vcap/v1/verifiers").query("cursor", cursor)).await?.value)
    }

    /// Adds a key to the signing verifier.
    pub async fn add_verifier_key(&self, key: &NewVerifierKey) -> Result<Verifier, Error> {
        let agent = self.agent_id().ok_or(Error::NoKey)?;
        let path = format!("/vcap/v1/verifiers/{agent}/keys");
        Ok(self.send(&Call::post(path, key)?.signed()).await?.value)
    }

    /// Revokes a key of the signing verifier.
    pub async fn revoke_verifier_key(&self, kid: &str) -> Result<Verifier, Error> {
        let agent = self.agent_id().ok_or(Error::NoKey)?;
        let call = Call::delete(format!("/vcap/v1/verifiers/{agent}/keys/{kid}"));
        Ok(self.send(&call.signed()).await?.value)
    }

    /// The JSON Schema of a message.
    pub async fn message_schema(&self, message: &str) -> Result<Value, Error> {
        Ok(self.send(&Call::get(format!("/vcap/v1/schemas/{message}"))).await?.value)
    }

    /// Sets what the market thinks of an agent, on a node that was made with `--dev`.
    pub async fn set_standing(
        &self,
        agent: &AgentId,
        standing: &Standing,
    ) -> Result<Standing, Error> {
        let call = Call::post(format!("/v1/dev/standing/{agent}"), standing)?;
        Ok(self.send(&call).await?.value)
    }

    async fn look<T: serde::de::DeserializeOwned>(&self, path: String) -> Result<T, Error> {
        Ok(self.send(&Call::get(path).signed()).await?.value)
    }

    async fn act<T: Serialize>(
        &self,
        id: DealId,
        what: &str,
        body: &T,
    ) -> Result<DealAnswer, Error> {
        let path = format!("/vcap/v1/agreements/{id}/{what}");
        Ok(self.send(&Call::post(path, body)?.signed()).await?.value)
    }
}
