use skep_base::{Asset, Money};
use skep_wire::settle::RemainderPolicy;

use super::*;

fn now() -> Timestamp {
    Timestamp::from_ms(1_794_733_200_000)
}

fn offer(cents: i64) -> Offer {
    Offer {
        price: Money::new(Amount::new(cents).unwrap(), Asset::USD),
        service_type: "research".to_owned(),
        description: "find it".to_owned(),
        deadline: None,
        criteria: Hints { url: Some("https://example.org/".to_owned()), ..Hints::default() },
        options: DealOptions::default(),
        requires_benchmark: false,
    }
}

fn close(offer: &Offer) -> Terms {
    Terms::close(offer, now(), &Policy::default(), &Standing::default()).unwrap()
}

#[test]
fn what_an_offer_leaves_open_has_a_default() {
    let terms = close(&offer(30_000));
    assert_eq!(terms.deadline, now().plus(DELIVERY_TIME));
    assert_eq!((terms.engine(), terms.timeout_s, terms.dispute_window_s), ("http", 1800, 0));
    assert_eq!((terms.review_deadline_s, terms.auto_approve), (None, false));
    assert_eq!(terms.stake.policy, RemainderPolicy::OnRelease);
    assert_eq!((terms.stake.hold, terms.stake.fee_reserved), (terms.price.amount, Amount::ZERO));

    let by_person = Offer { criteria: Hints::default(), ..offer(30_000) };
    assert_eq!((close(&by_person).engine(), close(&by_person).timeout_s), ("requester", 86_400));
    let asked = DealOptions {
        timeout_s: Some(5),
        review_deadline_s: Some(6),
        verifier_price_minor: Amount::new(7),
        ..DealOptions::default()
    };
    let asked = Offer { deadline: Some(now()), options: asked, ..by_person };
    let terms = close(&asked);
    assert_eq!((terms.deadline, terms.timeout_s, terms.review_deadline_s), (now(), 5, Some(6)));
    assert_eq!(terms.options().verifier_price_minor, Amount::new(7));
    let operators = Policy { review_deadline_s: Some(9), ..Policy::default() };
    let close =
        |offer: &Offer| Terms::close(offer, now(), &operators, &Standing::default()).unwrap();
    assert_eq!(close(&offer(1)).review_deadline_s, Some(9));
    assert_eq!(close(&asked).review_deadline_s, Some(6));
}

#[test]
fn the_rate_follows_the_subscription_but_never_passes_what_was_agreed() {
    let tiers = BTreeMap::from([("gold".to_owned(), 100), ("odd".to_owned(), 900)]);
    let policy = Policy { fee_bps: 500, fee_tiers: tiers, ..Policy::default() };
    let standing = |name: Option<&str>| Standing {
        subscription: name.map(str::to_owned),
        ..Standing::default()
    };
    let cap = |name| {
        let terms = Terms::close(&offer(30_000), now(), &policy, &standing(name)).unwrap();
        terms.stake.fee_cap_bps
    };
    assert_eq!([None, Some("gold"), Some("odd"), Some("?")].map(cap), [500, 500, 900, 500]);
    let rate = |name, cap| policy.rate(&standing(name), cap);
    assert_eq!(rate(None, 500), 500);
    assert_eq!(rate(Some("gold"), 500), 100);
    assert_eq!(rate(Some("odd"), 500), 500);
    assert_eq!(rate(None, 300), 300);
    let too_much = Policy { fee_bps: 2_001, ..Policy::default() };
    assert_eq!(Terms::close(&offer(1), now(), &too_much, &Standing::default()), None);
}

#[test]
fn the_providers_word_is_enough_for_a_trusted_one_and_a_small_price_if_the_requester_agreed() {
    let allowed = |cents, agreed, tier| {
        let options = DealOptions { auto_approve: agreed, ..DealOptions::default() };
        let terms = close(&Offer { options, ..offer(cents) });
        Policy::default().allows_auto_approve(&terms, tier).is_ok()
    };
    assert!(allowed(5_000, Some(true), Tier::Trusted));
    assert!(!allowed(5_001, Some(true), Tier::Trusted));
    assert!(!allowed(5_000, Some(true), Tier::Verified));
    assert!(!allowed(5_000, Some(false), Tier::Trusted));
    assert!(!allowed(5_000, None, Tier::Trusted));
}

