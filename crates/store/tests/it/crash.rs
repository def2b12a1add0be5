//! Whatever ends the process, the disk or the server: what was acknowledged is there afterwards,
//! what was said to be unwritten is not, and the books balance.
//!
//! The work is done by a child, this same test program, which says on stdout what the store told
//! it: `ACK` and a row of the journal, `NOT` and a row that must not be there, `UNKNOWN`.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use skep_store::{Answer, Kind, Options, Outcome, Store, StoreError, Synchronous, Transfer};
use skep_testkit::{
    postgres::TempPostgres,
    powercut,
    process::{Run, run_until},
    rng::{Rng, is_long, seed_or},
};

use crate::fixture::{Change::*, *};

const KILLS: usize = 30;
const KILLS_LONG: usize = 2000;
const SYNCS: u64 = 20;
const SYNCS_LONG: u64 = 200;
const FAULTS: u64 = 6;
const FAULTS_LONG: u64 = 60;
const CUTS: usize = 300;
const CUTS_LONG: usize = 20_000;
const SERVER_CRASHES: u64 = 3;
const SERVER_CRASHES_LONG: u64 = 50;

/// Callers at the same time, each with a wallet of its own.
const CALLERS: u64 = 8;
/// More than any caller can spend.
const FUNDS: i64 = 1_000_000;
/// Databases do not grow without end: after so many kills a fresh one is made.
const KILLS_PER_DATABASE: usize = 5;
/// A child that takes longer than this hangs.
const HANGS_AFTER: Duration = Duration::from_secs(120);
/// Errors that a full disk gives before the workload makes room.
const ERRORS_BEFORE_ROOM: u64 = 20;

const PLAN: &str = "SKEP_CRASH_PLAN";

fn by_length<T>(short: T, long: T) -> T {
    if is_long() { long } else { short }
}

/// What a child is to do.
#[derive(Clone, Debug)]
struct Plan {
    url: String,
    synchronous: Synchronous,
    /// How often the database is opened, worked on and closed.
    sessions: u64,
    /// Calls per session, failed ones included.
    steps: u64,
    /// After so many errors a session ends.
    errors_max: u64,
    /// Tells apart the children that work on one database, so that each has ids of its own.
    run: u64,
    /// What the workload removes to make room on a full disk.
    ballast: Option<PathBuf>,
}

impl Plan {
    fn new(folder: &Path, steps: u64) -> Plan {
        let url = format!("sqlite:{}", folder.join("skep.db").display());
        let synchronous = Synchronous::Full;
        Plan { url, synchronous, sessions: 1, steps, errors_max: 60, run: 1, ballast: None }
    }

    /// This program again, as the child that follows the plan.
    fn command(&self) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let ballast = self.ballast.as_deref().unwrap_or(Path::new("")).display();
        let normal = self.synchronous == Synchronous::Normal;
        let Plan { url, sessions, steps, errors_max, run, .. } = self;
        let plan = format!("{normal}|{sessions}|{steps}|{errors_max}|{run}|{ballast}|{url}");
        command
            .args(["--exact", "crash::workload", "--nocapture", "--test-threads=1"])
            .env(PLAN, plan);
        command
    }

    fn from_env() -> Option<Plan> {
        let text = std::env::var(PLAN).ok()?;
        let mut words = text.splitn(7, '|');
        let mut word = || words.next().unwrap();
        let synchronous = match word() {
            "true" => Synchronous::Normal,
            _ => Synchronous::Full,
        };
        let mut number = || word().parse().unwrap();
        let (sessions, steps, errors_max, run) = (number(), number(), number(), number());
        let ballast = Some(word()).filter(|path| !path.is_empty()).map(PathBuf::from);
        let url = word().to_owned();
        Some(Plan { url, synchronous, sessions, steps, errors_max, run, ballast })
    }

    async fn open(&self) -> Result<Store, skep_store::OpenError> {
        let options = Options { synchronous: self.synchronous, lanes: 2, ..Options::default() };
        Store::open(&self.url, options).await
    }
}

/// Not a test: the child of the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workload() {
    let Some(plan) = Plan::from_env() else { return };
    let say: Say = Arc::new(|line| {
        // One write per line, so that a kill leaves whole lines only.
        std::io::Write::write_all(&mut std::io::stdout(), line.as_bytes()).unwrap();
    });
    // The test harness has begun a line of its own.
    say("\n".to_owned());
    for session in 0..plan.sessions {
        match plan.open().await {
            Ok(store) => {
                say("OPEN\n".to_owned());
                drive(&store, &plan, session, &say).await;
            }
            Err(error) => say(format!("CLOSED {error}\n")),
        }
    }
    say("END\n".to_owned());
}

