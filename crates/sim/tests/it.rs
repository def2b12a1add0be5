//! Whole runs.

mod it {
    mod bugs;
    mod elections;
    mod pictures;
    mod places;
    mod scale;
    mod seeds;
}
