use std::sync::{Arc, Mutex};

use axum::{Json, Router, extract::State, routing::post};
use http::StatusCode;
use serde_json::json;
use skep_agent::seller::ProgramWork;
use skep_probe::{Egress, Policy};
use skep_wire::hire::{JobCallback, JobStatus, WalletSigned};

use crate::stage::{Answer, PRICE, Shop, World, script, until};

#[derive(Clone, Default)]
struct Heard {
    all: Arc<Mutex<Vec<JobCallback>>>,
    /// Refuses so many first.
    deaf: Arc<Mutex<usize>>,
}

async fn listener() -> (String, Heard) {
    let heard = Heard::default();
    let app = Router::new().route("/done", post(hear)).with_state(heard.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/done", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, heard)
}

async fn hear(State(heard): State<Heard>, Json(callback): Json<JobCallback>) -> StatusCode {
    let mut deaf = heard.deaf.lock().unwrap();
    if *deaf > 0 {
        *deaf -= 1;
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    heard.all.lock().unwrap().push(callback);
    StatusCode::NO_CONTENT
}

async fn status(shop: &Shop, accepted: &Answer) -> JobStatus {
    let id = accepted.body["job_id"].as_str().unwrap();
    serde_json::from_value(shop.get(&format!("/jobs/{id}")).await.body).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_goes_on_alone_is_called_back_with_a_signature_and_survives_a_restart() {
    let world = World::new().await;
    let gate = world.folder.path().join("gate");
    let text = format!("while [ ! -e {} ]; do sleep 0.05; done; cat", gate.display());
    let mut offer = world.offer();
    offer.work = Arc::new(ProgramWork::new(script(world.folder.path(), &text), vec![]));
    let shop = world.open(offer.clone()).await;
    let (url, heard) = listener().await;
    *heard.deaf.lock().unwrap() = 1;
    let buyer = world.buyer(1);
    let hire = buyer.hire_with(json!({ "a": 1 }), |hire| hire.callback_url = Some(url));
    let accepted = shop.bought(&buyer, &hire).await;
    assert_eq!(accepted.status, 202, "{accepted:?}");
    assert!(matches!(status(&shop, &accepted).await, JobStatus::Pending { .. }));
    let again = shop.hire(&hire).await;
    assert_eq!((again.status, &again.body), (202, &accepted.body), "the same job");
    std::fs::write(&gate, "").unwrap();
    let callback = until("the callback", async || heard.all.lock().unwrap().pop()).await;
    callback.check_signature().unwrap();
    let JobStatus::Complete { response, .. } = callback.job else { panic!("{callback:?}") };
    assert_eq!(response.result, json!({ "a": 1 }));
    shop.close().await;
    let shop = world.open(offer).await;
    let JobStatus::Complete { response: later, .. } = status(&shop, &accepted).await else {
        panic!("it was complete before")
    };
    assert_eq!(later, response);
    assert_eq!(shop.get("/jobs/job_0").await.code(), "job_unknown");
    assert_eq!(world.bank.balance(buyer.id()), 1_000_000 - PRICE);
    assert!(heard.all.lock().unwrap().is_empty(), "told once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_callback_never_reaches_a_private_address() {
    let world = World::new().await;
    let (url, heard) = listener().await;
    let shop = world
        .open_with(vec![world.offer()], |config| {
            config.egress = Egress::new(Policy::default()).unwrap();
        })
        .await;
    let buyer = world.buyer(2);
    let hire = buyer.hire_with(json!({}), |hire| hire.callback_url = Some(url));
    let accepted = shop.bought(&buyer, &hire).await;
    until("the end", async || match status(&shop, &accepted).await {
        JobStatus::Complete { .. } => Some(()),
        _ => None,
    })
    .await;
    shop.close().await;
    let journal = std::fs::read_to_string(world.journal()).unwrap();
    assert!(journal.contains(r#""delivered":false"#), "{journal}");
    assert!(heard.all.lock().unwrap().is_empty());
}
