//! What a seller knows of its hires. Every entry is in the journal before it counts.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::Value;
use skep_base::{AgentId, Hash32, Timestamp, hash::json_sha256};
use tokio::sync::watch;

use super::{
    entry::{Entry, Failure, Hire, Kept, Known, Next, Way},
    refusal::Refusal,
};
use crate::journal::{Journal, JournalError};

#[cfg(test)]
mod tests;

/// A journal longer than this, in bytes, is rewritten when it is opened.
pub const COMPACT_ABOVE: u64 = 64 * 1024 * 1024;
/// How long a hire that is over is remembered.
pub const REMEMBERED: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long the journal of a process that has just ended may still be locked.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(50);
/// Results kept in memory, in bytes; older ones are read from the journal when asked for.
const RESULTS_IN_MEMORY: usize = 128 * 1024 * 1024;
/// From so many questions on, old ones are looked for.
const QUESTIONS_SWEPT_AT: usize = 4096;
const DAY_MS: i64 = 24 * 3600 * 1000;

/// One hire and who waits for it.
struct Slot {
    known: Known,
    changed: watch::Sender<u64>,
}

/// A round of clarification, for the limit (7.5.6).
struct Round {
    at: Timestamp,
    accepted: bool,
    tokens: Vec<String>,
}

/// What was asked under a nonce, and the answer.
struct Question {
    at: Timestamp,
    asked: Hash32,
    answer: Value,
}

#[derive(Default)]
struct Shelves {
    hires: HashMap<String, Slot>,
    by_nonce: HashMap<(AgentId, String), String>,
    jobs: HashMap<String, String>,
    free: HashMap<(AgentId, String), Timestamp>,
    free_per_day: HashMap<(String, i64), u32>,
    /// Hires of a buyer on a day that were worked on and came to nothing.
    in_vain: HashMap<(AgentId, i64), u32>,
    quotes: HashMap<String, Kept>,
    /// By buyer, and whether it signed: nobody uses up another one's rounds.
    rounds: HashMap<(AgentId, bool), Vec<Round>>,
    asked: HashMap<(AgentId, String), Question>,
    /// Hires with their results in memory, oldest first.
    in_memory: std::collections::VecDeque<(String, usize)>,
    bytes_in_memory: usize,
}

/// The seller's memory.
pub(crate) struct Book {
    path: PathBuf,
    journal: Journal,
    shelves: Mutex<Shelves>,
}

impl std::fmt::Debug for Book {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Book").field("path", &self.path).finish_non_exhaustive()
    }
}

/// What a hire that is to begin comes to.
pub(crate) enum Begun {
    New,
    /// It is known already.
    Known,
}

impl Book {
    /// Opens the journal, rewrites it if it has grown too long, and remembers what it says.
    pub(crate) async fn open(path: &Path, now: Timestamp) -> Result<Book, JournalError> {
        let (mut journal, mut entries) = open_patiently(path).await?;
        let length = journal.len().map_err(|source| io_error(path, source))?;
        if length > COMPACT_ABOVE {
            let kept = kept(entries, now);
            Journal::rewrite(path, &kept)?;
            drop(journal);
            (journal, entries) = open_patiently(path).await?;
        }
        let mut shelves = Shelves::default();
        for entry in entries {
            shelves.apply(entry);
        }
        Ok(Book { path: path.to_owned(), journal, shelves: Mutex::new(shelves) })
    }

    fn shelves(&self) -> MutexGuard<'_, Shelves> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hires that a crash or a stop left unfinished.
    pub(crate) fn unfinished(&self) -> Vec<String> {
        let shelves = self.shelves();
        let open = shelves.hires.iter().filter(|(_, slot)| slot.known.next() != Next::Nothing);
        open.map(|(id, _)| id.clone()).collect()
    }

    pub(crate) fn get(&self, id: &str) -> Option<Known> {
        self.shelves().hires.get(id).map(|slot| slot.known.clone())
    }

    /// The hire that a buyer gave this nonce.
    pub(crate) fn by_nonce(&self, buyer: AgentId, nonce: &str) -> Option<Known> {
        let shelves = self.shelves();
        let id = shelves.by_nonce.get(&(buyer, nonce.to_owned()))?;
        shelves.hires.get(id).map(|slot| slot.known.clone())
    }

