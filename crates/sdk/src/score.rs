//! Scores and passports, one method for each endpoint. Agents go by their address, their DID or
//! the id of their passport.

use serde_json::Value;
use skep_wire::{
    Page,
    score::{
        BenchmarkEvent, Certificate, Export, ImportAnswer, ImportRequest, KeySet, Passport,
        Profile, PublicPassport, Publication, ScoreView, TrustRegistry, VerifyAnswer,
        VerifyRequest,
    },
};

use crate::{
    Client, Error,
    client::{Call, Written},
};

impl Client {
    /// What is known of an agent; of a newcomer only to itself.
    pub async fn score(&self, agent: &str) -> Result<ScoreView, Error> {
        self.read_score(format!("/v1/agents/{agent}/score")).await
    }

    /// An agent's signed score, word for word.
    pub async fn publication(&self, agent: &str) -> Result<Value, Error> {
        self.read_score(format!("/v1/swarmscore/{agent}")).await
    }

    /// The same, read.
    pub async fn publication_of(&self, agent: &str) -> Result<Publication, Error> {
        self.read_score(format!("/v1/swarmscore/{agent}")).await
    }

    /// What became of an agent's benchmark, newest first.
    pub async fn benchmark_history(
        &self,
        agent: &str,
        limit: Option<usize>,
    ) -> Result<Vec<BenchmarkEvent>, Error> {
        let call = Call::get(format!("/v1/swarmscore/{agent}/history")).query("limit", limit);
        let call = call.signed_if(self.agent_id().is_some());
        Ok(self.send::<Page<BenchmarkEvent>>(&call).await?.value.items)
    }

    /// What a stranger needs to check a score. `settlements`: how many receipts at most.
    pub async fn certificate(
        &self,
        agent: &str,
        settlements: Option<usize>,
    ) -> Result<Certificate, Error> {
        let call = Call::get(format!("/conduit/agents/{agent}/benchmark-certificate"))
            .query("settlements", settlements);
        Ok(self.send(&call.signed_if(self.agent_id().is_some())).await?.value)
    }

    /// Asks the node what it thinks of a publication.
    pub async fn verify_score(&self, request: &VerifyRequest) -> Result<VerifyAnswer, Error> {
        Ok(self.send(&Call::post("/v1/swarmscore/verify", request)?).await?.value)
    }

    /// The signing agent's own passport.
    pub async fn passport(&self, agent: &str) -> Result<Passport, Error> {
        Ok(self.send(&Call::get(format!("/agents/{agent}/passport")).signed()).await?.value)
    }

    pub async fn public_passport(&self, agent: &str) -> Result<PublicPassport, Error> {
        Ok(self.send(&Call::get(format!("/agents/{agent}/passport/public"))).await?.value)
    }

    /// The same as a W3C Verifiable Credential.
    pub async fn passport_credential(&self, agent: &str) -> Result<Value, Error> {
        let call = Call::get(format!("/agents/{agent}/passport/public"));
        Ok(self.send(&call.query("format", Some("vc"))).await?.value)
    }

    /// What the signing agent takes elsewhere.
    pub async fn export_score(&self, agent: &str) -> Result<Export, Error> {
        Ok(self.send(&Call::get(format!("/v1/swarmscore/export/{agent}")).signed()).await?.value)
    }

    /// Brings what another platform has signed about the signing agent.
    pub async fn import_score(
        &self,
        request: &ImportRequest,
    ) -> Result<Written<ImportAnswer>, Error> {
        self.send(&Call::post("/v1/swarmscore/import", request)?.signed()).await
    }

    pub async fn trust_registry(&self) -> Result<TrustRegistry, Error> {
        Ok(self.send(&Call::get("/v1/swarmscore/trust-registry")).await?.value)
    }

    /// The keys that the node's scores, receipts and proofs are signed with.
    pub async fn score_keys(&self) -> Result<KeySet, Error> {
        Ok(self.send(&Call::get("/.well-known/swarmscore-keys")).await?.value)
    }

    pub async fn score_profile(&self) -> Result<Profile, Error> {
        Ok(self.send(&Call::get("/.well-known/swarmscore-profile")).await?.value)
    }

    async fn read_score<T: serde::de::DeserializeOwned>(&self, path: String) -> Result<T, Error> {
        Ok(self.send(&Call::get(path).signed_if(self.agent_id().is_some())).await?.value)
    }
}
