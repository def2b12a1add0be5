use std::fmt::Write;

use expect_test::expect_file;

use super::*;

type Row = (State, Input, Result<State, OutOfTurn>);

fn rows() -> Vec<Row> {
    use {Input::*, State::*};
    let states = [Active, Completed, Disputed { open: true }, Disputed { open: false }, Cancelled];
    let inputs = [
        Verify,
        Reject { contestable: true },
        Reject { contestable: false },
        Uphold,
        Overturn,
        Cancel,
        Agree,
    ];
    let rows = states.into_iter().flat_map(|state| inputs.map(|input| (state, input)));
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
fn every_row_of_4_4_is_a_step_and_every_step_is_one_of_them_or_ours() {
    use AgreementStatus::*;
    let spec = [
        (Active, Completed, Input::Verify),
        (Active, Disputed, Input::Reject { contestable: true }),
        (Active, Disputed, Input::Reject { contestable: false }),
        (Active, Cancelled, Input::Cancel),
    ];
    // Decisions 29a and 29b.
    let ours = [
        (Active, Completed, Input::Agree),
        (Disputed, Completed, Input::Agree),
        (Disputed, Completed, Input::Overturn),
        (Disputed, Disputed, Input::Uphold),
    ];
    let steps: Vec<_> = rows()
        .into_iter()
        .filter_map(|(from, input, to)| Some((from.status(), to.ok()?.status(), input)))
        .collect();
    for row in spec.iter().chain(&ours) {
        assert!(steps.contains(row), "{row:?} is missing");
    }
    for step in &steps {
        assert!(spec.contains(step) || ours.contains(step), "{step:?} is nobody's");
    }
}

#[test]
fn what_has_ended_stays_ended() {
    for (from, input, to) in rows() {
        if !matches!(from, State::Active | State::Disputed { open: true }) {
            assert_eq!(to, Err(OutOfTurn), "{from:?} {input:?}");
        }
    }
}
