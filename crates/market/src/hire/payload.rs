//! What was asked and answered in a hire, kept sealed for whoever checks later (decision 16).

use chacha20poly1305::{AeadInOut, KeyInit, XChaCha20Poly1305};
use skep_base::{
    Hash32, Timestamp,
    hash::{json_sha256, sha256, sha256_parts},
    json::{read_own, to_vec},
};
use skep_hire::receipt::{PAYLOAD_KEPT, ReceiptRefusal};
use skep_store::{Bug, Load, Lock, Payload, StoreError};
use skep_wire::hire::HirePayload;

use super::{ListingRecord, ReceiptRecord, listing_key, receipt_key};
use crate::{Failure, Market};

/// What is signed for the key begins with this, and nothing else that is signed does.
const SEAL_DOMAIN: &str = "skep/payload-seal/v1";
const NONCE_LEN: usize = 24;

impl Market {
    /// Keeps a hire's payload. That it has the receipt's hashes is proof enough of where it comes
    /// from. Says until when it is kept.
    pub async fn keep_payload(
        &self,
        receipt_id: &str,
        payload: HirePayload,
    ) -> Result<Timestamp, Failure> {
        let known = self.receipt_record(receipt_id).await?;
        if let Some(until) = known.payload_until {
            return Ok(until);
        }
        let listing: Option<ListingRecord> = self.read(listing_key(&known.listing)).await?;
        let audited = listing.is_some_and(|known| known.listing.audit_participating == Some(true));
        if known.receipt.escrow_id.is_none() && !audited {
            return Err(ReceiptRefusal::NoPayloadWanted.into());
        }
        let market = self.clone();
        let sealing = tokio::task::spawn_blocking(move || market.sealed(&known, &payload));
        let sealed = sealing.await.map_err(|e| bug(&e))??;
        let key = receipt_key(receipt_id);
        let load = Load { records: vec![(key.clone(), Lock::Exclusive)], ..Load::default() };
        let receipt_id = receipt_id.to_owned();
        let kept = self.run(load, vec![], move |turn| {
            let known: Option<ReceiptRecord> = turn.record(&key)?;
            let unknown = || ReceiptRefusal::UnknownReceipt { receipt_id: receipt_id.clone() };
            let mut record = known.ok_or_else(unknown)?;
            if let Some(until) = record.payload_until {
                return Ok(until);
            }
            let expires_at = turn.now().plus(PAYLOAD_KEPT);
            record.payload_until = Some(expires_at);
            turn.put(&key, &record)?;
            let (receipt_id, sealed) = (receipt_id.clone(), sealed.clone());
            turn.keep_payload(Payload { receipt_id, sealed, expires_at });
            Ok(expires_at)
        });
        Ok(kept.await?.value)
    }

    /// A hire's payload, as long as it is kept.
    pub async fn payload(&self, receipt_id: &str) -> Result<Option<HirePayload>, Failure> {
        let Some(mut bytes) = self.store.payload(receipt_id).await? else { return Ok(None) };
        let (cipher, nonce) = self.seal_of(receipt_id);
        let opened = cipher.decrypt_in_place(&nonce.into(), receipt_id.as_bytes(), &mut bytes);
        opened.map_err(|_| bug(&"a payload was sealed by another key"))?;
        Ok(Some(read_own(&bytes).map_err(|e| bug(&e))?))
    }

    fn sealed(&self, known: &ReceiptRecord, payload: &HirePayload) -> Result<Vec<u8>, Failure> {
        let receipt = &known.receipt;
        for (what, value, expected) in [
            ("params", &payload.params, receipt.params_hash),
            ("result", &payload.result, receipt.result_hash),
        ] {
            let hash = json_sha256(value).ok();
            if hash.is_none() || hash != expected {
                return Err(ReceiptRefusal::PayloadMismatch { what: what.to_owned() }.into());
            }
        }
        let mut bytes = to_vec(payload).map_err(|e| bug(&e))?;
        let (cipher, nonce) = self.seal_of(&receipt.hire_id);
        let sealed = cipher.encrypt_in_place(&nonce.into(), receipt.hire_id.as_bytes(), &mut bytes);
        sealed.map_err(|_| bug(&"a payload cannot be sealed"))?;
        Ok(bytes)
    }

    /// Each receipt has a key of its own, and by its hashes one payload: no key ever seals two
    /// texts, so the nonce need not change.
    fn seal_of(&self, receipt_id: &str) -> (XChaCha20Poly1305, [u8; NONCE_LEN]) {
        let secret: Hash32 = sha256(self.settlement_key.sign(SEAL_DOMAIN.as_bytes()).as_bytes());
        let key = sha256_parts(&[secret.as_bytes(), receipt_id.as_bytes()]);
        (XChaCha20Poly1305::new(&(*key.as_bytes()).into()), [0; NONCE_LEN])
    }
}

fn bug(error: &dyn ToString) -> Failure {
    StoreError::Bug(Bug(error.to_string())).into()
}
