use skep_store::{OpenError, Options, Store};
use skep_testkit::postgres::TempPostgres;

use crate::fixture::{Change::*, *};

fn database_name(url: &str) -> &str {
    url.rsplit('/').next().unwrap()
}

#[tokio::test]
async fn a_second_process_is_kept_out_of_a_sqlite_file() {
    let f = Fixture::sqlite().await;
    let second = Store::open(&f.url, Options::default()).await;
    assert!(matches!(second, Err(OpenError::Locked { .. })), "{second:?}");
}

#[tokio::test]
async fn nobody_else_can_read_the_database_files() {
    use std::os::unix::fs::PermissionsExt;
    let f = Fixture::sqlite().await;
    run(&f.store, vec![Pay(1, outside(), wallet(1), 10)]).await;
    let path = f.url.strip_prefix("sqlite:").unwrap();
    for file in [path.to_owned(), format!("{path}-wal"), format!("{path}-shm")] {
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{file} has mode {mode:o}");
    }
}

#[tokio::test]
async fn an_unknown_newer_schema_is_refused_on_sqlite() {
    let f = Fixture::sqlite().await;
    let path = f.url.strip_prefix("sqlite:").unwrap().to_owned();
    let Fixture { store, _folder, .. } = f;
    drop(store);
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.execute("insert into schema_migrations values (999, 'future', 'ff')", []).unwrap();
    drop(conn);
    let opened = Store::open(&format!("sqlite:{path}"), Options::default()).await;
    assert!(matches!(opened, Err(OpenError::NewerSchema { found: 999, .. })), "{opened:?}");
}

#[tokio::test]
async fn an_unknown_newer_schema_is_refused_on_postgres() {
    let f = Fixture::postgres().await;
    let pg = TempPostgres::shared();
    let sql = "insert into schema_migrations values (999, 'future', 'ff')";
    pg.psql(database_name(&f.url), sql).unwrap();
    let opened = Store::open(&f.url, Options::default()).await;
    assert!(matches!(opened, Err(OpenError::NewerSchema { found: 999, .. })), "{opened:?}");
}

#[tokio::test]
async fn a_database_beyond_this_machine_is_not_spoken_to_in_the_clear_by_accident() {
    let opened = Store::open("postgres://skep:secret@192.0.2.1/skep", Options::default()).await;
    let refused = opened.unwrap_err().to_string();
    assert!(refused.contains("sslmode=disable") && !refused.contains("secret"), "{refused}");
}

#[tokio::test]
async fn a_postgres_that_forgets_is_refused() {
    let pg = TempPostgres::start_with(&[("fsync", "off")]).unwrap();
    let opened = Store::open(&pg.url(), Options::default()).await;
    assert!(matches!(opened, Err(OpenError::UnsafeSetting { .. })), "{opened:?}");
}

#[tokio::test]
async fn the_journal_cannot_be_changed_on_sqlite() {
    let f = Fixture::sqlite().await;
    run(&f.store, vec![Pay(1, outside(), wallet(1), 10)]).await;
    let path = f.url.strip_prefix("sqlite:").unwrap();
    let conn = rusqlite::Connection::open(path).unwrap();
    for sql in [
        "update transfers set amount = 1",
        "delete from transfers",
        "update events set body = ''",
        "delete from events",
    ] {
        let refused = conn.execute(sql, []).unwrap_err().to_string();
        assert!(refused.contains("never changed"), "{sql}: {refused}");
    }
    for sql in [
        "update accounts set held = posted + 1",
        "update accounts set posted = -1",
        "update accounts set debit_limit = 0, debited = 1",
    ] {
        let refused = conn.execute(sql, []).unwrap_err().to_string();
        assert!(refused.contains("CHECK constraint failed"), "{sql}: {refused}");
    }
}

#[tokio::test]
async fn the_journal_cannot_be_changed_on_postgres() {
    let f = Fixture::postgres().await;
    run(&f.store, vec![Pay(1, outside(), wallet(1), 10)]).await;
    let pg = TempPostgres::shared();
    let database = database_name(&f.url);
    for table in ["transfers", "events", "event_numbers"] {
        for sql in [
            format!("update {table} set id = 'x'"),
            format!("delete from {table}"),
            format!("truncate {table}"),
        ] {
            settle_log(&f.store).await;
            let owner = pg.psql(database, &sql).unwrap_err().to_string();
            assert!(owner.contains("never changed"), "{sql}: {owner}");
            let app = pg.psql(database, &format!("set role skep_app; {sql}")).unwrap_err();
            assert!(app.to_string().contains("permission denied"), "{sql}: {app}");
        }
    }
    let overdrawn = pg.psql(database, "update accounts set held = posted + 1").unwrap_err();
    assert!(overdrawn.to_string().contains("accounts_not_overdrawn"));
}

/// Each of these must be found, or the audit checks nothing.
#[tokio::test]
async fn the_audit_finds_every_planted_fault() {
    let faults = [
        ("update accounts set posted = posted + 1 where account like 'wallet:0x01%'", "stored"),
        ("update accounts set held = held - 1 where account like 'wallet:0x01%'", "stored"),
        ("update accounts set debited = debited + 1 where account like 'wallet:0x01%'", "stored"),
        ("update accounts set owed = 5 where account like 'wallet:0x01%'", "stored"),
        (
            "drop trigger transfers_are_never_changed; update transfers set amount = amount + 1
          where kind = 'posted' and n = 1",
            "stored",
        ),
        (
            "drop trigger transfers_are_never_deleted; delete from transfers where kind = 'pending'",
            "without its pending",
        ),
        (
            "drop trigger events_are_never_changed; update events set body = '\"x\"' where seq = 2",
            "breaks the hash chain",
        ),
        (
            "drop trigger events_are_never_deleted; delete from events where seq = 2",
            "follows event",
        ),
        (
            "drop trigger events_are_never_deleted; delete from events
          where seq = (select max(seq) from events)",
            "its head says",
        ),
        ("update debts set open = open - 1", "payments left"),
        ("delete from accounts where account like 'wallet:0x02%'", "without its row"),
        ("update accounts set asset = 'USD'", "says something else"),
        (
            "drop trigger transfers_are_never_changed;
             update transfers set budget_account = 'budget:none' where n = 1",
            "a budget that does not exist",
        ),
    ];
    for (sql, found) in faults {
        let f = Fixture::sqlite().await;
        run(&f.store, vec![Pay(1, outside(), wallet(1), 100)]).await;
        run(&f.store, vec![Hold(2, wallet(1), wallet(2), 50)]).await;
        run(&f.store, vec![Post(3, 2, Some(20))]).await;
        run(&f.store, vec![Hold(4, wallet(1), wallet(2), 7)]).await;
        run(&f.store, vec![Owe(1, wallet(3), wallet(2), 9)]).await;
        f.audit_is_clean().await;
        let conn = rusqlite::Connection::open(f.url.strip_prefix("sqlite:").unwrap()).unwrap();
        conn.execute_batch(sql).unwrap();
        let report = f.store.audit(Box::new(|_, _| {})).await.unwrap();
        let listed = report.problems.join("\n");
        assert!(listed.contains(found), "{sql}\n{report:#?}");
    }
}
