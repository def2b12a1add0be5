//! What `custom` holds for the engines `llm`, `composite` and `browser`: read the same way by
//! whoever agrees on it, whoever picks a verifier, and the engine itself.

use std::collections::BTreeSet;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::engine;
use crate::conduit::{Act, ActionType};

/// The longest rubric, in bytes.
pub const RUBRIC_LEN_MAX: usize = 8 * 1024;
/// Points of a rubric's list.
pub const RUBRIC_POINTS_MAX: usize = 32;
/// Parts of one composite.
pub const PARTS_MAX: usize = 8;
/// Parts of a composite that are no composites themselves, all together.
pub const LEAVES_MAX: usize = 16;
/// How deep composites nest: one inside another, and no further.
pub const COMPOSITE_DEPTH_MAX: usize = 2;
/// What a browser does before it looks.
pub const STEPS_MAX: usize = 20;
/// The longest name of an engine, in bytes.
const ENGINE_LEN_MAX: usize = 64;
/// The longest text of a part, in bytes.
const TEXT_LEN_MAX: usize = super::TEXT_LEN_MAX;

/// `llm`: what a language model judges by.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Rubric {
    pub rubric: String,
    /// Points that must each be met.
    #[serde(default)]
    pub criteria: Vec<String>,
}

impl Rubric {
    pub fn read(custom: Option<&Value>) -> Result<Rubric, String> {
        let rubric: Rubric = read(custom)?;
        if rubric.rubric.trim().is_empty() || rubric.rubric.len() > RUBRIC_LEN_MAX {
            return Err(format!("rubric has 1 to {RUBRIC_LEN_MAX} bytes"));
        }
        let length = rubric.criteria.iter().map(String::len).sum::<usize>();
        if rubric.criteria.len() > RUBRIC_POINTS_MAX || length > RUBRIC_LEN_MAX {
            return Err(format!(
                "criteria has at most {RUBRIC_POINTS_MAX} points, and {RUBRIC_LEN_MAX} bytes"
            ));
        }
        Ok(rubric)
    }
}

/// `browser`: what is done before the page is looked at.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct BrowserSteps {
    /// A CSS selector that must match first.
    #[serde(default)]
    pub wait_for: Option<String>,
    #[serde(default)]
    pub steps: Vec<Act>,
}

impl BrowserSteps {
    pub fn read(custom: Option<&Value>) -> Result<BrowserSteps, String> {
        let Some(custom) = custom.filter(|custom| !custom.is_null()) else {
            return Ok(BrowserSteps::default());
        };
        let steps: BrowserSteps = read(Some(custom))?;
        if let Some(field) = ["equals", "json_schema"].iter().find(|f| custom.get(f).is_some()) {
            return Err(format!("{field} is for the engines http, api and artifact"));
        }
        if steps.steps.len() > STEPS_MAX {
            return Err(format!("there are at most {STEPS_MAX} steps"));
        }
        // Strangers wrote the terms: a verifier fills in nobody's forms for them.
        use ActionType::{Fill, KeyPress, SelectOption, Type};
        let writes = |act: &&Act| matches!(act.action, Type | Fill | SelectOption | KeyPress);
        if let Some(act) = steps.steps.iter().find(writes) {
            let action = act.action.as_str();
            return Err(format!("a verifier looks and presses, and writes nothing: no {action}"));
        }
        if steps.wait_for.as_ref().is_some_and(String::is_empty) {
            return Err("wait_for is a selector".to_owned());
        }
        Ok(steps)
    }
}

/// How many parts decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    All,
    Any,
    /// At least `n`.
    AtLeast,
    /// All, each only after the one before.
    InOrder,
}

/// `composite`: several engines and how their words count.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Composite {
    pub mode: Mode,
    #[serde(default)]
    n: Option<usize>,
    pub of: Vec<Part>,
}

/// One of them. Its page is the deal's if it names none.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub url: Option<String>,
    #[serde(default)]
    pub selector: Option<String>,
    #[serde(default)]
    pub expected_content: Option<String>,
    #[serde(default)]
    pub custom: Option<Value>,
}

impl Composite {
    /// Reads it with all of its parts, those inside of parts too.
    pub fn read(custom: Option<&Value>) -> Result<Composite, String> {
        let composite = Composite::read_at(custom, 1)?;
        let leaves = composite.leaves();
        if leaves > LEAVES_MAX {
            return Err(format!("there are {leaves} parts in all; at most {LEAVES_MAX} are run"));
        }
        Ok(composite)
    }

