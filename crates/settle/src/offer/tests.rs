use serde_json::{Value, json};
use skep_base::id::DealId;

use super::*;

fn request() -> Value {
    json!({
        "vcap_version": "1.0",
        "message_type": "negotiation_request",
        "requester": {"agent_id": "did:swarm:1"},
        "provider": {"agent_id": "did:swarm:2"},
        "request": {
            "service_type": "research",
            "description": "find it",
            "budget_amount": "300.00",
            "budget_currency": "USD",
        },
        "verification_hints": {"url": "https://example.org/", "auto_approve": true},
        "metadata": {"skep": {"dispute_window_s": 60, "auto_approve": true}, "trace": 7},
    })
}

/// A message with other values in the named places; null takes a field away.
fn with(mut message: Value, changes: &[(&str, Value)]) -> Value {
    for (pointer, value) in changes {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let parent = message.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        match value {
            Value::Null => drop(parent.remove(name)),
            value => drop(parent.insert(name.to_owned(), value.clone())),
        }
    }
    message
}

fn open(changes: &[(&str, Value)]) -> Result<Offer, String> {
    // As it is read from the wire: a number by its digits, not through a double.
    let text = with(request(), changes).to_string();
    let message = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    Offer::open(&message).map_err(|bad| bad.field)
}

fn response(changes: Value) -> NegotiationResponse {
    let mut message = json!({
        "vcap_version": "1.0",
        "message_type": "negotiation_response",
        "negotiation_id": DealId::new(Timestamp::from_ms(7), &[b"deal"]),
        "response_status": "COUNTERED",
    });
    message.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    serde_json::from_str(&message.to_string()).unwrap()
}

fn counter(by: Role, changes: Value) -> Result<Offer, String> {
    open(&[]).unwrap().counter(by, &response(changes)).map_err(|bad| bad.field)
}

fn cents(offer: &Offer) -> i64 {
    offer.price.amount.minor()
}

#[test]
fn a_price_is_read_from_its_digits_and_never_rounded() {
    let priced = |amount: Value| open(&[("/request/budget_amount", amount)]).map(|o| cents(&o));
    assert_eq!(priced(json!("300.00")), Ok(30_000));
    assert_eq!(priced(json!(300.1)), Ok(30_010));
    assert_eq!(priced(json!(0.29)), Ok(29));
    assert_eq!(priced(json!("300.001")), Err("request.budget_amount".to_owned()));
    assert_eq!(priced(json!("-1")), Err("request.budget_amount".to_owned()));
    assert_eq!(priced(json!(0)), Err("request.budget_amount".to_owned()));
    let minor = |minor: &str| open(&[("/request/budget_amount_minor", json!(minor))]);
    assert_eq!(minor("30000").map(|offer| cents(&offer)), Ok(30_000));
    assert_eq!(minor("30001"), Err("request.budget_amount".to_owned()));
}

#[test]
fn a_message_says_what_it_is() {
    let refused = |pointer: &str, value| open(&[(pointer, value)]).unwrap_err();
    assert_eq!(refused("/vcap_version", json!("2.0")), "vcap_version");
    assert!(open(&[("/vcap_version", json!("1.7"))]).is_ok());
    assert_eq!(refused("/message_type", json!("negotiation_response")), "message_type");
    assert_eq!(refused("/negotiation_id", json!("mine")), "negotiation_id");
    assert!(open(&[("/negotiation_id", json!(""))]).is_ok());
    let check = |changes| check_response(&response(changes)).map_err(|bad| bad.field);
    assert_eq!(check(json!({})), Err("counter_terms".to_owned()));
    assert_eq!(check(json!({"response_status": "ACCEPTED"})), Ok(()));
    assert_eq!(check(json!({"response_status": "DECLINED"})), Ok(()));
    assert_eq!(check(json!({"counter_terms": {"amount": 1}})), Ok(()));
    assert_eq!(check(json!({"vcap_version": "0.9"})), Err("vcap_version".to_owned()));
}

