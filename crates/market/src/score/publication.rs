//! What others see of a track record: computed and signed when it is asked for, and kept for a
//! while.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use skep_base::{AgentId, Hash32, Timestamp, json::CanonicalError};
use skep_score::{
    Totals, Track,
    atep::{self, Breadth},
    parameters::Parameters,
    publish,
    track::Around,
};
use skep_store::{Bug, RecordKey, RouteKey, StoreError, StoredRecord};
use skep_wire::score::{
    BenchmarkTier, CERTIFICATE_FACTS_MAX, Fraction, NumberedFact, PASSPORT_HISTORY_MAX,
    Publication, ScoreView,
};

use super::{
    OperatorScore, fact, fact_of, operator_score_key, refusal::ScoreRefusal, stored_track,
};
use crate::{AgentRecord, Failure, Market, Refusal, identity::agent_key};

/// How long a publication is given out before it is made anew; it is valid for a day.
const KEPT: Duration = Duration::from_secs(3600);
/// Publications that are kept; when there are more, all are dropped.
const KEPT_MAX: usize = 20_000;
const MS: Duration = Duration::from_millis(1);

/// How broad an agent's work was: a record of its own.
pub(crate) fn breadth_key(agent: &AgentId) -> RecordKey {
    RecordKey { route: RouteKey::of(agent), kind: "breadth", id: agent.to_string() }
}

/// What a publication was made from: as long as it is the same, so is the publication.
#[derive(Clone, Debug, PartialEq)]
struct Stamp {
    /// Of the track record, the agent, its operator and its breadth.
    versions: [i64; 4],
    /// The track record's last fact.
    facts: u64,
    cooldown: bool,
    parameters: Parameters,
}

#[derive(Clone, Debug)]
pub(super) struct Kept {
    stamp: Stamp,
    pub(super) at: Timestamp,
    is_public: bool,
    pub(super) publication: Arc<Publication>,
}

/// Publications that were made of late.
#[derive(Debug, Default)]
pub(crate) struct Published(Mutex<HashMap<AgentId, Kept>>);

impl Published {
    fn get(&self, agent: &AgentId, stamp: &Stamp, now: Timestamp) -> Option<Kept> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(agent).filter(|k| k.stamp == *stamp && now.since(k.at) < KEPT).cloned()
    }

    fn keep(&self, agent: AgentId, made: Kept) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(agent, made);
    }
}

/// The three headers of 7.4, and what is really held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headline {
    pub score: u16,
    pub tier: BenchmarkTier,
    pub modifier: Fraction,
    pub effective_modifier: Fraction,
}

/// All that is known of an agent, as it was at one time.
#[derive(Debug)]
pub(super) struct Sight {
    pub(super) agent: AgentRecord,
    pub(super) track: Track,
    pub(super) breadth: Breadth,
    /// What was counted before the window that ends now.
    pub(super) base: Totals,
    pub(super) operator: OperatorScore,
    pub(super) now: Timestamp,
    stamp: Stamp,
}

/// The facts of the window.
#[derive(Debug)]
pub(super) struct Window {
    base: Totals,
    chain_before: Hash32,
    /// The newest, oldest first.
    pub(super) facts: Vec<NumberedFact>,
    /// The chain's end before the first of these.
    pub(super) chain_before_shown: Hash32,
}

impl Sight {
    pub(super) fn around<'a>(&'a self, window: &'a Window) -> Around<'a> {
        Around {
            now: self.now,
            base: &window.base,
            has_key: self.agent.current_key().is_some(),
            cooldown: self.stamp.cooldown,
            parameters: &self.stamp.parameters,
        }
    }

    fn badges(&self) -> atep::badges::Look<'_> {
        let Sight { track, breadth, base, now, .. } = self;
        atep::badges::Look { track, breadth, base, now: *now }
    }

    pub(super) fn is_published(&self) -> bool {
        self.track.is_published(self.now)
    }
}

pub(super) fn bug(error: impl std::fmt::Display) -> Failure {
    StoreError::Bug(Bug(error.to_string())).into()
}

