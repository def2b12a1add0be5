use std::ops::RangeInclusive;

use serde_json::{Value, json};

/// The extension by which a client names a payment, so that its retry is the same one.
pub const PAYMENT_IDENTIFIER: &str = "payment-identifier";
/// The extension by which catalogues learn how a resource is called.
pub const BAZAAR: &str = "bazaar";
/// How long the name of a payment is, in bytes.
pub const IDENTIFIER_LEN: RangeInclusive<usize> = 16..=128;

/// What a 402 says of [`PAYMENT_IDENTIFIER`]: whoever has a name for its payment may say it.
pub fn payment_identifier() -> Value {
    json!({
        "info": { "required": false },
        "schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "required": { "type": "boolean" },
                "id": {
                    "type": "string",
                    "minLength": IDENTIFIER_LEN.start(),
                    "maxLength": IDENTIFIER_LEN.end(),
                    "pattern": "^[A-Za-z0-9_-]+$",
                },
            },
            "required": ["required"],
        },
    })
}

/// The id that a client gave a payment.
pub fn identifier_of(payment: &Value) -> Option<String> {
    let extension = payment.get("extensions")?.get(PAYMENT_IDENTIFIER)?;
    let info = extension.get("info").unwrap_or(extension);
    Some(info.get("id")?.as_str()?.to_owned())
}

/// Whether a payment may have this id.
pub fn is_identifier(id: &str) -> bool {
    IDENTIFIER_LEN.contains(&id.len())
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
}
