//! What is on sale, and the listings that say so.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde_json::{Map, Value, json};
use skep_base::{AgentId, Amount, Timestamp, wallet::WalletKey};
use skep_hire::{bazaar, capability};
use skep_wire::{
    hire::{
        DESCRIPTION_LEN_MAX, Listing, MAX_LATENCY_MS_MAX, MAX_LATENCY_MS_MIN, PaymentMode,
        SignedError, Usdc, WalletSigned,
    },
    x402::{BAZAAR, PAYMENT_IDENTIFIER, payment_identifier},
};
use tokio::sync::Semaphore;

use super::{schema::Schemas, work::Work};

/// Free calls of one offer in a day, by whoever: identities are cheap (decision 14).
pub const FREE_PER_DAY_DEFAULT: u32 = 100;
/// Hires of one offer that run at the same time.
pub const SEATS_DEFAULT: usize = 8;
pub const MAX_LATENCY_MS_DEFAULT: u64 = 30_000;
/// The longest parameters of one hire, in bytes.
pub const PARAMS_LEN_DEFAULT: usize = 1024 * 1024;
/// The same where they are pictures or sound.
pub const PARAMS_LEN_OF_FILES: usize = 16 * 1024 * 1024;
/// Capabilities whose parameters are files begin with one of these.
const FILES: [&str; 2] = ["image.", "audio."];

/// One thing that is sold.
#[derive(Clone)]
pub struct Offer {
    pub capability: String,
    pub price: Usdc,
    /// One listing for each. Offers of one capability may have different prices for different
    /// modes.
    pub modes: Vec<PaymentMode>,
    /// Who is paid, if not the agent's own wallet.
    pub payee: Option<AgentId>,
    pub max_latency_ms: u64,
    pub first_call_free: bool,
    pub free_per_day: u32,
    pub verification_version: Option<String>,
    /// For `custom.*` only.
    pub clarification_supported: bool,
    pub audit_participating: bool,
    /// Search shows counts and rates of this offer in steps only.
    pub private_metrics: bool,
    pub description: Option<String>,
    /// Of a custom capability: what its parameters and results look like, as JSON Schemas by the
    /// names `input` and `output`. What does not fit is neither taken nor sold.
    pub schema: Option<Value>,
    pub seats: usize,
    /// The longest parameters that are taken, in bytes.
    pub params_len_max: usize,
    pub work: Arc<dyn Work>,
}

impl fmt::Debug for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offer").field("capability", &self.capability).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferError {
    #[error("{capability}: {reason}")]
    Capability { capability: String, reason: String },
    #[error("the price of {capability} is zero; make the first call free instead")]
    FreeOfCharge { capability: String },
    #[error(
        "max_latency_ms is {given}: from {MAX_LATENCY_MS_MIN} to {MAX_LATENCY_MS_MAX} is possible"
    )]
    Latency { given: u64 },
    #[error("{capability} is offered twice in the payment mode {mode}")]
    Twice { capability: String, mode: PaymentMode },
    #[error("only custom capabilities can be clarified, {capability} is none")]
    NotClarifiable { capability: String },
    #[error("a description has at most {DESCRIPTION_LEN_MAX} bytes")]
    Description,
    #[error("the schema of {capability} cannot be used: {reason}")]
    Schema { capability: String, reason: String },
    #[error("{capability} has no payment mode")]
    NoMode { capability: String },
    #[error("there is nothing to sell")]
    Nothing,
}

impl Offer {
    /// An offer in direct mode with everything else as usual.
    pub fn new(capability: impl Into<String>, price: Usdc, work: impl Work) -> Offer {
        let capability = capability.into();
        Offer {
            params_len_max: params_len_max(&capability),
            price,
            modes: vec![PaymentMode::Direct],
            payee: None,
            max_latency_ms: MAX_LATENCY_MS_DEFAULT,
            first_call_free: false,
            free_per_day: FREE_PER_DAY_DEFAULT,
            verification_version: capability::current_version(&capability).map(str::to_owned),
            capability,
            clarification_supported: false,
            audit_participating: false,
            private_metrics: false,
            description: None,
            schema: None,
            seats: SEATS_DEFAULT,
            work: Arc::new(work),
        }
    }

