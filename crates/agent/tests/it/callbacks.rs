//! What a buyer is told of its jobs, by its seller and by others.

use std::sync::atomic::Ordering::SeqCst;

use serde_json::json;
use skep_agent::{HireOrder, buyer::CallbackError};
use skep_base::wallet::WalletKey;
use skep_wire::hire::{HireResponse, JobCallback, JobStatus, SignedError, WalletSigned};

use crate::{
    node::now,
    stage::until,
    stall::{Manners, key},
    world::{World, double},
};

/// A word about a job in the name of one, signed by another or the same.
fn word(
    seller: &WalletKey,
    signer: &WalletKey,
    job_id: &str,
    response: &HireResponse,
) -> JobCallback {
    let (job_id, response) = (job_id.to_owned(), Box::new(response.clone()));
    let mut callback = JobCallback {
        seller_id: seller.address(),
        job: JobStatus::Complete { job_id, response },
        sent_at: now(),
        signature: None,
    };
    callback.sign(signer).unwrap();
    callback
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_ends_with_its_own_sellers_word_and_with_nobody_elses() {
    let world = World::open().await;
    let buyer = world.buyer().await;
    // It says by callback alone that it is done.
    let manners = Manners { job: true, silent_jobs: true, ..Manners::default() };
    let stall = world.direct(1, manners).await;
    let order = HireOrder {
        callback_url: Some("https://callback.invalid/".to_owned()),
        max_latency_ms: Some(600_000),
        ..double(3)
    };
    let hiring = tokio::spawn({
        let buyer = buyer.clone();
        async move { buyer.hire(order).await }
    });
    until("a question about the job", async || (stall.asked.load(SeqCst) > 0).then_some(())).await;
    let (job, response) = until("the job's end", async || stall.done_job()).await;
    let other = key(77);
    let refused = |callback: JobCallback| buyer.take_callback(callback).unwrap_err();

    let forged = refused(word(&stall.key, &other, &job, &response));
    let wrong = SignedError::WrongSigner { signer: other.address(), expected: stall.key.address() };
    assert_eq!(forged, CallbackError::BadSignature(wrong));
    let mut unsigned = word(&stall.key, &stall.key, &job, &response);
    unsigned.signature = None;
    assert_eq!(refused(unsigned), CallbackError::BadSignature(SignedError::Unsigned));
    let good = word(&stall.key, &stall.key, &job, &response);
    let mut changed = good.clone();
    let JobStatus::Complete { response: within, .. } = &mut changed.job else { unreachable!() };
    within.result = json!({ "double": 7 });
    assert_eq!(refused(changed).code(), "bad_callback_signature");

    let seller = other.address();
    let anothers = refused(word(&other, &other, &job, &response));
    assert_eq!(anothers, CallbackError::NotAwaited { seller, job_id: job.clone() });
    let seller = stall.key.address();
    let elsewhere = refused(word(&stall.key, &stall.key, "job_2", &response));
    let not_awaited = |job_id: &str| CallbackError::NotAwaited { seller, job_id: job_id.into() };
    assert_eq!(elsewhere, not_awaited("job_2"));
    assert!(!hiring.is_finished(), "none of these was believed");

    buyer.take_callback(good.clone()).unwrap();
    let hired = hiring.await.unwrap().unwrap();
    assert_eq!((hired.seller, hired.result), (seller, json!({ "double": 6 })));
    let replayed = refused(good);
    assert_eq!((replayed.code(), &replayed), ("callback_not_awaited", &not_awaited(&job)));
    assert_eq!((stall.runs.load(SeqCst), world.lost()), (1, stall.price()));
    world.agree(&buyer);
}