    pub(crate) fn job(&self, job_id: &str) -> Option<Known> {
        let shelves = self.shelves();
        let id = shelves.jobs.get(job_id)?;
        shelves.hires.get(id).map(|slot| slot.known.clone())
    }

    /// A hire with its result, from the journal if memory has let it go.
    pub(crate) async fn whole(&self, id: &str) -> Option<Known> {
        let known = self.get(id)?;
        if known.made.is_some() || !known.had_result {
            return Some(known);
        }
        let (path, name) = (self.path.clone(), id.to_owned());
        let read = tokio::task::spawn_blocking(move || {
            let entries: Vec<Entry> = Journal::find(&path, &name).ok()?;
            let mut shelves = Shelves::default();
            for entry in entries.into_iter().filter(|entry| entry.id() == Some(&name)) {
                shelves.apply(entry);
            }
            shelves.hires.remove(&name).map(|slot| slot.known)
        });
        read.await.ok()?.or(Some(known))
    }

    /// Tells of every change of a hire.
    pub(crate) fn watch(&self, id: &str) -> Option<watch::Receiver<u64>> {
        self.shelves().hires.get(id).map(|slot| slot.changed.subscribe())
    }

    /// Whether a buyer may have its free call now.
    pub(crate) fn free_left(
        &self,
        buyer: AgentId,
        capability: &str,
        per_day: u32,
        now: Timestamp,
    ) -> bool {
        let shelves = self.shelves();
        let day = (capability.to_owned(), now.as_ms() / DAY_MS);
        !shelves.free.contains_key(&(buyer, day.0.clone()))
            && shelves.free_per_day.get(&day).copied().unwrap_or(0) < per_day
    }

    /// How many hires of a buyer were worked on today for nothing.
    pub(crate) fn in_vain(&self, buyer: AgentId, now: Timestamp) -> u32 {
        let key = (buyer, now.as_ms() / DAY_MS);
        self.shelves().in_vain.get(&key).copied().unwrap_or(0)
    }

    /// Enters a new hire. When this returns, it is on the disk and may run.
    pub(crate) async fn begin(&self, hire: Hire, free_per_day: u32) -> Result<Begun, Refusal> {
        let id = hire.id.clone();
        let is_free = matches!(hire.way, Way::Free);
        {
            let mut shelves = self.shelves();
            if let Some(slot) = shelves.hires.get(&id) {
                return match slot.known.hire.body_hash == hire.body_hash {
                    true => Ok(Begun::Known),
                    false => Err(nonce_reused()),
                };
            }
            let nonce = hire.nonce.clone().map(|nonce| (hire.buyer, nonce));
            if nonce.is_some_and(|key| shelves.by_nonce.contains_key(&key)) {
                return Err(nonce_reused());
            }
            let day = (hire.capability.clone(), hire.at.as_ms() / DAY_MS);
            let used = shelves.free.contains_key(&(hire.buyer, hire.capability.clone()));
            let today = shelves.free_per_day.get(&day).copied().unwrap_or(0);
            if is_free && (used || today >= free_per_day) {
                // Another request of the same buyer was faster.
                let detail = "the free call has been used meanwhile";
                return Err(Refusal::new(409, "free_call_used", detail));
            }
            shelves.apply(Entry::Started { hire: Box::new(hire.clone()) });
        }
        match self.journal.append(&Entry::Started { hire: Box::new(hire) }).await {
            Ok(()) => Ok(Begun::New),
            Err(error) => {
                // The journal takes nothing more, so what memory holds cannot mislead for long.
                self.shelves().hires.remove(&id);
                Err(Refusal::no_journal(&error))
            }
        }
    }

    /// Writes what has happened, then counts it.
    pub(crate) async fn record(&self, entry: Entry) -> Result<(), JournalError> {
        self.journal.append(&entry).await?;
        self.shelves().apply(entry);
        Ok(())
    }