    fn check(&self) -> Result<(), OfferError> {
        let capability = self.capability.clone();
        let version = self.verification_version.as_deref();
        if let Err(reason) = super::checks::check_promise(&capability, version) {
            return Err(OfferError::Capability { capability, reason });
        }
        if self.price.amount().is_zero() {
            return Err(OfferError::FreeOfCharge { capability });
        }
        if !(MAX_LATENCY_MS_MIN..=MAX_LATENCY_MS_MAX).contains(&self.max_latency_ms) {
            return Err(OfferError::Latency { given: self.max_latency_ms });
        }
        if self.clarification_supported && !capability.starts_with("custom.") {
            return Err(OfferError::NotClarifiable { capability });
        }
        if self.description.as_ref().is_some_and(|text| text.len() > DESCRIPTION_LEN_MAX) {
            return Err(OfferError::Description);
        }
        match self.modes.is_empty() {
            true => Err(OfferError::NoMode { capability }),
            false => Ok(()),
        }
    }
}

/// The longest parameters that a capability needs, in bytes.
pub fn params_len_max(capability: &str) -> usize {
    match FILES.iter().any(|kind| capability.starts_with(kind)) {
        true => PARAMS_LEN_OF_FILES,
        false => PARAMS_LEN_DEFAULT,
    }
}

/// An offer in one payment mode: what one listing says.
#[derive(Clone, Debug)]
pub(crate) struct Ware {
    pub(crate) offer: Arc<Offer>,
    pub(crate) mode: PaymentMode,
    pub(crate) listing: Listing,
    /// Shared by all modes of an offer.
    pub(crate) seats: Arc<Semaphore>,
    /// Those of x402 that a 402 tells of.
    pub(crate) extensions: Arc<Map<String, Value>>,
    /// The seller's own.
    pub(crate) schemas: Schemas,
}

impl Ware {
    pub(crate) fn price(&self) -> Amount {
        self.offer.price.amount()
    }

    /// The listing as of now, signed.
    pub(crate) fn signed(
        &self,
        wallet: &WalletKey,
        now: Timestamp,
    ) -> Result<Listing, SignedError> {
        let mut listing = self.listing.clone();
        listing.issued_at = Some(now);
        listing.sign(wallet)?;
        Ok(listing)
    }
}

/// Everything that is sold, by capability.
pub(crate) type Shelf = BTreeMap<String, Vec<Ware>>;

pub(crate) fn shelf(
    offers: Vec<Offer>,
    seller: AgentId,
    endpoint: &str,
) -> Result<Shelf, OfferError> {
    let mut shelf = Shelf::new();
    for offer in offers {
        offer.check()?;
        let schemas = Schemas::of(offer.schema.as_ref()).map_err(|reason| {
            let capability = offer.capability.clone();
            OfferError::Schema { capability, reason }
        })?;
        let offer = Arc::new(offer);
        let seats = Arc::new(Semaphore::new(offer.seats));
        let extensions = Arc::new(extensions(&offer));
        let wares: &mut Vec<Ware> = shelf.entry(offer.capability.clone()).or_default();
        for mode in &offer.modes {
            let (capability, mode) = (offer.capability.clone(), mode.clone());
            if wares.iter().any(|ware| ware.mode == mode) {
                return Err(OfferError::Twice { capability, mode });
            }
            let listing = listing(&offer, &mode, seller, endpoint);
            wares.push(Ware {
                offer: offer.clone(),
                mode,
                listing,
                seats: seats.clone(),
                extensions: extensions.clone(),
                schemas: schemas.clone(),
            });
        }
    }
    match shelf.is_empty() {
        true => Err(OfferError::Nothing),
        false => Ok(shelf),
    }
}

fn extensions(offer: &Offer) -> Map<String, Value> {
    let schema = super::checks::schema(offer);
    let any = json!({ "type": "object" });
    let side = |name: &str| schema.get(name).unwrap_or(&any).clone();
    let bazaar = bazaar::block(&offer.capability, &side("input"), &side("output"));
    let both = [(PAYMENT_IDENTIFIER, payment_identifier()), (BAZAAR, bazaar)];
    both.map(|(name, block)| (name.to_owned(), block)).into_iter().collect()
}

fn listing(offer: &Offer, mode: &PaymentMode, seller: AgentId, endpoint: &str) -> Listing {
    Listing {
        agent_id: seller,
        payee: offer.payee.filter(|payee| *payee != seller),
        capability: offer.capability.clone(),
        price_usdc: offer.price.clone(),
        currency: Some("USDC".to_owned()),
        chain: None,
        max_latency_ms: offer.max_latency_ms,
        first_call_free: Some(offer.first_call_free),
        endpoint: endpoint.to_owned(),
        payment_mode: Some(mode.clone()),
        verification_version: offer.verification_version.clone(),
        clarification_supported: offer.clarification_supported.then_some(true),
        audit_participating: offer.audit_participating.then_some(true),
        private_metrics: offer.private_metrics.then_some(true),
        description: offer.description.clone(),
        issued_at: None,
        signature: None,
        extra: BTreeMap::new(),
    }
}
