//! The encrypted form of a keyring: Argon2id makes a key of the passphrase, XChaCha20-Poly1305
//! seals the secrets with it. Whatever stands in the clear is authenticated as well.

use argon2::{Algorithm, Argon2, Params, Version};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use chacha20poly1305::{AeadInOut, KeyInit, XChaCha20Poly1305};
use serde::{Deserialize, Serialize};
use skep_base::{
    AgentId, Did,
    ed25519::{PublicKey, SecretKey},
    json,
    wallet::WalletKey,
};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::{Keyring, PublicInfo};
use crate::Passphrase;

const VERSION: u32 = 1;
const KDF: &str = "argon2id";
const CIPHER: &str = "xchacha20poly1305";
const SALT_LEN: usize = 16;
const NONCE_LEN: usize = 24;
const TAG_LEN: usize = 16;

/// What one guess of the passphrase costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KdfCost {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{memory_kib} KiB, {passes} passes and {lanes} lanes of Argon2id are out of bounds: \
     at most 1 GiB, 16 passes and 4 lanes"
)]
pub struct KdfCostOutOfBounds {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

impl KdfCost {
    /// Second choice of RFC 9106, for machines where memory counts: about 0.1 s.
    pub const DEFAULT: KdfCost = KdfCost { memory_kib: 64 * 1024, passes: 3, lanes: 1 };

