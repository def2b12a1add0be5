use proptest::prelude::*;
use serde_json::json;

use super::*;

fn money(text: &str) -> Money {
    text.parse().unwrap()
}

fn any_asset() -> impl Strategy<Value = Asset> {
    let all: Vec<Asset> = Asset::all().collect();
    prop::sample::select(all)
}

fn any_amount() -> impl Strategy<Value = Amount> {
    prop_oneof![0..=i64::MAX, 0..=100_000_i64].prop_map(|minor| Amount::new(minor).unwrap())
}

#[test]
fn assets_are_a_sorted_table() {
    let codes: Vec<&str> = Asset::all().map(Asset::code).collect();
    assert!(codes.is_sorted());
    assert!(codes.len() > 150 && codes.len() < 256);
    for asset in Asset::all() {
        assert_eq!(Asset::parse(asset.code()), Ok(asset));
        assert_eq!(serde_json::from_value::<Asset>(json!(asset)).unwrap(), asset);
        let code = asset.code().as_bytes();
        assert!(code.len() <= 8 && code.iter().all(u8::is_ascii_uppercase));
    }
    for (code, exponent) in
        [("USD", 2), ("USDC", 6), ("JPY", 0), ("BHD", 3), ("CLF", 4), ("EUR", 2)]
    {
        assert_eq!(Asset::parse(code).unwrap().exponent(), exponent);
    }
    assert_eq!(Asset::USDC.to_string(), "USDC");
    for unknown in ["", "usd", "USDT", "XAU", "XXX", "USD ", "DEM"] {
        assert!(Asset::parse(unknown).is_err(), "{unknown}");
    }
}

#[test]
fn decimals_are_read_exactly() {
    for (text, minor) in [
        ("12.50", 12_500_000),
        ("12.5", 12_500_000),
        ("12", 12_000_000),
        ("0", 0),
        ("0.000001", 1),
        ("9223372036854.775807", i64::MAX),
    ] {
        assert_eq!(Money::parse_decimal(text, Asset::USDC).unwrap().amount.minor(), minor);
    }
    let yen = Asset::parse("JPY").unwrap();
    assert_eq!(Money::parse_decimal("1250", yen).unwrap().amount.minor(), 1250);
}

#[test]
fn other_forms_are_refused() {
    use ParseMoneyError::{Malformed, MissingAsset, Negative, TooLarge, TooManyDecimals};
    for (text, error) in [
        ("", Malformed),
        (".", Malformed),
        ("1.", Malformed),
        (".5", Malformed),
        ("+1", Malformed),
        ("1e2", Malformed),
        ("1.5E1", Malformed),
        ("1,50", Malformed),
        ("1 000", Malformed),
        ("1_000", Malformed),
        ("1.2.3", Malformed),
        ("01", Malformed),
        ("00.5", Malformed),
        ("NaN", Malformed),
        ("\u{661}", Malformed),
        ("-1", Negative),
        ("-0.00", Negative),
        ("1.500", TooManyDecimals { given: 3, allowed: 2 }),
        ("92233720368547758.08", TooLarge),
        ("99999999999999999999999999", TooLarge),
    ] {
        assert_eq!(Money::parse_decimal(text, Asset::USD), Err(error), "{text}");
    }
    let yen = Asset::parse("JPY").unwrap();
    assert_eq!(Money::parse_decimal("1.0", yen), Err(TooManyDecimals { given: 1, allowed: 0 }));
    assert_eq!("12.50".parse::<Money>(), Err(MissingAsset));
    assert!(matches!("12.50 DEM".parse::<Money>(), Err(ParseMoneyError::Asset(_))));
    assert_eq!(
        "12.50  USD".parse::<Money>().unwrap_err().to_string(),
        "\" USD\" is not an asset that is known here"
    );
}

#[test]
fn printing() {
    for (text, shown, all) in [
        ("12.5 USD", "12.50 USD", "12.50"),
        ("12.5 USDC", "12.50 USDC", "12.500000"),
        ("0.000001 USDC", "0.000001 USDC", "0.000001"),
        ("1.2340 USDC", "1.234 USDC", "1.234000"),
        ("0 USDC", "0.00 USDC", "0.000000"),
        ("1.5 BHD", "1.50 BHD", "1.500"),
        ("7 JPY", "7 JPY", "7"),
        ("100 JPY", "100 JPY", "100"),
    ] {
        assert_eq!(money(text).to_string(), shown);
        assert_eq!(money(text).to_decimal(), all);
    }
}

