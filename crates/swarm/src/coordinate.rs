//! coordinate
