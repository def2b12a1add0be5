//! The engine `browser`: a page as a person sees it, with a picture as evidence.
//!
//! FAILED needs a page that was seen and is not as the terms say; a browser that breaks down, a
//! step that cannot be done or an address that is refused finds nothing out.

use std::sync::Arc;

use serde_json::Value;
use skep_base::{Hash32, hash::sha256};
use skep_wire::{
    conduit::{Act, ActionType},
    settle::{EXTRACT_LEN_MAX, Hints, Tier, VerificationSpec, criteria::BrowserSteps},
};

use super::{
    Bench,
    check::{self, Extract, fold},
    criteria::{Criteria, bad_custom},
    http::address,
    record::{Record, Stop, cut},
};
use crate::browser::{BrowserError, Done, Tab};

/// What the terms may have a browser do: look and press, but run no scripts. That it writes
/// nothing is a rule of the terms themselves.
const TIER: Tier = Tier::Basic;
/// How a tab says that a page was seen and something is not on it.
const NOT_FOUND: &str = "not_found";

pub(super) async fn examine(
    bench: &Bench,
    record: &mut Record<'_>,
    spec: &VerificationSpec,
) -> Result<(), Stop> {
    let criteria = bench.prepare(spec).await?;
    let steps = BrowserSteps::read(spec.custom.as_ref()).map_err(bad_custom)?;
    let url = address(spec)?;
    let mut tab = open(bench).await?;
    let arrived = act(&mut tab, record, Act::navigate(url), |done| {
        status(done).and_then(|status| check::status(status, criteria.custom.status))
    });
    arrived.await?;
    if let Some(selector) = &steps.wait_for {
        wait_for(&mut tab, record, selector).await?;
    }
    for step in steps.steps {
        act(&mut tab, record, step, |_| Ok(())).await?;
    }
    let extract = Act { selector: spec.selector.clone(), ..Act::new(ActionType::Extract) };
    let done = act(&mut tab, record, extract, |_| Ok(())).await?;
    let (text, is_cut) = text_of(done)?;
    record.extracted_content = Some(cut(&text, EXTRACT_LEN_MAX).to_owned());
    act(&mut tab, record, Act::new(ActionType::Screenshot), |_| Ok(())).await?;
    let look = Act { selector: spec.selector.clone(), ..Act::new(ActionType::Fingerprint) };
    let fingerprint = act(&mut tab, record, look, |_| Ok(())).await?.fingerprint;
    let unseen = || Stop::error("browser_error", "the browser gave no fingerprint");
    let fingerprint = fingerprint.ok_or_else(unseen)?;
    record.fingerprints.current = Some(fingerprint);
    // Nobody needs the browser any more, and others wait for its place.
    drop(tab);
    all_seen(&criteria, &text, is_cut)?;
    let mut extract = Extract::of_text(text, 1, 0);
    extract.fingerprint = fingerprint;
    bench.check(record, spec, &criteria, &Arc::new(extract)).await
}

/// The page's fingerprint before the work, after the same steps as far as they can be done yet.
pub(super) async fn baseline(bench: &Bench, hints: &Hints, url: &str) -> Result<Hash32, Stop> {
    let steps = BrowserSteps::read(hints.custom.as_ref()).map_err(bad_custom)?;
    let mut tab = open(bench).await?;
    let arrived = tab.act(&Act::navigate(url), TIER).await;
    if let Some(stop) = stop(&arrived, ActionType::Navigate) {
        return Err(stop);
    }
    match status(&arrived)? {
        200..300 => {}
        404 | 410 => return Ok(sha256(b"")),
        status => return Err(Stop::error("http_status", format!("HTTP status {status}"))),
    }
    let wait = steps
        .wait_for
        .map(|selector| Act { selector: Some(selector), ..Act::new(ActionType::WaitFor) });
    for act in wait.into_iter().chain(steps.steps) {
        let done = tab.act(&act, TIER).await;
        match done.error {
            Some(error) if done.fatal => return Err(Stop::Error(error)),
            // What it wants is not there yet.
            Some(_) => break,
            None => {}
        }
    }
    let look = Act { selector: hints.selector.clone(), ..Act::new(ActionType::Fingerprint) };
    let done = tab.act(&look, TIER).await;
    match (stop(&done, look.action), done.fingerprint) {
        (None, Some(fingerprint)) => Ok(fingerprint),
        (Some(Stop::Failed(_)), _) => Ok(sha256(b"")),
        (Some(stop), _) => Err(stop),
        (None, None) => Err(Stop::error("browser_error", "the browser gave no fingerprint")),
    }
}

