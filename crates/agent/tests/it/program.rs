use std::{fs, sync::Arc, time::Duration};

use serde_json::json;
use skep_agent::seller::{JobContext, ProgramWork, STDOUT_LEN_MAX, Work, WorkError};
use skep_base::AgentId;
use skep_wire::hire::WalletBinding;

use crate::stage::{PRICE, World, script, until};

fn context(limit: Duration) -> JobContext {
    JobContext {
        hire_id: "rcpt_1".to_owned(),
        capability: "custom.test.a".to_owned(),
        buyer: AgentId([1; 20]),
        time_limit: limit,
    }
}

const LONG: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_program_gets_its_parameters_and_nothing_of_this_process() {
    let folder = tempfile::tempdir().unwrap();
    let text = r#"
input=$(cat); touch left-behind
printf '{"in":%s,"env":"%s","dir":"%s"}' "$input" "$(env | cut -d= -f1 | sort | xargs)" "$PWD""#;
    let work = ProgramWork::new(script(folder.path(), text), vec![]);
    let result = work.run(json!({ "a": 1 }), context(LONG)).await.unwrap();
    assert_eq!(result["in"], json!({ "a": 1 }));
    let names = result["env"].as_str().unwrap().split(' ');
    // The shell adds some of its own.
    let own = ["LANG", "PATH", "SKEP_CAPABILITY", "OLDPWD", "PWD", "SHLVL", "_"];
    let foreign: Vec<&str> = names.filter(|name| !own.contains(name)).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
    let dir = result["dir"].as_str().unwrap();
    assert!(!std::path::Path::new(dir).exists(), "its folder is gone with what it wrote");
}

