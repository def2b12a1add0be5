//! The 24 words from which an agent's keys can be made again.
//!
//! The wallet stands where every Ethereum wallet looks for it. Ed25519 keys stand under a purpose
//! of our own: identity keys in branch 0, the recovery key in branch 1, the operator's in branch 2.

use std::fmt;

use bip39::{Language, Mnemonic};
use skep_base::{ed25519::SecretKey, wallet::WalletKey};
use zeroize::Zeroizing;

use crate::derive::{self, HARDENED};

#[cfg(test)]
mod tests;

/// m/44'/60'/0'/0/0, the first account of Ethereum.
const WALLET_PATH: [u32; 5] = [44 | HARDENED, 60 | HARDENED, HARDENED, 0, 0];
const PURPOSE: u32 = 44;
const COIN: u32 = 9370;
const WORDS: usize = 24;

/// A recovery phrase: 24 English words of BIP-39. It is wiped when dropped and never printed,
/// except by whoever asks for its words.
pub struct Phrase(Mnemonic);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParsePhraseError {
    #[error("a recovery phrase has 24 words, and this one has {found}")]
    WordCount { found: usize },
    #[error("word {number} of the recovery phrase is not in the English BIP-39 list")]
    UnknownWord { number: usize },
    #[error("the words are not a recovery phrase: one is wrong or two changed places")]
    Checksum,
}

impl Phrase {
    pub fn from_entropy(entropy: [u8; 32]) -> Self {
        let entropy = Zeroizing::new(entropy);
        let mnemonic = Mnemonic::from_entropy_in(Language::English, entropy.as_slice());
        Phrase(mnemonic.expect("32 bytes make 24 words"))
    }

    /// Reads words however they are spaced and in either case.
    pub fn parse(text: &str) -> Result<Self, ParsePhraseError> {
        let mut words = Zeroizing::new(String::with_capacity(text.len() + 1));
        for word in text.split_whitespace() {
            if !words.is_empty() {
                words.push(' ');
            }
            words.extend(word.chars().map(|char| char.to_ascii_lowercase()));
        }
        let found = words.split_whitespace().count();
        if found != WORDS {
            return Err(ParsePhraseError::WordCount { found });
        }
        match Mnemonic::parse_in_normalized(Language::English, &words) {
            Ok(mnemonic) => Ok(Phrase(mnemonic)),
            Err(bip39::Error::UnknownWord(index)) => {
                Err(ParsePhraseError::UnknownWord { number: index + 1 })
            }
            Err(_) => Err(ParsePhraseError::Checksum),
        }
    }

    /// The words, to be shown to their owner once.
    pub fn words(&self) -> Zeroizing<String> {
        // The longest word has eight letters: the text never moves and leaves no copy behind.
        let mut text = Zeroizing::new(String::with_capacity(WORDS * 9));
        for word in self.0.words() {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(word);
        }
        text
    }

    pub(crate) fn wallet(&self) -> WalletKey {
        wallet_of(&self.0)
    }

    pub(crate) fn identity_key(&self, number: u32) -> SecretKey {
        self.ed25519(&[PURPOSE, COIN, 0, number])
    }

    pub(crate) fn recovery_key(&self) -> SecretKey {
        self.ed25519(&[PURPOSE, COIN, 1])
    }

    /// The key of an operator who has no other.
    pub fn operator_key(&self) -> SecretKey {
        self.ed25519(&[PURPOSE, COIN, 2])
    }

    fn ed25519(&self, path: &[u32]) -> SecretKey {
        let seed = Zeroizing::new(self.0.to_seed_normalized(""));
        SecretKey::from_seed(*derive::ed25519(seed.as_slice(), path).key)
    }
}

fn wallet_of(mnemonic: &Mnemonic) -> WalletKey {
    let seed = Zeroizing::new(mnemonic.to_seed_normalized(""));
    derive::secp256k1(seed.as_slice(), &WALLET_PATH)
        .ok()
        .and_then(|node| WalletKey::from_bytes(*node.key).ok())
        .expect("one phrase in 2^127 has no wallet, and nobody can look for it")
}

impl fmt::Debug for Phrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Phrase(redacted)")
    }
}
