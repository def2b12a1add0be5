//! 5.1: names of capabilities.

use super::{find, language, syntax, taxonomy::Kind};

pub const ID_LEN_MIN: usize = 3;
pub const ID_LEN_MAX: usize = 128;
/// What a text may grow by.
const FACTOR_MAX: f64 = 10.0;
const LEVELS: &[&str] = &["literal", "fluent", "business", "casual", "technical"];
const WEATHER_FORMATS: &[&str] = &["geojson", "json", "summary-text"];
pub(super) const STATISTICS: &[&str] = &["mean", "median", "stddev", "variance", "percentile-95"];

/// Why a name cannot be listed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadCapability {
    #[error("a capability's name has {ID_LEN_MIN} to {ID_LEN_MAX} characters, not {length}")]
    Length { length: usize },
    #[error("a capability's name begins with a lower-case letter")]
    Start,
    #[error("a capability's name has lower-case letters, digits, '.', '_' and '-', not {found:?}")]
    Character { found: char },
    #[error("between two dots of a capability's name stands a word")]
    EmptyWord,
    #[error("a name of one's own is custom.<provider>.<capability>")]
    CustomShape,
    #[error("{id} is not in the taxonomy: a name of one's own begins with custom.")]
    Unknown { id: String },
}

impl BadCapability {
    /// A stable word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            BadCapability::Length { .. } => "bad_capability_length",
            BadCapability::Start => "bad_capability_start",
            BadCapability::Character { .. } => "bad_capability_character",
            BadCapability::EmptyWord => "bad_capability_word",
            BadCapability::CustomShape => "bad_custom_capability",
            BadCapability::Unknown { .. } => "unknown_capability",
        }
    }
}

/// Whether a listing may carry this name (5.1, decision 19).
pub fn is_valid_id(id: &str) -> Result<(), BadCapability> {
    let length = id.chars().count();
    if !(ID_LEN_MIN..=ID_LEN_MAX).contains(&length) {
        return Err(BadCapability::Length { length });
    }
    if !id.starts_with(|c: char| c.is_ascii_lowercase()) {
        return Err(BadCapability::Start);
    }
    let allowed =
        |c: &char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-');
    if let Some(found) = id.chars().find(|c| !allowed(c)) {
        return Err(BadCapability::Character { found });
    }
    if id.split('.').any(str::is_empty) {
        return Err(BadCapability::EmptyWord);
    }
    match id.strip_prefix("custom.") {
        Some(own) if own.contains('.') => Ok(()),
        Some(_) => Err(BadCapability::CustomShape),
        None if find(id).is_some() => Ok(()),
        None => Err(BadCapability::Unknown { id: id.to_owned() }),
    }
}

/// What stands for each word in braces, if the name fits the template.
pub(super) fn fit(
    template: &'static str,
    kind: Kind,
    id: &str,
) -> Option<Vec<(&'static str, String)>> {
    if id.len() > ID_LEN_MAX {
        return None;
    }
    let mut slots = Vec::new();
    let mut rest = Some(id);
    let mut words = template.split('.').peekable();
    while let Some(word) = words.next() {
        let open = word.strip_prefix('{').and_then(|word| word.strip_suffix('}'));
        let left = rest?;
        // Factors and models may have a dot; they stand at the end.
        let to_the_end = words.peek().is_none() && matches!(open, Some("factor" | "model"));
        let (given, after) = match left.split_once('.') {
            Some((given, after)) if !to_the_end => (given, Some(after)),
            _ => (left, None),
        };
        rest = after;
        match open {
            Some(slot) if is_for(slot, kind, given) => slots.push((slot, given.to_owned())),
            None if word == given => {}
            _ => return None,
        }
    }
    rest.is_none().then_some(slots)
}

/// Whether a word may stand for the one in braces.
fn is_for(slot: &str, kind: Kind, word: &str) -> bool {
    match slot {
        "src" | "tgt" if matches!(kind, Kind::CodeTranslate) => syntax::LANGUAGES.contains(&word),
        "src" | "tgt" | "lang" => language::is_code(word),
        "level" => LEVELS.contains(&word),
        "factor" => factor(word).is_some(),
        "language" => syntax::LANGUAGES.contains(&word),
        "format" => WEATHER_FORMATS.contains(&word),
        "op" => STATISTICS.contains(&word),
        _ => is_word(word),
    }
}

fn is_word(word: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
    word.starts_with(|c: char| c.is_ascii_alphanumeric()) && word.bytes().all(allowed)
}

/// `2`, `2x` or `1.5x`.
pub(super) fn factor(word: &str) -> Option<f64> {
    let digits = word.strip_suffix('x').unwrap_or(word);
    if !digits.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return None;
    }
    let factor: f64 = digits.parse().ok()?;
    (factor > 1.0 && factor <= FACTOR_MAX).then_some(factor)
}
