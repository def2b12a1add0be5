use std::fmt::Write;

use expect_test::expect_file;
use serde_json::Value;
use skep_base::{
    ed25519::{SecretKey, Signature},
    wallet::WalletKey,
};
use skep_wire::identity::{Binding, RegisterAgent};

use super::*;

const HOUR_MS: i64 = 3_600_000;
/// When most inputs of the table come.
const NOW_H: i64 = 20;
/// The keys of the table: the agent's two, a fresh one, the one that a recovery waits for, a
/// stranger's and the recovery key.
const NAMES: [&str; 6] = ["k0", "k1", "k7", "k9", "kx", "rec"];

fn key(name: &str) -> PublicKey {
    let seed = NAMES.iter().position(|known| *known == name).unwrap();
    SecretKey::from_seed([seed as u8 + 1; 32]).public()
}

fn name(key: &PublicKey) -> String {
    NAMES.into_iter().find(|name| self::key(name) == *key).map_or(key.to_string(), str::to_owned)
}

fn at(hours: i64) -> Timestamp {
    Timestamp::from_ms(1_800_000_000_000 + hours * HOUR_MS)
}

fn hours(time: Timestamp) -> String {
    let ms = time.as_ms() - at(0).as_ms();
    match (ms + 1).rem_euclid(HOUR_MS) {
        0 => format!("{}h-1ms", (ms + 1) / HOUR_MS),
        1 => format!("{}h", ms / HOUR_MS),
        2 => format!("{}h+1ms", ms / HOUR_MS),
        _ => time.to_string(),
    }
}

fn ms_before(time: Timestamp) -> Timestamp {
    Timestamp::from_ms(time.as_ms() - 1)
}

fn ms_after(time: Timestamp) -> Timestamp {
    Timestamp::from_ms(time.as_ms() + 1)
}

fn registered(recovery_key: Option<PublicKey>) -> AgentRecord {
    let wallet = WalletKey::from_bytes([7; 32]).unwrap();
    let binding = Binding {
        agent_id: wallet.address(),
        public_key: key("k0"),
        recovery_key,
        operator: None,
        name: None,
        webhook_hash: None,
        issued_at: at(0),
    };
    let registration = RegisterAgent {
        wallet_signature: wallet.sign_message(b""),
        key_signature: Signature::from_bytes([0; 64]),
        operator_signature: None,
        webhook_url: None,
        binding,
    };
    let first = AgentKey {
        public_key: key("k0"),
        since: at(0),
        revoked_at: None,
        compromised_since: None,
        proof: Value::Null,
    };
    let agent = Agent {
        agent_id: wallet.address(),
        did: key("k0").did(),
        name: None,
        operator: key("k0").did(),
        current_key: Some(key("k0")),
        keys: vec![first],
        registration,
        pending_recovery: None,
        money_frozen_until: None,
        defaults: 0,
        refunds_despite_pass: 0,
        operator_review: None,
        registered_at: at(0),
    };
    AgentRecord {
        agent,
        webhook_url: None,
        recovery_timer: None,
        open_remainders: Default::default(),
        open_advances: Default::default(),
        open_subsidies: Default::default(),
        left: Vec::new(),
        revoked_under: None,
    }
}

fn rotate(old: &str, new: &str) -> KeyInput {
    KeyInput::Rotate { old_key: key(old), new_key: key(new), proof: Value::Null }
}

fn recover(old: &str, new: &str, by: &str) -> KeyInput {
    let (old_key, new_key) = (key(old), key(new));
    KeyInput::Recover { old_key, new_key, by: signed_by(by), proof: Value::Null }
}

fn finish(new: &str) -> KeyInput {
    KeyInput::FinishRecovery { new_key: key(new), proof: Value::Null }
}

fn cancel(new: &str, by: &str) -> KeyInput {
    KeyInput::CancelRecovery { new_key: key(new), by: signed_by(by) }
}

fn revoke(revoked: &str, by: &str, compromised_since: Option<Timestamp>) -> KeyInput {
    KeyInput::Revoke { key: key(revoked), by: signed_by(by), compromised_since }
}

fn attach(by: &str) -> KeyInput {
    KeyInput::Attach { key: key(by), operator: key("kx").did() }
}