#[test]
fn json_form() {
    let price = money("12.5 USDC");
    let text = r#"{"amount":"12.50","amount_minor":"12500000","asset":"USDC"}"#;
    assert_eq!(serde_json::to_string(&price).unwrap(), text);
    for text in [
        text,
        r#"{"asset":"USDC","amount":"12.5"}"#,
        r#"{"amount":12.5,"asset":"USDC"}"#,
        r#"{"amount": 12.500000 ,"asset":"USDC"}"#,
        r#"{"amount":"12\u002e5","asset":"USDC"}"#,
        r#"{"amount_minor":"12500000","asset":"USDC"}"#,
        r#"{"amount":null,"amount_minor":"12500000","asset":"USDC"}"#,
        r#"{"amount":12.50,"amount_minor":"12500000","asset":"USDC"}"#,
    ] {
        assert_eq!(serde_json::from_str::<Money>(text).unwrap(), price, "{text}");
        assert_eq!(crate::json::from_slice::<Money>(text.as_bytes()).unwrap(), price, "{text}");
    }
    for (text, reason) in [
        (r#"{"asset":"USDC"}"#, "amount or amount_minor is missing"),
        (r#"{"amount":"1"}"#, "missing field `asset`"),
        (r#"{"amount":"1","amount_minor":"1","asset":"USDC"}"#, "not the same"),
        (r#"{"amount_minor":1,"asset":"USDC"}"#, "minor units as a string"),
        (r#"{"amount_minor":"01","asset":"USDC"}"#, "leading zeros"),
        (r#"{"amount_minor":"-1","asset":"USDC"}"#, "digits"),
        (r#"{"amount":1.5e1,"asset":"USDC"}"#, "digits"),
        (r#"{"amount":-1,"asset":"USDC"}"#, "negative"),
        (r#"{"amount":true,"asset":"USDC"}"#, "a string or a number"),
        (r#"{"amount":[1],"asset":"USDC"}"#, "a string or a number"),
        (r#"{"amount":"1","asset":"USDC","more":1}"#, "unknown field"),
        // A double would have made 12.5 of it.
        (r#"{"amount":12.5000000000000000001,"asset":"USDC"}"#, "19 decimals"),
    ] {
        let error = serde_json::from_str::<Money>(text).unwrap_err().to_string();
        assert!(error.contains(reason), "{text}: {error}");
        assert!(crate::json::from_slice::<Money>(text.as_bytes()).is_err(), "{text}");
    }
}

/// Inside an untagged or flattened type serde keeps values in a buffer of its own.
#[test]
fn json_form_where_serde_buffers() {
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(untagged)]
    enum Price {
        Money(Money),
        Free(bool),
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct Line {
        name: String,
        #[serde(flatten)]
        price: Money,
    }
    let read = |text| serde_json::from_str::<Price>(text);
    let twelve = Price::Money(money("12 USD"));
    assert_eq!(read(r#"{"amount":"12.00","asset":"USD"}"#).unwrap(), twelve);
    assert_eq!(read(r#"{"amount":12,"asset":"USD"}"#).unwrap(), twelve);
    assert_eq!(read("true").unwrap(), Price::Free(true));
    assert!(read(r#"{"amount":12.0,"asset":"USD"}"#).is_err());
    let line = |amount: &str| {
        let text = format!(r#"{{"name":"x","amount":{amount},"asset":"USD"}}"#);
        crate::json::from_slice::<Line>(text.as_bytes())
    };
    assert_eq!(line(r#""12.00""#).unwrap().price, money("12 USD"));
    assert!(line("12.5").unwrap_err().to_string().contains("must be a string here"));
}

#[test]
fn amounts_in_json_are_strings() {
    let amount = Amount::new(125).unwrap();
    assert_eq!(json!(amount), json!("125"));
    assert_eq!(serde_json::from_value::<Amount>(json!("125")).unwrap(), amount);
    for wrong in [json!(125), json!(1.25), json!("1.25"), json!("+1"), json!(""), json!("00")] {
        assert!(serde_json::from_value::<Amount>(wrong).is_err());
    }
    assert_eq!("9223372036854775808".parse::<Amount>(), Err(ParseAmountError::TooLarge));
    assert_eq!(Amount::new(-1), None);
}

#[test]
fn arithmetic_stays_in_range_and_in_one_asset() {
    let (one, two) = (money("1 USD"), money("2 USD"));
    assert_eq!(one.checked_add(two), Ok(money("3 USD")));
    assert_eq!(two.checked_sub(one), Ok(one));
    assert_eq!(one.checked_sub(two), Err(MoneyError::Negative));
    let most = Money::new(Amount::MAX, Asset::USD);
    assert_eq!(most.checked_add(one), Err(MoneyError::Overflow));
    let mismatch = MoneyError::AssetMismatch { left: Asset::USD, right: Asset::USDC };
    assert_eq!(one.checked_add(money("1 USDC")), Err(mismatch));
    assert_eq!(one.checked_sub(money("1 USDC")), Err(mismatch));
}

#[test]
fn rounding() {
    let times = |minor, num, den, rounding| {
        Amount::new(minor).unwrap().mul_ratio(num, den, rounding).map(Amount::minor)
    };
    for (minor, floor, ceil, half_even) in
        [(5, 2, 3, 2), (7, 3, 4, 4), (8, 4, 4, 4), (1, 0, 1, 0), (3, 1, 2, 2)]
    {
        assert_eq!(times(minor, 1, 2, Rounding::Floor), Some(floor));
        assert_eq!(times(minor, 1, 2, Rounding::Ceil), Some(ceil));
        assert_eq!(times(minor, 1, 2, Rounding::HalfEven), Some(half_even));
    }
    assert_eq!(
        times(i64::MAX, i128::from(i64::MAX), i128::from(i64::MAX), Rounding::Ceil),
        Some(i64::MAX)
    );
    assert_eq!(times(i64::MAX, 2, 1, Rounding::Floor), None);
    assert_eq!(times(2, i128::MAX, 1, Rounding::Floor), None);
    assert_eq!(times(1, 1, 0, Rounding::Floor), None);
    assert_eq!(times(1, -1, 2, Rounding::Floor), None);
    assert_eq!(times(1, 1, -2, Rounding::Floor), None);
    assert_eq!(times(1, i128::MAX, i128::MAX, Rounding::HalfEven), Some(1));
}

proptest! {
    #[test]
    fn decimals_roundtrip(amount in any_amount(), asset in any_asset()) {
        let money = Money { amount, asset };
        prop_assert_eq!(Money::parse_decimal(&money.to_decimal(), asset), Ok(money));
        prop_assert_eq!(money.to_string().parse(), Ok(money));
        let text = crate::json::to_vec(&money).unwrap();
        prop_assert_eq!(crate::json::from_slice::<Money>(&text), Ok(money));
        prop_assert_eq!(serde_json::from_value::<Money>(json!(money)).unwrap(), money);
    }

    #[test]
    fn ratios_are_exact(
        amount in any_amount(),
        num in 0..1_000_000_000_000_i128,
        den in 1..1_000_000_000_000_i128,
    ) {
        let product = i128::from(amount.minor()) * num;
        let of = |rounding| amount.mul_ratio(num, den, rounding).map(|a| i128::from(a.minor()));
        let within = |exact: i128| (exact <= i128::from(i64::MAX)).then_some(exact);
        let (floor, ceil) = (product.div_euclid(den), (product + den - 1).div_euclid(den));
        prop_assert_eq!(of(Rounding::Floor), within(floor));
        prop_assert_eq!(of(Rounding::Ceil), within(ceil));
        // The nearest: whichever neighbour is closer, and on a tie the even one.
        let (below, above) = (product - floor * den, ceil * den - product);
        let nearest = match below.cmp(&above) {
            std::cmp::Ordering::Less => floor,
            std::cmp::Ordering::Greater => ceil,
            std::cmp::Ordering::Equal => if floor % 2 == 0 { floor } else { ceil },
        };
        prop_assert_eq!(of(Rounding::HalfEven), within(nearest));
    }

    #[test]
    fn shares_add_up(amount in any_amount(), part in 0..=10_000_i128) {
        let share = amount.mul_ratio(part, 10_000, Rounding::Floor).unwrap();
        let rest = amount.mul_ratio(10_000 - part, 10_000, Rounding::Ceil).unwrap();
        prop_assert_eq!(share.checked_add(rest), Some(amount));
        prop_assert_eq!(amount.checked_sub(share), Some(rest));
    }

    #[test]
    fn sums_are_those_of_integers(a in any_amount(), b in any_amount()) {
        let sum = i128::from(a.minor()) + i128::from(b.minor());
        let fits = (sum <= i128::from(i64::MAX)).then_some(sum);
        prop_assert_eq!(a.checked_add(b).map(|a| i128::from(a.minor())), fits);
        let rest = (a >= b).then(|| a.minor() - b.minor());
        prop_assert_eq!(a.checked_sub(b).map(Amount::minor), rest);
    }

    #[test]
    fn no_text_makes_it_panic(text in "[0-9.eE+\\- é]{0,24}", asset in any_asset()) {
        if let Ok(money) = Money::parse_decimal(&text, asset) {
            prop_assert!(money.to_decimal().starts_with(&text));
        }
    }
}
