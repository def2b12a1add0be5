//! 3.4: the provider says that the work is done.

use std::{
    fs,
    io::{Read, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use serde_json::Value;
use skep_base::{AgentId, hash::sha256, id::DealId};
use skep_wire::settle::{
    Agreement, Artifact, DeliveryBody, DeliveryStatus, Hints, Party, ServiceDelivery, VCAP_VERSION,
    engine,
};

use super::{
    status::report,
    words::{Told, message},
};
use crate::{
    client::{SignerArgs, now},
    settings::Settings,
};

/// The largest piece of work that travels inside the message.
const INLINE_LEN_MAX: usize = 256 * 1024;

/// Deliver the work, so that somebody checks it and the money moves
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  skep deal deliver ID --artifact work.txt
  skep deal deliver ID --text 'hello' --description 'as asked'
  skep deal deliver ID --url https://example.org/page
  skep deal deliver ID --status failed --description 'the source is gone'
  skep deal deliver --file delivery.json

--url, --selector and --expect fill what the terms left open; they cannot change what was agreed.
A delivery that says failed refunds the requester. Delivered again, nothing changes.")]
pub struct Deliver {
    #[command(flatten)]
    pub signer: SignerArgs,
    /// The deal's id
    #[arg(value_name = "ID", required_unless_present = "file")]
    id: Option<DealId>,
    /// success, partial (judged against the full criteria) or failed (the requester is refunded)
    #[arg(long, value_name = "STATUS", value_parser = status(), default_value = "success")]
    status: DeliveryStatus,
    /// What was done, in words
    #[arg(long, value_name = "TEXT", default_value = "")]
    description: String,
    /// A text file of up to 256 KiB, sent with its SHA-256; may be given more than once
    #[arg(long, value_name = "FILE")]
    artifact: Vec<PathBuf>,
    /// A piece of text; may be given more than once
    #[arg(long, value_name = "TEXT")]
    text: Vec<String>,
    /// Where a piece of the work can be fetched; may be given more than once
    #[arg(long, value_name = "URL")]
    artifact_url: Vec<String>,
    /// The address to check, where the terms left it open
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The part of it that counts, where the terms left it open
    #[arg(long, value_name = "SELECTOR")]
    selector: Option<String>,
    /// Text that must be there, where the terms left it open
    #[arg(long, value_name = "TEXT")]
    expect: Option<String>,
    /// Ask to be paid on your word, where the terms allow it
    #[arg(long)]
    auto_approve: bool,
    /// Send this service_delivery instead, as it is; - reads stdin
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["id", "status", "description", "artifact", "text", "artifact_url",
            "url", "selector", "expect", "auto_approve"]
    )]
    file: Option<PathBuf>,
}

fn status() -> impl TypedValueParser<Value = DeliveryStatus> {
    PossibleValuesParser::new(["success", "partial", "failed"])
        .try_map(|word| serde_json::from_value::<DeliveryStatus>(Value::String(word)))
}

impl Deliver {
    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let (client, keyring) = self.signer.client(settings)?;
        let answer = match &self.file {
            Some(path) => client.deliver(&message(path)?).await.told()?,
            None => {
                let delivery = self.message(keyring.agent_id())?;
                let agreement = client.agreement(delivery.negotiation_id).await.told()?;
                check_complete(&agreement, &delivery)?;
                client.deliver(&delivery).await.told()?
            }
        };
        let answer = answer.value;
        let headline = format!("delivered deal {}", answer.negotiation_id);
        report(&client, answer.negotiation_id, &answer, &headline, json, out).await
    }

    fn message(self, me: AgentId) -> Result<ServiceDelivery> {
        let id = self.id.context("say which deal: skep deal deliver ID")?;
        let mut artifacts = Vec::new();
        for path in &self.artifact {
            artifacts.push(inline("file", read_text(path)?));
        }
        artifacts.extend(self.text.into_iter().map(|text| inline("text", text)));
        artifacts.extend(self.artifact_url.into_iter().map(|uri| Artifact {
            kind: "url".to_owned(),
            uri: Some(uri),
            content: None,
            hash: None,
        }));
        let hints = Hints {
            url: self.url,
            selector: self.selector,
            expected_content: self.expect,
            auto_approve: self.auto_approve.then_some(true),
            ..Hints::default()
        };
        Ok(ServiceDelivery {
            vcap_version: VCAP_VERSION.to_owned(),
            message_type: "service_delivery".to_owned(),
            negotiation_id: id,
            escrow_id: id,
            provider: Party { agent_id: me.to_string(), platform: Some("skep".to_owned()) },
            delivery: DeliveryBody {
                status: self.status,
                description: self.description,
                artifacts,
            },
            verification_hints: Some(hints).filter(|hints| *hints != Hints::default()),
            delivered_at: now(),
        })
    }
}

/// There is one delivery, and one that cannot pass would only lose the money.
fn check_complete(agreement: &Agreement, delivery: &ServiceDelivery) -> Result<()> {
    if delivery.delivery.status == DeliveryStatus::Failed || agreement.delivered_at.is_some() {
        return Ok(());
    }
    let hints = delivery.verification_hints.as_ref();
    let has_url = agreement.criteria.url.is_some() || hints.is_some_and(|h| h.url.is_some());
    match agreement.criteria.kind.as_deref() {
        Some(engine::ARTIFACT) if delivery.delivery.artifacts.is_empty() => {
            bail!("the terms check the work itself: say --artifact FILE, --text or --artifact-url")
        }
        Some(engine::HTTP | engine::API | engine::BROWSER) if !has_url => {
            bail!("the terms leave open which address is checked: say --url URL")
        }
        _ => Ok(()),
    }
}

fn inline(kind: &str, content: String) -> Artifact {
    let hash = Some(sha256(content.as_bytes()));
    Artifact { kind: kind.to_owned(), uri: None, content: Some(content), hash }
}

/// A message is JSON, so what travels inside it is text, and not much of it.
fn read_text(path: &Path) -> Result<String> {
    let name = path.display();
    let mut bytes = Vec::new();
    fs::File::open(path)
        .and_then(|file| file.take(INLINE_LEN_MAX as u64 + 1).read_to_end(&mut bytes))
        .with_context(|| format!("{name} cannot be read"))?;
    if bytes.len() > INLINE_LEN_MAX {
        let limit = INLINE_LEN_MAX / 1024;
        bail!("{name} is larger than {limit} KiB: put it on the web and say --artifact-url URL");
    }
    String::from_utf8(bytes).map_err(|_| {
        anyhow::anyhow!("{name} is no UTF-8 text: put it on the web and say --artifact-url URL")
    })
}
