//! When a leader falls silent, its branch gets another one, and only one (ASIP 13, decision 48).
//!
//! Until the next election the successor acts in the failed leader's place: it takes tasks, chairs
//! boards with the branch, and gives the branch its places anew. Whoever it turns to gets the proof
//! along. That the old leader comes back changes nothing.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use skep_base::{Did, Timestamp};
use skep_wire::swarm::{AssignTier, ErrorCode, Message, Outcome, Subject, Succession, Value};

use super::{Event, Node, Output, Refusal, perform, plus, refuse, send};
use crate::{
    accord::{Accord, Proven, Setting, Verdict},
    epoch::Epoch,
    kept::{Kept, attach},
    succession::{branch_of, is_possible, proven_by, value_of, witnesses_of},
};

/// A succession that goes on or is over.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Running {
    epoch: u64,
    leader: Did,
    accord: Accord,
    /// The leader was heard again, or its time is over: nothing goes on unless others insist.
    rests: bool,
    /// The successor's own word, once there is one.
    word: Option<Kept>,
}

impl Running {
    pub(super) fn wake_at(&self) -> Option<Timestamp> {
        if self.rests { None } else { self.accord.wake_at() }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    fn decided(&self) -> Option<(&Succession, &Proven)> {
        let proven = self.accord.decided()?;
        match &proven.value.outcome {
            Outcome::Succession(succession) => Some((succession, proven)),
            _ => None,
        }
    }
}

impl Node {
    /// Who leads a branch after all successions that are known here.
    pub fn leader_of(&self, epoch: u64, leader: &Did) -> Did {
        let of_branch = |running: &&Running| running.epoch == epoch && running.leader == *leader;
        let decided = self.successions.iter().find(of_branch).and_then(Running::decided);
        decided.map_or(*leader, |(succession, _)| succession.new_leader)
    }

    /// Those who act as Tier 1 now, as far as is known here.
    pub fn leaders(&self) -> Vec<Did> {
        let epoch = self.epoch();
        let leader = |did: &Did| self.leader_of(epoch.number(), did);
        epoch.tier1().iter().map(leader).collect()
    }

    /// The leaders in whose place somebody acts.
    fn replaced_by(&self, epoch: u64, did: &Did) -> impl Iterator<Item = &Succession> {
        let did = *did;
        let of_epoch = self.successions.iter().filter(move |running| running.epoch == epoch);
        let decided = of_epoch.filter_map(Running::decided).map(|(succession, _)| succession);
        decided.filter(move |succession| succession.new_leader == did)
    }

    pub(super) fn is_successor(&self, epoch: u64, did: &Did) -> bool {
        self.replaced_by(epoch, did).next().is_some()
    }

    /// All below an agent: its own, and the branches that it has taken over.
    pub(super) fn below(&self, epoch: &Epoch, did: &Did) -> BTreeSet<Did> {
        let own = epoch.layout().children_of(did).iter().copied();
        let taken = self.replaced_by(epoch.number(), did);
        let mut all: BTreeSet<Did> =
            own.chain(taken.flat_map(|taken| taken.branch_agents.iter().copied())).collect();
        all.remove(did);
        all
    }

    /// Tier 1, and those who act for the ones that failed.
    pub(super) fn council_of(&self, epoch: &Epoch) -> BTreeSet<Did> {
        let leader = |did: &Did| self.leader_of(epoch.number(), did);
        epoch.tier1().iter().map(leader).collect()
    }

    /// Who a node's leader is now.
    pub(super) fn parent_in(&self, epoch: &Epoch, did: &Did) -> Option<Did> {
        let parent = epoch.layout().parent_of(did)?;
        Some(self.leader_of(epoch.number(), &parent))
    }

    /// Whom a leader hears from and tells because of successions: who takes over gets to know the
    /// other leaders, and they it.
    pub(super) fn near_by_succession(&self) -> BTreeSet<Did> {
        let epoch = self.epoch();
        if self.is_successor(epoch.number(), &self.me) {
            return self.council_of(epoch).into_iter().chain(self.below(epoch, &self.me)).collect();
        }
        match epoch.is_tier1(&self.me) {
            true => self.council_of(epoch),
            false => BTreeSet::new(),
        }
    }

