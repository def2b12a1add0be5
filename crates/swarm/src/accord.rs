//! One value, final, among witnesses of whom a third may lie or be away (decision 45).
//!
//! A leader proposes; each witness signs at most one value in a view; ⌊2n/3⌋+1 signatures make the
//! value *prepared*, and whoever has seen that signs once more; as many second signatures make it
//! final. Two such sets share an honest witness, so two values are never final. A view that takes
//! too long is left together with whatever was prepared in it, which the next leader must propose
//! again: a value that may be final somewhere is never replaced. Nobody signs a value without the
//! messages that it follows from, so that whoever helped to make it final can show them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use skep_base::{Did, Hash32, Timestamp};
use skep_wire::swarm::{Certificate, Message, Prepared, Signed, Step, Value, Word};

pub(crate) use self::proven::record_of;
use self::proven::{enough, justification};
pub use self::{
    proven::{Proven, has_record, proven},
    setting::Setting,
};
use crate::kept::Kept;

mod proven;
mod setting;
#[cfg(test)]
mod tests;
mod words;

/// How many views ahead of its own a witness listens to.
const VIEWS_AHEAD_MAX: u32 = 1_000;

/// How many times as long a node waits between questions for what it lacks.
const ASK_EVERY: u64 = 4;

/// A value that a leader proposes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Proposal {
    value: Value,
    hash: Hash32,
    record: Vec<Kept>,
    justified_by: Vec<Kept>,
    prepare: BTreeMap<Did, Kept>,
    commit: BTreeMap<Did, Kept>,
}

/// What a witness has signed last.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Vote {
    view: u32,
    step: Step,
    hash: Hash32,
    leader: Did,
}

/// What somebody's own judgement says of a proposed value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Valid,
    /// Perhaps later: it comes too early, or something is missing here.
    NotYet,
    Invalid,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    Send {
        to: Vec<Did>,
        certificate: Box<Certificate>,
        attached: Vec<Arc<Signed>>,
    },
    /// This node leads, and nothing is prepared: a value is wanted.
    Wanted,
    /// The value is final.
    Decided,
}

/// One witness's part in making one value final.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Accord {
    me: Did,
    /// Whether this node is one of the witnesses: asked for far more often than it is found out.
    witness: bool,
    setting: Setting,
    /// Who else may propose in the first view, where all leaders may.
    admitted: Vec<Did>,
    /// What it is all about, for witnesses who have not heard of it.
    ground: Vec<Kept>,
    view: u32,
    until: Timestamp,
    resend_at: Timestamp,
    /// How often something was said again in this view: more and more seldom.
    repeats: u32,
    offer: Option<(Value, Vec<Kept>)>,
    proposal: Option<Proposal>,
    vote: Option<Vote>,
    /// The messages of the last value that was found valid here.
    seen: Option<(Hash32, Vec<Kept>)>,
    prepared: Option<Proven>,
    /// Those who wait no longer, by the last view that they have asked for.
    moved_on: BTreeMap<Did, Kept>,
    decided: Option<Proven>,
    /// Witnesses whose signature was here when it was final, or came later.
    late: BTreeSet<Did>,
    /// Who was told of the decision a moment ago: it is long, and asking costs nothing.
    #[serde(default)]
    told: BTreeMap<Did, Timestamp>,
}

type Judge<'a> = &'a dyn Fn(&Value, &[Kept]) -> Verdict;

impl Accord {
    pub fn new(me: Did, setting: Setting, ground: Vec<Kept>, now: Timestamp) -> Accord {
        let until = setting.view_end(now, 0);
        let resend_at = plus(now, setting.resend_ms);
        Accord {
            me,
            witness: setting.is_witness(&me),
            setting,
            admitted: Vec::new(),
            ground,
            view: 0,
            until,
            resend_at,
            repeats: 0,
            offer: None,
            proposal: None,
            vote: None,
            seen: None,
            prepared: None,
            moved_on: BTreeMap::new(),
            decided: None,
            late: BTreeSet::new(),
            told: BTreeMap::new(),
        }
    }

    pub fn setting(&self) -> &Setting {
        &self.setting
    }

