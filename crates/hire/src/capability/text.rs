//! Texts: length, language, and that something was done.

use std::collections::BTreeSet;

use super::{
    findings::Job,
    language::{self, Heard},
    name,
};

/// Texts of so many letters are expected to change.
const CHANGES_FROM: usize = 20;
/// A text that is made of more than so many copies of one word is none, in percent.
const REPETITION_PERCENT_MAX: usize = 60;
const REPETITION_FROM: usize = 12;
/// So much of what a factor asks for is enough, in percent.
const EXPANDED_PERCENT: f64 = 80.0;

/// text.translate.{src}.{tgt}.{level}
pub(super) fn translated(job: &mut Job<'_>) {
    let (before, after) = (job.param("text"), job.text("text"));
    if !not_empty(job, after) {
        return;
    }
    let (source, target) = (job.slot("src"), job.slot("tgt"));
    between(job, count(before), count(after), 30, 300);
    in_language(job, after, target);
    if job.strict {
        if source != target {
            differs(job, "differs_from_source", before, after);
        }
        if let Some(said) = job.result["detected_lang"].as_str() {
            let why = || format!("{said:?} is neither the source nor a code");
            job.check("detected_language", said == source || language::is_code(said), why);
        }
        not_repetitive(job, after);
    }
}

/// text.summarize.*: in percent of the words.
pub(super) fn summarized(job: &mut Job<'_>, least: u64, most: u64) {
    let (before, after) = (job.param("text"), job.text("summary"));
    if !not_empty(job, after) {
        return;
    }
    let (words_before, words_after) = (words(before), words(after));
    // Short inputs leave no room: one word always is.
    let upper = (words_before * most).div_ceil(100).max(1);
    let lower = (words_before * least / 100).max(1);
    let why = || format!("{words_after} words, not {lower} to {upper} for {words_before}");
    job.check("length_ratio", (lower..=upper).contains(&words_after), why);
    if job.strict {
        not_repetitive(job, after);
        let known: BTreeSet<String> = vocabulary(before).collect();
        let (shared, all) = vocabulary(after).fold((0, 0), |(shared, all), word| {
            (shared + usize::from(known.contains(&word)), all + 1)
        });
        // A summary speaks of the same things: some of its longer words are in the text.
        let about = all < 5 || shared * 10 >= all;
        let why = || format!("{shared} of its {all} longer words are in the text");
        job.check("about_the_text", about, why);
    }
}

/// text.rewrite.formal and .casual
pub(super) fn rewritten(job: &mut Job<'_>, formal: bool) {
    let (before, after) = (job.param("text"), job.text("text"));
    if !not_empty(job, after) {
        return;
    }
    if formal || job.strict {
        let (least, most) = if formal { (50, 200) } else { (30, 300) };
        between(job, count(before), count(after), least, most);
    }
    if job.strict {
        differs(job, "differs_from_source", before, after);
        not_repetitive(job, after);
    }
}

/// text.expand.{factor}
pub(super) fn expanded(job: &mut Job<'_>) {
    let (before, after) = (job.param("text"), job.text("text"));
    if !not_empty(job, after) {
        return;
    }
    let factor = name::factor(job.slot("factor")).unwrap_or(1.0);
    let (long, short) = (count(after), count(before));
    let least = (short as f64 * factor * EXPANDED_PERCENT / 100.0).floor() as u64;
    let why = || format!("{long} characters, and at least {least} were asked for");
    job.check("length_ratio", long >= least, why);
    if job.strict {
        not_repetitive(job, after);
    }
}

/// Whether a text is in a language, as far as can be told.
pub(super) fn in_language(job: &mut Job<'_>, text: &str, code: &str) {
    match language::hear(text, code, job.strict) {
        Heard::Right => {
            job.check("language_matches_text", true, String::new);
        }
        Heard::Open(note) => job.pass_but("language_matches_text", note),
        Heard::Wrong(why) => {
            job.check("language_matches_text", false, || why);
        }
    }
}

fn not_empty(job: &mut Job<'_>, text: &str) -> bool {
    job.check("not_empty", !text.trim().is_empty(), || "there is no text".to_owned())
}

/// Lengths in percent of what went in. Writings differ in how much a sign says, so one character
/// more or less never decides.
fn between(job: &mut Job<'_>, before: u64, after: u64, least: u64, most: u64) {
    let fits = after * 100 + 100 >= before * least && after * 100 <= before * most + 100;
    let why = || format!("{after} characters, not {least} to {most} per cent of {before}");
    job.check("length_ratio", fits, why);
}

fn differs(job: &mut Job<'_>, name: &'static str, before: &str, after: &str) {
    let letters = before.chars().filter(|c| c.is_alphabetic()).count();
    let same = before.trim() == after.trim();
    job.check(name, letters < CHANGES_FROM || !same, || "it is what went in".to_owned());
}

fn not_repetitive(job: &mut Job<'_>, text: &str) {
    let mut all: Vec<&str> = text.split_whitespace().collect();
    all.sort_unstable();
    let most = all.chunk_by(|a, b| a == b).map(<[&str]>::len).max().unwrap_or(0);
    let fine = all.len() < REPETITION_FROM || most * 100 <= all.len() * REPETITION_PERCENT_MAX;
    let why = || format!("one word makes {most} of its {} words", all.len());
    job.check("not_repetitive", fine, why);
}

/// Characters, those of dense writings counted twice: one of them says what several letters say.
fn count(text: &str) -> u64 {
    text.chars().map(|c| if language::is_dense(c) { 2 } else { 1 }).sum()
}

/// Words; where writing has no spaces, each sign counts as one.
fn words(text: &str) -> u64 {
    let of = |word: &str| (word.chars().filter(|c| language::is_dense(*c)).count() as u64).max(1);
    text.split_whitespace().map(of).sum()
}

/// The longer words, which carry what a text is about.
fn vocabulary(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.chars().count() >= 5)
        .map(str::to_lowercase)
}
