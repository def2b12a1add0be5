//! Receipts: the seller's word, checked against the payment, and the buyer's.

use serde::{Deserialize, Serialize};
use skep_base::{AgentId, Did, Hash32, Timestamp, id::ListingId};
use skep_hire::receipt::{
    Paid, ReceiptRefusal, check_fresh, check_hire_id, check_listing, check_own_id, check_payment,
    check_words, is_free, standing,
};
use skep_store::{Load, Lock, RecordKey, Turn};
use skep_wire::{
    Page,
    hire::{
        CounterSignature, Findings, Judgement, PaymentMode, Receipt, ReceiptAccepted,
        StoredReceipt, Verification, WalletSigned, listing_id,
    },
};

use super::{
    ListingRecord, announce,
    countersign::About,
    counts::Counts,
    listing_key, load_told,
    token::{Side, enter_token, load_token},
};
use crate::{
    Failure, Market, Refusal,
    answer::Stop,
    identity::agent_key,
    pay::{PaymentRecord, payment_key},
};

/// A payment's one receipt.
const NAME_PAYMENT: &str = "receipt_payment";
/// A buyer's one free call of a listing.
const NAME_FREE_CALL: &str = "free_call";

/// A receipt as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReceiptRecord {
    /// As the seller signed it.
    pub(crate) receipt: Receipt,
    pub(crate) listing: ListingId,
    /// The operator of the buyer, or of the wallet that paid, is the seller's or the payee's.
    pub(crate) linked: bool,
    pub(crate) accepted_at: Timestamp,
    /// As the buyer signed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) counter: Option<CounterSignature>,
    pub(crate) dispute: bool,
    /// Until when what was asked and answered is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) payload_until: Option<Timestamp>,
    /// What the platform's own look at the result found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) platform: Option<Verification>,
    /// Its escrow was paid out.
    #[serde(default)]
    pub(crate) released: bool,
}

impl ReceiptRecord {
    /// What costs nothing, or goes from one hand into the other, says nothing. What is in escrow
    /// has cost something once it is paid out.
    pub(super) fn counts(&self) -> bool {
        let paid = self.receipt.escrow_id.is_none() || self.released;
        paid && !self.linked && !is_free(&self.receipt)
    }

    /// Whether the seller may put this receipt in its place: the one of a payment for a hire that
    /// it had called free. What was kept for the free one must be what this one names.
    fn gives_way(&self, to: &Receipt) -> bool {
        let Receipt { agent_id, buyer, hire_hash, params_hash, result_hash, .. } = &self.receipt;
        let same_hire =
            *agent_id == to.agent_id && *buyer == to.buyer && *hire_hash == to.hire_hash;
        let same_work = *params_hash == to.params_hash && *result_hash == to.result_hash;
        let kept_fits = self.payload_until.is_none() || same_work;
        is_free(&self.receipt) && !is_free(to) && same_hire && kept_fits
    }

    pub(super) fn judgement(&self) -> Judgement {
        standing(self.counter.as_ref(), self.platform.as_ref())
    }
}

pub(crate) fn receipt_key(receipt_id: &str) -> RecordKey {
    RecordKey::own("receipt", receipt_id)
}

/// The list of an agent's receipts, on either side.
pub(super) fn receipts_of(agent: &AgentId) -> String {
    format!("receipts:{agent}")
}

/// What the log says of a receipt.
#[derive(Debug, Serialize)]
pub(super) struct ReceiptEvent<'a> {
    receipt_id: &'a str,
    listing_id: ListingId,
    agent_id: AgentId,
    buyer: AgentId,
    capability: &'a str,
    amount_usdc_atomic: skep_base::Amount,
    tx_hash: &'a str,
    judgement: Judgement,
    dispute: bool,
    linked: bool,
}

impl ReceiptRecord {
    pub(super) fn event(&self) -> ReceiptEvent<'_> {
        ReceiptEvent {
            receipt_id: &self.receipt.hire_id,
            listing_id: self.listing,
            agent_id: self.receipt.agent_id,
            buyer: self.receipt.buyer,
            capability: &self.receipt.capability,
            amount_usdc_atomic: self.receipt.amount_usdc_atomic,
            tx_hash: &self.receipt.tx_hash,
            judgement: self.judgement(),
            dispute: self.dispute,
            linked: self.linked,
        }
    }
}