#[test]
fn no_term_is_longer_than_its_limit_or_shorter_than_nothing() {
    let long = "x".repeat(TEXT_LEN_MAX + 1);
    let refused = |pointer: &str, value| open(&[(pointer, value)]).unwrap_err();
    assert_eq!(refused("/request/description", json!(long)), "description");
    assert_eq!(refused("/verification_hints/url", json!(long)), "verification_hints.url");
    assert_eq!(refused("/verification_hints/selector", json!("")), "verification_hints.selector");
    assert_eq!(refused("/verification_hints/custom", json!([])), "verification_hints.custom");
    for field in ["dispute_window_s", "timeout_s", "review_deadline_s"] {
        let pointer = format!("/metadata/skep/{field}");
        assert!(open(&[(&pointer, json!(DURATION_S_MAX))]).is_ok());
        let refused = refused(&pointer, json!(DURATION_S_MAX + 1));
        assert_eq!(refused, format!("metadata.skep.{field}"));
    }
    assert_eq!(refused("/metadata/skep/timeout_s", json!(0)), "metadata.skep");
    assert_eq!(refused("/metadata/skep/review_deadline_s", json!(0)), "metadata.skep");
    assert!(open(&[("/metadata/skep/dispute_window_s", json!(0))]).is_ok());
    // An option that this program does not know would be agreed on and not kept.
    assert!(open(&[("/metadata/skep/surprise", json!(1))]).is_err());
}

#[test]
fn a_page_that_must_change_is_named_and_the_providers_word_is_no_engine() {
    let delta = ("/verification_hints/fingerprint_delta", json!(true));
    assert!(open(std::slice::from_ref(&delta)).is_ok());
    let nowhere = open(&[delta, ("/verification_hints/url", Value::Null)]);
    assert_eq!(nowhere, Err("verification_hints.fingerprint_delta".to_owned()));
    // It would be released when a verifier who has acknowledged stays silent.
    let word = json!("self_attested");
    let refused = open(&[("/verification_hints/type", word.clone())]);
    assert_eq!(refused, Err("verification_hints.type".to_owned()));
    let hints = json!({"provider_verification_hints": {"type": word}});
    assert_eq!(counter(Role::Provider, hints), Err("verification_hints.type".to_owned()));
}

#[test]
fn a_counter_offer_changes_what_it_names_and_nothing_else() {
    let first = open(&[]).unwrap();
    let terms = json!({"counter_terms": {
        "amount": "350.50", "description": "find all", "deadline_utc": "2027-01-01T00:00:00Z",
    }});
    let next = counter(Role::Provider, terms).unwrap();
    assert_eq!((cents(&next), next.description.as_str()), (35_050, "find all"));
    assert_eq!(next.deadline, Some("2027-01-01T00:00:00Z".parse().unwrap()));
    assert_eq!((&next.criteria, &next.options), (&first.criteria, &first.options));
    let said = json!({"counter_terms": {"rejection_reason": "hm"}});
    assert_eq!(counter(Role::Requester, said), Ok(first));
}

#[test]
fn a_counter_offers_price_counts_in_either_form_and_in_the_same_currency() {
    let price = |terms: Value| {
        let countered = counter(Role::Provider, json!({"counter_terms": terms}));
        countered.map(|offer| cents(&offer))
    };
    assert_eq!(price(json!({"amount": 350})), Ok(35_000));
    assert_eq!(price(json!({"amount": 350, "amount_minor": "35000"})), Ok(35_000));
    assert_eq!(price(json!({"amount_minor": "35000"})), Ok(35_000));
    assert_eq!(price(json!({"amount": 350, "currency": "USD"})), Ok(35_000));
    let amount = Err("counter_terms.amount".to_owned());
    assert_eq!(price(json!({"amount": 350, "amount_minor": "35001"})), amount);
    assert_eq!(price(json!({"amount": "350.001"})), amount);
    let currency = price(json!({"amount": 350, "currency": "EUR"}));
    assert_eq!(currency, Err("counter_terms.currency".to_owned()));
    assert!(price(json!({"amount_minor": "0"})).is_err());
}

