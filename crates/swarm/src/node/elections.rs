//! The next epoch: candidacies, ballots, and a record that its witnesses make final.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use skep_base::{Did, Timestamp};
use skep_wire::swarm::{
    AssignTier, Candidacy, ElectionVote, ErrorCode, Message, OBSERVED_MAX, Observed, Outcome,
    Share, Signed, Step, Subject, Value, Word,
};

use super::{
    CERTIFIED_MAX, CERTIFIED_OLD_LEN_MAX, EPOCHS_KEPT, Event, Node, Output, Refusal,
    computing::Challenge, perform, plus, refuse, send,
};
use crate::{
    accord::{Accord, Setting, Verdict, proven},
    election::{belongs, elect, is_beyond_evidence},
    epoch::Epoch,
    judge,
    kept::{Kept, attach},
    score::{CANDIDATES_MAX, composite, may_stand},
};

/// What one signer may add to an election: a second, different message is evidence against it.
const PER_SIGNER_MAX: usize = 2;
/// In so many views at most a record must have all candidacies that a witness asks for. That many
/// leaders in a row, who are drawn by lot, hardly all lie; and a record may have no room for all.
const FULL_VIEWS_MAX: usize = 4;
/// So many witnesses beside Tier 1 get a ballot each time it is said again.
const TOLD_AT_A_TIME: usize = 8;

/// An election that is going on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Election {
    /// What it is for; a later one if time runs out.
    epoch: u64,
    /// Who follows the present members: kept until it is decided, whatever the epoch's number.
    accord: Accord,
    stood: bool,
    voted: Option<Timestamp>,
    pub(super) candidacies: BTreeMap<Did, Vec<Kept>>,
    pub(super) votes: BTreeMap<Did, Vec<Kept>>,
}

impl Election {
    /// Whose candidacies a witness asks for in a view: in the first ones its own, and those of
    /// members that its ballot ranks. Where everybody is a witness its own in all views, as its
    /// ballot, so that those who lie never stand alone; in a large swarm there may be no room.
    fn asked_for(&self, me: &Did, current: &Epoch, view: u32) -> Vec<Did> {
        // Among so many leaders one is honest, and has everything that it could get.
        let full_views = self.accord.setting().more_than_lie().min(FULL_VIEWS_MAX);
        let is_full = usize::try_from(view).is_ok_and(|view| view < full_views);
        let ballot = self.votes.get(me).and_then(|own| own.first()).map(|kept| &kept.message);
        let ranked = match ballot {
            Some(Message::ElectionVote(vote)) if is_full => &vote.candidate_rankings[..],
            _ => &[],
        };
        let stands = self.candidacies.contains_key(me) && (is_full || current.is_small());
        let own = stands.then_some(me);
        ranked.iter().filter(|did| current.contains(did)).chain(own).copied().collect()
    }

