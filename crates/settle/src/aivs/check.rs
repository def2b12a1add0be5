//! Reading AIVS bundles, ours and those of other programs: whatever has a hash is held against it,
//! and what the published format leaves open is said instead of guessed.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use skep_base::{
    Hash32, Timestamp,
    ed25519::{PublicKey, Signature},
    hash::sha256,
    json,
};

use super::{
    AUDIT_LOG, CONDUIT_PROOF, Files, KEY_PREFIX, MANIFEST, MANIFEST_DOMAIN, MANIFEST_SIG, MERKLE,
    NAMES, PREVIOUS, PUBLIC_KEY, Row, SESSION_SIG, Signer, VCAP_PROOF, VERIFIER, VERIFY_PY,
    chain_hash, lines, rows,
};
use crate::{
    evidence::{Evidence, Log},
    proof::file::{Check, Found, Pins, found, must, origin, short, text},
};

/// What nothing in a bundle vouches for.
pub const NOT_COVERED: [&str; 2] = [
    "everything but seven fields of each row where the manifest names no files by hash: the \
     published hashes cover id, session, action, tool, cost, time and order",
    "merkle_tree.json, and verify.py in a bundle that another program made",
];

/// What a bundle is worth.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub ok: bool,
    /// What the bundle claims; true only if `ok`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    pub checks: Vec<Check>,
    /// What the proof inside is worth, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proof: Option<Box<Evidence>>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    pub session_id: String,
    pub actions: usize,
    pub chain_hash: Hash32,
    pub exported_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generator: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed_by: Option<PublicKey>,
    /// Whether inputs and outputs are covered by a hash, and not the seven fields alone.
    pub evidence_covered: bool,
}

/// What is read of a manifest; what else it holds is left alone, as the format asks for.
#[derive(Debug, Deserialize)]
struct Manifest {
    session_id: String,
    exported_at: Timestamp,
    action_count: usize,
    chain_hash: Hash32,
    aivs_version: String,
    generator: Option<String>,
    previous_bundle_hash: Option<Hash32>,
    made_of: Option<String>,
    files: Option<BTreeMap<String, Hash32>>,
    signer: Option<Signer>,
}

/// Checks a bundle from its files alone. The pinned keys are for the proof inside; where there is
/// none, `pins.verifier` is the key that must have signed the chain.
pub fn check(files: &Files, pins: &Pins) -> Report {
    let mut checks = Vec::new();
    let mut note = |name, found: Found| {
        let good = found.is_ok();
        checks.push(Check::of(name, found));
        good
    };
    let bundle = Bundle::read(files);
    let bundle = match bundle {
        Ok(bundle) => bundle,
        Err(wrong) => {
            note("bundle", Err(wrong));
            return Report { ok: false, claim: None, checks, proof: None };
        }
    };
    note("bundle", found(format!("{} files, AIVS {}", files.len(), bundle.manifest.aivs_version)));
    note("rows", bundle.rows_hold());
    note("chain hash", bundle.chain_holds());
    note("manifest", bundle.manifest_agrees());
    note("files", bundle.files_agree());
    let alone = pins.verifier.filter(|_| bundle.original().is_none());
    note("signature", bundle.chain_signature(alone.as_ref()));
    note("manifest seal", bundle.manifest_seal());
    note("verify.py", bundle.verifier());
    let proof = bundle.original().map(|(_, bytes)| Evidence::verify(bytes, pins));
    if let Some(proof) = &proof {
        note("proof", bundle.proof_agrees(proof));
    }
    let ok = checks.iter().all(Check::holds);
    Report { ok, claim: Some(bundle.claim()), checks, proof: proof.map(Box::new) }
}

/// A bundle with its parts read.
struct Bundle<'a> {
    files: &'a Files,
    manifest: Manifest,
    rows: Vec<Row>,
    chain_hash: Hash32,
    key: Option<PublicKey>,
    signature: Option<Signature>,
}

