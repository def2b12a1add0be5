//! What a seller sells: something that turns parameters into a result.

use std::{fmt, future::Future, pin::Pin, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::AgentId;
use skep_wire::hire::Usdc;

/// A future that can be kept in a table.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// For whom something is done, and how long it may take.
#[derive(Clone, Debug)]
pub struct JobContext {
    pub hire_id: String,
    pub capability: String,
    pub buyer: AgentId,
    pub time_limit: Duration,
}

/// Why there is no result. Whoever hired is told, and pays nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkError {
    #[error("the work failed: {0}")]
    Failed(String),
    #[error("the work was not done within {} ms", .0.as_millis())]
    TimedOut(Duration),
    #[error("the result is longer than {max} bytes")]
    TooLong { max: usize },
    #[error("the result is no JSON: {0}")]
    NotJson(String),
    #[error("the work could not be started: {0}")]
    NotStarted(String),
}

impl WorkError {
    /// The answer's status and stable code.
    pub(crate) fn code(&self) -> (u16, &'static str) {
        match self {
            WorkError::Failed(_) => (502, "work_failed"),
            WorkError::TimedOut(_) => (504, "work_timeout"),
            WorkError::TooLong { .. } => (502, "output_too_large"),
            WorkError::NotJson(_) => (502, "bad_output"),
            WorkError::NotStarted(_) => (500, "work_not_started"),
        }
    }
}

/// What a buyer asks before it hires (7.5). The brief is a stranger's text.
#[derive(Clone, Debug, Serialize)]
pub struct Brief {
    pub capability: String,
    pub buyer_id: AgentId,
    pub brief: String,
    pub params: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_price_usdc: Option<Usdc>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_latency_ms: Option<u64>,
}

/// One price for one set of parameters.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Offered {
    pub price_usdc: Usdc,
    pub params: Value,
    #[serde(default)]
    pub estimated_latency_ms: Option<u64>,
    /// How long the price stands.
    #[serde(default)]
    pub valid_for_s: Option<u64>,
    #[serde(default)]
    pub notes: Option<String>,
}

/// What is answered to a [`Brief`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Scoped {
    Quote(Offered),
    Counter { reason: String, options: Vec<Offered> },
    Decline { reason: String },
}

/// Something that is sold.
pub trait Work: Send + Sync + 'static {
    /// Does it once. After a crash the same parameters may come again, so it must not matter
    /// whether it was done before.
    fn run(&self, params: Value, context: JobContext) -> Boxed<'_, Result<Value, WorkError>>;

    /// Says what something would cost. Without an own answer every brief is declined.
    fn scope(&self, _brief: Brief, _limit: Duration) -> Boxed<'_, Result<Scoped, WorkError>> {
        let reason = "this seller gives no quotes".to_owned();
        Box::pin(std::future::ready(Ok(Scoped::Decline { reason })))
    }
}

/// A function as work: `work_fn(|params, context| async move { Ok(params) })`.
pub fn work_fn<F, Fut>(run: F) -> impl Work
where
    F: Fn(Value, JobContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Value, WorkError>> + Send + 'static,
{
    FnWork(run)
}

struct FnWork<F>(F);

impl<F> fmt::Debug for FnWork<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FnWork")
    }
}

impl<F, Fut> Work for FnWork<F>
where
    F: Fn(Value, JobContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Value, WorkError>> + Send + 'static,
{
    fn run(&self, params: Value, context: JobContext) -> Boxed<'_, Result<Value, WorkError>> {
        let limit = context.time_limit;
        let running = (self.0)(params, context);
        Box::pin(async move {
            let late = |_| WorkError::TimedOut(limit);
            tokio::time::timeout(limit, running).await.map_err(late)?
        })
    }
}
