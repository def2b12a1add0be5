//! How the money leaves an escrow: by a signed order, or by time.

use serde::Deserialize;
use skep_base::{Amount, Asset, hash::json_sha256, id::DealId};
use skep_settle::escrow::{Input, State, step};
use skep_store::{AccountId, Bug, Job, Load, Lock, Order, RouteKey, Turn};
use skep_wire::{
    hire::{EscrowOrder, EscrowVerb, HireEscrow, WalletSigned},
    identity::Statement,
    settle::{EscrowSettlement, RefundReason, SettlementReceipt, VCAP_VERSION},
};

use super::{
    Ending, EscrowRefusal, HOLD, HireEscrowRecord, account, announce, escrow_key, loaded, set_timer,
};
use crate::{
    Failure, Market,
    answer::Stop,
    deal::settlement_record_key,
    hire::{ReceiptRecord, load_judged, paid_out, receipt_key},
    identity::agent_key,
    pay::{judge, sides::Sides},
    score::escrow_fact,
};

#[derive(Debug, Deserialize)]
struct EscrowJob {
    escrow: DealId,
}

impl Ending {
    fn input(self) -> Input {
        match self {
            Ending::Released => Input::Release,
            Ending::Buyer => Input::Refund(RefundReason::Rejected),
            Ending::Seller => Input::Refund(RefundReason::CancelledByProvider),
            Ending::NotDelivered => Input::Refund(RefundReason::DeadlineMissed),
            Ending::WindowPassed => Input::Refund(RefundReason::ReviewDeadline),
        }
    }

    /// Whose word it was, in the settlement's words.
    fn method(self) -> &'static str {
        match self {
            Ending::Released | Ending::Buyer => "self_attested",
            Ending::Seller => "agreed",
            Ending::NotDelivered | Ending::WindowPassed => "none",
        }
    }
}

/// All that the end of an escrow reads and writes.
fn load_end(record: &HireEscrowRecord) -> Load {
    let id = record.id;
    let mut records =
        vec![(escrow_key(&id), Lock::Exclusive), (settlement_record_key(&id), Lock::Exclusive)];
    records.extend(record.sides().iter().map(|side| (agent_key(side), Lock::None)));
    let wallets = [record.payer(), record.terms.payee];
    let mut accounts = vec![account(&id)];
    accounts.extend(wallets.iter().map(|agent| AccountId::wallet(agent, Asset::USDC)));
    let transfers = vec![(RouteKey::of(id), id.transfer(HOLD))];
    Load { records, accounts, transfers, ..Load::default() }
}

impl Market {
    /// The buyer releases or refunds, or the seller gives the money back. The same order again is
    /// fine. `verb`: what the order was sent for.
    pub async fn escrow_order(
        &self,
        id: DealId,
        verb: EscrowVerb,
        order: EscrowOrder,
    ) -> Result<HireEscrow, Failure> {
        if order.escrow_id != id || order.verb != verb {
            return Err(EscrowRefusal::OtherOrder.into());
        }
        let signed = order.check_signature();
        signed.map_err(|e| EscrowRefusal::Signature { what: e.to_string() })?;
        let kept = order.clone();
        self.end_escrow(id, Some(kept), move |record, _| ordered(record, &order)).await
    }

    /// Anybody may ask for it once the time is over.
    pub async fn escrow_timeout(&self, id: DealId) -> Result<HireEscrow, Failure> {
        self.end_escrow(id, None, |record, now| match record.state {
            State::Held if now < record.due_at => {
                Err(EscrowRefusal::TooEarly { refund_at: record.due_at })
            }
            State::Held => Ok(Some(timed_out(record))),
            State::Refunded(_) => Ok(None),
            State::Released => Err(EscrowRefusal::Over),
        })
        .await
    }