    /// The buyer can be answered although something is still to be done.
    pub(crate) fn mark_answerable(&self, id: &str) {
        let mut shelves = self.shelves();
        if let Some(slot) = shelves.hires.get_mut(id) {
            slot.known.answerable = true;
            slot.changed.send_modify(|count| *count += 1);
        }
    }

    /// A payment that was refused may be tried again.
    pub(crate) fn retry_payment(&self, id: &str) -> bool {
        let mut shelves = self.shelves();
        let withheld = shelves.hires.get_mut(id).map(|slot| slot.known.withheld.take());
        matches!(withheld, Some(Some(_)))
    }

    pub(crate) fn quote(&self, token: &str) -> Option<Kept> {
        self.shelves().quotes.get(token).cloned()
    }

    /// How many rounds of clarification a buyer has had in a day without hiring.
    pub(crate) fn rounds_open(&self, buyer: AgentId, signed: bool, now: Timestamp) -> usize {
        let shelves = self.shelves();
        let since = now.minus(Duration::from_millis(DAY_MS.unsigned_abs()));
        let rounds = shelves.rounds.get(&(buyer, signed)).map(Vec::as_slice).unwrap_or_default();
        rounds.iter().filter(|round| round.at > since && !round.accepted).count()
    }

    /// The same for all that did not sign, whose names cost nothing.
    pub(crate) fn unsigned_rounds_open(&self, now: Timestamp) -> usize {
        let shelves = self.shelves();
        let since = now.minus(Duration::from_millis(DAY_MS.unsigned_abs()));
        let unsigned = shelves.rounds.iter().filter(|((_, signed), _)| !signed);
        let rounds = unsigned.flat_map(|(_, rounds)| rounds);
        rounds.filter(|round| round.at > since && !round.accepted).count()
    }

    /// What a buyer was answered under this nonce, and to what.
    pub(crate) fn clarified(&self, buyer: AgentId, nonce: &str) -> Option<(Hash32, Value)> {
        let shelves = self.shelves();
        let question = shelves.asked.get(&(buyer, nonce.to_owned()))?;
        Some((question.asked, question.answer.clone()))
    }
}

fn nonce_reused() -> Refusal {
    let detail = "this nonce was used for another hire: take a new one";
    Refusal::new(409, "nonce_reused", detail)
}

fn io_error(path: &Path, source: std::io::Error) -> JournalError {
    JournalError::Io { path: path.to_owned(), source }
}

async fn open_patiently(path: &Path) -> Result<(Journal, Vec<Entry>), JournalError> {
    let start = std::time::Instant::now();
    loop {
        match Journal::open(path) {
            Err(JournalError::InUse { .. }) if start.elapsed() < LOCK_PATIENCE => {
                tokio::time::sleep(LOCK_PAUSE).await;
            }
            opened => return opened,
        }
    }
}

/// What stays when the journal is rewritten: young hires and open ones as they are, of others only
/// that their free call is used.
fn kept(entries: Vec<Entry>, now: Timestamp) -> Vec<Entry> {
    let mut whole = Shelves::default();
    for entry in &entries {
        whole.apply(entry.clone());
    }
    let since = now.minus(REMEMBERED);
    let stays = |id: &str| {
        whole
            .hires
            .get(id)
            .is_some_and(|slot| slot.known.hire.at > since || slot.known.next() != Next::Nothing)
    };
    let gone: BTreeMap<_, _> = whole.free.iter().filter(|(_, at)| **at <= since).collect();
    let mut kept: Vec<Entry> = gone
        .into_iter()
        .map(|((buyer, capability), at)| Entry::FreeUsed {
            at: *at,
            buyer: *buyer,
            capability: capability.clone(),
        })
        .collect();
    kept.extend(entries.into_iter().filter(|entry| match entry {
        Entry::FreeUsed { .. } => false,
        Entry::Clarified { at, .. } => *at > since,
        other => other.id().is_some_and(stays),
    }));
    kept
}

