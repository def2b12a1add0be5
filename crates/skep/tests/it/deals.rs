//! Deals by hand: everything that a requester, a provider and a reviewer type, against a real node.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use skep_testkit::process::Child;

use crate::site::{Page, Site};

/// How long the node may take for what it does by itself.
const PATIENCE: Duration = Duration::from_secs(60);
/// Places of a proof file that are changed.
const FLIPS: usize = 200;
/// What a proof file holds that nothing vouches for; `skep proof verify --help` says so.
const NOT_COVERED: [&str; 3] =
    ["/marketplace/url", "/verifier/key/not_before", "/verifier/key/not_after"];

/// A node, and three agents that know it: Ann asks, Ben works, Rex reviews.
struct World {
    home: tempfile::TempDir,
    node: Option<Child>,
    url: String,
    ben: String,
}

impl World {
    fn new() -> World {
        World::with(&[])
    }

    /// With settings of the node's own.
    fn with(settings: &[(&str, &Path)]) -> World {
        let home = tempfile::tempdir().unwrap();
        let (node, url, ben) = (None, String::new(), String::new());
        let mut world = World { home, node, url, ben };
        let address = |name| {
            let made = world.json(name, &["keys", "new"]);
            made["agent_id"].as_str().unwrap().to_owned()
        };
        let (_, ben, rex) = (address("ann"), address("ben"), address("rex"));
        world.ben = ben;
        let mut up = world.command("node");
        up.args(["up", "--dev", "--listen", "127.0.0.1:0", "--accredit", &rex]);
        up.envs(settings.iter().copied());
        let node = Child::spawn(&mut up).unwrap();
        world.url = node.url().to_owned();
        world.node = Some(node);
        for name in ["ann", "ben", "rex"] {
            world.json(name, &["agent", "register", "--name", name]);
        }
        world.json("rex", &["verifier", "register", "--engine", "human"]);
        world.json("ann", &["wallet", "fund", "1000"]);
        world.json("ben", &["wallet", "fund", "10"]);
        world
    }

