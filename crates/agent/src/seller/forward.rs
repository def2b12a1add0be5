//! Another server as work: parameters are posted to it, its answer is the result.

use std::time::Duration;

use serde_json::{Value, json};
use skep_base::AgentId;

use super::{
    program::STDOUT_LEN_MAX,
    work::{Boxed, Brief, JobContext, Scoped, Work, WorkError},
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Who hires, for the server behind.
const BUYER_HEADER: &str = "skep-buyer";
const CAPABILITY_HEADER: &str = "skep-capability";
/// The same for every try of one hire.
const IDEMPOTENCY_HEADER: &str = "idempotency-key";

/// An address that the seller's own operator chose; nobody else can change it.
#[derive(Clone, Debug)]
pub struct ForwardWork {
    http: reqwest::Client,
    url: reqwest::Url,
}

#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    #[error("{url:?} is not an address that work can be sent to: http://… or https://…")]
    Url { url: String },
    #[error("the client could not be made")]
    Setup(#[source] reqwest::Error),
}

impl ForwardWork {
    pub fn new(url: &str) -> Result<ForwardWork, ForwardError> {
        let bad = || ForwardError::Url { url: url.to_owned() };
        let parsed = reqwest::Url::parse(url).map_err(|_| bad())?;
        if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
            return Err(bad());
        }
        // Another part of the process may have chosen a provider already; either is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(ForwardError::Setup)?;
        Ok(ForwardWork { http, url: parsed })
    }

    async fn post(
        &self,
        body: Value,
        (capability, buyer, id): (&str, AgentId, &str),
        limit: Duration,
    ) -> Result<Value, WorkError> {
        let failed = |e: reqwest::Error| match e.is_timeout() {
            true => WorkError::TimedOut(limit),
            false => WorkError::Failed(e.without_url().to_string()),
        };
        let request = self.http.post(self.url.clone()).timeout(limit).json(&body);
        let request = request
            .header(BUYER_HEADER, buyer.to_string())
            .header(CAPABILITY_HEADER, capability)
            .header(IDEMPOTENCY_HEADER, id);
        let mut response = request.send().await.map_err(failed)?;
        let status = response.status();
        if !status.is_success() {
            return Err(WorkError::Failed(format!("the server behind answered {status}")));
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > STDOUT_LEN_MAX {
                return Err(WorkError::TooLong { max: STDOUT_LEN_MAX });
            }
            body.extend_from_slice(&chunk);
        }
        skep_base::json::parse(&body).map_err(|error| WorkError::NotJson(error.to_string()))
    }
}

impl Work for ForwardWork {
    fn run(&self, params: Value, context: JobContext) -> Boxed<'_, Result<Value, WorkError>> {
        Box::pin(async move {
            let JobContext { hire_id, capability, buyer, time_limit } = context;
            self.post(params, (&capability, buyer, &hire_id), time_limit).await
        })
    }

    fn scope(&self, brief: Brief, limit: Duration) -> Boxed<'_, Result<Scoped, WorkError>> {
        Box::pin(async move {
            let (capability, buyer) = (brief.capability.clone(), brief.buyer_id);
            let said =
                self.post(json!({ "clarify": brief }), (&capability, buyer, ""), limit).await?;
            serde_json::from_value(said).map_err(|error| WorkError::NotJson(error.to_string()))
        })
    }
}
