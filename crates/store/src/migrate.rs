//! The numbered steps that make the schema. Both dialects have the same numbers.

use skep_base::{Hash32, hash::sha256};

use crate::error::OpenError;

/// One step. It runs in one transaction, or not at all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Migration {
    pub(crate) number: i64,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

impl Migration {
    pub(crate) fn fingerprint(&self) -> Hash32 {
        sha256(self.sql.as_bytes())
    }
}

macro_rules! migrations {
    ($dialect:literal: $($number:literal $name:literal),+ $(,)?) => {
        &[$(Migration {
            number: $number,
            name: $name,
            sql: include_str!(concat!("../../../migrations/", $dialect, "/", $name, ".sql")),
        }),+]
    };
}

pub(crate) const SQLITE: &[Migration] = migrations!(
    "sqlite": 1 "0001_foundation", 2 "0002_settle", 3 "0003_pages", 4 "0004_hire", 5 "0005_score",
    6 "0006_listing_numbers", 7 "0007_facts_in_order", 8 "0008_facts_packed",
    9 "0009_counted_in_wallets", 10 "0010_facts_by_bytes", 11 "0011_facts_short"
);
pub(crate) const POSTGRES: &[Migration] = migrations!(
    "postgres": 1 "0001_foundation", 2 "0002_settle", 3 "0003_pages", 4 "0004_hire",
    5 "0005_score", 6 "0006_listing_numbers", 7 "0007_facts_in_order", 8 "0008_facts_packed",
    9 "0009_counted_in_wallets", 10 "0010_facts_by_bytes", 11 "0011_facts_short"
);

