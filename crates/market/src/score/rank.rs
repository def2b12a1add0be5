//! What search knows of a seller: its score in hundreds, its benchmark, whether it is new, and
//! whether its operator is under review. Listings follow in a job, a moment later.

use serde::{Deserialize, Serialize};
use skep_base::{AgentId, Did, Timestamp, id::ListingId};
use skep_hire::{listing::LISTINGS_PER_AGENT_MAX, rank::Seller, terms};
use skep_score::phase::NEWCOMER;
use skep_store::{Job, JobDraft, JobEnd, ListingFilter, Load, Lock, RouteKey, Turn};
use skep_wire::identity::Agent;

use super::{Scored, base_of, load_track};
use crate::{
    AgentRecord, Failure, Market,
    answer::Stop,
    hire::{ListingRecord, listing_key},
    identity::agent_key,
};

/// Jobs that put listings in order again.
pub(crate) const RANK_JOB: &str = "score.rank";
/// An operator's listings that one job looks at.
const PAGE: usize = 100;

/// Whose listings are looked at.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Whose {
    Listing(ListingId),
    Agent(AgentId),
    /// After the time and id of an earlier page's last one.
    Operator(Did, Option<(i64, String)>),
}

/// 11.3: whether an agent is in its first days.
pub(crate) fn is_newcomer(agent: &Agent, now: Timestamp) -> bool {
    now.since(agent.registered_at) < NEWCOMER
}

/// The list of an operator's listings.
fn operator_list(operator: &Did) -> String {
    format!("listings:{operator}")
}

/// Has listings put in order at that time, or at once.
pub(crate) fn rank_at(turn: &mut Turn, due_at: Timestamp, whose: &Whose) -> Result<(), Stop> {
    let route = match whose {
        Whose::Listing(id) => RouteKey::of(id),
        Whose::Agent(agent) => RouteKey::of(agent),
        Whose::Operator(operator, _) => RouteKey::of(operator),
    };
    let body = serde_json::to_string(whose).map_err(|e| skep_store::Bug(e.to_string()))?;
    let destination = String::new();
    turn.job(JobDraft { route, kind: RANK_JOB, destination, due_at, body });
    Ok(())
}

pub(crate) fn rank_now(turn: &mut Turn, whose: &Whose) -> Result<(), Stop> {
    rank_at(turn, turn.now(), whose)
}

impl Market {
    /// Puts listings in order again.
    pub(crate) async fn finish_rank(&self, job: Job) -> Result<(), Failure> {
        let Ok(whose) = serde_json::from_str::<Whose>(&job.body) else {
            self.store.fail_job(job, "the job names no listing".to_owned(), None).await?;
            return Ok(());
        };
        let (ids, next): (Vec<ListingId>, _) = match &whose {
            Whose::Listing(id) => (vec![*id], None),
            Whose::Agent(agent) => {
                let (terms, all) = (vec![terms::agent_term(agent)], ListingFilter::default());
                // What was published at the same moment may exceed the limit a little.
                let most = LISTINGS_PER_AGENT_MAX * 2;
                let page = self.store.search_listings(terms, all, None, most).await?;
                (page.rows.iter().filter_map(|row| row.id.parse().ok()).collect(), None)
            }
            Whose::Operator(operator, after) => {
                let list = operator_list(operator);
                let page = self.store.listed(&list, after.clone(), PAGE).await?;
                let last = page.last().filter(|_| page.len() == PAGE);
                let next = last.map(|last| (last.at.as_ms(), last.member.clone()));
                (page.iter().filter_map(|listed| listed.member.parse().ok()).collect(), next)
            }
        };
        let walked = match &whose {
            Whose::Operator(operator, _) => Some(*operator),
            _ => None,
        };
        for id in ids {
            self.rank(id, walked).await?;
        }
        let whose = walked.zip(next).map(|(walked, next)| Whose::Operator(walked, Some(next)));
        let end = JobEnd { route: job.route.clone(), id: job.id };
        let ended = self.run(Load::default(), vec![], move |turn| {
            turn.end_job(end.clone());
            whose.as_ref().map_or(Ok(()), |whose| rank_now(turn, whose))
        });
        ended.await.map(drop)
    }

    /// Puts one listing in order, with what is known of its seller now. If it was found on the list
    /// of an operator that its seller has left, it goes from there.
    async fn rank(&self, id: ListingId, walked: Option<Did>) -> Result<(), Failure> {
        let key = listing_key(&id);
        let known: Option<ListingRecord> = self.read(key.clone()).await?;
        let Some(known) = known else { return Ok(()) };
        let agent = known.listing.agent_id;
        let operator = self.agent_record(&agent).await?.agent.operator;
        let records = vec![(key.clone(), Lock::Exclusive), (agent_key(&agent), Lock::None)];
        let mut load = Load { records, ..Load::default() };
        load_track(&mut load, &agent, &operator, Lock::None);
        let market = self.clone();
        let ranked = self.run(load, vec![], move |turn| {
            let Some(before) = turn.record::<ListingRecord>(&key)? else { return Ok(()) };
            let seller: Option<AgentRecord> = turn.record(&agent_key(&agent))?;
            if seller.is_none_or(|seller| seller.agent.operator != operator) {
                // It was just attached to another one, and is ranked for that by itself.
                return Ok(());
            }
            if let Some(left) = walked.filter(|walked| *walked != operator) {
                turn.delist(&operator_list(&left), id);
            }
            let list = operator_list(&operator);
            if before.is_removed() {
                turn.delist(&list, id);
                return Ok(());
            }
            turn.enlist(&list, id);
            let seller = market.seller(turn, Scored { agent, operator: &operator })?;
            before.rank_with(turn, seller)
        });
        ranked.await.map(drop)
    }

    /// What search shows of a seller. Its records were loaded.
    fn seller(&self, turn: &Turn, who: Scored<'_>) -> Result<Seller, Stop> {
        let (track, base) = (self.track_of(turn, &who.agent)?, base_of(turn, &who.agent)?);
        let parameters = self.parameters();
        let around = who.around(self, turn, &base, &parameters)?;
        let (_, score) = track.score(&around);
        let now = turn.now();
        let shown = track.to_show(&score, now);
        let agent: Option<AgentRecord> = turn.record(&agent_key(&who.agent))?;
        // A score that is not published moves nothing (11.2).
        let published = track.is_published(now);
        Ok(Seller {
            score_hundreds: if published { u8::try_from(shown.hundreds).unwrap_or(10) } else { 0 },
            benchmark: shown.held,
            phase: shown.phase,
            newcomer: agent.is_some_and(|agent| is_newcomer(&agent.agent, now)),
            under_review: around.cooldown,
        })
    }
}