    /// What this node shows whoever does not know that it acts in another's place.
    pub(super) fn credentials(&self, epoch: u64) -> Vec<Kept> {
        let own = |running: &&Running| {
            let decided = running.decided();
            running.epoch == epoch && decided.is_some_and(|(s, _)| s.new_leader == self.me)
        };
        let all = self.successions.iter().filter(own);
        let shown = all.filter_map(|running| Some((running.word.clone()?, running.decided()?.1)));
        shown.flat_map(|(word, proven)| [vec![word], proven.signatures.clone()].concat()).collect()
    }

    pub(super) fn hears(&self, now: Timestamp, did: &Did) -> bool {
        let silence = self.genesis.timing.silence_ms;
        self.peers.get(did).is_some_and(|peer| now < plus(peer.heard_at, silence))
    }

    /// Whether a leader of the newest election has been silent for long enough to be followed.
    pub(super) fn misses(&self, now: Timestamp, epoch: &Epoch, leader: &Did) -> bool {
        let silence = self.genesis.timing.silence_ms;
        let Some(started) = self.started else {
            return false;
        };
        // In a large swarm a new leader has not spoken to those below it before.
        let since =
            if epoch.is_small() { started } else { started.max(self.challenge.learnt_at()) };
        epoch.number() == self.epoch().number()
            && *leader != self.me
            && now >= plus(since, silence)
            && !self.hears(now, leader)
    }

    /// Starts a succession where the leader of this node's own branch is silent.
    pub(super) fn watch_leader(&mut self, now: Timestamp, out: &mut Vec<Output>) {
        let epoch = self.epoch().clone();
        if let Some(parent) = epoch.layout().parent_of(&self.me)
            && epoch.is_tier1(&parent)
            && self.misses(now, &epoch, &parent)
        {
            self.open_succession(now, &epoch, parent);
        }
        for index in 0..self.successions.len() {
            let running = &self.successions[index];
            let is_gone =
                running.epoch == epoch.number() && self.misses(now, &epoch, &running.leader);
            let is_back = !running.rests && self.hears(now, &running.leader);
            self.successions[index].rests = !is_gone;
            if is_back {
                self.tell_who_is_back(index, out);
            }
            if is_gone {
                let running = &mut self.successions[index];
                let acts = running.accord.tick(now);
                let (wanted, _) = perform(acts, out);
                let is_first = running.accord.view() == 0 && running.accord.leads();
                if wanted || is_first {
                    self.offer_succession(index, out);
                }
            }
        }
    }

    /// A leader that was away may not know that another one acts for it.
    fn tell_who_is_back(&self, index: usize, out: &mut Vec<Output>) {
        let running = &self.successions[index];
        if running.decided().is_some_and(|(succession, _)| succession.new_leader == self.me) {
            perform(running.accord.tell(vec![running.leader]), out);
        }
    }

    fn open_succession(&mut self, now: Timestamp, epoch: &Epoch, leader: Did) -> Option<usize> {
        let number = epoch.number();
        let known = |running: &Running| running.epoch == number && running.leader == leader;
        if let Some(index) = self.successions.iter().position(known) {
            return Some(index);
        }
        let mut leaders = branch_of(epoch, &leader);
        // One for each leader of the epochs that are kept: there are never too many.
        if leaders.is_empty() {
            return None;
        }
        let weight = |did: &Did| epoch.member(did).map(|member| member.weight);
        leaders.sort_by(|a, b| weight(b).cmp(&weight(a)).then(a.cmp(b)));
        let timing = &self.genesis.timing;
        let setting = Setting {
            witnesses: witnesses_of(epoch, &leader),
            subject: Subject::Succession { epoch: number, leader },
            leaders,
            reserves: Vec::new(),
            anyone_first: false,
            slow_ms: timing.view_ms,
            quick_ms: timing.view_ms,
            deadline: Timestamp::MAX,
            resend_ms: timing.resend_ms,
        };
        let accord = Accord::new(self.me, setting, Vec::new(), now);
        let (rests, word) = (false, None);
        self.successions.push(Running { epoch: number, leader, accord, rests, word });
        Some(self.successions.len() - 1)
    }

    fn offer_succession(&mut self, index: usize, out: &mut Vec<Output>) {
        let Running { epoch, leader, .. } = self.successions[index];
        let Some(known) = self.epochs.get(&epoch) else {
            return;
        };
        let succession = Succession {
            failed_leader: leader,
            new_leader: self.me,
            epoch,
            branch_agents: branch_of(known, &leader),
        };
        let value = value_of(&succession);
        let acts = self.successions[index].accord.offer(value, Vec::new());
        perform(acts, out);
    }

