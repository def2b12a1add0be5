//! The endpoints, one file for each group.

mod agents;
mod budgets;
mod capabilities;
mod deals;
mod escrows;
mod events;
mod health;
mod listings;
mod node;
mod operators;
mod pages;
mod passports;
mod proofs;
mod receipts;
mod scores;
mod sessions;
mod transfers;
mod verifications;
mod wallets;
mod x402;

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::{HeaderName, HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};
use skep_base::AgentId;
use skep_market::Answered;
use skep_wire::score::{HEADER_EFFECTIVE_MODIFIER, HEADER_MODIFIER, HEADER_SCORE, HEADER_TIER};
use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{api::Api, code::Code, problem::ApiError};

pub(crate) const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// The longest page of a list, and the usual one.
const PAGE_MAX: usize = 100;
const PAGE_DEFAULT: usize = 50;
/// Cursors are short; what is longer is none.
const CURSOR_LEN_MAX: usize = 128;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Skep",
        description = "Where AI agents find, hire, pay, check and rate one another.\n\nEvery error \
            is `application/problem+json` with a stable `code`. Lists have `limit` and `cursor`. \
            Writes take `Idempotency-Key`: the same key with the same request gets the same \
            answer, with `Idempotent-Replayed: true`.\n\nSigned requests follow RFC 9421: \
            `Signature-Input` covers `@method`, `@authority`, `@path`, `@query` if there is one, \
            `content-digest` and `content-type` if there is a body, and `idempotency-key` if it is \
            sent; with `created`, `expires` (at most 300 s later), `nonce` (16 to 128 \
            characters), `keyid` (the agent's address or DID), `alg=\"ed25519\"` and \
            `tag=\"skep\"`.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    tags(
        (name = "identity", description = "Agents, operators and their keys. These messages carry \
            their own signatures."),
        (name = "money", description = "Wallets and transfers. Requests are signed."),
        (name = "payments", description = "Payments over HTTP (x402) on the built-in ledger, money \
            that waits for the buyer's check, and the budgets that limit both. These messages \
            carry their own signatures."),
        (name = "deals", description = "VCAP: work for money that is held until the work is \
            verified."),
        (name = "verification", description = "VCAP: those who look at work, and those who decide \
            when nobody else can."),
        (name = "sessions", description = "Browsers for agents: every action is recorded in a \
            chain of hashes, which the gateway signs when the session is closed."),
        (name = "hire", description = "SHP: what agents sell, who finds them, and the receipts of \
            hires. These messages carry their own signatures."),
        (name = "score", description = "SwarmScore and ATEP: what an agent has done, counted, \
            signed and open to anybody's check. Answers about one agent carry `X-SwarmScore`, \
            `X-SwarmScore-Tier`, `X-SwarmScore-Escrow-Modifier` and \
            `X-SwarmScore-Effective-Modifier`, if its score is published."),
        (name = "log", description = "What happened, in one chain of hashes."),
        (name = "operations", description = "For those who run a node."),
    ),
    components(schemas(skep_wire::problem::Problem)),
)]
struct Description;

/// All routes with their description.
pub(crate) fn router() -> OpenApiRouter<Api> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(operators::register))
        .routes(routes!(operators::show))
        .routes(routes!(agents::register))
        .routes(routes!(agents::show))
        .routes(routes!(agents::change_keys))
        .routes(routes!(agents::inbox))
        .routes(routes!(agents::webhook_log))
        .routes(routes!(wallets::show))
        .routes(routes!(wallets::history))
        .routes(routes!(wallets::faucet))
        .routes(routes!(wallets::advance_clock))
        .routes(routes!(wallets::set_standing))
        .routes(routes!(transfers::create))
        .routes(routes!(transfers::show))
        .routes(routes!(transfers::post))
        .routes(routes!(transfers::void))
        .merge(payments())
        .routes(routes!(deals::open))
        .routes(routes!(deals::respond))
        .routes(routes!(deals::negotiation))
        .routes(routes!(deals::escrow))
        .routes(routes!(deals::agreement))
        .routes(routes!(deals::cancel))
        .routes(routes!(deals::dispute))
        .routes(routes!(deals::object))
        .routes(routes!(deals::refund))
        .routes(routes!(deals::split))
        .routes(routes!(deals::baseline))
        .routes(routes!(deals::settlement))
        .routes(routes!(verifications::deliver))
        .routes(routes!(verifications::show))
        .routes(routes!(verifications::ack))
        .routes(routes!(verifications::callback))
        .routes(routes!(verifications::message_schema))
        .routes(routes!(verifications::register))
        .routes(routes!(verifications::verifiers))
        .routes(routes!(verifications::verifier))
        .routes(routes!(verifications::add_key))
        .routes(routes!(verifications::revoke_key))
        .routes(routes!(verifications::reviews))
        .routes(routes!(verifications::review))
        .routes(routes!(verifications::decide))
        .routes(routes!(proofs::page))
        .routes(routes!(proofs::attachment))
        .routes(routes!(proofs::session))
        .routes(routes!(proofs::session_attachment))
        .routes(routes!(sessions::open))
        .routes(routes!(sessions::show))
        .routes(routes!(sessions::act))
        .routes(routes!(sessions::steps))
        .routes(routes!(sessions::close))
        .routes(routes!(sessions::proof))
        .merge(registry())
        .merge(reputation())
        .routes(routes!(events::list))
        .routes(routes!(events::head))
        .routes(routes!(node::keys))
        .routes(routes!(health::alive))
        .routes(routes!(health::ready))
        .routes(routes!(health::metrics))
        .routes(routes!(pages::openapi))
        .routes(routes!(pages::docs))
        .routes(routes!(pages::problem))
        .route("/", axum::routing::get(pages::home))
}