/// What is still to be run, given the (number, fingerprint) pairs that were run. An unknown newer
/// step, or one that is not ours, is refused before anything is touched.
pub(crate) fn pending(
    all: &'static [Migration],
    applied: &[(i64, String)],
) -> Result<&'static [Migration], OpenError> {
    let known = all.last().map_or(0, |m| m.number);
    for (index, (number, fingerprint)) in applied.iter().enumerate() {
        let Some(ours) = all.get(index) else {
            return Err(OpenError::NewerSchema { found: *number, known });
        };
        if ours.number != *number || ours.fingerprint().to_string() != *fingerprint {
            let detail = format!("ours is {}", ours.name);
            return Err(OpenError::ForeignSchema { number: *number, detail });
        }
    }
    Ok(&all[applied.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_dialects_have_the_same_numbers() {
        let names = |all: &[Migration]| all.iter().map(|m| (m.number, m.name)).collect::<Vec<_>>();
        assert_eq!(names(SQLITE), names(POSTGRES));
    }

    #[test]
    fn unknown_and_foreign_steps_are_refused() {
        let ours = (1, SQLITE[0].fingerprint().to_string());
        assert_eq!(pending(SQLITE, &[]).unwrap().len(), SQLITE.len());
        assert!(pending(SQLITE, std::slice::from_ref(&ours)).is_ok());
        let mut newer: Vec<_> =
            SQLITE.iter().map(|m| (m.number, m.fingerprint().to_string())).collect();
        newer.push((SQLITE.len() as i64 + 1, "ab".into()));
        assert!(matches!(pending(SQLITE, &newer), Err(OpenError::NewerSchema { .. })));
        let foreign = [(1, "00".to_owned())];
        assert!(matches!(pending(SQLITE, &foreign), Err(OpenError::ForeignSchema { .. })));
    }

    fn older(steps: usize) -> rusqlite::Connection {
        older_at(rusqlite::Connection::open_in_memory().unwrap(), steps)
    }

    /// A database whose first so many steps were run.
    fn older_at(conn: rusqlite::Connection, steps: usize) -> rusqlite::Connection {
        conn.execute_batch(
            "create table schema_migrations (
                 number integer primary key, name text not null, fingerprint text not null) strict",
        )
        .unwrap();
        for old in &SQLITE[..steps] {
            conn.execute_batch(old.sql).unwrap();
            conn.execute(
                "insert into schema_migrations (number, name, fingerprint) values (?1, ?2, ?3)",
                (old.number, old.name, old.fingerprint().to_string()),
            )
            .unwrap();
        }
        conn
    }

    #[test]
    fn records_of_an_older_database_move_into_pages() {
        let mut conn = older(2);
        let body = "x".repeat(3000);
        for id in 0..50 {
            let sql = "insert into records values ('r', 'deal', ?1, 7, ?2, 9)";
            conn.execute(sql, (id.to_string(), &body)).unwrap();
        }
        crate::sqlite::migrate(&mut conn).unwrap();
        let kept = "select count(*) from records
                    where route_key = 'r' and kind = 'deal' and version = 7 and body = ?1";
        let found: i64 = conn.query_row(kept, [&body], |row| row.get(0)).unwrap();
        assert_eq!(found, 50);
        let twice = "insert into records values ('r', 'deal', '1', 8, 'y', 9)";
        assert!(conn.execute(twice, []).is_err(), "a key can be there twice");
    }

    #[test]
    fn listings_of_an_older_database_get_their_numbers() {
        let mut conn = older(5);
        for (id, place) in [("b", -2), ("a", -7)] {
            conn.execute(
                "insert into listings
                 values (?1, 'x', 'p', 'c', 'direct', ?2, 5, 1, 0, 0, 0, 0, 9)",
                (id, -place),
            )
            .unwrap();
            conn.execute("insert into listing_terms values ('t', ?1, ?2)", (place, id)).unwrap();
        }
        crate::sqlite::migrate(&mut conn).unwrap();
        let found = "select l.id || l.rank from listing_terms t join listings l on l.n = t.n
                     where t.term = 't' and l.id = t.listing_id and l.price = 5
                       and l.success_bps = 9 order by t.place";
        let mut found = conn.prepare(found).unwrap();
        let found: Vec<String> =
            found.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
        assert_eq!(found, ["a7", "b2"]);
    }

    #[tokio::test]
    async fn facts_of_an_older_database_are_put_in_order() {
        use crate::{Call, Decision, Load, Lock, Options, Store, Turn, WantedFacts};
        use skep_base::AgentId;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("skep.db");
        let conn = older_at(rusqlite::Connection::open(&path).unwrap(), 6);
        // In the order in which they were counted, which is not the order of the agents.
        for (n, who) in (1..=40).flat_map(|n| [(n, 3), (n, 1), (n, 2)]) {
            let agent = AgentId([who; 20]).to_string();
            conn.execute(
                "insert into score_facts
                 values (?1, ?2, ?3, 'ap2', 'deal ' || ?3, 1, 10, null, null, zeroblob(32), 0, 0,
                         0, ?3, ?3, 10 * ?3)",
                (&agent, n / 3, n),
            )
            .unwrap();
        }
        drop(conn);
        let store =
            Store::open(&format!("sqlite:{}", path.display()), Options::default()).await.unwrap();
        for who in 1..=3 {
            let one = AgentId([who; 20]);
            let step = move |turn: &mut Turn| {
                let last = turn.counted(&one)?.last.unwrap();
                assert_eq!((last.n, last.at.as_ms(), last.totals.ap2), (40, 13, 40));
                let mut next = crate::ScoreFact {
                    agent: one,
                    at: turn.now(),
                    n: 41,
                    dimension: "ap2".to_owned(),
                    source: "deal 41".to_owned(),
                    ok: true,
                    released_cents: 10,
                    counterparty: None,
                    proof: None,
                    chain: last.chain,
                    totals: last.totals,
                };
                next.totals.ap2 += 1;
                next.totals.ap2_ok += 1;
                next.totals.released_cents += 10;
                turn.add_fact(next)?;
                Ok(Decision::Commit(String::new()))
            };
            let load =
                Load { facts: vec![WantedFacts::of(&one, Lock::Exclusive)], ..Load::default() };
            store.call(Call { load, guards: Vec::new(), step: Box::new(step) }).await.unwrap();
            let facts = store.score_facts(one, None, 99).await.unwrap();
            let found = facts.iter().map(|f| (f.n, f.source.clone(), f.totals.released_cents));
            assert!(found.eq((1..=41).map(|n| (n, format!("deal {n}"), 10 * n))), "{facts:?}");
        }
        let report = store.audit(Box::new(|_, _| {})).await.unwrap();
        assert!(report.is_clean(), "{report:#?}");
        let conn = rusqlite::Connection::open(&path).unwrap();
        for sql in ["update score_facts set ok = 0", "delete from score_facts"] {
            let refused = conn.execute(sql, []).unwrap_err().to_string();
            assert!(refused.contains("never changed"), "{sql}: {refused}");
        }
    }
}
