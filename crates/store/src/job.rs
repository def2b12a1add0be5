//! The outbox and the timers: work that is done after a commit, or at a later time.
//!
//! A worker leases jobs; a lease that runs out makes its job free again, and the number of
//! attempts tells a late worker that the job is no longer its own.

use std::{collections::BTreeMap, time::Duration};

use skep_base::{Timestamp, id::JobId};

use crate::turn::RouteKey;

/// Jobs of one destination under way at the same time: a slow one cannot take every worker.
pub const JOBS_PER_DESTINATION_MAX: usize = 4;
/// Failures in a row after which a destination is left alone for a while.
pub const BREAKER_FAILURES: i64 = 5;
/// How long a destination is left alone at first; doubled with each further failure.
pub const BREAKER_PAUSE: Duration = Duration::from_secs(30);
/// The longest that a destination is left alone.
pub const BREAKER_PAUSE_MAX: Duration = Duration::from_secs(3600);
/// Jobs looked at in one go.
pub(crate) const CANDIDATES_MAX: i64 = 256;

/// How many jobs a worker can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Of those that are done on this node.
    pub here: usize,
    /// Of those with a destination, which may be slow.
    pub outside: usize,
}

/// A job that a worker has leased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub route: RouteKey,
    pub id: JobId,
    pub kind: String,
    pub destination: String,
    pub due_at: Timestamp,
    pub body: String,
    /// Counts this attempt too.
    pub attempts: i64,
}

/// What is known of a destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Destination {
    pub(crate) under_way: usize,
    pub(crate) failures: i64,
    pub(crate) open_until: i64,
}

/// Which of the due jobs may be leased now: not those of a destination that is left alone, one to
/// try it after that, and never too many for one destination.
pub(crate) fn choose(
    due: Vec<Job>,
    mut destinations: BTreeMap<String, Destination>,
    now: Timestamp,
    mut room: Room,
) -> Vec<Job> {
    let mut chosen = Vec::new();
    for job in due {
        if job.destination.is_empty() {
            if room.here > 0 {
                room.here -= 1;
                chosen.push(job);
            }
            continue;
        }
        if room.outside == 0 {
            continue;
        }
        let known = destinations.entry(job.destination.clone()).or_default();
        let most = if known.failures >= BREAKER_FAILURES { 1 } else { JOBS_PER_DESTINATION_MAX };
        if known.open_until > now.as_ms() || known.under_way >= most {
            continue;
        }
        known.under_way += 1;
        room.outside -= 1;
        chosen.push(job);
    }
    chosen
}

/// How long a destination is left alone after so many failures in a row.
pub(crate) fn breaker_pause(failures: i64) -> Duration {
    let Ok(past) = u32::try_from(failures - BREAKER_FAILURES) else {
        return Duration::ZERO;
    };
    BREAKER_PAUSE.saturating_mul(1 << past.min(16)).min(BREAKER_PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Room = Room { here: 100, outside: 100 };

    fn job(n: u8, destination: &str) -> Job {
        Job {
            route: RouteKey::of(n),
            id: JobId::from_bytes([n; 16]),
            kind: "webhook".into(),
            destination: destination.into(),
            due_at: Timestamp::from_ms(0),
            body: "{}".into(),
            attempts: 1,
        }
    }

    #[test]
    fn a_slow_destination_gets_its_share_and_no_more() {
        let due = (0..10).map(|n| job(n, "slow")).chain([job(20, "quick"), job(21, "")]).collect();
        let chosen = choose(due, BTreeMap::new(), Timestamp::from_ms(0), ROOM);
        let names: Vec<_> = chosen.iter().map(|j| j.destination.as_str()).collect();
        assert_eq!(names, ["slow", "slow", "slow", "slow", "quick", ""]);
    }

    #[test]
    fn both_places_have_their_own_room() {
        let chosen = |here, outside| {
            let due = (0..3).map(|n| job(n, "")).chain((3..6).map(|n| job(n, "a"))).collect();
            let room = Room { here, outside };
            let chosen = choose(due, BTreeMap::new(), Timestamp::from_ms(0), room);
            chosen.iter().map(|j| j.id.as_bytes()[0]).collect::<Vec<_>>()
        };
        assert_eq!(chosen(0, 2), [3, 4]);
        assert_eq!(chosen(2, 0), [0, 1]);
        assert_eq!(chosen(1, 9), [0, 3, 4, 5]);
    }

    #[test]
    fn a_broken_destination_is_left_alone_then_tried_once() {
        let broken = Destination { under_way: 0, failures: 5, open_until: 100 };
        let known = BTreeMap::from([("down".to_owned(), broken)]);
        let at = |ms| {
            let due = vec![job(1, "down"), job(2, "down")];
            choose(due, known.clone(), Timestamp::from_ms(ms), ROOM).len()
        };
        assert_eq!((at(99), at(100)), (0, 1));
    }

    #[test]
    fn the_pause_doubles_up_to_an_hour() {
        let pauses: Vec<_> = [4, 5, 6, 7, 30].map(|n| breaker_pause(n).as_secs()).to_vec();
        assert_eq!(pauses, [0, 30, 60, 120, 3600]);
    }
}
