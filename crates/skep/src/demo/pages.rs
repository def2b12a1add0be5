//! The part of the story in which a real browser looks at a page, and an agent uses one itself.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use skep_base::Money;
use skep_probe::browser::Chromium;
use skep_sdk::Client;
use skep_wire::{
    conduit::{Act, ActionType, OpenSession, SessionStatus},
    settle::{EscrowStatus, engine},
};

use super::{
    Story,
    deals::{Cast, Outcomes, settled},
};
use crate::stage::{self, Site};

/// What Bob built. Only a browser sees the hours.
const SHOP: &str = "<!doctype html><html lang=en><title>The shop</title>\
    <body style='font:24px sans-serif;margin:3em'><h1>The shop</h1><p id=hours></p>\
    <script>setTimeout(() => document.getElementById('hours').textContent = \
    'Open until nine', 200)</script>";

pub async fn tell(
    story: &mut Story<'_>,
    cast: &Cast<'_>,
    requester: &Client,
    provider: &Client,
    outcomes: &mut Outcomes,
) -> Result<()> {
    let site = Site::open(SHOP).await?;
    let browser = Chromium::find(None);
    looked_at(story, cast, (requester, provider), &site, browser.is_ok(), outcomes).await?;
    match browser {
        Ok(_) => recorded(story, cast, requester, &site, outcomes).await,
        Err(missing) => story.line(&format!("no browser session is shown: {missing}")),
    }
}

async fn looked_at(
    story: &mut Story<'_>,
    cast: &Cast<'_>,
    (requester, provider): (&Client, &Client),
    site: &Site,
    has_browser: bool,
    outcomes: &mut Outcomes,
) -> Result<()> {
    let bob = cast.provider.name;
    story.chapter(&format!("{bob} delivers a page, and a verifier looks at it"))?;
    let hints = if has_browser {
        json!({
            "type": engine::BROWSER, "url": site.url, "selector": "#hours",
            "expected_content": "open until nine", "custom": {"wait_for": "#hours:not(:empty)"},
        })
    } else {
        story.line("Chromium is not installed: the page is fetched, its script does not run")?;
        json!({"type": engine::HTTP, "url": site.url, "expected_content": "the shop"})
    };
    let terms = json!({"request": {"budget_amount": 5}, "verification_hints": hints});
    let id = stage::agree(requester, provider, terms).await?.negotiation_id;
    let work = json!({"delivery": {"artifacts": [{"type": "url", "url": site.url}]}});
    let verification = stage::deliver(provider, id, work).await?;
    ensure!(settled(requester, id).await? == EscrowStatus::Released, "a good page was not paid");
    let seen = requester.verification(verification).await?;
    for step in seen.callback.iter().flat_map(|c| c["action_log"].as_array().into_iter().flatten())
    {
        let (action, took) = (step["action"].as_str(), step["duration_ms"].as_u64());
        let said = step["data_snippet"].as_str().unwrap_or_default();
        let took = took.unwrap_or_default();
        story.line(&format!("{:<12} {took:>5} ms  {said}", action.unwrap_or_default()))?;
    }
    story.line("VERIFIED, released; the steps and pictures are in the proof")?;
    outcomes.released.push(id);
    Ok(())
}

async fn recorded(
    story: &mut Story<'_>,
    cast: &Cast<'_>,
    requester: &Client,
    site: &Site,
    outcomes: &mut Outcomes,
) -> Result<()> {
    let ada = cast.requester.name;
    story.chapter(&format!("{ada} uses a recorded browser, and pays for what was done"))?;
    let open = OpenSession { max_cost_minor: None, purpose: Some("Opening hours".to_owned()) };
    let session = requester.open_session(&open).await?.value;
    let id = session.session_id;
    let most = Money::new(session.max_cost_minor, session.asset);
    story.line(&format!("{id}: {most} held"))?;
    let hours = Some("#hours:not(:empty)".to_owned());
    let acts = [
        Act::navigate(&site.url),
        Act { selector: hours.clone(), ..Act::new(ActionType::WaitFor) },
        Act { selector: hours, ..Act::new(ActionType::Extract) },
        Act::new(ActionType::Screenshot),
    ];
    for act in &acts {
        let done = requester.session_act(id, act).await?.value;
        let event = done.action().context("a step cannot be read")?;
        let said = event.data_snippet.unwrap_or_default();
        story.line(&format!("{:<12} {}", act.action.as_str(), said))?;
    }
    let click = Act { selector: Some("h1".to_owned()), ..Act::new(ActionType::Click) };
    match requester.session_act(id, &click).await {
        Ok(_) => anyhow::bail!("an unknown agent may click"),
        Err(refused) => story.line(&format!("CLICK: {refused}"))?,
    }
    let closed = requester.close_session(id, None).await?.value;
    ensure!(closed.status == SessionStatus::Completed, "the session did not end well");
    let paid = Money::new(closed.cost_minor, closed.asset);
    story.line(&format!("closed: {paid} paid, the rest is back"))?;
    let proof = requester.session_proof(id).await?;
    let bundle = skep_settle::session_proof::check(&proof, None)?;
    story.line(&format!(
        "{} steps, signed by the gateway's key {}: ok",
        bundle.action_log.len(),
        bundle.gateway.kid
    ))?;
    outcomes.proofs_checked += 1;
    Ok(())
}
