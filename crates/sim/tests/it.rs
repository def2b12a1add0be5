//! Whole runs.

mod it {
    mod bugs;
    mod elections;
    mod newcomers;
    mod pictures;
    mod places;
    mod scale;
    mod seeds;
    mod successors;
}
