//! How a stranger becomes a member: it says who it is, is told of the elections that it has
//! missed, and votes in the next one (ASIP 1, 2).
//!
//! It knows the genesis document and some members. Each election is certified by the members of the
//! one before, so nobody has to be believed about who the members are now.

use std::{collections::BTreeSet, sync::Arc};

use skep_base::{Did, Timestamp};
use skep_wire::swarm::{
    Certificate, ErrorCode, Keepalive, Message, Outcome, Signed, Step, Subject, Word,
};

use super::{Node, Output, Profile, Refusal, plus, refuse, send};
use crate::{genesis::Genesis, kept::Kept};

/// Strangers that a node listens to at a time. Those that are silent make room for others.
pub const GUESTS_MAX: usize = 256;
/// Members that a newcomer is told of before it comes.
pub const CONTACTS_MAX: usize = 16;

impl Node {
    /// A node that did not found the swarm and knows some of its members.
    pub fn newcomer(genesis: Arc<Genesis>, profile: Profile, contacts: &[Did]) -> Node {
        let mut node = Node::new(genesis, profile);
        node.contacts = contacts.iter().copied().take(CONTACTS_MAX).collect();
        node
    }

    /// Whether this node is a member by the newest election that it knows.
    pub fn is_member(&self) -> bool {
        self.epoch().contains(&self.me)
    }

    /// Whom signs of life go to.
    pub(super) fn near(&self) -> Vec<Did> {
        let near = self.epoch().audience(&self.me);
        let mut all: BTreeSet<Did> = near.into_iter().collect();
        all.extend(self.near_by_succession());
        if !self.is_member() {
            all.extend(&self.contacts);
        }
        all.into_iter().filter(|did| *did != self.me).collect()
    }

    /// Says who this node is to those whose own word is missing: theirs or ours was lost. Who is
    /// no member says it to all, again and again, since nobody else will.
    pub(super) fn greet(&mut self, now: Timestamp, near: &[Did], out: &mut Vec<Output>) {
        let silence_ms = self.genesis.timing.silence_ms;
        self.greetings.retain(|_, at| now < plus(*at, silence_ms));
        let is_new = !self.is_member();
        let knows = |did: &Did| self.peers.get(did).is_some_and(|peer| peer.handshake.is_some());
        let lacks = |did: &&Did| is_new || !knows(did);
        let not_yet = |did: &&Did| !self.greetings.contains_key(*did);
        let to: Vec<Did> = near.iter().filter(lacks).filter(not_yet).copied().collect();
        if !to.is_empty() {
            self.greetings.extend(to.iter().map(|did| (*did, now)));
            out.push(send(to, Message::Handshake(self.handshake())));
        }
    }

    /// A greeting is returned, unless this node has greeted the other a moment ago.
    pub(super) fn greet_back(&mut self, now: Timestamp, did: Did, out: &mut Vec<Output>) {
        let silence_ms = self.genesis.timing.silence_ms;
        let lately = self.greetings.get(&did).is_some_and(|at| now < plus(*at, silence_ms));
        if did != self.me && !lately {
            self.greetings.insert(did, now);
            out.push(send(vec![did], Message::Handshake(self.handshake())));
        }
    }

    fn was_elected(&self, did: &Did) -> bool {
        self.epochs.values().any(|epoch| epoch.contains(did))
    }

    /// Strangers are many and cost nothing: they share a few places, so that members have room.
    pub(super) fn make_room(&mut self, now: Timestamp, did: &Did) -> Result<(), Refusal> {
        if self.peers.contains_key(did) || self.was_elected(did) {
            return Ok(());
        }
        let guests = self.peers.keys().filter(|did| !self.was_elected(did)).count();
        if guests < GUESTS_MAX {
            return Ok(());
        }
        let silence_ms = self.genesis.timing.silence_ms;
        let silent: Vec<Did> = self
            .peers
            .iter()
            .filter(|(did, peer)| now >= plus(peer.heard_at, silence_ms) && !self.was_elected(did))
            .map(|(did, _)| *did)
            .collect();
        if silent.is_empty() {
            return refuse(ErrorCode::InvalidRequest, "too many strangers are here; try later");
        }
        silent.iter().for_each(|did| drop(self.peers.remove(did)));
        Ok(())
    }

    /// What a stranger that has shaken hands may say: that it is there. And whoever passes an
    /// election on need not be a member by the ones before it.
    pub(super) fn may_say_as_guest(&self, kept: &Kept) -> bool {
        let is_guest =
            self.peers.get(&kept.meta.signer).is_some_and(|peer| peer.handshake.is_some());
        is_guest && (matches!(kept.message, Message::Keepalive(_)) || is_election(&kept.0))
    }

    /// Whether a sign of life is answered with the election that its sender has missed. Members
    /// are answered by those whose turn it is. A large swarm's newcomer knows few of them, so those
    /// answer. Each answers at once when the other has got on, otherwise once in a while: a
    /// certificate is long, and asking costs nothing.
    pub(super) fn may_tell(&mut self, now: Timestamp, m: &Keepalive, is_turn: bool) -> bool {
        let known = self.epochs.get(&m.elected);
        let is_member = known.is_some_and(|epoch| epoch.contains(&m.agent_id));
        if !is_turn && (is_member || self.epoch().is_small()) {
            return false;
        }
        let timing = &self.genesis.timing;
        let Some(peer) = self.peers.get_mut(&m.agent_id) else {
            return false;
        };
        // Whoever knew more a moment ago does not ask because something was lost.
        let fell_back = peer.told.is_some_and(|(elected, _)| m.elected < elected);
        let is_often = is_member && !fell_back;
        let pause_ms = if is_often { timing.keepalive_ms / 2 } else { timing.silence_ms };
        let may =
            peer.told.is_none_or(|(elected, at)| m.elected > elected || now >= plus(at, pause_ms));
        if may {
            peer.told = Some((m.elected, now));
        }
        may
    }

    /// Who has learnt of an election and is still behind asks at once for the next one.
    pub(super) fn hurry_if_behind(&mut self, now: Timestamp) {
        if self.epoch().number() < self.genesis.epoch_at(now) {
            self.keepalive_at = self.keepalive_at.min(now);
        }
    }
}

/// Whether it is an election's certificate, which proves itself.
fn is_election(signed: &Signed) -> bool {
    matches!(&signed.message, Message::Certificate(Certificate {
        subject: Subject::Election { .. },
        word: Word::Bundle { step: Step::Commit, value },
        ..
    }) if matches!(value.outcome, Outcome::Election(_)))
}
