//! One turn of a use case: what is loaded and locked, and the one write set that it makes.
//!
//! A [`Call`] says by keys what it needs; the engine loads and locks that in a fixed order and
//! hands it to the call's step as a [`Turn`]. The step is pure: it may be run again on fresh data
//! when another writer was faster.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use skep_base::{
    AgentId, Hash32, Timestamp,
    hash::sha256_parts,
    id::{EventId, Id, JobId, Kind as IdKind, TransferId},
    json::read_own,
};

use crate::{
    account::AccountId,
    book::Book,
    event::Event,
    job::Job,
    list::ListChanges,
    listing::{Indexed, ListingChanges, Payload},
    score_fact::{Counted, ScoreFact, WantedFacts},
};

/// What keeps the rows of one deal, or of one agent, on one shard.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RouteKey(String);

impl RouteKey {
    /// The route that `key` names.
    pub fn of(key: impl fmt::Display) -> RouteKey {
        RouteKey(key.to_string())
    }

    /// The key as it is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The place of a machine's state: its route, what kind of thing it is and which one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey {
    pub route: RouteKey,
    pub kind: &'static str,
    pub id: String,
}

impl RecordKey {
    /// A record that has its route to itself.
    pub fn own(kind: &'static str, id: impl fmt::Display) -> RecordKey {
        let id = id.to_string();
        RecordKey { route: RouteKey(id.clone()), kind, id }
    }

    pub(crate) fn is_rarely_written(&self) -> bool {
        RARELY_WRITTEN.contains(&self.kind)
    }
}

/// Kinds of records of which most agents have none and which hardly ever change, while every
/// settlement asks for them. An engine may know them as long as nobody has written any.
pub(crate) const RARELY_WRITTEN: [&str; 1] = ["operator_score"];

/// Whether a loaded record may be written by the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lock {
    /// Others may change it meanwhile; who writes it all the same holds something else that they
    /// would need.
    None,
    /// Read only, and nobody changes it until the turn is over.
    Shared,
    /// Nobody else changes it until the turn is over.
    Exclusive,
}

/// What a call needs, by keys.
#[derive(Clone, Debug, Default)]
pub struct Load {
    pub records: Vec<(RecordKey, Lock)>,
    pub accounts: Vec<AccountId>,
    /// Transfers, with the accounts that they touch.
    pub transfers: Vec<(RouteKey, TransferId)>,
    /// Unique names, as (kind, name).
    pub names: Vec<(&'static str, String)>,
    /// Agents of whom the turn is told what was counted, and what before the window that ends now;
    /// their track records are loaded, too. Only who holds them exclusively adds facts or writes
    /// a track record.
    pub facts: Vec<WantedFacts>,
}

/// How long a guard is kept, at the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    Until(Timestamp),
    /// From when the call runs, by the database's time: callers need not ask for that first.
    For(Duration),
}

impl Kept {
    /// When a guard that is set at `now` may be forgotten.
    pub(crate) fn until(self, now: Timestamp) -> Timestamp {
        match self {
            Kept::Until(at) => at,
            Kept::For(time) => now.plus(time),
        }
    }
}

/// Makes a repeated request the same request: a nonce or an idempotency key.
#[derive(Clone, Debug)]
pub struct Guard {
    /// Whose key it is: two callers may use the same word.
    pub scope: String,
    pub key: String,
    /// What the request said: the same key with another content is a conflict.
    pub fingerprint: Hash32,
    pub kept: Kept,
}

/// What a call answered, as it is stored beside its guard and given again to a retry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub refused: bool,
    /// JSON.
    pub body: String,
}

/// The step's word, with its answer as JSON.
#[derive(Debug)]
pub enum Decision {
    /// Write what the turn holds.
    Commit(String),
    /// Write nothing but the guards.
    Refuse(String),
    /// Write nothing at all: whoever asked had no right to use a guard up.
    Ignore(String),
}

/// The pure part of a use case.
pub type Step = Box<dyn FnMut(&mut Turn) -> Result<Decision, Bug> + Send>;

/// One use case with its inputs, ready to be run.
pub struct Call {
    pub load: Load,
    pub guards: Vec<Guard>,
    pub step: Step,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("load", &self.load).field("guards", &self.guards).finish()
    }
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ran now; a refusal is an answer too.
    Done(Answer),
    /// It ran before: this is what it answered then.
    Replayed(Answer),
    /// Its guard with this place in the list was used for another request.
    Conflict { guard: usize },
}

