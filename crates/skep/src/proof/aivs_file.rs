//! A proof as an AIVS archive on the disk; it needs the proof's bytes and nothing else.

use std::{fs, io::Write, path::PathBuf};

use anyhow::{Context, Result};
use serde_json::json;
use skep_agent::Keyring;
use skep_base::{Timestamp, ed25519::SecretKey};
use skep_settle::{
    aivs::{Exporter, Files, archive_name, check::check, make},
    proof::file::Pins,
};

use super::{archive, refuse};
use crate::{client::now, deal::words::print_json};

/// A bundle that is about to be written.
pub struct Bundle {
    id: String,
    files: Files,
    at: Timestamp,
    signed: bool,
}

impl Bundle {
    /// `proof` is a proof file's bytes or a session proof's, and `id` what it is about.
    pub fn make(proof: &[u8], id: &str, keyring: &Keyring, unsigned: bool) -> Result<Bundle> {
        // Seconds are all that a manifest and an archive can say.
        let at = Timestamp::from_ms(now().as_ms() / 1000 * 1000);
        let key = SecretKey::from_seed(*keyring.secret().seed());
        let exporter = Exporter { agent: keyring.agent_id(), key: &key };
        let files = make(proof, at, (!unsigned).then_some(exporter))?;
        Ok(Bundle { id: id.to_owned(), files, at, signed: !unsigned })
    }

    pub fn write(self, path: Option<PathBuf>, json: bool, out: &mut dyn Write) -> Result<()> {
        let bytes = archive::pack(&self.files, self.at)?;
        let path = path.unwrap_or_else(|| archive_name(&self.id, self.at).into());
        fs::write(&path, bytes).with_context(|| format!("{} cannot be written", path.display()))?;
        // Written all the same: what does not hold is worth keeping too.
        refuse(&check(&self.files, &Pins::default()).checks, &path)?;
        if json {
            let written = json!({ "file": path, "id": self.id, "signed": self.signed });
            return print_json(out, &written);
        }
        let signed = if self.signed { "signed by your key" } else { "not signed" };
        let path = path.display();
        writeln!(out, "wrote {path}: an AIVS bundle of {}, {signed}", self.id)?;
        writeln!(out, "anybody can check it: skep proof verify {path}")?;
        writeln!(out, "or, unpacked, with Python alone: python3 session_proof/verify.py")?;
        Ok(())
    }
}
