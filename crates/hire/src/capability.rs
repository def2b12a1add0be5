//! SHP 5 and 8: what can be sold, what goes in and comes out, and how a result is checked.
//!
//! ```
//! use serde_json::json;
//! use skep_hire::capability;
//!
//! let params = json!({"data": [1, 2, 3, 6]});
//! let id = "compute.statistics.mean";
//! assert!(capability::verify(id, Some("v1"), &params, &json!({"result": 3})).all_passed);
//! assert!(capability::verify(id, Some("v1"), &params, &json!({"result": 4})).failed());
//! // Nobody can check what nobody has described: that is neither good nor bad.
//! let custom = capability::verify("custom.acme.dance", None, &params, &json!({}));
//! assert!(!custom.verifiable && !custom.all_passed);
//! ```

mod audio;
mod chart;
mod code;
mod compute;
mod currency;
mod expression;
mod findings;
mod image;
mod label;
mod language;
mod lookup;
mod name;
mod page;
mod research;
mod schema;
mod symbolic;
mod syntax;
mod taxonomy;
#[cfg(test)]
mod tests;
mod text;
mod vector;

use serde_json::Value;
use skep_base::Timestamp;
use skep_wire::hire::Verification;

pub(crate) use self::schema::{Side, example};
use self::{
    findings::Job,
    taxonomy::{Kind, V0, V1},
};
pub use self::{
    name::{BadCapability, ID_LEN_MAX, ID_LEN_MIN, is_valid_id},
    taxonomy::{Entry, taxonomy},
};

/// A version may be advertised so many days after its successor came (8.2).
pub const DEPRECATION_DAYS: i64 = 90;
/// How deep a result's or a request's values may stand in one another.
const DEPTH_MAX: usize = 64;
/// What is wrong with params is told up to this many times.
const PROBLEMS_MAX: usize = 8;

/// One version of a capability's schemas and checks (8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    pub name: &'static str,
    pub since: Timestamp,
    /// When buyers should stop to take it; nothing for the current one.
    pub ends: Option<Timestamp>,
}

/// A capability by its concrete name.
#[derive(Clone, Debug)]
pub struct Capability {
    pub id: String,
    /// The taxonomy's name, such as `text.translate.{src}.{tgt}.{level}`.
    pub template: &'static str,
    /// The first word of the name.
    pub family: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    /// From the first to the current one.
    pub versions: &'static [Version],
    kind: Kind,
    /// What stands for the words in braces.
    slots: Vec<(&'static str, String)>,
}

/// The newest version of a capability that everybody knows.
pub fn current_version(id: &str) -> Option<&'static str> {
    find(id).map(|capability| capability.current_version())
}

/// The number of the oldest version that may still be advertised; the taxonomy's have the same.
pub fn oldest_version(now: Timestamp) -> i64 {
    let is_open = |version: &&Version| version.ends.is_none_or(|end| now < end);
    let open = taxonomy::VERSIONS.iter().find(is_open);
    open.and_then(|version| crate::listing::version_number(version.name)).unwrap_or(i64::MAX)
}

impl Capability {
    pub fn current_version(&self) -> &'static str {
        V1
    }

    /// Those that end, each with its day.
    pub fn deprecated_versions(&self) -> impl Iterator<Item = (&'static str, Timestamp)> {
        self.versions.iter().filter_map(|version| Some((version.name, version.ends?)))
    }

    pub fn has_version(&self, version: &str) -> bool {
        self.versions.iter().any(|known| known.name == version)
    }

    /// What `params` must look like, as a JSON Schema (2020-12); nothing for an unknown version.
    pub fn input_schema(&self, version: &str) -> Option<Value> {
        self.has_version(version).then(|| schema::document(self, version, Side::Input))
    }

    /// What `result` must look like.
    pub fn output_schema(&self, version: &str) -> Option<Value> {
        self.has_version(version).then(|| schema::document(self, version, Side::Output))
    }

    /// The schema of one side, and a value that fits it.
    pub(crate) fn shown(&self, version: &str, side: Side) -> Option<(Value, Option<Value>)> {
        self.has_version(version).then(|| schema::shown(self, version, side))
    }

    /// What stands for a word in braces.
    fn slot(&self, name: &str) -> &str {
        let slot = self.slots.iter().find(|(slot, _)| *slot == name);
        slot.map_or("", |(_, value)| value.as_str())
    }
}

/// The taxonomy's entry for a concrete name; nothing for `custom.` ones and for unknown ones.
pub fn find(id: &str) -> Option<Capability> {
    let fits = |entry: &'static Entry| {
        let slots = entry.patterns().find_map(|pattern| name::fit(pattern, entry.kind, id))?;
        Some(Capability {
            id: id.to_owned(),
            template: entry.template,
            family: entry.family(),
            title: entry.title,
            description: entry.description,
            versions: entry.versions(),
            kind: entry.kind,
            slots,
        })
    };
    // A name of its own wins over a template that would take it too.
    let own = taxonomy().iter().find(|entry| entry.patterns().any(|pattern| pattern == id));
    own.and_then(fits).or_else(|| taxonomy().iter().find_map(fits))
}

