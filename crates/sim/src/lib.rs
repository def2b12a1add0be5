//! Whole swarms in one thread.
