//! The engines that a verifier of this program has, by the settings.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use skep_probe::{
    ApiKey, Egress, Engines, LlmConfig, LlmStyle,
    browser::{Browsers, Chromium, Limits},
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
    match Chromium::find(settings.path("chromium").as_deref()) {
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
