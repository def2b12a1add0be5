//! Skep.
