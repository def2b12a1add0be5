use super::*;

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what}: not within 30 s");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn gives_each_caller_a_database_of_its_own() {
    let server = TempPostgres::shared();
    let a = server.create_database("Odd name!").unwrap();
    let b = server.create_database("Odd name!").unwrap();
    assert_ne!(a, b);
    let name = a.rsplit('/').next().unwrap();
    server.psql(name, "create table t (x int)").unwrap();
    assert_eq!(server.psql(name, "select count(*) from t").unwrap(), "0");
    assert!(server.psql("postgres", "select * from t").is_err());
    assert_eq!(server.psql("postgres", "show fsync").unwrap(), "on");
}

#[test]
fn keeps_what_was_committed_when_it_crashes() {
    let server = TempPostgres::start_with(&[("max_connections", "17")]).unwrap();
    let port = server.port();
    assert_eq!(server.psql("postgres", "show max_connections").unwrap(), "17");
    server.psql("postgres", "create table t as select 42 as x").unwrap();
    server.crash().unwrap();
    assert!(server.psql("postgres", "select 1").is_err());
    server.restart().unwrap();
    assert_eq!(server.port(), port);
    assert_eq!(server.psql("postgres", "select x from t").unwrap(), "42");
    assert!(server.log().contains("automatic recovery"), "{}", server.log());

    let (dir, pid) = (server.dir.clone(), postmaster(&server));
    drop(server);
    assert!(!dir.exists());
    assert!(!is_alive(&pid));
}

/// Not a test of its own: the process that the next test kills.
#[test]
#[ignore = "started by a_killed_process_leaves_nothing_behind"]
fn hold_a_server() {
    let server = TempPostgres::shared();
    println!("ready {} {}", postmaster(server), server.dir.display());
    thread::sleep(Duration::from_secs(600));
}

#[test]
fn a_killed_process_leaves_nothing_behind() {
    let itself = std::env::current_exe().unwrap();
    let mut holder = crate::process::Child::spawn(Command::new(itself).args([
        "--ignored",
        "--exact",
        "--nocapture",
        "--quiet",
        "postgres::tests::hold_a_server",
    ]))
    .unwrap();
    let (pid, dir) = holder.url().split_once(' ').unwrap();
    let (pid, dir) = (pid.to_owned(), PathBuf::from(dir));
    assert!(is_alive(&pid) && dir.exists());
    holder.kill9();
    wait_until("the server ends", || !is_alive(&pid));
    wait_until("the folder goes", || !dir.exists());
}

fn postmaster(server: &TempPostgres) -> String {
    let text = std::fs::read_to_string(server.dir.join("data/postmaster.pid")).unwrap();
    text.lines().next().unwrap().to_owned()
}
