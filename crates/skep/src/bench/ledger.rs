//! Two-phase transfers: a hold and its post are two durable steps.

use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use skep_base::{AgentId, Amount, Asset, Timestamp, hash::sha256, id::TransferId};
use skep_store::{
    AccountId, Call, Decision, Guard, Kept, Load, Options, Order, RouteKey, Store, Turn,
    bench::raw_sqlite,
};
use skep_testkit::postgres::TempPostgres;

use super::{Figure, progress};

const SQLITE_CALLERS: usize = 64;
const POSTGRES_CLIENTS: usize = 16;
/// Wallets that the transfers are spread over; the peer has as many rows to spread over.
pub(super) const WALLETS: usize = 1000;
/// So few that everybody waits for the same rows: the bad case, shown beside the usual one.
const WALLETS_HOT: usize = 16;
/// As the TPC-B-like peer is usually run; it makes 10 million rows.
const PGBENCH_SCALE: &str = "100";

pub(super) async fn measure(time: Duration) -> anyhow::Result<Vec<Figure>> {
    let mut figures = sqlite(time).await?;
    figures.extend(postgres(time).await?);
    Ok(figures)
}

async fn sqlite(time: Duration) -> anyhow::Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite:{}", folder.path().join("skep.db").display());
    let store = Store::open(&url, Options::default()).await?;
    progress("two-phase transfers on SQLite, 64 callers");
    let ours = load(&store, SQLITE_CALLERS, WALLETS, time).await?;
    let (groups, calls) = store.commits();
    let group = (calls as f64 / groups as f64).round().max(1.0) as usize;
    drop(store);
    progress("raw SQLite, the same rows in the same groups");
    let raw = raw_sqlite(folder.path(), group, time)?;
    progress("raw SQLite, one commit at a time");
    let single = raw_sqlite(folder.path(), 1, time)?;
    Ok(vec![
        Figure::new(
            &format!("SQLite, 64 callers (peer: raw SQLite, same rows, groups of {group})"),
            ours,
            raw.per_second(),
            "durable steps/s",
            Some(0.5),
        ),
        Figure::new(
            "SQLite, 64 callers (peer: raw SQLite, one commit at a time)",
            ours,
            single.per_second(),
            "durable steps/s",
            Some(2.5),
        ),
    ])
}

async fn postgres(time: Duration) -> anyhow::Result<Vec<Figure>> {
    progress("starting PostgreSQL");
    let server = TempPostgres::start().context("PostgreSQL is needed for this figure")?;
    let peer_url = server.create_database("pgbench")?;
    progress("filling pgbench's tables (scale 100)");
    pgbench(&server, &peer_url, &["-i", "-q", "-s", PGBENCH_SCALE])?;
    let clients = POSTGRES_CLIENTS.to_string();
    let seconds = time.as_secs().to_string();
    let url = server.create_database("skep")?;
    let store = Store::open(&url, Options::default()).await?;
    // Peer, ours, peer, ours: whatever else the machine does hits both.
    let (mut spread, mut hot, mut peer) = (0.0, 0.0, 0.0);
    for _ in 0..2 {
        progress("pgbench, TPC-B-like, 16 clients");
        let flags = ["-M", "prepared", "-c", &clients, "-j", "2", "-T", &seconds];
        peer += tps(&pgbench(&server, &peer_url, &flags)?)? / 2.0;
        progress("two-phase transfers on PostgreSQL, 16 callers");
        spread += load(&store, POSTGRES_CLIENTS, WALLETS, time).await? / 2.0;
        hot += load(&store, POSTGRES_CLIENTS, WALLETS_HOT, time).await? / 2.0;
    }
    let figure = |wallets: usize, steps: f64, bar| {
        let name =
            format!("PostgreSQL, 16 callers, hold + post, {wallets} wallets (peer: pgbench)");
        Figure::new(&name, steps / 2.0, peer, "transfers/s to transactions/s", bar)
    };
    Ok(vec![figure(WALLETS, spread, Some(0.5)), figure(WALLETS_HOT, hot, None)])
}

pub(super) fn pgbench(server: &TempPostgres, url: &str, flags: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(server.bin_dir().join("pgbench"));
    let output = command.args(flags).arg(url).output().context("pgbench did not start")?;
    if !output.status.success() {
        bail!("pgbench failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub(super) fn tps(text: &str) -> anyhow::Result<f64> {
    let line =
        text.lines().find_map(|l| l.strip_prefix("tps = ")).context("pgbench told no tps")?;
    Ok(line.split(' ').next().unwrap_or_default().parse()?)
}

/// Runs holds and posts with so many callers at once. Says how many steps a second were durable.
pub(super) async fn load(
    store: &Store,
    callers: usize,
    wallets: usize,
    time: Duration,
) -> anyhow::Result<f64> {
    let stop = Arc::new(AtomicBool::new(false));
    let steps = Arc::new(AtomicU64::new(0));
    for n in 0..wallets {
        step(store, fund(n)).await?;
    }
    let started = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|n| {
            let (store, stop, steps) = (store.clone(), stop.clone(), steps.clone());
            tokio::spawn(async move {
                let mut place = n * 7919;
                while !stop.load(Ordering::Relaxed) {
                    let hold = new_id()?;
                    place += 104_729;
                    step(&store, hold_call(place, wallets, hold)).await?;
                    step(&store, post_call(place, wallets, hold)).await?;
                    steps.fetch_add(2, Ordering::Relaxed);
                }
                anyhow::Ok(())
            })
        })
        .collect();
    tokio::time::sleep(time).await;
    stop.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await??;
    }
    Ok(steps.load(Ordering::Relaxed) as f64 / started.elapsed().as_secs_f64())
}

