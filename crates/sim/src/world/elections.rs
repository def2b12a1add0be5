//! What is looked at when an honest node knows an election.

use skep_base::Hash32;

use super::World;
use crate::{invariant::Invariant, polls::Told};

impl World {
    /// Who was left out, and whether the ballots give what the node follows.
    pub(super) fn look_at_election(&mut self, node: usize, epoch: u64, hash: &Hash32) {
        let parts = &mut self.parts;
        let Some(up) = &parts.slots[node].node else {
            return;
        };
        if let Some(what) = parts.door.elected(up.epoch(), hash) {
            parts.watch.report(self.now_ms, Some(node), Invariant::DoorOpen, what);
        }
        if parts.polls.has_counted(epoch, hash) {
            return;
        }
        let Some(mut told) = Told::by(up, epoch, hash) else {
            return;
        };
        parts.planted.miscount(&mut told.elected, &told.record);
        for what in parts.polls.count(&parts.genesis, &told) {
            parts.watch.report(self.now_ms, Some(node), Invariant::BallotOnce, what);
        }
        let (elections, recounted) = parts.polls.totals();
        (self.counts.elections, self.counts.recounted) = (elections as u64, recounted as u64);
    }
}