fn document(messages: &[Value]) -> Value {
    let parties = (AgentId([1; 20]), AgentId([2; 20]));
    let deal = DealId::new(now(), &[b"deal"]);
    close(&offer(30_000)).document(deal, parties, now(), messages)
}

/// The text is what Python's `json.dumps` with sorted keys writes, the hash from `hashlib`.
#[test]
fn the_hash_of_the_terms_is_what_other_programs_compute() {
    let messages = [json!({"z": 1, "a": "ü"}), json!({"response_status": "ACCEPTED"})];
    let document = document(&messages);
    let text = skep_base::json::to_string(&document).unwrap();
    expect_test::expect![[r#"{"accepted_at":"2026-11-15T09:00:00.000Z","agreed":{"auto_approve":false,"criteria":{"type":"http","url":"https://example.org/"},"deadline":"2026-11-22T09:00:00.000Z","description":"find it","dispute_window_s":0,"price":{"amount":"300.00","amount_minor":"30000","asset":"USD"},"review_deadline_s":null,"service_type":"research","stake":{"buyer_share_bps":5000,"effective_modifier_e4":10000,"fee_cap_bps":0,"fee_reserved":"0","hold":"30000","modifier_e4":10000,"policy":"on_release","price":"30000","remainder":"0","subsidy":"0","verifier_price":"0"},"timeout_s":1800,"verifier":null},"negotiation_id":"01a1de6f-5280-7f69-833b-5a9a75965400","provider":"0x0202020202020202020202020202020202020202","request":{"a":"ü","z":1},"requester":"0x0101010101010101010101010101010101010101","responses":[{"response_status":"ACCEPTED"}],"vcap_version":"1.0"}"#]].assert_eq(&text);
    let hash = hash(&document).unwrap();
    assert_eq!(
        hash.to_string(),
        "08a3a2ea46440ddf8c577b62be49bdfca741f0b183e5f27162b69cb95e356665"
    );
    assert_eq!(release_condition(&hash), format!("vcap:terms:sha256:{hash}"));
}

#[test]
fn every_word_of_every_message_is_in_the_hash() {
    let hash = |messages: &[Value]| hash(&document(messages)).unwrap();
    let (request, accepted) = (json!({"a": 1}), json!({"response_status": "ACCEPTED"}));
    let known = hash(&[request.clone(), accepted.clone()]);
    assert_eq!(known, hash(&[request.clone(), accepted.clone()]));
    // A field that nobody here knows, in the request or in a response.
    assert_ne!(known, hash(&[json!({"a": 1, "unknown": 0}), accepted.clone()]));
    let more = json!({"response_status": "ACCEPTED", "unknown": 0});
    assert_ne!(known, hash(&[request.clone(), more]));
    assert_ne!(known, hash(&[request.clone(), accepted.clone(), accepted.clone()]));
    assert_ne!(known, hash(&[accepted, request]));
}

#[test]
fn every_agreed_term_is_in_the_hash() {
    let terms = close(&offer(30_000));
    let agreed = serde_json::to_value(&terms).unwrap();
    let known = hash(&agreed).unwrap();
    let other = Offer {
        price: Money::new(Amount::new(30_001).unwrap(), Asset::USD),
        service_type: "other".to_owned(),
        description: "other".to_owned(),
        deadline: Some(now()),
        criteria: Hints::default(),
        requires_benchmark: false,
        options: DealOptions {
            remainder_policy: Some(RemainderPolicy::Advance),
            dispute_window_s: Some(1),
            timeout_s: Some(1),
            review_deadline_s: Some(1),
            verifier: Some(AgentId([3; 20])),
            verifier_price_minor: Amount::new(1),
            auto_approve: Some(true),
            offer_expires_at: None,
        },
    };
    let other = serde_json::to_value(close(&other)).unwrap();
    for (field, value) in other.as_object().unwrap() {
        let mut changed = agreed.clone();
        changed[field] = value.clone();
        assert_ne!(hash(&changed).unwrap(), known, "{field}");
    }
    assert_eq!(other.as_object().unwrap().len(), 11);
    assert_eq!(serde_json::from_value::<Terms>(agreed).unwrap(), terms);
}
