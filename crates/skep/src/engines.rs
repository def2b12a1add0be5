//! The engines that a verifier of this program has, by the settings.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use skep_probe::{ApiKey, Egress, Engines, LlmConfig, LlmStyle};
use skep_store::SystemClock;

use crate::{egress, settings::Settings};

/// How long a model may think about one question.
const LLM_TIMEOUT: Duration = Duration::from_secs(60);

pub fn engines(settings: &Settings, dev: bool) -> Result<Engines> {
    let egress = Egress::new(egress::policy(dev))?;
    let mut engines = Engines::new(egress, Arc::new(SystemClock));
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
