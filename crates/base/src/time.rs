//! Points in time, and where they come from.

use std::{
    fmt,
    str::FromStr,
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use crate::text;

#[cfg(test)]
mod tests;

const MS_PER_DAY: i64 = 86_400_000;

/// Milliseconds since 1970 in UTC, from 1970 to the end of 9999.
///
/// Arithmetic stops at both ends: a deadline that far away is the same as none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    pub const EPOCH: Timestamp = Timestamp(0);
    /// 9999-12-31T23:59:59.999Z, the last instant RFC 3339 can write.
    pub const MAX: Timestamp = Timestamp(253_402_300_799_999);

    /// The instant `ms` milliseconds after the epoch, or the nearest one in range.
    pub const fn from_ms(ms: i64) -> Self {
        if ms < 0 {
            Self::EPOCH
        } else if ms > Self::MAX.0 {
            Self::MAX
        } else {
            Timestamp(ms)
        }
    }

    pub const fn as_ms(self) -> i64 {
        self.0
    }

    /// Later by `duration`, at most [`Timestamp::MAX`].
    pub fn plus(self, duration: Duration) -> Self {
        Self::from_ms(self.0.saturating_add(whole_ms(duration)))
    }

    /// Earlier by `duration`, at least [`Timestamp::EPOCH`].
    pub fn minus(self, duration: Duration) -> Self {
        Self::from_ms(self.0.saturating_sub(whole_ms(duration)))
    }

    /// How long ago `earlier` was; zero if it is not earlier.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(u64::try_from(self.0 - earlier.0).unwrap_or(0))
    }
}

fn whole_ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date_of_day(self.0 / MS_PER_DAY);
        let ms = self.0 % MS_PER_DAY;
        let mut written = *b"0000-00-00T00:00:00.000Z";
        for (last, digits, mut number) in [
            (3, 4, year),
            (6, 2, month),
            (9, 2, day),
            (12, 2, ms / 3_600_000),
            (15, 2, ms / 60_000 % 60),
            (18, 2, ms / 1000 % 60),
            (22, 3, ms % 1000),
        ] {
            for place in (last + 1 - digits..=last).rev() {
                written[place] += (number % 10) as u8;
                number /= 10;
            }
        }
        text::write_ascii(f, &written)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseTimestampError {
    #[error("a time is written like 2026-11-15T09:00:00.000Z, in UTC and with at most 9 decimals")]
    Malformed,
    #[error("{field} is out of range in this time")]
    OutOfRange { field: &'static str },
}

impl FromStr for Timestamp {
    type Err = ParseTimestampError;

    /// Decimals beyond the millisecond are cut off.
    fn from_str(text: &str) -> Result<Self, ParseTimestampError> {
        let bytes = text.as_bytes();
        let (&[y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1, b'T', ref clock @ ..], Some(b'Z')) =
            (bytes, bytes.last())
        else {
            return Err(ParseTimestampError::Malformed);
        };
        let &[h0, h1, b':', n0, n1, b':', s0, s1, ref fraction @ .., b'Z'] = clock else {
            return Err(ParseTimestampError::Malformed);
        };
        let year = number(&[y0, y1, y2, y3])?;
        let month = number(&[m0, m1])?;
        let day = number(&[d0, d1])?;
        let hour = number(&[h0, h1])?;
        let minute = number(&[n0, n1])?;
        let second = number(&[s0, s1])?;
        let ms = fraction_ms(fraction)?;

        in_range("the year", year >= 1970)?;
        in_range("the month", (1..=12).contains(&month))?;
        in_range("the day", (1..=days_in_month(year, month)).contains(&day))?;
        in_range("the hour", hour < 24)?;
        in_range("the minute", minute < 60)?;
        // A leap second has no place in Unix time; whoever sends one sends a time that never comes.
        in_range("the second", second < 60)?;
        let of_day = ((hour * 60 + minute) * 60 + second) * 1000 + ms;
        Ok(Timestamp(day_of_date(year, month, day) * MS_PER_DAY + of_day))
    }
}

fn in_range(field: &'static str, holds: bool) -> Result<(), ParseTimestampError> {
    if holds { Ok(()) } else { Err(ParseTimestampError::OutOfRange { field }) }
}

fn number(digits: &[u8]) -> Result<i64, ParseTimestampError> {
    digits.iter().try_fold(0, |sum, digit| match digit {
        b'0'..=b'9' => Ok(sum * 10 + i64::from(digit - b'0')),
        _ => Err(ParseTimestampError::Malformed),
    })
}

fn fraction_ms(fraction: &[u8]) -> Result<i64, ParseTimestampError> {
    match fraction {
        [] => Ok(0),
        [b'.', digits @ ..] if (1..=9).contains(&digits.len()) => {
            let nanos = number(digits)? * 10_i64.pow(9 - digits.len() as u32);
            Ok(nanos / 1_000_000)
        }
        _ => Err(ParseTimestampError::Malformed),
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days in all the years from 1 on up to `year` and one more year of 365: only differences count.
const fn days_before_year(year: i64) -> i64 {
    let past = year - 1;
    year * 365 + past / 4 - past / 100 + past / 400
}

const DAYS_BEFORE_1970: i64 = days_before_year(1970);

fn day_of_date(year: i64, month: i64, day: i64) -> i64 {
    let before_month: i64 = (1..month).map(|m| days_in_month(year, m)).sum();
    days_before_year(year) - DAYS_BEFORE_1970 + before_month + day - 1
}

fn date_of_day(day: i64) -> (i64, i64, i64) {
    // The mean year is never longer than 366 days, so the guess is at most a little early.
    let mut year = 1970 + day / 366;
    while days_before_year(year + 1) - DAYS_BEFORE_1970 <= day {
        year += 1;
    }
    let mut rest = day - (days_before_year(year) - DAYS_BEFORE_1970);
    let mut month = 1;
    while rest >= days_in_month(year, month) {
        rest -= days_in_month(year, month);
        month += 1;
    }
    (year, month, rest + 1)
}

text::serde_as_text!(Timestamp, "a time like 2026-11-15T09:00:00.000Z");

/// Where a caller gets the time from; the rules themselves only ever see a [`Timestamp`].
pub trait Clock: Send + Sync + std::fmt::Debug {
    fn now(&self) -> Timestamp;
}

impl<C: Clock + ?Sized> Clock for std::sync::Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

/// A clock that moves only when it is told to.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    pub fn new(now: Timestamp) -> Self {
        ManualClock(AtomicI64::new(now.as_ms()))
    }

    pub fn set(&self, now: Timestamp) {
        self.0.store(now.as_ms(), Ordering::SeqCst);
    }

    /// Moves the clock on and returns its new time.
    pub fn advance(&self, by: Duration) -> Timestamp {
        let later = |ms| Timestamp::from_ms(ms).plus(by);
        let before =
            self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |ms| Some(later(ms).0));
        later(before.unwrap_or_else(|unchanged| unchanged))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.0.load(Ordering::SeqCst))
    }
}
