//! What comes next in a deal, in one sentence that names the command.

use skep_base::{Money, Timestamp, id::DealId};
use skep_wire::settle::{
    Agreement, EscrowStatus, Negotiation, NegotiationStatus, PaymentStatus, RefundReason, Role,
    Verification, VerificationStatus, engine,
};

use super::{Standing, You};

/// The furthest time that the node tells where there is none.
const NEVER: Timestamp = Timestamp::from_ms(i32::MAX as i64 * 1000);

pub fn sentence(standing: &Standing) -> String {
    let Standing { you, negotiation_id: id, .. } = standing;
    match (&standing.agreement, &standing.negotiation) {
        (None, Some(talks)) => of_talks(*you, *id, talks),
        (None, None) => "Nothing is known of it.".to_owned(),
        (Some(agreement), _) if agreement.escrow_status != EscrowStatus::Held => {
            of_settled(*you, agreement, standing)
        }
        (Some(agreement), _) => {
            let main = match standing.verifications.last() {
                None => before_delivery(*you, *id, agreement),
                Some(last) => after_delivery(*you, *id, agreement, last),
            };
            match split_offer(*you, *id, agreement) {
                Some(offer) => format!("{main} {offer}"),
                None => main,
            }
        }
    }
}

fn is(you: You, role: Role) -> bool {
    match role {
        Role::Requester => you == You::Requester,
        Role::Provider => you == You::Provider,
    }
}

fn name(role: Role) -> &'static str {
    match role {
        Role::Requester => "requester",
        Role::Provider => "provider",
    }
}

fn of_talks(you: You, id: DealId, talks: &Negotiation) -> String {
    let until = talks.expires_at;
    match (talks.status, talks.turn) {
        (NegotiationStatus::Declined, _) => match talks.reason.as_deref() {
            Some("expired") => format!("The offer expired at {until}; no money moved."),
            Some(reason) => format!("The offer was {reason}; no money moved."),
            None => "The offer was declined; no money moved.".to_owned(),
        },
        (NegotiationStatus::Accepted, _) => "The offer is accepted.".to_owned(),
        (_, Some(turn)) if is(you, turn) => format!(
            "You answer until {until}: skep deal accept {id}, or skep deal respond {id} \
             counter|reject."
        ),
        (_, Some(turn)) => format!(
            "The {} answers until {until}; to withdraw the offer: skep deal cancel {id}.",
            name(turn)
        ),
        (_, None) => "An answer is awaited.".to_owned(),
    }
}

fn before_delivery(you: You, id: DealId, agreement: &Agreement) -> String {
    let due = agreement.deadline;
    match you {
        You::Provider if agreement.cancel_asked => format!(
            "The requester asks to cancel: skep deal cancel {id} agrees, or deliver until {due}."
        ),
        You::Provider => {
            format!("You deliver until {due}: skep deal deliver {id} --artifact FILE.")
        }
        You::Requester if agreement.cancel_asked => {
            format!("You have asked to cancel; the provider agrees, or delivers until {due}.")
        }
        _ => format!("The provider delivers until {due}; an hour after that the money goes back."),
    }
}

fn after_delivery(you: You, id: DealId, agreement: &Agreement, last: &Verification) -> String {
    let open = matches!(last.status, VerificationStatus::Pending | VerificationStatus::Running);
    let window = agreement.window_until;
    match (last.kind.as_str(), window) {
        (engine::SELF_ATTESTED, Some(until)) if open => {
            let tail = match you {
                You::Requester => format!(": skep deal object {id} --reason TEXT"),
                _ => String::new(),
            };
            format!("Released at {until} unless the requester objects{tail}.")
        }
        (_, Some(until)) => format!(
            "Refunded at {until} unless one side disputes the verdict: skep deal dispute {id} \
             --reason TEXT."
        ),
        (engine::HUMAN, _) if open => {
            let otherwise = match agreement.dispute_open {
                true => "then the disputed verdict stands",
                false => "then the requester is refunded",
            };
            match last.deadline {
                NEVER => "A reviewer of the marketplace decides; there is no deadline.".to_owned(),
                deadline => {
                    format!("A reviewer of the marketplace decides until {deadline}; {otherwise}.")
                }
            }
        }
        (engine::REQUESTER, _) if open && you == You::Requester => format!(
            "You judge until {}: skep deal approve {id}, or skep deal reject {id} --reason TEXT.",
            last.deadline
        ),
        (engine::REQUESTER, _) if open => {
            format!("The requester judges until {}; then a reviewer does.", last.deadline)
        }
        _ if open => {
            let who = last.verifier.map(|verifier| format!(" {verifier}")).unwrap_or_default();
            format!("The verifier{who} answers until {}; then a reviewer does.", last.deadline)
        }
        _ => "The verdict is there; the money follows.".to_owned(),
    }
}

fn split_offer(you: You, id: DealId, agreement: &Agreement) -> Option<String> {
    let offer = agreement.split_offer?;
    let part = Money { amount: offer.released_minor, asset: agreement.price.asset };
    Some(match is(you, offer.by) {
        true => format!("You have offered to release {part}; the same word of the other settles."),
        false => format!(
            "The {} offers to release {part}: skep deal split {id} --release '{part}' agrees.",
            name(offer.by)
        ),
    })
}

fn of_settled(you: You, agreement: &Agreement, standing: &Standing) -> String {
    let settled = standing.settlement.as_ref().map(|receipt| &receipt.settlement);
    let money = |amount| Money { amount, asset: agreement.price.asset };
    let main = match (agreement.escrow_status, settled) {
        (EscrowStatus::Released, Some(settled)) if !settled.refunded_minor.is_zero() => format!(
            "{} went to the provider and {} back to the requester.",
            money(settled.released_minor),
            money(settled.refunded_minor)
        ),
        (EscrowStatus::Released, _) => format!("{} went to the provider.", agreement.price),
        _ => {
            let why = agreement.reason.map(why).unwrap_or_default();
            format!("{} went back to the requester{why}.", agreement.price)
        }
    };
    let owes = match (agreement.payment_status, you) {
        (PaymentStatus::Clear, _) => return format!("Over: {main}"),
        (PaymentStatus::PaymentDue, _) => "still owed",
        (PaymentStatus::Defaulted, _) => "owed for more than seven days",
    };
    format!("Settled: {main} Something is {owes}: money that comes in pays it first.")
}

fn why(reason: RefundReason) -> &'static str {
    match reason {
        RefundReason::VerificationFailed => ": the work did not meet the criteria",
        RefundReason::Rejected => ": the work was rejected",
        RefundReason::DeliveryFailed => ": the provider gave up",
        RefundReason::DeadlineMissed => ": nothing was delivered in time",
        RefundReason::CancelledByProvider => ": the provider cancelled",
        RefundReason::CancelledByRequester => ": the requester cancelled",
        RefundReason::Agreed => ": both agreed to that",
        RefundReason::ReviewDeadline => ": no reviewer decided in time",
    }
}
