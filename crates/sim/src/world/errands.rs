//! What clients do in the world: they order, wait, approve, take back.

use std::sync::Arc;

use skep_base::{Did, Timestamp};
use skep_swarm::node::Node;
use skep_wire::swarm::{Message, Signed};

use super::World;
use crate::client::{ANSWER_MS, PATIENCE_MS, Wish};

impl World {
    pub(super) fn deliver_to_client(&mut self, to: usize, genuine: bool, message: &Signed) {
        let number = to - self.parts.slots.len();
        self.mark(7, to);
        self.trace.add_hash(&message.hash());
        if !genuine {
            self.counts.forged += 1;
            return;
        }
        if self.parts.planted.hides_ends() {
            return;
        }
        if self.parts.clients[number].hear(self.now_ms, message) {
            self.send_verdict(number);
        }
        // Whoever shows the plan waits for the verdict.
        if matches!(message.message, Message::Certificate(_)) {
            self.tell_verdict(number, message.meta.signer);
        }
    }

    pub(super) fn client_turn(&mut self, number: usize) {
        let client = &mut self.parts.clients[number];
        if client.known.is_some() {
            return;
        }
        client.refusals = 0;
        self.mark(8, number);
        self.look_who_leads();
        self.inject(number);
        self.send_verdict(number);
        let client = &self.parts.clients[number];
        if let Wish::Cancel { after_ms } = client.wish {
            let at_ms = client.injected_ms + after_ms;
            if self.now_ms >= at_ms {
                let message = client.cancellation();
                self.parts.clients[number].cancelled = true;
                self.tell_tier1(number, message);
            } else {
                self.turn(number, at_ms);
            }
        }
        let has_heard = self.parts.clients[number].has_heard(self.now_ms);
        self.turn(number, self.now_ms + if has_heard { PATIENCE_MS } else { ANSWER_MS });
    }

    /// Clients know of the newest election that an honest node knows of, and who acts for those
    /// who failed.
    pub(crate) fn look_who_leads(&mut self) {
        let honest = self.parts.slots.iter().filter(|slot| slot.is_honest());
        let newest = honest.filter_map(|slot| slot.node.as_ref()).map(|node| node.epoch());
        if let Some(newest) = newest.max_by_key(|epoch| epoch.number())
            && newest.number() > self.parts.leading.number()
        {
            self.parts.leading = newest.clone();
        }
        let number = self.parts.leading.number();
        let honest = self.parts.slots.iter().filter(|slot| slot.is_honest());
        let there: Vec<&Node> = honest
            .filter_map(|slot| slot.node.as_ref())
            .filter(|node| node.epoch().number() == number)
            .collect();
        let acting = |did: &Did| {
            let known = there.iter().map(|node| node.leader_of(number, did));
            known.into_iter().find(|acting| acting != did).unwrap_or(*did)
        };
        self.acting = self.parts.leading.tier1().iter().map(acting).collect();
    }

    /// Sends the task to one member, unless the swarm was heard a moment ago.
    pub(super) fn inject(&mut self, number: usize) {
        let client = &self.parts.clients[number];
        if client.has_heard(self.now_ms) {
            return;
        }
        let epoch = self.parts.genesis.epoch_at(self.now());
        let message = match &client.inject {
            Some(message) if message.meta.epoch == epoch => message.clone(),
            Some(message) => {
                Arc::new(self.seal_for_client(number, message.message.clone()).asking())
            }
            None => {
                let body = client.injection(self.parts.leading.number());
                self.parts.clients[number].members = Some(self.parts.leading.clone());
                Arc::new(self.seal_for_client(number, body).asking())
            }
        };
        let client = &mut self.parts.clients[number];
        client.inject = Some(message.clone());
        let Some(member) = client.next_member(&self.acting) else {
            return;
        };
        self.send(self.parts.slots.len() + number, &[member], &message);
    }

    fn send_verdict(&mut self, number: usize) {
        if let Some(verdict) = self.parts.clients[number].verdict().cloned() {
            self.tell_tier1(number, verdict);
        }
    }

    fn tell_verdict(&mut self, number: usize, to: Did) {
        let client = &self.parts.clients[number];
        if let (None, Some(verdict)) = (&client.known, client.verdict().cloned()) {
            let message = Arc::new(self.seal_for_client(number, verdict));
            self.send(self.parts.slots.len() + number, &[to], &message);
        }
    }

    fn tell_tier1(&mut self, number: usize, message: Message) {
        let message = Arc::new(self.seal_for_client(number, message));
        let mut to = self.parts.leading.tier1().to_vec();
        to.extend(self.acting.iter().filter(|did| !self.parts.leading.is_tier1(did)));
        self.send(self.parts.slots.len() + number, &to, &message);
    }

    fn seal_for_client(&self, number: usize, message: Message) -> Signed {
        let key = &self.parts.clients[number].key;
        self.seal(key, key.did, self.now(), message, Vec::new())
    }

    /// By clocks that are right.
    fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.parts.genesis.start.as_ms() + self.now_ms)
    }
}
