//! What can be said of a payment without looking anything up: its words and its signatures.

use std::sync::atomic::AtomicBool;

use skep_base::{
    AgentId, Amount, Asset, Hash32, Timestamp,
    hash::sha256,
    id::{DealId, TransferId},
};
use skep_store::AccountId;
use skep_wire::{
    hire::{BindingRefusal, ESCROW_WAIT_MS_MAX, EscrowTerms, HireFacts, is_shown_with_hire},
    x402::{
        EXACT, FacilitatorRequest, Payment, PaymentError, Rail, Requirements, RequirementsV1,
        V1_NETWORK, is_identifier, ledger_network, reason,
    },
};

use super::{budget::Named, refusal::PayRefusal};

/// The longest capability and version of an escrow's terms, in bytes: they stand in the log.
const CAPABILITY_LEN_MAX: usize = 128;
const VERSION_LEN_MAX: usize = 16;
/// The shortest time for a delivery. No work is faster, and what fails at once costs nothing to
/// make up.
const DELIVER_MS_MIN: u64 = 100;

/// A payment whose words fit together and whose signatures hold.
#[derive(Debug)]
pub(super) struct Claim {
    pub payer: AgentId,
    /// Whose hire it pays for; without a hire that is the payer.
    pub buyer: AgentId,
    /// Where the authorization sends the money.
    pub to: AgentId,
    pub amount: Amount,
    pub nonce: Hash32,
    /// Unix times in seconds.
    pub window: (u128, u128),
    pub network: String,
    pub tx_hash: String,
    /// Over all that makes it this payment: with another, the nonce is used up.
    pub fingerprint: Hash32,
    pub identifier: Option<String>,
    pub hire: Option<(Hash32, HireFacts)>,
    pub escrow: Option<EscrowTerms>,
    pub budget: Option<Named>,
    /// A look has found that it can be taken, and nobody has tried to take it since.
    pub payable: AtomicBool,
}

/// One way to pay, of either version.
struct Wanted {
    scheme: String,
    network: String,
    amount: Amount,
    asset: AgentId,
    pay_to: AgentId,
    resource: String,
    token: [Option<String>; 2],
}

/// A no, and whose payment it was if that could be read.
pub(super) type Unclaimed = (PayRefusal, Option<AgentId>);

impl Claim {
    /// Reads a payment and checks all that needs no database.
    pub(super) fn read(rail: &Rail, request: &FacilitatorRequest) -> Result<Claim, Unclaimed> {
        let no = |word: &str, message: &str| (PayRefusal::new(word, message), None);
        let version = request.x402_version;
        if !(1..=2).contains(&version) {
            return Err(no(reason::INVALID_VERSION, "x402 is spoken in versions 1 and 2"));
        }
        let payment = Payment::read(request.payment_payload.clone()).map_err(|e| match e {
            PaymentError::Version(_) => no(reason::INVALID_VERSION, &e.to_string()),
            e => no(reason::INVALID_PAYLOAD, &e.to_string()),
        })?;
        if payment.version != version {
            let message = "the payment is of another version than the request";
            return Err(no(reason::INVALID_VERSION, message));
        }
        let payer = payment.payer();
        Claim::of(rail, request, payment).map_err(|refusal| (refusal, Some(payer)))
    }

