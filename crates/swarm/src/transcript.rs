//! All signed messages of a task, from which anybody can decide again what the swarm decided
//! (decision 51).

mod parts;

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use skep_base::{Did, Hash32, Timestamp, json as canonical};
use skep_wire::swarm::{
    Certificate, ChainError, Chosen, End, Ended, KeyChain, KeyLink, KnownKeys, Message, OpenError,
    Outcome, Signed, Step, Subject, Succession, Value, Word, key_text,
};

use crate::{
    accord::{Proven, has_record, proven, record_of},
    election::{self, elect},
    epoch::Epoch,
    genesis::Genesis,
    judge::{self, Fault},
    kept::Kept,
    node::{APPROVAL_MAX_MS, plus},
    succession,
    tally::Round,
};

use self::parts::Words;
pub use self::parts::{PartReport, Try, Verdict};

/// What the file says it is.
pub const FORMAT: &str = "skep/swarm-transcript/v1";

/// How much the clocks of two honest members may differ.
const CLOCKS_DIFFER_MS: u64 = 300_000;

/// A transcript as it is written.
#[derive(Serialize, Deserialize)]
struct File {
    format: String,
    genesis: Genesis,
    /// Everybody whose messages are in it and who brings no key along.
    keys: Vec<WrittenKeys>,
    messages: Vec<Json>,
}

/// An agent's keys as they are written.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum WrittenKeys {
    /// One that was never changed.
    Key(String),
    Chain {
        first: String,
        links: Vec<KeyLink>,
    },
}

impl WrittenKeys {
    fn write(chain: &KeyChain) -> WrittenKeys {
        let first = key_text::write(chain.first());
        match chain.links() {
            [] => WrittenKeys::Key(first),
            links => WrittenKeys::Chain { first, links: links.to_vec() },
        }
    }

    fn read(&self) -> Result<KeyChain, ReadError> {
        let (text, links) = match self {
            WrittenKeys::Key(key) => (key, &[][..]),
            WrittenKeys::Chain { first, links } => (first, &links[..]),
        };
        let first = key_text::read(text);
        let first = first.ok_or_else(|| ReadError::Format(format!("{text:?} is no key")))?;
        let wrong = |why| ReadError::Keys { did: first.did(), why };
        KeyChain::follow(first, links).map_err(wrong)
    }
}

/// A transcript whose signatures are all good.
#[derive(Clone, Debug)]
pub struct Transcript {
    pub genesis: Genesis,
    pub messages: Vec<Kept>,
}

/// Why a transcript cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("this is not a transcript: {0}")]
    Format(String),
    #[error("the keys of {did}: {why}")]
    Keys { did: Did, why: ChainError },
    #[error("message {index}: {error}")]
    Message { index: usize, error: OpenError },
}

/// Something that does not follow from what was signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub about: Subject,
    pub why: String,
}

/// What was decided about one task, decided again.
#[derive(Clone, Debug, Serialize)]
pub struct TaskReport {
    pub task_id: String,
    pub epoch: u64,
    pub witnesses: usize,
    pub signatures: usize,
    pub chosen: Option<Chosen>,
    pub board: Vec<Did>,
    pub critic: Option<Did>,
    pub senate: Vec<Did>,
    pub plans: Vec<String>,
    pub ballots: usize,
    /// Each round of the vote: first choices by plan, and who was eliminated.
    pub rounds: Vec<RoundReport>,
    /// Who contradicted itself.
    pub caught: Vec<Did>,
    pub ended: Option<Ended>,
    /// How the parts came about, as far as the transcript has what was said of them.
    pub parts: Vec<PartReport>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RoundReport {
    pub tallies: BTreeMap<String, u64>,
    pub eliminated: Option<String>,
}

impl From<Round> for RoundReport {
    fn from(round: Round) -> RoundReport {
        RoundReport { tallies: round.tallies.into_iter().collect(), eliminated: round.eliminated }
    }
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Where each task is among them.
    #[serde(skip)]
    places: BTreeMap<String, usize>,
    pub messages: usize,
    pub elections: Vec<u64>,
    /// Elections of which only the signatures are there: who was elected is what a quorum has
    /// signed, and was not counted again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub followed: Vec<u64>,
    pub successions: usize,
    pub tasks: Vec<TaskReport>,
    pub differences: Vec<Difference>,
}

impl Transcript {
    /// Writes messages down in their order, each once.
    pub fn write(genesis: &Genesis, keys: &KnownKeys, messages: &[Arc<Signed>]) -> Json {
        let mut seen: BTreeSet<Hash32> = BTreeSet::new();
        let once = messages.iter().filter(|message| seen.insert(message.hash()));
        let messages: Vec<Json> = once.map(|message| message.to_json()).collect();
        let keys = keys.iter().map(|(_, chain)| WrittenKeys::write(chain)).collect();
        let file = File { format: FORMAT.to_owned(), genesis: genesis.clone(), keys, messages };
        serde_json::to_value(file).expect("a transcript is JSON")
    }

