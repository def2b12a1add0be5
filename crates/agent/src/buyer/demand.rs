//! What a 402 asks for, and whether that is what was listed. Nothing is signed before.

use serde_json::{Value, json};
use skep_base::{AgentId, Amount, Hash32, Timestamp, wallet::WalletKey};
use skep_wire::{
    hire::{ESCROW_WAIT_MS_MAX, EscrowTerms, Listing, PaymentMode},
    x402::{
        Authorization, EXACT, ExactExtra, ExactPayload, Payment, PaymentRequired,
        PaymentRequiredV1, Rail, Requirements, RequirementsV1, Resource, V1_NETWORK, from_header,
        ledger_network,
    },
};

use super::error::Refusal;

/// The longest time that a seller may want a payment to be good, in seconds.
pub const TIMEOUT_S_MAX: u64 = 3600;
/// The longest time that money may wait in escrow for a delivery.
pub const DELIVERY_MS_MAX: u64 = 3600 * 1000;
/// The ways to pay that are looked at; a longer list is cut.
const ACCEPTS_MAX: usize = 16;

/// One way to pay, whatever version it came in.
#[derive(Clone, Debug, PartialEq)]
struct Offer {
    version: u8,
    requirements: Requirements,
    /// As it came, for the facilitator.
    raw: Value,
}

/// A 402.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    resource: Resource,
    offers: Vec<Offer>,
    /// Why it was sent, if the seller says so.
    pub error: Option<String>,
}

impl Demand {
    /// Version 2's header; without it, version 1's body.
    pub fn read(header: Option<&str>, body: &[u8]) -> Option<Demand> {
        let v2 = header.and_then(|header| from_header::<PaymentRequired>(header).ok());
        if let Some(required) = v2.filter(|required| required.x402_version == 2) {
            let offers = required.accepts.into_iter().take(ACCEPTS_MAX).map(|requirements| Offer {
                version: 2,
                raw: serde_json::to_value(&requirements).unwrap_or_default(),
                requirements,
            });
            let offers = offers.collect();
            return Some(Demand { resource: required.resource, offers, error: required.error });
        }
        let required: PaymentRequiredV1 = serde_json::from_slice(body).ok()?;
        let offers = required.accepts.into_iter().take(ACCEPTS_MAX).map(offer_v1).collect();
        Some(Demand { resource: Resource::default(), offers, error: Some(required.error) })
    }
}

fn offer_v1(v1: RequirementsV1) -> Offer {
    Offer {
        version: 1,
        raw: serde_json::to_value(&v1).unwrap_or_default(),
        requirements: Requirements {
            scheme: v1.scheme,
            network: v1.network,
            amount: v1.max_amount_required,
            asset: v1.asset,
            pay_to: v1.pay_to,
            max_timeout_seconds: v1.max_timeout_seconds,
            extra: v1.extra,
        },
    }
}

/// What the buyer expects to be asked for.
#[derive(Clone, Debug)]
pub struct Expected<'a> {
    pub rail: &'a Rail,
    pub listing: &'a Listing,
    pub amount: Amount,
    pub hire: Hash32,
    pub buyer: AgentId,
    /// What the buyer needs to check a result.
    pub window_ms_min: u64,
}

/// The way to pay that will be signed.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    offer: Offer,
    resource: Resource,
    pub escrow: Option<EscrowTerms>,
}

/// The first way to pay that is exactly what was listed; else, why the first one is not.
pub fn choose(demand: &Demand, expected: &Expected<'_>) -> Result<Chosen, Refusal> {
    let mut first = None;
    for offer in &demand.offers {
        match judge(offer, expected) {
            Ok(escrow) => {
                let (offer, resource) = (offer.clone(), demand.resource.clone());
                return Ok(Chosen { offer, resource, escrow });
            }
            Err(refusal) => drop(first.get_or_insert(refusal)),
        }
    }
    Err(first.unwrap_or(Refusal::NoTerms))
}