    /// Bounded, so that a file from elsewhere cannot take all memory or all day.
    pub fn new(memory_kib: u32, passes: u32, lanes: u32) -> Result<Self, KdfCostOutOfBounds> {
        let fits = (1..=4).contains(&lanes)
            && (1..=16).contains(&passes)
            && (8 * lanes..=1024 * 1024).contains(&memory_kib);
        if !fits {
            return Err(KdfCostOutOfBounds { memory_kib, passes, lanes });
        }
        Ok(KdfCost { memory_kib, passes, lanes })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum UnsealError {
    #[error("it is not a keyring file of Skep")]
    NotAKeyring,
    #[error("version {found} of keyring files is not known here: use a newer skep")]
    UnknownVersion { found: u32 },
    #[error("{what} {found:?} is not known here")]
    UnknownAlgorithm { what: &'static str, found: String },
    #[error("its key derivation asks for too much or too little")]
    KdfCost(#[from] KdfCostOutOfBounds),
    #[error("its {field} is not written as it should be")]
    Malformed { field: &'static str },
    #[error("the passphrase is wrong, or the file was changed since it was written")]
    WrongPassphrase,
    #[error("there is not enough memory to derive the key")]
    Memory,
    #[error("what it holds does not fit together")]
    Inconsistent,
}

/// The file, as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Envelope {
    header: Header,
    ciphertext: String,
}

/// What stands in the clear; its canonical bytes are authenticated with the ciphertext.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    version: u32,
    agent_id: AgentId,
    did: Did,
    public_key: PublicKey,
    kdf: Kdf,
    cipher: Cipher,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kdf {
    name: String,
    memory_kib: u32,
    passes: u32,
    lanes: u32,
    salt: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cipher {
    name: String,
    nonce: String,
}

/// What is encrypted.
#[derive(Serialize, Deserialize, Zeroize, ZeroizeOnDrop)]
#[serde(deny_unknown_fields)]
struct Secrets {
    wallet: String,
    current: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pending: Option<String>,
    #[zeroize(skip)]
    recovery_key: PublicKey,
    #[zeroize(skip)]
    history: Vec<PublicKey>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    operator: Option<String>,
}

/// Random bytes that every sealing needs anew.
pub(super) struct Fresh {
    pub(super) salt: [u8; SALT_LEN],
    pub(super) nonce: [u8; NONCE_LEN],
}

impl Envelope {
    pub(super) fn seal(keyring: &Keyring, passphrase: &Passphrase, fresh: &Fresh) -> Option<Self> {
        let PublicInfo { agent_id, did, public_key } = keyring.public_info();
        let KdfCost { memory_kib, passes, lanes } = keyring.kdf;
        let salt = URL_SAFE_NO_PAD.encode(fresh.salt);
        let nonce = URL_SAFE_NO_PAD.encode(fresh.nonce);
        let header = Header {
            version: VERSION,
            agent_id,
            did,
            public_key,
            kdf: Kdf { name: KDF.to_owned(), memory_kib, passes, lanes, salt },
            cipher: Cipher { name: CIPHER.to_owned(), nonce },
        };
        let mut buffer = Secrets::of(keyring).to_bytes()?;
        derive(passphrase, &fresh.salt, keyring.kdf)?
            .encrypt_in_place(&fresh.nonce.into(), &header.bytes()?, &mut *buffer)
            .ok()?;
        Some(Envelope { header, ciphertext: URL_SAFE_NO_PAD.encode(&*buffer) })
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Self, UnsealError> {
        // The parser's words may quote the file, and it may be some other secret of the user.
        let envelope: Envelope = json::from_slice(bytes).map_err(|_| UnsealError::NotAKeyring)?;
        let Header { version, kdf, cipher, .. } = &envelope.header;
        if *version != VERSION {
            return Err(UnsealError::UnknownVersion { found: *version });
        }
        known("the key derivation", &kdf.name, KDF)?;
        known("the cipher", &cipher.name, CIPHER)?;
        Ok(envelope)
    }

    pub(super) fn info(&self) -> PublicInfo {
        let Header { agent_id, did, public_key, .. } = self.header;
        PublicInfo { agent_id, did, public_key }
    }

    pub(super) fn open(&self, passphrase: &Passphrase) -> Result<Keyring, UnsealError> {
        let Kdf { memory_kib, passes, lanes, salt, .. } = &self.header.kdf;
        let cost = KdfCost::new(*memory_kib, *passes, *lanes)?;
        let salt: [u8; SALT_LEN] = decode("salt", salt)?;
        let nonce: [u8; NONCE_LEN] = decode("nonce", &self.header.cipher.nonce)?;
        let malformed = |field| UnsealError::Malformed { field };
        let sealed = URL_SAFE_NO_PAD.decode(&self.ciphertext);
        let mut buffer = Zeroizing::new(sealed.map_err(|_| malformed("ciphertext"))?);
        let aad = self.header.bytes().ok_or(malformed("header"))?;
        derive(passphrase, &salt, cost)
            .ok_or(UnsealError::Memory)?
            .decrypt_in_place(&nonce.into(), &aad, &mut *buffer)
            .map_err(|_| UnsealError::WrongPassphrase)?;
        let secrets: Secrets =
            serde_json::from_slice(&buffer).map_err(|_| UnsealError::Inconsistent)?;
        let keyring = secrets.into_keyring(cost).ok_or(UnsealError::Inconsistent)?;
        if keyring.public_info() != self.info() {
            return Err(UnsealError::Inconsistent);
        }
        Ok(keyring)
    }
}

impl Header {
    fn bytes(&self) -> Option<Vec<u8>> {
        json::to_vec(self).ok()
    }
}

fn known(what: &'static str, found: &str, known: &str) -> Result<(), UnsealError> {
    if found == known {
        return Ok(());
    }
    let found = found.chars().take(32).collect();
    Err(UnsealError::UnknownAlgorithm { what, found })
}

fn decode<const N: usize>(field: &'static str, text: &str) -> Result<[u8; N], UnsealError> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok();
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or(UnsealError::Malformed { field })
}

fn derive(passphrase: &Passphrase, salt: &[u8], cost: KdfCost) -> Option<XChaCha20Poly1305> {
    let mut key = Zeroizing::new([0; 32]);
    let params = Params::new(cost.memory_kib, cost.passes, cost.lanes, Some(key.len())).ok()?;
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(passphrase.as_bytes(), salt, &mut *key)
        .ok()?;
    XChaCha20Poly1305::new_from_slice(key.as_slice()).ok()
}

impl Secrets {
    fn of(keyring: &Keyring) -> Self {
        Secrets {
            wallet: URL_SAFE_NO_PAD.encode(*keyring.wallet.to_bytes()),
            current: encode(&keyring.current),
            pending: keyring.pending.as_ref().map(encode),
            recovery_key: keyring.recovery_key,
            history: keyring.history.clone(),
            operator: keyring.operator.as_ref().map(encode),
        }
    }

    fn to_bytes(&self) -> Option<Zeroizing<Vec<u8>>> {
        // All the space at once: growing would leave copies in freed memory.
        let space = 1024 + 64 * self.history.len() + TAG_LEN;
        let mut bytes = Zeroizing::new(Vec::with_capacity(space));
        serde_json::to_writer(&mut *bytes, self).ok()?;
        Some(bytes)
    }

    fn into_keyring(self, kdf: KdfCost) -> Option<Keyring> {
        let key = |text: &String| secret(text).map(|seed| SecretKey::from_seed(*seed));
        let optional = |text: &Option<String>| match text {
            Some(text) => key(text).map(Some),
            None => Some(None),
        };
        Some(Keyring {
            wallet: WalletKey::from_bytes(*secret(&self.wallet)?).ok()?,
            current: key(&self.current)?,
            pending: optional(&self.pending)?,
            recovery_key: self.recovery_key,
            history: self.history.clone(),
            operator: optional(&self.operator)?,
            kdf,
        })
    }
}

fn encode(key: &SecretKey) -> String {
    URL_SAFE_NO_PAD.encode(*key.seed())
}

fn secret(text: &str) -> Option<Zeroizing<[u8; 32]>> {
    let mut seed = Zeroizing::new([0; 32]);
    let len = URL_SAFE_NO_PAD.decode_slice(text, &mut *seed).ok()?;
    (len == seed.len()).then_some(seed)
}
