//! Recorded browser sessions: how many, how large, and what the recording costs.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use skep_base::{Amount, ed25519::SecretKey, hash::sha256, id::SessionId};
use skep_probe::{
    Egress, Policy,
    browser::{Browsers, Chromium, Limits, Tab},
    gateway::Gateway,
};
use skep_sdk::Client;
use skep_wire::{
    conduit::{Act, ActionType, GatewayAct, GatewayClose, GatewayOpen, RequestMark, SessionStatus},
    settle::Tier,
};

use super::{Figure, progress};
use crate::stage::{self, Actor, Site};

/// How many sessions run beside one another.
const PARALLEL: [usize; 3] = [1, 4, 8];
/// Rounds of the same actions in one session, below the most actions that it may have.
const ROUNDS: u32 = 50;
/// At most 10 % more time.
const OVERHEAD_BAR: f64 = 1.0 / 1.1;

/// A page with something to see, drawn by a script.
const PAGE: &str = "<!doctype html><title>A list</title><body><h1>A list</h1><ol id=list></ol>\
    <script>for (let i = 0; i < 200; i++) { const li = document.createElement('li'); \
    li.textContent = 'Entry number ' + i; document.getElementById('list').append(li); }</script>";

pub(super) async fn measure(
    time: Duration,
    report: &mut dyn FnMut(Figure) -> Result<()>,
) -> Result<()> {
    let chromium = Chromium::find(None)?;
    let egress = Egress::new(Policy { allow_loopback: true, ..Policy::default() })?;
    let browsers = Browsers::new(chromium, &egress, Limits::default(), PARALLEL[2] + 1);
    let clock = Arc::new(skep_store::SystemClock);
    let key = SecretKey::from_seed(stage::entropy()?);
    let gateway = Gateway::new(Ok(browsers.clone()), key, clock);
    let site = Site::open(PAGE).await?;
    let mut one = None;
    for parallel in PARALLEL {
        progress(&format!("recorded sessions, {parallel} in parallel"));
        let run = sessions(&gateway, &site.url, parallel, time).await?;
        let (rate, memory) = *one.get_or_insert(run);
        let name = format!("recorded sessions, {parallel} in parallel (peer: one)");
        report(Figure::new(&name, run.0, rate, "sessions/min", None))?;
        let name = format!("  memory of the browsers, {parallel} in parallel (peer: one)");
        report(Figure::new(&name, run.1, memory, "MiB", None))?;
    }
    progress("the same actions, recorded and not");
    let (recorded, bare) = overhead(&gateway, &browsers, &site.url, time).await?;
    report(Figure::new(
        "actions recorded, chained and signed (peer: the same through the browser's client alone)",
        recorded,
        bare,
        "actions/s",
        Some(OVERHEAD_BAR),
    ))
}

/// What is done in every session.
fn acts(url: &str) -> [Act; 4] {
    let list = Some("#list".to_owned());
    [
        Act::navigate(url),
        Act { selector: list, ..Act::new(ActionType::Extract) },
        Act::new(ActionType::Screenshot),
        Act::new(ActionType::Fingerprint),
    ]
}

/// A session at the gateway.
struct Recorded<'a> {
    gateway: &'a Gateway,
    id: SessionId,
    index: u32,
}

