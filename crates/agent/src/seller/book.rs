//! What a seller knows of its hires. Every entry is in the journal before it counts.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::Value;
use skep_base::{AgentId, Hash32, Timestamp, hash::json_sha256};
use skep_wire::x402::reason;
use tokio::sync::{Semaphore, watch};

use super::{
    entry::{Entry, Failure, Hire, Kept, Known, Next, Way},
    refusal::Refusal,
};
use crate::journal::{Journal, JournalError, Line};

#[cfg(test)]
mod tests;

/// A journal longer than this, in bytes, is rewritten when it is opened.
pub const COMPACT_ABOVE: u64 = 64 * 1024 * 1024;
/// From this length on, in bytes, no new hires are begun: the journal is read as a whole when it is
/// opened. The next start makes it shorter.
pub const JOURNAL_LEN_MAX: u64 = 2 * 1024 * 1024 * 1024;
/// How long a full journal is said to stay so, in seconds.
const FULL_LATER_S: u64 = 600;
/// Hires that are looked up in the journal at the same time.
const LOOKUPS_MAX: usize = 2;
/// How long a hire that is over is remembered.
pub const REMEMBERED: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long the journal of a process that has just ended may still be locked.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(50);
/// Results kept in memory, in bytes; older ones are read from the journal when asked for.
const RESULTS_IN_MEMORY: usize = 128 * 1024 * 1024;
/// From so many questions on, old ones are looked for.
const QUESTIONS_SWEPT_AT: usize = 4096;
/// How often a hire may come to nothing before its payment is not tried again: a payment may be
/// good for ever, and each try is work for the node and a line of the journal.
const TRIES_MAX: u32 = 20;
const DAY_MS: i64 = 24 * 3600 * 1000;

/// One hire and who waits for it.
struct Slot {
    known: Known,
    /// Whether its result is among those that memory keeps for a while.
    counted: bool,
    /// How often it has come to nothing.
    in_vain: u32,
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
    /// By payer and the name that it gave its payment.
    by_identifier: HashMap<(AgentId, String), String>,
    jobs: HashMap<String, String>,
    free: HashMap<(AgentId, String), Timestamp>,
    free_per_day: HashMap<(String, i64), u32>,
    /// Hires that a wallet was to pay on a day, that were worked on and came to nothing.
    in_vain: HashMap<(AgentId, i64), u32>,
    quotes: HashMap<String, Kept>,
    /// By buyer, and whether it signed: nobody uses up another one's rounds.
    rounds: HashMap<(AgentId, bool), Vec<Round>>,
    asked: HashMap<(AgentId, String), Question>,
    /// Hires with their results in memory, oldest first.
    in_memory: std::collections::VecDeque<(String, usize)>,
    bytes_in_memory: usize,
    /// While a journal is read: an end may not be the last word, so nothing is let go yet.
    reading: bool,
}

/// The seller's memory.
pub(crate) struct Book {
    path: PathBuf,
    journal: Journal,
    shelves: Mutex<Shelves>,
    lookups: Semaphore,
    len_max: u64,
}

impl std::fmt::Debug for Book {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Book").field("path", &self.path).finish_non_exhaustive()
    }
}