impl<'a> Bundle<'a> {
    fn read(files: &'a Files) -> Result<Bundle<'a>, String> {
        if let Some(name) = files.keys().find(|name| !NAMES.contains(&name.as_str())) {
            return Err(format!("{name:?} is no file of an AIVS bundle"));
        }
        let manifest: Manifest = json::from_slice(need(files, MANIFEST)?)
            .map_err(|e| format!("{MANIFEST} cannot be read: {e}"))?;
        let version = &manifest.aivs_version;
        must(version.starts_with("1."), &format!("AIVS {version:?} is not known here"))?;
        let mut rows = Vec::new();
        let log = need(files, AUDIT_LOG)?;
        let log = log.strip_suffix(b"\n").unwrap_or(log);
        let lines = log.split(|byte| *byte == b'\n').filter(|_| !log.is_empty());
        for (at, line) in lines.enumerate() {
            let row = json::from_slice(line);
            rows.push(row.map_err(|e| format!("row {} cannot be read: {e}", at + 1))?);
        }
        let chain_hash = chain_hash(rows.iter().map(|row: &Row| row.row_hash.as_str()));
        let key = read_key(need(files, PUBLIC_KEY)?)?;
        let signature = signed(files, SESSION_SIG, "chain_hash", chain_hash)?;
        need(files, VERIFY_PY)?;
        Ok(Bundle { files, manifest, rows, chain_hash, key, signature })
    }

    fn rows_hold(&self) -> Found {
        let mut before: Option<&Row> = None;
        for (at, row) in self.rows.iter().enumerate() {
            let wrong = |what: &str| format!("row {} {what}", at + 1);
            let last_id = before.map_or(0, |row| row.id);
            must(row.id > last_id, &wrong("is out of order"))?;
            let session = row.session_id == self.manifest.session_id;
            must(session, &wrong("is of another session"))?;
            let prev_hash = before.map_or("", |row| row.row_hash.as_str());
            must(row.prev_hash == prev_hash, &wrong("does not follow the row before it"))?;
            let hash = row.hash().ok_or_else(|| wrong("has a time that cannot be read"))?;
            must(row.row_hash == hash.to_string(), &wrong("was changed"))?;
            before = Some(row);
        }
        found(format!("{}, each hash and each link holds", self.rows.len()))
    }

    fn chain_holds(&self) -> Found {
        let (computed, said) = (self.chain_hash, self.manifest.chain_hash);
        must(computed == said, &format!("it is {computed}, but the manifest says {said}"))?;
        found(computed.to_string())
    }

    fn manifest_agrees(&self) -> Found {
        let (count, rows) = (self.manifest.action_count, self.rows.len());
        must(count == rows, &format!("it counts {count} actions, and there are {rows}"))?;
        if let Some(previous) = self.files.get(PREVIOUS) {
            let said = std::str::from_utf8(previous).ok().and_then(|t| t.trim().parse().ok());
            let wrong = format!("{PREVIOUS} does not say what the manifest says");
            let known = self.manifest.previous_bundle_hash;
            must(said.is_some() && (known.is_none() || known == said), &wrong)?;
        }
        let Manifest { session_id, exported_at, .. } = &self.manifest;
        found(format!("session {session_id:?}, exported at {exported_at}"))
    }

    fn files_agree(&self) -> Found {
        let Some(named) = &self.manifest.files else {
            let ours = [VCAP_PROOF, CONDUIT_PROOF, MANIFEST_SIG];
            let loose = ours.iter().find(|name| self.files.contains_key(**name));
            let wrong = loose.map(|name| format!("{name} is there, but no hash of it"));
            return wrong.map_or(Ok(None), Err);
        };
        for (name, hash) in named {
            let bytes = need(self.files, name)?;
            must(sha256(bytes) == *hash, &format!("{name} was changed"))?;
        }
        // Signatures hold the hashes of these, and the tree is not ours.
        let free = [MANIFEST, MANIFEST_SIG, SESSION_SIG, MERKLE, PREVIOUS];
        let unnamed = self
            .files
            .keys()
            .find(|name| !named.contains_key(name.as_str()) && !free.contains(&name.as_str()));
        if let Some(name) = unnamed {
            return Err(format!("the manifest does not name {name}"));
        }
        found(format!("{}, as the manifest says", named.len()))
    }

    /// The signature is optional, but a bad one is worse than none.
    fn chain_signature(&self, pinned: Option<&PublicKey>) -> Found {
        let chain_hash = self.chain_hash.to_string();
        let Some(key) = self.verified(self.signature, &chain_hash)? else {
            must(pinned.is_none(), "it is not signed, so the pinned key did not sign it")?;
            return Ok(None);
        };
        let same = pinned.is_none_or(|pinned| *pinned == key);
        must(same, &format!("it was signed by {}, not by the pinned key", short(&key)))?;
        let origin = origin(pinned.copied(), "--key");
        found(format!("fingerprint {}, {origin}", short(&key)))
    }

    fn manifest_seal(&self) -> Found {
        if !self.files.contains_key(MANIFEST_SIG) {
            let ours = self.manifest.files.is_some() || self.manifest.signer.is_some();
            must(!ours, &format!("{MANIFEST_SIG} is missing"))?;
            return Ok(None);
        }
        let own = sha256(need(self.files, MANIFEST)?);
        let signature = signed(self.files, MANIFEST_SIG, "manifest_hash", own)?;
        let both = signature.is_some() == self.signature.is_some();
        must(both, "of chain and manifest only one is signed")?;
        let by = self.verified(signature, &format!("{MANIFEST_DOMAIN}{own}"))?;
        let said = self.manifest.signer.map(|signer| signer.public_key);
        must(said == by, "it was not signed by whom it names as its signer")?;
        match self.manifest.signer {
            None => found(format!("{own}, not signed")),
            Some(signer) => found(format!("{own}, exported by {}", signer.agent_id)),
        }
    }

    /// The key whose signature over this text was found good, if there is a signature.
    fn verified(
        &self,
        signature: Option<Signature>,
        text: &str,
    ) -> Result<Option<PublicKey>, String> {
        let Some(signature) = signature else { return Ok(None) };
        let key = self.key.ok_or_else(|| format!("signed, but {PUBLIC_KEY} holds no key"))?;
        let good = key.verify(text.as_bytes(), &signature);
        good.map_err(|_| "the signature does not verify".to_owned())?;
        Ok(Some(key))
    }

    /// A program is not checked by itself.
    fn verifier(&self) -> Found {
        match need(self.files, VERIFY_PY)? == VERIFIER.as_bytes() {
            true => found("as this program writes it"),
            false => found("another than this program writes; do not run it unread"),
        }
    }

    /// The proof that the bundle was made of.
    fn original(&self) -> Option<(&'static str, &'a [u8])> {
        let names = [VCAP_PROOF, CONDUIT_PROOF].into_iter();
        names.filter_map(|name| Some((name, self.files.get(name)?.as_slice()))).next()
    }

    /// The proof inside holds, and the rows are what it says.
    fn proof_agrees(&self, proof: &Evidence) -> Found {
        let (name, bytes) = self.original().ok_or("there is none")?;
        let said = self.manifest.made_of.as_deref();
        must(said == Some(name), &format!("the manifest does not say that it is made of {name}"))?;
        let both = self.files.contains_key(VCAP_PROOF) && self.files.contains_key(CONDUIT_PROOF);
        must(!both, "there are two")?;
        let failed = proof.checks().iter().find(|check| !check.holds());
        if let Some(failed) = failed {
            return Err(format!("{name} does not hold: {}: {}", failed.name, failed.detail));
        }
        let log = Log::of(bytes)?;
        let same = log.id == self.manifest.session_id;
        must(same, &format!("{name} is about another session"))?;
        let rows = lines(&rows(&log).map_err(text)?).map_err(text)?;
        let as_written = rows.as_bytes() == need(self.files, AUDIT_LOG)?;
        must(as_written, &format!("the rows are not what {name} says"))?;
        found(format!("{name} holds, and the rows are its actions"))
    }

    fn claim(&self) -> Claim {
        Claim {
            session_id: self.manifest.session_id.clone(),
            actions: self.rows.len(),
            chain_hash: self.chain_hash,
            exported_at: self.manifest.exported_at,
            generator: self.manifest.generator.clone(),
            signed_by: self.key.filter(|_| self.signature.is_some()),
            evidence_covered: self.manifest.files.is_some(),
        }
    }
}

fn need<'a>(files: &'a Files, name: &str) -> Result<&'a [u8], String> {
    files.get(name).map(Vec::as_slice).ok_or_else(|| format!("{name} is missing"))
}

