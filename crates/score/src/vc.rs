//! The public passport as a W3C Verifiable Credential (2.0), secured with `eddsa-jcs-2022`.

use serde_json::{Map, Value, json};
use skep_base::{
    Timestamp,
    ed25519::{PublicKey, SecretKey, Signature},
    hash::json_sha256,
};
use skep_wire::score::{PublicPassport, Publication};

pub mod multibase;
#[cfg(test)]
mod tests;

pub const CRYPTOSUITE: &str = "eddsa-jcs-2022";
const PROOF_TYPE: &str = "DataIntegrityProof";
const PROOF_PURPOSE: &str = "assertionMethod";
const CONTEXT_CREDENTIALS: &str = "https://www.w3.org/ns/credentials/v2";
const CONTEXT_ATEP: &str = "https://atep.dev/ns/v1";

/// What is wrong with a secured document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("the document is not an object, or has no proof")]
    NoProof,
    #[error("the proof's {field} is not what {CRYPTOSUITE} asks for")]
    BadProof { field: &'static str },
    #[error("the proof was made for another context")]
    OtherContext,
    #[error("the document cannot be written canonically")]
    NotCanonical,
    #[error("proofValue does not verify with this key")]
    BadSignature,
}

/// The DID that says a key and nothing else.
pub fn did_key(key: &PublicKey) -> String {
    format!("did:key:{}", multibase::of_key(key))
}

/// How a verifier names the key of a [`did_key`].
pub fn verification_method(key: &PublicKey) -> String {
    let key = multibase::of_key(key);
    format!("did:key:{key}#{key}")
}

/// Secures a document. `options` are the proof without `proofValue`; type, suite and context are
/// filled in.
pub fn secure(document: &Value, options: &Value, key: &SecretKey) -> Result<Value, Fault> {
    let mut secured = document.as_object().ok_or(Fault::NoProof)?.clone();
    secured.remove("proof");
    let mut proof = options.as_object().cloned().unwrap_or_default();
    proof.insert("type".to_owned(), json!(PROOF_TYPE));
    proof.insert("cryptosuite".to_owned(), json!(CRYPTOSUITE));
    proof.remove("proofValue");
    if let Some(context) = secured.get("@context") {
        proof.insert("@context".to_owned(), context.clone());
    }
    let signature = key.sign(&hash_data(&secured, &proof)?);
    proof.insert("proofValue".to_owned(), json!(multibase::encode(signature.as_bytes())));
    secured.insert("proof".to_owned(), Value::Object(proof));
    Ok(Value::Object(secured))
}

/// Hash of the proof's configuration, then hash of the document.
fn hash_data(document: &Map<String, Value>, proof: &Map<String, Value>) -> Result<[u8; 64], Fault> {
    let proof = json_sha256(proof).map_err(|_| Fault::NotCanonical)?;
    let document = json_sha256(document).map_err(|_| Fault::NotCanonical)?;
    let mut data = [0; 64];
    data[..32].copy_from_slice(proof.as_bytes());
    data[32..].copy_from_slice(document.as_bytes());
    Ok(data)
}

/// Checks a secured document with a key that is known to be its issuer's.
pub fn check(secured: &Value, key: &PublicKey) -> Result<(), Fault> {
    let mut document = secured.as_object().ok_or(Fault::NoProof)?.clone();
    let proof = document.remove("proof").ok_or(Fault::NoProof)?;
    let mut proof = proof.as_object().ok_or(Fault::NoProof)?.clone();
    for (field, expected) in
        [("type", PROOF_TYPE), ("cryptosuite", CRYPTOSUITE), ("proofPurpose", PROOF_PURPOSE)]
    {
        if proof.get(field).and_then(Value::as_str) != Some(expected) {
            return Err(Fault::BadProof { field });
        }
    }
    let bad_value = || Fault::BadProof { field: "proofValue" };
    let value = proof.remove("proofValue").ok_or_else(bad_value)?;
    let bytes = value.as_str().and_then(multibase::decode).ok_or_else(bad_value)?;
    let signature = Signature::from_bytes(bytes.try_into().map_err(|_| bad_value())?);
    if let Some(context) = proof.get("@context") {
        let given = document.get("@context").ok_or(Fault::OtherContext)?;
        if !starts_with(given, context) {
            return Err(Fault::OtherContext);
        }
        // Contexts that were added afterwards are not part of what was signed.
        document.insert("@context".to_owned(), context.clone());
    }
    key.verify(&hash_data(&document, &proof)?, &signature).map_err(|_| Fault::BadSignature)
}

fn starts_with(given: &Value, signed: &Value) -> bool {
    match (given, signed) {
        (Value::Array(given), Value::Array(signed)) => given.starts_with(signed),
        (Value::Array(given), one) => given.first() == Some(one),
        (given, signed) => given == signed,
    }
}

/// The credential of a public passport; it is valid as long as the publication in it, or a day.
pub fn credential(
    passport: &PublicPassport,
    publication: Option<&Publication>,
    valid_until: Timestamp,
    key: &SecretKey,
) -> Result<Value, Fault> {
    let public = key.public();
    let issued_at = passport.issuer.issued_at;
    let subject = serde_json::to_value(passport).map_err(|_| Fault::NotCanonical)?;
    let valid_until = publication.map_or(valid_until, |said| said.valid_until.min(valid_until));
    let document = json!({
        "@context": [CONTEXT_CREDENTIALS, CONTEXT_ATEP],
        "id": format!("urn:uuid:{}", passport.passport_id),
        "type": ["VerifiableCredential", "AgentTrustPassport"],
        "issuer": { "id": did_key(&public), "name": passport.issuer.platform },
        "validFrom": issued_at,
        "validUntil": valid_until,
        "credentialSubject": {
            "id": format!("urn:uuid:{}", passport.passport_id),
            "passport": subject,
        },
    });
    let options = json!({
        "created": issued_at,
        "verificationMethod": verification_method(&public),
        "proofPurpose": PROOF_PURPOSE,
    });
    secure(&document, &options, key)
}
