//! The engines that a verifier of this program has, by the settings.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use skep_probe::{
    ApiKey, Egress, Engines, LlmConfig, LlmStyle,
    browser::{BrowserError, Browsers, Chromium, Limits},
};
use skep_store::SystemClock;

use crate::{egress, settings::Settings};

/// Browsers of a verifier at the same time.
const BROWSERS_AT_ONCE: usize = 2;
/// How long a model may think about one question.
const LLM_TIMEOUT: Duration = Duration::from_secs(60);

pub fn engines(settings: &Settings, dev: bool) -> Result<Engines> {
    let egress = Egress::new(egress::policy(dev))?;
    let mut engines = Engines::new(egress.clone(), Arc::new(SystemClock));
    match chromium(settings, dev) {
        Ok(chromium) => {
            let browsers = Browsers::new(chromium, &egress, Limits::default(), BROWSERS_AT_ONCE);
            engines = engines.with_browsers(browsers);
        }
        // Whoever named a program wants it; but no browser is no reason to stop a market.
        Err(error) if settings.text("chromium").is_some() => tracing::warn!(%error),
        Err(error) => tracing::info!(%error, "the engine browser is not there"),
    }
    if let Some(config) = llm(settings)? {
        engines = engines.with_llm(config)?;
    }
    Ok(engines)
}

/// The browser, which strangers' pages run in: as root it has no sandbox.
pub fn chromium(settings: &Settings, dev: bool) -> Result<Chromium, BrowserError> {
    let found = Chromium::find(settings.path("chromium").as_deref())?;
    let may_be_root = dev || settings.is_on("chromium_as_root").unwrap_or(false);
    if !Chromium::has_sandbox() && !may_be_root {
        let reason = "as root it would have no sandbox: run this as another user, or set \
                      chromium_as_root = on"
            .to_owned();
        return Err(BrowserError::Start { reason });
    }
    Ok(found)
}

/// The operator's model, if there is one.
fn llm(settings: &Settings) -> Result<Option<LlmConfig>> {
    let Some(url) = settings.text("llm_url") else { return Ok(None) };
    let model = settings.text("llm_model").context("llm_url is set: say llm_model too")?;
    let style = match settings.text("llm_style") {
        None | Some("openai") => LlmStyle::OpenAi,
        Some("anthropic") => LlmStyle::Anthropic,
        Some(other) => bail!("llm_style is {other:?}: say openai or anthropic"),
    };
    Ok(Some(LlmConfig {
        style,
        url: url.to_owned(),
        model: model.to_owned(),
        api_key: settings.text("llm_api_key").map(ApiKey::new),
        timeout: LLM_TIMEOUT,
    }))
}
