//! `skep session`: a browser of an agent's own, recorded and signed.

use std::{fs, io::Write, path::PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use clap::{Args, Subcommand};
use skep_base::{Asset, Hash32, Money, id::SessionId};
use skep_wire::conduit::{Act, ActionDone, ActionType, OpenSession, Session};

use crate::{
    client::SignerArgs,
    deal::words::{Told, plain, print_json, word},
    settings::Settings,
};

/// Use a real browser that leaves evidence
#[derive(Debug, Args)]
#[command(after_help = "A session in four commands:
  skep session open --max-cost 0.05
  skep session do ID navigate --url https://example.com/ --screenshot --out page.png
  skep session do ID extract --selector h1
  skep session close ID                     (pays what was done; the rest comes back)
  skep session proof ID --out proof.json    (skep proof verify proof.json checks it anywhere)")]
pub struct SessionArgs {
    #[command(subcommand)]
    command: SessionCommand,
}

#[derive(Debug, Subcommand)]
enum SessionCommand {
    Open(Open),
    Do(Box<Do>),
    Close(Close),
    Show(Show),
    Proof(Proof),
}

/// Start a browser; what it may cost at most is held
#[derive(Debug, Args)]
#[command(after_help = "Example: skep session open --max-cost 0.05 --purpose 'check the price'")]
struct Open {
    #[command(flatten)]
    signer: SignerArgs,
    /// In USDC [default: the price of 25 billable actions]
    #[arg(long, value_name = "AMOUNT")]
    max_cost: Option<String>,
    /// What it is for, for whoever reads the proof
    #[arg(long, value_name = "TEXT")]
    purpose: Option<String>,
}

/// Do one action
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  skep session do ID navigate --url https://example.com/
  skep session do ID fill --selector '#name' --text Ann
  skep session do ID screenshot --full-page --out page.png

Actions: navigate click type fill extract screenshot scroll wait wait_for key_press hover
  select_option handle_dialog navigate_back console_messages eval extract_main output_to_file
  accessibility_snapshot network_requests map crawl fingerprint check_changed export_proof")]
struct Do {
    #[command(flatten)]
    signer: SignerArgs,
    /// The session's id
    #[arg(value_name = "ID")]
    id: SessionId,
    /// One of those below
    #[arg(value_name = "ACTION")]
    action: String,
    #[arg(long)]
    url: Option<String>,
    /// CSS, or a JSONPath that begins with $
    #[arg(long)]
    selector: Option<String>,
    /// What is typed, filled in, chosen or kept as a file
    #[arg(long)]
    text: Option<String>,
    /// Enter, Tab, ArrowDown, a, …
    #[arg(long)]
    key: Option<String>,
    /// JavaScript
    #[arg(long)]
    script: Option<String>,
    /// A file's name
    #[arg(long)]
    name: Option<String>,
    /// How long, or how long at most
    #[arg(long)]
    ms: Option<u64>,
    /// How far down, or up if negative
    #[arg(long, allow_negative_numbers = true)]
    pixels: Option<i32>,
    /// Say yes to a dialog
    #[arg(long, conflicts_with = "dismiss")]
    accept: bool,
    /// Say no to it
    #[arg(long)]
    dismiss: bool,
    /// The fingerprint to compare with
    #[arg(long, value_name = "SHA256")]
    baseline: Option<Hash32>,
    /// Links from the first page on
    #[arg(long)]
    depth: Option<u8>,
    /// Pages at most
    #[arg(long)]
    pages: Option<u16>,
    /// Take a picture afterwards
    #[arg(long)]
    screenshot: bool,
    /// Of all of the page
    #[arg(long)]
    full_page: bool,
    /// Where the picture or the file goes
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// End a session: what was done is paid, the rest comes back
#[derive(Debug, Args)]
#[command(after_help = "Example: skep session close ID --failed 'the site was down'")]
struct Close {
    #[command(flatten)]
    signer: SignerArgs,
    /// The session's id
    #[arg(value_name = "ID")]
    id: SessionId,
    /// Close it as failed, and say why
    #[arg(long, value_name = "REASON")]
    failed: Option<String>,
}

/// Where a session stands, and what was done in it
#[derive(Debug, Args)]
#[command(after_help = "Example: skep session show ID --json")]
struct Show {
    #[command(flatten)]
    signer: SignerArgs,
    /// The session's id
    #[arg(value_name = "ID")]
    id: SessionId,
}

/// The signed proof of a session that is over
#[derive(Debug, Args)]
#[command(after_help = "Example: skep session proof ID --out proof.json")]
struct Proof {
    #[command(flatten)]
    signer: SignerArgs,
    /// The session's id
    #[arg(value_name = "ID")]
    id: SessionId,
    /// Where it goes [default: stdout]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl SessionArgs {
    pub fn flags(&self) -> Vec<(&'static str, Option<String>)> {
        match &self.command {
            SessionCommand::Open(args) => args.signer.flags(),
            SessionCommand::Do(args) => args.signer.flags(),
            SessionCommand::Close(args) => args.signer.flags(),
            SessionCommand::Show(args) => args.signer.flags(),
            SessionCommand::Proof(args) => args.signer.flags(),
        }
    }

    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        match self.command {
            SessionCommand::Open(args) => args.run(settings, json, out).await,
            SessionCommand::Do(args) => args.run(settings, json, out).await,
            SessionCommand::Close(args) => args.run(settings, json, out).await,
            SessionCommand::Show(args) => args.run(settings, json, out).await,
            SessionCommand::Proof(args) => args.run(settings, json, out).await,
        }
    }
}

impl Open {
    async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let parse = |text: String| {
            let money = Money::parse_decimal(&text, Asset::USDC);
            money.map(|money| money.amount).with_context(|| format!("{text:?} is no amount"))
        };
        let max_cost_minor = self.max_cost.map(parse).transpose()?;
        let (client, _) = self.signer.client(settings)?;
        let request = OpenSession { max_cost_minor, purpose: self.purpose };
        let session = client.open_session(&request).await.told()?.value;
        if json {
            return print_json(out, &session);
        }
        let id = session.session_id;
        writeln!(out, "opened {id}; {} is held", usdc(session.max_cost_minor))?;
        writeln!(out, "next: skep session do {id} navigate --url https://…")?;
        Ok(())
    }
}

