//! The node as an x402 facilitator.

use skep_wire::x402::{
    Discovery, EXACT, FacilitatorRequest, Rail, SettleResponse, Supported, VerifyResponse,
};

use crate::{Client, Error, client::Call};

impl Client {
    pub async fn x402_supported(&self) -> Result<Supported, Error> {
        Ok(self.send(&Call::get("/x402/supported")).await?.value)
    }

    /// The node's own ledger as a rail, for whoever asks for or makes payments on it.
    pub async fn x402_rail(&self) -> Result<Rail, Error> {
        let supported = self.x402_supported().await?;
        let kind = supported.kinds.into_iter().find(|k| k.x402_version == 2 && k.scheme == EXACT);
        let extra = kind.map(|kind| kind.extra.into()).unwrap_or_default();
        serde_json::from_value(extra).map_err(|error| Error::Answer {
            status: 200,
            reason: format!("the node offers no rail of its own: {error}"),
        })
    }

    /// Whether a payment would be taken now.
    pub async fn x402_verify(&self, request: &FacilitatorRequest) -> Result<VerifyResponse, Error> {
        Ok(self.send(&Call::post("/x402/verify", request)?).await?.value)
    }

    /// Takes a payment. The same payment again gives the same answer: a lost one is asked for
    /// again, never paid twice.
    pub async fn x402_settle(&self, request: &FacilitatorRequest) -> Result<SettleResponse, Error> {
        Ok(self.send(&Call::post("/x402/settle", request)?).await?.value)
    }

    pub async fn x402_discover(&self, query: &str) -> Result<Discovery, Error> {
        let call = Call::get("/x402/discovery/search").query("query", Some(query));
        Ok(self.send(&call).await?.value)
    }
}