#[test]
fn the_requester_says_what_is_checked_and_the_provider_fills_gaps() {
    let hints = json!({"url": "https://other.example/", "selector": "p", "auto_approve": true});
    let filled = counter(Role::Provider, json!({"provider_verification_hints": hints})).unwrap();
    assert_eq!(filled.criteria.url.as_deref(), Some("https://example.org/"));
    assert_eq!(filled.criteria.selector.as_deref(), Some("p"));
    let as_requester = counter(Role::Provider, json!({"verification_hints": hints})).unwrap();
    assert_eq!(as_requester, open(&[]).unwrap());
    let changed = counter(Role::Requester, json!({"verification_hints": hints})).unwrap();
    assert_eq!(changed.criteria.url.as_deref(), Some("https://other.example/"));
}

#[test]
fn only_the_requester_can_offer_to_take_the_providers_word() {
    let options = |auto: bool| json!({"metadata": {"skep": {"auto_approve": auto}}});
    let refused = counter(Role::Provider, options(true));
    assert_eq!(refused, Err("metadata.skep.auto_approve".to_owned()));
    let auto = |by, changes| counter(by, changes).unwrap().options.auto_approve;
    assert_eq!(auto(Role::Provider, options(false)), Some(false));
    assert_eq!(auto(Role::Requester, options(true)), Some(true));
    // What the requester offered stays as long as nobody takes it back.
    let silent = json!({"metadata": {"skep": {"timeout_s": 5}}});
    assert_eq!(auto(Role::Provider, silent), Some(true));
    // A hint alone is no offer.
    let hinted = open(&[("/metadata/skep/auto_approve", Value::Null)]).unwrap();
    assert_eq!(hinted.options.auto_approve, None);
}

#[test]
fn options_stay_until_they_are_changed_but_an_expiry_is_its_own_offers() {
    let until = ("/metadata/skep/offer_expires_at", json!("2027-01-01T00:00:00Z"));
    let first = open(&[until]).unwrap();
    assert!(first.options.offer_expires_at.is_some());
    let options = json!({"metadata": {"skep": {"remainder_policy": "reserve"}}});
    let next = first.counter(Role::Provider, &response(options)).unwrap();
    assert_eq!(next.options.dispute_window_s, Some(60));
    assert_eq!(next.options.offer_expires_at, None);
    let policy = next.options.remainder_policy;
    assert_eq!(policy, Some(skep_wire::settle::RemainderPolicy::Reserve));
}

#[test]
fn an_acceptance_that_names_another_price_is_none() {
    let offer = open(&[]).unwrap();
    let accept = |terms: Value| {
        let said = json!({"response_status": "ACCEPTED", "counter_terms": terms});
        offer.check_acceptance(&response(said))
    };
    let changed = Err(Changed::Price(PriceChanged { on_the_table: offer.price }));
    for same in [
        json!({}),
        json!({"amount": 300}),
        json!({"amount": "300.00", "currency": "USD", "amount_minor": "30000"}),
        json!({"amount_minor": "30000"}),
    ] {
        assert_eq!(accept(same.clone()), Ok(()), "{same}");
    }
    for other in [
        json!({"amount": 299.99}),
        json!({"amount": "300.001"}),
        json!({"amount_minor": "29999"}),
        json!({"amount": 300, "amount_minor": "29999"}),
        json!({"amount": 300, "currency": "EUR"}),
        json!({"currency": "EUR"}),
    ] {
        assert_eq!(accept(other.clone()), changed, "{other}");
    }
    assert_eq!(offer.check_acceptance(&response(json!({"response_status": "ACCEPTED"}))), Ok(()));
    for other in
        [json!({"description": "Less"}), json!({"deadline_utc": "2030-01-01T00:00:00.000Z"})]
    {
        assert!(matches!(accept(other.clone()), Err(Changed::Terms(_))), "{other}");
    }
    let options = json!({
        "response_status": "ACCEPTED", "metadata": {"skep": {"dispute_window_s": 77}},
    });
    let refused = offer.check_acceptance(&response(options)).unwrap_err();
    assert_eq!(refused.to_string().split(':').next(), Some("metadata.skep"));
}
