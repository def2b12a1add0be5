//! `skep demo`: the economy on one machine, told as it happens.

mod deals;
mod hires;
mod pages;
mod score;
mod swarm;

use std::{collections::BTreeMap, io::Write, path::Path};

use anyhow::{Result, bail, ensure};
use clap::Args;
use serde::Serialize;
use skep_base::{Asset, Hash32, Money, id::TransferId};
use skep_sdk::Client;
use skep_store::{Event, Head, RouteKey, Store};
use skep_wire::{
    identity::Statement,
    wallet::{EventLine, NewTransfer, TransferMode},
};

use crate::{
    client::now,
    stage::{self, Actor, Looker},
};

const NAMES: [&str; 8] = ["Ada", "Bob", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hana"];

/// Watch agents get keys and money, deal, hire one another, earn a score, plan as a swarm, and lose
/// nothing when the node dies
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  skep demo\n  skep demo --agents 4 --keep")]
pub struct Demo {
    /// How many agents take part
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(2..=8))]
    agents: u8,
    /// Leave the node running at the end, until Ctrl-C
    #[arg(long)]
    keep: bool,
}

/// What happened, as the event log tells it.
#[derive(Debug, Default, Serialize)]
struct Summary {
    agents: u64,
    /// Minor units by asset.
    funded: BTreeMap<Asset, i64>,
    held: BTreeMap<Asset, i64>,
    paid: BTreeMap<Asset, i64>,
    events: u64,
    log_head: Hash32,
    log_head_signature_holds: bool,
    node_kills: u64,
    deals_released: u64,
    deals_refunded: u64,
    proofs_checked: u64,
    forgeries_refused: u64,
    /// Hires whose seller has the money.
    hires_paid: u64,
    hires_refunded: u64,
    /// Receipts in which the buyer says that the result is not what was asked for.
    disputes: u64,
    receipts_countersigned: u64,
    replays_refused: u64,
    /// What a newcomer has earned.
    score: u16,
    certificates_checked: u64,
    certificates_refused: u64,
    swarm_tasks_planned: u64,
    transcripts_checked: u64,
    transcripts_refused: u64,
    audit_clean: bool,
}

impl Demo {
    pub async fn run(self, json: bool, out: &mut dyn Write) -> Result<()> {
        let folder = tempfile::tempdir()?;
        let mut story = Story { out, quiet: json, chapter: 0 };
        let (reviewer, idler) = (Looker::new("Rita")?, Looker::new("Ivo")?);
        let accredited = ["--accredit".to_owned(), reviewer.id().to_string()];
        let accredited = accredited.each_ref().map(String::as_str);
        let mut node = stage::node(folder.path(), &accredited)?;
        let mut url = node.url().to_owned();
        story.chapter("A node starts on an empty folder, with its own SQLite ledger")?;
        story.line(&format!("skep up --dev  →  ready {url}"))?;

        let actors = NAMES
            .iter()
            .take(usize::from(self.agents))
            .map(|name| Actor::new(name))
            .collect::<Result<Vec<_>>>()?;
        enter(&mut story, &actors, &url).await?;
        fund(&mut story, &actors, &url).await?;
        let holds = hold(&mut story, &actors, &url).await?;

        story.chapter("The node is killed (SIGKILL) and started again on the same folder")?;
        node.kill9();
        drop(node);
        node = stage::node(folder.path(), &accredited)?;
        url = node.url().to_owned();
        story.line(&format!("ready {url}; every hold is still there:"))?;
        for (actor, _) in actors.iter().zip(&holds) {
            story.balance(actor, &url).await?;
        }

        settle(&mut story, &actors, &holds, &url).await?;
        let cast = deals::Cast {
            requester: &actors[0],
            provider: &actors[1],
            reviewer: &reviewer,
            idler: &idler,
            url: &url,
        };
        let dealt = deals::tell(&mut story, &cast).await?;
        let hired = hires::tell(&mut story, &cast, folder.path()).await?;
        let scored = score::tell(&mut story, &cast).await?;
        let swarmed = swarm::tell(&mut story)?;
        let mut summary = check(&mut story, &url, folder.path()).await?;
        summary.tell((&dealt, &hired, &scored, &swarmed));
        if !self.keep {
            node.terminate()?;
            story.line("then the node ends: only files are left")?;
        }
        deals::check_files(&mut story, &dealt.files)?;
        if json {
            writeln!(story.out, "{}", serde_json::to_string(&summary)?)?;
        }
        ensure!(summary.audit_clean && summary.log_head_signature_holds, "the demo found a fault");
        if self.keep {
            story.line(&format!("\n  The node goes on at {url}/docs until Ctrl-C."))?;
            tokio::signal::ctrl_c().await?;
            node.terminate()?;
        }
        Ok(())
    }
}

