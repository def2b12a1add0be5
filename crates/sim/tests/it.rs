//! Whole runs.

mod it {
    mod bugs;
    mod newcomers;
    mod pictures;
    mod scale;
    mod seeds;
    mod successors;
}