pub(super) fn not_canonical(error: CanonicalError) -> Failure {
    bug(error)
}

impl Market {
    /// The agent whose passport has this id, which is all that a publication says of it.
    pub async fn agent_with_passport(&self, id: &str) -> Result<AgentId, Failure> {
        let owner = self.store.name_owner(crate::register::NAME_PASSPORT, id).await?;
        let unknown = || Refusal::UnknownAgent { agent: id.to_owned() };
        Ok(owner.and_then(|owner| owner.parse().ok()).ok_or_else(unknown)?)
    }

    /// Reads what a publication and a passport are made of.
    pub(super) async fn sight(&self, agent: &AgentId) -> Result<Sight, Failure> {
        let read = self.read_all(vec![agent_key(agent), breadth_key(agent)]).await?;
        let [known, breadth]: [Option<StoredRecord>; 2] =
            read.collect::<Vec<_>>().try_into().map_err(|_| bug("a record is missing"))?;
        let unknown = || Refusal::UnknownAgent { agent: agent.to_string() };
        let known = known.ok_or_else(unknown)?;
        let record: AgentRecord = own(&known)?;
        let operator = self.store.record(operator_score_key(&record.agent.operator)).await?;
        let now = self.store.now().await?;
        let version = |stored: &Option<StoredRecord>| stored.as_ref().map_or(0, |s| s.version);
        let (track_version, track, base) = stored_track(&self.store, agent, now).await?;
        // Something may have been counted since, or with a clock that was ahead: nobody believes a
        // publication that is older than what is in it.
        let latest = [track.last_at, track.benchmark.last_evaluated_at];
        let now = latest.into_iter().flatten().fold(now, Timestamp::max);
        let versions = [track_version, known.version, version(&operator), version(&breadth)];
        let operator: OperatorScore = own_or_default(operator)?;
        let cooldown = operator.in_cooldown(now);
        let stamp = Stamp { versions, facts: track.facts, cooldown, parameters: self.parameters() };
        let breadth = own_or_default(breadth)?;
        Ok(Sight { agent: record, track, breadth, base, operator, now, stamp })
    }

    /// Reads the facts of the window that ends then: those that are shown, and where they begin.
    pub(super) async fn window(&self, sight: &Sight, at: Timestamp) -> Result<Window, Failure> {
        let agent = sight.agent.agent.agent_id;
        let since = at.minus(skep_store::SCORE_WINDOW);
        // The last fact that counts no more.
        let last = self.store.score_facts_latest(agent, Some((since.plus(MS), 0)), 1).await?;
        let (base, chain_before) = match last.first() {
            Some(row) => (fact::totals(row.totals), row.chain),
            None => (Totals::default(), Hash32::default()),
        };
        // What was counted since the track record was read is not in it, and takes nobody's place.
        let after = i64::try_from(sight.track.facts + 1).unwrap_or(i64::MAX);
        let end = Some((sight.track.last_at.unwrap_or(since), after));
        let most = CERTIFICATE_FACTS_MAX + 1;
        let mut rows = self.store.score_facts_latest(agent, end, most).await?;
        rows.retain(|row| row.at > since);
        rows.reverse();
        let over = rows.len().saturating_sub(CERTIFICATE_FACTS_MAX);
        let chain_before_shown = match over {
            0 => chain_before,
            _ => rows[over - 1].chain,
        };
        let numbered = |row: &skep_store::ScoreFact| NumberedFact {
            n: row.n.unsigned_abs(),
            fact: fact_of(row),
        };
        let facts = rows[over..].iter().map(numbered).collect();
        Ok(Window { base, chain_before, facts, chain_before_shown })
    }

