use serde_json::json;
use skep_base::{Amount, hash::sha256, id::Id};
use skep_wire::{
    hire::{PROTOCOL, PaymentMode, Verification},
    x402::FacilitatorRequest,
};

use super::*;
use crate::seller::entry::Made;

const MIB: usize = 1024 * 1024;

fn hire(number: u8, at: Timestamp, way: Way) -> Hire {
    Hire {
        id: format!("rcpt_{number}"),
        at,
        protocol: PROTOCOL.to_owned(),
        capability: "custom.test.a".to_owned(),
        buyer: AgentId([number; 20]),
        payer: None,
        nonce: Some("n".to_owned()),
        signed: None,
        body_hash: sha256(&[number]),
        params: json!({ "number": number }),
        params_hash: sha256(b"params"),
        payee: None,
        price: Amount::ZERO,
        mode: PaymentMode::Direct,
        listing_id: Id::from_bytes([1; 16]),
        max_latency_ms: 1000,
        way,
        valid_before_s: None,
        callback_url: None,
        job_id: None,
        identifier: None,
        quote_token: None,
    }
}

fn made(id: &str, at: Timestamp, len: usize) -> Entry {
    let verification = Verification::not_verifiable("custom");
    let made = Made { at, latency_ms: 1, result: json!({ "of": id, "x": 0.1 }), verification, len };
    Entry::Produced { id: id.to_owned(), made: Box::new(made) }
}

/// A free hire from beginning to end.
async fn done(book: &Book, number: u8, at: Timestamp, len: usize) -> String {
    let hire = hire(number, at, Way::Free);
    let id = hire.id.clone();
    assert!(matches!(book.begin(hire, u32::MAX).await, Ok(Begun::New)));
    book.record(made(&id, at, len)).await.unwrap();
    book.record(Entry::Receipted { id: id.clone(), at }).await.unwrap();
    id
}

fn direct(number: u8, at: Timestamp) -> Hire {
    let request = FacilitatorRequest {
        x402_version: 2,
        payment_payload: json!({}),
        payment_requirements: json!({}),
        skep: None,
    };
    hire(number, at, Way::Direct(Box::new(request)))
}

fn refused(id: &str, at: Timestamp) -> Entry {
    let failure = Failure { status: 402, code: "no".to_owned(), detail: String::new() };
    Entry::Withheld { id: id.to_owned(), at, failure }
}

/// A hire that was done, and its payment was refused.
async fn withheld(book: &Book, hire: Hire, len: usize) -> String {
    let (id, at) = (hire.id.clone(), hire.at);
    assert!(matches!(book.begin(hire, 0).await, Ok(Begun::New)));
    book.record(made(&id, at, len)).await.unwrap();
    book.record(refused(&id, at)).await.unwrap();
    id
}

#[tokio::test]
async fn results_that_memory_lets_go_are_found_in_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let (path, now) = (folder.path().join("journal"), Timestamp::from_ms(1_800_000_000_000));
    let book = Book::open(&path, now).await.unwrap();
    let first = done(&book, 1, now, 100 * MIB).await;
    assert!(book.get(&first).unwrap().made.is_some());
    let second = done(&book, 2, now, 100 * MIB).await;
    assert!(book.get(&first).unwrap().made.is_none(), "only so much is kept in memory");
    assert!(book.get(&second).unwrap().made.is_some());
    let whole = book.whole(&first).await.unwrap();
    assert_eq!(whole.made.unwrap().result, json!({ "of": first, "x": 0.1 }));
    assert!(book.unfinished().is_empty());
}

#[tokio::test]
async fn a_rewritten_journal_keeps_what_is_young_open_or_free() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let now = Timestamp::from_ms(1_800_000_000_000);
    let old = now.minus(REMEMBERED + Duration::from_secs(1));
    let book = Book::open(&path, now).await.unwrap();
    let gone = done(&book, 1, old, 1).await;
    let young = done(&book, 2, now, 1).await;
    let open = hire(3, old, Way::Free);
    assert!(matches!(book.begin(open.clone(), u32::MAX).await, Ok(Begun::New)));
    drop(book);
    let (journal, entries) = open_patiently(&path).await.unwrap();
    let before = entries.len();
    let kept = kept(entries, now);
    assert_eq!(kept.len(), before - 3 + 2, "one hire became a word about its free call, twice");
    Journal::rewrite(&path, &kept).unwrap();
    drop(journal);
    let book = Book::open(&path, now).await.unwrap();
    assert!(book.get(&gone).is_none() && book.get(&young).is_some());
    assert_eq!(book.unfinished(), [open.id]);
    for number in 1..=3 {
        assert!(!book.free_left(AgentId([number; 20]), "custom.test.a", 100, now), "{number}");
    }
    assert!(book.free_left(AgentId([4; 20]), "custom.test.a", 100, now));
    assert!(!book.free_left(AgentId([4; 20]), "custom.test.a", 1, now), "today's is used");
}