    /// Reads a transcript and checks every signature in it.
    pub fn read(text: &[u8]) -> Result<Transcript, ReadError> {
        let json = canonical::parse(text).map_err(|error| ReadError::Format(error.to_string()))?;
        let file: File =
            serde_json::from_value(json).map_err(|error| ReadError::Format(error.to_string()))?;
        if file.format != FORMAT {
            return Err(ReadError::Format(format!("its format is {:?}", file.format)));
        }
        let mut keys = KnownKeys::default();
        for key in file.genesis.founders.iter().chain(&file.genesis.issuers) {
            keys.learn(*key);
        }
        for written in &file.keys {
            let chain = written.read()?;
            let did = chain.did();
            keys.follow(chain).map_err(|why| ReadError::Keys { did, why })?;
        }
        // A task may outlast a key.
        let keys = keys.of_any_time();
        let open = |(index, json): (usize, Json)| {
            let opened = Signed::from_json(json, &keys);
            let opened = opened.map_err(|error| ReadError::Message { index, error })?;
            if opened.meta.swarm != file.genesis.swarm {
                let error = OpenError::OtherSwarm(opened.meta.swarm);
                return Err(ReadError::Message { index, error });
            }
            Ok(Kept(Arc::new(opened)))
        };
        let messages: Result<Vec<Kept>, ReadError> =
            file.messages.into_iter().enumerate().map(open).collect();
        Ok(Transcript { genesis: file.genesis, messages: messages? })
    }

    /// Decides everything again.
    pub fn verify(&self) -> Report {
        let mut report = Report { messages: self.messages.len(), ..Report::default() };
        for kept in self.messages.iter().filter(|kept| !self.is_ours(kept)) {
            if let Message::Certificate(certificate) = &kept.message {
                report.differ(&certificate.subject, "it was said in another swarm".to_owned());
            }
        }
        let founding = Epoch::founding(&self.genesis);
        let mut epochs = BTreeMap::from([(founding.number(), founding)]);
        let certificates = self.certificates();
        let mut said = Said::of(&certificates, &self.messages);
        let mut successors = BTreeMap::new();
        for (kept, subject, value) in &certificates {
            match subject {
                Subject::Election { after } => {
                    match self.check_election(*after, &mut epochs, kept, value) {
                        Ok((epoch, true)) => report.elections.push(epoch),
                        Ok((epoch, false)) => report.followed.push(epoch),
                        Err(why) => report.differ(subject, why),
                    }
                }
                Subject::Succession { epoch, leader } => {
                    let found = check_succession(&epochs, *epoch, leader, kept, value);
                    let result = found.and_then(|found| follow(&mut successors, found));
                    report.note(subject, result, |report| report.successions += 1);
                }
                Subject::Plan { task_id } => {
                    if check_plan(&epochs, kept, subject, value, &mut report) {
                        said.plans.insert(task_id, (kept, value));
                    }
                    for found in successions_in(&epochs, kept, value) {
                        let (epoch, leader) = (found.epoch, found.failed_leader);
                        let about = Subject::Succession { epoch, leader };
                        report.note(&about, follow(&mut successors, &found), |_| {});
                    }
                }
                Subject::Result { task_id } => {
                    check_result(&epochs, &said, (kept, value), task_id, &mut report);
                }
            }
        }
        report
    }