type Say = Arc<dyn Fn(String) + Send + Sync>;

/// What the callers of one session share.
struct Shared {
    steps: AtomicU64,
    errors: AtomicU64,
    plan: Plan,
}

impl Shared {
    fn takes_step(&self) -> bool {
        self.steps.fetch_add(1, Ordering::Relaxed) < self.plan.steps
            && self.errors.load(Ordering::Relaxed) < self.plan.errors_max
    }
}

/// Lets the callers work until the steps of the plan are used up.
async fn drive(store: &Store, plan: &Plan, session: u64, say: &Say) {
    let shared = Arc::new(Shared {
        steps: AtomicU64::new(0),
        errors: AtomicU64::new(0),
        plan: plan.clone(),
    });
    // Dropped, it ends them in the middle of what they do.
    let mut callers = tokio::task::JoinSet::new();
    for number in 1..=CALLERS {
        let last_id = ((plan.run * 100 + session) * 100 + number) * 1_000_000;
        let caller = Caller {
            store: store.clone(),
            say: say.clone(),
            shared: shared.clone(),
            rng: Rng::new(last_id),
            number: number as u8,
            last_id,
            holds: Vec::new(),
        };
        callers.spawn(caller.run());
    }
    while let Some(ended) = callers.join_next().await {
        ended.unwrap();
    }
}

/// What a caller does next.
#[derive(Clone, Copy)]
enum Next {
    Unfunded,
    Any,
    Over,
}

struct Caller {
    store: Store,
    say: Say,
    shared: Arc<Shared>,
    rng: Rng,
    number: u8,
    last_id: u64,
    /// Acknowledged and not resolved.
    holds: Vec<(u64, i64)>,
}

impl Caller {
    async fn run(mut self) {
        let mut next = Next::Unfunded;
        loop {
            let change = match next {
                Next::Over => return,
                Next::Unfunded => Pay(self.new_id(), outside(), wallet(self.number), FUNDS),
                Next::Any => self.choose(),
            };
            next = self.step(change, next).await;
        }
    }

    fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn choose(&mut self) -> Change {
        let (n, minor) = (self.new_id(), 1 + self.rng.below(20) as i64);
        let other = (self.number + self.rng.below(CALLERS - 1) as u8) % CALLERS as u8 + 1;
        let (from, to) = (wallet(self.number), wallet(other));
        match (self.rng.below(5), self.holds.pop()) {
            (0 | 1, Some((hold, held))) => Post(n, hold, Some(held.min(minor))),
            (2, Some((hold, _))) => Void(n, hold),
            (choice, unused) => {
                self.holds.extend(unused);
                if choice < 4 { Hold(n, from, to, minor) } else { Pay(n, from, to, minor) }
            }
        }
    }

    /// Asks until there is an answer, or gives up: both must be fine.
    async fn step(&mut self, change: Change, given_up: Next) -> Next {
        let say = |word: &str| (self.say)(format!("{word} {}\n", row_of(&change)));
        // Once one attempt is uncertain, no later one can say that nothing is written.
        let mut uncertain = false;
        while self.shared.takes_step() {
            match self.store.call(call(vec![change.clone()])).await {
                Ok(Outcome::Done(Answer { refused: false, .. })) => {
                    say("ACK");
                    if let Hold(n, _, _, minor) = change {
                        self.holds.push((n, minor));
                    }
                    return Next::Any;
                }
                Err(StoreError::Unavailable(_)) => {}
                Err(StoreError::Unknown(_)) => uncertain = true,
                other => panic!("{change:?} was answered by {other:?}"),
            }
            let gives_up = self.rng.percent(50);
            say(match (gives_up, uncertain) {
                (false, _) => "AGAIN",
                (true, false) => "NOT",
                (true, true) => "UNKNOWN",
            });
            self.pause().await;
            if gives_up {
                return given_up;
            }
        }
        Next::Over
    }

