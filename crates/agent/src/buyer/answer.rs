//! Whether an answer is the answer to this hire.

use skep_base::{Amount, Hash32, hash::json_sha256};
use skep_wire::hire::{HireResponse, NO_TX, Receipt, WalletSigned, receipt_id};

use super::{entry::Open, error::Refusal};

/// The id that the receipt of a hire has.
pub fn receipt_id_of(open: &Open) -> String {
    let Open { intent, .. } = open;
    receipt_id(&intent.listing.agent_id, &intent.hire.buyer_id, &intent.id).to_string()
}

/// Checks a seller's receipt against what was asked for and paid.
pub fn check_receipt(open: &Open, receipt: &Receipt) -> Result<(), Refusal> {
    let wrong = |what| Err(Refusal::WrongReceipt(what));
    let (hire, listing) = (&open.intent.hire, &open.intent.listing);
    if receipt.agent_id != listing.agent_id {
        return wrong("it is another seller's");
    }
    if receipt.check_signature().is_err() {
        return wrong("its signature does not hold");
    }
    if receipt.hire_hash != Some(open.intent.id) || receipt.hire_id != receipt_id_of(open) {
        return wrong("it is for another hire");
    }
    if receipt.buyer != hire.buyer_id || receipt.capability != hire.capability {
        return wrong("it names another buyer or another capability");
    }
    if receipt.params_hash != json_sha256(&hire.params).ok() {
        return wrong("it is for other parameters");
    }
    if receipt.payee.is_some_and(|payee| payee != listing.payee()) {
        return wrong("it names another payee");
    }
    if receipt.payment_mode.clone().unwrap_or_default() != listing.mode() {
        return wrong("it names another way of payment");
    }
    let amount = open.amount();
    if receipt.amount_usdc_atomic != amount {
        return wrong("it names another amount");
    }
    if (receipt.tx_hash == NO_TX) != (amount == Amount::ZERO) || !is_tx_hash(&receipt.tx_hash) {
        return wrong("it names no payment");
    }
    if receipt.escrow_id.is_some() != open.authorized.as_ref().is_some_and(|a| a.escrow.is_some()) {
        return wrong("it names another escrow");
    }
    Ok(())
}

/// Checks that the receipt is for the result that came.
pub fn check_result(response: &HireResponse, receipt: &Receipt) -> Result<Hash32, Refusal> {
    let wrong = |what| Refusal::WrongReceipt(what);
    let hash = json_sha256(&response.result).map_err(|_| wrong("the result has no hash"))?;
    match receipt.result_hash == Some(hash) {
        true => Ok(hash),
        false => Err(wrong("it is for another result")),
    }
}

fn is_tx_hash(text: &str) -> bool {
    text.len() == NO_TX.len()
        && text.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
}