    /// The final certificates, one of each value: another value's must say the same. Whoever passes
    /// one on may leave out what it follows from or who has signed it; the fullest counts.
    fn certificates(&self) -> Vec<Certified<'_>> {
        let ours = self.messages.iter().filter(|kept| self.is_ours(kept));
        let bundles = ours.filter_map(|kept| match &kept.message {
            Message::Certificate(Certificate {
                subject,
                word: Word::Bundle { step: Step::Commit, value },
                ..
            }) => Some((kept, subject, value)),
            _ => None,
        });
        let mut all: Vec<Certified<'_>> = Vec::new();
        let mut places = BTreeMap::new();
        let fullness = |kept: &Kept, subject: &Subject, value: &Value| {
            (has_record(value, kept), signers_of(kept, subject, value.hash()))
        };
        for bundle @ (kept, subject, value) in bundles {
            let full = fullness(kept, subject, value);
            match places.entry((subject, value.hash())) {
                Entry::Vacant(entry) => {
                    entry.insert((all.len(), full));
                    all.push(bundle);
                }
                Entry::Occupied(mut entry) => {
                    let (place, known) = entry.get_mut();
                    if full > *known {
                        (all[*place], *known) = (bundle, full);
                    }
                }
            }
        }
        all
    }

    /// Whether a message and all that came with it were said in this swarm.
    fn is_ours(&self, kept: &Kept) -> bool {
        kept.meta.swarm == self.genesis.swarm && kept.check_bounds().is_ok()
    }

    /// The epoch that an election was for, and whether it could be counted again. Nodes keep only
    /// the signatures of old ones, so that others can follow; what has some of its ballots must
    /// have all.
    fn check_election(
        &self,
        after: u64,
        epochs: &mut BTreeMap<u64, Arc<Epoch>>,
        kept: &Kept,
        value: &Value,
    ) -> Result<(u64, bool), String> {
        let Outcome::Election(elected) = &value.outcome else {
            return Err(Fault::WrongOutcome.to_string());
        };
        let number = elected.epoch;
        if elected.previous != after || number <= after {
            return Err("it is not what was asked".to_owned());
        }
        if epochs.values().any(|epoch| epoch.elected.previous == after && epoch.number() > after) {
            return Err("there are two outcomes".to_owned());
        }
        let previous = epochs.get(&after).ok_or("the election before it is missing")?;
        let subject = Subject::Election { after };
        let witnesses = previous.witnesses(&subject, previous.tier1());
        let found = signed(kept, value, &witnesses)?;
        let is_greeting = |kept: &Kept| matches!(kept.message, Message::Handshake(_));
        let counts = has_record(value, kept) || !found.record.iter().all(is_greeting);
        if counts {
            let belongs = |kept: &Kept| election::belongs(number, kept);
            let whole = judge::check_record(value, &found.record, &belongs);
            whole.map_err(|fault| fault.to_string())?;
            if *elected != elect(previous, &self.genesis, number, &found.record) {
                return Err("other agents are elected by these votes".to_owned());
            }
        }
        epochs.insert(number, Epoch::shared(elected.clone(), value.hash()));
        Ok((number, counts))
    }
}

impl Report {
    fn differ(&mut self, about: &Subject, why: String) {
        self.differences.push(Difference { about: about.clone(), why });
    }

    fn note(
        &mut self,
        about: &Subject,
        result: Result<(), String>,
        good: impl FnOnce(&mut Report),
    ) {
        match result {
            Ok(()) => good(self),
            Err(why) => self.differ(about, why),
        }
    }
}

/// A message with a final certificate, what it is about, and what was decided.
type Certified<'a> = (&'a Kept, &'a Subject, &'a Value);

/// What a transcript says of tasks beside how they ended.
struct Said<'a> {
    /// Where the plan of a task was certified: first, until one is found that holds. Anybody can
    /// say that something else was decided.
    plans: BTreeMap<&'a str, (&'a Kept, &'a Value)>,
    words: Words<'a>,
}

impl<'a> Said<'a> {
    fn of(certificates: &[Certified<'a>], messages: &'a [Kept]) -> Said<'a> {
        let mut plans = BTreeMap::new();
        for (kept, subject, value) in certificates {
            if let Subject::Plan { task_id } = *subject {
                plans.entry(task_id.as_str()).or_insert((*kept, *value));
            }
        }
        Said { plans, words: Words::of(messages) }
    }
}

/// Whether it is the plan of its task.
fn check_plan(
    epochs: &BTreeMap<u64, Arc<Epoch>>,
    kept: &Kept,
    subject: &Subject,
    value: &Value,
    report: &mut Report,
) -> bool {
    let why = match plan_report(epochs, kept, subject, value) {
        Ok(task) if report.places.contains_key(&task.task_id) => {
            "there are two outcomes".to_owned()
        }
        Ok(task) => {
            report.places.insert(task.task_id.clone(), report.tasks.len());
            report.tasks.push(task);
            return true;
        }
        Err(why) => why,
    };
    report.differ(subject, why);
    false
}

