//! Answers to requests: they travel and get lost like messages, and no rule hangs on them.

use skep_base::Did;
use skep_wire::swarm::{ErrorCode, Response, RpcError};

use super::{What, World};

impl World {
    /// Sends a node's answer. A liar says no to what it has taken.
    pub(super) fn send_answer(&mut self, node: usize, to: &Did, mut response: Response) {
        if !self.parts.slots[node].is_honest() {
            response.outcome = Err(RpcError::new(ErrorCode::InvalidRequest, "not here"));
        }
        let Some(&to) = self.numbers.get(to) else {
            return;
        };
        self.counts.messages += 1;
        self.counts.bytes += response.to_json().to_string().len() as u64;
        let arrivals = self.parts.network.carry(self.now_ms, node, to as usize);
        if arrivals == [None, None] {
            self.counts.lost += 1;
        }
        for at_ms in arrivals.into_iter().flatten() {
            let response = Box::new(response.clone());
            self.push(at_ms, What::Response { to, response });
        }
    }

    /// A client that is refused tries the next member; nodes have nothing to do with answers.
    pub(super) fn deliver_answer(&mut self, to: usize, response: &Response) {
        self.mark(9, to);
        let Some(number) = to.checked_sub(self.parts.slots.len()) else {
            return;
        };
        let members = self.parts.leading.tier1().len();
        if self.parts.clients[number].is_sent_on(self.now_ms, response, members) {
            self.inject(number);
        }
    }
}