/// What a hire that is to begin comes to.
pub(crate) enum Begun {
    New,
    /// It is known already, by this id.
    Known(String),
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
        Ok(Book {
            path: path.to_owned(),
            journal,
            shelves: Mutex::new(Shelves::of(entries)),
            lookups: Semaphore::new(LOOKUPS_MAX),
            len_max: JOURNAL_LEN_MAX,
        })
    }

    /// Whether something new may be written; what was begun always may be finished.
    pub(crate) fn check_room(&self) -> Result<(), Refusal> {
        match self.journal.len().is_ok_and(|length| length < self.len_max) {
            true => Ok(()),
            false => {
                let detail = "the seller's journal is full: it has to be started again";
                Err(Refusal::new(503, "journal_full", detail).later(FULL_LATER_S))
            }
        }
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

    /// The hire that this one repeats: it has the same id, or its payer gave its payment the same
    /// name.
    pub(crate) fn earlier(&self, hire: &Hire) -> Result<Option<Known>, Refusal> {
        Ok(self.shelves().earlier(hire)?.map(|slot| slot.known.clone()))
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
        self.look_up(id).await.or(Some(known))
    }

    /// A hire as the journal has it, with everything.
    async fn look_up(&self, id: &str) -> Option<Known> {
        // The whole file is read, and anybody may ask.
        let _turn = self.lookups.acquire().await.ok()?;
        let (path, name) = (self.path.clone(), id.to_owned());
        let read = tokio::task::spawn_blocking(move || {
            let entries: Vec<Entry> = Journal::find(&path, &name).ok()?;
            let mut known = None;
            for entry in entries.into_iter().filter(|entry| entry.id() == Some(&name)) {
                match (entry, &mut known) {
                    (Entry::Started { hire }, _) => known = Some(Known::new(*hire)),
                    (entry, Some(known)) => known.apply(entry),
                    (_, None) => {}
                }
            }
            known
        });
        read.await.ok()?
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

    /// How many hires that a wallet was to pay were worked on today for nothing.
    pub(crate) fn in_vain(&self, payer: AgentId, now: Timestamp) -> u32 {
        let key = (payer, now.as_ms() / DAY_MS);
        self.shelves().in_vain.get(&key).copied().unwrap_or(0)
    }

    /// Enters a new hire. When this returns, it is on the disk and may run.
    pub(crate) async fn begin(&self, hire: Hire, free_per_day: u32) -> Result<Begun, Refusal> {
        let slim = hire.slim();
        let is_free = matches!(hire.way, Way::Free);
        let entry = Entry::Started { hire: Box::new(hire) };
        let too_large = |error: JournalError| {
            Refusal::new(413, "hire_too_large", format!("the hire cannot be kept: {error}"))
        };
        let line = Line::of(&entry).map_err(too_large)?;
        {
            let mut shelves = self.shelves();
            if let Some(slot) = shelves.earlier(&slim)? {
                return Ok(Begun::Known(slot.known.hire.id.clone()));
            }
            self.check_room()?;
            let nonce = slim.nonce.clone().map(|nonce| (slim.buyer, nonce));
            if nonce.is_some_and(|key| shelves.by_nonce.contains_key(&key)) {
                return Err(nonce_reused());
            }
            let day = (slim.capability.clone(), slim.at.as_ms() / DAY_MS);
            let used = shelves.free.contains_key(&(slim.buyer, slim.capability.clone()));
            let today = shelves.free_per_day.get(&day).copied().unwrap_or(0);
            if is_free && (used || today >= free_per_day) {
                // Another request of the same buyer was faster.
                let detail = "the free call has been used meanwhile";
                return Err(Refusal::new(409, "free_call_used", detail));
            }
            shelves.apply(entry);
        }
        match self.journal.append_line(line).await {
            Ok(()) => Ok(Begun::New),
            Err(error) => {
                self.shelves().unstart(&slim, is_free);
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

    /// A payment that was refused may be tried again while it is good: then the hire is whole
    /// again.
    pub(crate) async fn retry_payment(&self, id: &str, now: Timestamp) -> bool {
        let may = |slot: &Slot| slot.in_vain < TRIES_MAX && slot.known.is_payable(now);
        if !self.shelves().hires.get(id).is_some_and(may) {
            return false;
        }
        match self.look_up(id).await {
            Some(whole) => self.shelves().reopen(id, whole),
            None => false,
        }
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

    /// The same of all who signed, or of all who did not, whose names cost nothing.
    pub(crate) fn all_rounds_open(&self, signed: bool, now: Timestamp) -> usize {
        let shelves = self.shelves();
        let since = now.minus(Duration::from_millis(DAY_MS.unsigned_abs()));
        let those = shelves.rounds.iter().filter(|((_, theirs), _)| *theirs == signed);
        let rounds = those.flat_map(|(_, rounds)| rounds);
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

fn identifier_reused() -> Refusal {
    let detail = "this payment-identifier was used for another hire: take a new one";
    Refusal::new(409, reason::IDENTIFIER_REUSED, detail)
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
    let whole = Shelves::of(entries.clone());
    let since = now.minus(REMEMBERED);
    let gone: BTreeMap<_, _> = whole.free.iter().filter(|(_, at)| **at <= since).collect();
    let mut kept: Vec<Entry> = gone
        .into_iter()
        .map(|((buyer, capability), at)| Entry::FreeUsed {
            at: *at,
            buyer: *buyer,
            capability: capability.clone(),
        })
        .collect();
    kept.extend(entries.into_iter().filter_map(|entry| {
        let known = entry.id().and_then(|id| whole.hires.get(id)).map(|slot| &slot.known);
        let is_over = known.is_some_and(|known| known.next() == Next::Nothing);
        let stays = known.is_some_and(|known| known.hire.at > since || !is_over);
        match entry {
            Entry::FreeUsed { .. } => None,
            Entry::Clarified { at, .. } => (at > since).then_some(entry),
            _ if !stays => None,
            // Nobody will ask for these: what was asked of a hire that is over, and what nobody
            // paid for.
            Entry::Started { hire } if is_over && !known.is_some_and(|k| k.is_payable(now)) => {
                Some(Entry::Started { hire: Box::new(started_slim(&hire)) })
            }
            Entry::Produced { .. } if known.is_some_and(|known| known.is_lost(now)) => None,
            entry => Some(entry),
        }
    }));
    kept
}

/// A hire that is over as the journal keeps it; that it was free is still to be counted.
fn started_slim(hire: &Hire) -> Hire {
    match hire.way {
        Way::Free => Hire { way: Way::Free, ..hire.slim() },
        _ => hire.slim(),
    }
}

impl Shelves {
    /// What the entries come to.
    fn of(entries: Vec<Entry>) -> Shelves {
        let mut shelves = Shelves { reading: true, ..Shelves::default() };
        let order: Vec<String> = entries
            .iter()
            .filter(|entry| matches!(entry, Entry::Started { .. }))
            .filter_map(|entry| entry.id().map(str::to_owned))
            .collect();
        for entry in entries {
            shelves.apply(entry);
        }
        shelves.reading = false;
        for id in order {
            if shelves.hires.get(&id).is_some_and(|slot| slot.known.next() == Next::Nothing) {
                shelves.make_room(&id);
            }
        }
        shelves
    }

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
                if let Entry::Failed { at, .. } | Entry::Withheld { at, .. } = &entry {
                    // A wallet's luck is counted by hires, however often one is tried.
                    if slot.in_vain == 0 {
                        let key = (slot.known.hire.payer(), at.as_ms() / DAY_MS);
                        *self.in_vain.entry(key).or_default() += 1;
                    }
                    slot.in_vain += 1;
                }
                slot.known.apply(entry);
                let ended = slot.known.next() == Next::Nothing;
                slot.changed.send_modify(|count| *count += 1);
                if ended && !self.reading {
                    self.make_room(&id);
                }
            }
        }
    }

    fn earlier(&self, hire: &Hire) -> Result<Option<&Slot>, Refusal> {
        if let Some(slot) = self.hires.get(&hire.id) {
            return match slot.known.hire.body_hash == hire.body_hash {
                true => Ok(Some(slot)),
                false => Err(nonce_reused()),
            };
        }
        let named = hire.identifier.clone().map(|identifier| (hire.payer(), identifier));
        let id = named.and_then(|named| self.by_identifier.get(&named));
        match id.and_then(|id| self.hires.get(id)) {
            Some(slot) if slot.known.hire.asks_the_same(hire) => Ok(Some(slot)),
            Some(_) => Err(identifier_reused()),
            None => Ok(None),
        }
    }

    fn start(&mut self, hire: Hire) {
        let id = hire.id.clone();
        if let Some(nonce) = hire.nonce.clone() {
            self.by_nonce.insert((hire.buyer, nonce), id.clone());
        }
        if let Some(identifier) = hire.identifier.clone() {
            self.by_identifier.insert((hire.payer(), identifier), id.clone());
        }
        if let Some(job) = hire.job_id.clone() {
            self.jobs.insert(job, id.clone());
        }
        if matches!(hire.way, Way::Free) {
            self.free.insert((hire.buyer, hire.capability.clone()), hire.at);
            let day = (hire.capability.clone(), hire.at.as_ms() / DAY_MS);
            *self.free_per_day.entry(day).or_default() += 1;
        }
        self.accept_quote(&hire, true);
        let changed = watch::channel(0).0;
        let known = Known::new(hire);
        self.hires.insert(id, Slot { known, counted: false, in_vain: 0, changed });
    }

    /// Takes back what [`Shelves::start`] did: the hire could not be written down.
    fn unstart(&mut self, hire: &Hire, was_free: bool) {
        self.hires.remove(&hire.id);
        if let Some(nonce) = hire.nonce.clone() {
            self.by_nonce.remove(&(hire.buyer, nonce));
        }
        if let Some(identifier) = hire.identifier.clone() {
            self.by_identifier.remove(&(hire.payer(), identifier));
        }
        if let Some(job) = &hire.job_id {
            self.jobs.remove(job);
        }
        if was_free {
            self.free.remove(&(hire.buyer, hire.capability.clone()));
            let day = (hire.capability.clone(), hire.at.as_ms() / DAY_MS);
            if let Some(count) = self.free_per_day.get_mut(&day) {
                *count = count.saturating_sub(1);
            }
        }
        self.accept_quote(hire, false);
    }

    fn accept_quote(&mut self, hire: &Hire, accepted: bool) {
        let Some(token) = &hire.quote_token else { return };
        let rounds = self.rounds.values_mut().flatten();
        for round in rounds.filter(|round| round.tokens.contains(token)) {
            round.accepted = accepted;
        }
    }

    /// Makes a withheld hire whole again, unless somebody else was faster, or the journal was
    /// rewritten and has neither its payment nor its result any more.
    fn reopen(&mut self, id: &str, whole: Known) -> bool {
        if matches!(whole.hire.way, Way::Over) || whole.made.is_none() {
            return false;
        }
        let Some(slot) = self.hires.get_mut(id).filter(|slot| slot.known.withheld.is_some()) else {
            return false;
        };
        (slot.known.hire, slot.known.made) = (whole.hire, whole.made);
        (slot.known.withheld, slot.counted) = (None, false);
        if let Some(at) = self.in_memory.iter().position(|(other, _)| other == id)
            && let Some((_, len)) = self.in_memory.remove(at)
        {
            self.bytes_in_memory -= len;
        }
        true
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

    /// A hire that is over needs no parameters any more, and only so many results fit in. What is
    /// withheld is over as well: if it is paid after all, the journal has it.
    fn make_room(&mut self, id: &str) {
        let Some(slot) = self.hires.get_mut(id) else { return };
        slot.known.hire = Arc::new(slot.known.hire.slim());
        let Some(made) = slot.known.made.as_ref().filter(|_| !slot.counted) else { return };
        slot.counted = true;
        self.in_memory.push_back((id.to_owned(), made.len));
        self.bytes_in_memory += made.len;
        while self.bytes_in_memory > RESULTS_IN_MEMORY {
            let Some((oldest, len)) = self.in_memory.pop_front() else { return };
            self.bytes_in_memory -= len;
            if let Some(slot) = self.hires.get_mut(&oldest) {
                (slot.known.made, slot.counted) = (None, false);
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
