//! The HTTP face of Skep: it reads requests, checks who signed them, asks the market and says what
//! came of it.
//!
//! It is the only place that knows HTTP statuses: whatever can go wrong has a row in
//! [`code::Code`]'s table. It holds no rules and no SQL.
//!
//! Invariants: a body is read once, up to a limit and in a limited time; a signature is judged
//! before a handler runs; every error is a problem with a code and the request's id; an accepted
//! request is finished before the process ends.
//!
//! ```no_run
//! # async fn run(market: skep_market::Market) -> Result<(), skep_api::StartError> {
//! use skep_api::{Config, Server};
//!
//! let server = Server::bind(Config::new(([127, 0, 0, 1], 4020).into()), market).await?;
//! println!("ready {}", server.url());
//! server.serve(std::future::pending()).await;
//! # Ok(())
//! # }
//! ```

mod admin;
mod api;
mod body;
pub mod code;
pub mod config;
mod connection;
mod docs;
mod evidence;
mod extract;
mod failure;
mod frame;
mod gateway;
mod generations;
mod keys;
mod metrics;
mod problem;
mod rate;
mod routes;
mod seats;
mod server;
pub mod telemetry;
mod tls;

pub use self::{
    admin::{ADMIN_SOCKET, AdminDoor},
    code::Code,
    config::{Config, Limits, Rate, Rates, TlsFiles},
    connection::Drained,
    gateway::{GATEWAY_SECRET_LEN_MIN, GatewayDoor},
    metrics::install as install_metrics,
    problem::ApiError,
    server::{Server, StartError},
    tls::TlsError,
};

/// The description of the interface, as `/openapi.json` gives it.
pub fn openapi() -> String {
    let (_, description) = routes::router().split_for_parts();
    let documents = docs::Documents::new(description);
    String::from_utf8_lossy(&documents.openapi).into_owned()
}
