use std::fmt::Write;

use expect_test::expect_file;

use super::*;

const DEADLINE_MS: i64 = 1_000;

struct Row {
    from: Status,
    deadline: Option<Timestamp>,
    now: Timestamp,
    input: Input,
    to: Result<Status, Refusal>,
}

/// Every status × input × before, at and after the deadline, and without one.
fn rows() -> Vec<Row> {
    use {Outcome as O, Status::*};
    let verdicts = [O::Verified, O::Failed, O::Rejected, O::Error].map(Input::Verdict);
    let inputs = [Input::Acknowledge].into_iter().chain(verdicts).chain([Input::Tick]);
    let inputs: Vec<_> = inputs.collect();
    let deadline = Some(Timestamp::from_ms(DEADLINE_MS));
    let mut rows = Vec::new();
    for from in [Pending, Running, Verified, Failed, Rejected, Timeout, Error] {
        for input in inputs.iter().copied() {
            for (deadline, ms) in [(deadline, -1), (deadline, 0), (deadline, 1), (None, 1)] {
                let now = Timestamp::from_ms(DEADLINE_MS + ms);
                rows.push(Row { from, deadline, now, input, to: step(from, deadline, now, input) });
            }
        }
    }
    rows
}

#[test]
fn the_whole_table() {
    let mut table = String::new();
    for Row { from, deadline, now, input, to } in rows() {
        let limit = deadline.map_or("no deadline".to_owned(), |d| format!("<{}", d.as_ms()));
        let to = match to {
            Ok(status) => format!("{status:?}"),
            Err(Refusal::TooLate { deadline }) => format!("TooLate({})", deadline.as_ms()),
            Err(Refusal::Over { status }) => format!("Over({status:?})"),
        };
        writeln!(table, "{from:?} {limit} | {input:?} @{} => {to}", now.as_ms()).unwrap();
    }
    expect_file!["table.txt"].assert_eq(&table);
}

#[test]
fn every_row_of_4_3_is_a_step_and_every_step_is_one_of_them_or_ours() {
    use {Input::*, Outcome as O, Status::*};
    let spec = [
        (Pending, Running, Acknowledge),
        (Running, Verified, Verdict(O::Verified)),
        (Running, Failed, Verdict(O::Failed)),
        (Running, Timeout, Tick),
        (Running, Error, Verdict(O::Error)),
        (Pending, Timeout, Tick),
    ];
    // A verdict implies an acknowledgement; REJECTED is a person's FAILED (decision 29).
    let ours = [
        (Running, Rejected, Verdict(O::Rejected)),
        (Pending, Verified, Verdict(O::Verified)),
        (Pending, Failed, Verdict(O::Failed)),
        (Pending, Rejected, Verdict(O::Rejected)),
        (Pending, Error, Verdict(O::Error)),
    ];
    let steps: Vec<_> =
        rows().iter().filter_map(|row| Some((row.from, row.to.ok()?, row.input))).collect();
    for row in spec.iter().chain(&ours) {
        assert!(steps.contains(row), "{row:?} is missing");
    }
    for step in steps.iter().filter(|(from, to, _)| from != to) {
        assert!(spec.contains(step) || ours.contains(step), "{step:?} is nobody's");
    }
}

#[test]
fn what_is_over_stays_so_and_a_late_word_changes_nothing() {
    use Status::*;
    for Row { from, deadline, now, input, to } in rows() {
        let row = (from, deadline, now, input);
        let is_late = deadline.is_some_and(|deadline| now >= deadline);
        if !matches!(from, Pending | Running) {
            assert!(to.is_err() || to == Ok(from), "{row:?}");
        }
        if is_late && matches!(from, Pending | Running) {
            let expected = match input {
                Input::Tick => Ok(Timeout),
                _ => Err(Refusal::TooLate { deadline: deadline.unwrap() }),
            };
            assert_eq!(to, expected, "{row:?}");
        }
        if !is_late && from != Timeout {
            assert_ne!(to, Ok(Timeout), "{row:?}");
        }
    }
}
