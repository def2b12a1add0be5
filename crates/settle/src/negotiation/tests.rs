use std::fmt::Write;

use expect_test::expect_file;

use super::*;

const EXPIRES_MS: i64 = 1_000;
/// A counter's own limit.
const NEXT_MS: i64 = 9_000;
const ROLES: [Role; 2] = [Role::Requester, Role::Provider];

struct Row {
    from: Talks,
    now: Timestamp,
    input: Input,
    to: Result<Talks, Refusal>,
}

fn at(ms: i64) -> Timestamp {
    Timestamp::from_ms(ms)
}

/// Every state × rounds × answer by each side × before, at and after the limit.
fn rows() -> Vec<Row> {
    use {Decline::*, Role::*, State::*};
    let states = [
        (Pending, Provider),
        (Countered, Requester),
        (Countered, Provider),
        (Accepted, Provider),
        (Declined(Rejected), Provider),
        (Declined(Withdrawn), Provider),
        (Declined(Expired), Provider),
    ];
    let inputs = ROLES.map(|by| {
        let counter = Input::Counter { by, expires_at: at(NEXT_MS) };
        [Input::Accept { by }, Input::Reject { by }, counter]
    });
    let mut rows = Vec::new();
    for (state, turn) in states {
        for rounds in [1, ROUNDS_MAX - 1, ROUNDS_MAX] {
            for input in inputs.into_iter().flatten() {
                for ms in [-1, 0, 1] {
                    let now = at(EXPIRES_MS + ms);
                    let from = Talks { state, turn, rounds, expires_at: at(EXPIRES_MS) };
                    rows.push(Row { from, now, input, to: step(from, now, input) });
                }
            }
        }
    }
    rows
}

fn show(talks: &Talks) -> String {
    let expires_ms = talks.expires_at.as_ms();
    match talks.state {
        State::Pending | State::Countered => {
            format!("{:?}→{:?} {} <{expires_ms}", talks.state, talks.turn, talks.rounds)
        }
        State::Accepted | State::Declined(_) => format!("{:?} {}", talks.state, talks.rounds),
    }
}

fn show_input(input: Input) -> String {
    match input {
        Input::Accept { by } => format!("{by:?} accepts"),
        Input::Reject { by } => format!("{by:?} rejects"),
        Input::Counter { by, .. } => format!("{by:?} counters"),
    }
}

/// `Countered→Requester 9 <1000`: the ninth offer, which the requester answers before 1000 ms.
#[test]
fn the_whole_table() {
    let mut table = String::new();
    for Row { from, now, input, to } in rows() {
        let to = match to {
            Ok(talks) => show(&talks),
            Err(Refusal::Expired { expired_at }) => format!("Expired({})", expired_at.as_ms()),
            Err(refusal) => format!("{refusal:?}"),
        };
        let (from, input) = (show(&from), show_input(input));
        writeln!(table, "{from} | {input} @{} => {to}", now.as_ms()).unwrap();
    }
    expect_file!["table.txt"].assert_eq(&table);
}

#[test]
fn every_row_of_4_1_is_a_step_and_every_step_is_one_of_them_or_ours() {
    use {NegotiationStatus::*, Role::*};
    let counter = |by| Input::Counter { by, expires_at: at(NEXT_MS) };
    let spec = [
        (Pending, Accepted, Input::Accept { by: Provider }),
        (Pending, Countered, counter(Provider)),
        (Pending, Declined, Input::Reject { by: Provider }),
        (Countered, Accepted, Input::Accept { by: Requester }),
        (Countered, Declined, Input::Reject { by: Requester }),
        (Countered, Countered, counter(Requester)),
    ];
    // Decision 23: after a counter-counter the provider answers, and an offer can be taken back.
    let ours = [
        (Pending, Declined, Input::Reject { by: Requester }),
        (Countered, Accepted, Input::Accept { by: Provider }),
        (Countered, Declined, Input::Reject { by: Provider }),
        (Countered, Countered, counter(Provider)),
    ];
    let steps: Vec<_> = rows()
        .iter()
        .filter_map(|row| {
            let status = |talks: &Talks| talks.status_at(at(0));
            Some((status(&row.from), status(row.to.as_ref().ok()?), row.input))
        })
        .collect();
    for row in spec.iter().chain(&ours) {
        assert!(steps.contains(row), "{row:?} is missing");
    }
    for step in &steps {
        assert!(spec.contains(step) || ours.contains(step), "{step:?} is nobody's");
    }
}

#[test]
fn what_is_over_or_expired_stays_so() {
    for Row { from, now, to, .. } in rows() {
        match from.state {
            State::Accepted | State::Declined(_) => assert_eq!(to, Err(Refusal::Closed)),
            _ if now >= from.expires_at => assert!(matches!(to, Err(Refusal::Expired { .. }))),
            State::Pending | State::Countered => {}
        }
    }
    let talks = Talks::open(at(EXPIRES_MS));
    assert_eq!(talks.state_at(at(EXPIRES_MS - 1)), State::Pending);
    assert_eq!(talks.state_at(at(EXPIRES_MS)), State::Declined(Decline::Expired));
    let accepted = Talks { state: State::Accepted, ..talks };
    assert_eq!(accepted.status_at(at(EXPIRES_MS)), NegotiationStatus::Accepted);
}

#[test]
fn turns_alternate_until_the_tenth_offer_which_only_yes_or_no_answers() {
    let mut talks = Talks::open(at(EXPIRES_MS));
    let (mut by, mut offers) = (Role::Provider, 1);
    while let Ok(next) = step(talks, at(0), Input::Counter { by, expires_at: at(EXPIRES_MS) }) {
        let again = step(next, at(0), Input::Counter { by, expires_at: at(EXPIRES_MS) });
        assert_eq!(again, Err(Refusal::NotYourTurn));
        (talks, by, offers) = (next, by.other(), offers + 1);
    }
    assert_eq!((offers, by), (10, Role::Requester));
    let refused = step(talks, at(0), Input::Counter { by, expires_at: at(EXPIRES_MS) });
    assert_eq!(refused, Err(Refusal::TooManyRounds));
    assert_eq!(step(talks, at(0), Input::Accept { by }).unwrap().state, State::Accepted);
}