    pub(super) fn take_succession_word(
        &mut self,
        now: Timestamp,
        kept: &Kept,
        epoch: u64,
        leader: Did,
        out: &mut Vec<Output>,
    ) {
        let Some(known) = self.epochs.get(&epoch).cloned() else {
            return;
        };
        if !known.is_tier1(&leader) {
            return;
        }
        let Some(index) = self.open_succession(now, &known, leader) else {
            return;
        };
        // Of a leader whose time is over nobody can tell any more whether it was there.
        let is_witness = self.successions[index].accord.is_witness();
        let is_gone = is_witness && self.misses(now, &known, &leader);
        let proposer = kept.meta.signer;
        let judge = |value: &Value, _: &[Kept]| match &value.outcome {
            Outcome::Succession(s)
                if s.failed_leader == leader
                    && is_possible(&known, s)
                    && s.new_leader == proposer
                    && value.record.is_empty() =>
            {
                if is_gone {
                    Verdict::Valid
                } else {
                    Verdict::NotYet
                }
            }
            _ => Verdict::Invalid,
        };
        let acts = self.successions[index].accord.take(now, kept, &judge);
        let (wanted, decided) = perform(acts, out);
        if wanted && is_gone {
            self.offer_succession(index, out);
        }
        if decided {
            self.succeed(index, out);
        }
    }

    fn succeed(&mut self, index: usize, out: &mut Vec<Output>) {
        let Some((succession, proven)) = self.successions[index].decided() else {
            return;
        };
        out.push(Output::Event(Event::Succession {
            epoch: succession.epoch,
            leader: succession.failed_leader,
            successor: succession.new_leader,
        }));
        let Some(epoch) = self.epochs.get(&succession.epoch) else {
            return;
        };
        if succession.new_leader != self.me {
            return;
        }
        // It goes to this node, too, which shows it to others later.
        let branch = succession.branch_agents.iter();
        let to: BTreeSet<Did> = branch.chain(epoch.tier1()).copied().collect();
        let message = Message::Succession(succession.clone());
        let attached = attach(&proven.signatures);
        out.push(Output::Send { to: to.into_iter().collect(), message, attached });
        for child in succession.branch_agents.iter().filter(|did| **did != self.me) {
            if let Some(tier) = epoch.layout().tier_of(child) {
                let place = AssignTier {
                    assigned_agent: *child,
                    tier,
                    parent_id: self.me,
                    epoch: succession.epoch,
                    branch_size: epoch.layout().branch_size(child),
                };
                out.push(send(vec![*child], Message::AssignTier(place)));
            }
        }
    }

    /// The successor's word, with the signatures that make it true.
    pub(super) fn take_succession(
        &mut self,
        now: Timestamp,
        kept: &Kept,
        m: &Succession,
        out: &mut Vec<Output>,
    ) -> Result<(), Refusal> {
        if kept.meta.signer != m.new_leader {
            return refuse(ErrorCode::InvalidSignature, "only the successor says so");
        }
        let mut messages: Vec<Kept> = kept.attached.iter().cloned().map(Kept).collect();
        messages.push(kept.clone());
        self.learn_successions(now, m.epoch, &messages, out);
        if self.leader_of(m.epoch, &m.failed_leader) != m.new_leader {
            return refuse(ErrorCode::InvalidSignature, "too few of its witnesses have signed it");
        }
        let it =
            |running: &&mut Running| running.epoch == m.epoch && running.leader == m.failed_leader;
        if let Some(running) = self.successions.iter_mut().find(it) {
            let bare = || Kept(std::sync::Arc::new(kept.without_attachments()));
            running.word.get_or_insert_with(bare);
        }
        Ok(())
    }

    /// Takes the successions that come with a message.
    pub(super) fn learn_successions(
        &mut self,
        now: Timestamp,
        epoch: u64,
        messages: &[Kept],
        out: &mut Vec<Output>,
    ) {
        let is_news = |kept: &Kept| match &kept.message {
            Message::Succession(m) => self.leader_of(epoch, &m.failed_leader) == m.failed_leader,
            _ => false,
        };
        let Some(known) = self.epochs.get(&epoch).filter(|_| messages.iter().any(is_news)).cloned()
        else {
            return;
        };
        for (succession, proven) in proven_by(&known, messages) {
            if let Some(index) = self.open_succession(now, &known, succession.failed_leader) {
                let acts = self.successions[index].accord.adopt(proven);
                if perform(acts, out).1 {
                    self.succeed(index, out);
                }
            }
        }
    }
}
