//! The engines `http` and `api`: something answers at an address, and is as the terms say.

use std::sync::Arc;

use skep_wire::settle::VerificationSpec;

use super::{
    Bench,
    check::{self, Extract, Material},
    criteria::{Call, Criteria},
    record::{Record, Stop},
};
use crate::egress::{Fetched, Request};

/// A page, fetched as anybody would (appendix A: NAVIGATE).
pub(super) async fn examine_page(
    bench: &Bench,
    record: &mut Record<'_>,
    spec: &VerificationSpec,
) -> Result<Arc<Extract>, Stop> {
    let criteria = bench.prepare(spec).await?;
    let request = Request::get(address(spec)?);
    answer(bench, record, spec, criteria, "NAVIGATE", request).await
}

/// An API, asked as `custom` says.
pub(super) async fn examine_api(
    bench: &Bench,
    record: &mut Record<'_>,
    spec: &VerificationSpec,
) -> Result<(), Stop> {
    let criteria = bench.prepare(spec).await?;
    let Call { method, headers, body } = criteria.custom.call()?;
    // Only a GET goes on to where it is sent: a POST is meant for one address.
    let follow_redirects = method == http::Method::GET;
    let request =
        Request { method, headers, body, follow_redirects, ..Request::get(address(spec)?) };
    answer(bench, record, spec, criteria, "REQUEST", request).await.map(|_| ())
}

async fn answer(
    bench: &Bench,
    record: &mut Record<'_>,
    spec: &VerificationSpec,
    criteria: Arc<Criteria>,
    action: &str,
    request: Request,
) -> Result<Arc<Extract>, Stop> {
    record.start(action, Some(&request.url), None);
    let fetched = bench.egress.send(request).await.map_err(Stop::from);
    let fetched = fetched.and_then(|fetched| {
        check::status(fetched.status, criteria.custom.status).map(|()| fetched)
    });
    let fetched = record.finish(fetched, describe)?;
    let content_type = fetched.content_type().map(str::to_owned);
    let material = Material { bytes: fetched.body, content_type };
    let extract = bench.extract(record, spec, &criteria, material).await?;
    bench.fingerprint(record, extract.fingerprint);
    bench.check(record, spec, &criteria, &extract).await?;
    Ok(extract)
}

pub(super) fn address(spec: &VerificationSpec) -> Result<&str, Stop> {
    spec.url.as_deref().ok_or_else(|| Stop::error("no_url", "the request names no address"))
}

/// What came back, in a few words.
pub(super) fn describe(fetched: &Fetched) -> String {
    let kind = fetched.content_type().unwrap_or("no content type");
    let mut text = format!("HTTP {}, {kind}, {} bytes", fetched.status, fetched.body.len());
    if !fetched.hops.is_empty() {
        text.push_str(", from ");
        text.push_str(&fetched.final_url);
    }
    text
}
