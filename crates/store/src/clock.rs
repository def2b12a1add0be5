//! The machine's clock, for those who have no database to ask.

use std::time::{SystemTime, UNIX_EPOCH};

use skep_base::{Clock, Timestamp};

/// Time as the operating system tells it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}
