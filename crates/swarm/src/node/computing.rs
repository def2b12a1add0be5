//! How a node answers the challenge of an epoch, and what it makes of others' answers.

use serde::{Deserialize, Serialize};
use skep_base::Timestamp;
use skep_wire::swarm::{Computed, ErrorCode, Keepalive, Share};

use super::{Ask, Node, Output, Refusal, peers::Peer, plus, refuse};
use crate::challenge;

/// An agent that has not answered is asked again: the question may have been lost in a crash.
const ASK_AGAIN_MS: u64 = 30_000;

/// The challenge of the newest epoch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Challenge {
    epoch: u64,
    /// When this node learnt of the epoch: others are timed from here.
    learnt_at: Timestamp,
    asked_at: Option<Timestamp>,
    nonce: Option<u64>,
}

impl Challenge {
    pub(super) fn new(epoch: u64, learnt_at: Timestamp) -> Challenge {
        Challenge { epoch, learnt_at, asked_at: None, nonce: None }
    }

    /// It is asked once more at the next sign of life.
    pub(super) fn ask_again(&mut self) {
        self.asked_at = None;
    }

    pub(super) fn learnt_at(&self) -> Timestamp {
        self.learnt_at
    }

    /// This node's own answer, for its keepalives: whoever learns late of the epoch still hears it.
    pub(super) fn computed(&self) -> Option<Computed> {
        self.nonce.map(|nonce| Computed { epoch: self.epoch, nonce })
    }
}

impl Node {
    /// Asks the own agent for work that it has not done yet; a machine does none.
    pub(super) fn ask_compute(&mut self, now: Timestamp, out: &mut Vec<Output>) {
        let (number, beacon) = (self.epoch().number(), self.epoch().beacon);
        let known = &self.challenge;
        let is_asked = known.asked_at.is_some_and(|at| now < plus(at, ASK_AGAIN_MS));
        let is_late = now >= plus(known.learnt_at, challenge::END_MS);
        if is_asked || is_late || known.nonce.is_some() || !self.epoch().contains(&self.me) {
            return;
        }
        self.challenge.asked_at = Some(now);
        let difficulty = self.genesis.difficulty;
        out.push(Output::Ask(Ask::Compute { epoch: number, beacon, difficulty }));
    }

    pub(super) fn take_computed(&mut self, epoch: u64, nonce: u64) {
        let answers = epoch == self.challenge.epoch
            && challenge::check(&self.epoch().beacon, &self.me, nonce, self.genesis.difficulty);
        if answers {
            self.challenge.nonce = Some(nonce);
        }
    }

    /// An answer that is none is no sign of life either. Those to other epochs cannot be told.
    pub(super) fn check_computed(&self, m: &Keepalive) -> Result<(), Refusal> {
        let current = self.epoch();
        let Some(said) = m.computed.filter(|said| said.epoch == current.number()) else {
            return Ok(());
        };
        let bits = self.genesis.difficulty;
        if challenge::check(&current.beacon, &m.agent_id, said.nonce, bits) {
            return Ok(());
        }
        let reason = format!("the challenge of epoch {} needs {bits} zero bits", said.epoch);
        refuse(ErrorCode::InvalidPow, reason)
    }

    /// Notes how long the first right answer took. What others made of it is not asked: each
    /// watcher has its own clock.
    pub(super) fn note_computed(&mut self, now: Timestamp, m: &Keepalive) {
        let known = &self.challenge;
        let (epoch, learnt_at) = (known.epoch, known.learnt_at);
        let answers = m.computed.is_some_and(|said| said.epoch == epoch);
        if let Some(peer) = self.peers.get_mut(&m.agent_id).filter(|_| answers)
            && peer.computed.is_none_or(|(known, _)| known != epoch)
        {
            let took_ms = u64::try_from(now.since(learnt_at).as_millis()).unwrap_or(u64::MAX);
            peer.computed = Some((epoch, challenge::grade(took_ms)));
        }
    }

    /// How a peer did in the challenge of the newest epoch; silence is nothing.
    pub(super) fn compute_of(&self, peer: &Peer) -> Share {
        let of_now = peer.computed.filter(|(epoch, _)| *epoch == self.challenge.epoch);
        of_now.map_or(Share::ZERO, |(_, share)| share)
    }
}
