//! What counts for an agent's score: one row for each session or settlement, with the sums of all
//! up to it.
//!
//! What happened in a window is the difference of two sums: no row is read twice and none expires.

use std::{sync::Arc, time::Duration};

use skep_base::{AgentId, Asset, Hash32, Timestamp};

use crate::{
    account::AccountId,
    turn::{Lock, RecordKey},
};

/// The kind of record that a track record is.
pub(crate) const TRACK: &str = "score";

/// Where the rest of an agent's track record is: what not every fact changes. Whoever is told what
/// was counted of an agent has it loaded, too.
pub fn track_key(agent: &AgentId) -> RecordKey {
    RecordKey::own(TRACK, agent)
}

/// An agent of whom a turn is told what was counted. Its keys are written out with the call: what a
/// group does by itself, everybody in it waits for.
#[derive(Clone, Debug)]
pub struct WantedFacts {
    pub(crate) agent: AgentId,
    pub(crate) lock: Lock,
    /// What holds its facts where nothing else does.
    pub(crate) wallet: Arc<AccountId>,
    pub(crate) track: Arc<RecordKey>,
}

impl WantedFacts {
    pub fn of(agent: &AgentId, lock: Lock) -> WantedFacts {
        let wallet = Arc::new(AccountId::wallet(agent, Asset::USDC));
        WantedFacts { agent: *agent, lock, wallet, track: Arc::new(track_key(agent)) }
    }

    pub(crate) fn is_held(&self) -> bool {
        self.lock != Lock::None
    }
}

/// How old a fact is that counts no more; one of exactly this age does not.
pub const SCORE_WINDOW: Duration = Duration::from_secs(90 * 24 * 3600);

/// Sums over an agent's facts, from the first one on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScoreTotals {
    pub conduit: i64,
    pub conduit_ok: i64,
    pub proofs: i64,
    pub ap2: i64,
    pub ap2_ok: i64,
    pub released_cents: i64,
}

/// Where an agent's facts stand after one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScoreMark {
    pub at: Timestamp,
    pub n: i64,
    /// The end of the agent's chain.
    pub chain: Hash32,
    pub totals: ScoreTotals,
}

/// What a turn is told of an agent's facts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// The last one of all.
    pub last: Option<ScoreMark>,
    /// The sums of those that are older than the window.
    pub base: ScoreTotals,
}

/// One session or settlement that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScoreFact {
    pub agent: AgentId,
    /// When it ended; never before the one with the number before.
    pub at: Timestamp,
    /// 1, 2, … for each agent.
    pub n: i64,
    /// `conduit` or `ap2`.
    pub dimension: String,
    pub source: String,
    pub ok: bool,
    pub released_cents: i64,
    pub counterparty: Option<AgentId>,
    pub proof: Option<Hash32>,
    /// The end of the agent's chain after this fact.
    pub chain: Hash32,
    /// The sums after this fact.
    pub totals: ScoreTotals,
}

impl ScoreFact {
    pub fn mark(&self) -> ScoreMark {
        let ScoreFact { at, n, chain, totals, .. } = *self;
        ScoreMark { at, n, chain, totals }
    }
}

/// The columns of a fact, in the order in which they are read.
pub(crate) const COLUMNS: &str = "agent_id, at, n, dimension, source, ok, released_cents, \
    counterparty, proof, chain, conduit_sum, conduit_ok_sum, proofs_sum, ap2_sum, ap2_ok_sum, \
    cents_sum";

/// Facts that do not follow from the one before them, on PostgreSQL: on SQLite they do not stand by
/// agent.
pub(crate) const BROKEN: &str = "
    select agent_id || ' ' || cast(n as text) from (
        select f.*, coalesce(lag(n) over one, 0) as n_before,
               conduit_sum - coalesce(lag(conduit_sum) over one, 0) as conduit,
               conduit_ok_sum - coalesce(lag(conduit_ok_sum) over one, 0) as conduit_ok,
               proofs_sum - coalesce(lag(proofs_sum) over one, 0) as proofs,
               ap2_sum - coalesce(lag(ap2_sum) over one, 0) as ap2,
               ap2_ok_sum - coalesce(lag(ap2_ok_sum) over one, 0) as ap2_ok,
               cents_sum - coalesce(lag(cents_sum) over one, 0) as cents,
               coalesce(lag(at) over one, at) as at_before
        from score_facts_in_words f window one as (partition by agent_id order by n)) f
    where n <> n_before + 1 or at < at_before or cents <> released_cents
       or conduit <> case when dimension = 'conduit' then 1 else 0 end
       or conduit_ok <> case when dimension = 'conduit' and ok then 1 else 0 end
       or proofs <> case when dimension = 'conduit' and proof is not null then 1 else 0 end
       or ap2 <> case when dimension = 'ap2' then 1 else 0 end
       or ap2_ok <> case when dimension = 'ap2' and ok then 1 else 0 end";