impl Shelves {
    fn apply(&mut self, entry: Entry) {
        match entry {
            Entry::Started { hire } => self.start(*hire),
            Entry::FreeUsed { at, buyer, capability } => {
                self.free.insert((buyer, capability), at);
            }
            Entry::Clarified { at, buyer, signed, nonce, asked, answer, quotes } => {
                self.forget_questions(at);
                let tokens = quotes.iter().map(|quote| quote.token.clone()).collect();
                let round = Round { at, accepted: false, tokens };
                self.rounds.entry((buyer, signed)).or_default().push(round);
                self.asked.insert((buyer, nonce), Question { at, asked, answer });
                self.quotes.extend(quotes.into_iter().map(|quote| (quote.token.clone(), quote)));
            }
            entry => {
                let Some(id) = entry.id().map(str::to_owned) else { return };
                let Some(slot) = self.hires.get_mut(&id) else { return };
                if let Entry::Failed { at, .. } = &entry {
                    let key = (slot.known.hire.buyer, at.as_ms() / DAY_MS);
                    *self.in_vain.entry(key).or_default() += 1;
                }
                slot.known.apply(entry);
                // What is withheld may still be paid for.
                let ended = slot.known.next() == Next::Nothing && slot.known.withheld.is_none();
                slot.changed.send_modify(|count| *count += 1);
                if ended {
                    self.make_room(&id);
                }
            }
        }
    }

    fn start(&mut self, hire: Hire) {
        let id = hire.id.clone();
        if let Some(nonce) = hire.nonce.clone() {
            self.by_nonce.insert((hire.buyer, nonce), id.clone());
        }
        if let Some(job) = hire.job_id.clone() {
            self.jobs.insert(job, id.clone());
        }
        if matches!(hire.way, Way::Free) {
            self.free.insert((hire.buyer, hire.capability.clone()), hire.at);
            let day = (hire.capability.clone(), hire.at.as_ms() / DAY_MS);
            *self.free_per_day.entry(day).or_default() += 1;
        }
        if let Some(token) = &hire.quote_token {
            let rounds = self.rounds.values_mut().flatten();
            for round in rounds.filter(|round| round.tokens.contains(token)) {
                round.accepted = true;
            }
        }
        let changed = watch::channel(0).0;
        self.hires.insert(id, Slot { known: Known::new(hire), changed });
    }

    /// Questions are remembered for a day, quotes until they end.
    fn forget_questions(&mut self, now: Timestamp) {
        if self.asked.len() < QUESTIONS_SWEPT_AT || !self.asked.len().is_power_of_two() {
            return;
        }
        let since = now.minus(Duration::from_millis(DAY_MS.unsigned_abs()));
        self.quotes.retain(|_, quote| quote.expires_at > now);
        self.asked.retain(|_, asked| asked.at > since);
        for rounds in self.rounds.values_mut() {
            rounds.retain(|round| round.at > since);
        }
        self.rounds.retain(|_, rounds| !rounds.is_empty());
    }

    /// A hire that is over needs no parameters any more, and only so many results fit in.
    fn make_room(&mut self, id: &str) {
        let Some(slot) = self.hires.get_mut(id) else { return };
        let mut slim = Hire::clone(&slot.known.hire);
        (slim.params, slim.way) = (Value::Null, Way::Over);
        if let Some((_, envelope)) = &mut slim.signed {
            envelope.statement = Value::Null;
        }
        slot.known.hire = Arc::new(slim);
        let Some(made) = &slot.known.made else { return };
        self.in_memory.push_back((id.to_owned(), made.len));
        self.bytes_in_memory += made.len;
        while self.bytes_in_memory > RESULTS_IN_MEMORY {
            let Some((oldest, len)) = self.in_memory.pop_front() else { return };
            self.bytes_in_memory -= len;
            if let Some(slot) = self.hires.get_mut(&oldest) {
                slot.known.made = None;
            }
        }
    }
}

/// The hash by which a plain client's hire is told from another with the same payment.
pub(crate) fn plain_hash(capability: &str, params: &Value) -> Result<Hash32, Refusal> {
    json_sha256(&serde_json::json!([capability, params]))
        .map_err(|error| Refusal::new(400, "bad_params", error.to_string()))
}

/// Why a hire that a stop interrupted in escrow has no result.
pub(crate) fn interrupted() -> Failure {
    Failure {
        status: 502,
        code: "interrupted".to_owned(),
        detail: "the seller was interrupted; the money goes back".to_owned(),
    }
}