async fn step(store: &Store, call: Call) -> anyhow::Result<()> {
    match store.call(call).await? {
        skep_store::Outcome::Done(answer) if !answer.refused => Ok(()),
        other => bail!("unexpected answer {other:?}"),
    }
}

fn new_id() -> anyhow::Result<TransferId> {
    let mut rest = [0; 10];
    getrandom::fill(&mut rest)?;
    Ok(TransferId::new(skep_base::Clock::now(&skep_store::SystemClock), rest))
}

fn wallet(n: usize) -> AccountId {
    let mut agent = [0x5e; 20];
    agent[..8].copy_from_slice(&(n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    AccountId::wallet(&AgentId(agent), Asset::USDC)
}

fn guard(key: String) -> Guard {
    let fingerprint = sha256(key.as_bytes());
    let kept = Kept::Until(Timestamp::from_ms(4_000_000_000_000));
    Guard { scope: "bench".to_owned(), key, fingerprint, kept }
}

fn order(id: TransferId, debit: AccountId, credit: AccountId, minor: i64) -> Order {
    let amount = Amount::new(minor).unwrap_or(Amount::ZERO);
    Order { id, route: RouteKey::of(id), debit, credit, amount, budget: None }
}

fn fund(n: usize) -> Call {
    let id = TransferId::from_bytes(*b"bench-funding-00").derive(&n.to_string());
    let order = order(id, AccountId::external("bench", Asset::USDC), wallet(n), 1 << 40);
    let load = Load {
        accounts: vec![wallet(n)],
        transfers: vec![(RouteKey::of(id), id)],
        ..Load::default()
    };
    let step = move |turn: &mut Turn| decide(turn.book.transfer(order.clone()).map(|_| ()));
    Call { load, guards: vec![], step: Box::new(step) }
}

fn hold_call(place: usize, wallets: usize, id: TransferId) -> Call {
    let (from, to) = sides(place, wallets);
    let load = load_of(id, &from, &to);
    let step = move |turn: &mut Turn| {
        let held = turn.book.hold(order(id, from.clone(), to.clone(), 5)).map(|_| ());
        tell(turn, id, &from, &to, "transfer.held")?;
        decide(held)
    };
    Call { load, guards: vec![guard(id.to_string())], step: Box::new(step) }
}

fn sides(place: usize, wallets: usize) -> (AccountId, AccountId) {
    let other = place % wallets + 1 + place / wallets % (wallets - 1);
    (wallet(place % wallets), wallet(other % wallets))
}

fn load_of(id: TransferId, from: &AccountId, to: &AccountId) -> Load {
    let accounts = vec![from.clone(), to.clone()];
    Load { accounts, transfers: vec![(RouteKey::of(id), id)], ..Load::default() }
}

fn post_call(place: usize, wallets: usize, hold: TransferId) -> Call {
    let (from, to) = sides(place, wallets);
    let load = load_of(hold, &from, &to);
    let step = move |turn: &mut Turn| {
        let id = hold.derive("post");
        let Some(stored) = turn.book.find(&hold) else {
            return Ok(Decision::Refuse("the hold is gone".to_owned()));
        };
        let (from, to) = (stored.transfer.debit.clone(), stored.transfer.credit.clone());
        let posted = turn.book.post(hold, id, None).map(|_| ());
        tell(turn, hold, &from, &to, "transfer.posted")?;
        decide(posted)
    };
    Call { load, guards: vec![guard(format!("{hold}/post"))], step: Box::new(step) }
}

fn tell(
    turn: &mut Turn,
    id: TransferId,
    from: &AccountId,
    to: &AccountId,
    kind: &'static str,
) -> Result<(), skep_store::Bug> {
    let body = serde_json::json!({ "id": id, "from": from, "to": to, "amount": 5 });
    turn.event(&RouteKey::of(id), kind, &body, &[]).map(|_| ())
}

fn decide(result: Result<(), skep_store::LedgerRefusal>) -> Result<Decision, skep_store::Bug> {
    Ok(match result {
        Ok(()) => Decision::Commit("{\"state\":\"done\"}".to_owned()),
        Err(refusal) => Decision::Refuse(refusal.to_string()),
    })
}