    /// After an error; makes room when the disk was full for long enough.
    async fn pause(&self) {
        let errors = self.shared.errors.fetch_add(1, Ordering::Relaxed) + 1;
        if errors == ERRORS_BEFORE_ROOM
            && let Some(ballast) = &self.shared.plan.ballast
        {
            std::fs::remove_file(ballast).unwrap();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A change as its row of the journal: id, kind, amount, and what it resolves.
fn row_of(change: &Change) -> String {
    match change {
        Pay(n, _, _, minor) => format!("{} posted {minor}", id(*n)),
        Hold(n, _, _, minor) => format!("{} pending {minor}", id(*n)),
        Post(n, hold, part) => format!("{} post {} {}", id(*n), part.unwrap_or(0), id(*hold)),
        Void(n, hold) => format!("{} void {}", id(*n), id(*hold)),
        Owe(..) => unreachable!("no caller owes"),
    }
}

/// The same from the journal.
fn row(transfer: &Transfer) -> String {
    let Transfer { id, kind, amount, pending, .. } = transfer;
    let resolved = pending.map(|id| format!(" {id}")).unwrap_or_default();
    match kind {
        Kind::Void => format!("{id} void{resolved}"),
        _ => format!("{id} {} {}{resolved}", kind.as_str(), amount.minor()),
    }
}

/// What a workload said.
#[derive(Clone, Debug, Default)]
struct Said {
    acked: Vec<String>,
    /// Rows of calls that were said to have written nothing, and were not tried again.
    unwritten: Vec<String>,
    errors: usize,
    acked_after_errors: usize,
    opened: bool,
    ended: bool,
}

impl Said {
    fn hear<'a>(&mut self, lines: impl IntoIterator<Item = &'a str>) {
        for line in lines {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "ACK" => {
                    self.acked.push(rest.to_owned());
                    self.acked_after_errors += usize::from(self.errors > 0);
                }
                "NOT" => self.unwritten.push(rest.to_owned()),
                "OPEN" => self.opened = true,
                "END" => self.ended = true,
                _ => {}
            }
            self.errors += usize::from(["NOT", "UNKNOWN", "AGAIN", "CLOSED"].contains(&word));
        }
    }
}

/// Opens what a crash left, and gives the acknowledged rows that are lost. An error is anything
/// else that is wrong.
async fn lost_rows(url: &str, said: &Said) -> Result<Vec<String>, String> {
    let store = Store::open(url, Options::default()).await.map_err(|e| e.to_string())?;
    let journal = journal(&store).await?;
    if let Some(row) = said.unwritten.iter().find(|row| journal.contains(*row)) {
        return Err(format!("{row} is there, although its caller was told that it is not"));
    }
    if !url.starts_with("sqlite:") {
        settle_log(&store).await;
    }
    let report = store.audit(Box::new(|_, _| {})).await.map_err(|e| e.to_string())?;
    if !report.is_clean() {
        return Err(format!("{report:#?}"));
    }
    match store.call(call(vec![Pay(1, outside(), wallet(1), 1)])).await {
        Ok(Outcome::Done(Answer { refused: false, .. })) => {}
        other => return Err(format!("a transfer after the crash: {other:?}")),
    }
    Ok(said.acked.iter().filter(|row| !journal.contains(*row)).cloned().collect())
}

async fn journal(store: &Store) -> Result<BTreeSet<String>, String> {
    let mut journal = BTreeSet::new();
    for number in 1..=CALLERS as u8 {
        let page = store.history(wallet(number), None, 1_000_000).await;
        let page = page.map_err(|e| e.to_string())?.unwrap_or_default();
        journal.extend(page.iter().map(|entry| row(&entry.transfer)));
    }
    Ok(journal)
}

/// Where a test is, and how to come there again.
struct Place {
    test: &'static str,
    seed: u64,
}

impl Place {
    fn new(test: &'static str) -> Place {
        Place { test, seed: seed_or(1) }
    }

    fn fail(&self, detail: impl std::fmt::Display) -> ! {
        let Place { test, seed } = self;
        let long = if is_long() { "SKEP_TEST_LONG=1 " } else { "" };
        panic!("{detail}\nrun again: SEED={seed} {long}cargo test -p skep-store crash::{test}");
    }

    async fn nothing_is_lost(&self, url: &str, said: &Said, what: &str) {
        match lost_rows(url, said).await {
            Ok(lost) if lost.is_empty() => {}
            Ok(lost) => self.fail(format_args!("{what}: acknowledged and lost: {lost:#?}")),
            Err(error) => self.fail(format_args!("{what}: {error}")),
        }
    }