    /// Performs an escrow's timer.
    pub(crate) async fn finish_escrow(&self, job: Job) -> Result<(), Failure> {
        let Ok(EscrowJob { escrow }) = serde_json::from_str(&job.body) else {
            self.store.fail_job(job, "the job names no escrow".to_owned(), None).await?;
            return Ok(());
        };
        let (record, now) = (self.escrow_record(&escrow).await?, self.store.now().await?);
        if record.is_held() && now < record.due_at {
            let due = record.due_at;
            self.store.fail_job(job, format!("not before {due}"), Some(due)).await?;
            return Ok(());
        }
        // Whoever was faster has settled it; a delivery in between has set another timer.
        self.end_escrow(escrow, None, |record, now| {
            let due = record.is_held() && now >= record.due_at;
            Ok(due.then(|| timed_out(record)))
        })
        .await?;
        self.store.finish_job(job).await?;
        Ok(())
    }

    /// Ends an escrow as `decide` says; `None` leaves it as it is. `order`: whose word it is.
    async fn end_escrow(
        &self,
        id: DealId,
        order: Option<EscrowOrder>,
        decide: impl Fn(
            &HireEscrowRecord,
            skep_base::Timestamp,
        ) -> Result<Option<Ending>, EscrowRefusal>
        + Send
        + 'static,
    ) -> Result<HireEscrow, Failure> {
        let known = self.escrow_record(&id).await?;
        let now = self.store.now().await?;
        // What changes nothing locks nothing. Who is party to it never changes.
        if !known.is_held() && decide(&known, now)?.is_none() {
            return self.hire_escrow(id).await;
        }
        let mut load = load_end(&known);
        let sides = self.sides_of(&known).await?;
        sides.load(&mut load);
        let mut counted = None;
        if let Some(delivered) = &known.delivered {
            let receipt: Option<ReceiptRecord> =
                self.read(receipt_key(&delivered.receipt_id)).await?;
            load.records.extend(receipt.iter().flat_map(load_judged));
            counted = receipt.map(|receipt| receipt.receipt.hire_id);
        }
        let was_delivered = known.delivered.is_some();
        let market = self.clone();
        let ended = self.run(load, vec![], move |turn| {
            let mut record = loaded(turn, &id)?;
            let Some(ending) = decide(&record, turn.now())? else {
                let settlement = turn.record(&settlement_record_key(&id))?;
                return Ok(record.view(settlement));
            };
            if ending == Ending::Released {
                // What came in since we looked was not there when the order was given.
                if !was_delivered {
                    return Err(EscrowRefusal::NotDelivered.into());
                }
                counted.iter().try_for_each(|receipt_id| paid_out(turn, receipt_id))?;
            }
            record.order.clone_from(&order);
            let receipt = market.close_escrow(turn, &mut record, ending, &sides)?;
            Ok(record.view(Some(receipt)))
        });
        Ok(ended.await?.value)
    }

    fn close_escrow(
        &self,
        turn: &mut Turn,
        record: &mut HireEscrowRecord,
        ending: Ending,
        sides: &Sides,
    ) -> Result<SettlementReceipt, Stop> {
        let stepped = step(record.state, ending.input());
        record.state = stepped.map_err(|_| EscrowRefusal::Over)?;
        record.ending = Some(ending);
        move_money(turn, record)?;
        set_timer(turn, record)?;
        // The buyer does not pay for what was delivered: was it any good?
        if matches!(ending, Ending::Buyer | Ending::WindowPassed) && record.delivered.is_some() {
            judge::ask(turn, record.id)?;
        }
        let settlement = settlement(turn, record, ending)?;
        let signature = settlement.sign(&self.settlement_key).map_err(|e| Bug(e.to_string()))?;
        let receipt =
            SettlementReceipt { settlement, key: self.settlement_key.public(), signature };
        turn.put(&settlement_record_key(&record.id), &receipt)?;
        turn.put(&escrow_key(&record.id), record)?;
        let kind = match ending {
            Ending::Released => "escrow.released",
            _ => "escrow.refunded",
        };
        let fact = match ending {
            Ending::Released => escrow_fact(record.id, &record.terms, turn.now()),
            _ => None,
        };
        let line = sides.count(self, turn, fact)?;
        announce(turn, record, kind, line)?;
        Ok(receipt)
    }
}