/// An invariant is broken: the turn is not written, and somebody has to look.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Bug(pub String);

/// A record as loaded.
#[derive(Clone, Debug)]
pub struct StoredRecord {
    pub version: i64,
    pub body: String,
}

/// A record to write, guarded by the version that was loaded.
#[derive(Clone, Debug)]
pub struct RecordWrite {
    pub key: RecordKey,
    /// 0: the record must not exist yet.
    pub old_version: i64,
    pub body: String,
}

/// Work to be done after the commit, or at a later time.
#[derive(Clone, Debug)]
pub struct JobDraft {
    pub route: RouteKey,
    /// Which performer does it.
    pub kind: &'static str,
    /// Where it goes, for limits and breakers; empty for work on this node.
    pub destination: String,
    pub due_at: Timestamp,
    /// JSON.
    pub body: String,
}

/// A job of a turn with its id.
#[derive(Clone, Debug)]
pub struct JobWrite {
    pub id: JobId,
    pub draft: JobDraft,
}

/// A job that is taken away, whether done or no longer wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobEnd {
    pub route: RouteKey,
    pub id: JobId,
}

/// Everything but money that a turn writes; money is in its [`Book`].
#[derive(Debug, Default)]
pub struct Writes {
    pub records: Vec<RecordWrite>,
    pub names: Vec<(&'static str, String, String)>,
    pub events: Vec<Event>,
    pub jobs: Vec<JobWrite>,
    pub ended_jobs: Vec<JobEnd>,
    /// Destinations whose breakers are closed.
    pub(crate) reached: Vec<String>,
    pub(crate) lists: ListChanges,
    pub(crate) listings: ListingChanges,
    pub(crate) payloads: Vec<Payload>,
    pub(crate) facts: Vec<ScoreFact>,
}

/// What a step sees and what it writes.
#[derive(Debug)]
pub struct Turn {
    now: Timestamp,
    entropy: [u8; 16],
    ids_made: u32,
    pub(crate) records: BTreeMap<RecordKey, Option<StoredRecord>>,
    pub(crate) names: BTreeMap<(&'static str, String), Option<String>>,
    pub(crate) counted: BTreeMap<AgentId, Counted>,
    pub(crate) writes: Writes,
    /// The ledger's page of this turn.
    pub book: Book,
}

impl Turn {
    pub(crate) fn new(now: Timestamp, entropy: [u8; 16]) -> Turn {
        Turn {
            now,
            entropy,
            ids_made: 0,
            records: BTreeMap::new(),
            names: BTreeMap::new(),
            counted: BTreeMap::new(),
            writes: Writes::default(),
            book: Book::default(),
        }
    }

    /// The database's time.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// A new id that no other turn makes. The same turn run again makes others.
    pub fn new_id<K: IdKind>(&mut self) -> Id<K> {
        self.ids_made += 1;
        let hash = sha256_parts(&[&self.entropy, &self.ids_made.to_be_bytes()]);
        let mut rest = [0; 10];
        rest.copy_from_slice(&hash.as_bytes()[..10]);
        Id::new(self.now, rest)
    }

    /// The text of a loaded record.
    pub fn text(&self, key: &RecordKey) -> Result<Option<&str>, Bug> {
        match self.records.get(key) {
            None => Err(Bug(format!("{} {} was not loaded for this turn", key.kind, key.id))),
            Some(stored) => Ok(stored.as_ref().map(|stored| stored.body.as_str())),
        }
    }

    /// Reads a loaded record.
    pub fn record<T: DeserializeOwned>(&self, key: &RecordKey) -> Result<Option<T>, Bug> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        read_own(text.as_bytes())
            .map(Some)
            .map_err(|error| Bug(format!("{} {} is unreadable: {error}", key.kind, key.id)))
    }

    /// Writes a loaded record.
    pub fn put<T: Serialize>(&mut self, key: &RecordKey, value: &T) -> Result<(), Bug> {
        let Some(loaded) = self.records.get(key) else {
            return Err(Bug(format!("{} {} was not loaded for this turn", key.kind, key.id)));
        };
        let old_version = loaded.as_ref().map_or(0, |stored| stored.version);
        let body = to_json(value)?;
        let write = RecordWrite { key: key.clone(), old_version, body };
        match self.writes.records.iter_mut().find(|w| w.key == *key) {
            Some(earlier) => *earlier = write,
            None => self.writes.records.push(write),
        }
        Ok(())
    }

