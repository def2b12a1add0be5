use serde_json::json;

use super::*;

const PLACE: Place<'static> =
    Place { marketplace: "skep", dev: false, now: Timestamp::from_ms(1_800_000_000_000) };

fn listing() -> Listing {
    serde_json::from_value(json!({
        "agent_id": "0x70997970c51812dc3a010c7d01b50e0d17dc79c8",
        "capability": "custom.acme.ocr", "price_usdc": "0.01", "max_latency_ms": 1000,
        "endpoint": "https://a.example/v1",
    }))
    .unwrap()
}

fn refused(change: impl Fn(&mut Listing)) -> ListingRefusal {
    let mut changed = listing();
    change(&mut changed);
    check(&changed, PLACE).unwrap_err()
}

#[test]
fn each_rule_says_no_by_its_own_name() {
    use ListingRefusal as R;
    let sound = check(&listing(), PLACE).unwrap();
    assert_eq!((sound.origin.as_str(), sound.verification), ("https://a.example:443", 0));
    let named = |text: &str| refused(|l| l.capability = text.to_owned());
    for name in
        ["text.translate", "ab", "Upper.case", "a..b", "custom.one", "a b.c", "custom.", "é.b.c"]
    {
        assert!(matches!(named(name), R::BadCapability { .. }), "{name}");
    }
    assert_eq!(refused(|l| l.price_usdc = "0.000000".parse().unwrap()), R::ZeroPrice);
    for given in [99, 60_001] {
        assert_eq!(refused(|l| l.max_latency_ms = given), R::BadLatency { given });
    }
    assert_eq!(refused(|l| l.description = Some("x".repeat(2001))), R::DescriptionTooLong);
    assert!(matches!(refused(|l| l.endpoint = "https://10.0.0.1".into()), R::BadEndpoint { .. }));
    assert_eq!(
        refused(|l| l.currency = Some("EUR".into())),
        R::BadCurrency { given: "EUR".into() }
    );
    let large = |change: fn(&mut Listing)| assert!(matches!(refused(change), R::TooLarge { .. }));
    large(|l| l.chain = Some("x".repeat(65)));
    large(|l| drop(l.extra.insert("note".into(), json!("x".repeat(4096)))));
    large(|l| {
        let tower = (0..65).fold(json!(1), |inner, _| json!([inner]));
        l.extra.insert("tower".into(), tower);
    });
    for (capability, given) in
        [("custom.a.b", "1"), ("custom.a.b", "v01"), ("text.summarize.short", "v2")]
    {
        let wrong = |l: &mut Listing| {
            l.capability = capability.to_owned();
            l.verification_version = Some(given.to_owned());
        };
        assert_eq!(refused(wrong), R::BadVersion { given: given.to_owned() });
    }
    let standard = |l: &mut Listing| {
        l.capability = "text.summarize.short".into();
        l.clarification_supported = Some(true);
    };
    assert_eq!(refused(standard), R::ClarifiesStandard);
    let mode = |text: &str| refused(|l| l.payment_mode = Some(text.parse().unwrap()));
    let (named, here) = ("other".to_owned(), "skep".to_owned());
    assert_eq!(mode("platform_escrow:other"), R::WrongEscrow { named, here });
    assert!(matches!(mode("custom_escrow:https://10.0.0.1"), R::BadEscrowAddress { .. }));
    let mut escrow = listing();
    escrow.payment_mode = Some("platform_escrow:skep".parse().unwrap());
    escrow.clarification_supported = Some(true);
    check(&escrow, PLACE).unwrap();
}

#[test]
fn a_version_ends_ninety_days_after_its_successor_came() {
    let mut listing = listing();
    listing.capability = "text.summarize.short".to_owned();
    let capability = capability::find(&listing.capability).unwrap();
    let (_, end) = capability.deprecated_versions().next().unwrap();
    let at = |now: Timestamp| check(&listing, Place { now, ..PLACE }).map(|s| s.verification);
    assert_eq!(at(Timestamp::from_ms(end.as_ms() - 1)), Ok(0));
    assert_eq!(at(end), Err(ListingRefusal::BadVersion { given: "v0".to_owned() }));
    listing.verification_version = Some("v1".to_owned());
    let v1 = check(&listing, Place { now: end, ..PLACE }).unwrap();
    assert_eq!(v1.verification, 1);
}

#[test]
fn ten_in_a_minute_and_no_more() {
    let at = |s: i64| Timestamp::from_ms(s * 1000);
    let ten: Vec<Timestamp> = (0..10).map(at).collect();
    assert_eq!(wait_for_turn(&ten[..9], at(9)), None);
    assert_eq!(wait_for_turn(&ten, at(9)), Some(Duration::from_secs(51)));
    assert_eq!(wait_for_turn(&ten, at(60)), None);
}
