//! What somebody in an accord says to the others.

use skep_base::{Did, Timestamp};
use skep_wire::swarm::{Certificate, Prepared, Step, Word};

use super::{Accord, Act, Vote, plus};
use crate::kept::{Kept, attach};

impl Accord {
    fn send(&self, to: Vec<Did>, word: Word, view: u32, attached: &[&[Kept]]) -> Act {
        let certificate = Certificate { subject: self.setting.subject.clone(), view, word };
        Act::Send { to, certificate: Box::new(certificate), attached: attach(&attached.concat()) }
    }

    /// Signs, and soon again if nothing comes of it.
    pub(super) fn sign(&mut self, now: Timestamp, vote: Vote) -> Act {
        self.vote = Some(vote);
        self.repeats = 0;
        self.resend_at = plus(now, self.setting.resend_ms);
        self.send_vote(vote)
    }

    pub(super) fn send_vote(&self, vote: Vote) -> Act {
        let word = Word::Sign { step: vote.step, hash: vote.hash };
        self.send(vec![vote.leader], word, vote.view, &[])
    }

    pub(super) fn send_proposal(&self, to: Vec<Did>) -> Option<Act> {
        let proposal = self.proposal.as_ref()?;
        let word = Word::Propose { value: proposal.value.clone() };
        Some(self.send(to, word, self.view, &[&proposal.record, &proposal.justified_by]))
    }

    /// Most have seen the record in the proposal: it is long, and goes to those only who need it.
    pub(super) fn send_prepared(&self, to: Vec<Did>, with_record: bool) -> Option<Act> {
        let prepared = self.prepared.as_ref()?;
        let word = Word::Bundle { step: Step::Prepare, value: prepared.value.clone() };
        let record = if with_record { &prepared.record[..] } else { &[] };
        Some(self.send(to, word, prepared.view, &[&prepared.signatures, record]))
    }

    /// Tells all witnesses that this node waits no longer. What is prepared here only the view's
    /// leader needs, who has to propose it again: it is long.
    pub(super) fn ask_for_view(&self) -> Vec<Act> {
        let leader = self.setting.leader(self.view);
        let (leader, others): (Vec<Did>, Vec<Did>) =
            self.setting.witnesses.iter().partition(|did| Some(**did) == leader);
        vec![self.next_view(leader), self.bare_next_view(others)]
    }

    pub(super) fn bare_next_view(&self, to: Vec<Did>) -> Act {
        self.send(to, Word::NextView { prepared: None }, self.view, &[&self.ground])
    }

    /// With what is prepared here.
    pub(super) fn next_view(&self, to: Vec<Did>) -> Act {
        let prepared = self.prepared.as_ref();
        let mut attached: Vec<&[Kept]> = vec![&self.ground];
        if let Some(known) = prepared {
            attached.extend([&known.signatures[..], &known.record[..]]);
        }
        let word = Word::NextView {
            prepared: prepared
                .map(|known| Prepared { view: known.view, value: known.value.clone() }),
        };
        self.send(to, word, self.view, &attached)
    }

    /// Sends the certificate to others.
    pub fn tell(&self, to: Vec<Did>) -> Vec<Act> {
        let Some(decided) = &self.decided else {
            return Vec::new();
        };
        let word = Word::Bundle { step: Step::Commit, value: decided.value.clone() };
        vec![self.send(to, word, decided.view, &[&decided.signatures, &decided.record])]
    }
}