#[tokio::test]
async fn programs_that_misbehave_are_stopped_with_all_that_they_started() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let run = async |text: &str, limit| {
        let text = text.replace("PID", &pid.display().to_string());
        let work = ProgramWork::new(script(folder.path(), &text), vec![]);
        work.run(json!({}), context(limit)).await
    };
    let gone = async || {
        let number = fs::read_to_string(&pid).unwrap();
        let stat = format!("/proc/{}/stat", number.trim());
        let lives = || fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
        until("its child is gone", async || (!lives()).then_some(())).await;
    };
    let limit = Duration::from_millis(700);
    let slow = run("sleep 1000 & echo $! > PID; wait", limit).await;
    assert_eq!(slow, Err(WorkError::TimedOut(limit)));
    gone().await;
    let flood = run("sleep 1000 & echo $! > PID; yes", LONG).await;
    assert_eq!(flood, Err(WorkError::TooLong { max: STDOUT_LEN_MAX }));
    gone().await;
    let left = run("sleep 1000 & echo $! > PID; echo '{}'", LONG).await;
    assert_eq!(left, Ok(json!({})), "what it leaves behind holds nobody up");
    gone().await;
    let talks = "yes complaint | head -c 1000000 >&2; echo the end >&2; exit 7";
    assert_eq!(run(talks, LONG).await, Err(WorkError::Failed("the end".to_owned())));
    assert!(matches!(run("echo hello", LONG).await, Err(WorkError::NotJson(_))));
    assert!(run("exec 0<&-; echo 1", LONG).await.is_ok(), "it need not read");
    let missing = ProgramWork::new("/no/such/program", vec![]);
    let missing = missing.run(json!({}), context(LONG)).await;
    assert!(matches!(missing, Err(WorkError::NotStarted(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_goes_wrong_costs_nothing_and_is_not_tried_again() {
    let world = World::new().await;
    let buyer = world.buyer(1);
    for (text, status, code) in [
        ("echo garbage", 502, "bad_output"),
        ("exit 1", 502, "work_failed"),
        ("sleep 1000", 504, "work_timeout"),
    ] {
        let mut offer = world.offer();
        offer.max_latency_ms = 500;
        offer.work = Arc::new(ProgramWork::new(script(world.folder.path(), text), vec![]));
        let shop = world.open(offer).await;
        let hire = buyer.hire(json!({}));
        let payment = buyer.payment(&hire, &shop.hire(&hire).await);
        let failed = shop.pay(&hire, &payment).await;
        assert_eq!((failed.status, failed.code()), (status, code));
        let again = shop.pay(&hire, &payment).await;
        assert_eq!((again.status, again.code()), (status, code));
        shop.close().await;
    }
    assert_eq!(world.bank.balance(buyer.id()), 1_000_000, "a price of {PRICE} was never taken");
    assert_eq!(world.bank.with(|books| books.settles), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_fails_the_capabilitys_own_check_is_not_sold() {
    let world = World::new().await;
    let buyer = world.buyer(2);
    let name = "compute.statistics.mean";
    let mut offer = world.offer();
    offer.capability = name.to_owned();
    let asked = |data| buyer.hire_with(json!({ "data": data }), |h| h.capability = name.to_owned());
    for (text, status) in [("echo '{\"result\":3}'", 502), ("echo '{\"result\":2}'", 200)] {
        offer.work = Arc::new(ProgramWork::new(script(world.folder.path(), text), vec![]));
        let shop = world.open(offer.clone()).await;
        let bad = shop.hire(&asked(json!("many"))).await;
        assert_eq!((bad.status, bad.code()), (400, "bad_params"));
        assert!(!bad.body["errors"].as_array().unwrap().is_empty());
        let answer = shop.bought(&buyer, &asked(json!([1, 2, 3]))).await;
        assert_eq!(answer.status, status, "{answer:?}");
        let schema = shop.get(&format!("/capabilities/{name}/schema")).await;
        assert_eq!(schema.body["input"]["type"], "object", "{schema:?}");
        shop.close().await;
    }
    assert_eq!(world.bank.balance(buyer.id()), 1_000_000 - PRICE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_can_be_forwarded_to_a_server_of_ones_own() {
    use axum::{Json, Router, http::HeaderMap, routing::post};
    let app = Router::new()
        .route(
            "/work",
            post(async |headers: HeaderMap, Json(params): Json<serde_json::Value>| {
                let text = |name: &str| headers[name].to_str().unwrap().to_owned();
                Json(json!({ "params": params, "buyer": text("skep-buyer"),
                    "key": text("idempotency-key"), "capability": text("skep-capability") }))
            }),
        )
        .route("/flood", post(async || vec![b' '; STDOUT_LEN_MAX + 1]))
        .route("/slow", post(async || tokio::time::sleep(LONG).await));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    let run = async |path: &str, limit| {
        let work = skep_agent::seller::ForwardWork::new(&format!("{url}{path}")).unwrap();
        work.run(json!({ "a": 1 }), context(limit)).await
    };
    let result = run("/work", LONG).await.unwrap();
    assert_eq!((&result["params"], &result["key"]), (&json!({ "a": 1 }), &json!("rcpt_1")));
    assert_eq!(result["capability"], "custom.test.a");
    assert_eq!(run("/flood", LONG).await, Err(WorkError::TooLong { max: STDOUT_LEN_MAX }));
    assert!(matches!(run("/nothing", LONG).await, Err(WorkError::Failed(_))));
    let limit = Duration::from_millis(200);
    assert_eq!(run("/slow", limit).await, Err(WorkError::TimedOut(limit)));
    assert!(skep_agent::seller::ForwardWork::new("file:///etc/passwd").is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_only_makes_others_work_for_nothing_is_stopped() {
    let world = World::new().await;
    let (buyer, other) = (world.buyer(3), world.buyer(4));
    let mut offer = world.offer();
    let fails = |_, _| std::future::ready(Err(WorkError::Failed("no".to_owned())));
    offer.work = Arc::new(skep_agent::seller::work_fn(fails));
    let shop = world.open(offer.clone()).await;
    for _ in 0..skep_agent::seller::IN_VAIN_PER_DAY {
        assert_eq!(shop.bought(&buyer, &buyer.hire(json!({}))).await.status, 502);
    }
    shop.close().await;
    let shop = world.open(offer).await;
    let enough = shop.bought(&buyer, &buyer.hire(json!({}))).await;
    assert_eq!((enough.status, enough.code()), (429, "too_many_failures"));
    // Nor does the same wallet go on under another name.
    let now = other.now_s();
    let span = (now, now + 3600);
    let bound = WalletBinding::signed_by(&buyer.wallet, other.id(), span).unwrap();
    let named = other.hire_with(json!({}), |hire| hire.payer = Some(bound));
    let enough = shop.bought(&buyer, &named).await;
    assert_eq!((enough.status, enough.code()), (429, "too_many_failures"));
    assert_eq!(shop.bought(&other, &other.hire(json!({}))).await.status, 502);
    world.clock.advance(Duration::from_secs(24 * 3600));
    assert_eq!(shop.bought(&buyer, &buyer.hire(json!({}))).await.status, 502);
}