fn check_result(
    epochs: &BTreeMap<u64, Arc<Epoch>>,
    said: &Said<'_>,
    (kept, value): (&Kept, &Value),
    task_id: &str,
    report: &mut Report,
) {
    let subject = Subject::Result { task_id: task_id.to_owned() };
    let ended = match ended(epochs, said, (kept, value), task_id) {
        Ok(ended) => ended,
        Err(why) => return report.differ(&subject, why),
    };
    let place = report.places.get(task_id).copied();
    match place.and_then(|place| report.tasks.get_mut(place)) {
        Some(task) if task.ended.is_none() => {
            task.parts = parts_of(epochs, &said.words, task, &ended);
            let recanted = said.words.caught(&ended);
            task.caught.extend(recanted);
            task.caught.sort_unstable();
            task.caught.dedup();
            task.ended = Some(ended);
        }
        Some(_) => report.differ(&subject, "there are two outcomes".to_owned()),
        None => report.differ(&subject, "no plan was decided before".to_owned()),
    }
}

fn ended(
    epochs: &BTreeMap<u64, Arc<Epoch>>,
    said: &Said<'_>,
    (kept, value): (&Kept, &Value),
    task_id: &str,
) -> Result<Ended, String> {
    let (plan, chosen) = *said.plans.get(task_id).ok_or("the plan's certificate is missing")?;
    // Whatever else came along is nobody's word about this.
    let record = record_of(chosen, plan);
    let (origin, task) = judge::task_of(&record).ok_or(Fault::NoTask.to_string())?;
    let epoch = epochs.get(&task.epoch).ok_or("its epoch's election is missing")?;
    let witnesses = judge::witnesses_of(epoch, origin);
    let found = signed(kept, value, &witnesses)?;
    let deliberation = judge::deliberation(epoch, &record).map_err(|f| f.to_string())?;
    let Outcome::Plan(Chosen::Plan { plan_id, .. }) = &chosen.outcome else {
        return Err("there was no plan to follow".to_owned());
    };
    let winner = deliberation.plans.get(plan_id).ok_or("the plan is missing")?;
    judge::check_result(epoch, winner, value, &found.record).map_err(|f| f.to_string())?;
    let Outcome::Result(ended) = &value.outcome else {
        return Err(Fault::WrongOutcome.to_string());
    };
    if matches!(ended.end, End::Failed | End::SucceededPartially) {
        // Nobody waits for an approval longer than a day.
        let planned = signed(plan, chosen, &witnesses)?;
        let signatures = planned.signatures.iter().filter(|_| task.needs_approval);
        let first = signatures.map(|kept| kept.meta.sent_at).min();
        let approved_by = first.map(|at| plus(at, APPROVAL_MAX_MS - CLOCKS_DIFFER_MS));
        check_time(&found, approved_by.unwrap_or(Timestamp::MAX).min(task.deadline))?;
    }
    Ok(ended.clone())
}

/// Those who lead a task coordinate it, and whoever has proposed its plan.
fn parts_of(
    epochs: &BTreeMap<u64, Arc<Epoch>>,
    words: &Words<'_>,
    task: &TaskReport,
    ended: &Ended,
) -> Vec<PartReport> {
    let epoch = epochs.get(&task.epoch);
    let may_order = |did: &Did| {
        let proposed =
            matches!(&task.chosen, Some(Chosen::Plan { proposer, .. }) if proposer == did);
        proposed || epoch.is_some_and(|epoch| epoch.is_tier1(did))
    };
    words.reports(&task.task_id, ended, may_order)
}

/// How many have signed a final value, as far as a bundle shows.
pub fn signers_of(kept: &Signed, subject: &Subject, hash: Hash32) -> usize {
    let word = Word::Sign { step: Step::Commit, hash };
    let is_signature = |inner: &&Arc<Signed>| {
        matches!(&inner.message, Message::Certificate(said)
            if said.subject == *subject && said.word == word)
    };
    let signers = kept.attached.iter().filter(is_signature).map(|inner| inner.meta.signer);
    signers.collect::<BTreeSet<Did>>().len()
}

