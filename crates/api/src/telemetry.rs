//! Logs to stderr, and traces to whoever collects them.

use std::{io::IsTerminal, time::Duration};

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tracing_subscriber::{EnvFilter, Layer, layer::SubscriberExt, util::SubscriberInitExt};

/// The variable that switches traces on; its value is the collector's address.
pub const OTLP_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// How long a batch of spans may take to be delivered.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);
const DEFAULT_FILTER: &str = "info,hyper=warn,h2=warn,reqwest=warn,opentelemetry=warn";

/// How logs are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    #[default]
    Auto,
    Text,
    Json,
}

/// Why there are no logs or traces.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("{OTLP_ENDPOINT} is not an address traces can be sent to: {0}")]
    Exporter(String),
    #[error("logs were set up before")]
    AlreadySet,
}

/// Sends what is left when it is dropped. Keep it until the end of `main`.
#[derive(Debug)]
#[must_use]
pub struct Guard {
    traces: Option<SdkTracerProvider>,
}

impl Guard {
    /// Whether traces go to a collector.
    pub fn exports_traces(&self) -> bool {
        self.traces.is_some()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.traces.as_ref().map(SdkTracerProvider::shutdown) {
            tracing::warn!(%error, "the last traces were not delivered");
        }
    }
}

/// Sets up logs (`RUST_LOG` filters them) and, where [`OTLP_ENDPOINT`] is set, traces.
pub fn init(format: LogFormat) -> Result<Guard, TelemetryError> {
    let endpoint = std::env::var(OTLP_ENDPOINT).ok().filter(|endpoint| !endpoint.is_empty());
    init_with(format, endpoint.as_deref())
}

/// [`init`] with the collector's address from elsewhere.
pub fn init_with(format: LogFormat, endpoint: Option<&str>) -> Result<Guard, TelemetryError> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| DEFAULT_FILTER.into());
    let is_json = match format {
        LogFormat::Auto => !std::io::stderr().is_terminal(),
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = match is_json {
        true => lines.json().flatten_event(true).boxed(),
        false => lines.with_ansi(std::io::stderr().is_terminal()).boxed(),
    };
    let traces = endpoint.map(trace_provider).transpose()?;
    let spans = traces
        .as_ref()
        .map(|provider| tracing_opentelemetry::layer().with_tracer(provider.tracer("skep")));
    tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .with(spans)
        .try_init()
        .map_err(|_| TelemetryError::AlreadySet)?;
    Ok(Guard { traces })
}

/// Batches spans on a thread of its own, so that a slow collector slows nobody down.
fn trace_provider(endpoint: &str) -> Result<SdkTracerProvider, TelemetryError> {
    let failed = |error: &dyn std::fmt::Display| TelemetryError::Exporter(error.to_string());
    // The blocking client must not be made on a thread that runs async tasks.
    let client = std::thread::spawn(|| {
        crate::tls::use_ring();
        reqwest::blocking::Client::builder().timeout(EXPORT_TIMEOUT).build()
    });
    let client = client.join().map_err(|_| failed(&"the client could not be made"))?;
    let client = client.map_err(|error| failed(&error))?;
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
        .with_timeout(EXPORT_TIMEOUT)
        .build()
        .map_err(|error| failed(&error))?;
    let resource = Resource::builder().with_service_name("skep").build();
    Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build())
}