impl Market {
    /// Takes the seller's side of a receipt. `asker`: who has signed the request itself, if
    /// somebody has; the token is for the seller alone, and a receipt is in the buyer's hands too.
    pub async fn submit_receipt(
        &self,
        receipt: Receipt,
        asker: Option<AgentId>,
    ) -> Result<ReceiptAccepted, Failure> {
        let submission = self.submission(receipt)?;
        let (seller, receipt_id) = (submission.receipt.agent_id, submission.receipt_id());
        let (load, token) = (submission.load.clone(), submission.token.clone());
        let speaks = self.speaks_for_payment(&submission.receipt).await?;
        let (market, about) = (self.clone(), submission.about());
        self.run(load, vec![], move |turn| market.enter(turn, &submission, speaks, None)).await?;
        self.receipts.remember(receipt_id.clone(), about);
        let rating_token = given(token, asker == Some(seller));
        Ok(ReceiptAccepted { ok: true, receipt_id, rating_token })
    }

    /// Looks at all of a receipt that needs no database.
    pub(crate) fn submission(&self, receipt: Receipt) -> Result<Submission, Failure> {
        receipt.check_signature()?;
        check_words(&receipt)?;
        let mode = receipt.payment_mode.clone().unwrap_or_default();
        let derived = listing_id(&receipt.agent_id, &receipt.capability, &mode);
        let listing = receipt.listing_id.unwrap_or(derived);
        let mut load = self.load_receipt(&receipt, &listing);
        let token = self.rating_token(&receipt.hire_id, Side::Seller);
        load_token(&mut load, &token);
        Ok(Submission { receipt, listing, token, load })
    }

    /// Enters a receipt unless it is there already. `taken`: its payment, if this very turn takes
    /// it.
    pub(crate) fn enter(
        &self,
        turn: &mut Turn,
        submission: &Submission,
        speaks: bool,
        taken: Option<&PaymentRecord>,
    ) -> Result<(), Stop> {
        let Submission { receipt, listing, token, .. } = submission;
        let known: Option<ReceiptRecord> = turn.record(&receipt_key(&receipt.hire_id))?;
        match known {
            Some(known) if known.receipt == *receipt => return Ok(()),
            Some(known) if !known.gives_way(receipt) => {
                let receipt_id = receipt.hire_id.clone();
                return Err(ReceiptRefusal::DuplicateHireId { receipt_id }.into());
            }
            earlier => {
                let place = Place { listing: *listing, speaks, earlier, taken };
                self.enter_receipt(turn, receipt, place, &self.outside())?;
            }
        }
        Ok(enter_token(turn, token, &receipt.hire_id, Side::Seller)?)
    }

    fn load_receipt(&self, receipt: &Receipt, listing: &ListingId) -> Load {
        let mut load = Load {
            records: vec![
                (receipt_key(&receipt.hire_id), Lock::Exclusive),
                (listing_key(listing), Lock::Exclusive),
            ],
            ..Load::default()
        };
        load_told(&mut load, &[receipt.agent_id, receipt.buyer]);
        load_told(&mut load, receipt.payee.filter(|payee| *payee != receipt.agent_id).as_slice());
        if is_free(receipt) {
            load.names.push((NAME_FREE_CALL, free_call(listing, &receipt.buyer)));
        } else {
            load.records.push((payment_key(&receipt.tx_hash), Lock::None));
            load.names.push((NAME_PAYMENT, receipt.tx_hash.clone()));
        }
        if let Some(escrow) = &receipt.escrow_id {
            self.load_escrow(escrow, &mut load);
        }
        load
    }

