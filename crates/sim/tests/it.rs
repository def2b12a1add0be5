//! Whole runs.

mod it {
    mod bugs;
    mod crashes;
    mod elections;
    mod lies;
    mod newcomers;
    mod pictures;
    mod places;
    mod scale;
    mod seeds;
    mod successors;
}
