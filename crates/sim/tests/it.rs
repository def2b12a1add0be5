//! Whole runs.

mod it {
    mod bugs;
    mod pictures;
    mod scale;
    mod seeds;
}
