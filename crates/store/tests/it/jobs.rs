use std::time::Duration;

use skep_base::Timestamp;
use skep_store::{
    Decision, JobDraft, Room, RouteKey, Store,
    job::{BREAKER_FAILURES, JOBS_PER_DESTINATION_MAX},
};

use crate::{
    fixture::{Fixture, START_MS, call},
    on_both_engines,
};

const LEASE: Duration = Duration::from_secs(30);
const ROOM: Room = Room { here: 10, outside: 10 };

async fn add_job(store: &Store, destination: &'static str, due_ms: i64) {
    let mut call = call(vec![]);
    call.step = Box::new(move |turn| {
        turn.job(JobDraft {
            route: RouteKey::of("deal"),
            kind: "webhook",
            destination: destination.into(),
            due_at: Timestamp::from_ms(due_ms),
            body: "{}".into(),
        });
        Ok(Decision::Commit(String::new()))
    });
    store.call(call).await.unwrap();
}

on_both_engines! {
    async fn a_job_is_leased_once_until_its_lease_runs_out(f: Fixture) {
        add_job(&f.store, "a", START_MS).await;
        let first = f.store.lease_jobs(ROOM, LEASE).await.unwrap();
        assert_eq!((first.len(), first[0].attempts), (1, 1));
        assert_eq!(f.store.lease_jobs(ROOM, LEASE).await.unwrap(), []);
        f.clock.advance(LEASE);
        let second = f.store.lease_jobs(ROOM, LEASE).await.unwrap();
        assert_eq!(second[0].attempts, 2);
        assert!(!f.store.finish_job(first[0].clone()).await.unwrap(), "too late");
        assert!(f.store.finish_job(second[0].clone()).await.unwrap());
        f.clock.advance(LEASE);
        assert_eq!(f.store.lease_jobs(ROOM, LEASE).await.unwrap(), []);
    }

    async fn a_timer_fires_at_its_time_not_before(f: Fixture) {
        add_job(&f.store, "", START_MS + 5000).await;
        f.clock.advance(Duration::from_millis(4999));
        assert_eq!(f.store.lease_jobs(ROOM, LEASE).await.unwrap(), []);
        f.clock.advance(Duration::from_millis(1));
        assert_eq!(f.store.lease_jobs(ROOM, LEASE).await.unwrap().len(), 1);
    }

    async fn a_destination_that_fails_is_left_alone_for_a_while(f: Fixture) {
        for _ in 0..3 {
            add_job(&f.store, "down", START_MS).await;
        }
        let mut failures = 0;
        while failures < BREAKER_FAILURES {
            for job in f.store.lease_jobs(ROOM, LEASE).await.unwrap() {
                let at = Some(Timestamp::from_ms(START_MS));
                assert!(f.store.fail_job(job, "refused".into(), at).await.unwrap());
                failures += 1;
            }
        }
        assert_eq!(f.store.lease_jobs(ROOM, LEASE).await.unwrap(), []);
        f.clock.advance(Duration::from_secs(120));
        let probe = f.store.lease_jobs(ROOM, LEASE).await.unwrap();
        assert_eq!(probe.len(), 1, "one to try it");
        assert!(f.store.finish_job(probe[0].clone()).await.unwrap());
        assert_eq!(f.store.lease_jobs(ROOM, LEASE).await.unwrap().len(), 2, "it is back");
    }

    async fn jobs_behind_a_dead_destination_starve_nobody(f: Fixture) {
        // More than are looked at in one go, all older than the timer.
        for _ in 0..300 {
            add_job(&f.store, "down", START_MS).await;
        }
        let mut failures = 0;
        while failures < BREAKER_FAILURES {
            for job in f.store.lease_jobs(ROOM, LEASE).await.unwrap() {
                let at = Some(Timestamp::from_ms(START_MS));
                f.store.fail_job(job, "refused".into(), at).await.unwrap();
                failures += 1;
            }
        }
        add_job(&f.store, "", START_MS).await;
        add_job(&f.store, "up", START_MS).await;
        let leased = f.store.lease_jobs(ROOM, LEASE).await.unwrap();
        let to: Vec<_> = leased.iter().map(|job| job.destination.as_str()).collect();
        assert_eq!(to, ["", "up"]);
    }

    async fn jobs_behind_a_slow_destination_starve_nobody(f: Fixture) {
        // It answers in the end, so it is never left alone; its queue is long all the same.
        for _ in 0..300 {
            add_job(&f.store, "slow", START_MS).await;
        }
        assert_eq!(f.store.lease_jobs(ROOM, LEASE).await.unwrap().len(), JOBS_PER_DESTINATION_MAX);
        f.clock.advance(Duration::from_millis(1));
        add_job(&f.store, "up", START_MS + 1).await;
        let leased = f.store.lease_jobs(ROOM, LEASE).await.unwrap();
        assert_eq!(leased.iter().map(|job| job.destination.as_str()).collect::<Vec<_>>(), ["up"]);
        assert!(f.store.finish_job(leased[0].clone()).await.unwrap());
        f.clock.advance(LEASE);
        let again = f.store.lease_jobs(ROOM, LEASE).await.unwrap();
        assert_eq!(again.len(), JOBS_PER_DESTINATION_MAX, "a lease that ran out counts no more");
    }

    async fn jobs_behind_a_destination_on_trial_starve_nobody(f: Fixture) {
        for _ in 0..300 {
            add_job(&f.store, "down", START_MS).await;
        }
        let mut failures = 0;
        while failures < BREAKER_FAILURES {
            for job in f.store.lease_jobs(ROOM, LEASE).await.unwrap() {
                let at = Some(Timestamp::from_ms(START_MS));
                f.store.fail_job(job, "refused".into(), at).await.unwrap();
                failures += 1;
            }
        }
        f.clock.advance(Duration::from_secs(3600));
        assert_eq!(f.store.lease_jobs(ROOM, LEASE).await.unwrap().len(), 1, "one to try it");
        add_job(&f.store, "up", START_MS + 1).await;
        let leased = f.store.lease_jobs(ROOM, LEASE).await.unwrap();
        assert_eq!(leased.iter().map(|job| job.destination.as_str()).collect::<Vec<_>>(), ["up"]);
    }

    async fn a_turn_that_ends_a_job_closes_its_breaker(f: Fixture) {
        add_job(&f.store, "a", START_MS).await;
        let lease = async || f.store.lease_jobs(ROOM, LEASE).await.unwrap();
        for nth in 1..BREAKER_FAILURES {
            let job = lease().await.remove(0);
            assert_eq!(job.attempts, nth);
            let at = Some(Timestamp::from_ms(START_MS));
            f.store.fail_job(job, "refused".into(), at).await.unwrap();
        }
        let job = lease().await.remove(0);
        let mut done = call(vec![]);
        done.step = Box::new(move |turn| {
            turn.job_done(&job);
            Ok(Decision::Commit(String::new()))
        });
        f.store.call(done).await.unwrap();
        f.clock.advance(LEASE);
        assert_eq!(lease().await, [], "it is gone");
        // One more failure does not open the breaker: the count began anew.
        add_job(&f.store, "a", START_MS).await;
        let job = lease().await.remove(0);
        f.store.fail_job(job, "refused".into(), Some(Timestamp::from_ms(START_MS))).await.unwrap();
        assert_eq!(lease().await.len(), 1);
    }

    async fn a_dead_job_stays_dead(f: Fixture) {
        add_job(&f.store, "a", START_MS).await;
        let job = f.store.lease_jobs(ROOM, LEASE).await.unwrap().remove(0);
        assert!(f.store.fail_job(job, "gone".into(), None).await.unwrap());
        f.clock.advance(LEASE * 10);
        assert_eq!(f.store.lease_jobs(ROOM, LEASE).await.unwrap(), []);
    }
}
