//! Rating tokens (decision 17): one for each side of a receipt.
//!
//! They are made with a secret of the node's settlement key, so that a retry gets the same one and
//! nobody else can make it. Only their hashes are stored.

use std::fmt;

use skep_base::{
    Hash32,
    ed25519::SecretKey,
    hash::{sha256, sha256_parts},
};
use skep_store::{Bug, Load, Turn};

use crate::Market;

/// What is signed for the secret, and nothing else that is signed begins so.
const TOKEN_DOMAIN: &str = "skep/rating-token/v1:";
/// 128 bits as hex digits.
const TOKEN_DIGITS: usize = 32;
/// The names that tokens are found by, by their hash; they belong to `receipt side`.
const NAME_TOKEN: &str = "rating_token";

/// Who rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Seller,
    Buyer,
}

impl Side {
    fn as_str(self) -> &'static str {
        match self {
            Side::Seller => "seller",
            Side::Buyer => "buyer",
        }
    }
}

/// What the tokens of a node are made with.
#[derive(Clone)]
pub(crate) struct TokenSecret(Hash32);

impl TokenSecret {
    pub(crate) fn of(settlement_key: &SecretKey) -> TokenSecret {
        TokenSecret(sha256(settlement_key.sign(TOKEN_DOMAIN.as_bytes()).as_bytes()))
    }
}

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSecret")
    }
}

impl Market {
    pub(super) fn rating_token(&self, receipt_id: &str, side: Side) -> String {
        let secret = self.token_secret.0.as_bytes();
        let about = format!("{}:{receipt_id}", side.as_str());
        // Hashed twice, so that no token says anything of a longer text's.
        let inner = sha256_parts(&[secret, about.as_bytes()]);
        let hash = sha256_parts(&[secret, inner.as_bytes()]);
        format!("rtt_{}", &hash.to_string()[..TOKEN_DIGITS])
    }
}

fn name(token: &str) -> String {
    sha256_parts(&[token.as_bytes()]).to_string()
}

/// Loads what [`enter_token`] touches.
pub(super) fn load_token(load: &mut Load, token: &str) {
    load.names.push((NAME_TOKEN, name(token)));
}

/// Makes a token good for one rating; that it is already is fine.
pub(super) fn enter_token(
    turn: &mut Turn,
    token: &str,
    receipt_id: &str,
    side: Side,
) -> Result<(), Bug> {
    let name = name(token);
    if turn.name_owner(NAME_TOKEN, &name)?.is_none() {
        turn.claim_name(NAME_TOKEN, &name, format!("{receipt_id} {}", side.as_str()));
    }
    Ok(())
}
