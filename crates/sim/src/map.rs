//! Where nodes really are, and where they believe to be.

use std::sync::Arc;

use skep_base::Did;
use skep_swarm::{coordinate::Coordinate, epoch::Epoch};
use skep_wire::swarm::Location;

/// All nodes at the end of a run, each by its number.
#[derive(Clone, Debug)]
pub struct Map {
    pub dids: Vec<Did>,
    /// What the network knows and nobody is told.
    pub real: Vec<Location>,
    /// What each has measured; nothing of those that are down.
    pub believed: Vec<Option<Coordinate>>,
    /// The newest epoch that an honest node knows.
    pub epoch: Arc<Epoch>,
}

impl Map {
    /// Where a DID really is.
    pub fn real_of(&self, did: &Did) -> Option<Location> {
        let number = self.dids.iter().position(|known| known == did)?;
        self.real.get(number).copied()
    }
}