/// An action by its name, however it is written.
pub fn action(word: &str) -> Result<ActionType> {
    let name = word.to_ascii_uppercase().replace('-', "_");
    let found = ActionType::ALL.into_iter().find(|action| action.as_str() == name);
    found.ok_or_else(|| {
        let names = ActionType::ALL.map(|action| action.as_str().to_ascii_lowercase());
        anyhow!("{word:?} is no action: say one of {}", names.join(", "))
    })
}

impl Do {
    fn act(&self) -> Result<Act> {
        let accept = match (self.accept, self.dismiss) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        };
        Ok(Act {
            url: self.url.clone(),
            selector: self.selector.clone(),
            text: self.text.clone(),
            key: self.key.clone(),
            script: self.script.clone(),
            name: self.name.clone(),
            ms: self.ms,
            pixels: self.pixels,
            accept,
            baseline: self.baseline,
            depth: self.depth,
            pages: self.pages,
            screenshot: self.screenshot,
            full_page: self.full_page,
            ..Act::new(action(&self.action)?)
        })
    }

    async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let act = self.act()?;
        let (client, _) = self.signer.client(settings)?;
        let done = client.session_act(self.id, &act).await.told()?.value;
        if let Some(path) = &self.out {
            let kept = done.attachments.first();
            let kept = kept.context("the action left no picture and no file: add --screenshot")?;
            let bytes = STANDARD.decode(&kept.data).context("the node sent no Base64")?;
            fs::write(path, bytes).with_context(|| format!("{}", path.display()))?;
        }
        match json {
            true => print_json(out, &done),
            false => tell(&done, out),
        }
    }
}

fn tell(done: &ActionDone, out: &mut dyn Write) -> Result<()> {
    let event = done.action()?;
    let took = event.duration_ms.unwrap_or_default();
    let end = if event.success { "done" } else { "failed" };
    writeln!(out, "{} {} {end} in {took} ms", event.index, event.action)?;
    if let Some(error) = &done.error {
        writeln!(out, "  {}: {}", error.code, plain(&error.detail))?;
    }
    if let Some(url) = &event.url {
        writeln!(out, "  at {}", plain(url))?;
    }
    match (&event.data_snippet, &done.data) {
        (Some(snippet), _) => writeln!(out, "  {}", plain(snippet))?,
        (None, data) if !data.is_null() => writeln!(out, "  {}", plain(&data.to_string()))?,
        _ => {}
    }
    Ok(())
}

impl Close {
    async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let (client, _) = self.signer.client(settings)?;
        let closed = client.close_session(self.id, self.failed.as_deref()).await.told()?.value;
        if json {
            return print_json(out, &closed);
        }
        describe(&closed, out)
    }
}

impl Show {
    async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let (client, _) = self.signer.client(settings)?;
        let session = client.session(self.id).await.told()?;
        let mut steps = Vec::new();
        let mut cursor = None;
        loop {
            let page = client.session_steps(self.id, cursor.as_deref(), None).await.told()?;
            steps.extend(page.items);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        if json {
            return print_json(out, &serde_json::json!({ "session": session, "steps": steps }));
        }
        describe(&session, out)?;
        for step in steps {
            let text = |name: &str| step.event.get(name).and_then(|value| value.as_str());
            let (action, url) = (text("action").unwrap_or_default(), text("url"));
            let error = step.error.as_ref().map(|error| error.code.as_str());
            let note = error.or(url).unwrap_or_default();
            let cost = usdc(step.cost_minor);
            writeln!(out, "  {} {action:<22} {cost:<14} {}", step.event["index"], plain(note))?;
        }
        if let Some(page) = &session.proof_page {
            writeln!(out, "to look at it, and to show it: {}{page}", client.url())?;
        }
        Ok(())
    }
}

impl Proof {
    async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let (client, _) = self.signer.client(settings)?;
        let proof = client.session_proof(self.id).await.told()?;
        let Some(path) = self.out else {
            return print_json(out, &proof);
        };
        if path.exists() {
            bail!("{} exists already: choose another name", path.display());
        }
        let text = serde_json::to_string_pretty(&proof)?;
        fs::write(&path, text).with_context(|| format!("{}", path.display()))?;
        match json {
            true => print_json(out, &serde_json::json!({ "written": path })),
            false => Ok(writeln!(out, "wrote {}", path.display())?),
        }
    }
}

fn describe(session: &Session, out: &mut dyn Write) -> Result<()> {
    let (id, status) = (session.session_id, word(&session.status));
    writeln!(
        out,
        "{id} is {status}: {} actions, {} of at most {}",
        session.actions,
        usdc(session.cost_minor),
        usdc(session.max_cost_minor)
    )?;
    if let Some(reason) = &session.reason {
        writeln!(out, "  because: {}", plain(reason))?;
    }
    Ok(())
}

fn usdc(amount: skep_base::Amount) -> String {
    Money { amount, asset: Asset::USDC }.to_string()
}
