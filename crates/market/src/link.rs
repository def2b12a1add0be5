//! Links to pages for people.
//!
//! A browser cannot sign requests, so the link itself is the permission. Its token is derived from
//! the node's settlement key, which no answer reveals: whoever has no link cannot make one, and a
//! link for one thing opens no other. All nodes of a marketplace share that key.

use std::fmt::Display;

use skep_base::{
    Hash32,
    hash::{sha256, sha256_parts},
};

use crate::Market;

/// What is signed for a link begins with this, and nothing else that is signed does.
const LINK_DOMAIN: &str = "skep/proof-page/v1:";

impl Market {
    pub(crate) fn page_token(&self, of: impl Display) -> Hash32 {
        let signature = self.settlement_key.sign(format!("{LINK_DOMAIN}{of}").as_bytes());
        sha256(signature.as_bytes())
    }

    /// Hashes are compared, so that the time it takes says nothing about the token.
    pub(crate) fn opens(&self, what: impl Display, token: &str) -> bool {
        let known = self.page_token(what).to_string();
        sha256_parts(&[token.as_bytes()]) == sha256(known.as_bytes())
    }
}