async fn open(bench: &Bench) -> Result<Tab, Stop> {
    let stop = |error: BrowserError| Stop::error(error.code(), error.to_string());
    let missing = || BrowserError::NoBrowser { reason: "this verifier has no browser".to_owned() };
    let browsers = bench.browsers.as_ref().ok_or_else(missing).map_err(stop)?;
    loop {
        match browsers.open().await {
            // Others' examinations end in time, and so does this one.
            Err(BrowserError::Busy) => bench.deadline.check()?,
            opened => return opened.map_err(stop),
        }
    }
}

/// Does one action and writes it down, with what `judge` says to it.
async fn act(
    tab: &mut Tab,
    record: &mut Record<'_>,
    act: Act,
    judge: impl FnOnce(&Done) -> Result<(), Stop>,
) -> Result<Done, Stop> {
    let name = act.action.as_str();
    record.start(name, act.url.as_deref(), act.selector.as_deref());
    let done = tab.act(&act, TIER).await;
    note(record, &act, &done);
    let result = match stop(&done, act.action) {
        Some(stop) => Err(stop),
        None => judge(&done),
    };
    let snippet = done.snippet.clone().unwrap_or_default();
    record.finish(result.map(|()| done), |_| snippet)
}

/// The evidence of an action: what it was told, and what it left behind.
fn note(record: &mut Record<'_>, act: &Act, done: &Done) {
    if let Some(input) = &done.input {
        record.note(input.clone());
    }
    let picture = done.screenshot.as_ref();
    let picture = picture.map(|png| record.attach(png, "image/png", "page.png"));
    let file = done.file.as_ref();
    let file = file.map(|(name, bytes)| record.attach(bytes, "text/plain", name));
    if let Some(step) = record.step() {
        step.cost_category = Some(act.action.cost_category());
        step.url = step.url.take().or_else(|| done.url.clone());
        step.screenshot_sha256 = picture;
        step.data_sha256 = file;
        step.fingerprint = done.fingerprint;
    }
}

/// Why an action ends the examination. Only what was looked for on a page that was seen, and is
/// not there, speaks against the work.
fn stop(done: &Done, action: ActionType) -> Option<Stop> {
    let error = done.error.as_ref()?;
    let looked = matches!(action, ActionType::Extract | ActionType::Fingerprint);
    Some(match error.code == NOT_FOUND && looked && !done.fatal {
        true => Stop::failed(error.detail.clone()),
        false => Stop::error(&error.code, format!("{}: {}", action.as_str(), error.detail)),
    })
}

/// Waits until something is there. If it never is, the page is looked at once more: one that
/// answers, and does not have it, is not as the terms say.
async fn wait_for(tab: &mut Tab, record: &mut Record<'_>, selector: &str) -> Result<(), Stop> {
    let on = |action| Act { selector: Some(selector.to_owned()), ..Act::new(action) };
    match act(tab, record, on(ActionType::WaitFor), |_| Ok(())).await {
        Err(Stop::Error(report)) if report.code == "timeout" => {
            act(tab, record, on(ActionType::Extract), |_| Ok(())).await.map(|_| ())
        }
        waited => waited.map(|_| ()),
    }
}

fn status(done: &Done) -> Result<u16, Stop> {
    let status = done.data["status"].as_u64().and_then(|status| u16::try_from(status).ok());
    status.ok_or_else(|| Stop::error("no_status", "the page came without an HTTP status"))
}

/// What EXTRACT gave, and whether there was more.
fn text_of(done: Done) -> Result<(String, bool), Stop> {
    let is_cut = done.data["cut"] == true;
    match done.data {
        Value::Object(mut data) => match data.remove("text") {
            Some(Value::String(text)) => Ok((text, is_cut)),
            _ => Err(Stop::error("too_large", "the text is too long to be looked at")),
        },
        _ => Err(Stop::error("browser_error", "the browser gave no text")),
    }
}

/// What was not read cannot be said to be missing.
fn all_seen(criteria: &Criteria, text: &str, is_cut: bool) -> Result<(), Stop> {
    match &criteria.expected_content {
        Some(expected) if is_cut && !fold(text).contains(&fold(expected)) => {
            Err(Stop::error("too_large", "the page says more than was looked at"))
        }
        _ => Ok(()),
    }
}