    /// Whom a loaded unique name belongs to.
    pub fn name_owner(&self, kind: &'static str, name: &str) -> Result<Option<&str>, Bug> {
        self.names
            .get(&(kind, name.to_owned()))
            .map(Option::as_deref)
            .ok_or_else(|| Bug(format!("name {kind} {name} was not loaded for this turn")))
    }

    /// Takes a unique name. Somebody who is faster makes the turn run again.
    pub fn claim_name(&mut self, kind: &'static str, name: &str, owner: impl fmt::Display) {
        self.writes.names.push((kind, name.to_owned(), owner.to_string()));
    }

    /// Adds an event to the log; those in `notify` find it in their inbox.
    pub fn event<T: Serialize>(
        &mut self,
        route: &RouteKey,
        kind: &'static str,
        body: &T,
        notify: &[AgentId],
    ) -> Result<EventId, Bug> {
        let id = self.new_id();
        let version = self.version_of(route);
        let event = Event {
            id,
            route: route.clone(),
            version,
            kind: kind.to_owned(),
            at: self.now,
            body: to_json(body)?,
            notify: notify.to_vec(),
        };
        self.writes.events.push(event);
        Ok(id)
    }

    /// Adds a job for after the commit, or for later.
    pub fn job(&mut self, draft: JobDraft) -> JobId {
        let id = self.new_id();
        self.writes.jobs.push(JobWrite { id, draft });
        id
    }

    /// Takes a job away; that it is gone already is fine.
    pub fn end_job(&mut self, end: JobEnd) {
        self.writes.ended_jobs.push(end);
    }

    /// Ends a job that has reached its destination, which therefore works.
    pub fn job_done(&mut self, job: &Job) {
        self.end_job(JobEnd { route: job.route.clone(), id: job.id });
        if !job.destination.is_empty() {
            self.writes.reached.push(job.destination.clone());
        }
    }

    /// Puts a member on a list; one that is on it already keeps its place.
    pub fn enlist(&mut self, list: &str, member: impl fmt::Display) {
        self.writes.lists.enlist(list, member.to_string());
    }

    /// Takes a member off a list; that it is not on it is fine.
    pub fn delist(&mut self, list: &str, member: impl fmt::Display) {
        self.writes.lists.delist(list, member.to_string());
    }

    /// Makes search find a listing as it is after this turn, or no longer. `before`: as it found it
    /// until now.
    pub fn index_listing(&mut self, before: Option<Indexed>, after: Option<Indexed>) {
        self.writes.listings.change(before, after);
    }

    /// Keeps sealed bytes until they expire; those that are there already stay.
    pub fn keep_payload(&mut self, payload: Payload) {
        self.writes.payloads.push(payload);
    }

    /// What was counted of a loaded agent, this turn's facts included.
    pub fn counted(&self, agent: &AgentId) -> Result<Counted, Bug> {
        let loaded = self.counted.get(agent).copied();
        loaded.ok_or_else(|| Bug(format!("the facts of {agent} were not loaded for this turn")))
    }

    /// Adds a fact. Its number is taken once: whoever adds it holds the agent's facts.
    pub fn add_fact(&mut self, fact: ScoreFact) -> Result<(), Bug> {
        let Some(counted) = self.counted.get_mut(&fact.agent) else {
            let agent = fact.agent;
            return Err(Bug(format!("the facts of {agent} were not loaded for this turn")));
        };
        // Whatever is looked for later is looked for in this order.
        let (n, at) = counted.last.map_or((0, fact.at), |last| (last.n, last.at));
        if fact.n != n + 1 || fact.at < at {
            let ScoreFact { agent, n: wrong, .. } = fact;
            return Err(Bug(format!("fact {wrong} of {agent} does not follow fact {n}")));
        }
        counted.last = Some(fact.mark());
        self.writes.facts.push(fact);
        Ok(())
    }

    /// Orders the events of one route: by the version of its record, then by their place.
    fn version_of(&self, route: &RouteKey) -> i64 {
        let loaded = self.records.iter().find(|(key, _)| key.route == *route);
        let version = loaded.and_then(|(_, r)| r.as_ref()).map_or(0, |r| r.version);
        let place = self.writes.events.iter().filter(|e| e.route == *route).count();
        (version + 1) * 100 + i64::try_from(place).unwrap_or(99).min(99)
    }
}

fn to_json<T: Serialize>(value: &T) -> Result<String, Bug> {
    serde_json::to_string(value).map_err(|error| Bug(format!("cannot be written as JSON: {error}")))
}
