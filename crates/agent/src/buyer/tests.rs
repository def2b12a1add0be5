use serde_json::json;
use skep_base::{Amount, Hash32, Timestamp};

use super::{book::Book, entry::Entry};

fn amount(minor: i64) -> Amount {
    Amount::new(minor).unwrap()
}

fn entry(value: serde_json::Value) -> Entry {
    serde_json::from_value(value).unwrap()
}

#[test]
fn a_journal_that_is_made_shorter_says_the_same() {
    let agent = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8";
    let hash = |byte: u8| Hash32::from([byte; 32]);
    let at = "2026-11-15T09:00:00.000Z";
    let budget = hash(9);
    let intent = |id: Hash32| {
        let hire = json!({
            "protocol": "swarmwage/v0.3", "buyer_id": agent, "capability": "a.b", "params": {},
        });
        let listing = json!({
            "agent_id": agent, "capability": "a.b", "price_usdc": "0.02", "max_latency_ms": 500,
            "endpoint": "https://seller.example.com",
        });
        entry(json!({
            "step": "intent", "id": id, "at": at, "hire": hire, "listing": listing,
            "price": "20000", "patience_ms": 500, "accept_unverifiable": false,
        }))
    };
    let authorized = |id: Hash32| {
        let rail = json!({
            "asset": agent, "name": "n", "version": "1", "escrowAddress": agent,
            "escrowProvider": "p",
        });
        entry(json!({
            "step": "authorized", "id": id, "at": at, "amount": "20000", "valid_before": 1,
            "version": 2, "payment": {}, "requirements": {}, "rail": rail, "budget": budget,
        }))
    };
    let book = Book::of(vec![
        intent(hash(1)),
        authorized(hash(1)),
        entry(json!({ "step": "done", "id": hash(1), "at": at, "paid": "20000" })),
        intent(hash(2)),
        authorized(hash(2)),
        entry(json!({ "step": "abandoned", "id": hash(2), "code": "no_answer" })),
        intent(hash(3)),
        authorized(hash(3)),
        entry(json!({ "step": "accepted", "id": hash(3), "job_id": "job_1" })),
    ]);
    let lines = book.entries();
    assert_eq!(lines.len(), 4);
    let again = Book::of(lines.clone());
    assert_eq!(again.entries(), lines);
    for book in [&book, &again] {
        assert_eq!(book.open_ids(), [hash(3)]);
        assert_eq!(book.get(&hash(3)).unwrap().job_id.as_deref(), Some("job_1"));
        assert_eq!(book.left(&budget, amount(50_000)), amount(10_000));
        assert_eq!(book.spent_since(Timestamp::EPOCH), (amount(20_000), amount(20_000)));
    }
}