impl<'a> Recorded<'a> {
    async fn open(gateway: &'a Gateway) -> Result<Recorded<'a>> {
        let (id, agent_id) = (Client::new_id()?, Actor::new("")?.id());
        gateway.open(id, GatewayOpen { agent_id, purpose: None }).await?;
        Ok(Recorded { gateway, id, index: 0 })
    }

    async fn act(&mut self, act: &Act) -> Result<()> {
        let key = self.index.to_string();
        let mark = RequestMark { fingerprint: sha256(key.as_bytes()), key };
        let request = GatewayAct {
            index: self.index,
            mark,
            act: act.clone(),
            tier: Tier::Basic,
            price_minor: Amount::ZERO,
        };
        let acted = self.gateway.act(self.id, request).await?;
        ensure!(acted.done.error.is_none(), "an action failed: {:?}", acted.done.error);
        self.index += 1;
        Ok(())
    }

    async fn close(self) -> Result<()> {
        let request = GatewayClose { status: SessionStatus::Completed, reason: None };
        self.gateway.close(self.id, request).await?;
        Ok(())
    }
}

/// Sessions a minute, and the most memory that the browsers had together, in MiB.
async fn sessions(
    gateway: &Gateway,
    url: &str,
    parallel: usize,
    time: Duration,
) -> Result<(f64, f64)> {
    let stop = Arc::new(AtomicBool::new(false));
    let done = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let tasks: Vec<_> = (0..parallel)
        .map(|_| {
            let (gateway, stop, done) = (gateway.clone(), stop.clone(), done.clone());
            let acts = acts(url);
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let mut session = Recorded::open(&gateway).await?;
                    for act in &acts {
                        session.act(act).await?;
                    }
                    session.close().await?;
                    done.fetch_add(1, Ordering::Relaxed);
                }
                anyhow::Ok(())
            })
        })
        .collect();
    let mut most = 0;
    while started.elapsed() < time {
        tokio::time::sleep(Duration::from_millis(200)).await;
        most = most.max(tokio::task::spawn_blocking(children_memory).await??);
    }
    stop.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await??;
    }
    let minutes = started.elapsed().as_secs_f64() / 60.0;
    Ok((done.load(Ordering::Relaxed) as f64 / minutes, most as f64 / (1024.0 * 1024.0)))
}

/// Actions a second, recorded and not, in turns so that both meet the same machine.
async fn overhead(
    gateway: &Gateway,
    browsers: &Browsers,
    url: &str,
    time: Duration,
) -> Result<(f64, f64)> {
    let mut tab = browsers.open().await?;
    let mut session = Recorded::open(gateway).await?;
    let acts = acts(url);
    for act in &acts {
        bare(&mut tab, act).await?;
    }
    let (mut recorded, mut alone, mut count) = (Duration::ZERO, Duration::ZERO, 0_u32);
    let started = Instant::now();
    while started.elapsed() < time * 4 {
        for act in &acts {
            let since = Instant::now();
            bare(&mut tab, act).await?;
            alone += since.elapsed();
            let since = Instant::now();
            session.act(act).await?;
            recorded += since.elapsed();
            count += 1;
        }
        if session.index >= ROUNDS * acts.len() as u32 {
            let since = Instant::now();
            session.close().await?;
            recorded += since.elapsed();
            session = Recorded::open(gateway).await?;
        }
    }
    let since = Instant::now();
    session.close().await?;
    recorded += since.elapsed();
    let rate = |time: Duration| f64::from(count) / time.as_secs_f64();
    Ok((rate(recorded), rate(alone)))
}

async fn bare(tab: &mut Tab, act: &Act) -> Result<()> {
    let done = tab.act(act, Tier::Basic).await;
    ensure!(done.error.is_none(), "an action failed: {:?}", done.error);
    Ok(())
}

/// What all processes below this one hold, shared pages by their share.
fn children_memory() -> Result<u64> {
    let mut parents = BTreeMap::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        if let Some(parent) = after_name.split_whitespace().nth(1).and_then(|p| p.parse().ok()) {
            parents.insert(pid, parent);
        }
    }
    let own = std::process::id();
    let is_below = |mut pid: u32| {
        while let Some(parent) = parents.get(&pid) {
            if *parent == own {
                return true;
            }
            pid = *parent;
        }
        false
    };
    let share = |pid: u32| -> Option<u64> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        let line = text.lines().find(|line| line.starts_with("Pss:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
    };
    let below = parents.keys().copied().filter(|pid| is_below(*pid));
    Ok(below.filter_map(share).sum())
}
