use std::time::Duration;

use proptest::{collection::vec, prelude::*, sample::select};
use skep_wire::settle::VerificationStatus;

use super::language::{INPUTS, at, begin, read};
use crate::{
    agreement,
    deal::{ATTEMPTS_MAX, Deal, Effect, Input, Method, Policy, step},
    escrow,
};

const SETUPS: [&str; 10] = [
    "http",
    "http window 3600",
    "http window 3600 review 7200",
    "http window 3600 free",
    "http word window 60",
    "requester word review 60",
    "requester window 3600",
    "human window 3600 review 7200",
    "human window 86400",
    "delta window 3600",
];

/// How time goes on between two inputs.
#[derive(Clone, Copy, Debug)]
enum Pause {
    Ms(u64),
    /// To when something is due, or a little before or after.
    Due(i64),
}

fn pauses() -> impl Strategy<Value = Pause> {
    let hours = [1_u64, 24, 72, 168].map(|h| h * 3_600_000);
    prop_oneof![
        4 => (0..60_000_u64).prop_map(Pause::Ms),
        1 => (60_000..1_000_000_u64).prop_map(Pause::Ms),
        1 => select(hours.to_vec()).prop_map(Pause::Ms),
        1 => (-1..=1_i64).prop_map(Pause::Due),
    ]
}

fn stories() -> impl Strategy<Value = (&'static str, Vec<(Pause, &'static str)>)> {
    // A delivery first most of the time, since little happens without one.
    let first = select(vec!["deliver", "deliver", "deliver word", "deliver alone", "tick"]);
    let likely = ["fail", "reject", "error", "error v2", "dispute provider", "object v1", "tick"];
    let splits = ["split provider 4000", "split requester 4000"];
    let words = prop_oneof![
        3 => select(INPUTS.to_vec()),
        2 => select(likely.to_vec()),
        1 => select(splits.to_vec()),
    ];
    let rest = vec((pauses(), words), 0..24);
    (select(SETUPS.to_vec()), first, rest).prop_map(|(setup, first, mut rest)| {
        rest.insert(0, (Pause::Ms(400_000), first));
        (setup, rest)
    })
}

/// What a deal has owed the world so far.
#[derive(Default)]
struct Owed {
    settlements: usize,
    deposits: usize,
    reviews_open: i32,
    /// A dispute never waits longer than when it was opened (decision 29a).
    dispute_ends: Option<skep_base::Timestamp>,
}

impl Owed {
    fn add(&mut self, deal: &Deal, effects: &[Effect]) -> Result<(), TestCaseError> {
        for effect in effects {
            match effect {
                Effect::Settle { released, deposit } => {
                    self.settlements += 1;
                    prop_assert!(*released <= deal.terms.price.amount);
                    prop_assert_eq!(deal.closed.map(|closed| closed.released), Some(*released));
                    // A deposit ends with its deal, whichever way that goes.
                    prop_assert_eq!(deposit.map(|(contest, _)| contest), deal.contest);
                }
                Effect::TakeDeposit(contest) => {
                    self.deposits += 1;
                    prop_assert_eq!(deal.contest, Some(*contest));
                }
                Effect::OpenReview => self.reviews_open += 1,
                Effect::CloseReview => self.reviews_open -= 1,
                Effect::Ask { attempt } => {
                    prop_assert_eq!(deal.last_attempt().map(|a| a.number), Some(*attempt));
                }
                Effect::Tell(_) => {}
            }
        }
        if deal.contest.is_some() && deal.closed.is_none() {
            prop_assert_eq!(
                *self.dispute_ends.get_or_insert(deal.due_at().unwrap()),
                deal.due_at().unwrap()
            );
        }
        prop_assert_eq!(self.reviews_open, i32::from(deal.is_in_review()));
        let contest = deal.contest.filter(|contest| !contest.deposit.is_zero());
        prop_assert_eq!(self.deposits, usize::from(contest.is_some()));
        Ok(())
    }
}

