//! Whether the platform has money to front (decision 11), as this node last saw it.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

/// How long nobody looks again after the pots were seen empty: a newcomer's deal is not asked to
/// look twice on a platform that fronts nothing.
const EMPTY_FOR: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Pots {
    empty_at: Mutex<Option<Instant>>,
}

impl Pots {
    pub(super) fn seen_empty(&self) {
        *self.empty_at.lock().unwrap_or_else(|e| e.into_inner()) = Some(Instant::now());
    }

    /// Somebody has put something in.
    pub(crate) fn filled(&self) {
        *self.empty_at.lock().unwrap_or_else(|e| e.into_inner()) = None;
    }

    pub(super) fn are_empty(&self) -> bool {
        let empty_at = *self.empty_at.lock().unwrap_or_else(|e| e.into_inner());
        empty_at.is_some_and(|at| at.elapsed() < EMPTY_FOR)
    }
}