/// Writes for people; for programs only the summary is written.
struct Story<'a> {
    out: &'a mut dyn Write,
    quiet: bool,
    chapter: u32,
}

impl Story<'_> {
    fn chapter(&mut self, text: &str) -> Result<()> {
        self.chapter += 1;
        let number = self.chapter;
        self.raw(&format!("\n{number}. {text}"))
    }

    fn line(&mut self, text: &str) -> Result<()> {
        self.raw(&format!("   {text}"))
    }

    fn raw(&mut self, text: &str) -> Result<()> {
        if !self.quiet {
            writeln!(self.out, "{text}")?;
            self.out.flush()?;
        }
        Ok(())
    }

    async fn balance(&mut self, actor: &Actor, url: &str) -> Result<()> {
        let wallet = actor.client(url)?.wallet().await?;
        let lines: Vec<_> = wallet
            .balances
            .iter()
            .map(|b| format!("{} free, {} held", b.available, b.held))
            .collect();
        let text = if lines.is_empty() { "nothing".to_owned() } else { lines.join("; ") };
        self.line(&format!("{:<5} {text}", actor.name))
    }
}

async fn enter(story: &mut Story<'_>, actors: &[Actor], url: &str) -> Result<()> {
    story.chapter("Agents make their keys and register: each key signs for the other")?;
    for actor in actors {
        let name = Some(actor.name.to_owned());
        let request = actor.keyring.registration(now(), None, name, None);
        let agent = Client::new(url)?.register_agent(&request).await?;
        story.line(&format!("{:<5} {}", actor.name, agent.agent_id))?;
        story.line(&format!("      {}", agent.did))?;
    }
    Ok(())
}

async fn fund(story: &mut Story<'_>, actors: &[Actor], url: &str) -> Result<()> {
    story.chapter("Test money arrives; deposits are transfers from the world outside")?;
    for actor in actors.iter().take(actors.len() - 1) {
        let money = Money::parse_decimal("100", Asset::USDC)?;
        actor.client(url)?.faucet(money).await?;
        story.balance(actor, url).await?;
    }
    Ok(())
}

async fn hold(story: &mut Story<'_>, actors: &[Actor], url: &str) -> Result<Vec<TransferId>> {
    story.chapter("Money is held: set aside for the other side, paid to nobody yet")?;
    let mut holds = Vec::new();
    for pair in actors.windows(2) {
        let [from, to] = pair else { bail!("a hold has two sides") };
        let id: TransferId = Client::new_id()?;
        let money = Money::parse_decimal("40", Asset::USDC)?;
        let request = NewTransfer { id, to: to.id(), money, mode: TransferMode::Pending };
        from.client(url)?.create_transfer(&request).await?;
        story.line(&format!("{} holds {money} for {}: {id}", from.name, to.name))?;
        story.balance(from, url).await?;
        holds.push(id);
    }
    Ok(holds)
}

async fn settle(
    story: &mut Story<'_>,
    actors: &[Actor],
    holds: &[TransferId],
    url: &str,
) -> Result<()> {
    story.chapter("The payer posts a part; the rest returns; nobody can undo it")?;
    for (pair, id) in actors.windows(2).zip(holds) {
        let [from, to] = pair else { bail!("a hold has two sides") };
        let part = Money::parse_decimal("25.50", Asset::USDC)?;
        from.client(url)?.post_transfer(*id, Some(part)).await?;
        story.line(&format!("{} posts {part} of {id}", from.name))?;
        match to.client(url)?.void_transfer(*id).await {
            Ok(_) => bail!("a posted hold was voided"),
            Err(refused) => story.line(&format!("{} tries to void it: {refused}", to.name))?,
        }
    }
    for actor in actors {
        story.balance(actor, url).await?;
    }
    Ok(())
}

