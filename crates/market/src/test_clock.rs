//! The clock of a node that was made with `--dev`: deadlines of days in a test of seconds.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use skep_base::{Clock, Timestamp};
use skep_store::SystemClock;

/// The furthest that the clock can be moved ahead of the machine's.
pub const AHEAD_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The machine's time plus what it was moved ahead; it never goes back.
#[derive(Debug, Default)]
pub struct TestClock {
    ahead_ms: AtomicU64,
}

impl TestClock {
    /// How far it is ahead of the machine.
    pub fn ahead(&self) -> Duration {
        Duration::from_millis(self.ahead_ms.load(Ordering::Relaxed))
    }

    /// Moves it ahead, and says what time it is then.
    pub fn advance(&self, by: Duration) -> Timestamp {
        let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        let limit = u64::try_from(AHEAD_MAX.as_millis()).unwrap_or(u64::MAX);
        let moved = |ahead: u64| Some(ahead.saturating_add(by).min(limit));
        // The closure always answers, so this never fails.
        let _ = self.ahead_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, moved);
        self.now()
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        SystemClock.now().plus(self.ahead())
    }
}
