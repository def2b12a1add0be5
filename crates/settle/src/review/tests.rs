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

fn rows() -> Vec<Row> {
    let deadline = Some(Timestamp::from_ms(DEADLINE_MS));
    let mut rows = Vec::new();
    for from in [Status::Pending, Status::Decided, Status::Lapsed] {
        for input in [Input::Decide, Input::Tick] {
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
            Err(Refusal::Over) => "Over".to_owned(),
        };
        writeln!(table, "{from:?} {limit} | {input:?} @{} => {to}", now.as_ms()).unwrap();
    }
    expect_file!["table.txt"].assert_eq(&table);
}

#[test]
fn a_review_is_decided_by_a_person_or_lapses_at_an_agreed_time_and_then_stays_so() {
    for Row { from, deadline, now, input, to } in rows() {
        let is_late = deadline.is_some_and(|deadline| now >= deadline);
        let expected = match (from, input) {
            (Status::Pending, Input::Decide) if is_late => {
                Err(Refusal::TooLate { deadline: deadline.unwrap() })
            }
            (Status::Pending, Input::Decide) => Ok(Status::Decided),
            (Status::Pending, Input::Tick) if is_late => Ok(Status::Lapsed),
            (_, Input::Tick) => Ok(from),
            (_, Input::Decide) => Err(Refusal::Over),
        };
        assert_eq!(to, expected, "{from:?} {deadline:?} {now} {input:?}");
    }
}