    /// The final value, once everything that it follows from is here, too.
    pub fn decided(&self) -> Option<&Proven> {
        self.decided.as_ref().filter(|decided| decided.is_whole())
    }

    /// The bytes of the messages that are kept of what was decided.
    pub(crate) fn decided_len(&self) -> usize {
        let messages = self.decided.iter().flat_map(|it| it.signatures.iter().chain(&it.record));
        messages.map(|kept| kept.wire_len()).sum()
    }

    pub fn is_witness(&self) -> bool {
        self.witness
    }

    pub fn view(&self) -> u32 {
        self.view
    }

    /// Whether it is this node's turn to propose.
    pub fn leads(&self) -> bool {
        self.decided.is_none() && self.may_lead(self.view, &self.me)
    }

    /// Whether somebody led the view in which it was decided.
    pub fn has_led(&self, did: &Did) -> bool {
        self.decided.as_ref().is_some_and(|decided| self.setting.leader(decided.view) == Some(*did))
    }

    /// Who leads this view, and who leads the next.
    pub fn leads_soon(&self) -> impl Iterator<Item = Did> {
        let views = [self.view, self.view.saturating_add(1)];
        views.into_iter().filter_map(|view| self.setting.leader(view))
    }

    /// Lets another one propose in the first view. Who leads later does not change, since not all
    /// may know of it.
    pub fn admit(&mut self, did: Did) {
        if self.setting.anyone_first && !self.admitted.contains(&did) {
            self.admitted.push(did);
        }
    }

    fn may_lead(&self, view: u32, did: &Did) -> bool {
        self.setting.may_lead(view, did) || view == 0 && self.admitted.contains(did)
    }

    pub fn wake_at(&self) -> Option<Timestamp> {
        match &self.decided {
            Some(decided) if decided.is_whole() => None,
            Some(_) => Some(self.resend_at),
            None if self.witness => Some(self.until.min(self.resend_at)),
            None => Some(self.until),
        }
    }

    /// What this node would propose where it leads.
    pub fn offer(&mut self, value: Value, record: Vec<Kept>) -> Vec<Act> {
        self.offer = Some((value, record));
        self.propose()
    }

    /// What was offered is old: when this node may propose, it is asked for another.
    pub fn withdraw(&mut self) {
        self.offer = None;
    }

    /// Takes a decision that was reached without this node.
    pub fn adopt(&mut self, mut proven: Proven) -> Vec<Act> {
        if self.decided.as_ref().is_some_and(Proven::is_whole) {
            return Vec::new();
        }
        proven.record = self.complete(&proven.value, proven.record);
        let is_whole = proven.is_whole();
        // Whoever has signed and signs again has not heard what came of it.
        self.late.extend(proven.signatures.iter().map(|kept| kept.meta.signer));
        self.decided = Some(proven);
        self.proposal = None;
        self.moved_on.clear();
        if !is_whole {
            return Vec::new();
        }
        // What did not become final is not needed any more.
        (self.offer, self.seen, self.prepared) = (None, None, None);
        vec![Act::Decided]
    }

    /// A value's messages: those that came with it, or those seen before.
    fn complete(&self, value: &Value, record: Vec<Kept>) -> Vec<Kept> {
        if record.len() == value.record.len() {
            return record;
        }
        let prepared = self.prepared.as_ref().filter(|known| known.value == *value);
        let seen = self.seen.as_ref().filter(|(hash, _)| *hash == value.hash());
        let known = prepared.map(|known| &known.record).or(seen.map(|(_, record)| record));
        known.cloned().unwrap_or(record)
    }

    pub fn tick(&mut self, now: Timestamp) -> Vec<Act> {
        if let Some(decided) = &self.decided {
            if decided.is_whole() || now < self.resend_at {
                return Vec::new();
            }
            // Somebody has what it follows from, and answers.
            self.resend_at = plus(now, ASK_EVERY * self.setting.resend_ms);
            return vec![self.bare_next_view(self.setting.witnesses.clone())];
        }
        if !self.witness {
            return self.ask_as_guest(now);
        }
        if now >= self.until {
            return self.leave_view(now);
        }
        if now >= self.resend_at {
            self.resend_at = plus(now, self.next_pause(self.setting.resend_ms));
            return self.resend();
        }
        Vec::new()
    }

