//! Whole runs.

mod it {
    mod bugs;
    mod pictures;
    mod places;
    mod scale;
    mod seeds;
}
