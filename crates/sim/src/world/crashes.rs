//! How nodes stop, at the worst moments, and what they begin again with.

use std::collections::VecDeque;

use skep_swarm::node::{Input, Node, Output};

use super::World;

/// When in its work a node stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Between two turns: everything is stored and sent.
    Between,
    /// With the next thing that it should take in, which is lost.
    Deaf,
    /// In its next turn, which is stored; only so many of its messages have left.
    Midway(usize),
}

impl World {
    pub(super) fn go_down(&mut self, node: usize) {
        let slot = &mut self.parts.slots[node];
        if let Some(up) = slot.node.take() {
            slot.stored = Some(written(&up));
            slot.wake_ms = None;
            self.mark(4, node);
            if let Some(timeline) = &mut self.parts.timeline {
                timeline.down(self.now_ms, node);
            }
        }
    }

    pub(super) fn come_up(&mut self, node: usize) {
        let slot = &mut self.parts.slots[node];
        slot.stop = None;
        if let Some(stored) = slot.stored.take() {
            slot.node = Some(read(&stored));
            self.counts.restarts += 1;
            self.mark(5, node);
            if let Some(timeline) = &mut self.parts.timeline {
                timeline.up(self.now_ms, node);
            }
            // What it says to itself is stored already.
            let (now, mut heard_before) = (self.time_of(node), VecDeque::new());
            for output in std::mem::take(&mut self.parts.slots[node].outbox) {
                self.perform(node, now, output, &mut heard_before);
            }
            self.feed(node, Input::Resumed);
        }
    }

    /// A turn that ends in a crash: what the node says to itself belongs to it, of the rest only
    /// the first few messages leave, and its agent hears nothing.
    pub(super) fn perform_midway(
        &mut self,
        node: usize,
        output: Output,
        leave: usize,
        inputs: &mut VecDeque<Input>,
    ) {
        let now = self.time_of(node);
        let me = self.parts.keys[node].did;
        let outbox = &mut self.parts.slots[node].outbox;
        match output {
            Output::Send { to, message, attached } => {
                let left = outbox.len() < leave;
                let reached = to.iter().copied().filter(|did| left || *did == me).collect();
                let to_others = Output::Send { to, message, attached };
                outbox.push(to_others.clone());
                if let Output::Send { message, attached, .. } = to_others {
                    let sent = Output::Send { to: reached, message, attached };
                    self.perform(node, now, sent, inputs);
                }
            }
            Output::Ask(_) => {}
            answer @ Output::Answer { .. } => outbox.push(answer),
            other => self.perform(node, now, other, inputs),
        }
    }
}

/// What a node has on its disk.
pub(super) fn written(node: &Node) -> String {
    serde_json::to_string(node).expect("a node's state can be written")
}

pub(super) fn read(stored: &str) -> Node {
    serde_json::from_str(stored).expect("what was written can be read")
}
