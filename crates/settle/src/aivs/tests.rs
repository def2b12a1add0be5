use std::{
    fs,
    io::Write as _,
    process::{Command, Stdio},
};

use skep_base::id::SessionId;
use skep_wire::{
    conduit::{GatewayStamp, SessionBundle, SessionStatus},
    settle::Action,
};

use super::{check::check, *};
use crate::{proof::file::Pins, session_proof::seal};

fn time(ms: i64) -> Timestamp {
    Timestamp::from_ms(1_794_733_200_000 + ms)
}

fn exporter() -> SecretKey {
    SecretKey::from_seed([3; 32])
}

fn gateway() -> SecretKey {
    SecretKey::from_seed([4; 32])
}

/// A session's proof, with something to hide and something long.
fn proof(snippet: usize) -> Vec<u8> {
    let mut typed = Action::begun(0, "TYPE", time(250));
    typed.success = true;
    typed.cost_cents = 2;
    typed.selector = Some("#q".to_owned());
    typed.input = Some(json!({"text": "ü", "Api_Key": "k-123", "deep": [{"passwd": 1}]}));
    let mut eval = Action::begun(1, "EVAL", time(1000));
    eval.input = Some(json!({"script": "1 + 1"}));
    eval.data_snippet = Some("\u{1}".repeat(snippet));
    eval.duration_ms = Some(7);
    let log = [typed, eval].map(|action| serde_json::to_value(action).unwrap());
    let bundle = SessionBundle {
        format: String::new(),
        session_id: SessionId::new(time(0), [5; 10]),
        agent_id: AgentId([0x11; 20]),
        status: SessionStatus::Completed,
        reason: None,
        purpose: None,
        action_log: log.into(),
        action_log_head: None,
        chain_alg: String::new(),
        gateway: GatewayStamp {
            kid: "gw".to_owned(),
            public_key: gateway().public(),
            software: "skep/1".to_owned(),
        },
        opened_at: time(0),
        closed_at: time(2000),
    };
    serde_json::to_vec(&seal(bundle, vec![], &gateway()).unwrap()).unwrap()
}

fn made(signed: bool, snippet: usize) -> Files {
    let key = exporter();
    let agent = AgentId([0x22; 20]);
    make(&proof(snippet), time(5500), signed.then_some(Exporter { agent, key: &key })).unwrap()
}

fn wrong(files: &Files) -> String {
    let report = check(files, &Pins::default());
    assert!(!report.ok);
    let failed = report.checks.iter().find(|check| !check.holds()).unwrap();
    format!("{}: {}", failed.name, failed.detail)
}

fn holds(files: &Files) -> bool {
    check(files, &Pins::default()).ok
}

/// The bundle's own program, run as its reader runs it.
fn run_verify_py(files: &Files, without_cryptography: bool) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    let mut python = Command::new("python3");
    if without_cryptography {
        // No site-packages: the standard library alone.
        python.args(["-S", "-I"]);
    }
    let out = python.arg(folder.path().join(VERIFY_PY)).output().unwrap();
    let code = out.status.code().unwrap();
    assert!(code == 0 || code == 1, "{out:?}");
    let text = String::from_utf8(out.stdout).unwrap();
    assert_eq!(out.stderr, b"", "{text}");
    (code == 0, text)
}

/// Every byte of a file changed in turn, in one process, because starting Python takes time.
const EVERY_BYTE: &str = "
import contextlib, io, pathlib, runpy, sys
folder, name = pathlib.Path(sys.argv[1]), sys.argv[2]
good = (folder / name).read_bytes()
for at in range(len(good)):
    (folder / name).write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1:])
    code = 0
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            runpy.run_path(str(folder / 'verify.py'))
    except SystemExit as ended:
        code = ended.code
    if code != 1:
        print(at)
print('done')
";

