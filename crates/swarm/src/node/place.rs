//! Where a node is in the network, by round trips that it measures with its own clock.
//!
//! A keepalive carries a few echoes of others' keepalives. Whoever finds its own echoed knows how
//! long the way there and back was: the time since it sent that one, less the time for which the
//! other has kept it. No two clocks are compared.

use std::{collections::VecDeque, ops::Bound, time::Duration};

use serde::{Deserialize, Serialize};
use skep_base::{Did, Timestamp};
use skep_wire::swarm::{ECHOES_MAX, Echo, Keepalive, Location};

use super::{Node, plus};
use crate::coordinate::{Coordinate, RTT_MAX};

/// Own keepalives that may still be echoed: others echo the last one that they have heard.
const SENT_MAX: usize = 4;
/// A keepalive that has been here for so many intervals is echoed no more.
const HELD_INTERVALS_MAX: u64 = 2;

/// A node's own place, and what it needs to find it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Place {
    coordinate: Coordinate,
    /// When its last keepalives left: an echo of another time is made up.
    sent: VecDeque<Timestamp>,
    /// Whom it has echoed last: those that come after it are next.
    echoed: Option<Did>,
}

impl Place {
    pub(super) fn new(at: Location) -> Place {
        let coordinate = Coordinate { at, ..Coordinate::default() };
        Place { coordinate, sent: VecDeque::new(), echoed: None }
    }

    pub(super) fn coordinate(&self) -> &Coordinate {
        &self.coordinate
    }

    fn note_sent(&mut self, now: Timestamp) {
        self.sent.push_back(now);
        if self.sent.len() > SENT_MAX {
            self.sent.pop_front();
        }
    }
}

impl Node {
    /// What a keepalive that leaves now says of this node's place and of others' keepalives.
    pub(super) fn tell_place(&mut self, now: Timestamp, to: &[Did], keepalive: &mut Keepalive) {
        let coordinate = self.place.coordinate;
        keepalive.location_vector = Some(coordinate.at);
        keepalive.location_error = coordinate.error_share();
        keepalive.echoes = self.echoes(now, to);
        if let Some(last) = keepalive.echoes.last() {
            self.place.echoed = Some(last.agent_id);
        }
        self.place.note_sent(now);
    }

    /// Some of those that are told of it, in turn.
    fn echoes(&self, now: Timestamp, to: &[Did]) -> Vec<Echo> {
        let longest_ms = HELD_INTERVALS_MAX * self.genesis.timing.keepalive_ms;
        let after = match self.place.echoed {
            Some(last) => (Bound::Excluded(last), Bound::Unbounded),
            None => (Bound::Unbounded, Bound::Unbounded),
        };
        let turn = self.peers.range(after).chain(&self.peers).take(self.peers.len());
        let echo = |(did, peer): (&Did, &super::peers::Peer)| {
            let (timestamp, heard_at) = peer.keepalive?;
            let is_recent = now < plus(heard_at, longest_ms);
            let held_ms = u64::try_from(now.since(heard_at).as_millis()).ok()?;
            let is_told = to.binary_search(did).is_ok();
            (is_recent && is_told).then_some(Echo { agent_id: *did, timestamp, held_ms })
        };
        turn.filter_map(echo).take(ECHOES_MAX).collect()
    }

    /// Moves by the echo of an own keepalive, if there is one that can be true.
    pub(super) fn take_echo(&mut self, now: Timestamp, m: &Keepalive) {
        let is_mine = |echo: &&Echo| echo.agent_id == self.me;
        let (Some(echo), Some(at)) =
            (m.echoes.iter().take(ECHOES_MAX).find(is_mine), m.location_vector)
        else {
            return;
        };
        let Some(peer) = self.peers.get_mut(&m.agent_id) else {
            return;
        };
        // Each keepalive is echoed once: repeated lies would count more than measurements.
        if peer.measured.is_some_and(|last| last >= echo.timestamp)
            || !self.place.sent.contains(&echo.timestamp)
        {
            return;
        }
        let away = now.since(echo.timestamp);
        let Some(rtt) = away.checked_sub(Duration::from_millis(echo.held_ms)) else {
            return;
        };
        if rtt > RTT_MAX {
            return;
        }
        peer.measured = Some(echo.timestamp);
        let theirs = Coordinate::told(at, m.location_error);
        self.place.coordinate.update(&self.me, &theirs, &m.agent_id, rtt);
    }
}