/// `wallet`, `nobody`, `rec` or `not-rec` (as the recovery key), or a key that signs as the
/// agent's.
fn signed_by(who: &str) -> SignedBy {
    match who {
        "nobody" => SignedBy::default(),
        "wallet" => SignedBy { wallet: true, ..SignedBy::default() },
        "rec" => SignedBy { recovery: Some(key("rec")), ..SignedBy::default() },
        "not-rec" => SignedBy { recovery: Some(key("kx")), ..SignedBy::default() },
        other => SignedBy { key: Some(key(other)), ..SignedBy::default() },
    }
}

fn after(record: AgentRecord, inputs: impl IntoIterator<Item = (i64, KeyInput)>) -> AgentRecord {
    inputs.into_iter().fold(record, |record, (h, input)| step(record, at(h), input).unwrap().0)
}

fn states() -> Vec<(&'static str, AgentRecord)> {
    let fresh = || registered(Some(key("rec")));
    let waits = |h| (h, recover("k0", "k9", "rec"));
    let revoked = |h| (h, revoke("k0", "wallet", Some(at(5))));
    vec![
        ("fresh", fresh()),
        ("rotated", after(fresh(), [(10, rotate("k0", "k1"))])),
        ("revoked", after(fresh(), [revoked(10)])),
        ("waiting", after(fresh(), [waits(10)])),
        ("waiting, revoked", after(fresh(), [waits(10), revoked(11)])),
        ("no recovery key", registered(None)),
    ]
}

fn inputs() -> Vec<(Timestamp, KeyInput)> {
    let now = at(NOW_H);
    let mut inputs = Vec::new();
    for old in ["k0", "k1", "kx"] {
        inputs.extend(["k7", "k0", "k9", "rec"].map(|new| (now, rotate(old, new))));
    }
    for by in ["rec", "not-rec", "nobody"] {
        inputs.extend(["k0", "k1"].map(|old| (now, recover(old, "k7", by))));
    }
    inputs.extend(["k0", "rec"].map(|new| (now, recover("k0", new, "rec"))));
    let effective_at = at(10).plus(RECOVERY_DELAY);
    for new in ["k9", "k7"] {
        for time in [ms_before(effective_at), effective_at, ms_after(effective_at)] {
            inputs.push((time, finish(new)));
        }
    }
    for new in ["k9", "k7"] {
        let signers = ["wallet", "k0", "k1", "kx", "rec", "nobody"];
        inputs.extend(signers.map(|by| (now, cancel(new, by))));
    }
    for revoked in ["k0", "k1", "kx"] {
        for by in ["wallet", revoked, "rec", "not-rec", "nobody"] {
            inputs.push((now, revoke(revoked, by, None)));
        }
        let times = [at(4), at(5), at(6), ms_before(now), now, ms_after(now)];
        inputs.extend(times.map(|since| (now, revoke(revoked, "wallet", Some(since)))));
        inputs.push((now, revoke(revoked, revoked, Some(at(4)))));
        inputs.push((now, revoke(revoked, "rec", Some(at(4)))));
    }
    // By the other key of the agent.
    inputs.extend([(now, revoke("k0", "k1", None)), (now, revoke("k1", "k0", None))]);
    inputs.extend(["k0", "k1", "kx"].map(|by| (now, attach(by))));
    inputs
}

fn show_by(by: &SignedBy) -> String {
    let mut who = Vec::new();
    who.extend(by.wallet.then(|| "wallet".to_owned()));
    who.extend(by.key.as_ref().map(name));
    who.extend(by.recovery.as_ref().map(|k| match name(k).as_str() {
        "rec" => "rec".to_owned(),
        other => format!("{other} as rec"),
    }));
    if who.is_empty() { "nobody".to_owned() } else { who.join("+") }
}

fn show_input(input: &KeyInput) -> String {
    match input {
        KeyInput::Rotate { old_key, new_key, .. } => {
            format!("rotate {}→{}", name(old_key), name(new_key))
        }
        KeyInput::Recover { old_key, new_key, by, .. } => {
            format!("recover {}→{} by {}", name(old_key), name(new_key), show_by(by))
        }
        KeyInput::FinishRecovery { new_key, .. } => format!("finish {}", name(new_key)),
        KeyInput::CancelRecovery { new_key, by } => {
            format!("cancel {} by {}", name(new_key), show_by(by))
        }
        KeyInput::Revoke { key, by, compromised_since } => {
            let since = compromised_since.map_or(String::new(), |s| format!(", bad {}", hours(s)));
            format!("revoke {} by {}{since}", name(key), show_by(by))
        }
        KeyInput::Attach { key, .. } => format!("attach by {}", name(key)),
    }
}