    /// Whether a payment that names no seller may be the receipt's: it went to the seller's own
    /// address, or to one at which nobody else is paid. Anybody can list another one's address.
    async fn speaks_for_payment(&self, receipt: &Receipt) -> Result<bool, Failure> {
        if is_free(receipt) || receipt.hire_hash.is_some() {
            return Ok(true);
        }
        let payment: Option<PaymentRecord> = self.read(payment_key(&receipt.tx_hash)).await?;
        let Some(pay_to) = payment.map(|payment| payment.pay_to) else { return Ok(false) };
        if pay_to == receipt.agent_id {
            return Ok(true);
        }
        match self.agent_paid_at(pay_to).await {
            Ok(agent) => Ok(agent == receipt.agent_id),
            Err(Failure::Refused(_)) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    fn enter_receipt(
        &self,
        turn: &mut Turn,
        receipt: &Receipt,
        place: Place<'_>,
        outside: &impl Fn(Timestamp) -> Timestamp,
    ) -> Result<(), Stop> {
        let Place { listing, speaks, earlier, taken } = place;
        let sells = sold_by(turn, receipt, &listing)?;
        let payee = match &sells {
            Some(sells) => sells.listing.payee(),
            None => receipt.payee.unwrap_or(receipt.agent_id),
        };
        let payment = match is_free(receipt) {
            true => take_free_call(turn, receipt, sells.as_ref(), &listing).map(|()| None)?,
            false => Some(take_payment(turn, receipt, payee, speaks, taken)?),
        };
        let paid_at = payment.as_ref().map(|payment| outside(payment.at));
        check_fresh(receipt, outside(turn.now()), paid_at)?;
        check_own_id(receipt, payment.as_ref().map(|payment| &payment.nonce))?;
        if let Some(escrow) = &receipt.escrow_id {
            self.escrow_delivered(turn, escrow, receipt)?;
        }
        let payer = payment.as_ref().and_then(|payment| payment.payer_operator.as_ref());
        let record = ReceiptRecord {
            receipt: receipt.clone(),
            listing,
            linked: is_linked(turn, receipt, payee, payer)?,
            accepted_at: turn.now(),
            counter: None,
            dispute: false,
            payload_until: earlier.and_then(|earlier| earlier.payload_until),
            platform: None,
            released: false,
        };
        if record.counts() {
            let now = turn.now();
            count(turn, &record, |counts| counts.add_receipt(now))?;
        }
        let key = receipt_key(&receipt.hire_id);
        turn.put(&key, &record)?;
        // Who paid is told. Of a free call the seller alone says who it was for, and nobody's inbox
        // is filled on a stranger's word.
        let both = [receipt.agent_id, receipt.buyer];
        let sides = if is_free(receipt) { &both[..1] } else { &both };
        for side in sides {
            turn.enlist(&receipts_of(side), &receipt.hire_id);
        }
        announce(turn, &key.route, "receipt.accepted", &record.event(), sides)
    }

    pub(crate) async fn receipt_record(&self, id: &str) -> Result<ReceiptRecord, Failure> {
        check_hire_id(id)?;
        let known: Option<ReceiptRecord> = self.read(receipt_key(id)).await?;
        let receipt_id = id.to_owned();
        known.ok_or_else(|| ReceiptRefusal::UnknownReceipt { receipt_id }.into())
    }

    /// A receipt with what everybody found.
    pub async fn receipt(&self, id: &str) -> Result<StoredReceipt, Failure> {
        let record = self.receipt_record(id).await?;
        self.show_receipt(record).await
    }

    async fn show_receipt(&self, record: ReceiptRecord) -> Result<StoredReceipt, Failure> {
        let escrow = match &record.receipt.escrow_id {
            Some(escrow) => self.escrow_word(escrow).await?,
            None => None,
        };
        Ok(StoredReceipt {
            receipt_id: record.receipt.hire_id.clone(),
            judgement: record.judgement(),
            dispute: record.dispute,
            linked: record.linked,
            escrow,
            accepted_at: record.accepted_at,
            findings: Findings {
                seller: record.receipt.verification.clone(),
                buyer: record.counter,
                platform: record.platform,
            },
            receipt: record.receipt,
        })
    }

    /// The receipts of an agent on either side, newest first.
    pub async fn receipts_of(
        &self,
        agent: &AgentId,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<StoredReceipt>, Failure> {
        let before = cursor.map(parse_cursor).transpose()?;
        let mut listed = self.store.listed_latest(&receipts_of(agent), before, limit + 1).await?;
        let more = listed.len() > limit;
        listed.truncate(limit);
        let last = listed.last().filter(|_| more);
        let next_cursor = last.map(|last| format!("{}.{}", last.at.as_ms(), last.member));
        let keys: Vec<RecordKey> = listed.iter().map(|line| receipt_key(&line.member)).collect();
        let mut records = self.read_all(keys).await?;
        let mut items = Vec::with_capacity(listed.len());
        for _ in &listed {
            if let Some(record) = crate::read::next::<ReceiptRecord>(&mut records)? {
                items.push(self.show_receipt(record).await?);
            }
        }
        Ok(Page { items, next_cursor })
    }
}

/// A token leaves once; after that only for whom it is.
pub(super) fn given(token: String, theirs: bool) -> String {
    if theirs { token } else { String::new() }
}

/// What a new receipt is entered with.
struct Place<'a> {
    listing: ListingId,
    /// The seller may speak for a payment that names nobody.
    speaks: bool,
    /// What it takes the place of.
    earlier: Option<ReceiptRecord>,
    /// The payment that the same turn takes.
    taken: Option<&'a PaymentRecord>,
}

/// A receipt whose words and signature are good, with what entering it loads.
#[derive(Clone, Debug)]
pub(crate) struct Submission {
    receipt: Receipt,
    listing: ListingId,
    token: String,
    pub(crate) load: Load,
}

impl Submission {
    pub(crate) fn about(&self) -> About {
        About { listing: self.listing, sides: [self.receipt.agent_id, self.receipt.buyer] }
    }

    pub(crate) fn receipt_id(&self) -> String {
        self.receipt.hire_id.clone()
    }

    /// Whether it is for the hire that a payment names.
    pub(crate) fn is_for(&self, hire: &Hash32, tx_hash: &str) -> bool {
        self.receipt.hire_hash.as_ref() == Some(hire)
            && self.receipt.tx_hash == tx_hash
            && self.receipt.escrow_id.is_none()
    }
}

/// Changes what is counted of the listing, where there is one here.
pub(super) fn count(
    turn: &mut Turn,
    record: &ReceiptRecord,
    change: impl FnOnce(&mut Counts),
) -> Result<(), Stop> {
    let Some(sells) = turn.record::<ListingRecord>(&listing_key(&record.listing))? else {
        return Ok(());
    };
    let mut counted = sells.clone();
    change(&mut counted.counts);
    counted.put(turn, Some(&sells))
}

/// A hire's escrow was paid out: the hire counts from now on, with what its buyer has said of it.
pub(crate) fn paid_out(turn: &mut Turn, receipt_id: &str) -> Result<(), Stop> {
    let key = receipt_key(receipt_id);
    let known: Option<ReceiptRecord> = turn.record(&key)?;
    let Some(mut record) = known.filter(|known| !known.released) else { return Ok(()) };
    record.released = true;
    turn.put(&key, &record)?;
    if !record.counts() {
        return Ok(());
    }
    let now = turn.now();
    count(turn, &record, |counts| {
        counts.add_receipt(now);
        if let Some(word) = &record.counter {
            counts.add_word(word);
        }
        counts.rejudge(Judgement::NotVerifiedByBuyer, record.judgement());
    })
}

/// Loads what [`judged`] and [`paid_out`] touch.
pub(crate) fn load_judged(receipt: &ReceiptRecord) -> Vec<(RecordKey, Lock)> {
    let keys = [receipt_key(&receipt.receipt.hire_id), listing_key(&receipt.listing)];
    keys.map(|key| (key, Lock::Exclusive)).to_vec()
}

/// Writes down what the platform's own look at a result found, once. Says whether it did.
pub(crate) fn judged(
    turn: &mut Turn,
    receipt_id: &str,
    found: &Verification,
) -> Result<bool, Stop> {
    let key = receipt_key(receipt_id);
    let known: Option<ReceiptRecord> = turn.record(&key)?;
    let Some(mut record) = known.filter(|known| known.platform.is_none()) else {
        return Ok(false);
    };
    let before = record.judgement();
    record.platform = Some(found.clone());
    turn.put(&key, &record)?;
    // Money that went back buys no good word. Bad work that the platform has seen itself counts.
    if record.counts() {
        count(turn, &record, |counts| counts.rejudge(before, record.judgement()))?;
    } else if found.failed() && !record.linked {
        let nothing = Judgement::NotVerifiedByBuyer;
        count(turn, &record, |counts| counts.rejudge(nothing, Judgement::Failed))?;
    }
    Ok(true)
}

fn parse_cursor(text: &str) -> Result<(i64, String), Refusal> {
    let parsed = text.split_once('.').and_then(|(at, id)| {
        check_hire_id(id).ok()?;
        Some((at.parse().ok()?, id.to_owned()))
    });
    parsed.ok_or(Refusal::MalformedCursor)
}

/// The listing that was hired. Where this node keeps the escrow of a hire that another registry
/// listed, there is none: the escrow's terms are what the receipt is held against.
fn sold_by(
    turn: &Turn,
    receipt: &Receipt,
    listing: &ListingId,
) -> Result<Option<ListingRecord>, Stop> {
    let sells: Option<ListingRecord> = turn.record(&listing_key(listing))?;
    match &sells {
        Some(sells) => check_listing(receipt, &sells.listing)?,
        None if receipt.escrow_id.is_some() && is_custom(receipt) => {}
        None => {
            let (agent, capability) = (receipt.agent_id, receipt.capability.clone());
            return Err(ReceiptRefusal::UnknownListing { agent, capability }.into());
        }
    }
    Ok(sells)
}

fn is_custom(receipt: &Receipt) -> bool {
    matches!(receipt.payment_mode, Some(PaymentMode::CustomEscrow(_)))
}

fn free_call(listing: &ListingId, buyer: &AgentId) -> String {
    format!("{listing} {buyer}")
}

/// One free call of a listing for each buyer, if the listing has any.
fn take_free_call(
    turn: &mut Turn,
    receipt: &Receipt,
    sells: Option<&ListingRecord>,
    listing: &ListingId,
) -> Result<(), Stop> {
    if sells.is_none_or(|sells| sells.listing.first_call_free != Some(true)) {
        return Err(ReceiptRefusal::NoFreeCalls.into());
    }
    let name = free_call(listing, &receipt.buyer);
    if let Some(receipt_id) = turn.name_owner(NAME_FREE_CALL, &name)? {
        return Err(ReceiptRefusal::FreeCallUsed { receipt_id: receipt_id.to_owned() }.into());
    }
    turn.claim_name(NAME_FREE_CALL, &name, &receipt.hire_id);
    Ok(())
}

/// Compares the receipt with its payment, which has no other one, and gives that.
fn take_payment(
    turn: &mut Turn,
    receipt: &Receipt,
    payee: AgentId,
    speaks: bool,
    taken: Option<&PaymentRecord>,
) -> Result<PaymentRecord, Stop> {
    let tx_hash = receipt.tx_hash.clone();
    let payment = match taken {
        Some(taken) => Some(taken.clone()),
        None => turn.record(&payment_key(&tx_hash))?,
    };
    let payment = payment.ok_or(ReceiptRefusal::UnknownPayment { tx_hash: tx_hash.clone() })?;
    let paid = Paid {
        buyer: payment.buyer(),
        pay_to: payment.pay_to,
        amount: payment.amount,
        nonce: payment.nonce,
        hire_hash: payment.hire_hash,
        escrow_id: payment.escrow_id,
        seller: payment.seller,
    };
    check_payment(receipt, &paid, payee)?;
    if !speaks {
        let what = "it names no seller, and others are paid at this address too".to_owned();
        return Err(ReceiptRefusal::PaymentMismatch { what }.into());
    }
    if let Some(receipt_id) = turn.name_owner(NAME_PAYMENT, &tx_hash)? {
        return Err(ReceiptRefusal::PaymentUsed { receipt_id: receipt_id.to_owned() }.into());
    }
    turn.claim_name(NAME_PAYMENT, &tx_hash, &receipt.hire_id);
    Ok(payment)
}

/// Whose an agent is: all of its record that [`is_linked`] takes.
#[derive(Deserialize)]
struct Owned {
    agent: Operated,
}

#[derive(Deserialize)]
struct Operated {
    operator: Did,
}

/// Whether the buyer's operator also sells, or is paid. `payer`: the operator of the wallet, if
/// another one than the buyer's paid; the same is asked of it.
fn is_linked(
    turn: &Turn,
    receipt: &Receipt,
    payee: AgentId,
    payer: Option<&Did>,
) -> Result<bool, Stop> {
    let operator = |agent: &AgentId| -> Result<Option<Did>, Stop> {
        let known: Option<Owned> = turn.record(&agent_key(agent))?;
        Ok(known.map(|known| known.agent.operator))
    };
    let buyers = operator(&receipt.buyer)?;
    let spenders = [buyers.as_ref(), payer];
    if spenders == [None, None] {
        return Ok(false);
    }
    let spends = |other: Option<Did>| other.is_some() && spenders.contains(&other.as_ref());
    if spends(operator(&receipt.agent_id)?) {
        return Ok(true);
    }
    if payee == receipt.agent_id {
        return Ok(false);
    }
    match receipt.payee == Some(payee) {
        true => Ok(spends(operator(&payee)?)),
        // Whoever does not say who was paid has not had it looked up whose that is.
        false => Ok(true),
    }
}
