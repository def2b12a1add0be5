//! The buyer's side of a receipt.

use skep_base::{AgentId, id::ListingId};
use skep_hire::receipt::{ReceiptRefusal, check_counter, is_disputed};
use skep_store::{Load, Lock, StoreError};
use skep_wire::hire::{CounterSignature, CounterSigned, WalletSigned};

use super::{
    HireRefusal, announce, listing_key, load_told,
    receipt::{ReceiptRecord, count, given, receipt_key, receipts_of},
    token::{Side, enter_token, load_token},
};
use crate::{Failure, Market, recent::Recent};

/// What a receipt is about: whoever counter-signs it a moment later need not look that up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct About {
    pub(super) listing: ListingId,
    pub(super) sides: [AgentId; 2],
}

impl About {
    fn of(record: &ReceiptRecord) -> About {
        let sides = [record.receipt.agent_id, record.receipt.buyer];
        About { listing: record.listing, sides }
    }
}

/// Receipts that were entered a moment ago. It is only a hint: how things stand is seen in a turn.
#[derive(Debug, Default)]
pub(crate) struct Receipts(Recent<String, About>);

impl Receipts {
    pub(crate) fn remember(&self, receipt_id: String, about: About) {
        self.0.insert(receipt_id, about);
    }
}

impl Market {
    /// Takes the buyer's side. `asker` as above.
    pub async fn countersign(
        &self,
        word: CounterSignature,
        asker: Option<AgentId>,
    ) -> Result<CounterSigned, Failure> {
        word.check_signature()?;
        check_counter(&word)?;
        let (receipt_id, buyer) = (word.hire_id.clone(), word.buyer);
        let token = self.rating_token(&receipt_id, Side::Buyer);
        let remembered = self.receipts.0.get(&receipt_id);
        let signed = match remembered {
            Some(about) => self.countersign_about(about, word.clone(), &token).await?,
            None => None,
        };
        let (is_new, dispute) = match signed {
            Some(signed) => signed,
            None => {
                let about = About::of(&self.receipt_record(&receipt_id).await?);
                let moved = || Failure::Store(StoreError::Unavailable("it moved".to_owned()));
                self.countersign_about(about, word, &token).await?.ok_or_else(moved)?
            }
        };
        let rating_token = given(token, is_new || asker == Some(buyer));
        Ok(CounterSigned { ok: true, receipt_id, dispute, rating_token })
    }

    /// Says whether it is new and whether it disputes; nothing if the receipt is about something
    /// else by now.
    async fn countersign_about(
        &self,
        about: About,
        word: CounterSignature,
        token: &str,
    ) -> Result<Option<(bool, bool)>, Failure> {
        let key = receipt_key(&word.hire_id);
        let records =
            vec![(key.clone(), Lock::Exclusive), (listing_key(&about.listing), Lock::Exclusive)];
        let mut load = Load { records, ..Load::default() };
        load_told(&mut load, &about.sides);
        load_token(&mut load, token);
        let token = token.to_owned();
        let signed = self.run(load, vec![], move |turn| {
            let known: Option<ReceiptRecord> = turn.record(&key)?;
            let receipt_id = || word.hire_id.clone();
            let mut record =
                known.ok_or_else(|| ReceiptRefusal::UnknownReceipt { receipt_id: receipt_id() })?;
            if About::of(&record) != about {
                return Ok(None);
            }
            check_buyers_word(&record, &word)?;
            match &record.counter {
                Some(earlier) if *earlier == word => return Ok(Some((false, record.dispute))),
                Some(_) => return Err(ReceiptRefusal::AlreadyCounterSigned.into()),
                None => {}
            }
            let before = record.judgement();
            record.dispute = is_disputed(&word);
            record.counter = Some(word.clone());
            turn.put(&key, &record)?;
            if record.counts() {
                count(turn, &record, |counts| {
                    counts.add_word(&word);
                    counts.rejudge(before, record.judgement());
                })?;
            }
            turn.enlist(&receipts_of(&word.buyer), &word.hire_id);
            enter_token(turn, &token, &word.hire_id, Side::Buyer)?;
            announce(turn, &key.route, "receipt.countersigned", &record.event(), &about.sides)?;
            Ok(Some((true, record.dispute)))
        });
        Ok(signed.await?.value)
    }
}

fn check_buyers_word(record: &ReceiptRecord, word: &CounterSignature) -> Result<(), HireRefusal> {
    let buyer = record.receipt.buyer;
    if word.buyer != buyer {
        return Err(ReceiptRefusal::NotTheBuyer { buyer }.into());
    }
    match record.receipt.hash() {
        Ok(hash) if hash == word.receipt_hash => Ok(()),
        _ => Err(ReceiptRefusal::WrongReceiptHash.into()),
    }
}
