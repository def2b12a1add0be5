use std::time::Duration;

use skep_base::Timestamp;
use skep_store::{Decision, JobDraft, RouteKey, Store, job::BREAKER_FAILURES};

use crate::{
    fixture::{Fixture, START_MS, call},
    on_both_engines,
};

const LEASE: Duration = Duration::from_secs(30);

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
        let first = f.store.lease_jobs(10, LEASE).await.unwrap();
        assert_eq!((first.len(), first[0].attempts), (1, 1));
        assert_eq!(f.store.lease_jobs(10, LEASE).await.unwrap(), []);
        f.clock.advance(LEASE);
        let second = f.store.lease_jobs(10, LEASE).await.unwrap();
        assert_eq!(second[0].attempts, 2);
        assert!(!f.store.finish_job(first[0].clone()).await.unwrap(), "too late");
        assert!(f.store.finish_job(second[0].clone()).await.unwrap());
        f.clock.advance(LEASE);
        assert_eq!(f.store.lease_jobs(10, LEASE).await.unwrap(), []);
    }

    async fn a_timer_fires_at_its_time_not_before(f: Fixture) {
        add_job(&f.store, "", START_MS + 5000).await;
        f.clock.advance(Duration::from_millis(4999));
        assert_eq!(f.store.lease_jobs(10, LEASE).await.unwrap(), []);
        f.clock.advance(Duration::from_millis(1));
        assert_eq!(f.store.lease_jobs(10, LEASE).await.unwrap().len(), 1);
    }

    async fn a_destination_that_fails_is_left_alone_for_a_while(f: Fixture) {
        for _ in 0..3 {
            add_job(&f.store, "down", START_MS).await;
        }
        let mut failures = 0;
        while failures < BREAKER_FAILURES {
            for job in f.store.lease_jobs(10, LEASE).await.unwrap() {
                let at = Some(Timestamp::from_ms(START_MS));
                assert!(f.store.fail_job(job, "refused".into(), at).await.unwrap());
                failures += 1;
            }
        }
        assert_eq!(f.store.lease_jobs(10, LEASE).await.unwrap(), []);
        f.clock.advance(Duration::from_secs(120));
        let probe = f.store.lease_jobs(10, LEASE).await.unwrap();
        assert_eq!(probe.len(), 1, "one to try it");
        assert!(f.store.finish_job(probe[0].clone()).await.unwrap());
        assert_eq!(f.store.lease_jobs(10, LEASE).await.unwrap().len(), 2, "it is back");
    }

    async fn jobs_behind_a_dead_destination_starve_nobody(f: Fixture) {
        // More than are looked at in one go, all older than the timer.
        for _ in 0..300 {
            add_job(&f.store, "down", START_MS).await;
        }
        let mut failures = 0;
        while failures < BREAKER_FAILURES {
            for job in f.store.lease_jobs(10, LEASE).await.unwrap() {
                let at = Some(Timestamp::from_ms(START_MS));
                f.store.fail_job(job, "refused".into(), at).await.unwrap();
                failures += 1;
            }
        }
        add_job(&f.store, "", START_MS).await;
        add_job(&f.store, "up", START_MS).await;
        let leased = f.store.lease_jobs(10, LEASE).await.unwrap();
        let to: Vec<_> = leased.iter().map(|job| job.destination.as_str()).collect();
        assert_eq!(to, ["", "up"]);
    }

    async fn a_dead_job_stays_dead(f: Fixture) {
        add_job(&f.store, "a", START_MS).await;
        let job = f.store.lease_jobs(10, LEASE).await.unwrap().remove(0);
        assert!(f.store.fail_job(job, "gone".into(), None).await.unwrap());
        f.clock.advance(LEASE * 10);
        assert_eq!(f.store.lease_jobs(10, LEASE).await.unwrap(), []);
    }
}
