//! Times as people type them: `30m`, `12h`, `3d`, or a date.

use std::{str::FromStr, time::Duration};

use skep_base::Timestamp;

/// The longest span that is understood: more is a slip of the finger.
const SPAN_S_MAX: u64 = 10 * 365 * 24 * 3600;

/// A length of time such as `90s`, `30m`, `12h`, `3d`, `2w` or `1d12h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Duration);

impl Span {
    pub fn seconds(self) -> u64 {
        self.0.as_secs()
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        let told = "a span is numbers with units, such as 30m, 12h, 3d or 1d12h";
        Span::read(text).ok_or_else(|| told.to_owned())
    }
}

impl Span {
    fn read(text: &str) -> Option<Span> {
        let mut seconds = 0_u64;
        let mut number = None::<u64>;
        for letter in text.chars() {
            if let Some(digit) = letter.to_digit(10) {
                let so_far = number.unwrap_or(0).checked_mul(10)?;
                number = Some(so_far.checked_add(u64::from(digit))?);
                continue;
            }
            let unit = match letter {
                's' => 1,
                'm' => 60,
                'h' => 3600,
                'd' => 24 * 3600,
                'w' => 7 * 24 * 3600,
                _ => return None,
            };
            let part = number.take()?.checked_mul(unit)?;
            seconds = seconds.checked_add(part).filter(|s| *s <= SPAN_S_MAX)?;
        }
        let whole = number.is_none() && !text.is_empty();
        whole.then_some(Span(Duration::from_secs(seconds)))
    }
}

/// A time, or how far it is from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    At(Timestamp),
    In(Span),
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<When, String> {
        let span = || Span::read(text).map(When::In);
        let read = text.parse().map(When::At).ok().or_else(span);
        read.ok_or_else(|| "say a time like 2026-11-15T09:00:00Z, or a span like 3d".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_people_write_them() {
        let seconds = |text: &str| Span::read(text).map(Span::seconds);
        assert_eq!(seconds("90s"), Some(90));
        assert_eq!(seconds("30m"), Some(1800));
        assert_eq!(seconds("1d12h"), Some(36 * 3600));
        assert_eq!(seconds("0s"), Some(0));
        for wrong in
            ["", "5", "h", "1.5h", "-1h", "3 d", "3days", "99999w", "18446744073709551616s"]
        {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_time_is_a_date_or_a_span() {
        let date = "2026-11-15T09:00:00Z".parse::<When>();
        assert_eq!(date, Ok(When::At(Timestamp::from_ms(1_794_733_200_000))));
        assert_eq!("3d".parse(), Ok(When::In(Span(Duration::from_secs(3 * 24 * 3600)))));
        assert!("tomorrow".parse::<When>().unwrap_err().contains("3d"));
    }
}