fn signed(kept: &Kept, value: &Value, witnesses: &[Did]) -> Result<Proven, String> {
    let too_few = "too few of its witnesses have signed it";
    proven(kept, Step::Commit, value, witnesses).ok_or(too_few.to_owned())
}

/// Whoever is honest signs that the time is over when it is, by its own clock: of those who have
/// signed, one at least.
fn check_time(found: &Proven, end: Timestamp) -> Result<(), String> {
    let is_over = |kept: &Kept| kept.meta.sent_at >= end;
    match found.signatures.iter().any(is_over) {
        true => Ok(()),
        false => Err(format!("all have signed that the time is over before {end}, its end")),
    }
}

/// Who follows each leader of an epoch.
type Successors = BTreeMap<(u64, Did), Did>;

/// A leader has one successor in an epoch.
fn follow(successors: &mut Successors, found: &Succession) -> Result<(), String> {
    let known = successors.entry((found.epoch, found.failed_leader)).or_insert(found.new_leader);
    if *known == found.new_leader { Ok(()) } else { Err("there are two outcomes".to_owned()) }
}

/// The successions that a plan's record proves, since its chair acts for another.
fn successions_in(
    epochs: &BTreeMap<u64, Arc<Epoch>>,
    kept: &Kept,
    value: &Value,
) -> Vec<Succession> {
    let record = record_of(value, kept);
    let epoch = judge::task_of(&record).and_then(|(_, task)| epochs.get(&task.epoch));
    let proven = epoch.map(|epoch| succession::proven_by(epoch, &record)).unwrap_or_default();
    proven.into_iter().map(|(found, _)| found).collect()
}

fn check_succession<'a>(
    epochs: &BTreeMap<u64, Arc<Epoch>>,
    number: u64,
    leader: &Did,
    kept: &Kept,
    value: &'a Value,
) -> Result<&'a Succession, String> {
    let epoch = epochs.get(&number).ok_or("its epoch's election is missing")?;
    signed(kept, value, &succession::witnesses_of(epoch, leader))?;
    match &value.outcome {
        Outcome::Succession(s)
            if s.failed_leader == *leader && succession::is_possible(epoch, s) =>
        {
            Ok(s)
        }
        _ => Err(Fault::WrongOutcome.to_string()),
    }
}

fn plan_report(
    epochs: &BTreeMap<u64, Arc<Epoch>>,
    kept: &Kept,
    subject: &Subject,
    value: &Value,
) -> Result<TaskReport, String> {
    let record = record_of(value, kept);
    let (origin, task) = judge::task_of(&record).ok_or(Fault::NoTask.to_string())?;
    if *subject != (Subject::Plan { task_id: task.task_id.clone() }) {
        return Err(Fault::NoTask.to_string());
    }
    let epoch = epochs.get(&task.epoch).ok_or("its epoch's election is missing")?;
    let witnesses = judge::witnesses_of(epoch, origin);
    let found = signed(kept, value, &witnesses)?;
    judge::check_plan(epoch, value, &found.record).map_err(|fault| fault.to_string())?;
    let Outcome::Plan(chosen) = &value.outcome else {
        return Err(Fault::WrongOutcome.to_string());
    };
    if *chosen == Chosen::TooLate {
        check_time(&found, task.deadline)?;
    }
    let mut report = TaskReport {
        task_id: task.task_id.clone(),
        epoch: task.epoch,
        witnesses: witnesses.len(),
        signatures: found.signatures.len(),
        chosen: Some(chosen.clone()),
        board: Vec::new(),
        critic: None,
        senate: Vec::new(),
        plans: Vec::new(),
        ballots: 0,
        rounds: Vec::new(),
        caught: Vec::new(),
        ended: None,
        parts: Vec::new(),
    };
    if let Ok(deliberation) = judge::deliberation(epoch, &found.record) {
        report.critic = deliberation.ready.adversarial_critic;
        report.senate.clone_from(&deliberation.ready.senate);
        report.plans = deliberation.plans.keys().cloned().collect();
        report.ballots = deliberation.ballots.len();
        let rounds = deliberation.runoff().map_or_else(Vec::new, |runoff| runoff.rounds);
        report.rounds = rounds.into_iter().map(RoundReport::from).collect();
        report.caught = deliberation.caught.iter().copied().collect();
        report.board = deliberation.board;
    }
    Ok(report)
}
