//! Checks of size, words and places.

use super::{File, Finding};

const MAX_FILE_LINES: usize = 600;
const MAX_FUNCTION_LINES: usize = 70;
const MAX_COLUMNS: usize = 100;

/// A word this long cannot be broken: an address, a hash, a test vector.
const UNBREAKABLE: usize = 60;

/// Written in two halves, so that this file passes its own check.
const LEFT_TO_DO: &[&str] =
    &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("db", "g!"), concat!("to", "do!")];

const MACHINE_PATHS: &[&str] = &[concat!("/ro", "ot/"), concat!("/wo", "rk/")];

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(super) fn files_are_short(files: &[File]) -> Vec<Finding> {
    let files = files.iter().filter(|file| file.is_rust() && !file.is_test());
    files
        .filter_map(|file| {
            let lines = file.text_without_tests().lines().count();
            let what = format!("{lines} lines; {MAX_FILE_LINES} are enough");
            (lines > MAX_FILE_LINES).then(|| file.finding(MAX_FILE_LINES + 1, what))
        })
        .collect()
}

pub(super) fn functions_are_short(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() && !file.is_test()) {
        let code = file.lexed().code;
        let lines: Vec<&str> = code.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            if !begins_function(line) {
                continue;
            }
            let length = function_length(&lines[index..]);
            if length > MAX_FUNCTION_LINES {
                let what = format!("a function of {length} lines; {MAX_FUNCTION_LINES} are enough");
                findings.push(file.finding(index + 1, what));
            }
        }
    }
    findings
}

fn begins_function(line: &str) -> bool {
    let mut words = line.split_whitespace().skip_while(|word| {
        let word = word.split('(').next().unwrap_or_default();
        ["pub", "const", "async", "in", "crate)", "super)"].contains(&word)
    });
    words.next() == Some("fn")
}

/// The lines from the first to the one that closes the first brace; none when there is no body.
fn function_length(lines: &[&str]) -> usize {
    let (mut depth, mut opened) = (0, false);
    for (index, line) in lines.iter().enumerate() {
        for c in line.chars() {
            match c {
                '{' => (depth, opened) = (depth + 1, true),
                '}' => depth -= 1,
                ';' if !opened && line.trim_end().ends_with(';') => return 0,
                _ => {}
            }
        }
        if opened && depth <= 0 {
            return index + 1;
        }
    }
    0
}

pub(super) fn lines_are_short(files: &[File]) -> Vec<Finding> {
    let too_long = |line: &str| {
        line.chars().count() > MAX_COLUMNS
            && line.split_whitespace().all(|word| word.chars().count() < UNBREAKABLE)
    };
    let what = || format!("more than {MAX_COLUMNS} columns");
    let mut findings = find_lines(
        files,
        |file| file.is_rust() && !file.is_test(),
        |line| too_long(line).then(what),
    );
    // Examples in tests are easier to read in one piece.
    findings.extend(find_lines(
        files,
        |file| file.is_rust() && file.is_test(),
        |line| (too_long(line) && !line.contains('"')).then(what),
    ));
    findings
}

pub(super) fn no_mod_rs(files: &[File]) -> Vec<Finding> {
    let files = files.iter().filter(|file| file.path.ends_with("/mod.rs"));
    files.map(|file| file.finding(1, "name it after its module, beside its folder")).collect()
}

pub(super) fn nothing_left_to_do(files: &[File]) -> Vec<Finding> {
    find_lines(files, is_ours, |line| {
        let word = LEFT_TO_DO.iter().find(|word| has_word(line, word))?;
        Some(format!("{word}: do it, or write down elsewhere that it is to be done"))
    })
}

pub(super) fn no_trailing_space(files: &[File]) -> Vec<Finding> {
    let mut findings = find_lines(files, is_ours, |line| {
        line.ends_with([' ', '\t', '\r']).then(|| "white space at the end".to_owned())
    });
    let unended = files.iter().filter(|file| is_ours(file) && !file.text.is_empty());
    findings.extend(
        unended
            .filter(|file| !file.text.ends_with('\n') || file.text.ends_with("\n\n"))
            .map(|file| file.finding(file.text.lines().count(), "end with exactly one newline")),
    );
    findings
}

pub(super) fn no_machine_paths(files: &[File]) -> Vec<Finding> {
    let named = |line: &str, path: &str| {
        line.match_indices(path).any(|(at, _)| {
            // Part of a longer path or of an address otherwise.
            !line[..at].ends_with(|c: char| c.is_alphanumeric() || "-_.~>}*".contains(c))
        })
    };
    find_lines(files, is_ours, |line| {
        let path = MACHINE_PATHS.iter().find(|path| named(line, path))?;
        Some(format!("{path} is on one machine only"))
    })
}

pub(super) fn crates_io_only(files: &[File]) -> Vec<Finding> {
    let is_lock = |file: &File| file.path.ends_with("Cargo.lock");
    find_lines(files, is_lock, |line| {
        let source = line.strip_prefix("source = ")?.trim_matches('"');
        (source != CRATES_IO).then(|| format!("a crate from {source}"))
    })
}

pub(super) fn every_crate_takes_the_lints(files: &[File]) -> Vec<Finding> {
    let manifests = files.iter().filter(|file| {
        file.path.ends_with("/Cargo.toml") && file.text.lines().any(|line| line == "[package]")
    });
    manifests
        .filter(|file| !file.text.contains("\n[lints]\nworkspace = true\n"))
        .map(|file| file.finding(1, "add [lints] workspace = true"))
        .collect()
}

/// Licences and the lock file are written by others.
fn is_ours(file: &File) -> bool {
    !file.path.starts_with("LICENSE") && !file.path.ends_with("Cargo.lock")
}

fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        !line[..at].ends_with(is_part) && !line[at + word.len()..].starts_with(is_part)
    })
}

fn find_lines(
    files: &[File],
    which: impl Fn(&File) -> bool,
    judge: impl Fn(&str) -> Option<String>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| which(file)) {
        for (index, line) in file.text.split('\n').enumerate() {
            findings.extend(judge(line).map(|what| file.finding(index + 1, what)));
        }
    }
    findings
}
