use std::fmt::Write;

use expect_test::expect_file;

use super::*;

const REASONS: [RefundReason; 8] = [
    RefundReason::VerificationFailed,
    RefundReason::Rejected,
    RefundReason::DeliveryFailed,
    RefundReason::DeadlineMissed,
    RefundReason::CancelledByProvider,
    RefundReason::CancelledByRequester,
    RefundReason::Agreed,
    RefundReason::ReviewDeadline,
];

type Row = (State, Input, Result<State, AlreadySettled>);

fn rows() -> Vec<Row> {
    let states = [State::Held, State::Released].into_iter().chain(REASONS.map(State::Refunded));
    let inputs: Vec<_> = [Input::Release].into_iter().chain(REASONS.map(Input::Refund)).collect();
    let rows = states.flat_map(|state| inputs.iter().map(move |input| (state, *input)));
    rows.map(|(state, input)| (state, input, step(state, input))).collect()
}

#[test]
fn the_whole_table() {
    let mut table = String::new();
    for (from, input, to) in rows() {
        let to = to.map_or_else(|refusal| format!("{refusal:?}"), |to| format!("{to:?}"));
        writeln!(table, "{from:?} | {input:?} => {to}").unwrap();
    }
    expect_file!["table.txt"].assert_eq(&table);
}

#[test]
fn every_row_of_4_2_is_a_step() {
    use RefundReason::*;
    let spec = [
        // Verification VERIFIED.
        (State::Held, Input::Release, Ok(State::Released)),
        // Verification FAILED or REJECTED.
        (State::Held, Input::Refund(VerificationFailed), Ok(State::Refunded(VerificationFailed))),
        // The same, and time-out with a manual rejection.
        (State::Held, Input::Refund(Rejected), Ok(State::Refunded(Rejected))),
    ];
    for row in spec {
        assert!(rows().contains(&row), "{row:?} is missing");
    }
    assert_eq!(State::Held.status(), EscrowStatus::Held);
    assert_eq!(State::Released.status(), EscrowStatus::Released);
}

#[test]
fn an_escrow_closes_from_held_only_and_into_what_was_asked() {
    for (from, input, to) in rows() {
        let asked = match input {
            Input::Release => State::Released,
            Input::Refund(reason) => State::Refunded(reason),
        };
        let expected = if from == State::Held { Ok(asked) } else { Err(AlreadySettled) };
        assert_eq!(to, expected, "{from:?} {input:?}");
        assert_ne!(asked.status(), EscrowStatus::Held);
    }
}