    /// Nothing of the machine's own settings gets in; each agent has files of its own.
    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_skep"));
        command
            .env_clear()
            .env("HOME", self.home.path())
            .env("SKEP_PASSPHRASE", "correct horse")
            .env("SKEP_KEYS", self.home.path().join(format!("{name}.keys")))
            .env("SKEP_DATA_DIR", self.home.path().join(name))
            .env("RUST_LOG", "error")
            .current_dir(self.home.path())
            .stdin(Stdio::null());
        if !self.url.is_empty() {
            command.env("SKEP_NODE", &self.url);
        }
        command
    }

    fn run(&self, name: &str, args: &[&str]) -> Output {
        self.command(name).args(args).output().unwrap()
    }

    /// What a command says with `--json`: one document.
    #[track_caller]
    fn json(&self, name: &str, args: &[&str]) -> Value {
        let output = self.run(name, &[args, &["--json"]].concat());
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// What a command tells people.
    #[track_caller]
    fn told(&self, name: &str, args: &[&str]) -> String {
        let output = self.run(name, args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// One clear line on stderr, nothing on stdout, exit code 1.
    #[track_caller]
    fn refused(&self, name: &str, args: &[&str]) -> String {
        let output = self.run(name, args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
        assert!(output.stdout.is_empty(), "{args:?}: {output:?}");
        one_line(&output)
    }

    /// Ann offers Ben 10 USDC.
    #[track_caller]
    fn request(&self, terms: &[&str]) -> String {
        let work = ["--service", "text.write", "--description", "Write hello"];
        let args = [&["deal", "request", &self.ben, "--price", "10 USDC"], &work[..], terms];
        let answer = self.json("ann", &args.concat());
        assert_eq!(answer["status"], "PENDING");
        answer["negotiation_id"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    fn accepted(&self, terms: &[&str]) -> String {
        let id = self.request(terms);
        let answer = self.json("ben", &["deal", "accept", &id]);
        assert_eq!(answer["escrow"]["status"], "HELD");
        id
    }

    #[track_caller]
    fn delivered(&self, terms: &[&str], text: &str) -> String {
        let id = self.accepted(terms);
        self.json("ben", &["deal", "deliver", &id, "--text", text]);
        id
    }

    /// Until the node has come so far by itself.
    #[track_caller]
    fn wait(&self, name: &str, args: &[&str], until: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            let answer = self.json(name, args);
            if until(&answer) {
                return answer;
            }
            assert!(start.elapsed() < PATIENCE, "{args:?} still says {answer:#}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    #[track_caller]
    fn escrow(&self, id: &str) -> Value {
        let status = self.json("ann", &["deal", "status", id]);
        status["agreement"]["escrow_status"].clone()
    }

    /// What is free in a wallet, in minor units.
    fn free(&self, name: &str) -> i64 {
        let wallet = self.json(name, &["wallet", "balance"]);
        let minor = wallet["balances"][0]["available"]["amount_minor"].as_str();
        minor.map_or(0, |minor| minor.parse().unwrap())
    }

    /// The test clock goes ahead.
    fn pass(&self, seconds: u64) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = skep_sdk::Client::new(&self.url).unwrap();
        runtime.block_on(client.advance_clock(seconds)).unwrap();
    }

    fn verify(&self, bytes: &[u8]) -> Output {
        let mut verify = self.command("stranger");
        // A stranger has no node, and needs none.
        verify.env("SKEP_NODE", "http://127.0.0.1:1").args(["proof", "verify", "-", "--json"]);
        let mut child =
            verify.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut stdin = child.as_mut().unwrap().stdin.take().unwrap();
        stdin.write_all(bytes).unwrap();
        drop(stdin);
        child.unwrap().wait_with_output().unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn one_line(output: &Output) -> String {
    let line = text(&output.stderr);
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.starts_with("error: "), "{line}");
    line
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn good_work_is_paid_and_proven_to_strangers() {
    let world = World::new();
    let id = world.request(&["--check-type", "artifact", "--expect", "hello", "--deadline", "3d"]);
    let table = world.told("ben", &["deal", "status", &id]);
    assert!(table.contains(&format!("skep deal accept {id}")), "{table}");
    let countered = ["deal", "respond", &id, "counter", "--price", "12.50 USDC"];
    assert_eq!(world.json("ben", &countered)["price"]["amount"], "12.50");
    let dear = world.refused("ann", &["deal", "accept", &id, "--price", "10 USDC"]);
    assert!(dear.contains("12.50 USDC"), "{dear}");
    world.json("ann", &["deal", "accept", &id, "--price", "12.50 USDC"]);
    assert_eq!(world.free("ann"), 987_500_000);

    fs::write(world.home.path().join("work.txt"), "Hello, world\n").unwrap();
    world.json("ben", &["deal", "deliver", &id, "--artifact", "work.txt"]);
    let end = world.told("ann", &["deal", "status", &id, "--watch"]);
    assert!(end.ends_with("Over: 12.50 USDC went to the provider.\n"), "{end}");
    assert_eq!(world.free("ben"), 22_500_000);
    let receipt = world.json("stranger", &["deal", "settlement", &id]);
    assert_eq!(receipt["signature_ok"], true);
    assert_eq!(receipt["settlement"]["released_minor"], "12500000");
    let other = receipt["settlement"]["proof_signature"].as_str().unwrap();
    let other = &format!("{}A", &other[..42]);
    let pinned = ["deal", "settlement", &id, "--marketplace-key", other];
    assert_ne!(world.run("stranger", &pinned).status.code(), Some(0));
    let listed = world.json("ben", &["deal", "list"]);
    assert_eq!(listed[0]["negotiation_id"], json!(id));
    assert_eq!((&listed[0]["status"], &listed[0]["you"]), (&json!("RELEASED"), &json!("provider")));
    assert_eq!(world.json("ben", &["deal", "list", "--open"]), json!([]));

    let written = world.json("ben", &["proof", "export", &id, "-o", "proof.json"]);
    assert_eq!(written["settlement"], true);
    let file = read(&world.home.path().join("proof.json"));
    let on_stdout = world.json("ann", &["proof", "export", &id]);
    assert_eq!(on_stdout, file, "both sides hold the same proof");
    let keys = [
        ("--key", &file["verifier"]["key"]["public_key"]),
        ("--marketplace-key", &file["marketplace"]["settlement_key"]),
    ];
    let pins: Vec<&str> =
        keys.iter().flat_map(|(flag, key)| [*flag, key.as_str().unwrap()]).collect();
    let checked = world.told("stranger", &[&["proof", "verify", "proof.json"], &pins[..]].concat());
    assert!(checked.contains("pinned by --key") && !checked.contains("FAIL"), "{checked}");
    assert!(checked.contains("12.50 USDC released"), "{checked}");
    let swapped = ["proof", "verify", "proof.json", "--key", pins[3]];
    let swapped = world.run("stranger", &swapped);
    assert_eq!(swapped.status.code(), Some(1));
    assert!(one_line(&swapped).contains("signature"));
    no_change_goes_unseen(&world);
    other_programs_can_read_it(&world, &id);
}

/// As AIVS: written twice, read by us, by tar and Python, and refused when something was changed.
fn other_programs_can_read_it(world: &World, id: &str) {
    let home = world.home.path();
    let written = world.json("ben", &["proof", "export", id, "--aivs", "--out", "a.tar.gz"]);
    assert_eq!((&written["signed"], &written["file"]), (&json!(true), &json!("a.tar.gz")));
    let checked = world.told("stranger", &["proof", "verify", "a.tar.gz"]);
    assert!(checked.contains("vcap_proof.json holds, and the rows are its actions"), "{checked}");
    assert!(checked.contains("the proof inside:") && !checked.contains("FAIL"), "{checked}");
    let report = world.json("stranger", &["proof", "verify", "a.tar.gz"]);
    assert_eq!(report["proof"]["claim"]["outcome"], "VERIFIED");
    assert_eq!(report["claim"]["evidence_covered"], true);

    let unpacked = Command::new("tar").args(["xzf", "a.tar.gz"]).current_dir(home).output();
    assert!(unpacked.unwrap().status.success());
    let verify_py = || {
        let mut python = Command::new("python3");
        python.arg("session_proof/verify.py").current_dir(home).output().unwrap()
    };
    let said = verify_py();
    assert_eq!(said.status.code(), Some(0), "{}", text(&said.stdout));
    world.told("stranger", &["proof", "verify", "session_proof"]);
    // The file inside is the very file that the plain export writes.
    let inside = fs::read(home.join("session_proof/vcap_proof.json")).unwrap();
    assert_eq!(inside, fs::read(home.join("proof.json")).unwrap());

    // What the published hashes do not cover is covered all the same.
    let log = home.join("session_proof/audit_log.jsonl");
    let changed = fs::read_to_string(&log).unwrap().replacen("\"outputs_json\":\"{", "&{ ", 1);
    fs::write(&log, changed.replacen("&{ ", "\"outputs_json\":\"{ ", 1)).unwrap();
    assert_eq!(verify_py().status.code(), Some(1));
    let refused = world.run("stranger", &["proof", "verify", "session_proof"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(one_line(&refused).contains("files"), "{refused:?}");

    let named = world.json("ann", &["proof", "export", id, "--aivs", "--unsigned"]);
    let name = named["file"].as_str().unwrap();
    assert!(name.starts_with("aivs_proof_") && name.ends_with(".tar.gz"), "{name}");
    let report = world.json("stranger", &["proof", "verify", name]);
    assert_eq!((&report["ok"], &report["claim"]["signed_by"]), (&json!(true), &Value::Null));
    fs::write(home.join("junk.tar.gz"), b"\x1f\x8bjunk").unwrap();
    let junk = world.refused("stranger", &["proof", "verify", "junk.tar.gz"]);
    assert!(junk.contains("junk.tar.gz"), "{junk}");
}

/// One byte at many places of the file: either the change is told, or it meant nothing.
fn no_change_goes_unseen(world: &World) {
    let bytes = fs::read(world.home.path().join("proof.json")).unwrap();
    let covered = |bytes: &[u8]| {
        let mut value = skep_base::json::parse(bytes).unwrap();
        for pointer in NOT_COVERED {
            *value.pointer_mut(pointer).unwrap() = Value::Null;
        }
        value
    };
    let before = covered(&bytes);
    let good = world.verify(&bytes);
    assert!(good.status.success(), "{}", text(&good.stderr));
    let mut told = 0;
    for flip in 0..FLIPS {
        let place = flip * bytes.len() / FLIPS;
        let mut changed = bytes.clone();
        changed[place] ^= 1 << (flip % 5);
        let output = world.verify(&changed);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let ok = output.status.success();
        assert_eq!(report["ok"], ok, "byte {place}");
        if ok {
            assert!(covered(&changed) == before, "byte {place} was changed and nobody noticed");
        } else {
            assert_eq!(output.status.code(), Some(1), "byte {place}");
            assert!(one_line(&output).contains("does not hold"), "byte {place}");
            told += 1;
        }
    }
    assert!(told > FLIPS / 2, "{told} of {FLIPS}");
}

#[test]
fn a_page_is_looked_at_by_a_browser_and_its_picture_is_proven() {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let folders: Vec<_> = std::env::split_paths(&std::env::var_os("PATH").unwrap()).collect();
    let found = folders.iter().flat_map(|folder| names.map(|name| folder.join(name)));
    let chromium = found.into_iter().find(|path| path.is_file()).expect("there is a Chromium");
    let world = World::with(&[("SKEP_CHROMIUM", &chromium)]);
    let site = Site::open();
    let script = "<!doctype html><title>x</title><p id=a></p>\
                  <script>a.textContent = 'Made by a script'</script>";
    site.put("/", Page::text(script));
    let url = site.url("/");
    let terms = ["--check-type", "browser", "--expect", "made by a script", "--url", &url];
    let id = world.delivered(&terms, "see there");
    let status = ["deal", "status", &id];
    let end = world.wait("ann", &status, |s| s["agreement"]["escrow_status"] != "HELD");
    assert_eq!(end["agreement"]["escrow_status"], "RELEASED", "{end:#}");
    let proof = world.json("ben", &["proof", "export", &id]);
    let picture = &proof["callback"]["attachments"][0];
    assert_eq!(picture["media_type"], "image/png");
    assert!(picture["data"].as_str().unwrap().starts_with("iVBORw0KGgo"));
    let good = world.verify(&serde_json::to_vec(&proof).unwrap());
    assert!(good.status.success(), "{}", text(&good.stderr));
    let mut forged = proof.clone();
    forged["callback"]["attachments"][0]["data"] = json!("iVBORw0KGgo=");
    let forged = world.verify(&serde_json::to_vec(&forged).unwrap());
    assert_eq!(forged.status.code(), Some(1));
    assert!(text(&forged.stdout).contains("attachment 0"), "{}", text(&forged.stdout));

    // Terms that the engine would not understand are refused at once, in words.
    let to = ["deal", "request", &world.ben, "--price", "1 USDC", "--service", "x"];
    let unclear = ["--description", "x", "--check-type", "llm", "--custom", "{}"];
    let refused = world.refused("ann", &[&to[..], &unclear].concat());
    assert!(refused.contains("rubric"), "{refused}");
}

#[test]
fn bad_work_is_refunded() {
    let world = World::new();
    let id = world.delivered(&["--expect", "hello"], "goodbye");
    let status = ["deal", "status", &id];
    let end = world.wait("ann", &status, |s| s["agreement"]["escrow_status"] != "HELD");
    assert_eq!(end["agreement"]["reason"], "verification_failed");
    assert_eq!(end["verifications"][0]["status"], "FAILED");
    assert!(end["next"].as_str().unwrap().contains("did not meet the criteria"), "{end:#}");
    let proof = world.json("ben", &["proof", "export", &id]);
    assert_eq!(proof["settlement"]["settlement"]["status"], "REFUNDED");
    assert!(world.verify(&serde_json::to_vec(&proof).unwrap()).status.success());

    let id = world.accepted(&["--expect", "hello"]);
    let nothing = world.refused("ben", &["proof", "export", &id]);
    assert!(nothing.contains("no verdict"), "{nothing}");
    let empty = world.refused("ben", &["deal", "deliver", &id]);
    assert!(empty.contains("--artifact FILE"), "{empty}");
    let failed = ["deal", "deliver", &id, "--status", "failed", "--description", "the well is dry"];
    assert_eq!(world.json("ben", &failed)["escrow"], "REFUNDED");
    let nothing = world.refused("ben", &["proof", "export", &id]);
    assert!(nothing.contains("without a verdict"), "{nothing}");
    assert_eq!(world.free("ann"), 1_000_000_000);

    let big = world.home.path().join("big.txt");
    fs::write(&big, vec![b'a'; 256 * 1024 + 1]).unwrap();
    let id = world.accepted(&["--expect", "hello"]);
    let refused = world.refused("ben", &["deal", "deliver", &id, "--artifact", "big.txt"]);
    assert!(refused.contains("--artifact-url"), "{refused}");
    fs::write(&big, [0xff, 0xfe]).unwrap();
    let refused = world.refused("ben", &["deal", "deliver", &id, "--artifact", "big.txt"]);
    assert!(refused.contains("UTF-8"), "{refused}");
}

#[test]
fn the_requester_judges_where_no_machine_can() {
    let world = World::new();
    let offer = world.request(&[]);
    let early = world.refused("ann", &["deal", "approve", &offer]);
    assert!(early.contains("still an offer"), "{early}");
    world.json("ben", &["deal", "respond", &offer, "accept"]);
    let early = world.refused("ann", &["deal", "approve", &offer]);
    assert!(early.contains("nothing was delivered"), "{early}");
    world.json("ben", &["deal", "deliver", &offer, "--artifact-url", "https://example.org/a"]);
    assert!(world.refused("ben", &["deal", "approve", &offer]).contains("only the requester"));
    let taken = world.json("ann", &["deal", "approve", &offer, "--reason", "lovely"]);
    assert_eq!((&taken["status"], &taken["escrow"]), (&json!("VERIFIED"), &json!("RELEASED")));
    let proof = world.json("ben", &["proof", "export", &offer]);
    assert_eq!(proof["verifier"]["key"]["kid"], "agent");
    assert_eq!(proof["callback"]["action_log"][0]["data_snippet"], "lovely");
    assert!(world.verify(&serde_json::to_vec(&proof).unwrap()).status.success());

    let id = world.delivered(&[], "hello");
    let taken = world.json("ann", &["deal", "reject", &id, "--reason", "not this"]);
    assert_eq!((&taken["status"], &taken["escrow"]), (&json!("REJECTED"), &json!("REFUNDED")));
    let again = world.refused("ann", &["deal", "approve", &id]);
    assert!(again.contains("REJECTED already"), "{again}");
}

#[test]
fn a_disputed_verdict_is_divided_by_a_reviewer() {
    let world = World::new();
    let id = world.delivered(&["--dispute-window", "1h"], "half of it");
    world.json("ann", &["deal", "reject", &id, "--reason", "half is missing"]);
    assert_eq!(world.escrow(&id), "HELD");
    let told = world.told("ben", &["deal", "dispute", &id, "--reason", "half is there"]);
    assert!(told.contains("then the disputed verdict stands"), "{told}");
    let again = world.run("ben", &["deal", "dispute", &id, "--reason", "x", "--json"]);
    assert!(one_line(&again).contains("dispute"), "{again:?}");
    let onlooker = world.json("rex", &["deal", "status", &id]);
    assert_eq!((&onlooker["you"], &onlooker["negotiation"]), (&json!("onlooker"), &Value::Null));
    let shown = world.told("rex", &["review", "show", &id]);
    for part in ["one side contests", "half of it", "half is missing", "half is there", "HELD"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let dear = ["review", "decide", &id, "--split", "11 USDC", "--reason", "more"];
    assert!(world.refused("rex", &dear).contains("more than the price"));
    let half = ["review", "decide", &id, "--split", "5 USDC", "--reason", "half"];
    assert_eq!(world.json("rex", &half)["escrow"], "RELEASED");
    let end = world.told("ann", &["deal", "status", &id]);
    assert!(end.contains("5.00 USDC went to the provider and 5.00 USDC back"), "{end}");
    let proof = world.json("ben", &["proof", "export", &id]);
    assert_eq!(proof["callback"]["proof_bundle"]["split"]["released_minor"], "5000000");
    assert!(world.verify(&serde_json::to_vec(&proof).unwrap()).status.success());
    // The verdict that was overturned is still a proof, but no money rests on it.
    let first = proof["callback"]["proof_bundle"]["supersedes"].as_str().unwrap();
    let before = world.json("ann", &["proof", "export", first]);
    assert_eq!(before["settlement"], Value::Null);
    assert!(world.verify(&serde_json::to_vec(&before).unwrap()).status.success());
}

#[test]
fn silence_goes_to_a_reviewer() {
    let world = World::new();
    assert_eq!(world.json("rex", &["review", "list"]), json!([]));
    assert!(world.refused("ann", &["review", "list"]).contains("--accredit"));
    let id = world.delivered(&["--timeout", "10m", "--check-type", "requester"], "hello");
    world.pass(601);
    let waiting = world.wait("rex", &["review", "list"], |list| list != &json!([]));
    assert_eq!(waiting[0]["cause"], "timeout");
    assert_eq!(waiting[0]["negotiation_id"], json!(id));
    assert_eq!(world.escrow(&id), "HELD", "silence moves no money");
    let late = world.refused("ann", &["deal", "approve", &id]);
    assert!(late.contains("the engine is human"), "{late}");
    let file = world.json("rex", &["review", "show", &id]);
    assert_eq!(file["last_status"], "TIMEOUT");
    let stranger = ["review", "decide", &id, "--release", "--reason", "me"];
    assert!(world.refused("ben", &stranger).contains("not_a_reviewer"));
    let decide = ["review", "decide", &id, "--refund", "--reason", "nothing to see"];
    assert_eq!(world.json("rex", &decide)["status"], "REJECTED");
    assert_eq!(world.json("rex", &["review", "list"]), json!([]));
    let proof = world.json("ann", &["proof", "export", &id]);
    assert_eq!(proof["callback"]["action_log"][0]["action"], "REVIEW");
    assert!(world.verify(&serde_json::to_vec(&proof).unwrap()).status.success());
}

#[test]
fn both_sides_can_end_a_deal_in_other_ways() {
    let world = World::new();
    let id = world.accepted(&[]);
    let wrong = world.refused("ann", &["deal", "split", &id, "--release", "3 USD"]);
    assert!(wrong.contains("the deal is in USDC"), "{wrong}");
    world.json("ann", &["deal", "split", &id, "--release", "3 USDC"]);
    let offer = world.told("ben", &["deal", "status", &id]);
    assert!(offer.contains(&format!("skep deal split {id} --release '3.00 USDC'")), "{offer}");
    assert_eq!(
        world.json("ben", &["deal", "split", &id, "--release", "3 USDC"])["escrow"],
        "RELEASED"
    );
    assert_eq!(world.free("ben"), 13_000_000);

    let withdrawn = world.request(&[]);
    assert_eq!(world.json("ann", &["deal", "cancel", &withdrawn])["status"], "DECLINED");
    let rejected = world.request(&["--expires", "2h", "--metadata", r#"{"ref": 7}"#]);
    let no = ["deal", "respond", &rejected, "reject", "--reason", "no time"];
    assert_eq!(world.json("ben", &no)["status"], "DECLINED");
    let id = world.accepted(&["--deadline", "2h"]);
    assert_eq!(world.json("ben", &["deal", "cancel", &id])["agreement"], "CANCELLED");

    let id = world.accepted(&["--deadline", "2h"]);
    let early = world.refused("rex", &["deal", "refund", &id]);
    assert!(early.contains("deadline_not_passed"), "{early}");
    // The node's own timer may be first; either way the money is back.
    world.pass(3 * 3600 + 1);
    let claimed = world.run("ann", &["deal", "refund", &id, "--json"]);
    let first = claimed.status.success();
    assert!(first || one_line(&claimed).contains("already_settled"), "{claimed:?}");
    assert_eq!(world.escrow(&id), "REFUNDED");
    assert_eq!(world.free("ann"), 997_000_000);
}

#[test]
fn the_providers_word_can_be_objected_to() {
    let world = World::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = skep_sdk::Client::new(&world.url).unwrap();
    let trusted = skep_wire::settle::Standing {
        tier: skep_wire::settle::Tier::Trusted,
        ..Default::default()
    };
    let ben = world.ben.parse().unwrap();
    runtime.block_on(client.set_standing(&ben, &trusted)).unwrap();
    let id = world.accepted(&["--auto-approve", "--expect", "hello"]);
    let word = ["deal", "deliver", &id, "--text", "bye", "--auto-approve"];
    let told = world.told("ben", &word);
    assert!(told.contains("unless the requester objects"), "{told}");
    world.json("ann", &["deal", "object", &id, "--reason", "it is not there"]);
    let status = ["deal", "status", &id];
    let end = world.wait("ann", &status, |s| s["agreement"]["escrow_status"] != "HELD");
    assert_eq!(end["agreement"]["reason"], "verification_failed");
    let id = world.accepted(&["--expect", "hello"]);
    let word = ["deal", "deliver", &id, "--text", "bye", "--auto-approve"];
    assert!(world.refused("ben", &word).contains("without --auto-approve"));
}

#[test]
fn whole_messages_are_sent_as_they_are() {
    let world = World::new();
    let ann = world.json("ann", &["keys", "show"])["agent_id"].clone();
    let message = json!({
        "vcap_version": "1.0", "message_type": "negotiation_request",
        "requester": {"agent_id": ann}, "provider": {"agent_id": world.ben},
        "request": {
            "service_type": "text.write", "description": "Write hello",
            "budget_amount": 0.10, "budget_currency": "USDC",
        },
        "note": "kept",
    });
    fs::write(world.home.path().join("request.json"), message.to_string()).unwrap();
    let answer = world.json("ann", &["deal", "request", "--file", "request.json"]);
    let id = answer["negotiation_id"].as_str().unwrap();
    let status = world.json("ben", &["deal", "status", id]);
    assert_eq!(status["negotiation"]["messages"][0]["note"], "kept");
    world.json("ben", &["deal", "accept", id]);
    let delivery = json!({
        "vcap_version": "1.0", "message_type": "service_delivery",
        "negotiation_id": id, "escrow_id": id, "provider": {"agent_id": world.ben},
        "delivery": {"status": "success", "description": "done", "artifacts": []},
        "delivered_at": "2026-11-15T09:00:00Z",
    });
    fs::write(world.home.path().join("delivery.json"), delivery.to_string()).unwrap();
    let answer = world.json("ben", &["deal", "deliver", "--file", "delivery.json"]);
    assert_eq!(answer["verification"], "PENDING");
    fs::write(world.home.path().join("twice.json"), r#"{"a": 1, "a": 2}"#).unwrap();
    assert!(world.refused("ben", &["deal", "deliver", "--file", "twice.json"]).contains("twice"));
}

#[test]
fn mistakes_are_told_before_anything_is_sent() {
    let home = tempfile::tempdir().unwrap();
    let (node, url, ben) = (None, "http://127.0.0.1:1".to_owned(), String::new());
    let world = World { home, node, url, ben };
    let id = "01a1df51-6d50-744d-b23f-5ca566d12a00";
    let usage: [&[&str]; 9] = [
        &["deal", "request"],
        &["deal", "request", "nobody", "--price", "1 USDC", "--service", "a", "--description", "b"],
        &["deal", "request", "--file", "a", "--url", "https://a"],
        &["deal", "respond", id, "perhaps"],
        &["deal", "deliver", id, "--status", "done"],
        &["deal", "reject", id],
        &["deal", "status", "1"],
        &["review", "decide", id, "--release", "--refund", "--reason", "x"],
        &["proof", "export", "1"],
    ];
    for args in usage {
        assert_eq!(world.run("ann", args).status.code(), Some(2), "{args:?}");
    }
    world.json("ann", &["keys", "new"]);
    let gone = world.refused("ann", &["deal", "status", id]);
    assert!(gone.contains("skep up --dev"), "{gone}");
    assert!(world.refused("ann", &["proof", "verify", "nothing.json"]).contains("nothing.json"));
    let junk = world.verify(b"{}");
    let report: Value = serde_json::from_slice(&junk.stdout).unwrap();
    assert_eq!(report["ok"], false);
}

#[test]
fn every_command_about_deals_shows_an_example() {
    let home = tempfile::tempdir().unwrap();
    let (node, url, ben) = (None, String::new(), String::new());
    let world = World { home, node, url, ben };
    let deal = "request respond accept deliver status list cancel approve reject dispute object \
                split refund settlement";
    let mut commands: Vec<String> = deal.split_whitespace().map(|c| format!("deal {c}")).collect();
    let more = "review list,review show,review decide,proof export,proof verify";
    commands.extend(more.split(',').map(str::to_owned));
    for answer in ["accept", "reject", "counter"] {
        commands.push(format!("deal respond 01a1df51-6d50-744d-b23f-5ca566d12a00 {answer}"));
    }
    for command in commands {
        let args: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let help = world.told("ann", &args);
        assert!(help.contains("Example") && help.contains("--json"), "{command}: {help}");
    }
    let help = world.told("ann", &["proof", "verify", "--help"]);
    assert!(help.contains("Not covered") && help.contains("marketplace.url"), "{help}");
}