fn read_key(bytes: &[u8]) -> Result<Option<PublicKey>, String> {
    let bad = || format!("{PUBLIC_KEY} cannot be read");
    let text = std::str::from_utf8(bytes).map_err(|_| bad())?.trim_end();
    let Some(hex) = text.strip_prefix(KEY_PREFIX) else {
        return if text.starts_with('#') { Ok(None) } else { Err(bad()) };
    };
    // 64 lower-case hex digits, as a hash is.
    let bytes: Hash32 = hex.parse().map_err(|_| bad())?;
    PublicKey::from_bytes(bytes.0).map(Some).map_err(|e| format!("{PUBLIC_KEY}: {e}"))
}

/// Reads a file of a hash and maybe a signature over it. Comments are left alone.
fn signed(
    files: &Files,
    name: &str,
    what: &str,
    computed: Hash32,
) -> Result<Option<Signature>, String> {
    let bad = || format!("{name} cannot be read");
    let text = std::str::from_utf8(need(files, name)?).map_err(|_| bad())?;
    let mut lines = text.lines();
    let said = lines.next().and_then(|line| line.strip_prefix(what)?.strip_prefix(':'));
    let said: Hash32 = said.and_then(|said| said.parse().ok()).ok_or_else(bad)?;
    must(said == computed, &format!("{name} says {what} {said}, but it is {computed}"))?;
    let mut signature = None;
    for line in lines {
        match line.strip_prefix("signature:") {
            Some(base64) if signature.is_none() => {
                let raw = STANDARD.decode(base64).map_err(|_| bad())?;
                let raw: [u8; 64] = raw.try_into().map_err(|_| bad())?;
                signature = Some(Signature::from_bytes(raw));
            }
            None if line.is_empty() || line.starts_with('#') => {}
            _ => return Err(bad()),
        }
    }
    Ok(signature)
}