fn show_record(record: &AgentRecord) -> String {
    let agent = &record.agent;
    let mut words: Vec<_> = agent
        .keys
        .iter()
        .map(|key| {
            let mut word = name(&key.public_key);
            if agent.current_key == Some(key.public_key) {
                word.push('*');
            }
            if let Some(time) = key.revoked_at {
                write!(word, "-{}", hours(time)).unwrap();
            }
            if let Some(time) = key.compromised_since {
                write!(word, "!{}", hours(time)).unwrap();
            }
            word
        })
        .collect();
    if let Some(waiting) = &agent.pending_recovery {
        words.push(format!("waits:{}@{}", name(&waiting.new_key), hours(waiting.effective_at)));
    }
    words.extend(agent.money_frozen_until.map(|until| format!("frozen<{}", hours(until))));
    if agent.operator != agent.did {
        words.push("operated".to_owned());
    }
    words.join(" ")
}

fn show_effect(effect: &KeyEffect) -> String {
    match effect {
        KeyEffect::ClaimKey(key) => format!("claim {}", name(key)),
        KeyEffect::StartTimer { at, new_key, .. } => {
            format!("timer {}@{}", name(new_key), hours(*at))
        }
        KeyEffect::StopTimer => "stop timer".to_owned(),
        KeyEffect::Record(kind) => (*kind).to_owned(),
    }
}

fn show_refusal(refusal: &KeyRefusal) -> String {
    match refusal {
        KeyRefusal::RecoveryTooEarly { effective_at } => {
            format!("RecoveryTooEarly({})", hours(*effective_at))
        }
        refusal => format!("{refusal:?}"),
    }
}

/// Every state × every input, before, at and after each limit.
///
/// `k0-10h!5h` is a key that ended at 10h and is not to be trusted since 5h; `*` signs now.
#[test]
fn the_whole_table() {
    let mut table = String::new();
    for (state, record) in states() {
        writeln!(table, "{state}: {}", show_record(&record)).unwrap();
        for (now, input) in inputs() {
            let line = format!("{state} | {} @{}", show_input(&input), hours(now));
            let result = match step(record.clone(), now, input) {
                Ok((next, effects)) => {
                    let effects: Vec<_> = effects.iter().map(show_effect).collect();
                    format!("{} [{}]", show_record(&next), effects.join(", "))
                }
                Err(refusal) => show_refusal(&refusal),
            };
            writeln!(table, "{line} => {result}").unwrap();
        }
        table.push('\n');
    }
    let table = format!("{}\n", table.trim_end());
    expect_file!["table.txt"].assert_eq(&table);
}

#[test]
fn the_did_stays_and_every_key_but_the_last_is_over() {
    let story = [
        (1, rotate("k0", "k1")),
        (2, recover("k1", "k7", "rec")),
        (74, finish("k7")),
        (75, revoke("k7", "k7", None)),
        (76, recover("k7", "k9", "rec")),
        (148, finish("k9")),
    ];
    let record = after(registered(Some(key("rec"))), story);
    assert_eq!(record.agent.did, key("k0").did());
    assert_eq!(show_record(&record), "k0-1h k1-74h k7-75h k9* frozen<172h");
}

#[test]
fn a_chain_of_keys_has_an_end() {
    let mut record = registered(Some(key("rec")));
    let first = record.agent.keys[0].clone();
    record.agent.keys.resize(KEYS_MAX - 1, first);
    let (mut full, _) = step(record, at(1), rotate("k0", "k1")).unwrap();
    assert_eq!(full.agent.keys.len(), KEYS_MAX);
    let refused = step(full.clone(), at(2), rotate("k1", "k7"));
    assert_eq!(refused, Err(KeyRefusal::TooManyKeys));
    let refused = step(full.clone(), at(2), recover("k1", "k7", "rec"));
    assert_eq!(refused, Err(KeyRefusal::TooManyKeys));
    // What was waiting when the chain filled up ends without a key too many.
    let waits = PendingRecovery { new_key: key("k9"), effective_at: at(2) };
    full.agent.pending_recovery = Some(waits);
    assert_eq!(step(full, at(2), finish("k9")), Err(KeyRefusal::TooManyKeys));
}
