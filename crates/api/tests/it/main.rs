//! The HTTP face over real sockets, with a real store below.

mod bad_input;
mod documents;
mod money;
mod serving;
mod world;
