//! What a lane knows without asking the database, although other nodes write it: each thing with
//! the reason why it still holds.

mod bases;
mod rare;
mod tracks;

pub(super) use self::{
    bases::Bases,
    rare::Rare,
    tracks::{TAG_LEN, Tag, Tracks, tag_of},
};

#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) bases: Bases,
    pub(super) rare: Rare,
    pub(super) tracks: Tracks,
}