    fn read_at(custom: Option<&Value>, depth: usize) -> Result<Composite, String> {
        if depth > COMPOSITE_DEPTH_MAX {
            return Err(format!("composites nest at most {COMPOSITE_DEPTH_MAX} deep"));
        }
        let composite: Composite = read(custom)?;
        if composite.of.is_empty() || composite.of.len() > PARTS_MAX {
            return Err(format!("of has 1 to {PARTS_MAX} parts"));
        }
        match (composite.mode, composite.n) {
            (Mode::AtLeast, Some(n)) if (1..=composite.of.len()).contains(&n) => {}
            (Mode::AtLeast, _) => return Err("n says how many parts, and no more".to_owned()),
            (_, Some(_)) => return Err("n is for the mode at_least".to_owned()),
            (_, None) => {}
        }
        for (at, part) in composite.of.iter().enumerate() {
            part.check(depth).map_err(|problem| format!("part {at}: {problem}"))?;
        }
        Ok(composite)
    }

    /// How many parts must pass.
    pub fn needed(&self) -> usize {
        match self.mode {
            Mode::Any => 1,
            Mode::AtLeast => self.n.unwrap_or(self.of.len()),
            Mode::All | Mode::InOrder => self.of.len(),
        }
    }

    fn leaves(&self) -> usize {
        let inside = |part: &Part| part.composite().map_or(1, |inner| inner.leaves());
        self.of.iter().map(inside).sum()
    }
}

impl Part {
    /// The engine by its one name.
    pub fn engine(&self) -> &str {
        canonical(&self.kind)
    }

    fn composite(&self) -> Option<Composite> {
        let custom = self.custom.as_ref().filter(|_| self.kind == engine::COMPOSITE);
        custom.and_then(|custom| Composite::deserialize(custom).ok())
    }

    fn check(&self, depth: usize) -> Result<(), String> {
        if self.kind.is_empty() || self.kind.len() > ENGINE_LEN_MAX {
            return Err(format!("type has 1 to {ENGINE_LEN_MAX} bytes"));
        }
        for (name, text) in [
            ("url", &self.url),
            ("selector", &self.selector),
            ("expected_content", &self.expected_content),
        ] {
            if text.as_ref().is_some_and(|text| text.is_empty() || text.len() > TEXT_LEN_MAX) {
                return Err(format!("{name} has 1 to {TEXT_LEN_MAX} bytes"));
            }
        }
        let more = self.custom.as_ref();
        if more.is_some_and(|custom| !custom.is_object()) {
            return Err("custom is an object".to_owned());
        }
        let stated = self.selector.is_some() || self.expected_content.is_some();
        let custom = more.and_then(Value::as_object).is_some_and(|custom| !custom.is_empty());
        match self.kind.as_str() {
            engine::HUMAN | engine::REQUESTER | engine::SELF_ATTESTED => {
                Err(format!("{} is no part of a composite: it is no engine", self.kind))
            }
            engine::COMPOSITE if stated => Err(IN_PARTS.to_owned()),
            engine::COMPOSITE => Composite::read_at(more, depth + 1).map(|_| ()),
            _ if !(stated || custom || self.url.is_some()) => {
                Err("it says nothing that could be checked".to_owned())
            }
            kind => check_custom(kind, more),
        }
    }
}

/// Why a composite has no criteria beside its parts.
const IN_PARTS: &str = "the criteria of a composite stand in its parts";

/// Whether an engine of this program would understand `custom`. Other engines' is their own.
pub fn check_custom(kind: &str, custom: Option<&Value>) -> Result<(), String> {
    match kind {
        engine::LLM => Rubric::read(custom).map(|_| ()),
        engine::BROWSER => BrowserSteps::read(custom).map(|_| ()),
        engine::COMPOSITE => Composite::read(custom).map(|_| ()),
        _ => Ok(()),
    }
}

/// Every engine that a verifier must have for these criteria: the named one, and those of the
/// parts.
pub fn engines_needed(kind: &str, custom: Option<&Value>) -> BTreeSet<String> {
    let mut needed = BTreeSet::from([canonical(kind).to_owned()]);
    if kind == engine::COMPOSITE
        && let Ok(composite) = Composite::read(custom)
    {
        for part in &composite.of {
            needed.extend(engines_needed(&part.kind, part.custom.as_ref()));
        }
    }
    needed
}

fn canonical(kind: &str) -> &str {
    if kind == "url" { engine::HTTP } else { kind }
}

