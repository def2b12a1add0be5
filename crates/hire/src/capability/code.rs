//! Code: in its language, and what was asked for.

use serde_json::Value;

use super::{
    findings::Job,
    syntax::{self, Code},
};

/// What a run may take if nothing else was said, in milliseconds.
const TIMEOUT_MS: u64 = 5000;
/// What starting and stopping may add, in milliseconds.
const GRACE_MS_V0: u64 = 2000;
const GRACE_MS_V1: u64 = 500;
/// The exit codes of the taxonomy: well, failed, out of time.
const EXIT_CODES: &[i64] = &[0, 1, 124];
const EXIT_TIMEOUT: i64 = 124;

/// code.generate.{language}.script
pub(super) fn script(job: &mut Job<'_>) {
    parses(job, job.text("code"), job.slot("language"));
}

/// code.generate.{language}.function
pub(super) fn function(job: &mut Job<'_>) {
    let code = parses(job, job.text("code"), job.slot("language"));
    let Some((name, parameters)) = syntax::signature(job.param("signature")) else {
        return job.pass_but("signature_matches", "the signature names no function");
    };
    let found = code.function(name);
    let why = || format!("no function {name} is defined");
    job.check("signature_matches", found.is_some(), why);
    if let (Some(found), true) = (found, job.strict) {
        let why = || format!("{name} takes {found} parameters, not {parameters}");
        // Shell functions do not name theirs.
        let fits = found == parameters || job.slot("language") == "bash";
        job.check("parameters_match", fits, why);
    }
}

/// code.translate.{src}.{tgt}
pub(super) fn translated(job: &mut Job<'_>) {
    parses(job, job.text("code"), job.slot("tgt"));
    if job.strict && job.slot("src") != job.slot("tgt") {
        let same = job.text("code").trim() == job.param("code").trim();
        job.check("differs_from_source", !same, || "it is what went in".to_owned());
    }
}

/// code.test.{language}
pub(super) fn test(job: &mut Job<'_>) {
    let language = job.slot("language");
    let tests = parses(job, job.text("tests"), language);
    let names = Code::read(job.param("code"), language).definitions();
    match names.is_empty() {
        true => job.pass_but("references_code", "the code defines nothing by name"),
        false => {
            let known = names.iter().any(|name| tests.mentions(name));
            let why = || "nothing that the code defines is mentioned".to_owned();
            job.check("references_code", known, why);
        }
    }
    if job.strict {
        let text = job.text("tests");
        let words = ["assert", "expect", "should", "require", "Error", "Fatal", "fail", "verify"];
        let some = words.iter().any(|word| text.contains(word));
        job.check("has_assertions", some, || "nothing is asserted".to_owned());
    }
}

/// Whether code is what it should be, as far as can be told.
fn parses<'a>(job: &mut Job<'_>, text: &'a str, language: &'a str) -> Code<'a> {
    let code = Code::read(text, language);
    if job.strict {
        let fenced = text.lines().any(|line| line.trim_start().starts_with("```"));
        job.check("no_markdown_fence", !fenced, || "it is wrapped for a page".to_owned());
    }
    match code.parses() {
        Some(outcome) => {
            job.take("parses_as_language", outcome);
        }
        None => {
            let note = format!("there is no parser for {language} here: only its form was seen");
            job.pass_but("parses_as_language", &note);
            if job.strict {
                let why = || "a bracket has no partner".to_owned();
                job.check("brackets_match", code.brackets_match(), why);
            }
        }
    }
    code
}

/// code.review.{language}
pub(super) fn review(job: &mut Job<'_>) {
    let findings = job.result["findings"].as_array().map_or(&[][..], Vec::as_slice);
    let silent = findings.iter().any(|f| f["message"].as_str().unwrap_or("").trim().is_empty());
    job.check("messages_not_empty", !silent, || "a finding says nothing".to_owned());
    let lines = job.param("code").lines().count().max(1) as u64;
    let line = |finding: &Value| finding["line"].as_u64().unwrap_or(0);
    // v0 lets 0 stand for the whole and takes some lines too many.
    let (least, most) = if job.strict { (1, lines) } else { (0, lines + 1) };
    let outside = findings.iter().map(line).find(|line| !(least..=most).contains(line));
    let why = || format!("line {outside:?} of {lines}");
    job.check("lines_in_code", outside.is_none(), why);
    if job.strict {
        let mut keys: Vec<(u64, &str)> =
            findings.iter().map(|f| (line(f), f["message"].as_str().unwrap_or(""))).collect();
        keys.sort_unstable();
        keys.dedup();
        let once = keys.len() == findings.len();
        job.check("findings_distinct", once, || "one is there twice".to_owned());
    }
}

/// code.execute.sandboxed
pub(super) fn executed(job: &mut Job<'_>) {
    let exit_code = job.result["exit_code"].as_i64().unwrap_or(i64::MIN);
    let known = EXIT_CODES.contains(&exit_code);
    job.check("exit_code_known", known, || format!("{exit_code} is not 0, 1 or 124"));
    let timeout = job.params["timeout_ms"].as_u64().unwrap_or(TIMEOUT_MS);
    let took = job.result["duration_ms"].as_u64().unwrap_or(u64::MAX);
    let grace = if job.strict { GRACE_MS_V1 } else { GRACE_MS_V0 };
    let why = || format!("{took} ms, and {timeout} ms were allowed");
    job.check("duration_within_timeout", took <= timeout + grace, why);
    if !job.strict {
        return;
    }
    let out_of_time = exit_code == EXIT_TIMEOUT;
    let why = || format!("124 after {took} of {timeout} ms");
    job.check("timeout_took_its_time", !out_of_time || took + GRACE_MS_V1 >= timeout, why);
    let silent = exit_code == 1 && job.text("stderr").trim().is_empty();
    job.check("failure_explained", !silent, || "1 without a word on stderr".to_owned());
    let truncated = job.result["truncated"].as_bool() == Some(true);
    let empty = job.text("stdout").is_empty() && job.text("stderr").is_empty();
    job.check("truncation_plausible", !(truncated && empty), || "nothing is left".to_owned());
}
