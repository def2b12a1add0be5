//! A node's way to a gateway that runs as a process of its own.

use std::{fmt, time::Duration};

use reqwest::{StatusCode, Url};
use serde::{Serialize, de::DeserializeOwned};
use skep_base::{ed25519::PublicKey, id::SessionId};
use skep_wire::conduit::{
    Acted, GatewayAct, GatewayClose, GatewayError, GatewayInfo, GatewayOpen, SessionProof,
};

use crate::{Error, client::BROWSER_TIMEOUT};

/// A gateway on the same network is there at once, or not.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The longest answer that is read: a proof with its pictures.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A connection to one gateway. Cheap to clone.
#[derive(Clone)]
pub struct GatewayClient {
    http: reqwest::Client,
    url: Url,
    secret: String,
}

impl fmt::Debug for GatewayClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayClient").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}

impl GatewayClient {
    /// The gateway at `url`, such as `http://127.0.0.1:4021`.
    pub fn new(url: &str, secret: &str) -> Result<GatewayClient, Error> {
        let bad = |reason: &str| Error::Url { url: url.to_owned(), reason: reason.to_owned() };
        let parsed = Url::parse(url).map_err(|error| bad(&error.to_string()))?;
        if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
            return Err(bad("it begins with http:// or https:// and names a host"));
        }
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(BROWSER_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(Error::Setup)?;
        Ok(GatewayClient { http, url: parsed, secret: secret.to_owned() })
    }

    pub async fn info(&self) -> Result<GatewayInfo, GatewayError> {
        let url = self.at("/gateway/info");
        read(self.http.get(url).bearer_auth(&self.secret)).await
    }

    pub async fn open(
        &self,
        session: SessionId,
        request: &GatewayOpen,
    ) -> Result<PublicKey, GatewayError> {
        self.post(session, "open", request).await
    }

    pub async fn act(
        &self,
        session: SessionId,
        request: &GatewayAct,
    ) -> Result<Acted, GatewayError> {
        self.post(session, "actions", request).await
    }

    pub async fn close(
        &self,
        session: SessionId,
        request: &GatewayClose,
    ) -> Result<SessionProof, GatewayError> {
        self.post(session, "close", request).await
    }

    fn at(&self, path: &str) -> Url {
        let mut url = self.url.clone();
        url.set_path(path);
        url
    }

    async fn post<T: DeserializeOwned>(
        &self,
        session: SessionId,
        what: &str,
        request: &impl Serialize,
    ) -> Result<T, GatewayError> {
        let body = serde_json::to_vec(request).map_err(|error| unreachable(&error))?;
        let url = self.at(&format!("/gateway/sessions/{session}/{what}"));
        let request = self.http.post(url).bearer_auth(&self.secret);
        read(request.header("content-type", "application/json").body(body)).await
    }
}

fn unreachable(reason: &dyn fmt::Display) -> GatewayError {
    GatewayError::Unreachable { detail: reason.to_string() }
}

async fn read<T: DeserializeOwned>(request: reqwest::RequestBuilder) -> Result<T, GatewayError> {
    let lost = |error: reqwest::Error| unreachable(&error.without_url());
    let mut response = request.send().await.map_err(lost)?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(lost)? {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(unreachable(&"its answer is too long"));
        }
        body.extend_from_slice(&chunk);
    }
    match response.status() {
        StatusCode::OK => serde_json::from_slice(&body).map_err(|error| unreachable(&error)),
        StatusCode::CONFLICT => {
            let said: Result<GatewayError, _> = serde_json::from_slice(&body);
            Err(said.unwrap_or_else(|error| unreachable(&error)))
        }
        status => Err(unreachable(&format!("it answered {status}"))),
    }
}
