//! Scores from outside: earned on a real node, checked by a stranger offline, and taken to another
//! node with other keys.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};
use skep_agent::{Keyring, Passphrase};
use skep_base::{AgentId, Timestamp, ed25519::SecretKey, id::DealId, wallet::WalletKey};
use skep_sdk::Client;
use skep_testkit::process::Child;
use skep_wire::{
    identity::{Binding, RegisterAgent, Statement as _},
    score::Export,
    settle::{EscrowStatus, NegotiationResponse, ResponseStatus, VCAP_VERSION},
};

use crate::proof_page::get;

/// How long the built-in verifier may take for one deal.
const PATIENCE: Duration = Duration::from_secs(60);
const DAY_S: u64 = 24 * 3600;

/// A node, and two agents that know it: Ann asks, Ben works.
struct World {
    home: tempfile::TempDir,
    node: Child,
    url: String,
}

impl World {
    fn new() -> World {
        let home = tempfile::tempdir().unwrap();
        let mut up = command(home.path(), "node");
        let node = Child::spawn(up.args(["up", "--dev", "--listen", "127.0.0.1:0"])).unwrap();
        let url = node.url().to_owned();
        World { home, node, url }
    }

    /// The same people on another node.
    fn enter(&self, keys: &Path, name: &str) {
        let path = keys.join(format!("{name}.keys"));
        let path = path.to_str().unwrap();
        self.json(name, &["agent", "register", "--name", name, "--keys", path]);
        self.json(name, &["wallet", "fund", "1000", "--keys", path]);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn run(&self, name: &str, args: &[&str]) -> Output {
        let mut command = command(self.home.path(), name);
        command.env("SKEP_NODE", &self.url).args(args).output().unwrap()
    }

    #[track_caller]
    fn told(&self, name: &str, args: &[&str]) -> String {
        let output = self.run(name, args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    #[track_caller]
    fn json(&self, name: &str, args: &[&str]) -> Value {
        serde_json::from_str(&self.told(name, &[args, &["--json"]].concat())).unwrap()
    }

    #[track_caller]
    fn refused(&self, name: &str, args: &[&str]) -> String {
        let output = self.run(name, args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
        text(&output.stderr)
    }

    fn client(&self, keys: &Path, name: &str) -> Client {
        let (agent, key) = open(&keys.join(format!("{name}.keys")));
        Client::new(&self.url).unwrap().with_key(agent, key)
    }

    /// Somebody with a wallet of its own, who has this key.
    async fn stranger_with(&self, key: SecretKey) -> Client {
        let wallet = WalletKey::from_bytes([8; 32]).unwrap();
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let binding = Binding {
            agent_id: wallet.address(),
            public_key: key.public(),
            recovery_key: None,
            operator: None,
            name: None,
            webhook_hash: None,
            issued_at: Timestamp::EPOCH.plus(since_epoch),
        };
        let request = RegisterAgent {
            wallet_signature: binding.sign_with_wallet(&wallet).unwrap(),
            key_signature: binding.sign(&key).unwrap(),
            operator_signature: None,
            webhook_url: None,
            binding,
        };
        let client = Client::new(&self.url).unwrap();
        client.register_agent(&request).await.unwrap();
        client.with_key(wallet.address(), key)
    }

    fn write(&self, name: &str, value: &Value) -> String {
        let path = self.path(name);
        fs::write(&path, value.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

fn open(keys: &Path) -> (AgentId, SecretKey) {
    let passphrase = Passphrase::new("correct horse".to_owned().into()).unwrap();
    let keyring = Keyring::open(keys, &passphrase).unwrap();
    (keyring.agent_id(), SecretKey::from_seed(*keyring.secret().seed()))
}

/// Nothing of the machine's own settings gets in; each agent has files of its own.
fn command(home: &Path, name: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skep"));
    command
        .env_clear()
        .env("HOME", home)
        .env("SKEP_PASSPHRASE", "correct horse")
        .env("SKEP_KEYS", home.join(format!("{name}.keys")))
        .env("SKEP_DATA_DIR", home.join("node"))
        .env("RUST_LOG", "error")
        .current_dir(home)
        .stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// One deal from the offer to the verdict; `work` is what is delivered where hello is asked for.
async fn deal(ann: &Client, ben: &Client, work: &str) -> EscrowStatus {
    let (asks, works) = (ann.agent_id().unwrap(), ben.agent_id().unwrap());
    let offer = json!({
        "vcap_version": VCAP_VERSION, "message_type": "negotiation_request",
        "requester": {"agent_id": asks, "platform": "skep"},
        "provider": {"agent_id": works, "platform": "skep"},
        "request": {
            "service_type": "text.write", "description": "A greeting", "budget_amount": 2,
            "budget_currency": "USDC",
        },
        "verification_hints": {"type": "artifact", "expected_content": "hello"},
    });
    let id: DealId = ann.open_negotiation(&offer).await.unwrap().value.negotiation_id;
    let accepted = NegotiationResponse {
        vcap_version: VCAP_VERSION.to_owned(),
        message_type: "negotiation_response".to_owned(),
        negotiation_id: id,
        response_status: ResponseStatus::Accepted,
        counter_terms: None,
        provider_verification_hints: None,
        verification_hints: None,
        metadata: None,
    };
    ben.respond(&accepted).await.unwrap();
    let delivery = json!({
        "vcap_version": VCAP_VERSION, "message_type": "service_delivery", "negotiation_id": id,
        "escrow_id": id, "provider": {"agent_id": works, "platform": "skep"},
        "delivery": {
            "status": "success", "description": "The greeting",
            "artifacts": [{"type": "text", "content": work}],
        },
        "delivered_at": ann.log_head().await.unwrap().head.at,
    });
    ben.deliver(&delivery).await.unwrap();
    let start = Instant::now();
    loop {
        let status = ann.escrow(id).await.unwrap().status;
        if status != EscrowStatus::Held {
            return status;
        }
        assert!(start.elapsed() < PATIENCE, "the built-in verifier did not answer");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Ben's first deal is 31 days ago, then he has done ten more; one of them was bad.
fn seasoned() -> (World, String) {
    let world = World::new();
    let keys = world.home.path().to_owned();
    let made = |name: &str| world.json(name, &["keys", "new"])["agent_id"].clone();
    let (_, ben) = (made("ann"), made("ben"));
    for name in ["ann", "ben"] {
        world.enter(&keys, name);
    }
    let (ann, bens) = (world.client(&keys, "ann"), world.client(&keys, "ben"));
    runtime().block_on(async {
        assert_eq!(deal(&ann, &bens, "Hello").await, EscrowStatus::Released);
        ann.advance_clock(31 * DAY_S).await.unwrap();
        assert_eq!(deal(&ann, &bens, "Pay me").await, EscrowStatus::Refunded);
    });
    let ben = ben.as_str().unwrap().to_owned();
    let hidden = world.refused("ann", &["score", "show", &ben]);
    assert!(hidden.contains("score_not_published"), "{hidden}");
    let own = world.told("ben", &["score", "show", &ben, "--sign"]);
    assert!(own.contains("only you see this"), "{own}");
    runtime().block_on(async {
        for _ in 0..9 {
            assert_eq!(deal(&ann, &bens, "Hello").await, EscrowStatus::Released);
        }
    });
    (world, ben)
}

/// Every value in a document, by its JSON pointer.
fn leaves(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| leaves(value, format!("{at}/{name}"), found))
        }
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(n, value)| leaves(value, format!("{at}/{n}"), found)),
        _ => found.push(at),
    }
}

fn change(value: &mut Value) {
    *value = match value.take() {
        Value::Bool(yes) => json!(!yes),
        Value::Number(n) => json!(n.as_f64().unwrap() + 1.0),
        Value::String(text) => match text.parse::<Timestamp>() {
            Ok(time) => json!(time.plus(Duration::from_secs(1))),
            Err(_) => json!(format!("{text}0")),
        },
        _ => json!("something"),
    };
}

#[test]
fn a_stranger_checks_a_score_without_asking_the_node() {
    let (mut world, ben) = seasoned();
    let page = world.told("ann", &["score", "show", &ben]);
    // One of eleven failed: 10/11 * 11/50 * 600, which doubles make a little less than 120.
    assert!(page.contains("score      119 of 1000, NONE"), "{page}");
    assert!(page.contains("10 of 11 in 90 days, 90.9 %"), "{page}");
    assert!(page.contains("BASIC since") && page.contains("90.48 % of a price"), "{page}");
    world.told("ann", &["score", "certificate", &ben, "--out", "certificate.json"]);
    let certificate = read(&world.path("certificate.json"));
    assert_eq!(certificate["settlements"].as_array().unwrap().len(), 11);
    let passport = certificate["publication"]["agent_passport_id"].as_str().unwrap();
    let publication = world.json("ann", &["score", "show", passport])["publication"].clone();
    assert_eq!(publication, certificate["publication"], "one document for everybody");
    for path in [format!("/v1/agents/{ben}"), format!("/agents/{passport}/passport/public")] {
        let head = get(&world.url, &path).head;
        assert!(head.contains("x-swarmscore: 119\r\n"), "{head}");
        for modifier in ["escrow", "effective"] {
            let line = format!("x-swarmscore-{modifier}-modifier: 0.9048\r\n");
            assert!(head.contains(&line), "{head}");
        }
    }
    let keys = runtime().block_on(Client::new(&world.url).unwrap().score_keys()).unwrap();
    let keys = world.write("keys.json", &serde_json::to_value(keys).unwrap());
    let at = publication["issuer"]["computed_at"].as_str().unwrap();
    world.node.terminate().unwrap();

    let verify = |file: &str| {
        world.run("stranger", &["score", "verify", file, "--keys", &keys, "--at", at, "--json"])
    };
    let good = verify("certificate.json");
    let answer: Value = serde_json::from_slice(&good.stdout).unwrap();
    assert_eq!((good.status.code(), &answer["level"]), (Some(0), &json!("L3")), "{answer}");
    assert_eq!(answer["coverage"]["settlements_proven"], 11);
    // All were judged by the verifier in the node, whose keys the node has.
    assert_eq!(answer["coverage"]["settlements_independent"], 0);
    let mut places = Vec::new();
    leaves(&publication, String::new(), &mut places);
    assert!(places.len() > 50, "{places:?}");
    for place in places {
        let mut changed = publication.clone();
        change(changed.pointer_mut(&place).unwrap());
        let said = verify(&world.write("changed.json", &changed));
        assert_eq!(said.status.code(), Some(1), "{place} was changed");
        assert!(text(&said.stderr).contains("does not hold: L"), "{place}: {said:?}");
    }
    // What the publication does not say itself, its evidence does.
    for place in [
        "/facts/3/fact/ok",
        "/facts/3/fact/source",
        "/facts/3/fact/at",
        "/facts/3/fact/counterparty",
        "/facts/3/n",
        "/chain_before",
        "/settlements/0/receipt/settlement/released_minor",
        "/settlements/0/verdict/passed",
        "/settlements/0/verdict/completed_at",
    ] {
        let mut changed = certificate.clone();
        change(changed.pointer_mut(place).unwrap());
        let said = verify(&world.write("changed.json", &changed));
        assert_eq!(said.status.code(), Some(1), "{place} was changed: {said:?}");
    }
}

/// The vectors that the specification's own code has made, through the program.
#[test]
fn the_committed_vectors_come_out_of_the_program() {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../score/tests/vectors.jsonl");
    let lines = fs::read_to_string(vectors).unwrap();
    let every_other = |from: usize| -> Vec<&str> { lines.lines().skip(from).step_by(2).collect() };
    let home = tempfile::tempdir().unwrap();
    let inputs = home.path().join("inputs.jsonl");
    fs::write(&inputs, every_other(0).join("\n")).unwrap();
    let mut compute = command(home.path(), "anybody");
    let said = compute.args(["score", "compute"]).arg(&inputs).output().unwrap();
    assert!(said.status.success(), "{}", text(&said.stderr));
    let (found, expected) = (text(&said.stdout), every_other(1));
    let found: Vec<&str> = found.lines().collect();
    assert!(expected.len() >= 2_000 && found.len() == expected.len(), "{}", found.len());
    for (found, expected) in found.into_iter().zip(expected) {
        assert_eq!(found, expected);
    }
}

/// Trusts an issuer, by the operator's socket.
fn trust(node: &World, issuer: &World) {
    let host = issuer.url.split_once("://").unwrap().1;
    let entry = json!({
        "platform": host, "platform_url": issuer.url,
        "key_url": format!("{}/.well-known/swarmscore-keys", issuer.url),
        "import_haircut": 0.5, "probation_sessions": 15,
        "trusted_since": "2026-01-01T00:00:00.000Z",
        "verification_method": "cryptographic_proof_chain",
        "statement": "Its certificates were checked to L3 by us.",
    });
    let file = node.write("issuer.json", &entry);
    node.json("operator", &["admin", "issuer", "add", &file, "--reason", "we looked"]);
}

#[test]
fn a_record_is_taken_to_another_node_once() {
    let (mut home, ben) = seasoned();
    let keys = home.home.path().to_owned();
    let away = World::new();
    for name in ["ann", "ben"] {
        away.enter(&keys, name);
    }
    runtime().block_on(away.client(&keys, "ann").advance_clock(31 * DAY_S)).unwrap();
    let early = home.json("ben", &["score", "export", &ben]);
    home.told("ben", &["score", "export", &ben, "--out", "mine.json"]);
    let export = read(&home.path("mine.json"));
    let bens = keys.join("ben.keys");
    let import = |who: &Path, document: &Value| {
        let file = away.write("import.json", document);
        away.run("ben", &["score", "import", &file, "--keys", who.to_str().unwrap(), "--json"])
    };
    let code = |output: &Output, code: &str| {
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(code), "{code}: {said}");
    };

    // Without an agreement the tier is shown, if its issuer has signed it, and counts for nothing.
    let mut nameless = export.clone();
    nameless["publication"]["issuer"]["platform_url"] = json!("http://127.0.0.1:1");
    for (document, noted) in [(&nameless, false), (&export, true)] {
        let output = import(&bens, document);
        code(&output, "no agreement");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&answer["accepted"], &answer["noted"]), (&json!(false), &json!(noted)));
    }
    code(&import(&bens, &resigned(&export)), "import_bad_publication");
    code(&import(&bens, &export), "import_repeated");
    let own = |args: &[&str]| {
        let keys = ["--keys", bens.to_str().unwrap()];
        away.told("ben", &[args, &keys].concat())
    };
    let page = own(&["score", "show", &ben, "--sign"]);
    let host = home.url.split_once("://").unwrap().1;
    assert!(page.contains(&format!("elsewhere  BASIC at {host} on")), "{page}");
    assert!(page.contains("New agent") && page.contains("0 of 1000"), "it counts: {page}");
    let passport: Value = serde_json::from_str(&own(&["score", "passport", &ben])).unwrap();
    let shown = &passport["extensions"]["swarmscore_unverified_imports"][0];
    assert_eq!((&shown["platform"], &shown["unverified"]), (&json!(host), &json!(true)));
    trust(&away, &home);
    let mut forged = export.clone();
    forged["publication"]["dimensions"]["commercial_reliability"]["ap2_sessions_90d"] = json!(99);
    code(&import(&bens, &forged), "import_bad_publication");
    let mut other_passport = export.clone();
    other_passport["passport"]["trust_tier"]["current"] = json!("TRUSTED");
    code(&import(&bens, &other_passport), "import_bad_passport");
    code(&import(&bens, &resigned(&export)), "import_bad_publication");
    code(&import(&keys.join("ann.keys"), &export), "import_other_agent");

    let taken = import(&bens, &export);
    let answer: Value = serde_json::from_slice(&taken.stdout).unwrap();
    assert_eq!(answer["accepted"], true, "{taken:?}");
    assert_eq!((&answer["phase"], &answer["probation"]["over"]), (&json!("BASIC"), &json!(false)));
    code(&import(&bens, &export), "import_repeated");
    code(&import(&bens, &early), "import_older");
    let page = away.told("ann", &["score", "show", &ben]);
    assert!(page.contains("score      0 of 1000, NONE"), "the local score stays: {page}");
    assert!(page.contains("imported   from") && page.contains("0 of 15 sessions"), "{page}");
    assert!(page.contains("100.00 % of a price"), "{page}");
    let back = away.json("ben", &["score", "export", &ben, "--keys", bens.to_str().unwrap()]);
    assert!(back["publication"].get("with_imports").is_none(), "no loops: {back}");

    // Over there Ben has another key now, and here somebody else has it: the record stays Ben's.
    let moved = home.path("moved.keys");
    fs::copy(&bens, &moved).unwrap();
    let moved_path = moved.to_str().unwrap();
    home.told("ben", &["keys", "rotate", "--keys", moved_path]);
    let exported = || home.json("ben", &["score", "export", &ben, "--keys", moved_path]);
    let fresh: Export = serde_json::from_value(exported()).unwrap();
    let taken = runtime().block_on(async {
        let second = away.stranger_with(open(&moved).1).await;
        second.import_score(&fresh.into()).await.unwrap_err()
    });
    assert_eq!(taken.code(), "import_taken");
    // What was found out over there does not stay behind.
    home.json("operator", &["admin", "revoke", &ben, "--reason", "sold work of others"]);
    code(&import(&bens, &exported()), "import_revoked");

    runtime().block_on(away.client(&keys, "ann").advance_clock(2 * DAY_S)).unwrap();
    let late = exported();
    code(&import(&bens, &late), "import_bad_publication");
    // Its keys are asked for again after a while, and nobody is there.
    runtime().block_on(away.client(&keys, "ann").advance_clock(DAY_S)).unwrap();
    home.node.terminate().unwrap();
    code(&import(&bens, &late), "issuer_unreachable");
}

#[test]
fn a_record_of_yesterday_is_too_young_to_travel() {
    let (home, away) = (World::new(), World::new());
    let keys = home.home.path().to_owned();
    let made = |name: &str| home.json(name, &["keys", "new"])["agent_id"].clone();
    let (_, ben) = (made("ann"), made("ben"));
    for name in ["ann", "ben"] {
        home.enter(&keys, name);
        away.enter(&keys, name);
    }
    trust(&away, &home);
    let (ann, bens) = (home.client(&keys, "ann"), home.client(&keys, "ben"));
    runtime().block_on(async {
        assert_eq!(deal(&ann, &bens, "Hello").await, EscrowStatus::Released);
    });
    let export = home.json("ben", &["score", "export", ben.as_str().unwrap()]);
    let file = away.write("import.json", &export);
    let bens = keys.join("ben.keys");
    let bens = bens.to_str().unwrap();
    let said = away.refused("ben", &["score", "import", &file, "--keys", bens]);
    assert!(said.contains("import_too_young"), "{said}");
}

#[test]
fn what_was_imported_counts_after_thirty_sessions() {
    let (home, ben) = seasoned();
    let keys = home.home.path().to_owned();
    let away = World::new();
    for name in ["ann", "ben"] {
        away.enter(&keys, name);
    }
    trust(&away, &home);
    let (ann, bens) = (away.client(&keys, "ann"), away.client(&keys, "ben"));
    runtime().block_on(ann.advance_clock(31 * DAY_S)).unwrap();
    let export = home.json("ben", &["score", "export", &ben]);
    let file = away.write("import.json", &export);
    let path = keys.join("ben.keys");
    away.told("ben", &["score", "import", &file, "--keys", path.to_str().unwrap()]);
    let after = |deals: u32| {
        runtime().block_on(async {
            for _ in 0..deals {
                assert_eq!(deal(&ann, &bens, "Hello").await, EscrowStatus::Released);
            }
        });
        let said = away.json("ann", &["score", "show", &ben])["publication"].clone();
        let held = |name: &str| said["escrow"][name].as_f64().unwrap();
        let less = held("effective_modifier") < held("modifier");
        let probation = &said["with_imports"]["probation"];
        (probation["sessions_needed"].clone(), probation["over"].clone(), less)
    };
    // Fifteen, or thirty where the local ones alone would not do.
    assert_eq!(after(14), (json!(15), json!(false), false));
    assert_eq!(after(1), (json!(30), json!(false), false));
    assert_eq!(after(14), (json!(30), json!(false), false));
    assert_eq!(after(1), (json!(30), json!(true), true));
    // Strangers see what the other platform has signed, and check it by its keys.
    away.told("ann", &["score", "certificate", &ben, "--out", "certificate.json"]);
    let certificate = read(&away.path("certificate.json"));
    assert_eq!(certificate["imported"]["publication"], export["publication"]);
    let at = certificate["publication"]["issuer"]["computed_at"].as_str().unwrap();
    let verify = |file: &str, origin: &str| {
        let args = ["score", "verify", file, "--keys", &away.url, "--import-keys", origin];
        let said = away.run("stranger", &[&args[..], &["--at", at, "--json"]].concat());
        let answer: Value = serde_json::from_slice(&said.stdout).unwrap();
        let failed = answer["failed_checks"].as_array().unwrap().iter();
        (answer["level"].clone(), failed.map(|failed| failed["check"].clone()).collect::<Vec<_>>())
    };
    assert_eq!(verify("certificate.json", &home.url), (json!("L3"), vec![]));
    let args = ["score", "verify", "certificate.json", "--keys", &away.url, "--at", at];
    let unpinned = away.told("stranger", &args);
    assert!(unpinned.contains("give --import-keys"), "{unpinned}");
    let pinned = away.told("stranger", &[&args[..], &["--import-keys", &home.url]].concat());
    assert!(!pinned.contains("--import-keys"), "{pinned}");
    let others = verify("certificate.json", &away.url);
    assert_eq!(others.0, json!("L2"));
    assert!(others.1.iter().all(|check| check == "imports.publication"), "{others:?}");
    let mut hidden = certificate.clone();
    hidden.as_object_mut().unwrap().remove("imported");
    let hidden = verify(&away.write("hidden.json", &hidden), &home.url);
    assert_eq!(hidden, (json!("L2"), vec![json!("imports.missing")]));
}

/// Signed with a key that is not the issuer's.
fn resigned(export: &Value) -> Value {
    let mut export = export.clone();
    let key = SecretKey::from_seed([7; 32]);
    for document in ["publication", "passport"] {
        let bytes = skep_score::verify::signed_bytes(&export[document]).unwrap();
        export[document]["issuer"]["signature"] = json!(key.sign(&bytes));
    }
    export
}
