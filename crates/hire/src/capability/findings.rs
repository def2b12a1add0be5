//! One verification under way.

use serde_json::Value;
use skep_wire::hire::Check;

use super::Capability;

/// What a check says in words is cut to this many characters: it may quote a stranger.
const DETAIL_LEN_MAX: usize = 240;

pub(super) struct Job<'a> {
    pub capability: &'a Capability,
    /// From v1 on.
    pub strict: bool,
    pub params: &'a Value,
    pub result: &'a Value,
    checks: Vec<Check>,
}

impl<'a> Job<'a> {
    pub fn new(
        capability: &'a Capability,
        strict: bool,
        params: &'a Value,
        result: &'a Value,
    ) -> Self {
        Job { capability, strict, params, result, checks: Vec::new() }
    }

    /// Notes what was looked at; why not is asked only if it failed.
    pub fn check(
        &mut self,
        name: &'static str,
        passed: bool,
        why_not: impl FnOnce() -> String,
    ) -> bool {
        let detail = (!passed).then(|| short(why_not()));
        self.checks.push(Check { name: name.to_owned(), passed, detail });
        passed
    }

    /// Notes something that passed with a reservation.
    pub fn pass_but(&mut self, name: &'static str, note: &str) {
        let detail = Some(short(note.to_owned()));
        self.checks.push(Check { name: name.to_owned(), passed: true, detail });
    }

    /// Notes whether something could be had, and hands it on.
    pub fn take<T>(&mut self, name: &'static str, outcome: Result<T, String>) -> Option<T> {
        match outcome {
            Ok(value) => {
                self.check(name, true, String::new);
                Some(value)
            }
            Err(why) => {
                self.check(name, false, || why);
                None
            }
        }
    }

    pub fn into_checks(self) -> Vec<Check> {
        self.checks
    }

    /// A text of the result; the schema has seen to it that it is one.
    pub fn text(&self, field: &str) -> &'a str {
        self.result[field].as_str().unwrap_or("")
    }

    pub fn param(&self, field: &str) -> &'a str {
        self.params[field].as_str().unwrap_or("")
    }

    pub fn number(&self, field: &str) -> f64 {
        self.result[field].as_f64().unwrap_or(f64::NAN)
    }

    /// What stands for a word in braces.
    pub fn slot(&self, name: &str) -> &'a str {
        self.capability.slot(name)
    }
}

/// Cut to what a receipt's reader wants to see.
pub(super) fn short(text: String) -> String {
    match text.char_indices().nth(DETAIL_LEN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