fn unseen_by_python(files: &Files, name: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    let mut python = Command::new("python3");
    let out = python.args(["-c", EVERY_BYTE]).arg(folder.path()).arg(name).output().unwrap();
    assert!(out.status.success(), "{out:?}");
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn the_published_example_has_the_published_hashes() {
    let example: Value = serde_json::from_str(include_str!("example.json")).unwrap();
    let session = example["session_id"].as_str().unwrap();
    let mut rows: Vec<Row> = Vec::new();
    for (at, known) in example["rows"].as_array().unwrap().iter().enumerate() {
        let mut row = Row {
            id: at as u64 + 1,
            session_id: session.to_owned(),
            action_type: "tool_call".to_owned(),
            tool_name: known[0].as_str().unwrap().to_owned(),
            inputs_json: "{}".to_owned(),
            outputs_json: "{}".to_owned(),
            cost_cents: known[1].as_u64().unwrap(),
            error: String::new(),
            timestamp: RawValue::from_string(known[2].as_str().unwrap().to_owned()).unwrap(),
            prev_hash: rows.last().map(|row| row.row_hash.clone()).unwrap_or_default(),
            row_hash: String::new(),
        };
        row.row_hash = row.hash().unwrap().to_string();
        assert_eq!(row.row_hash, known[3].as_str().unwrap());
        rows.push(row);
    }
    let chain = chain_hash(rows.iter().map(|row| row.row_hash.as_str()));
    assert_eq!(json!(chain), example["chain_hash"]);

    // As a bundle of a program that writes what is published and no more.
    let manifest = json!({
        "session_id": session,
        "exported_at": example["exported_at"],
        "action_count": 5,
        "chain_hash": chain,
        "aivs_version": "1.0",
        "generator_url": "https://example.org/",
        "something": "else",
    });
    let mut files = Files::new();
    let mut put = |name: &str, text: String| files.insert(name.to_owned(), text.into_bytes());
    put(AUDIT_LOG, lines(&rows).unwrap());
    put(MANIFEST, manifest.to_string());
    put(SESSION_SIG, sign_file("chain_hash", &chain.to_string(), None));
    put(PUBLIC_KEY, key_text(None));
    put(VERIFY_PY, "print('another program')\n".to_owned());
    let report = check(&files, &Pins::default());
    assert!(report.ok, "{report:#?}");
    assert!(!report.claim.unwrap().evidence_covered);
    let pins = Pins { verifier: Some(exporter().public()), marketplace: None };
    assert!(!check(&files, &pins).ok, "nobody signed it");
    files.insert(VERIFY_PY.to_owned(), VERIFIER.as_bytes().to_vec());
    assert!(run_verify_py(&files, false).0);

    let log = String::from_utf8(files[AUDIT_LOG].clone()).unwrap();
    for (from, to) in [
        ("\"cost_cents\":5", "\"cost_cents\":4"),
        ("1742000400.123456", "1742000400.123457"),
        ("browser.click", "browser.clack"),
        ("\"id\":3", "\"id\":2"),
        (session, "sess-another"),
    ] {
        let bad = log.replace(from, to).into_bytes();
        let mut files = files.clone();
        files.insert(AUDIT_LOG.to_owned(), bad);
        assert!(wrong(&files).starts_with("rows: row"), "{to}");
        assert!(!run_verify_py(&files, false).0, "{to}");
    }
}

#[test]
fn a_bundle_holds_for_us_and_for_its_own_program() {
    for signed in [true, false] {
        let files = made(signed, 1500);
        let report = check(&files, &Pins::default());
        assert!(report.ok, "{report:#?}");
        assert!(report.proof.as_ref().unwrap().ok());
        let claim = report.claim.unwrap();
        assert!(claim.evidence_covered);
        assert_eq!(claim.signed_by, signed.then(|| exporter().public()));
        let (good, said) = run_verify_py(&files, true);
        assert!(good && said.ends_with("HOLDS\n"), "{said}");
        assert_eq!(said.contains("NOT CHECKED"), signed, "{said}");
        let (good, said) = run_verify_py(&files, false);
        assert!(good, "{said}");
    }
    assert_eq!(made(true, 3), made(true, 3), "the same proof and time make the same bundle");
}

#[test]
fn what_is_secret_stays_out_and_what_is_long_is_cut() {
    let files = made(true, 1500);
    let log = std::str::from_utf8(&files[AUDIT_LOG]).unwrap();
    let rows: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let field = |row: usize, name: &str| -> Value {
        serde_json::from_str(rows[row][name].as_str().unwrap()).unwrap()
    };
    let hidden = json!({
        "selector": "#q", "text": "ü", "Api_Key": REDACTED, "deep": [{"passwd": REDACTED}]
    });
    assert_eq!(field(0, "inputs_json"), hidden);
    assert_eq!(rows[0]["tool_name"], "browser.type");
    assert!(log.contains("\"timestamp\":1794733200.25,"), "{log}");
    assert!(log.contains("\"timestamp\":1794733201.0,"), "{log}");
    assert_eq!(field(1, "inputs_json")["js_code"], "1 + 1");
    assert_eq!(field(1, "inputs_json")["code_hash"], json!(sha256(b"1 + 1")));
    let outputs = rows[1]["outputs_json"].as_str().unwrap();
    assert!((1990..=2000).contains(&outputs.chars().count()), "{}", outputs.len());
    assert_eq!(field(1, "outputs_json")["duration_ms"], 7);
    assert_eq!((&rows[0]["error"], rows[1]["error"] == ""), (&json!(""), false));
}

#[test]
fn one_changed_byte_in_any_file_is_found() {
    let files = made(true, 3);
    for (name, bytes) in &files {
        // These two are covered by one hash each, and long.
        let step = if [VERIFY_PY, CONDUIT_PROOF].contains(&name.as_str()) { 101 } else { 1 };
        for at in (0..bytes.len()).step_by(step) {
            let mut changed = files.clone();
            changed.get_mut(name).unwrap()[at] ^= 1;
            assert!(!holds(&changed), "{name} at {at}");
        }
    }
    for name in [AUDIT_LOG, MANIFEST] {
        assert_eq!(unseen_by_python(&files, name), "done\n", "{name}");
    }
}

#[test]
fn parts_that_were_taken_away_added_or_made_anew_are_missed() {
    let good = made(true, 3);
    for name in good.keys() {
        let mut files = good.clone();
        files.remove(name);
        assert!(!holds(&files), "without {name}");
    }
    let with = |name: &str, text: &str| {
        let mut files = good.clone();
        files.insert(name.to_owned(), text.as_bytes().to_vec());
        wrong(&files)
    };
    assert_eq!(with("more.txt", ""), "bundle: \"more.txt\" is no file of an AIVS bundle");
    let chain = sha256(b"empty").to_string();
    assert!(with(SESSION_SIG, &sign_file("chain_hash", &chain, None)).starts_with("bundle: "));
    // Signed by somebody else, with his key laid beside it.
    let stranger = SecretKey::from_seed([9; 32]);
    let his = key_text(Some(&stranger.public()));
    assert_eq!(with(PUBLIC_KEY, &his), "files: public_key.pem was changed");

    // Other rows than the proof's, everything else made anew and signed.
    let key = exporter();
    let mut log = Log::of(&proof(3)).unwrap();
    log.actions[0]["cost_cents"] = json!(9);
    let rows = rows(&log).unwrap();
    let mut files = good.clone();
    files.insert(AUDIT_LOG.to_owned(), lines(&rows).unwrap().into_bytes());
    let chain = chain_hash(rows.iter().map(|row| row.row_hash.as_str())).to_string();
    let mut manifest: Value = serde_json::from_slice(&files[MANIFEST]).unwrap();
    manifest["chain_hash"] = json!(chain);
    manifest["files"][AUDIT_LOG] = json!(sha256(&files[AUDIT_LOG]));
    let manifest = manifest.to_string();
    let own = sha256(manifest.as_bytes()).to_string();
    let signature = Some(key.sign(format!("{MANIFEST_DOMAIN}{own}").as_bytes()));
    let seal = sign_file("manifest_hash", &own, signature);
    let signature = Some(key.sign(chain.as_bytes()));
    let signed = sign_file("chain_hash", &chain, signature);
    files.insert(SESSION_SIG.to_owned(), signed.into_bytes());
    files.insert(MANIFEST_SIG.to_owned(), seal.into_bytes());
    files.insert(MANIFEST.to_owned(), manifest.into_bytes());
    assert_eq!(wrong(&files), "proof: the rows are not what conduit_proof.json says");
}

/// 3000 doubles of all sizes, and the ones at which the form changes.
#[test]
fn numbers_are_printed_as_python_prints_them() {
    let mut texts: Vec<String> = ["0.0001", "0.00001", "1e16", "9999999999999998.0", "1e15", "0.0"]
        .map(str::to_owned)
        .into();
    texts.extend(["-0.0", "1e22", "5e-324", "1742000400", "1742000400.1234567"].map(str::to_owned));
    let mut state = 1_u64;
    while texts.len() < 3000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let any = f64::from_bits(state);
        let usual = 1.7e9 + (state >> 20) as f64 / 1e6;
        texts.extend([any, usual].iter().filter(|f| f.is_finite()).map(|f| format!("{f:e}")));
    }
    let script = "import sys, json\nfor l in sys.stdin: print(str(json.loads(l)))";
    let mut python = Command::new("python3")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = python.stdin.take().unwrap();
    let input = texts.join("\n");
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()).unwrap());
    let out = python.wait_with_output().unwrap();
    writer.join().unwrap();
    let printed = String::from_utf8(out.stdout).unwrap();
    let printed: Vec<&str> = printed.lines().collect();
    assert_eq!(printed.len(), texts.len());
    for (text, printed) in texts.iter().zip(printed) {
        // `1e5` is an integer to nobody; Rust writes no point there, and JSON needs none.
        assert_eq!(float::as_python(text).as_deref(), Some(printed), "{text}");
    }
    assert_eq!(float::as_python("1e999"), None);
}
