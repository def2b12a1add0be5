//! The program as people and scripts use it: words, exit codes, files.

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use skep_testkit::process::Child;

fn skep(home: &Path, args: &[&str]) -> Output {
    command(home).args(args).output().unwrap()
}

/// Nothing of the machine's own settings gets in.
fn command(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skep"));
    command
        .env_clear()
        .env("HOME", home)
        .env("SKEP_PASSPHRASE", "correct horse")
        .env("RUST_LOG", "error")
        .current_dir(home)
        .stdin(Stdio::null());
    command
}

fn node(home: &Path, flags: &[&str]) -> Child {
    let mut command = command(home);
    command.args(["up", "--listen", "127.0.0.1:0"]).args(flags);
    Child::spawn(&mut command).unwrap()
}

#[track_caller]
fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// One clear line on stderr, nothing on stdout, exit code 1.
#[track_caller]
fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.starts_with("error: "), "{text}");
    text
}

#[test]
fn a_new_user_comes_from_keys_to_money() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    // No argument at all but a free port: the default folder, on an empty machine.
    let node = node(home, &["--dev"]);
    let url = node.url().to_owned();
    let run = |args: &[&str]| {
        let output = command(home).env("SKEP_NODE", &url).args(args).output().unwrap();
        json(&output)
    };
    let made = run(&["keys", "new", "--operator", "--json"]);
    let words = made["recovery_phrase"].as_str().unwrap().split(' ').count();
    assert_eq!(words, 24);
    let shown = run(&["keys", "show", "--json"]);
    assert_eq!(shown["agent_id"], made["agent_id"]);
    run(&["operator", "register", "--name", "Hive", "--json"]);
    let agent = run(&["agent", "register", "--name", "Ada", "--json"]);
    assert_eq!(agent["agent_id"], made["agent_id"]);
    assert_ne!(agent["operator"], agent["did"]);
    run(&["wallet", "fund", "12.5", "--json"]);
    let wallet = run(&["wallet", "balance", "--json"]);
    assert_eq!(wallet["balances"][0]["available"]["amount_minor"], "12500000");
    let line = run(&["wallet", "history", "--json"]);
    assert_eq!(line["money"]["amount"], "12.50");
    let stranger = "0x00000000000000000000000000000000000000aa";
    let funded = run(&["wallet", "fund", "1", "--to", stranger, "--json"]);
    assert_eq!(funded["to"], format!("wallet:{stranger}:USDC"));
    let token = run(&["budget", "issue", "5.00", "--lasts", "1h", "--register", "--json"]);
    let token: skep_wire::hire::BudgetToken = serde_json::from_value(token).unwrap();
    let id = token.id().unwrap().to_string();
    let part = ["--agent", stranger, "--parent", &id, "--lasts", "30m", "--register"];
    run(&[&["budget", "issue", "2"], &part[..]].concat());
    let budget = run(&["budget", "show", &id, "--json"]);
    assert_eq!(budget["left_minor"], "3000000");
    assert_eq!(budget["delegated_minor"], "2000000");
    let rotated = run(&["keys", "rotate", "--json"]);
    assert_ne!(rotated["public_key"], made["public_key"], "{rotated}");
    let agent = run(&["agent", "show", "--json"]);
    assert_eq!(agent["keys"].as_array().unwrap().len(), 2);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = skep_sdk::Client::new(&url).unwrap();
    let later = runtime.block_on(client.advance_clock(25 * 3600)).unwrap();
    let frozen_until = agent["money_frozen_until"].as_str().unwrap();
    assert!(later > frozen_until.parse().unwrap(), "a day has passed on the test clock");
    run(&["wallet", "fund", "1", "--json"]);
    let report = run(&["ledger", "audit", "--json"]);
    assert_eq!(report["problem_count"], 0);
    assert_eq!(report["transfers"], 3);
}

#[test]
fn the_demo_tells_its_story_and_ends_well() {
    let home = tempfile::tempdir().unwrap();
    let told = skep(home.path(), &["demo", "--agents", "3"]);
    assert!(told.status.success(), "{told:?}");
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(text.contains("SIGKILL") && text.contains("clean"), "{text}");
    assert!(text.contains("Chromium is not installed"), "{text}");
    let mut with_browser = command(home.path());
    with_browser.args(["demo", "--json"]).env("PATH", std::env::var_os("PATH").unwrap());
    let summary = json(&with_browser.output().unwrap());
    assert_eq!(summary["audit_clean"], true);
    assert_eq!(summary["paid"]["USDC"], 25_500_000);
    assert_eq!((&summary["deals_released"], &summary["deals_refunded"]), (&3.into(), &1.into()));
    assert_eq!((&summary["proofs_checked"], &summary["forgeries_refused"]), (&5.into(), &1.into()));
    assert_eq!((&summary["hires_paid"], &summary["hires_refunded"]), (&5.into(), &1.into()));
    assert_eq!((&summary["disputes"], &summary["replays_refused"]), (&2.into(), &5.into()));
    assert_eq!(summary["receipts_countersigned"], 6);
    // 50 of 51 escrows, 588; a browser session is worth 4.
    assert_eq!(summary["score"], 592);
    assert!(summary["swarm_tasks_planned"].as_u64().unwrap() >= 1);
    assert_eq!(summary["transcripts_checked"], 1);
    assert_eq!(summary["transcripts_refused"], 2);
    let checked = (&summary["certificates_checked"], &summary["certificates_refused"]);
    assert_eq!(checked, (&1.into(), &1.into()));
    assert_eq!(summary["log_head_signature_holds"], true);
}