/// x402, and what belongs to it: escrows and budgets.
fn payments() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(x402::supported))
        .routes(routes!(x402::verify))
        .routes(routes!(x402::settle))
        .routes(routes!(x402::resources))
        .routes(routes!(x402::search))
        .routes(routes!(escrows::show))
        .routes(routes!(escrows::release))
        .routes(routes!(escrows::refund))
        .routes(routes!(escrows::timeout_refund))
        .routes(routes!(budgets::open))
        .routes(routes!(budgets::show))
}

/// SHP: listings, search and receipts.
fn registry() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(capabilities::list))
        .routes(routes!(capabilities::schema))
        .routes(routes!(listings::publish))
        .routes(routes!(listings::paid_at))
        .routes(routes!(listings::show))
        .routes(routes!(listings::delete))
        .routes(routes!(listings::remove))
        .routes(routes!(listings::of_agent))
        .routes(routes!(listings::search))
        .routes(routes!(receipts::submit))
        .routes(routes!(receipts::show))
        .routes(routes!(receipts::countersign))
        .routes(routes!(receipts::payload))
        .routes(routes!(receipts::of_agent))
}

/// SwarmScore and ATEP.
fn reputation() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(scores::keys))
        .routes(routes!(scores::profile))
        .routes(routes!(scores::publication))
        .routes(routes!(scores::show))
        .routes(routes!(scores::history))
        .routes(routes!(scores::verify))
        .routes(routes!(scores::export))
        .routes(routes!(scores::import))
        .routes(routes!(scores::trust_registry))
        .routes(routes!(passports::show))
        .routes(routes!(passports::public))
        .routes(routes!(passports::certificate))
}

/// What every list takes.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct PageQuery {
    /// The `next_cursor` of an earlier page.
    cursor: Option<String>,
    /// 1 to 100.
    #[param(default = 50)]
    limit: Option<usize>,
}

fn page_len(limit: Option<usize>) -> Result<usize, ApiError> {
    match limit.unwrap_or(PAGE_DEFAULT) {
        len @ 1..=PAGE_MAX => Ok(len),
        len => {
            let detail = format!("limit is 1 to {PAGE_MAX}, not {len}");
            Err(ApiError::new(Code::MalformedQuery, detail))
        }
    }
}

/// A place in the event log; from its beginning without one.
fn log_place(cursor: Option<&str>) -> Result<i64, ApiError> {
    let Some(cursor) = cursor else { return Ok(0) };
    let place = cursor.parse().ok().filter(|place: &i64| *place >= 0);
    place.ok_or_else(|| Code::MalformedCursor.into())
}

/// A cursor that only the store can read.
fn opaque(cursor: Option<String>) -> Result<Option<String>, ApiError> {
    let is_sane = |cursor: &String| {
        (1..=CURSOR_LEN_MAX).contains(&cursor.len())
            && cursor.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte))
    };
    match cursor {
        Some(cursor) if !is_sane(&cursor) => Err(Code::MalformedCursor.into()),
        cursor => Ok(cursor),
    }
}

/// An answer about one agent, with its score if that is published (SwarmScore 7.4).
async fn with_score(api: &Api, agent: &AgentId, answer: impl IntoResponse) -> Response {
    let mut response = answer.into_response();
    // What was asked for is there; nobody is refused it because of some headers.
    let Ok(Some(headline)) = api.market.headline(agent).await else { return response };
    let values = [
        (HEADER_SCORE, headline.score.to_string()),
        (HEADER_TIER, headline.tier.as_str().to_owned()),
        (HEADER_MODIFIER, headline.modifier.to_string()),
        (HEADER_EFFECTIVE_MODIFIER, headline.effective_modifier.to_string()),
    ];
    for (name, value) in values {
        if let Ok(value) = HeaderValue::try_from(value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    response
}

/// The answer of a write, marked if it was given before.
fn answered<T: Serialize>(status: StatusCode, answered: Answered<T>) -> Response {
    let mut response = (status, Json(answered.value)).into_response();
    if answered.replayed {
        let replayed = HeaderValue::from_static("true");
        response.headers_mut().insert(IDEMPOTENT_REPLAYED, replayed);
    }
    response
}
