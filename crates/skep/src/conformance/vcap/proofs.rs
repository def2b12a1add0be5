//! Section 5 and 9: proofs, good and bad.

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use skep_base::{
    ed25519::{PublicKey, SecretKey, Signature},
    hash::json_sha256,
    id::VerificationId,
};
use skep_sdk::Error;
use skep_settle::proof;
use skep_wire::settle::{EscrowStatus, Outcome, ProofBundle, VerificationCallback};

use super::{World, machines::delivered};

async fn finding(w: &World, id: VerificationId) -> Result<ProofBundle> {
    let request = w.verifier.actor.client(&w.url)?.verification(id).await?.request;
    Ok(w.verifier.finding(&request, Outcome::Verified))
}

async fn good(w: &World, id: VerificationId) -> Result<VerificationCallback> {
    w.verifier.seal(finding(w, id).await?)
}

/// Sends what must be refused with this code, and looks that no money moved.
async fn refused(w: &World, callback: &VerificationCallback, code: &str) -> Result<()> {
    match w.ann.callback(callback).await {
        Err(Error::Problem { problem, .. }) if problem.code == code => {}
        Err(other) => bail!("expected {code}, not: {other}"),
        Ok(_) => bail!("expected {code}, and it was taken"),
    }
    let escrow = w.ann.escrow(callback.verification_id.deal()).await?;
    ensure!(escrow.status == EscrowStatus::Held, "a refused proof moved money");
    Ok(())
}

pub(super) async fn the_hash_is_recomputed_and_a_wrong_one_refused(w: &World) -> Result<String> {
    let (_, id) = delivered(w).await?;
    let callback = good(w, id).await?;
    let bundle = callback.proof_bundle.clone().context("no bundle")?;
    ensure!(json_sha256(&bundle)? == callback.proof_hash, "the hash is another");
    let mut changed = callback.clone();
    changed.proof_bundle = Some({
        let mut bundle = bundle;
        bundle["started_at"] = json!("2020-01-01T00:00:00.000Z");
        bundle
    });
    refused(w, &changed, "proof_hash_mismatch").await?;
    let mut without = callback.clone();
    without.proof_bundle = None;
    refused(w, &without, "proof_missing").await?;
    w.ann.callback(&callback).await?;
    Ok("the node recomputes it; a changed bundle and a missing one are refused".to_owned())
}

pub(super) async fn forged_and_replayed_proofs_are_refused(w: &World) -> Result<String> {
    let ((_, first), (_, second)) = (delivered(w).await?, delivered(w).await?);
    let forged = proof::seal(finding(w, first).await?, None, &w.provider.key())?;
    refused(w, &forged, "proof_bad_signature").await?;
    let proven = good(w, first).await?;
    w.ann.callback(&proven).await?;
    let mut replayed = proven.clone();
    replayed.verification_id = second;
    refused(w, &replayed, "proof_field_mismatch").await?;
    let mut bundle = finding(w, first).await?;
    bundle.verification_id = second;
    refused(w, &w.verifier.seal(bundle)?, "proof_foreign").await?;
    w.ann.callback(&good(w, second).await?).await?;
    Ok("another key, another escrow's proof and a re-addressed bundle are refused".to_owned())
}

pub(super) async fn weak_keys_and_second_spellings_are_refused(w: &World) -> Result<String> {
    // The neutral element: with it as the key, a signature over anything would verify.
    let mut neutral = [0; 32];
    neutral[0] = 1;
    ensure!(PublicKey::from_bytes(neutral).is_err(), "a key of small order is taken");
    let (_, id) = delivered(w).await?;
    let callback = good(w, id).await?;
    let mut respelled = callback.clone();
    respelled.proof_signature = plus_order(&callback.proof_signature);
    refused(w, &respelled, "proof_bad_signature").await?;
    w.ann.callback(&callback).await?;
    Ok("a key of small order, and S + L in the place of S, are refused".to_owned())
}

/// The same signature with the group's order added to its second half.
fn plus_order(signature: &Signature) -> Signature {
    const ORDER: [u8; 32] = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde,
        0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ];
    let mut bytes = signature.0;
    let mut carry = 0;
    for (byte, order) in bytes[32..].iter_mut().zip(ORDER) {
        let sum = u16::from(*byte) + u16::from(order) + carry;
        *byte = sum as u8;
        carry = sum >> 8;
    }
    Signature(bytes)
}

pub(super) async fn settlements_carry_the_proof(w: &World) -> Result<String> {
    let (deal, id) = delivered(w).await?;
    let callback = good(w, id).await?;
    w.ann.callback(&callback).await?;
    let settlement = w.ann.settlement(deal).await?.settlement;
    let evidence = settlement.evidence.context("no evidence")?;
    let same = settlement.proof_hash == Some(callback.proof_hash)
        && settlement.proof_signature == Some(callback.proof_signature)
        && evidence.proof_hash == callback.proof_hash
        && evidence.proof_signature == callback.proof_signature;
    ensure!(same, "the settlement names another proof");
    Ok("hash and signature of the callback stand in the signed settlement".to_owned())
}

pub(super) async fn the_same_callback_counts_once(w: &World) -> Result<String> {
    let (_, id) = delivered(w).await?;
    let callback = good(w, id).await?;
    let mut sent = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let (client, callback) = (w.ann.clone(), callback.clone());
        sent.spawn(async move { client.callback(&callback).await });
    }
    let mut fresh = 0;
    while let Some(taken) = sent.join_next().await {
        fresh += u32::from(!taken??.duplicate);
    }
    ensure!(fresh == 1, "{fresh} of 100 counted");
    Ok("sent 100 times: one settles, 99 are acknowledged".to_owned())
}

pub(super) async fn a_changed_action_breaks_the_chain(w: &World) -> Result<String> {
    let (_, id) = delivered(w).await?;
    let sealed = good(w, id).await?;
    let mut changed = sealed.clone();
    let mut bundle = sealed.proof_bundle.clone().context("no bundle")?;
    bundle["action_log"][0]["action"] = json!("NAVIGATE");
    changed.action_log[0]["action"] = json!("NAVIGATE");
    changed.proof_hash = json_sha256(&bundle)?;
    changed.proof_bundle = Some(bundle);
    refused(w, &changed, "proof_chain_broken").await?;
    w.ann.callback(&sealed).await?;
    Ok("an action changed after sealing does not fit the chain's head".to_owned())
}

pub(super) async fn a_foreign_identity_is_refused(w: &World) -> Result<String> {
    let (_, id) = delivered(w).await?;
    let mut bundle = finding(w, id).await?;
    let stranger = SecretKey::from_seed([9; 32]);
    let at = bundle.completed_at;
    bundle.agent_identity = Some(proof::identify(w.verifier.id(), &stranger, at));
    refused(w, &w.verifier.seal(bundle)?, "proof_foreign_identity").await?;
    let callback = good(w, id).await?;
    let read = callback.proof_bundle.as_ref().context("no bundle")?;
    ensure!(read["agent_identity"]["public_key"].is_string(), "no identity in the bundle");
    w.ann.callback(&callback).await?;
    Ok("the registered key is taken, another's is refused".to_owned())
}