#[tokio::test]
async fn a_withheld_hire_leaves_memory_and_comes_back_when_it_is_paid() {
    let folder = tempfile::tempdir().unwrap();
    let (path, now) = (folder.path().join("journal"), Timestamp::from_ms(1_800_000_000_000));
    let book = Book::open(&path, now).await.unwrap();
    let id = withheld(&book, direct(1, now), 100 * MIB).await;
    assert_eq!(book.get(&id).unwrap().hire.params, Value::Null);
    done(&book, 2, now, 100 * MIB).await;
    assert!(book.get(&id).unwrap().made.is_none(), "it counts among the results");
    assert!(book.retry_payment(&id, now).await && !book.retry_payment(&id, now).await);
    let open = book.get(&id).unwrap();
    assert_eq!((open.next(), open.hire.params["number"].as_u64()), (Next::Settle, Some(1)));
    assert!(open.made.is_some());
    // A crash right after the payment: the receipt is still owed.
    let settled = Default::default();
    book.record(Entry::Settled { id: id.clone(), at: now, settled }).await.unwrap();
    drop(book);
    let book = Book::open(&path, now).await.unwrap();
    assert_eq!(book.get(&id).unwrap().next(), Next::Submit);
}

#[tokio::test]
async fn a_payment_is_tried_again_while_it_is_good_and_its_hire_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    let (path, now) = (folder.path().join("journal"), Timestamp::from_ms(1_800_000_000_000));
    let book = Book::open(&path, now).await.unwrap();
    let one = Hire { valid_before_s: Some(1_800_000_010), ..direct(1, now) };
    let payer = one.payer();
    let id = withheld(&book, one, 1).await;
    assert!(!book.retry_payment(&id, now.plus(Duration::from_secs(10))).await, "its time is over");
    for _ in 1..TRIES_MAX {
        assert!(book.retry_payment(&id, now).await);
        book.record(refused(&id, now)).await.unwrap();
    }
    assert!(!book.retry_payment(&id, now).await, "there is an end to it");
    assert_eq!(book.get(&id).unwrap().next(), Next::Nothing);
    assert_eq!(book.in_vain(payer, now), 1);
    drop(book);
    let book = Book::open(&path, now).await.unwrap();
    assert_eq!(book.in_vain(payer, now), 1, "nor does a restart count it again");
    assert!(!book.retry_payment(&id, now).await);
}

#[tokio::test]
async fn what_a_rewritten_journal_has_let_go_stays_withheld() {
    let folder = tempfile::tempdir().unwrap();
    let (path, now) = (folder.path().join("journal"), Timestamp::from_ms(1_800_000_000_000));
    let book = Book::open(&path, now).await.unwrap();
    let one = Hire { valid_before_s: Some(1_800_000_010), ..direct(1, now) };
    let id = withheld(&book, one, 1).await;
    drop(book);
    let (journal, entries) = open_patiently(&path).await.unwrap();
    Journal::rewrite(&path, &kept(entries, now.plus(Duration::from_secs(10)))).unwrap();
    drop(journal);
    // The clock was wrong when it was rewritten: by now the payment is good again.
    let book = Book::open(&path, now).await.unwrap();
    assert!(book.get(&id).unwrap().is_payable(now));
    assert!(!book.retry_payment(&id, now).await);
    let known = book.get(&id).unwrap();
    assert!(known.is_answerable() && known.withheld.is_some(), "it is answered as before");
}

#[tokio::test]
async fn a_full_journal_begins_nothing_and_a_failed_hire_keeps_no_parameters() {
    let folder = tempfile::tempdir().unwrap();
    let (path, now) = (folder.path().join("journal"), Timestamp::from_ms(1_800_000_000_000));
    let mut book = Book::open(&path, now).await.unwrap();
    let bad = hire(1, now, Way::Free);
    let failure = Failure { status: 502, code: "no".to_owned(), detail: String::new() };
    assert!(matches!(book.begin(bad.clone(), 9).await, Ok(Begun::New)));
    book.record(Entry::Failed { id: bad.id.clone(), at: now, failure }).await.unwrap();
    book.len_max = 1;
    let refused = book.begin(hire(2, now, Way::Free), 9).await;
    assert!(matches!(refused, Err(refusal) if refusal.code == "journal_full"));
    assert!(book.free_left(AgentId([2; 20]), "custom.test.a", 9, now));
    drop(book);
    let (_journal, entries) = open_patiently(&path).await.unwrap();
    let kept = kept(entries, now);
    assert!(matches!(&kept[0], Entry::Started { hire } if hire.params.is_null()));
    let again = Shelves::of(kept);
    assert!(again.free.contains_key(&(bad.buyer, bad.capability)));
    assert_eq!(again.hires[&bad.id].known.next(), Next::Nothing);
}

#[test]
fn a_hire_that_could_not_be_written_down_leaves_nothing_behind() {
    let now = Timestamp::from_ms(1_800_000_000_000);
    let mut shelves = Shelves::default();
    let hire = Hire { job_id: Some("job_1".to_owned()), ..hire(1, now, Way::Free) };
    shelves.start(hire.clone());
    shelves.unstart(&hire.slim(), true);
    assert!(shelves.hires.is_empty() && shelves.by_nonce.is_empty() && shelves.jobs.is_empty());
    assert!(shelves.free.is_empty() && shelves.free_per_day.values().all(|count| *count == 0));
}