    fn of(
        rail: &Rail,
        request: &FacilitatorRequest,
        payment: Payment,
    ) -> Result<Claim, PayRefusal> {
        let wanted = Wanted::read(request, &payment)?;
        wanted.check(rail, &payment)?;
        let authorization = &payment.payload.authorization;
        let unreadable = || PayRefusal::new(reason::INVALID_PAYLOAD, "a number is not readable");
        let nonce = authorization.nonce().ok_or_else(unreadable)?;
        let window = authorization.window().ok_or_else(unreadable)?;
        let amount = authorization.amount();
        if authorization.to != wanted.pay_to {
            let message = format!("the payment goes to {}", authorization.to);
            return Err(PayRefusal::new(reason::RECIPIENT, message));
        }
        let amount = amount.filter(|amount| *amount == wanted.amount && !amount.is_zero());
        let amount = amount.ok_or_else(|| {
            let message = format!("the price is {} exactly, and above zero", wanted.amount.minor());
            PayRefusal::new(reason::VALUE, message)
        })?;
        if let Some(id) = &payment.identifier {
            check_identifier(id)?;
        }
        let chain = Rail::chain_id(&wanted.network).ok_or_else(|| unknown_network(&wanted))?;
        authorization
            .check(&rail.domain(chain), &payment.payload.signature)
            .map_err(|e| PayRefusal::new(reason::SIGNATURE, e.to_string()))?;
        let tx_hash = rail.tx_hash(&authorization.from, &nonce);
        let mut claim = Claim {
            payer: authorization.from,
            buyer: authorization.from,
            to: authorization.to,
            amount,
            nonce,
            window,
            network: wanted.network.clone(),
            tx_hash,
            fingerprint: Hash32::ZERO,
            identifier: payment.identifier.clone(),
            hire: None,
            escrow: None,
            budget: None,
            payable: AtomicBool::new(false),
        };
        claim.take_terms(rail, request)?;
        claim.fingerprint = claim.fingerprint_of(&wanted.resource);
        Ok(claim)
    }

    /// What the payment is for, where the buyer signed that.
    fn take_terms(&mut self, rail: &Rail, request: &FacilitatorRequest) -> Result<(), PayRefusal> {
        let terms = request.skep.clone().unwrap_or_default();
        if let Some(envelope) = &terms.hire {
            let (digest, facts) = envelope
                .check()
                .map_err(|e| PayRefusal::new(reason::HIRE_SIGNATURE, e.to_string()))?;
            self.check_hire(&digest, &facts, terms.escrow.is_some())?;
            self.buyer = facts.buyer_id;
            let named = facts.budget_token.clone().map(Named::of).transpose();
            self.budget = named.map_err(|e| PayRefusal::new(reason::BUDGET, e.to_string()))?;
            self.hire = Some((digest, facts));
        } else if is_shown_with_hire(&self.nonce) {
            let message = "it is made under a budget, or for another: it comes with its hire";
            return Err(PayRefusal::new(reason::NOT_FOR_THIS_HIRE, message));
        }
        match terms.escrow {
            Some(escrow) => {
                self.check_escrow(rail, &escrow)?;
                self.escrow = Some(escrow);
            }
            // Nobody holds the key of this address: money must not lie there without terms.
            None if self.to == rail.escrow_address => {
                let message = "a payment into escrow needs its terms";
                return Err(PayRefusal::new(reason::ESCROW_TERMS, message));
            }
            None => {}
        }
        Ok(())
    }

    fn check_hire(
        &self,
        digest: &Hash32,
        facts: &HireFacts,
        escrow: bool,
    ) -> Result<(), PayRefusal> {
        let expected = facts.payer().map_err(unbound)?;
        if expected != self.payer {
            let buyer = facts.buyer_id;
            let message = format!(
                "the hire is {buyer}'s and {expected} pays for it; the payment is {}'s",
                self.payer
            );
            return Err(PayRefusal::new(reason::NOT_THE_BUYER, message));
        }
        let other = |message: &str| Err(PayRefusal::new(reason::NOT_FOR_THIS_HIRE, message));
        let Some(seller) = facts.seller_id else {
            return other("the hire names no seller");
        };
        let spenders = [facts.buyer_id, self.payer];
        if !escrow && (spenders.contains(&seller) || spenders.contains(&self.to)) {
            let message = "who sells or is paid is neither the buyer nor the wallet that pays";
            return Err(PayRefusal::new(reason::RECIPIENT, message));
        }
        if facts.max_price_usdc.as_ref().is_some_and(|most| most.amount() < self.amount) {
            return other("the price is above the hire's max_price_usdc");
        }
        if !escrow && self.nonce != facts.payment_nonce(digest) {
            return other("the payment's nonce is not the one of this hire");
        }
        Ok(())
    }

