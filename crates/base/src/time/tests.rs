use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn known_instants() {
    for (text, ms) in [
        ("1970-01-01T00:00:00.000Z", 0),
        ("1970-12-31T23:59:59.999Z", 31_535_999_999),
        ("2000-02-29T00:00:00.000Z", 951_782_400_000),
        ("2000-03-01T00:00:00.000Z", 951_868_800_000),
        ("2001-09-09T01:46:40.000Z", 1_000_000_000_000),
        ("2026-11-15T09:00:00.000Z", 1_794_733_200_000),
        ("2038-01-19T03:14:07.000Z", 2_147_483_647_000),
        ("2100-02-28T12:00:00.001Z", 4_107_499_200_001),
        ("2100-03-01T00:00:00.000Z", 4_107_542_400_000),
        ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
    ] {
        let at = Timestamp::from_ms(ms);
        assert_eq!(at.to_string(), text);
        assert_eq!(text.parse(), Ok(at));
        assert_eq!(json!(at), json!(text));
        assert_eq!(serde_json::from_value::<Timestamp>(json!(text)).unwrap(), at);
    }
}

/// Every day to the end of 9999, counted one by one.
#[test]
fn dates_follow_the_calendar() {
    let (mut year, mut month, mut day) = (1970, 1, 1);
    for count in 0..=Timestamp::MAX.as_ms() / MS_PER_DAY {
        assert_eq!(date_of_day(count), (year, month, day));
        assert_eq!(day_of_date(year, month, day), count);
        let february = if year % 400 == 0 || year % 4 == 0 && year % 100 != 0 { 29 } else { 28 };
        let length = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month as usize - 1];
        (year, month, day) = match (month, day) {
            (12, 31) => (year + 1, 1, 1),
            (_, last) if last == length => (year, month + 1, 1),
            _ => (year, month, day + 1),
        };
    }
    assert_eq!((year, month, day), (10_000, 1, 1));
}

#[test]
fn fractions_are_cut_to_milliseconds() {
    let at = |fraction: &str| format!("2026-01-01T00:00:00{fraction}Z").parse::<Timestamp>();
    let base = at("").unwrap().as_ms();
    for (fraction, ms) in
        [(".0", 0), (".5", 500), (".05", 50), (".123", 123), (".1239", 123), (".999999999", 999)]
    {
        assert_eq!(at(fraction).unwrap().as_ms() - base, ms, "{fraction}");
    }
    for wrong in [".", ".1234567890", ",5", ".5a", "5"] {
        assert_eq!(at(wrong), Err(ParseTimestampError::Malformed), "{wrong}");
    }
}

#[test]
fn other_forms_are_refused() {
    for wrong in [
        "",
        "Z",
        "2026-11-15",
        "2026-11-15T09:00:00",
        "2026-11-15T09:00Z",
        "2026-11-15 09:00:00Z",
        "2026-11-15t09:00:00Z",
        "2026-11-15T09:00:00z",
        "2026-11-15T09:00:00+00:00",
        "2026-11-15T09:00:00-01:00Z",
        "+2026-11-15T09:00:00Z",
        "02026-11-15T09:00:00Z",
        "2026-1-15T09:00:00Z",
        "2026-11-15T9:00:00Z",
        "2026-11-15T09:00:00Z ",
        "2026-11-15T09:00:+0Z",
        "2026-11-1\u{e9}09:00:00Z",
    ] {
        assert_eq!(wrong.parse::<Timestamp>(), Err(ParseTimestampError::Malformed), "{wrong}");
    }
    for (wrong, field) in [
        ("1969-12-31T23:59:59Z", "the year"),
        ("2026-00-15T09:00:00Z", "the month"),
        ("2026-13-15T09:00:00Z", "the month"),
        ("2026-11-00T09:00:00Z", "the day"),
        ("2026-11-31T09:00:00Z", "the day"),
        ("2026-02-29T09:00:00Z", "the day"),
        ("2100-02-29T09:00:00Z", "the day"),
        ("2026-11-15T24:00:00Z", "the hour"),
        ("2026-11-15T09:60:00Z", "the minute"),
        ("2016-12-31T23:59:60Z", "the second"),
    ] {
        assert_eq!(wrong.parse::<Timestamp>(), Err(ParseTimestampError::OutOfRange { field }));
    }
}

#[test]
fn arithmetic_stops_at_both_ends() {
    let hour = Duration::from_secs(3600);
    let noon: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
    assert_eq!(noon.plus(hour).to_string(), "2026-11-15T13:00:00.000Z");
    assert_eq!(noon.minus(hour).to_string(), "2026-11-15T11:00:00.000Z");
    assert_eq!(noon.plus(hour).since(noon), hour);
    assert_eq!(noon.since(noon.plus(hour)), Duration::ZERO);
    assert_eq!(noon.plus(Duration::MAX), Timestamp::MAX);
    assert_eq!(noon.minus(Duration::MAX), Timestamp::EPOCH);
    assert_eq!(Timestamp::from_ms(-1), Timestamp::EPOCH);
    assert_eq!(Timestamp::from_ms(i64::MAX), Timestamp::MAX);
}

#[test]
fn a_manual_clock_moves_when_told() {
    let clock = ManualClock::new(Timestamp::from_ms(1000));
    assert_eq!(clock.now().as_ms(), 1000);
    assert_eq!(clock.advance(Duration::from_millis(5)).as_ms(), 1005);
    clock.set(Timestamp::EPOCH);
    assert_eq!(clock.now(), Timestamp::EPOCH);
    let shared: std::sync::Arc<dyn Clock> = std::sync::Arc::new(clock);
    assert_eq!(shared.now(), Timestamp::EPOCH);
}

proptest! {
    #[test]
    fn every_instant_roundtrips(ms in 0..=Timestamp::MAX.as_ms()) {
        let at = Timestamp::from_ms(ms);
        prop_assert_eq!(at.to_string().parse(), Ok(at));
    }

    #[test]
    fn text_sorts_as_time(a in 0..=Timestamp::MAX.as_ms(), b in 0..=Timestamp::MAX.as_ms()) {
        let (a, b) = (Timestamp::from_ms(a), Timestamp::from_ms(b));
        prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
    }

    #[test]
    fn no_text_makes_it_panic(text in "[0-9TZ:.\\-é]{0,32}") {
        if let Ok(at) = text.parse::<Timestamp>() {
            prop_assert_eq!(at.to_string()[..19].to_owned(), text[..19].to_owned());
        }
    }
}
