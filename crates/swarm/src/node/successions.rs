//! When a leader falls silent, its branch gets another one, and only one (ASIP 13, decision 48).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use skep_base::{Did, Timestamp};
use skep_wire::swarm::{ErrorCode, Message, Outcome, Subject, Succession, Value};

use super::{Event, Node, Output, Refusal, perform, plus, refuse, send};
use crate::{
    accord::{Accord, Setting, Verdict},
    epoch::Epoch,
    judge,
    kept::Kept,
};

/// Successions that a node takes part in at a time.
const RUNNING_MAX: usize = 64;

/// A succession that goes on or is over.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Running {
    epoch: u64,
    leader: Did,
    accord: Accord,
    /// The leader was heard again: nothing goes on unless others insist.
    rests: bool,
}

impl Running {
    pub(super) fn wake_at(&self) -> Option<Timestamp> {
        if self.rests { None } else { self.accord.wake_at() }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }
}

impl Node {
    /// Who leads a branch after all successions that are known here.
    pub fn leader_of(&self, epoch: u64, leader: &Did) -> Did {
        let decided = self.successions.iter().find_map(|running| {
            let value = &running.accord.decided()?.value;
            match &value.outcome {
                Outcome::Succession(s) if running.epoch == epoch && running.leader == *leader => {
                    Some(s.new_leader)
                }
                _ => None,
            }
        });
        decided.unwrap_or(*leader)
    }

    fn hears(&self, now: Timestamp, did: &Did) -> bool {
        let silence = self.genesis.timing.silence_ms;
        self.peers.get(did).is_some_and(|peer| now < plus(peer.heard_at, silence))
    }

    /// Starts a succession where the leader of this node's own branch is silent.
    pub(super) fn watch_leader(&mut self, now: Timestamp, out: &mut Vec<Output>) {
        let epoch = self.epoch().clone();
        if let Some(parent) = epoch.layout().parent_of(&self.me)
            && epoch.is_tier1(&parent)
            && self.started.is_some_and(|at| now >= plus(at, self.genesis.timing.silence_ms))
            && !self.hears(now, &parent)
        {
            self.open_succession(now, &epoch, parent);
        }
        for index in 0..self.successions.len() {
            let running = &self.successions[index];
            let heard = self.hears(now, &running.leader);
            let running = &mut self.successions[index];
            running.rests = heard;
            if !heard {
                let acts = running.accord.tick(now);
                let (wanted, _) = perform(acts, out);
                let is_first = running.accord.view() == 0 && running.accord.leads();
                if wanted || is_first {
                    self.offer_succession(index, out);
                }
            }
        }
    }

    fn open_succession(&mut self, now: Timestamp, epoch: &Epoch, leader: Did) -> Option<usize> {
        let number = epoch.number();
        let known = |running: &Running| running.epoch == number && running.leader == leader;
        if let Some(index) = self.successions.iter().position(known) {
            return Some(index);
        }
        let branch = branch_of(epoch, &leader);
        if branch.is_empty() || self.successions.len() >= RUNNING_MAX {
            return None;
        }
        let subject = Subject::Succession { epoch: number, leader };
        let concerned: Vec<Did> = branch.iter().chain(epoch.tier1()).copied().collect();
        let mut leaders = branch.clone();
        let weight = |did: &Did| epoch.member(did).map(|member| member.weight);
        leaders.sort_by(|a, b| weight(b).cmp(&weight(a)).then(a.cmp(b)));
        let timing = &self.genesis.timing;
        let setting = Setting {
            witnesses: epoch.witnesses(&subject, &concerned),
            subject,
            leaders,
            anyone_first: false,
            slow_ms: timing.view_ms,
            quick_ms: timing.view_ms,
            deadline: Timestamp::MAX,
            resend_ms: timing.resend_ms,
        };
        let accord = Accord::new(self.me, setting, Vec::new(), now);
        self.successions.push(Running { epoch: number, leader, accord, rests: false });
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
        let value = judge::value(Outcome::Succession(succession), &[]);
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
        let branch = branch_of(&known, &leader);
        let heard = self.hears(now, &leader);
        let proposer = kept.meta.signer;
        let judge = |value: &Value, _: &[Kept]| match &value.outcome {
            Outcome::Succession(s)
                if s.failed_leader == leader
                    && s.epoch == epoch
                    && s.branch_agents == branch
                    && branch.contains(&s.new_leader)
                    && s.new_leader == proposer
                    && value.record.is_empty() =>
            {
                if heard {
                    Verdict::NotYet
                } else {
                    Verdict::Valid
                }
            }
            _ => Verdict::Invalid,
        };
        let acts = self.successions[index].accord.take(now, kept, &judge);
        let (wanted, decided) = perform(acts, out);
        if wanted && !heard {
            self.offer_succession(index, out);
        }
        if decided {
            self.succeed(index, out);
        }
    }

    fn succeed(&mut self, index: usize, out: &mut Vec<Output>) {
        let running = &self.successions[index];
        let Some(Outcome::Succession(succession)) =
            running.accord.decided().map(|proven| &proven.value.outcome)
        else {
            return;
        };
        out.push(Output::Event(Event::Succession {
            epoch: succession.epoch,
            leader: succession.failed_leader,
            successor: succession.new_leader,
        }));
        if succession.new_leader == self.me {
            let others = succession.branch_agents.iter().copied().filter(|did| *did != self.me);
            let message = Message::Succession(succession.clone());
            out.push(send(others.collect(), message));
        }
    }

    /// The certificate decides; this message only says so.
    pub(super) fn take_succession(&self, kept: &Kept, m: &Succession) -> Result<(), Refusal> {
        if kept.meta.signer != m.new_leader && !m.branch_agents.contains(&kept.meta.signer) {
            return refuse(ErrorCode::InvalidSignature, "the signer is not of this branch");
        }
        Ok(())
    }
}

/// Those directly below a leader, in the order of their DIDs.
fn branch_of(epoch: &Epoch, leader: &Did) -> Vec<Did> {
    let branch: BTreeSet<Did> = epoch.layout().children_of(leader).iter().copied().collect();
    branch.into_iter().collect()
}