    fn check_escrow(&self, rail: &Rail, terms: &EscrowTerms) -> Result<(), PayRefusal> {
        let no = |message: &str| Err(PayRefusal::new(reason::ESCROW_TERMS, message));
        let Some((digest, facts)) = &self.hire else {
            return no("escrow is for hires that the buyer signed");
        };
        if self.to != rail.escrow_address {
            return no("payTo is not this node's escrow address");
        }
        if terms.amount != self.amount || terms.buyer != facts.buyer_id {
            return no("amount or buyer are not those of the payment and its hire");
        }
        if terms.hire_hash != *digest
            || facts.seller_id != Some(terms.seller)
            || facts.capability != terms.capability
        {
            return no("hire, seller or capability are not those of the hire");
        }
        let nobody = [terms.buyer, self.payer, rail.escrow_address, AgentId::ZERO];
        if nobody.contains(&terms.payee) || nobody.contains(&terms.seller) {
            return no("the payee or the seller cannot be that");
        }
        let version = terms.verification_version.as_deref().unwrap_or_default();
        if terms.capability.len() > CAPABILITY_LEN_MAX || version.len() > VERSION_LEN_MAX {
            return no("the capability or its version is too long");
        }
        if terms.deliver_within_ms < DELIVER_MS_MIN {
            return no("there is no time for a delivery");
        }
        let waits = [terms.verification_window_ms, terms.deliver_within_ms];
        if waits.iter().any(|ms| !(1..=ESCROW_WAIT_MS_MAX).contains(ms)) {
            return no("a time is zero or longer than a day");
        }
        match terms.payment_nonce() {
            Ok(nonce) if nonce == self.nonce => Ok(()),
            _ => {
                let message = "the payment's nonce is not the one of these terms";
                Err(PayRefusal::new(reason::NOT_FOR_THIS_HIRE, message))
            }
        }
    }

    fn fingerprint_of(&self, resource: &str) -> Hash32 {
        // A hire says more than the address at which it is done, which may move.
        let what = match &self.hire {
            Some((digest, _)) => digest.to_string(),
            None => resource.to_owned(),
        };
        let (after, before) = self.window;
        let text = serde_json::json!([
            self.tx_hash,
            self.to,
            self.amount,
            after.to_string(),
            before.to_string(),
            self.network,
            what,
            self.escrow.is_some(),
        ]);
        sha256(text.to_string().as_bytes())
    }

    /// x402: good from the first moment on and until the last, with no grace.
    pub(super) fn check_time(&self, now: Timestamp) -> Result<(), PayRefusal> {
        let now = u128::try_from(now.as_ms()).unwrap_or_default();
        let (after, before) = self.window;
        if now < after.saturating_mul(1000) {
            return Err(PayRefusal::new(reason::VALID_AFTER, "the payment is not good yet"));
        }
        if now >= before.saturating_mul(1000) {
            return Err(PayRefusal::new(reason::VALID_BEFORE, "the payment has expired"));
        }
        Ok(())
    }

    /// Whether the wallet pays for the buyer at this time.
    pub(super) fn check_payer_time(&self, now: Timestamp) -> Result<(), PayRefusal> {
        match &self.hire {
            Some((_, facts)) => facts.check_payer_time(now).map_err(unbound),
            None => Ok(()),
        }
    }

    /// The buyer, if another wallet pays for it.
    pub(super) fn absent_buyer(&self) -> Option<AgentId> {
        Some(self.buyer).filter(|buyer| *buyer != self.payer)
    }

    /// Whose budget is charged.
    pub(super) fn spender(&self) -> AccountId {
        AccountId::wallet(&self.buyer, Asset::USDC)
    }

    pub(super) fn wallet(&self) -> AccountId {
        AccountId::wallet(&self.payer, Asset::USDC)
    }

    /// Who gets the money in the end.
    pub(super) fn payee(&self) -> AgentId {
        self.escrow.as_ref().map_or(self.to, |terms| terms.payee)
    }

