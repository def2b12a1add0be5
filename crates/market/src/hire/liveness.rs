//! Whether sellers are still there: each listing has a timer that asks its endpoint again.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use skep_base::{Timestamp, hash::sha256_parts, id::ListingId};
use skep_hire::listing::{CHECK_EVERY, DEAD_KEPT, FAILURES_MAX};
use skep_store::{Job, JobDraft, JobEnd, Load, Lock, RouteKey, Turn};

use super::{HireRefusal, ListingRecord, listing_key, load_told};
use crate::{
    AgentRecord, Failure, Market,
    answer::Stop,
    identity::agent_key,
    score::{Whose, is_newcomer, rank_now},
};

/// Jobs that ask an endpoint whether its seller is still there.
pub(crate) const CHECK_JOB: &str = "listing.check";
/// The part of a wait by which it may be longer: what was published together is not asked together
/// for ever.
const JITTER_PERCENT: u32 = 10;
/// When to try again if this node cannot ask.
const ELSEWHERE_AFTER: Duration = Duration::from_secs(60);

#[derive(Debug, Serialize, Deserialize)]
struct CheckJob {
    listing: ListingId,
}

impl ListingRecord {
    /// Sets the timer. Endpoints are destinations: a slow one delays nobody else.
    pub(super) fn wait(&mut self, turn: &mut Turn, after: Duration) {
        let listing = self.listing.id();
        let due_at = turn.now().plus(jittered(after, &listing, turn.now()));
        let body = format!("{{\"listing\":\"{listing}\"}}");
        let (route, destination) = (RouteKey::of(listing), self.origin.clone());
        self.timer = Some(turn.job(JobDraft { route, kind: CHECK_JOB, destination, due_at, body }));
    }

    /// What an answer, or none, makes of it.
    fn asked(&mut self, now: Timestamp, answered: bool) {
        self.checked_at = Some(now);
        if answered {
            (self.alive, self.proven, self.failures, self.dead_since) = (true, true, 0, None);
            return;
        }
        self.failures = self.failures.saturating_add(1);
        if self.failures >= FAILURES_MAX && self.alive {
            (self.alive, self.dead_since) = (false, Some(now));
        }
    }

    fn is_given_up(&self, now: Timestamp) -> bool {
        self.dead_since.is_some_and(|since| since.plus(DEAD_KEPT) <= now)
    }
}

/// The same listing at the same time always waits as long: chance has no place in a step.
fn jittered(wait: Duration, listing: &ListingId, now: Timestamp) -> Duration {
    let hash = sha256_parts(&[listing.as_bytes(), &now.as_ms().to_be_bytes()]);
    let [a, b, ..] = hash.as_bytes();
    let part = u32::from(u16::from_be_bytes([*a, *b]));
    wait + wait * JITTER_PERCENT / 100 * part / u32::from(u16::MAX)
}

impl Market {
    /// Asks a listing's endpoint, notes what came of it, and sets the timer anew.
    pub(crate) async fn finish_check(&self, job: Job) -> Result<(), Failure> {
        let Ok(CheckJob { listing }) = serde_json::from_str(&job.body) else {
            self.store.fail_job(job, "the job names no listing".to_owned(), None).await?;
            return Ok(());
        };
        let key = listing_key(&listing);
        let known: Option<ListingRecord> = self.read(key.clone()).await?;
        let Some(known) = known.filter(|known| known.timer == Some(job.id)) else {
            self.store.finish_job(job).await?;
            return Ok(());
        };
        let nonce = format!("{}-{}", job.id, job.attempts);
        let agent = known.listing.agent_id;
        let answered = match self.ask_endpoint(&known.origin, agent, &nonce).await {
            Ok(()) => true,
            Err(HireRefusal::NoEgress) => {
                let later = self.store.now().await?.plus(ELSEWHERE_AFTER);
                let here = Job { destination: String::new(), ..job };
                let error = "this node asks no endpoints".to_owned();
                self.store.fail_job(here, error, Some(later)).await?;
                return Ok(());
            }
            Err(_) => false,
        };
        let mut load = Load { records: vec![(key.clone(), Lock::Exclusive)], ..Load::default() };
        load_told(&mut load, &[agent]);
        let noted = self.run(load, vec![], move |turn| {
            let known: Option<ListingRecord> = turn.record(&key)?;
            match known.filter(|known| known.timer == Some(job.id)) {
                Some(known) => note(turn, known, &job, answered),
                // Published anew or removed meanwhile.
                None => {
                    turn.end_job(JobEnd { route: job.route.clone(), id: job.id });
                    Ok(())
                }
            }
        });
        noted.await.map(drop)
    }
}

fn note(turn: &mut Turn, before: ListingRecord, job: &Job, answered: bool) -> Result<(), Stop> {
    let now = turn.now();
    let mut record = before.clone();
    record.timer = None;
    record.asked(now, answered);
    match answered {
        true => turn.job_done(job),
        false => turn.end_job(JobEnd { route: job.route.clone(), id: job.id }),
    }
    if record.is_given_up(now) {
        return record.remove(turn, now, Some("dead for 30 days"));
    }
    record.wait(turn, CHECK_EVERY);
    let agent: Option<AgentRecord> = turn.record(&agent_key(&record.listing.agent_id))?;
    let is_new = agent.is_some_and(|agent| is_newcomer(&agent.agent, now));
    if record.seller.newcomer && !is_new {
        rank_now(turn, &Whose::Listing(record.listing.id()))?;
    }
    record.put(turn, Some(&before))
}