/// Re-derives the story from the log, as any stranger can.
async fn check(story: &mut Story<'_>, url: &str, folder: &Path) -> Result<Summary> {
    story.chapter("Anybody can check: the log's hash chain, its signed head, every balance")?;
    let client = Client::new(url)?;
    let mut summary = Summary { node_kills: 1, ..Summary::default() };
    let mut head = Head::START;
    let mut cursor: Option<String> = None;
    loop {
        let page = client.events(cursor.as_deref(), Some(100)).await?;
        if page.items.is_empty() {
            break;
        }
        for line in &page.items {
            head = head.next(&event(line)?);
            ensure!(head.hash == line.hash, "event {} breaks the hash chain", line.seq);
            summary.count(line)?;
        }
        cursor = page.next_cursor;
    }
    let signed = client.log_head().await?;
    summary.log_head = head.hash;
    summary.log_head_signature_holds =
        signed.head.hash == head.hash && signed.head.verify(&signed.key, &signed.signature).is_ok();
    story.line(&format!("{} events, chained up to {}", summary.events, head.hash))?;
    story.line(&format!("the node signed that head with {}", signed.key))?;
    let database = format!("sqlite:{}", folder.join("skep.db").display());
    let report = Store::audit_beside(&database, Box::new(|_, _| {})).await?;
    summary.audit_clean = report.is_clean();
    story.line(&format!(
        "audit: {} accounts, {} transfers, {}",
        report.accounts,
        report.transfers,
        if summary.audit_clean { "clean" } else { "NOT CLEAN" }
    ))?;
    Ok(summary)
}

impl Summary {
    /// What the chapters came to.
    fn tell(
        &mut self,
        (dealt, hired, scored, swarmed): (
            &deals::Outcomes,
            &hires::Hires,
            &score::Scores,
            &swarm::Swarms,
        ),
    ) {
        self.deals_released = dealt.released.len() as u64;
        self.deals_refunded = dealt.refunded.len() as u64;
        self.proofs_checked = dealt.proofs_checked + dealt.files.len() as u64;
        self.forgeries_refused = dealt.forgeries_refused;
        self.hires_paid = hired.paid;
        self.hires_refunded = hired.refunded;
        self.disputes = hired.disputes;
        self.receipts_countersigned = hired.countersigned;
        self.replays_refused = hired.replays_refused;
        self.score = scored.score;
        self.certificates_checked = scored.certificates_checked;
        self.certificates_refused = scored.certificates_refused;
        self.swarm_tasks_planned = swarmed.tasks_planned;
        self.transcripts_checked = swarmed.transcripts_checked;
        self.transcripts_refused = swarmed.transcripts_refused;
    }

    fn count(&mut self, line: &EventLine) -> Result<()> {
        self.events += 1;
        let body: serde_json::Value = serde_json::from_str(&line.body)?;
        let list = match line.kind.as_str() {
            "agent.registered" => {
                self.agents += 1;
                return Ok(());
            }
            "wallet.funded" => &mut self.funded,
            "transfer.held" => &mut self.held,
            "transfer.posted" => &mut self.paid,
            _ => return Ok(()),
        };
        let money: Money = serde_json::from_value(body["money"].clone())?;
        *list.entry(money.asset).or_default() += money.amount.minor();
        Ok(())
    }
}

/// The event as it was hashed.
fn event(line: &EventLine) -> Result<Event> {
    Ok(Event {
        id: line.id,
        route: RouteKey::of(&line.route),
        version: line.version,
        kind: line.kind.clone(),
        at: line.at,
        body: line.body.clone(),
        notify: Vec::new(),
    })
}