    pub(super) fn seller(&self) -> Option<AgentId> {
        self.hire.as_ref().and_then(|(_, facts)| facts.seller_id)
    }

    /// The row of the journal that a direct payment is.
    pub(super) fn transfer_id(&self) -> TransferId {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&sha256(self.tx_hash.as_bytes()).as_bytes()[..16]);
        TransferId::from_bytes(bytes)
    }

    /// The escrow that the payment fills; the same on every retry.
    pub(super) fn escrow_id(&self) -> Option<DealId> {
        self.escrow.as_ref()?;
        let ms = i64::try_from(self.window.1.saturating_mul(1000)).unwrap_or(i64::MAX);
        let at = Timestamp::from_ms(ms.min(Timestamp::MAX.as_ms()));
        Some(DealId::new(at, &[b"skep/hire-escrow/v1", self.tx_hash.as_bytes()]))
    }
}

impl Wanted {
    fn read(request: &FacilitatorRequest, payment: &Payment) -> Result<Wanted, PayRefusal> {
        let bad = |e: serde_json::Error| {
            PayRefusal::new(reason::INVALID_REQUIREMENTS, format!("they cannot be read: {e}"))
        };
        let token = |extra: &serde_json::Map<String, serde_json::Value>| {
            ["name", "version"].map(|key| Some(extra.get(key)?.as_str()?.to_owned()))
        };
        let value = request.payment_requirements.clone();
        if request.x402_version == 1 {
            let read: RequirementsV1 = serde_json::from_value(value).map_err(bad)?;
            return Ok(Wanted {
                scheme: read.scheme,
                network: read.network,
                amount: read.max_amount_required,
                asset: read.asset,
                pay_to: read.pay_to,
                token: token(&read.extra),
                resource: read.resource,
            });
        }
        let read: Requirements = serde_json::from_value(value).map_err(bad)?;
        let resource = payment.resource.as_ref();
        Ok(Wanted {
            scheme: read.scheme,
            network: read.network,
            amount: read.amount,
            asset: read.asset,
            pay_to: read.pay_to,
            token: token(&read.extra),
            resource: resource.map(|resource| resource.url.clone()).unwrap_or_default(),
        })
    }

    fn check(&self, rail: &Rail, payment: &Payment) -> Result<(), PayRefusal> {
        if [&self.scheme, &payment.scheme].iter().any(|scheme| *scheme != EXACT) {
            return Err(PayRefusal::new(reason::UNSUPPORTED_SCHEME, "the only scheme is exact"));
        }
        let ours = match payment.version {
            1 => V1_NETWORK.to_owned(),
            _ => ledger_network(),
        };
        if self.network != ours || payment.network != ours {
            return Err(unknown_network(self));
        }
        let accepted = payment.accepted.as_ref().is_none_or(|a| a.asset == self.asset);
        let words = [&rail.name, &rail.version];
        let named = self
            .token
            .iter()
            .zip(words)
            .all(|(given, ours)| given.as_ref().is_none_or(|given| given == ours));
        if self.asset != rail.asset || !accepted || !named {
            let message = format!("this node's asset is {} ({})", rail.asset, rail.name);
            return Err(PayRefusal::new(reason::TOKEN, message));
        }
        Ok(())
    }
}

fn unbound(refusal: BindingRefusal) -> PayRefusal {
    PayRefusal::new(reason::WALLET_BINDING, refusal.to_string())
}

fn unknown_network(wanted: &Wanted) -> PayRefusal {
    let given: String = wanted.network.chars().take(64).collect();
    let message = format!("{given:?} is not {} (version 1: {V1_NETWORK})", ledger_network());
    PayRefusal::new(reason::INVALID_NETWORK, message)
}

fn check_identifier(id: &str) -> Result<(), PayRefusal> {
    match is_identifier(id) {
        true => Ok(()),
        false => {
            let message = "a payment-identifier is 16 to 128 letters, digits, - and _";
            Err(PayRefusal::new(reason::INVALID_PAYLOAD, message))
        }
    }
}
