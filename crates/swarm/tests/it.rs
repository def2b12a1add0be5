//! Nodes among themselves, without a network: everything arrives, in order.

mod it {
    mod answers;
    mod audits;
    mod elections;
    mod keys;
    mod lengths;
    mod limits;
    mod losses;
    mod places;
    mod refusals;
    mod resuming;
    mod room;
    mod seizures;
    mod stories;
    mod successors;
}