fn judge(offer: &Offer, expected: &Expected<'_>) -> Result<Option<EscrowTerms>, Refusal> {
    let (asked, rail) = (&offer.requirements, expected.rail);
    if asked.scheme != EXACT {
        return Err(Refusal::WrongScheme(asked.scheme.clone()));
    }
    let network = match offer.version {
        1 => V1_NETWORK.to_owned(),
        _ => ledger_network(),
    };
    if asked.network != network {
        return Err(Refusal::WrongNetwork(asked.network.clone()));
    }
    let extra: Option<ExactExtra> = serde_json::from_value(asked.extra.clone().into()).ok();
    let same_token =
        extra.is_none_or(|extra| extra.name == rail.name && extra.version == rail.version);
    if asked.asset != rail.asset || !same_token {
        return Err(Refusal::WrongAsset(asked.asset.to_string()));
    }
    if asked.amount != expected.amount {
        return Err(Refusal::WrongAmount { asked: asked.amount, listed: expected.amount });
    }
    if !(1..=TIMEOUT_S_MAX).contains(&asked.max_timeout_seconds) {
        return Err(Refusal::WrongTimeout(asked.max_timeout_seconds));
    }
    let (pay_to, terms) = match expected.listing.mode() {
        PaymentMode::Direct => (expected.listing.payee(), None),
        _ => (rail.escrow_address, Some(escrow_terms(asked, expected)?)),
    };
    match asked.pay_to == pay_to {
        true => Ok(terms),
        false => Err(Refusal::WrongPayee { asked: asked.pay_to, expected: pay_to }),
    }
}

/// Decision 19: the terms name whom the money is for, and nothing else can be made of it.
fn escrow_terms(asked: &Requirements, expected: &Expected<'_>) -> Result<EscrowTerms, Refusal> {
    let wrong = |what| Err(Refusal::WrongEscrowTerms(what));
    let Some(terms) = asked.extra.get("escrow") else { return wrong("there are none") };
    let Ok(terms) = serde_json::from_value::<EscrowTerms>(terms.clone()) else {
        return wrong("they cannot be read");
    };
    let listing = expected.listing;
    let version = terms.verification_version.as_deref();
    if terms.hire_hash != expected.hire {
        return wrong("they are for another hire");
    }
    if terms.buyer != expected.buyer {
        return wrong("they name another buyer");
    }
    if terms.seller != listing.agent_id || terms.payee != listing.payee() {
        return wrong("they name another seller or payee");
    }
    if terms.amount != expected.amount {
        return wrong("they name another amount");
    }
    // Whoever names no version is judged by the first one.
    if terms.capability != listing.capability || version.unwrap_or("v0") != listing.version() {
        return wrong("they name another capability or another check");
    }
    if !(expected.window_ms_min..=ESCROW_WAIT_MS_MAX).contains(&terms.verification_window_ms) {
        return wrong("the time to check is too short or too long");
    }
    if !(1..=DELIVERY_MS_MAX).contains(&terms.deliver_within_ms) {
        return wrong("the time to deliver is too long or none");
    }
    Ok(terms)
}

/// A payment, signed.
#[derive(Clone, Debug, PartialEq)]
pub struct Signed {
    pub version: u8,
    pub payment: Value,
    pub requirements: Value,
    pub valid_before: i64,
}

/// Signs a payment that is good for one hire only. `direct`: the nonce of a direct one.
pub fn sign(
    wallet: &WalletKey,
    rail: &Rail,
    chosen: &Chosen,
    direct: &Hash32,
    now: Timestamp,
    valid_s: u64,
) -> Result<Signed, String> {
    let asked = &chosen.offer.requirements;
    let nonce = match &chosen.escrow {
        Some(terms) => terms.payment_nonce().map_err(|error| error.to_string())?,
        None => *direct,
    };
    let valid_s = i64::try_from(valid_s.min(asked.max_timeout_seconds)).unwrap_or(i64::MAX);
    let valid_before = (now.as_ms() / 1000).saturating_add(valid_s).saturating_add(1);
    let parties = (wallet.address(), asked.pay_to);
    let authorization = Authorization::new(parties, asked.amount, (0, valid_before), &nonce);
    let chain = Rail::chain_id(&asked.network).ok_or("the network is not known")?;
    let signature = authorization.sign(&rail.domain(chain), wallet).map_err(|e| e.to_string())?;
    let payload = ExactPayload { authorization, signature: signature.to_string() };
    let payment = match chosen.offer.version {
        1 => json!({
            "x402Version": 1, "scheme": EXACT, "network": asked.network, "payload": payload,
        }),
        _ => Payment::new(asked.clone(), chosen.resource.clone(), payload).raw,
    };
    let (version, requirements) = (chosen.offer.version, chosen.offer.raw.clone());
    Ok(Signed { version, payment, requirements, valid_before })
}
