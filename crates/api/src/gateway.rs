//! The door of a gateway that runs as a process of its own. Only its node knows the secret.

use std::{fmt, sync::Arc};

use axum::{
    Json, Router,
    extract::{Path, Request, State},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http::{HeaderMap, StatusCode, header};
use serde::{Serialize, de::DeserializeOwned};
use skep_base::{hash::sha256, id::SessionId};
use skep_market::Gateway;
use skep_wire::conduit::{GatewayAct, GatewayClose, GatewayError, GatewayInfo, GatewayOpen};

use crate::{
    body,
    code::Code,
    config::{Config, Limits},
    problem::ApiError,
    server::{Server, StartError},
};

/// The shortest secret that a gateway takes: nobody guesses it.
pub const GATEWAY_SECRET_LEN_MIN: usize = 32;

/// What a gateway's door needs.
#[derive(Clone)]
pub struct GatewayDoor {
    pub gateway: Arc<dyn Gateway>,
    pub info: GatewayInfo,
    pub secret: String,
}

impl fmt::Debug for GatewayDoor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayDoor").field("info", &self.info).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug)]
struct Door {
    door: GatewayDoor,
    limits: Limits,
}

impl Server {
    /// Listens as a gateway, which only its node may use.
    pub async fn bind_gateway(config: Config, door: GatewayDoor) -> Result<Server, StartError> {
        Server::bind_with(config, |config, _| gateway_router(door, config.limits)).await
    }
}

fn gateway_router(door: GatewayDoor, limits: Limits) -> Router {
    Router::new()
        .route("/gateway/info", get(info))
        .route("/gateway/sessions/{id}/open", post(open))
        .route("/gateway/sessions/{id}/actions", post(act))
        .route("/gateway/sessions/{id}/close", post(close))
        .route("/healthz", get(async || "ok"))
        .with_state(Door { door, limits })
}

impl Door {
    /// By hashes, byte by byte to the end: how long it takes says nothing about the secret.
    fn check(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
        let (given, own) = (sha256(given.as_bytes()), sha256(self.door.secret.as_bytes()));
        let pairs = given.as_bytes().iter().zip(own.as_bytes());
        let difference = pairs.fold(0, |difference, (a, b)| difference | (a ^ b));
        match difference == 0 && self.door.secret.len() >= GATEWAY_SECRET_LEN_MIN {
            true => Ok(()),
            false => Err(Code::BadSecret.into()),
        }
    }

    async fn read<T: DeserializeOwned>(&self, request: Request) -> Result<T, ApiError> {
        self.check(request.headers())?;
        body::check_type(request.headers())?;
        let limits = body::limits(request.uri().path(), &self.limits);
        body::parse(&body::read(request.into_body(), &limits).await?)
    }
}

fn session(id: &str) -> Result<SessionId, ApiError> {
    id.parse().map_err(|error| ApiError::new(Code::MalformedId, format!("{error}")))
}

/// The gateway's own words, whatever they are.
fn said<T: Serialize>(result: Result<T, GatewayError>) -> Response {
    match result {
        Ok(value) => Json(value).into_response(),
        Err(error) => (StatusCode::CONFLICT, Json(error)).into_response(),
    }
}

async fn info(State(door): State<Door>, headers: HeaderMap) -> Result<Response, ApiError> {
    door.check(&headers)?;
    Ok(Json(door.door.info.clone()).into_response())
}

async fn open(
    State(door): State<Door>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let request: GatewayOpen = door.read(request).await?;
    Ok(said(door.door.gateway.open(session(&id)?, request).await))
}

async fn act(
    State(door): State<Door>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let request: GatewayAct = door.read(request).await?;
    Ok(said(door.door.gateway.act(session(&id)?, request).await))
}

async fn close(
    State(door): State<Door>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let request: GatewayClose = door.read(request).await?;
    Ok(said(door.door.gateway.close(session(&id)?, request).await))
}