#[test]
fn mistakes_get_one_clear_line() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    assert_eq!(skep(home, &["nonsense"]).status.code(), Some(2));
    assert_eq!(skep(home, &["wallet", "fund"]).status.code(), Some(2));
    assert!(refused(&skep(home, &["wallet", "balance"])).contains("skep keys new"));
    assert!(refused(&skep(home, &["ledger", "audit"])).contains("no such file"));
    let open = skep(home, &["up", "--listen", "0.0.0.0:0"]);
    assert!(refused(&open).contains("--behind-proxy"));
    let dev = skep(home, &["up", "--listen", "0.0.0.0:0", "--dev", "--data-dir", "other"]);
    assert!(refused(&dev).contains("loopback"));
    std::fs::write(home.join("skep.toml"), "lisen = 1").unwrap();
    assert!(refused(&skep(home, &["config", "show"])).contains("lisen"));
}

/// One key of 64 begins with a dash, and so does the cursor of what stands below nothing.
#[test]
fn what_begins_with_a_dash_is_still_a_value() {
    use skep_base::ed25519::SecretKey;
    let home = tempfile::tempdir().unwrap();
    let keys = (0..=255).map(|n| SecretKey::from_seed([n; 32]).public().to_string());
    let key = keys.into_iter().find(|key| key.starts_with('-')).unwrap();
    for args in [
        &["proof", "verify", "none.json", "--key", &key, "--marketplace-key", &key][..],
        &["keys", "bind", "--verify", "none.json", "--operator-key", &key],
        &["search", "a.b", "--cursor", "-5.x", "--node", "http://127.0.0.1:1"],
    ] {
        let told = refused(&skep(home.path(), args));
        assert!(!told.contains("unexpected argument"), "{args:?}: {told}");
    }
}

#[test]
fn test_money_never_meets_real_money() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    drop(node(home, &["--dev", "--data-dir", "dev"]));
    drop(node(home, &["--data-dir", "real"]));
    let up = |args: &[&str]| skep(home, &[&["up", "--listen", "127.0.0.1:0"], args].concat());
    assert!(refused(&up(&["--data-dir", "dev"])).contains("made with --dev"));
    assert!(refused(&up(&["--dev", "--data-dir", "real"])).contains("made without --dev"));
}

#[test]
fn settings_say_where_they_come_from() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    std::fs::write(home.join("skep.toml"), "node = \"http://127.0.0.1:9\"").unwrap();
    let mut command = command(home);
    command.env("SKEP_LISTEN", "127.0.0.1:7").env("SKEP_DATABASE", "postgres://a:secret@b/c");
    let shown = json(&command.args(["config", "show", "--json"]).output().unwrap());
    assert_eq!(shown["listen"]["origin"]["environment"], "SKEP_LISTEN");
    assert_eq!(shown["node"]["origin"]["file"], "skep.toml");
    assert_eq!(shown["log_format"]["origin"], "default");
    assert_eq!(shown["database"]["value"], "postgres://a:…@b/c");
}

#[test]
fn every_command_shows_an_example() {
    let home = tempfile::tempdir().unwrap();
    let commands = [
        "up",
        "demo",
        "keys new",
        "keys show",
        "keys rotate",
        "keys bind",
        "agent register",
        "agent show",
        "operator register",
        "operator attach",
        "wallet balance",
        "wallet fund",
        "wallet history",
        "budget issue",
        "budget show",
        "ledger audit",
        "bench",
        "config show",
        "completions",
        "man",
    ];
    for name in commands {
        let args: Vec<&str> = name.split(' ').chain(["--help"]).collect();
        let help = skep(home.path(), &args);
        let text = String::from_utf8_lossy(&help.stdout).into_owned();
        assert!(help.status.success() && text.contains("Example"), "{name}: {text}");
        assert!(text.contains("--json"), "{name}: {text}");
    }
    assert!(!skep(home.path(), &["completions", "zsh"]).stdout.is_empty());
    assert!(!skep(home.path(), &["man"]).stdout.is_empty());
}