/// Whether a seller should take the job on, asked before any payment. What is outside the taxonomy
/// has rules of its own, which the seller knows.
pub fn check_params(id: &str, version: Option<&str>, params: &Value) -> Result<(), Vec<String>> {
    let Some(capability) = find(id) else { return Ok(()) };
    let version = version.unwrap_or(V0);
    if !capability.has_version(version) {
        return Err(vec![format!("{id} has no version {version:?}")]);
    }
    params_fit(&capability, version, params)
}

fn params_fit(capability: &Capability, version: &str, params: &Value) -> Result<(), Vec<String>> {
    if !is_shallow(params) {
        return Err(vec![format!("params are nested deeper than {DEPTH_MAX}")]);
    }
    let problems = schema::problems(capability, version, Side::Input, params, PROBLEMS_MAX);
    if !problems.is_empty() {
        return Err(problems);
    }
    image::input_fits(capability.kind, params)
        .and_then(|()| page::input_fits(capability.kind, params))
        .map_err(|problem| vec![problem])
}

/// 8.1: looks at a result. Deterministic, without I/O, and quick for the largest result that the
/// schemas allow. Without a version the first one counts: who promised none promised no more.
pub fn verify(id: &str, version: Option<&str>, params: &Value, result: &Value) -> Verification {
    let Some(capability) = find(id) else {
        return Verification::not_verifiable("the taxonomy has no check for this capability");
    };
    let version = version.unwrap_or(V0);
    if !capability.has_version(version) {
        return Verification::not_verifiable("the capability has no such version");
    }
    // A request that no seller had to take says nothing about what came back.
    if let Err(problems) = params_fit(&capability, version, params) {
        let why = format!("the params do not fit: {}", problems.join("; "));
        return Verification::not_verifiable(&findings::short(why));
    }
    let mut job = Job::new(&capability, version != V0, params, result);
    if !job.check("nesting_depth", is_shallow(result), || format!("deeper than {DEPTH_MAX}")) {
        return Verification::of(version, job.into_checks());
    }
    let problems = schema::problems(&capability, version, Side::Output, result, PROBLEMS_MAX);
    if !job.check("matches_schema", problems.is_empty(), || problems.join("; ")) {
        return Verification::of(version, job.into_checks());
    }
    match look(&mut job) {
        Ok(()) => Verification::of(version, job.into_checks()),
        Err(NotVerifiable(why)) => Verification::not_verifiable(&findings::short(why)),
    }
}

/// Whether untrusted pictures, sound or code are taken apart: better in a process of their own.
pub fn needs_sandbox(id: &str) -> bool {
    find(id).is_some_and(|capability| {
        matches!(
            capability.kind,
            Kind::Photo
                | Kind::Illustration
                | Kind::Drawing
                | Kind::BackgroundRemove
                | Kind::Upscale(_)
                | Kind::Speech
                | Kind::CodeScript
                | Kind::CodeFunction
                | Kind::CodeTest
                | Kind::CodeTranslate
                | Kind::Chart
                | Kind::Scrape
        )
    })
}

/// Whether values can be taken apart without fear for the stack.
pub fn is_shallow(value: &Value) -> bool {
    let mut open = vec![(value, 0_usize)];
    while let Some((value, depth)) = open.pop() {
        if depth > DEPTH_MAX {
            return false;
        }
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(fields) => open.extend(fields.values().map(|item| (item, depth + 1))),
            _ => {}
        }
    }
    true
}

/// Why nobody can tell: it lies with what was asked, not with what came back.
struct NotVerifiable(String);

/// One function for each kind of work.
fn look(job: &mut Job<'_>) -> Result<(), NotVerifiable> {
    match job.capability.kind {
        Kind::Photo | Kind::Illustration => image::generated(job),
        Kind::Drawing => image::drawn(job),
        Kind::BackgroundRemove => return image::cut_out(job),
        Kind::Upscale(factor) => return image::upscaled(job, factor),
        Kind::TranscribeTimed => audio::timed(job),
        Kind::TranscribeText => audio::transcribed(job, "lang"),
        Kind::AudioTranslate => audio::transcribed(job, "tgt"),
        Kind::Speech => audio::spoken(job),
        Kind::Translate => text::translated(job),
        Kind::Summarize { least, most } => text::summarized(job, least, most),
        Kind::RewriteFormal => text::rewritten(job, true),
        Kind::RewriteCasual => text::rewritten(job, false),
        Kind::Expand => text::expanded(job),
        Kind::CodeScript => code::script(job),
        Kind::CodeFunction => code::function(job),
        Kind::CodeReview => code::review(job),
        Kind::CodeTest => code::test(job),
        Kind::CodeTranslate => code::translated(job),
        Kind::CodeExecute => code::executed(job),
        Kind::Weather => lookup::weather(job),
        Kind::WebSearch => lookup::web_search(job),
        Kind::Stock => lookup::stock(job),
        Kind::Crypto => lookup::crypto(job),
        Kind::Extract => page::extracted(job),
        Kind::Scrape => return page::scraped(job),
        Kind::Chart => chart::drawn(job),
        Kind::Symbolic => symbolic::solved(job),
        Kind::Numeric => compute::number(job),
        Kind::Statistics => compute::statistic(job),
        Kind::EmbedText | Kind::EmbedImage => vector::embedded(job),
        Kind::ClassifyImage | Kind::ClassifyText => vector::classified(job),
        Kind::Sentiment => vector::sentiment(job),
        Kind::Toxicity => vector::toxicity(job),
        Kind::Profile => research::profile(job),
    }
    Ok(())
}