    /// Where all places of members are taken, the one with the lowest score leaves its own.
    fn make_room(&mut self, current: &Epoch, score: Share) -> Result<(), Refusal> {
        let members = self.candidacies.iter().filter(|(did, _)| current.contains(did));
        let scores: Vec<(Share, Did)> = members
            .filter_map(|(did, all)| match &all.first()?.message {
                Message::Candidacy(candidacy) => Some((composite(&candidacy.score), *did)),
                _ => None,
            })
            .collect();
        match scores.iter().min() {
            Some((lowest, did)) if scores.len() >= 2 * CANDIDATES_MAX => {
                if *lowest >= score {
                    return refuse(ErrorCode::InvalidRequest, "there are enough with more");
                }
                self.candidacies.remove(did);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Node {
    pub(super) fn election_wake_at(&self) -> Timestamp {
        match &self.election {
            Some(election) => {
                let begins = self.genesis.election_start(election.epoch);
                let stands = plus(begins, self.genesis.timing.resend_ms);
                let votes = plus(begins, self.genesis.timing.election_ms / 3);
                let accord = election.accord.wake_at().filter(|_| self.is_member());
                let accord = accord.unwrap_or(Timestamp::MAX);
                let stands = if election.stood { Timestamp::MAX } else { stands };
                let votes = if election.voted.is_none() { votes } else { Timestamp::MAX };
                accord.min(votes).min(stands)
            }
            None => self.genesis.election_start(self.epoch().number() + 1),
        }
    }

    /// The epoch whose election goes on at a time, if one does.
    fn electing(&self, now: Timestamp) -> Option<u64> {
        let next = self.genesis.epoch_at(now) + 1;
        let epoch = if now >= self.genesis.election_start(next) { next } else { next - 1 };
        (epoch > self.epoch().number()).then_some(epoch)
    }

    fn open_election(&mut self, now: Timestamp) -> Option<&mut Election> {
        let epoch = self.electing(now)?;
        if self.election.as_ref().is_none_or(|election| election.epoch < epoch) {
            let before = self.election.take().map(|election| election.accord);
            self.election = Some(Election {
                epoch,
                accord: before.unwrap_or_else(|| self.election_accord(now, epoch)),
                stood: false,
                voted: None,
                candidacies: BTreeMap::new(),
                votes: BTreeMap::new(),
            });
        }
        self.election.as_mut()
    }

    /// Those who were elected last decide who is next.
    fn election_accord(&self, now: Timestamp, epoch: u64) -> Accord {
        let current = self.epoch();
        let subject = Subject::Election { after: current.number() };
        let timing = &self.genesis.timing;
        let witnesses = current.witnesses(&subject, current.tier1());
        // Whoever is no witness asks Tier 1 how it ended, and not everybody.
        let leaders = match witnesses.binary_search(&self.me) {
            Ok(_) => current.tellers(&subject, &witnesses),
            Err(_) => current.leaders(&subject),
        };
        let setting = Setting {
            witnesses,
            leaders,
            reserves: Vec::new(),
            subject,
            anyone_first: false,
            slow_ms: timing.election_ms,
            quick_ms: timing.view_ms,
            deadline: self.genesis.epoch_start(epoch),
            resend_ms: timing.resend_ms,
        };
        Accord::new(self.me, setting, Vec::new(), now)
    }

    /// An election that goes on while this node learns of one before it has other witnesses. What
    /// was said stays: a second, different ballot would void the first.
    fn go_on_electing(&mut self, now: Timestamp) {
        let newest = self.epoch().number();
        self.election = self.election.take().filter(|election| election.epoch > newest);
        if let Some(epoch) = self.election.as_ref().map(|election| election.epoch) {
            let accord = self.election_accord(now, epoch);
            if let Some(election) = &mut self.election {
                (election.accord, election.stood) = (accord, false);
            }
        }
    }

    pub(super) fn run_election(&mut self, now: Timestamp, out: &mut Vec<Output>) {
        let Some(epoch) = self.open_election(now).map(|election| election.epoch) else {
            return;
        };
        let third = self.genesis.timing.election_ms / 3;
        let begins = self.genesis.election_start(epoch);
        // Clocks differ: whoever is a little late must have begun, too.
        if now >= plus(begins, self.genesis.timing.resend_ms) {
            self.stand(epoch, out);
        }
        if now >= plus(begins, third) {
            self.vote_in_election(now, epoch, out);
        }
        self.offer_record(now, out);
        self.withdraw_old();
        // Who is no member yet votes, and has no part in counting.
        let is_member = self.is_member();
        if let Some(election) = self.election.as_mut().filter(|_| is_member) {
            let acts = election.accord.tick(now);
            let (wanted, decided) = perform(acts, out);
            debug_assert!(!decided, "time alone decides nothing");
            if wanted {
                self.offer_record(now, out);
            }
        }
    }

    fn stand(&mut self, epoch: u64, out: &mut Vec<Output>) {
        let Some(election) = self.election.as_mut().filter(|election| !election.stood) else {
            return;
        };
        election.stood = true;
        if !may_stand(&self.profile.score) {
            return;
        }
        let before = election.candidacies.get(&self.me).and_then(|own| own.first());
        let candidacy = match before.map(|own| own.message.clone()) {
            Some(own) => own,
            None => Message::Candidacy(Candidacy {
                agent_id: self.me,
                epoch,
                score: self.profile.score.clone(),
                location_vector: self.place().at,
                evidence: self.profile.evidence.clone(),
                published: self.profile.published.clone(),
            }),
        };
        let current = self.epoch();
        let to: BTreeSet<Did> = current.neighbours(&self.me).into_iter().collect();
        let to = to.into_iter().chain(current.tier1().iter().copied()).chain([self.me]);
        let to: BTreeSet<Did> = to.collect();
        out.push(send(to.into_iter().collect(), candidacy));
    }

    /// Votes, and votes again until the election is over: a ballot may get lost.
    fn vote_in_election(&mut self, now: Timestamp, epoch: u64, out: &mut Vec<Output>) {
        let resend_ms = self.genesis.timing.view_ms;
        let current = self.epoch().clone();
        let Some(election) = &self.election else {
            return;
        };
        match election.voted {
            Some(at) if now < plus(at, resend_ms) => return,
            Some(_) => {
                // The same ballot: another one would void both.
                if let Some(own) = election.votes.get(&self.me).and_then(|own| own.first()) {
                    out.push(send(self.council(now, &current), own.message.clone()));
                }
                self.stand_again(now, &current, out);
                if let Some(election) = &mut self.election {
                    election.voted = Some(now);
                }
                return;
            }
            None => {}
        }
        let mut known: Vec<(Share, Did)> = election
            .candidacies
            .iter()
            .filter(|(did, _)| **did != self.me)
            .filter_map(|(did, all)| match &all.first()?.message {
                Message::Candidacy(candidacy) => Some((composite(&candidacy.score), *did)),
                _ => None,
            })
            .collect();
        known.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        known.truncate(current.k());
        let observed = self.observations(now, &current);
        let vote = ElectionVote {
            voter: self.me,
            epoch,
            candidate_rankings: known.into_iter().map(|(_, did)| did).collect(),
            observed,
            location_vector: Some(self.place().at),
        };
        let mut to = self.council(now, &current);
        to.push(self.me);
        out.push(send(to, Message::ElectionVote(vote)));
        self.stand_again(now, &current, out);
        if let Some(election) = &mut self.election {
            election.voted = Some(now);
        }
    }

    /// Whoever stands says so again with each ballot: what was said once may have been lost.
    fn stand_again(&self, now: Timestamp, current: &Epoch, out: &mut Vec<Output>) {
        let own = self.election.as_ref().and_then(|election| election.candidacies.get(&self.me));
        if let Some(own) = own.and_then(|own| own.first()) {
            out.push(send(self.council(now, current), own.message.clone()));
        }
    }

    /// Who needs the ballots: Tier 1, and who counts now or next, where that is somebody else. Who
    /// is no witness does not know how far they are; when the epoch has begun without an election,
    /// it tells them all, a few at a time.
    fn council(&self, now: Timestamp, current: &Epoch) -> Vec<Did> {
        let mut council = current.tier1().to_vec();
        if let Some(Election { accord, .. }) = &self.election {
            let Setting { witnesses, deadline, .. } = accord.setting();
            let late_ms = now.since(*deadline).as_millis();
            if witnesses.binary_search(&self.me).is_ok() {
                council.extend(accord.leads_soon());
            } else if late_ms > 0 {
                let turn = late_ms / u128::from(self.genesis.timing.view_ms.max(1));
                let passed = usize::try_from(turn).unwrap_or(0).saturating_mul(TOLD_AT_A_TIME);
                let from = passed % witnesses.len().max(1);
                council.extend(witnesses.iter().cycle().skip(from).take(TOLD_AT_A_TIME));
            }
        }
        council.sort_unstable();
        council.dedup();
        council.retain(|did| *did != self.me);
        council
    }

    /// What this node has seen of those that the beacon drew it for.
    fn observations(&self, now: Timestamp, current: &Epoch) -> BTreeMap<Did, Observed> {
        let is_drawn = |did: &Did| current.attesters(did).contains(&self.me);
        let mut watched: Vec<_> = self.peers.iter().filter(|(did, _)| is_drawn(did)).collect();
        // Strangers may be many: members come first.
        watched.sort_by_key(|(did, _)| !current.contains(did));
        watched.truncate(OBSERVED_MAX);
        watched
            .into_iter()
            .map(|(did, peer)| {
                let (uptime, proof_of_compute) = (self.uptime_of(now, peer), self.compute_of(peer));
                (*did, Observed { uptime, proof_of_compute })
            })
            .collect()
    }

    pub(super) fn take_candidacy(
        &mut self,
        now: Timestamp,
        kept: &Kept,
        m: &Candidacy,
    ) -> Result<(), Refusal> {
        if is_beyond_evidence(&self.genesis, m) {
            let reason = "more is claimed than the evidence shows";
            return refuse(ErrorCode::InsufficientReputation, reason);
        }
        if !may_stand(&m.score) {
            return refuse(ErrorCode::InsufficientReputation, "the score is too low to stand");
        }
        self.check_evidence(&m.evidence)?;
        let is_known = self.epoch().contains(&m.agent_id) || self.peers.contains_key(&m.agent_id);
        if self.open_election(now).is_none_or(|election| election.epoch != m.epoch) {
            return refuse(ErrorCode::EpochMismatch, "this election does not go on here");
        }
        if !is_known {
            return refuse(ErrorCode::InvalidSignature, "a handshake comes first");
        }
        self.make_place(m.agent_id)?;
        let current = self.epoch().clone();
        let Some(election) = &mut self.election else {
            return Ok(());
        };
        // Newcomers have places of their own; among members the better ones stand.
        if current.contains(&m.agent_id) && !election.candidacies.contains_key(&m.agent_id) {
            election.make_room(&current, composite(&m.score))?;
        }
        keep(&mut election.candidacies, kept)
    }

    pub(super) fn take_election_vote(
        &mut self,
        now: Timestamp,
        kept: &Kept,
        m: &ElectionVote,
    ) -> Result<(), Refusal> {
        let is_known = self.epoch().contains(&m.voter) || self.peers.contains_key(&m.voter);
        if self.open_election(now).is_none_or(|election| election.epoch != m.epoch) {
            return refuse(ErrorCode::EpochMismatch, "this election does not go on here");
        }
        if !is_known {
            return refuse(ErrorCode::InvalidSignature, "a handshake comes first");
        }
        self.make_place(m.voter)?;
        let Some(election) = &mut self.election else {
            return Ok(());
        };
        keep(&mut election.votes, kept)
    }

    /// What this node has offered and not proposed: ballots have come since, or it was for an epoch
    /// that is over, and no witness would sign it.
    fn withdraw_old(&mut self) {
        if let Some(election) = &mut self.election {
            election.accord.withdraw();
        }
    }

    /// As the leader: what has come in so far.
    fn offer_record(&mut self, now: Timestamp, out: &mut Vec<Output>) {
        let Some(election) = self.election.as_ref().filter(|election| election.accord.leads())
        else {
            return;
        };
        let epoch = election.epoch;
        if now < plus(self.genesis.election_start(epoch), 2 * self.genesis.timing.election_ms / 3) {
            return;
        }
        let current = self.epoch().clone();
        let record = self.record_of(election);
        let elected = elect(&current, &self.genesis, epoch, &record);
        let value = judge::value(Outcome::Election(elected), &record);
        if let Some(election) = &mut self.election {
            let acts = election.accord.offer(value, record);
            perform(acts, out);
        }
    }

    pub(super) fn take_election_word(
        &mut self,
        now: Timestamp,
        kept: &Kept,
        after: u64,
        out: &mut Vec<Output>,
    ) {
        let Message::Certificate(certificate) = &kept.message else {
            return;
        };
        if let Word::Bundle { step: Step::Commit, value } = &certificate.word {
            self.take_elected(now, kept, value, out);
            return;
        }
        if after != self.epoch().number() {
            return;
        }
        let Some(epoch) = self.open_election(now).map(|election| election.epoch) else {
            return;
        };
        self.withdraw_old();
        let ballots_at =
            plus(self.genesis.election_start(epoch), self.genesis.timing.election_ms / 3);
        let (genesis, current, me) = (self.genesis.clone(), self.epoch().clone(), self.me);
        let Some(election) = &mut self.election else {
            return;
        };
        let own = election.votes.get(&me).and_then(|own| own.first()).cloned();
        let asked_for = election.asked_for(&me, &current, certificate.view);
        let judge = |value: &Value, record: &[Kept]| {
            let Outcome::Election(elected) = &value.outcome else {
                return Verdict::Invalid;
            };
            let complete = judge::check_record(value, record, &|kept| belongs(epoch, kept)).is_ok();
            if !complete || *elected != elect(&current, &genesis, epoch, record) {
                return Verdict::Invalid;
            }
            if now < ballots_at {
                return Verdict::NotYet;
            }
            // A leader that leaves ballots or candidacies out finds too few witnesses.
            let is_in = |own: &Kept| record.iter().any(|kept| kept.message == own.message);
            let stands = |did: &Did| {
                let is_of = |kept: &Kept| {
                    kept.meta.signer == *did && matches!(kept.message, Message::Candidacy(_))
                };
                record.iter().any(is_of)
            };
            // Who has no ballot of its own yet waits for it, too.
            let is_full = asked_for.iter().all(stands) && own.as_ref().is_some_and(is_in);
            if is_full { Verdict::Valid } else { Verdict::NotYet }
        };
        let acts = election.accord.take(now, kept, &judge);
        let (wanted, decided) = perform(acts, out);
        if decided {
            self.tell_elected(out);
        } else if wanted {
            self.offer_record(now, out);
        }
    }

    /// As the leader whose value is final: everybody learns of it.
    fn tell_elected(&mut self, out: &mut Vec<Output>) {
        let mut everybody: BTreeSet<Did> = self.epoch().members().iter().copied().collect();
        if let Some(election) = &self.election {
            let decided = election.accord.decided().map(|proven| &proven.value.outcome);
            if let Some(Outcome::Election(elected)) = decided {
                everybody.extend(elected.members.iter().map(|member| member.did));
            }
            perform(election.accord.tell(everybody.into_iter().collect()), out);
        }
    }

    fn take_elected(&mut self, now: Timestamp, kept: &Kept, value: &Value, out: &mut Vec<Output>) {
        let Outcome::Election(elected) = &value.outcome else {
            return;
        };
        let previous = self.epoch().clone();
        let subject = Subject::Election { after: previous.number() };
        let follows = elected.previous == previous.number() && elected.epoch > elected.previous;
        let is_subject =
            matches!(&kept.message, Message::Certificate(said) if said.subject == subject);
        let witnesses = previous.witnesses(&subject, previous.tier1());
        let found = proven(kept, Step::Commit, value, &witnesses);
        let Some(found) = found.filter(|_| follows && is_subject) else {
            return;
        };
        let beacon = value.hash();
        let epoch = Epoch::shared(elected.clone(), beacon);
        let number = epoch.number();
        self.epochs.insert(number, epoch.clone());
        self.forget_epochs();
        // What proves it, and nothing else that has come along.
        let mut certified = kept.without_attachments();
        certified.attached = attach(&[found.signatures, found.record].concat());
        self.joined.extend(greetings(&certified));
        self.certified.push_back(Kept(Arc::new(certified)));
        self.shorten_certified();
        self.go_on_electing(now);
        self.hurry_if_behind(now);
        out.push(Output::Event(Event::Elected { epoch: number, hash: beacon }));
        self.challenge = Challenge::new(number, now);
        self.ask_compute(now, out);
        let layout = epoch.layout();
        for child in layout.children_of(&self.me) {
            if let Some(tier) = layout.tier_of(child) {
                let place = AssignTier {
                    assigned_agent: *child,
                    tier,
                    parent_id: self.me,
                    epoch: number,
                    branch_size: layout.branch_size(child),
                };
                out.push(send(vec![*child], Message::AssignTier(place)));
            }
        }
    }
}

impl Node {
    /// What lets somebody follow from election to election is kept for long, all else is not.
    fn shorten_certified(&mut self) {
        let old = self.certified.len().saturating_sub(CERTIFIED_MAX);
        if let Some(kept) = old.checked_sub(1).and_then(|last| self.certified.get_mut(last)) {
            let is_needed = |inner: &&Arc<Signed>| {
                matches!(inner.message, Message::Certificate(_) | Message::Handshake(_))
            };
            let mut shorter = kept.without_attachments();
            shorter.attached = kept.attached.iter().filter(is_needed).cloned().collect();
            *kept = Kept(Arc::new(shorter));
        }
        let mut len: usize = self.certified.iter().take(old).map(|kept| kept.wire_len()).sum();
        while len > CERTIFIED_OLD_LEN_MAX
            && let Some(oldest) = self.certified.pop_front()
        {
            len -= oldest.wire_len();
            for (did, greeting) in greetings(&oldest) {
                if self.joined.get(&did) == Some(&greeting) {
                    self.joined.remove(&did);
                }
            }
        }
    }

    /// Old epochs go, but for those in which tasks are still open.
    fn forget_epochs(&mut self) {
        let open = self.tasks.values().filter(|state| state.ended.is_none());
        let used: BTreeSet<u64> = open.map(|state| state.task.epoch).collect();
        let recent: BTreeSet<u64> = self.epochs.keys().rev().take(EPOCHS_KEPT).copied().collect();
        self.epochs.retain(|number, _| recent.contains(number) || used.contains(number));
        // What was signed about an epoch's leaders is known for as long as the epoch is: otherwise
        // it could be signed again, and differently.
        let epochs = &self.epochs;
        self.successions.retain(|running| epochs.contains_key(&running.epoch()));
    }
}

/// Of those who have joined by an election.
fn greetings(certified: &Signed) -> impl Iterator<Item = (Did, Kept)> {
    let greetings =
        certified.attached.iter().filter(|inner| matches!(inner.message, Message::Handshake(_)));
    greetings.map(|inner| (inner.meta.signer, Kept(inner.clone())))
}

fn keep(kept: &mut BTreeMap<Did, Vec<Kept>>, message: &Kept) -> Result<(), Refusal> {
    let signer = message.meta.signer;
    let said = kept.entry(signer).or_default();
    let is_known = said.iter().any(|known| known.message == message.message);
    if !is_known && said.len() < PER_SIGNER_MAX {
        said.push(message.bare());
    }
    if is_known || said.len() == 1 {
        Ok(())
    } else {
        refuse(ErrorCode::DuplicateProposal, "a different one by the same signer is there")
    }
}