    /// Runs a child that ends by itself, however its calls are answered.
    fn run_to_end(&self, command: &mut Command, what: &str) -> Said {
        let run = self.run(command, what);
        let mut said = Said::default();
        said.hear(run.stdout.lines());
        if !run.status.success() || !said.ended {
            let Run { status, stdout, stderr, .. } = run;
            let tail = stdout.len().saturating_sub(2000);
            let stdout = stdout.get(tail..).unwrap_or_default();
            self.fail(format_args!("{what}: the child ended with {status}\n{stdout}\n{stderr}"));
        }
        said
    }

    fn run(&self, command: &mut Command, what: &str) -> Run {
        let run = run_until(command, HANGS_AFTER).unwrap();
        if run.killed {
            self.fail(format_args!("{what}: the child hangs\n{}\n{}", run.stdout, run.stderr));
        }
        run
    }
}

/// The same command, started by another program.
fn started_by(program: &str, args: &[&str], command: &Command) -> Command {
    let mut whole = Command::new(program);
    whole.args(args).arg(command.get_program()).args(command.get_args());
    whole.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    whole
}

/// The plan's command with faults in its calls on the database and its log. `strace` counts them
/// in each thread by itself, and with `--seccomp-bpf`, which would be faster, not at all.
fn with_fault(plan: &Plan, calls: &str, fault: &str) -> Command {
    let database = plan.url.strip_prefix("sqlite:").unwrap();
    let log = format!("{database}-wal");
    let (traced, injected) = (format!("trace={calls}"), format!("inject={calls}:{fault}"));
    let args = ["-f", "-qq", "-o", "/dev/null", "-e", &traced, "-e", &injected];
    let args = [&args[..], &["-P", database, "-P", &log]].concat();
    started_by("strace", &args, &plan.command())
}

/// An empty database, with the schema.
async fn prepare(plan: &Plan) {
    drop(plan.open().await.unwrap());
}

fn schema_of(url: &str) -> Vec<String> {
    let conn = rusqlite::Connection::open(url.strip_prefix("sqlite:").unwrap()).unwrap();
    let mut names = conn.prepare("select name from sqlite_schema order by name").unwrap();
    let names = names.query_map([], |row| row.get(0)).unwrap();
    names.collect::<rusqlite::Result<_>>().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_moment() {
    let place = Place::new("killed_at_any_moment");
    let mut rng = Rng::new(place.seed);
    let whole = tempfile::tempdir().unwrap();
    let whole_plan = Plan::new(whole.path(), 0);
    prepare(&whole_plan).await;
    let whole_schema = schema_of(&whole_plan.url);
    let (mut folder, mut said) = (tempfile::tempdir().unwrap(), Said::default());
    let (mut acked, mut unopened, mut slow) = (0, 0, 1);
    for kill in 0..by_length(KILLS, KILLS_LONG) {
        let is_first = kill % KILLS_PER_DATABASE == 0;
        if is_first {
            (folder, said) = (tempfile::tempdir().unwrap(), Said::default());
        }
        let plan = Plan { run: kill as u64, ..Plan::new(folder.path(), u64::MAX) };
        // On a fresh database most of the moments are in the making of the schema.
        let moments = if is_first { 30_000 } else { 250_000 * slow };
        let moment = Duration::from_micros(rng.below(moments));
        let run = run_until(&mut plan.command(), moment).unwrap();
        let what = format!("kill {kill} after {moment:?}");
        if !run.killed {
            place.fail(format_args!("{what}: the child ended first\n{}", run.stderr));
        }
        let before = said.acked.len();
        said.opened = false;
        said.hear(run.stdout.lines());
        acked += said.acked.len() - before;
        unopened += usize::from(!said.opened);
        // A busy machine takes longer to begin.
        slow += u64::from(!is_first && !said.opened);
        place.nothing_is_lost(&plan.url, &said, &what).await;
        if schema_of(&plan.url) != whole_schema {
            place.fail(format_args!("{what}: the schema is half made"));
        }
    }
    println!("kills: {acked} acknowledged, {unopened} kills before the database was open");
    assert!(acked > 0, "no child was quick enough to be killed at work");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_at_the_nth_sync() {
    let place = Place::new("dead_at_the_nth_sync");
    // The schema has a thread of its own to be made in, so the writer's syncs are counted from
    // one again on a database that is there.
    for prepared in [false, true] {
        for n in 1..=by_length(SYNCS, SYNCS_LONG) {
            let folder = tempfile::tempdir().unwrap();
            // At least one call in CALLERS waits for a sync.
            let plan = Plan::new(folder.path(), 100 + n * (CALLERS + 1));
            if prepared {
                prepare(&plan).await;
            }
            let fault = format!("signal=SIGKILL:when={n}");
            let mut command = with_fault(&plan, "fsync,fdatasync", &fault);
            let what = format!("sync {n}, prepared: {prepared}");
            let run = place.run(&mut command, &what);
            let mut said = Said::default();
            said.hear(run.stdout.lines());
            if said.ended {
                place.fail(format_args!("{what}: the child did not die"));
            }
            place.nothing_is_lost(&plan.url, &said, &what).await;
        }
    }
}

/// What fails and how, and how many calls lie between the places where it begins.
struct Fault {
    calls: &'static str,
    error: &'static str,
    stride: u64,
}

/// Runs the workload with a fault that begins at the n-th place and passes, or stays.
async fn survive(place: &Place, fault: &Fault, n: u64, length: Option<u64>) {
    let Fault { calls, error, stride } = fault;
    let folder = tempfile::tempdir().unwrap();
    // More than it takes to come to the place: a commit has a sync and many writes.
    let plan = Plan::new(folder.path(), 300 + n * (CALLERS + 1));
    // Every third one has the fault in the making of the schema.
    if !n.is_multiple_of(3) {
        prepare(&plan).await;
    }
    let first = n * stride;
    let when = match length {
        Some(length) => format!("{first}..{}", first + length - 1),
        None => format!("{first}+"),
    };
    let what = format!("{error} from {calls} {when}");
    let fault = format!("error={error}:when={when}");
    let mut command = with_fault(&plan, calls, &fault);
    let said = place.run_to_end(&mut command, &what);
    if said.errors == 0 {
        place.fail(format_args!("{what}: no caller saw it"));
    }
    if said.opened && length.is_some() && said.acked_after_errors == 0 {
        place.fail(format_args!("{what}: the store did not come back"));
    }
    place.nothing_is_lost(&plan.url, &said, &what).await;
}

/// Faults that pass and faults that stay.
const FAULT_LENGTHS: [Option<u64>; 3] = [Some(1), Some(4), None];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_disk_fails_to_sync() {
    let place = Place::new("the_disk_fails_to_sync");
    let fault = Fault { calls: "fsync,fdatasync", error: "EIO", stride: 1 };
    for length in FAULT_LENGTHS {
        for n in 1..=by_length(FAULTS, FAULTS_LONG) {
            survive(&place, &fault, n, length).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_disk_has_no_room() {
    let place = Place::new("the_disk_has_no_room");
    let fault = Fault { calls: "pwrite64", error: "ENOSPC", stride: 7 };
    for length in FAULT_LENGTHS {
        for n in 1..=by_length(FAULTS, FAULTS_LONG) {
            survive(&place, &fault, n, length).await;
        }
    }
}

/// Runs the rest of its arguments with a small disk at the first one, and copies what is there
/// afterwards to the second.
const SMALL_DISK: &str = r#"
    disk="$1" copy="$2"; shift 2
    mount -t tmpfs -o size=8m none "$disk" || exit 99
    head -c 7m /dev/zero > "$disk/ballast"
    "$@"; code=$?
    cp "$disk"/skep.db* "$copy" && exit $code"#;

/// Where nothing can be mounted, a file may at least not grow.
const SMALL_FILES: &str = r#"trap '' XFSZ; ulimit -S -f 1024; exec "$@""#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_disk_is_really_full() {
    let place = Place::new("the_disk_is_really_full");
    let (disk, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut plan = Plan::new(disk.path(), 600);
    (plan.ballast, plan.errors_max) = (Some(disk.path().join("ballast")), u64::MAX);
    let (disk_arg, copy_arg) = (disk.path().to_str().unwrap(), copy.path().to_str().unwrap());
    let args = ["-rm", "sh", "-c", SMALL_DISK, "small-disk", disk_arg, copy_arg];
    let try_mount = started_by("unshare", &args, &Command::new("true")).output().unwrap();
    let said = if try_mount.status.code() == Some(99) {
        plan = Plan::new(copy.path(), 600);
        let args = ["-c", SMALL_FILES, "small-files"];
        place.run_to_end(&mut started_by("sh", &args, &plan.command()), "files that cannot grow")
    } else {
        let mut command = started_by("unshare", &args, &plan.command());
        let said = place.run_to_end(&mut command, "a full disk");
        if said.acked_after_errors == 0 {
            place.fail("the store did not come back when there was room again");
        }
        said
    };
    if said.acked.is_empty() || said.errors == 0 {
        place.fail(format_args!("the disk was never full, or never empty: {said:?}"));
    }
    let copied = Plan::new(copy.path(), 0);
    place.nothing_is_lost(&copied.url, &said, "a full disk").await;
}

/// Cuts the power at random moments of a recorded run, and says how many cuts lost something.
async fn cut_the_power(place: &Place, synchronous: Synchronous, cuts: usize) -> usize {
    let folder = tempfile::tempdir().unwrap();
    // The second session begins on what the first has copied from its log into the database.
    let plan = Plan { synchronous, sessions: 2, ..Plan::new(folder.path(), 100) };
    let trace = powercut::record(&plan.command(), folder.path()).unwrap();
    assert!(trace.acks().len() > 150, "only {} steps were acknowledged", trace.acks().len());
    let mut cuts_with_losses = 0;
    for cut in trace.cuts(place.seed, cuts) {
        let disk = tempfile::tempdir().unwrap();
        let acked = cut.rebuild(disk.path()).unwrap();
        let said = Said { acked, ..Said::default() };
        match lost_rows(&Plan::new(disk.path(), 0).url, &said).await {
            Ok(lost) => cuts_with_losses += usize::from(!lost.is_empty()),
            Err(error) => {
                place.fail(format_args!("cut {} at {}: {error}", cut.seed(), cut.at()));
            }
        }
    }
    cuts_with_losses
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_power_goes() {
    let place = Place::new("the_power_goes");
    let cuts = by_length(CUTS, CUTS_LONG);
    let with_losses = cut_the_power(&place, Synchronous::Full, cuts).await;
    if with_losses > 0 {
        place.fail(format_args!("{with_losses} of {cuts} power cuts lost acknowledged rows"));
    }
}

/// Proves that the test above can fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_power_goes_and_nobody_has_synced() {
    let place = Place::new("the_power_goes_and_nobody_has_synced");
    let with_losses = cut_the_power(&place, Synchronous::Normal, CUTS).await;
    println!("{with_losses} of {CUTS} power cuts lost acknowledged rows");
    if with_losses == 0 {
        place.fail(format_args!("none of {CUTS} power cuts lost a row: the harness is blind"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_crashes() {
    let place = Place::new("the_server_crashes");
    let mut rng = Rng::new(place.seed);
    let pg = TempPostgres::start().unwrap();
    let mut plan = Plan::new(Path::new(""), u64::MAX);
    (plan.url, plan.errors_max) = (pg.url(), u64::MAX);
    let store = plan.open().await.unwrap();
    let heard = Arc::new(Mutex::new(Said::default()));
    let hears = heard.clone();
    let say: Say = Arc::new(move |line| hears.lock().unwrap().hear(line.lines()));
    for crash in 0..by_length(SERVER_CRASHES, SERVER_CRASHES_LONG) {
        plan.run = crash;
        let acked = || heard.lock().unwrap().acked.len();
        let until = |count: usize| async move {
            while acked() < count {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let (working, errors) = (store.clone(), heard.lock().unwrap().errors);
        let work = async { drive(&working, &plan, 0, &say).await };
        let interrupt = async {
            until(acked() + 20 + rng.below(500) as usize).await;
            pg.crash().unwrap();
            let down = Duration::from_millis(rng.below(300));
            tokio::time::sleep(down).await;
            pg.restart().unwrap();
            // The same store finds the server again.
            until(acked() + 50).await;
        };
        let stuck = tokio::time::sleep(HANGS_AFTER);
        tokio::select! {
            () = work => place.fail("the callers ended"),
            () = interrupt => {}
            () = stuck => place.fail(format_args!("crash {crash}: the store did not come back")),
        }
        let said = heard.lock().unwrap().clone();
        if said.errors == errors {
            place.fail(format_args!("crash {crash}: no caller saw it"));
        }
        place.nothing_is_lost(&plan.url, &said, &format!("crash {crash}")).await;
    }
    let said = heard.lock().unwrap();
    println!("server crashes: {} acknowledged, {} errors", said.acked.len(), said.errors);
}
