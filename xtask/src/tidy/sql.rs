//! Where SQL may stand and how it is written.

use std::collections::BTreeSet;

use super::{File, Finding};

const STORE: &str = "crates/store/";
const DIALECTS: [&str; 2] = ["migrations/sqlite/", "migrations/postgres/"];

/// How a statement begins, and a word that follows when it is not an English sentence.
const STATEMENTS: &[(&str, &str)] = &[
    ("select ", " from "),
    ("with ", " as ("),
    ("insert into ", " "),
    ("insert or ", " into "),
    ("update ", " set "),
    ("delete from ", " "),
    ("create table ", " "),
    ("create index ", " on "),
    ("create unique index ", " on "),
    ("alter table ", " "),
    ("drop table ", " "),
];

pub(super) fn is_in_lower_case(files: &[File]) -> Vec<Finding> {
    let what = "SQL is written in lower case";
    let mut findings = Vec::new();
    for file in files {
        if file.path.starts_with("migrations/") && file.path.ends_with(".sql") {
            for (index, line) in file.text.lines().enumerate() {
                let line = line.split("--").next().unwrap_or_default();
                if shouts(line) {
                    findings.push(file.finding(index + 1, what));
                }
            }
        } else if file.path.starts_with(STORE) && file.is_rust() {
            let strings = file.lexed().strings.into_iter();
            findings.extend(
                strings
                    .filter(|(_, text)| text.lines().any(shouts))
                    .map(|(line, _)| file.finding(line, what)),
            );
        }
    }
    findings
}

fn shouts(line: &str) -> bool {
    STATEMENTS.iter().any(|(start, _)| {
        let loud = start.to_uppercase();
        line.match_indices(&loud)
            .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
    })
}

/// Tests and the test kit may ask the database behind the store's back: that is how they check it.
pub(super) fn is_in_its_place(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() && !file.is_test()) {
        if [STORE, "crates/testkit/", "migrations/", "xtask/"]
            .iter()
            .any(|place| file.path.starts_with(place))
        {
            continue;
        }
        let strings = file.lexed().strings.into_iter();
        findings.extend(
            strings
                .filter(|(_, text)| is_statement(text))
                .map(|(line, _)| file.finding(line, "SQL belongs into crates/store")),
        );
    }
    findings
}

fn is_statement(text: &str) -> bool {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    STATEMENTS
        .iter()
        .any(|(start, then)| text.strip_prefix(start).is_some_and(|rest| rest.contains(then)))
}

/// Both dialects have the same migrations: the same numbers, from 1 without gaps, and names.
pub(super) fn migrations_are_twins(files: &[File]) -> Vec<Finding> {
    let names = |dialect: &str| -> BTreeSet<&str> {
        files.iter().filter_map(|file| file.path.strip_prefix(dialect)).collect()
    };
    let [sqlite, postgres] = DIALECTS.map(names);
    let finding = |path: String, what: &str| Finding { path, line: 1, what: what.to_owned() };
    let mut findings = Vec::new();
    for (mine, others, dialect) in
        [(&sqlite, &postgres, DIALECTS[0]), (&postgres, &sqlite, DIALECTS[1])]
    {
        for name in mine.difference(others) {
            findings.push(finding(format!("{dialect}{name}"), "the other dialect has it not"));
        }
        for (name, expected) in mine.iter().zip(1..) {
            let number = name.split_once('_').and_then(|(number, _)| number.parse().ok());
            if number != Some(expected) || !name.ends_with(".sql") {
                let what = format!("expected the name {expected:04}_something.sql here");
                findings.push(finding(format!("{dialect}{name}"), &what));
            }
        }
    }
    findings
}
