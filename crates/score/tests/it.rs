//! What the crate promises to others: the specification's own arithmetic, and documents that a
//! stranger can check.

#![allow(clippy::unwrap_used, reason = "a test that fails should fail loudly")]

#[path = "it/certificate.rs"]
mod certificate;
#[path = "it/changed_fields.rs"]
mod changed_fields;
#[path = "it/import.rs"]
mod import;
#[path = "it/passport.rs"]
mod passport;
#[path = "it/publication.rs"]
mod publication;
#[path = "it/typescript.rs"]
mod typescript;
#[path = "it/world.rs"]
mod world;