    /// Who is no witness is told when it is over; should that get lost, it asks.
    fn ask_as_guest(&mut self, now: Timestamp) -> Vec<Act> {
        if now < self.until {
            return Vec::new();
        }
        self.until = plus(now, ASK_EVERY * self.setting.quick_ms);
        vec![self.next_view(self.setting.leaders.clone())]
    }

    /// Takes a message about this subject.
    pub fn take(&mut self, now: Timestamp, message: &Kept, judge: Judge<'_>) -> Vec<Act> {
        let Message::Certificate(certificate) = &message.message else {
            return Vec::new();
        };
        let from = message.meta.signer;
        let about_us = certificate.subject == self.setting.subject;
        if !about_us || certificate.view > self.view.saturating_add(VIEWS_AHEAD_MAX) {
            return Vec::new();
        }
        if let Word::Bundle { step: Step::Commit, value } = &certificate.word {
            if self.decided().is_some() {
                return Vec::new();
            }
            return match proven(message, Step::Commit, value, &self.setting.witnesses) {
                Some(proven) => self.adopt(proven),
                None => Vec::new(),
            };
        }
        if self.decided.is_some() {
            // Whoever still asks has missed it. A signature is the last word of many; whoever signs
            // again waits for an answer.
            let asks = match certificate.word {
                Word::Sign { .. } => self.setting.is_witness(&from) && !self.late.insert(from),
                _ => true,
            };
            return if asks && from != self.me { self.tell_again(now, from) } else { Vec::new() };
        }
        if !self.setting.is_witness(&from) {
            return Vec::new();
        }
        match &certificate.word {
            Word::Propose { value } => self.take_proposal(now, message, certificate, value, judge),
            Word::Sign { step, hash } => self.take_signature(message, certificate, *step, hash),
            Word::Bundle { value, .. } => self.take_prepared(now, message, certificate, value),
            Word::NextView { .. } => self.take_next_view(now, message, certificate.view),
        }
    }

    /// Each asker is answered once, and again when it may have got lost.
    fn may_tell(&mut self, now: Timestamp, to: Did) -> bool {
        let resend_ms = self.setting.resend_ms;
        self.told.retain(|_, at| now < plus(*at, resend_ms));
        if self.told.contains_key(&to) {
            return false;
        }
        self.told.insert(to, now);
        true
    }

    /// Tells somebody of the decision who asks for it, but not over and over.
    pub fn tell_again(&mut self, now: Timestamp, to: Did) -> Vec<Act> {
        if self.may_tell(now, to) { self.tell(vec![to]) } else { Vec::new() }
    }

    fn take_proposal(
        &mut self,
        now: Timestamp,
        message: &Kept,
        certificate: &Certificate,
        value: &Value,
        judge: Judge<'_>,
    ) -> Vec<Act> {
        let (from, view) = (message.meta.signer, certificate.view);
        if view < self.view || !self.may_lead(view, &from) || !self.is_left_for(view, &from) {
            return Vec::new();
        }
        let hash = value.hash();
        if let Some(vote) = self.vote.filter(|vote| vote.view == view) {
            // One value in a view; the same one again means that the answer was lost.
            let again = vote.hash == hash && vote.leader == from && view == self.view;
            return if again { vec![self.send_vote(vote)] } else { Vec::new() };
        }
        let justified = justification(&self.setting, message, view, &hash);
        let is_safe = self.prepared.as_ref().is_none_or(|prepared| {
            prepared.value.hash() == hash || justified.is_some_and(|by| by >= prepared.view)
        });
        if !is_safe {
            // The leader does not know what was prepared; it will.
            return vec![self.next_view(vec![from])];
        }
        let record = self.complete(value, record_of(value, message));
        let verdict = if justified.is_some() { Verdict::Valid } else { judge(value, &record) };
        if verdict != Verdict::Valid || record.len() != value.record.len() {
            return Vec::new();
        }
        let mut acts = Vec::new();
        if view > self.view {
            acts = self.enter(now, view);
        }
        self.seen = Some((hash, record));
        let vote = Vote { view, step: Step::Prepare, hash, leader: from };
        acts.push(self.sign(now, vote));
        acts
    }

