//! One verdict with everything that a stranger needs to check it.

use std::{fs, io::Write, path::PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Value, json};
use skep_base::{
    ed25519::PublicKey,
    id::{DealId, SessionId, VerificationId},
};
use skep_sdk::Client;
use skep_settle::proof::{
    file::{Asked, FORMAT, Marketplace, Pins, ProofFile, Signer, SignerKey, TakenOn, verify_file},
    to_pem,
};
use skep_wire::{
    identity::{Agent, KeyChange},
    settle::{
        Agreement, EscrowStatus, ProofBundle, SettlementReceipt, Verification,
        VerificationCallback, engine,
    },
};

use super::{aivs_file::Bundle, read, refuse};
use crate::{
    client::SignerArgs,
    deal::words::{Told, if_known, print_json, word},
    settings::Settings,
};

/// Write a verdict and all that it rests on into one file that anybody can check
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  skep proof export ID -o proof.json
  skep proof export ID | skep proof verify -
  skep proof export ID --aivs

ID is a deal's, for the verdict that its settlement rests on (or the last one while there is none),
a verification's, or a browser session's (sess_…), whose signed proof is written as it is. A
verdict's file holds the request, the signed verdict with its bundle, the terms, the
receipt if the settlement rests on this verdict, and the public keys. No secret key is in it, but
the terms are, word for word, and what the verifier extracted of the work: mind whom you show it.

With --aivs it is written as an AIVS 1.0 bundle, a .tar.gz that other programs read and that checks
itself (python3 session_proof/verify.py); the proof file lies inside, whole. The bundle is signed by
the key that you ask with.")]
pub struct Export {
    #[command(flatten)]
    pub signer: SignerArgs,
    /// The id of a deal, of a verification or of a browser session
    #[arg(value_name = "ID", value_parser = which)]
    id: Which,
    /// Where to write it [default: stdout; with --aivs, aivs_proof_….tar.gz in this folder]
    #[arg(short, long, visible_alias = "out", value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write an AIVS bundle
    #[arg(long)]
    aivs: bool,
    /// Do not sign the AIVS bundle
    #[arg(long, requires = "aivs")]
    unsigned: bool,
    /// The proof bundle, where the verdict only points to it
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug)]
enum Which {
    Deal(DealId),
    Verification(VerificationId),
    Session(SessionId),
}

fn which(text: &str) -> Result<Which, String> {
    let verification = || text.parse().map(Which::Verification);
    if let Ok(session) = text.parse() {
        return Ok(Which::Session(session));
    }
    let read = text.parse().map(Which::Deal).or_else(|_| verification());
    read.map_err(|_| "an id is a deal's or a verification's UUID, or a session's sess_…".to_owned())
}

impl Export {
    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let (client, keyring) = self.signer.client(settings)?;
        if let Which::Session(id) = self.id {
            let proof = client.session_proof(id).await.told()?;
            let bytes = format!("{}\n", serde_json::to_string_pretty(&proof)?);
            if self.aivs {
                let bundle =
                    Bundle::make(bytes.as_bytes(), &id.to_string(), &keyring, self.unsigned)?;
                return bundle.write(self.output, json, out);
            }
            let Some(path) = self.output else { return Ok(out.write_all(bytes.as_bytes())?) };
            fs::write(&path, &bytes)
                .with_context(|| format!("{} cannot be written", path.display()))?;
            return match json {
                true => print_json(out, &json!({ "file": path, "session_id": id })),
                false => Ok(writeln!(out, "wrote {}: session {id}", path.display())?),
            };
        }
        let bundle = match &self.bundle {
            None => None,
            Some(path) => Some(skep_base::json::parse(&read(path)?)?),
        };
        let file = collect(&client, self.id, bundle).await?;
        let mut bytes = serde_json::to_vec_pretty(&file)?;
        bytes.push(b'\n');
        let id = file.request.verification_id;
        if self.aivs {
            let bundle = Bundle::make(&bytes, &id.to_string(), &keyring, self.unsigned)?;
            return bundle.write(self.output, json, out);
        }
        let Some(path) = self.output else {
            out.write_all(&bytes)?;
            return refuse(&verify_file(&bytes, &Pins::default()).checks, "the export".as_ref());
        };
        fs::write(&path, &bytes)
            .with_context(|| format!("{} cannot be written", path.display()))?;
        // Written all the same: a verdict that does not hold is worth keeping too.
        refuse(&verify_file(&bytes, &Pins::default()).checks, &path)?;
        let settled = file.settlement.is_some();
        if json {
            let written = json!({ "file": path, "verification_id": id, "settlement": settled });
            return print_json(out, &written);
        }
        let receipt = if settled { "with" } else { "without" };
        writeln!(out, "wrote {}: verification {id}, {receipt} a receipt", path.display())?;
        writeln!(out, "anybody can check it: skep proof verify {}", path.display())?;
        Ok(())
    }
}

/// The file about the verdict that a deal's settlement rests on.
pub async fn of_deal(client: &Client, id: DealId) -> Result<Vec<u8>> {
    let file = collect(client, Which::Deal(id), None).await?;
    Ok(serde_json::to_vec_pretty(&file)?)
}