fn read<T: DeserializeOwned>(custom: Option<&Value>) -> Result<T, String> {
    match custom {
        // A list would be read as the fields in their order.
        Some(custom @ Value::Object(_)) => T::deserialize(custom).map_err(|e| e.to_string()),
        Some(_) => Err("it is an object".to_owned()),
        None => Err("it is missing".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problem(kind: &str, custom: Value) -> String {
        check_custom(kind, Some(&custom)).unwrap_err()
    }

    #[test]
    fn a_rubric_is_needed_and_has_limits() {
        assert_eq!(check_custom("llm", None), Err("it is missing".to_owned()));
        assert!(problem("llm", json!({})).contains("rubric"));
        assert!(problem("llm", json!({"rubric": " "})).contains("1 to 8192"));
        assert!(problem("llm", json!({"rubric": "x".repeat(8193)})).contains("1 to 8192"));
        let points = vec!["x"; 33];
        assert!(problem("llm", json!({"rubric": "x", "criteria": points})).contains("32 points"));
        let good = json!({"rubric": "It rhymes.", "criteria": ["a", "b"], "more": 1});
        assert_eq!(check_custom("llm", Some(&good)), Ok(()));
    }

    #[test]
    fn a_browser_takes_steps_that_it_knows() {
        assert_eq!(check_custom("browser", None), Ok(()));
        let click = json!({"action": "CLICK", "selector": "#go"});
        let good = json!({"wait_for": "#done", "steps": [click], "status": 200});
        assert_eq!(check_custom("browser", Some(&good)), Ok(()));
        assert!(problem("browser", json!({"equals": 1})).contains("http"));
        assert!(problem("browser", json!({"steps": [{"action": "FLY"}]})).contains("FLY"));
        assert!(problem("browser", json!({"steps": vec![click; 21]})).contains("at most 20"));
    }

    #[test]
    fn a_composite_says_how_its_parts_count() {
        let page = json!({"type": "http", "url": "http://a", "expected_content": "x"});
        let of = |mode: &str, parts: Vec<Value>| json!({"mode": mode, "of": parts});
        let good = |custom: Value| assert_eq!(check_custom("composite", Some(&custom)), Ok(()));
        good(of("all", vec![page.clone()]));
        good(of("in_order", vec![page.clone(); 8]));
        good(json!({"mode": "at_least", "n": 2, "of": [page, page]}));
        let inner = json!({"type": "composite", "custom": of("any", vec![page.clone(); 2])});
        good(of("all", vec![inner.clone(), page.clone()]));

        let bad = |custom: Value| problem("composite", custom);
        assert!(bad(of("most", vec![page.clone()])).contains("most"));
        assert!(bad(of("all", vec![])).contains("1 to 8"));
        assert!(bad(of("all", vec![page.clone(); 9])).contains("1 to 8"));
        assert!(bad(json!({"mode": "at_least", "n": 3, "of": [page, page]})).contains("how many"));
        assert!(bad(json!({"mode": "at_least", "of": [page]})).contains("how many"));
        assert!(bad(json!({"mode": "all", "n": 1, "of": [page]})).contains("at_least"));
        assert!(bad(of("all", vec![json!({"type": "human"})])).contains("no engine"));
        assert!(bad(of("all", vec![json!({"type": "artifact"})])).contains("nothing"));
        let unknown = json!({"type": "http", "url": "http://a", "fingerprint_delta": true});
        assert!(bad(of("all", vec![unknown])).contains("fingerprint_delta"));
        let llm = json!({"type": "llm", "custom": {"rubrik": "x"}});
        assert!(bad(of("all", vec![page.clone(), llm])).starts_with("part 1: "));
        let wide = json!({"type": "composite", "custom": of("any", vec![page; 8])});
        assert!(bad(of("all", vec![wide.clone(); 3])).contains("at most 16"));
        let deep = json!({"type": "composite", "custom": of("all", vec![inner])});
        assert!(bad(of("all", vec![deep])).contains("2 deep"));
    }

    #[test]
    fn a_verifier_needs_the_engines_of_every_part() {
        let inner = json!({"mode": "any", "of": [
            {"type": "llm", "custom": {"rubric": "x"}}, {"type": "url", "url": "http://a"},
        ]});
        let custom = json!({"mode": "all", "of": [
            {"type": "composite", "custom": inner}, {"type": "browser", "url": "http://a"},
        ]});
        let needed = engines_needed("composite", Some(&custom));
        assert_eq!(Vec::from_iter(needed), ["browser", "composite", "http", "llm"]);
        assert_eq!(Vec::from_iter(engines_needed("url", None)), ["http"]);
    }
}