    /// Whether somebody honest has left the present view for this one. A leader that says so alone
    /// would end the views of the others as it likes.
    fn is_left_for(&self, view: u32, leader: &Did) -> bool {
        let others = self.moved_on.iter().filter(|(did, _)| *did != leader);
        let others = others.filter(|(_, kept)| view_of(kept) >= view).count();
        view == self.view || others + 1 >= self.setting.more_than_lie()
    }

    fn take_signature(
        &mut self,
        message: &Kept,
        certificate: &Certificate,
        step: Step,
        hash: &Hash32,
    ) -> Vec<Act> {
        let quorum = self.setting.quorum();
        let (from, view) = (message.meta.signer, self.view);
        let Some(proposal) = &mut self.proposal else {
            return Vec::new();
        };
        if certificate.view != view || proposal.hash != *hash {
            return Vec::new();
        }
        let signatures = match step {
            Step::Prepare => &mut proposal.prepare,
            Step::Commit => &mut proposal.commit,
        };
        // Who signs again has missed what followed, and is told when that is repeated.
        let is_again = signatures.insert(from, message.bare()).is_some();
        if is_again || signatures.len() != quorum {
            return Vec::new();
        }
        let proven = Proven {
            view,
            value: proposal.value.clone(),
            signatures: signatures.values().cloned().collect(),
            record: proposal.record.clone(),
        };
        match step {
            Step::Prepare => {
                self.prepared = Some(proven);
                let witnesses = self.setting.witnesses.clone();
                self.send_prepared(witnesses, false).into_iter().collect()
            }
            Step::Commit => {
                let mut acts = self.adopt(proven);
                acts.extend(self.tell(self.setting.witnesses.clone()));
                acts
            }
        }
    }

    fn take_prepared(
        &mut self,
        now: Timestamp,
        message: &Kept,
        certificate: &Certificate,
        value: &Value,
    ) -> Vec<Act> {
        let (from, view) = (message.meta.signer, certificate.view);
        if view < self.view {
            return Vec::new();
        }
        // Something newer was prepared already.
        if self.prepared.as_ref().is_some_and(|known| known.view > view) {
            return Vec::new();
        }
        let Some(mut proven) = proven(message, Step::Prepare, value, &self.setting.witnesses)
        else {
            return Vec::new();
        };
        // What it follows from comes along when the leader says it again.
        proven.record = self.complete(value, proven.record);
        if !proven.is_whole() {
            return Vec::new();
        }
        let mut acts = Vec::new();
        if view > self.view {
            acts = self.enter(now, view);
        }
        let vote = Vote { view, step: Step::Commit, hash: value.hash(), leader: from };
        self.prepared = Some(proven);
        acts.push(self.sign(now, vote));
        acts
    }

    fn take_next_view(&mut self, now: Timestamp, message: &Kept, view: u32) -> Vec<Act> {
        let from = message.meta.signer;
        self.learn_prepared(message);
        if self.moved_on.get(&from).is_some_and(|known| view_of(known) >= view) {
            return Vec::new();
        }
        self.moved_on.insert(from, message.bare());
        // More than could lie want to go on: so do we.
        let rest = self.setting.more_than_lie();
        let mut views: Vec<u32> = self.moved_on.values().map(view_of).collect();
        views.sort_unstable_by(|a, b| b.cmp(a));
        if let Some(wanted) = views.get(rest - 1).copied().filter(|wanted| *wanted > self.view) {
            return self.enter(now, wanted);
        }
        self.propose()
    }

    /// What others have prepared binds this node, too: it is as good as having seen it. Without the
    /// messages that it follows from it is not: no honest witness is bound by it then.
    fn learn_prepared(&mut self, message: &Kept) {
        let Message::Certificate(Certificate {
            word: Word::NextView { prepared: Some(Prepared { view, value }) },
            ..
        }) = &message.message
        else {
            return;
        };
        if self.prepared.as_ref().is_some_and(|known| known.view >= *view) {
            return;
        }
        let hash = value.hash();
        let is_signature = |kept: &Signed| {
            matches!(&kept.message, Message::Certificate(inner)
                if inner.subject == self.setting.subject && inner.view == *view
                    && inner.word == Word::Sign { step: Step::Prepare, hash })
        };
        if let Some(signatures) = enough(message, &self.setting.witnesses, is_signature) {
            let record = self.complete(value, record_of(value, message));
            let proven = Proven { view: *view, value: value.clone(), signatures, record };
            if proven.is_whole() {
                self.prepared = Some(proven);
            }
        }
    }

