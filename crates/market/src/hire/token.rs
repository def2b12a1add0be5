//! Rating tokens (decision 17): one for each side of a receipt.
//!
//! They are made with the node's settlement key, so that a retry gets the same one and nobody else
//! can make it. Only their hashes are stored.

use skep_base::hash::{sha256, sha256_parts};
use skep_store::{Bug, Load, Turn};

use crate::Market;

/// What is signed for a token begins with this, and nothing else that is signed does.
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

impl Market {
    pub(super) fn rating_token(&self, receipt_id: &str, side: Side) -> String {
        let about = format!("{TOKEN_DOMAIN}{}:{receipt_id}", side.as_str());
        let hash = sha256(self.settlement_key.sign(about.as_bytes()).as_bytes());
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
