//! Work of one's own kind, by the commands alone: found, asked about, hired by its quote, taken
//! down.

use std::process::Command;

use serde_json::{Value, json};

use crate::{
    hire_stage::{Agent, FUNDED_MINOR, Sale, Town},
    stage::told,
};

const WORDS: &str = "custom.acme.words";
/// What nine words cost, in minor units.
const NINE_WORDS: i64 = 60_000;

/// Gives a quote for nine words, and offers five to whoever wants more.
const SCRIPT: &str = r#"asked=$(cat)
case "$asked" in
  *'"clarify"'*'nine words'*)
    printf '{"outcome":"quote","price_usdc":"0.06","params":{"words":9}}' ;;
  *'"clarify"'*)
    printf '{"outcome":"counter","reason":"too many","options":[%s]}' \
      '{"price_usdc":"0.05","params":{"words":5}}' ;;
  *) printf '{"done":%s}' "$asked" ;;
esac"#;

fn ask(town: &Town, agent: &Agent, brief: &str) -> Value {
    let mut command = town.command(agent);
    command.args(["clarify", WORDS, "--dev", "--brief", brief, "--journal"]);
    told(command.arg(town.buyer_journal(agent)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn custom_work_is_found_quoted_hired_and_taken_down() {
    let town = Town::open();
    let (sam, bea, cid) = (town.agent(1).await, town.buyer(2).await, town.buyer(3).await);
    let flags = ["--clarify", "--description", "Counts honest words"];
    let modes = ["direct"];
    let sale =
        Sale { capability: WORDS, modes: &modes, script: SCRIPT, flags: &flags, ..<_>::default() };
    let shop = town.sell(&sam, &sale);

    let search = |args: &[&str]| told(town.command(&bea).arg("search").args(args));
    let found: [&[&str]; 5] = [
        &[WORDS],
        &["custom.acme", "--prefix"],
        &["--query", "honest words"],
        &["--clarify", "--max-price", "0.01"],
        &["--agent", &sam.id().to_string(), "--payment-mode", "direct"],
    ];
    for args in found {
        assert_eq!(search(args)["agents"][0]["agent_id"], json!(sam.id()), "{args:?}");
    }
    let not_found: [&[&str]; 5] = [
        &["custom.acme"],
        &[WORDS, "--max-price", "0.001"],
        &[WORDS, "--first-call-free"],
        &[WORDS, "--min-avg-stars", "1"],
        &["--query", "honest numbers"],
    ];
    for args in not_found {
        assert_eq!(search(args)["agents"], json!([]), "{args:?}");
    }

    let countered = ask(&town, &cid, "all the words there are");
    assert_eq!(countered["counter"]["options"][0]["params"], json!({"words": 5}), "{countered:#}");
    let quoted = ask(&town, &bea, "nine words, please");
    assert_eq!(quoted["quote"]["price_usdc"], "0.06", "{quoted:#}");
    let token = quoted["quote"]["quote_token"].as_str().unwrap();
    let by_quote = |agent| -> Command { town.hire_command(agent, &[WORDS, "--quote", token]) };
    let stolen = by_quote(&cid).output().unwrap();
    assert!(!stolen.status.success(), "the quote is another one's: {stolen:?}");
    let hired = by_quote(&bea).output().unwrap();
    let hired: Value = serde_json::from_slice(&hired.stdout).unwrap();
    assert_eq!(hired["result"], json!({"done": {"words": 9}}), "{hired:#}");
    let left = (sam.free().await, bea.free().await, cid.free().await);
    assert_eq!(left, (NINE_WORDS, FUNDED_MINOR - NINE_WORDS, FUNDED_MINOR));
    // Two were asked about, one was done.
    assert_eq!(shop.runs(), 3);

    let listed = told(town.command(&sam).args(["listing", "list"]));
    let id = listed["items"][0]["listing_id"].as_str().unwrap();
    told(town.command(&sam).args(["listing", "remove", id]));
    assert_eq!(search(&[WORDS])["agents"], json!([]));
    town.audit(2 * FUNDED_MINOR);
}
