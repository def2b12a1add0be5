//! A database from before migrations 8, which packs facts, 9, which has wallets say how they stand,
//! and 10 and 11, which name their agents in bytes and pack all but numbers.

use std::{fs, path::Path};

use skep_base::{Timestamp, hash::sha256};
use skep_store::{Lock, Options, ScoreFact, ScoreTotals, Store};
use skep_testkit::postgres::TempPostgres;

use super::{fact, held::track};
use crate::fixture::agent;

/// Facts with everything and with nothing that they need not have.
fn facts() -> Vec<ScoreFact> {
    let mut facts: Vec<ScoreFact> =
        (1..=3).map(|n| fact(agent(1), n, Timestamp::from_ms(1000 + n))).collect();
    let before = facts[2].totals;
    let mut session = fact(agent(1), 4, Timestamp::from_ms(1004));
    (session.dimension, session.source) = ("conduit".to_owned(), "Süd".to_owned());
    (session.counterparty, session.proof) = (Some(agent(8)), Some(sha256(b"another")));
    (session.ok, session.released_cents) = (false, 0);
    session.totals = ScoreTotals { conduit: 1, proofs: 1, ..before };
    facts.push(session);
    facts
}

fn insert(fact: &ScoreFact) -> String {
    let ScoreFact { agent, at, n, dimension, source, ok, released_cents, .. } = fact;
    let ScoreTotals { conduit, conduit_ok, proofs, ap2, ap2_ok, released_cents: cents } =
        fact.totals;
    let counterparty = fact.counterparty.map_or("null".to_owned(), |agent| format!("'{agent}'"));
    let proof = fact.proof.map_or("null".to_owned(), |proof| format!("'\\x{proof}'"));
    let (at, chain) = (at.as_ms(), fact.chain);
    format!(
        "insert into score_facts values ('{agent}', {at}, {n}, '{dimension}', '{source}', {ok},
             {released_cents}, {counterparty}, {proof}, '\\x{chain}', {conduit}, {conduit_ok},
             {proofs}, {ap2}, {ap2_ok}, {cents});"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn facts_of_an_older_database_are_packed_and_counted_on_from() {
    let server = TempPostgres::shared();
    let url = server.create_database("older").unwrap();
    let database = url.rsplit('/').next().unwrap();
    let run = |sql: &str| server.psql(database, sql).unwrap();
    run("create table schema_migrations (
             number bigint primary key, name text not null, fingerprint text not null)");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations/postgres");
    let mut steps: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    steps.sort();
    for (index, step) in steps[..7].iter().enumerate() {
        let sql = fs::read_to_string(step).unwrap();
        run(&sql);
        let (name, print) = (step.file_stem().unwrap().to_str().unwrap(), sha256(sql.as_bytes()));
        run(&format!("insert into schema_migrations values ({}, '{name}', '{print}')", index + 1));
    }
    run(&facts().iter().map(insert).collect::<String>());
    // One who has facts, a wallet and a record, one who has but a record, one who has but money.
    let records = [1, 2].map(|n| {
        let agent = agent(n);
        format!("insert into records values ('{agent}', 'score', '{agent}', {n}, '\"süd\"', 1);")
    });
    let wallets = [1, 3].map(|n| {
        let wallet = format!("wallet:{}:USDC", agent(n));
        format!(
            "insert into accounts values ('{wallet}', 'wallet', 'USDC', 0, 0, 0, 0, null, 7, 1);"
        )
    });
    run(&[records, wallets].concat().concat());
    let told = "select agent_id, at, n, dimension, source, ok, released_cents, counterparty, proof,
                       chain, conduit_sum, conduit_ok_sum, proofs_sum, ap2_sum, ap2_ok_sum,
                       cents_sum
                from";
    let before = run(&format!("{told} score_facts order by n"));
    let store = Store::open(&url, Options::default()).await.unwrap();
    assert_eq!(store.score_facts(agent(1), None, 99).await.unwrap(), facts());
    assert_eq!(run(&format!("{told} score_facts_in_words order by n")), before);
    let report = store.audit(Box::new(|_, _| {})).await.unwrap();
    assert!(report.is_clean(), "{report:#?}");
    for (n, next, before) in [(1, "a", "süd 4"), (2, "b", "süd 0"), (3, "c", " 0")] {
        let told = track(&store, agent(n), Lock::Exclusive, Some(next)).await;
        assert_eq!(told, before, "agent {n}");
    }
    // The first one's next fact would have to follow a session.
    for n in [2, 3] {
        super::add_next(&store, agent(n)).await;
    }
    assert_eq!(track(&store, agent(1), Lock::Exclusive, None).await, "a 4");
    let report = store.audit(Box::new(|_, _| {})).await.unwrap();
    assert!(report.is_clean(), "{report:#?}");
    let refused = server.psql(database, "delete from score_facts").unwrap_err().to_string();
    assert!(refused.contains("never changed"), "{refused}");
}
