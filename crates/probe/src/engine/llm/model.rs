//! The operator's own model endpoint. It was chosen by whoever runs the verifier, so it may be on
//! this machine, and is asked by a client of its own.

use std::{fmt, time::Duration};

use http::StatusCode;
use reqwest::Response;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::{super::record::Stop, prompt::Prompt};
use crate::egress::EgressError;

/// The longest answer of an endpoint, in bytes.
const ANSWER_LEN_MAX: usize = 128 * 1024;
/// The most tokens that the model may write.
const TOKENS_MAX: u32 = 1024;
/// How long a busy endpoint is left alone before it is asked once more.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Questions at the same time: models are slow, and paid for.
const AT_ONCE: usize = 4;
/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The version of the Anthropic API that is spoken.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// Which API an endpoint speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LlmStyle {
    /// `/v1/chat/completions`
    OpenAi,
    /// `/v1/messages`
    Anthropic,
}

impl LlmStyle {
    pub fn as_str(self) -> &'static str {
        match self {
            LlmStyle::OpenAi => "openai",
            LlmStyle::Anthropic => "anthropic",
        }
    }

    fn path(self) -> &'static str {
        match self {
            LlmStyle::OpenAi => "/v1/chat/completions",
            LlmStyle::Anthropic => "/v1/messages",
        }
    }
}

/// A secret that no log shows.
#[derive(Clone)]
pub struct ApiKey(String);

impl ApiKey {
    pub fn new(key: impl Into<String>) -> ApiKey {
        ApiKey(key.into())
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

/// The model that the operator has set up.
#[derive(Clone, Debug)]
pub struct LlmConfig {
    pub style: LlmStyle,
    /// Where the API is, with or without `/v1`.
    pub url: String,
    pub model: String,
    pub api_key: Option<ApiKey>,
    /// For one question.
    pub timeout: Duration,
}

#[derive(Debug)]
pub(in crate::engine) struct Llm {
    config: LlmConfig,
    endpoint: String,
    http: reqwest::Client,
    places: Semaphore,
}

impl Llm {
    pub(in crate::engine) fn new(config: LlmConfig) -> Result<Llm, EgressError> {
        let setup = |reason: String| EgressError::Setup { reason };
        let base = config.url.trim_end_matches('/');
        let base = base.strip_suffix("/v1").unwrap_or(base);
        let parsed = url::Url::parse(base).map_err(|e| setup(format!("llm_url: {e}")))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(setup("llm_url is an http or https address".to_owned()));
        }
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            // A redirect could carry the key elsewhere.
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(config.timeout)
            .build()
            .map_err(|e| setup(e.to_string()))?;
        let endpoint = format!("{base}{}", config.style.path());
        Ok(Llm { config, endpoint, http, places: Semaphore::new(AT_ONCE) })
    }

    pub(super) fn config(&self) -> &LlmConfig {
        &self.config
    }

    /// Asks, once more if the endpoint is busy, and gives its answer as it came.
    pub(super) async fn ask(&self, prompt: &Prompt) -> Result<Vec<u8>, Stop> {
        let lost = |_| Stop::error("engine_failed", "the engine has shut down");
        let _place = self.places.acquire().await.map_err(lost)?;
        let body = self.body(prompt).to_string();
        let mut response = self.send(&body).await?;
        let busy = |status: StatusCode| status.is_server_error() || status.as_u16() == 429;
        if busy(response.status()) {
            tokio::time::sleep(RETRY_PAUSE).await;
            response = self.send(&body).await?;
        }
        let status = response.status();
        if !status.is_success() {
            let detail = format!("the model's endpoint answers with HTTP status {status}");
            return Err(Stop::error("llm_status", detail));
        }
        read(response).await
    }

    fn body(&self, prompt: &Prompt) -> Value {
        let model = &self.config.model;
        let user = json!({"role": "user", "content": prompt.user});
        match self.config.style {
            LlmStyle::OpenAi => json!({
                "model": model, "temperature": 0, "max_tokens": TOKENS_MAX,
                "messages": [{"role": "system", "content": prompt.system}, user],
            }),
            LlmStyle::Anthropic => json!({
                "model": model, "temperature": 0, "max_tokens": TOKENS_MAX,
                "system": prompt.system, "messages": [user],
            }),
        }
    }

    async fn send(&self, body: &str) -> Result<Response, Stop> {
        let mut request = self.http.post(&self.endpoint);
        request = request.header("content-type", "application/json").body(body.to_owned());
        let key = self.config.api_key.as_ref().map(|ApiKey(key)| key);
        request = match (self.config.style, key) {
            (LlmStyle::OpenAi, Some(key)) => request.bearer_auth(key),
            (LlmStyle::OpenAi, None) => request,
            (LlmStyle::Anthropic, key) => {
                let request = request.header("anthropic-version", ANTHROPIC_VERSION);
                key.into_iter().fold(request, |request, key| request.header("x-api-key", key))
            }
        };
        request.send().await.map_err(unanswered)
    }

    /// What the model said, out of the endpoint's answer.
    pub(super) fn read(&self, raw: &[u8]) -> Result<String, Stop> {
        let bad = |detail: &str| Stop::error("llm_answer", detail);
        let answer: Value = serde_json::from_slice(raw)
            .map_err(|_| bad("the model's endpoint does not answer with JSON"))?;
        let (list, text, end, ends) = match self.config.style {
            LlmStyle::OpenAi => {
                let choice = &answer["choices"][0];
                let (text, end) = (&choice["message"]["content"], &choice["finish_reason"]);
                (&answer["choices"], text, end, &["stop"][..])
            }
            LlmStyle::Anthropic => {
                let (list, end) = (&answer["content"], &answer["stop_reason"]);
                (list, &list[0]["text"], end, &["end_turn", "stop_sequence"][..])
            }
        };
        if end.as_str().is_some_and(|end| !ends.contains(&end)) {
            return Err(bad("the model did not finish its answer"));
        }
        match (list.as_array().map(Vec::len), text.as_str()) {
            (Some(1), Some(text)) => Ok(text.to_owned()),
            _ => Err(bad("the model's endpoint does not give exactly one answer")),
        }
    }
}

/// The body, as long as it is not longer than an answer can be.
async fn read(mut response: Response) -> Result<Vec<u8>, Stop> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unanswered)? {
        if body.len() + chunk.len() > ANSWER_LEN_MAX {
            let detail = format!("the model's answer is longer than {ANSWER_LEN_MAX} bytes");
            return Err(Stop::error("llm_answer", detail));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Without the address: an operator may have put a secret into it.
fn unanswered(error: reqwest::Error) -> Stop {
    match error.is_timeout() {
        true => Stop::error("llm_timeout", "the model did not answer in time"),
        false => Stop::error("llm_unreachable", "the model's endpoint cannot be reached"),
    }
}