async fn collect(client: &Client, id: Which, bundle: Option<Value>) -> Result<ProofFile> {
    let deal = match id {
        Which::Deal(id) => id,
        Which::Verification(id) => id.deal(),
        Which::Session(_) => bail!("a session has no verdict"),
    };
    let agreement = client.agreement(deal).await.told()?;
    let receipt = match agreement.escrow_status {
        EscrowStatus::Held => None,
        _ => if_known(client.settlement(deal).await, "not_settled")?,
    };
    let verification = match id {
        Which::Verification(id) => client.verification(id).await.told()?,
        Which::Session(_) => bail!("a session has no verdict"),
        Which::Deal(_) => decisive(client, &agreement, receipt.as_ref()).await?,
    };
    let callback = callback(&verification, bundle)?;
    // A receipt that rests on another verdict says nothing about this one.
    let rests_here = |receipt: &SettlementReceipt| {
        receipt.settlement.verification_id == Some(verification.verification_id)
            && receipt.settlement.proof_hash == Some(callback.proof_hash)
    };
    let marketplace = Marketplace {
        url: client.url().to_owned(),
        settlement_key: client.node_keys().await.told()?.settlement,
    };
    let Verification { request, .. } = &verification;
    Ok(ProofFile {
        format: FORMAT.to_owned(),
        request: Asked {
            verification_id: request.verification_id,
            negotiation_id: request.negotiation_id,
            escrow_ref: request.context.escrow_ref,
            terms_hash: request.terms_hash,
            spec: request.spec.clone(),
        },
        verifier: signer(client, &verification, &callback).await?,
        settlement: receipt.filter(rests_here),
        callback,
        terms: agreement.terms,
        release_condition: agreement.escrow.release_condition,
        marketplace,
    })
}

/// The verdict that the settlement rests on; the last one while there is none.
async fn decisive(
    client: &Client,
    agreement: &Agreement,
    receipt: Option<&SettlementReceipt>,
) -> Result<Verification> {
    let id = agreement.negotiation_id;
    if let Some(receipt) = receipt {
        let method = &receipt.settlement.method;
        let rests_on = receipt.settlement.verification_id;
        let rests_on = rests_on.filter(|_| receipt.settlement.proof_hash.is_some());
        let rests_on = rests_on.with_context(|| {
            format!("deal {id} was settled without a verdict ({method}): see skep deal settlement")
        })?;
        return client.verification(rests_on).await.told();
    }
    for number in agreement.verifications.iter().rev() {
        let verification = client.verification(*number).await.told()?;
        if verification.callback.is_some() {
            return Ok(verification);
        }
    }
    bail!("there is no verdict on deal {id} yet: see skep deal status {id}")
}

/// The callback with its bundle inside, and without what the verifier did not sign.
fn callback(verification: &Verification, bundle: Option<Value>) -> Result<VerificationCallback> {
    let id = verification.verification_id;
    let raw = verification.callback.clone().with_context(|| {
        format!("verification {id} is {} and has no verdict", word(&verification.status))
    })?;
    let mut callback: VerificationCallback = serde_json::from_value(raw)
        .with_context(|| format!("the verdict of verification {id} cannot be read"))?;
    callback.proof_bundle = callback.proof_bundle.or(bundle);
    if callback.proof_bundle.is_none() {
        match &callback.proof_bundle_uri {
            Some(uri) => bail!("the bundle is at {uri}: fetch it, and say --bundle FILE"),
            None => bail!("this verifier sends no proof bundles: there is nothing to export"),
        }
    }
    callback.proof_bundle_uri = None;
    Ok(callback)
}

async fn signer(
    client: &Client,
    verification: &Verification,
    callback: &VerificationCallback,
) -> Result<Signer> {
    let bundle = callback.proof_bundle.clone().unwrap_or_default();
    let bundle: ProofBundle =
        serde_json::from_value(bundle).context("the proof bundle cannot be read")?;
    let stamp = bundle.verifier;
    let agent = client.agent(&stamp.id).await.told()?;
    let shown = bundle.agent_identity.map(|identity| identity.public_key);
    let is_shown =
        |key: &PublicKey| shown.as_ref().is_some_and(|pem| pem.trim() == to_pem(key).trim());
    let held = agent.keys.iter().map(|key| key.public_key).find(is_shown);
    let agent_key = held.or(agent.current_key);
    let key = if verification.kind == engine::REQUESTER {
        let public_key = agent_key.context("the requester has no key now")?;
        let (not_before, not_after, revoked_at) = (None, None, None);
        SignerKey { kid: stamp.kid, public_key, not_before, not_after, revoked_at }
    } else {
        let known = client.verifier(&stamp.id).await.told()?;
        let key = known.keys.into_iter().find(|key| key.kid == stamp.kid);
        let key = key.with_context(|| format!("the verifier has no key {}", stamp.kid))?;
        SignerKey {
            kid: key.kid,
            public_key: key.public_key,
            not_before: Some(key.not_before),
            not_after: Some(key.not_after),
            revoked_at: key.revoked_at,
        }
    };
    let taken_on = agent_key.and_then(|key| taken_on(&agent, key));
    Ok(Signer { agent_id: stamp.id, key, agent_key, taken_on })
}

/// The words with which the agent's wallet took on this key, if it ever did.
fn taken_on(agent: &Agent, key: PublicKey) -> Option<TakenOn> {
    let registered = &agent.registration;
    if registered.binding.public_key == key {
        let statement = registered.binding.clone();
        let wallet_signature = registered.wallet_signature;
        return Some(TakenOn::Binding { statement, wallet_signature });
    }
    let known = agent.keys.iter().find(|known| known.public_key == key)?;
    match serde_json::from_value(known.proof.clone()).ok()? {
        KeyChange::Rotate { statement, wallet_signature, .. } => {
            Some(TakenOn::Rotation { statement, wallet_signature })
        }
        _ => None,
    }
}