/// What an order does to an escrow that is as it is.
fn ordered(
    record: &HireEscrowRecord,
    order: &EscrowOrder,
) -> Result<Option<Ending>, EscrowRefusal> {
    let EscrowOrder { verb, by, result_hash, .. } = order;
    let terms = &record.terms;
    let ending = match verb {
        EscrowVerb::Release if *by == terms.buyer => Ending::Released,
        EscrowVerb::Refund if *by == terms.buyer => Ending::Buyer,
        EscrowVerb::Refund if *by == terms.seller => Ending::Seller,
        _ => return Err(EscrowRefusal::NotYours),
    };
    match (record.state, verb) {
        (State::Held, _) => {}
        (State::Released, EscrowVerb::Release) | (State::Refunded(_), EscrowVerb::Refund) => {
            return Ok(None);
        }
        _ => return Err(EscrowRefusal::Over),
    }
    let delivered = record.delivered.as_ref().map(|delivered| delivered.result_hash);
    match (ending, delivered) {
        // The seller may give the money back whenever it is there.
        (Ending::Seller, _) => Ok(Some(ending)),
        (_, None) => Err(EscrowRefusal::NotDelivered),
        // Money is released for a result that the buyer names.
        (Ending::Released, delivered) if *result_hash != delivered => {
            Err(EscrowRefusal::WrongResult)
        }
        (_, delivered) if result_hash.is_some() && *result_hash != delivered => {
            Err(EscrowRefusal::WrongResult)
        }
        _ => Ok(Some(ending)),
    }
}

fn timed_out(record: &HireEscrowRecord) -> Ending {
    match record.delivered {
        Some(_) => Ending::WindowPassed,
        None => Ending::NotDelivered,
    }
}

fn move_money(turn: &mut Turn, record: &HireEscrowRecord) -> Result<(), Stop> {
    let (id, hold) = (record.id, record.id.transfer(HOLD));
    if record.state != State::Released {
        turn.book.void(hold, id.transfer("refund"))?;
        return Ok(());
    }
    turn.book.post(hold, id.transfer("paid_in"), None)?;
    turn.book.transfer(Order {
        id: id.transfer("release"),
        route: RouteKey::of(id),
        debit: account(&id),
        credit: AccountId::wallet(&record.terms.payee, Asset::USDC),
        amount: record.terms.amount,
        budget: None,
    })?;
    let left = turn.book.account(&account(&id)).map_or(Amount::ZERO, |account| account.posted);
    match left.is_zero() {
        true => Ok(()),
        false => Err(Bug(format!("{left} minor units are left in {}", account(&id))).into()),
    }
}

fn settlement(
    turn: &Turn,
    record: &HireEscrowRecord,
    ending: Ending,
) -> Result<EscrowSettlement, Bug> {
    let terms = &record.terms;
    let (released, refunded) = match ending {
        Ending::Released => (terms.amount, Amount::ZERO),
        _ => (Amount::ZERO, terms.amount),
    };
    Ok(EscrowSettlement {
        vcap_version: VCAP_VERSION.to_owned(),
        message_type: "escrow_settlement".to_owned(),
        escrow_id: record.id,
        negotiation_id: record.id,
        status: record.state.status(),
        reason: match record.state {
            State::Refunded(reason) => Some(reason),
            _ => None,
        },
        verification_id: None,
        proof_hash: None,
        proof_signature: None,
        evidence: None,
        platform_fee: None,
        settled_at: turn.now(),
        requester: terms.buyer,
        provider: terms.seller,
        currency: Asset::USDC,
        released_minor: released,
        refunded_minor: refunded,
        verifier_paid_minor: Amount::ZERO,
        method: ending.method().to_owned(),
        terms_hash: json_sha256(terms).map_err(|e| Bug(e.to_string()))?,
    })
}
