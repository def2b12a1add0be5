//! Appendix B: the JSON Schema of each message.

/// The seven message types.
pub const MESSAGES: [&str; 7] = [
    "negotiation_request",
    "negotiation_response",
    "escrow_hold",
    "service_delivery",
    "verification_request",
    "verification_callback",
    "escrow_settlement",
];

/// The JSON Schema (2020-12) of a message type.
pub fn schema(message: &str) -> Option<&'static str> {
    Some(match message {
        "negotiation_request" => include_str!("schema/negotiation_request.json"),
        "negotiation_response" => include_str!("schema/negotiation_response.json"),
        "escrow_hold" => include_str!("schema/escrow_hold.json"),
        "service_delivery" => include_str!("schema/service_delivery.json"),
        "verification_request" => include_str!("schema/verification_request.json"),
        "verification_callback" => include_str!("schema/verification_callback.json"),
        "escrow_settlement" => include_str!("schema/escrow_settlement.json"),
        _ => return None,
    })
}