    /// The view took too long. Whoever is ahead of the others waits for them, so that all that are
    /// honest meet in one view; the first one they leave each by its own clock.
    fn leave_view(&mut self, now: Timestamp) -> Vec<Act> {
        if self.view > 0 && self.supporters() < self.setting.quorum() {
            self.until = plus(now, self.next_pause(self.setting.quick_ms));
            return self.ask_for_view();
        }
        self.enter(now, self.view.saturating_add(1))
    }

    /// Twice as long each time, up to a limit: nobody is flooded about what nobody else knows.
    fn next_pause(&mut self, first_ms: u64) -> u64 {
        const DOUBLINGS_MAX: u32 = 3;
        self.repeats = self.repeats.saturating_add(1);
        first_ms << self.repeats.saturating_sub(1).min(DOUBLINGS_MAX)
    }

    /// How many are in this view or ahead of it.
    fn supporters(&self) -> usize {
        self.moved_on.values().filter(|kept| view_of(kept) >= self.view).count()
    }

    fn enter(&mut self, now: Timestamp, view: u32) -> Vec<Act> {
        self.view = view;
        self.until = self.setting.view_end(now, view);
        self.resend_at = plus(now, self.setting.resend_ms);
        self.repeats = 0;
        self.proposal = None;
        let mut acts = self.ask_for_view();
        acts.extend(self.propose());
        acts
    }

    /// Proposes where it is this node's turn: what is prepared, otherwise its own.
    fn propose(&mut self) -> Vec<Act> {
        if !self.leads()
            || self.proposal.is_some()
            || self.vote.is_some_and(|v| v.view == self.view)
        {
            return Vec::new();
        }
        let view = self.view;
        if view > 0 && self.supporters() < self.setting.quorum() {
            return Vec::new();
        }
        let (value, record, justified_by) = match (&self.prepared, &self.offer) {
            (Some(known), _) => {
                (known.value.clone(), known.record.clone(), known.signatures.clone())
            }
            (None, Some((value, record))) => (value.clone(), record.clone(), Vec::new()),
            (None, None) if view > 0 || !self.setting.anyone_first => return vec![Act::Wanted],
            (None, None) => return Vec::new(),
        };
        self.proposal = Some(Proposal {
            hash: value.hash(),
            value,
            record,
            justified_by,
            prepare: BTreeMap::new(),
            commit: BTreeMap::new(),
        });
        self.send_proposal(self.setting.witnesses.clone()).into_iter().collect()
    }

    fn resend(&self) -> Vec<Act> {
        let unheard = |heard: &BTreeMap<Did, Kept>| -> Vec<Did> {
            let missing = |did: &&Did| !heard.contains_key(*did);
            self.setting.witnesses.iter().filter(missing).copied().collect()
        };
        match &self.proposal {
            Some(proposal) if proposal.prepare.len() >= self.setting.quorum() => {
                // Whoever is silent may lack the record.
                self.send_prepared(unheard(&proposal.commit), true).into_iter().collect()
            }
            Some(proposal) => self.send_proposal(unheard(&proposal.prepare)).into_iter().collect(),
            // Nobody leads this view yet, as far as is known here.
            None if self.view > 0 && self.vote.is_none_or(|vote| vote.view < self.view) => {
                let leader = self.setting.leader(self.view);
                vec![self.next_view(leader.into_iter().collect())]
            }
            // It has signed and heard no more: the signature was lost, or what came of it.
            None => self.vote.map(|vote| self.send_vote(vote)).into_iter().collect(),
        }
    }
}

/// The view that a word is about.
fn view_of(kept: &Kept) -> u32 {
    match &kept.message {
        Message::Certificate(certificate) => certificate.view,
        _ => 0,
    }
}

fn plus(now: Timestamp, ms: u64) -> Timestamp {
    now.plus(std::time::Duration::from_millis(ms))
}
