//! A client of the operator's socket in a node's folder.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use skep_wire::admin::{AdminAnswer, AdminRequest, QualificationReport};

use crate::Error;

/// Speaks over a socket of this machine; whoever may open it is the operator.
#[derive(Clone, Debug)]
pub struct AdminClient {
    http: reqwest::Client,
    socket: PathBuf,
}

impl AdminClient {
    pub fn new(socket: &Path) -> Result<AdminClient, Error> {
        // Another part of the process may have chosen a provider already; either is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let built = reqwest::Client::builder().unix_socket(socket.to_owned()).build();
        Ok(AdminClient { http: built.map_err(Error::Setup)?, socket: socket.to_owned() })
    }

    /// Does something, with its reason.
    pub async fn act(&self, request: &AdminRequest) -> Result<AdminAnswer, Error> {
        let body = serde_json::to_vec(request).map_err(|e| Error::Request(e.to_string()))?;
        let post = self.http.post("http://node/acts").header("content-type", "application/json");
        self.ask(post.body(body)).await
    }

    /// SwarmScore 9.4.
    pub async fn report(&self) -> Result<QualificationReport, Error> {
        self.ask(self.http.get("http://node/report")).await
    }

    async fn ask<T: DeserializeOwned>(&self, request: reqwest::RequestBuilder) -> Result<T, Error> {
        let url = self.socket.display().to_string();
        let response = request
            .send()
            .await
            .map_err(|source| Error::Connection { url: url.clone(), source })?;
        let status = response.status();
        let bytes = response.bytes().await.map_err(|source| Error::Connection { url, source })?;
        let unreadable =
            |e: serde_json::Error| Error::Answer { status: status.as_u16(), reason: e.to_string() };
        if status.is_success() {
            return serde_json::from_slice(&bytes).map_err(unreadable);
        }
        let problem = serde_json::from_slice(&bytes).map_err(unreadable)?;
        Err(Error::Problem { problem: Box::new(problem), retry_after: None })
    }
}