fn check(deal: &Deal) -> Result<(), TestCaseError> {
    let is_held = deal.escrow == escrow::State::Held;
    prop_assert_eq!(is_held, deal.closed.is_none());
    let in_endless_review = deal.is_in_review() && deal.due_at().is_none();
    prop_assert!(!is_held || deal.due_at().is_some() || in_endless_review);
    if in_endless_review {
        prop_assert_eq!(deal.terms.review_deadline_s, None);
    }
    let released = deal.closed.map(|closed| !closed.released.is_zero());
    prop_assert_eq!(released == Some(true), deal.escrow == escrow::State::Released);
    match deal.agreement {
        agreement::State::Active | agreement::State::Disputed { open: true } => {
            prop_assert!(is_held);
        }
        agreement::State::Completed => prop_assert!(!is_held),
        agreement::State::Disputed { open: false } | agreement::State::Cancelled => {
            prop_assert!(matches!(deal.escrow, escrow::State::Refunded(_)));
        }
    }
    if let Some(closed) = deal.closed {
        let said = closed.attempt.and_then(|number| deal.attempt(number));
        let bundle = said.and_then(|attempt| attempt.proof.as_ref()).map(|proof| proof.bundle);
        let proof = match closed.method {
            Method::Proof => Some(true),
            Method::BundleLess => Some(false),
            Method::SelfAttested | Method::Agreed | Method::None => None,
        };
        prop_assert_eq!(bundle, proof);
        prop_assert!(said.is_none_or(|attempt| matches!(
            attempt.status,
            VerificationStatus::Verified
                | VerificationStatus::Failed
                | VerificationStatus::Rejected
        )));
    }
    prop_assert!(deal.attempts.len() <= ATTEMPTS_MAX);
    for (index, attempt) in deal.attempts.iter().enumerate() {
        prop_assert_eq!(usize::from(attempt.number), index + 1);
        let is_open =
            matches!(attempt.status, VerificationStatus::Pending | VerificationStatus::Running);
        let is_last = index + 1 == deal.attempts.len();
        prop_assert!(!is_open || (is_held && is_last), "#{} is open", attempt.number);
    }
    Ok(())
}

/// Waits for whatever happens by itself; gives what is left when nothing does.
fn wait(mut deal: Deal, policy: &Policy, owed: &mut Owed) -> Result<Deal, TestCaseError> {
    // A time-out, a review; a window; never more than that.
    for _ in 0..4 {
        let Some(due) = deal.due_at() else { break };
        let early = skep_base::Timestamp::from_ms(due.as_ms() - 1);
        prop_assert_eq!(step(&deal, early, policy, Input::Tick), Ok((deal.clone(), vec![])));
        let ticked = step(&deal, due, policy, Input::Tick);
        let (next, effects) = ticked.map_err(|e| TestCaseError::fail(format!("tick: {e}")))?;
        prop_assert!(next != deal, "nothing happened when something was due");
        prop_assert!(next.due_at().is_none_or(|later| later > due));
        owed.add(&next, &effects)?;
        check(&next)?;
        deal = next;
    }
    prop_assert_eq!(deal.due_at(), None);
    Ok(deal)
}

proptest! {
    #[test]
    fn whatever_happens_a_deal_settles_once_and_never_gets_stuck(
        (setup, story) in stories()
    ) {
        let (mut deal, policy) = begin(setup);
        let (mut now, mut owed) = (at(0), Owed::default());
        check(&deal)?;
        for (pause, words) in story {
            now = match pause {
                Pause::Ms(ms) => now.plus(Duration::from_millis(ms)),
                Pause::Due(ms) => {
                    let due = deal.due_at().map(|due| due.as_ms() + ms);
                    now.max(due.map_or(now, skep_base::Timestamp::from_ms))
                }
            };
            let was_held = deal.escrow == escrow::State::Held;
            let input = read(&deal, words);
            let is_tick = input == Input::Tick;
            match step(&deal, now, &policy, input) {
                Ok((next, effects)) => {
                    prop_assert!(was_held || (is_tick && next == deal && effects.is_empty()));
                    owed.add(&next, &effects)?;
                    check(&next)?;
                    deal = next;
                }
                Err(refusal) => prop_assert!(!is_tick, "tick: {}", refusal),
            }
            let is_held = deal.escrow == escrow::State::Held;
            prop_assert_eq!(owed.settlements, usize::from(!is_held));
        }
        let end = wait(deal, &policy, &mut owed)?;
        prop_assert!(owed.settlements <= 1);
        prop_assert_eq!(owed.settlements == 1, !end.is_in_review());
        let stored = serde_json::to_string(&end).unwrap();
        prop_assert_eq!(serde_json::from_str::<Deal>(&stored).unwrap(), end);
    }
}