    /// Makes and signs a publication. Exports leave out what was imported.
    pub(super) fn publish(
        &self,
        sight: &Sight,
        window: &Window,
        with_imports: bool,
    ) -> Result<Publication, Failure> {
        let around = sight.around(window);
        let record = publish::Record {
            agent: &sight.agent.agent.agent_id,
            track: &sight.track,
            around: &around,
            chain_before: window.chain_before,
            facts: &window.facts,
            breadth: &sight.breadth,
            with_imports,
        };
        let publication = publish::publication(&record, &self.platform());
        publication.sign(&self.office.key).map_err(not_canonical)
    }

    async fn kept(&self, agent: &AgentId) -> Result<Kept, Failure> {
        let sight = self.sight(agent).await?;
        self.publication_of(&sight).await
    }

    pub(super) async fn publication_of(&self, sight: &Sight) -> Result<Kept, Failure> {
        let agent = sight.agent.agent.agent_id;
        if let Some(kept) = self.office.published.get(&agent, &sight.stamp, sight.now) {
            return Ok(kept);
        }
        let window = self.window(sight, sight.now).await?;
        let publication = Arc::new(self.publish(sight, &window, true)?);
        let made = Kept {
            stamp: sight.stamp.clone(),
            at: sight.now,
            is_public: sight.is_published(),
            publication,
        };
        self.office.published.keep(agent, made.clone());
        Ok(made)
    }

    /// An agent's signed score. A newcomer's is shown to itself only (decision 38).
    pub async fn publication(
        &self,
        agent: &AgentId,
        by: Option<&AgentId>,
    ) -> Result<Arc<Publication>, Failure> {
        let kept = self.kept(agent).await?;
        allow(agent, by, kept.is_public)?;
        Ok(kept.publication)
    }

    /// The score, if others may see it.
    pub(super) async fn public_score(
        &self,
        sight: &Sight,
    ) -> Result<Option<Arc<Publication>>, Failure> {
        if !sight.is_published() {
            return Ok(None);
        }
        Ok(Some(self.publication_of(sight).await?.publication))
    }

    /// What stands in the headers of answers about an agent; nothing for newcomers.
    pub async fn headline(&self, agent: &AgentId) -> Result<Option<Headline>, Failure> {
        let kept = self.kept(agent).await?;
        let publication = &kept.publication;
        Ok(kept.is_public.then(|| Headline {
            score: publication.score.value,
            tier: publication.score.tier,
            modifier: publication.escrow.modifier,
            effective_modifier: publication.escrow.effective_modifier,
        }))
    }

    /// All that people want to know about a score.
    pub async fn score_view(
        &self,
        agent: &AgentId,
        by: Option<&AgentId>,
    ) -> Result<ScoreView, Failure> {
        let sight = self.sight(agent).await?;
        allow(agent, by, sight.is_published())?;
        let kept = self.publication_of(&sight).await?;
        let has_key = sight.agent.current_key().is_some();
        let is_owner = by == Some(agent);
        Ok(ScoreView {
            agent_id: *agent,
            published: sight.is_published(),
            publication: Publication::clone(&kept.publication),
            trust_tier: atep::trust_tier(&sight.track, has_key),
            badges: sight.badges().shown(is_owner),
            benchmark_history: self.benchmark_history(agent, PASSPORT_HISTORY_MAX).await?,
            benchmark_events: sight.track.benchmark_events,
            operator_review: sight.operator.review(sight.now),
            unverified_imports: sight.track.informal.clone(),
        })
    }
}

fn allow(agent: &AgentId, by: Option<&AgentId>, is_public: bool) -> Result<(), ScoreRefusal> {
    match is_public || by == Some(agent) {
        true => Ok(()),
        false => Err(ScoreRefusal::NotPublished { agent: *agent }),
    }
}

fn own<T: serde::de::DeserializeOwned>(stored: &StoredRecord) -> Result<T, Failure> {
    skep_base::json::read_own(stored.body.as_bytes())
        .map_err(|error| bug(format!("a record is unreadable: {error}")))
}

fn own_or_default<T: serde::de::DeserializeOwned + Default>(
    stored: Option<StoredRecord>,
) -> Result<T, Failure> {
    stored.as_ref().map_or_else(|| Ok(T::default()), own)
}
