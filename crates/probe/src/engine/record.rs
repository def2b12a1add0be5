//! What an examination writes down while it goes on.

use std::time::Instant;

use serde_json::{Value, json};
use skep_base::{Clock, Hash32, hash::sha256};
use skep_wire::settle::{
    ACTIONS_MAX, ATTACHMENTS_LEN_MAX, ATTACHMENTS_MAX, Action, Attachment, ErrorReport,
    Fingerprints, Outcome,
};

use super::Examination;
use crate::egress::EgressError;

/// The longest `data_snippet`, in characters.
const SNIPPET_LEN_MAX: usize = 200;
/// The longest reason, in characters; parts of a stranger's document may be in it.
const REASON_LEN_MAX: usize = 1000;

/// Why an examination ends before its last step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The criteria are not met.
    Failed(String),
    /// Nothing can be found out.
    Error(ErrorReport),
}

impl Stop {
    pub(crate) fn failed(reason: impl Into<String>) -> Stop {
        Stop::Failed(first_chars(&reason.into(), REASON_LEN_MAX))
    }

    pub(crate) fn error(code: &str, detail: impl Into<String>) -> Stop {
        let detail = first_chars(&detail.into(), REASON_LEN_MAX);
        Stop::Error(ErrorReport { code: code.to_owned(), detail })
    }

    pub(crate) fn reason(&self) -> &str {
        match self {
            Stop::Failed(reason) => reason,
            Stop::Error(report) => &report.detail,
        }
    }
}

impl From<EgressError> for Stop {
    fn from(error: EgressError) -> Stop {
        Stop::error(error.code(), error.to_string())
    }
}

/// Until when the work of one examination may go on. It is looked at inside of long loops, since
/// a thread that computes cannot be stopped from outside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(pub(crate) Instant);

impl Deadline {
    pub(crate) fn check(self) -> Result<(), Stop> {
        if Instant::now() < self.0 { Ok(()) } else { Err(Stop::timeout()) }
    }
}

impl Stop {
    pub(crate) fn timeout() -> Stop {
        Stop::error("timeout", "the examination took longer than it may")
    }
}

/// The steps so far and what they found. A step is there from its beginning, so that a time limit
/// shows what it cut off.
#[derive(Debug)]
pub(crate) struct Record<'a> {
    clock: &'a dyn Clock,
    step_since: Instant,
    pub(crate) actions: Vec<Action>,
    pub(crate) extracted_content: Option<String>,
    pub(crate) fingerprints: Fingerprints,
    artifact_hashes: Vec<Hash32>,
    attachments: Vec<Attachment>,
    /// Which part of a composite is at work: `1`, or `1.0` for one inside.
    part: Option<String>,
    /// There was no room for a step.
    is_full: bool,
}

impl<'a> Record<'a> {
    pub(crate) fn new(clock: &'a dyn Clock) -> Record<'a> {
        Record {
            clock,
            step_since: Instant::now(),
            actions: Vec::new(),
            extracted_content: None,
            fingerprints: Fingerprints::default(),
            artifact_hashes: Vec::new(),
            attachments: Vec::new(),
            part: None,
            is_full: false,
        }
    }

    /// From now on the steps are those of a part. Gives what [`Record::leave`] needs.
    pub(crate) fn enter(&mut self, part: usize) -> Option<String> {
        let inside = match &self.part {
            Some(above) => format!("{above}.{part}"),
            None => part.to_string(),
        };
        self.part.replace(inside)
    }

    pub(crate) fn leave(&mut self, above: Option<String>) {
        self.part = above;
    }

    /// Parts of a composite may look at the same artifacts.
    pub(crate) fn saw_artifact(&mut self, at: usize, hash: Hash32) {
        if at == self.artifact_hashes.len() {
            self.artifact_hashes.push(hash);
        }
    }

    /// Adds to what the step that was started last was told.
    pub(crate) fn note(&mut self, told: Value) {
        let Some(action) = self.actions.last_mut() else { return };
        match (&mut action.input, told) {
            (Some(Value::Object(known)), Value::Object(told)) => known.extend(told),
            (input, told) => *input = Some(told),
        }
    }

    /// Keeps what an action names by its hash, and gives the hash. Beyond the limits only the hash
    /// is left: it is known then what there was, and a verdict is never lost over a picture.
    pub(crate) fn attach(&mut self, bytes: &[u8], media_type: &str, name: &str) -> Hash32 {
        let length = self.attachments.iter().map(|kept| kept.data.len()).sum::<usize>();
        let hash = sha256(bytes);
        let known = self.attachments.iter().any(|kept| kept.sha256 == hash);
        let fits = length + bytes.len().div_ceil(3) * 4 <= ATTACHMENTS_LEN_MAX;
        if !known && fits && self.attachments.len() < ATTACHMENTS_MAX {
            self.attachments.push(Attachment::new(bytes, media_type, Some(name)));
        }
        hash
    }

    /// The step that was started last.
    pub(crate) fn step(&mut self) -> Option<&mut Action> {
        self.actions.last_mut()
    }

    pub(crate) fn start(&mut self, action: &str, url: Option<&str>, selector: Option<&str>) {
        self.step_since = Instant::now();
        if self.actions.len() >= ACTIONS_MAX {
            self.is_full = true;
            return;
        }
        let input = self.part.as_ref().map(|part| json!({ "part": part }));
        let begun = Action::begun(self.actions.len(), action, self.clock.now());
        self.actions.push(Action {
            url: url.map(str::to_owned),
            selector: selector.map(str::to_owned),
            input,
            ..begun
        });
    }

    /// Ends the step that was started last; `snippet` says what came of it if it went well.
    pub(crate) fn finish<T>(
        &mut self,
        result: Result<T, Stop>,
        snippet: impl FnOnce(&T) -> String,
    ) -> Result<T, Stop> {
        if self.is_full {
            let detail = format!("the examination takes more than {ACTIONS_MAX} steps");
            return Err(Stop::error("too_many_steps", detail));
        }
        let text = result.as_ref().map_or_else(|stop| stop.reason().to_owned(), snippet);
        let duration_ms = u64::try_from(self.step_since.elapsed().as_millis()).ok();
        if let Some(action) = self.actions.last_mut() {
            action.success = result.is_ok();
            action.duration_ms = duration_ms;
            action.data_snippet =
                Some(first_chars(&text, SNIPPET_LEN_MAX)).filter(|text| !text.is_empty());
        }
        result
    }

    pub(crate) fn close(self, result: Result<(), Stop>) -> Examination {
        let (outcome, failure_reason, error) = match result {
            Ok(()) => (Outcome::Verified, None, None),
            Err(Stop::Failed(reason)) => (Outcome::Failed, Some(reason), None),
            Err(Stop::Error(report)) => (Outcome::Error, Some(report.detail.clone()), Some(report)),
        };
        Examination {
            outcome,
            extracted_content: self.extracted_content,
            failure_reason,
            error,
            actions: self.actions,
            fingerprints: self.fingerprints,
            artifact_hashes: self.artifact_hashes,
            attachments: self.attachments,
        }
    }
}

pub(crate) fn first_chars(text: &str, max: usize) -> String {
    text.chars().take(max).collect()
}

/// The longest beginning of `text` that has at most `max` bytes and whole characters.
pub(crate) fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("häuser", 2), "h");
        assert_eq!(cut("häuser", 3), "hä");
        assert_eq!(cut("häuser", 100), "häuser");
        assert_eq!(cut("häuser", 0), "");
    }
}
