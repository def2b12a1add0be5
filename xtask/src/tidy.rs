//! The rules of the house that no other tool holds, each a named check with a planted fault in
//! its test.

mod lex;
mod rules;
mod sql;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use lex::{Lexed, lex};

/// A text file of the repository, by its path from the top.
struct File {
    path: String,
    text: String,
}

struct Finding {
    path: String,
    line: usize,
    what: String,
}

type Check = fn(&[File]) -> Vec<Finding>;

const CHECKS: &[(&str, Check)] = &[
    ("files are short", rules::files_are_short),
    ("functions are short", rules::functions_are_short),
    ("lines are short", rules::lines_are_short),
    ("no mod.rs", rules::no_mod_rs),
    ("nothing is left to do", rules::nothing_left_to_do),
    ("no trailing white space", rules::no_trailing_space),
    ("no paths of one machine", rules::no_machine_paths),
    ("crates.io only", rules::crates_io_only),
    ("every crate takes the lints", rules::every_crate_takes_the_lints),
    ("SQL is in lower case", sql::is_in_lower_case),
    ("SQL is in its place", sql::is_in_its_place),
    ("migrations are twins", sql::migrations_are_twins),
];

/// Prints every finding; whether there is none.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let files = File::all(root)?;
    let mut clean = true;
    for (name, check) in CHECKS {
        for Finding { path, line, what } in check(&files) {
            eprintln!("{path}:{line}: {what} [{name}]");
            clean = false;
        }
    }
    Ok(clean)
}

impl File {
    /// What git keeps or would keep. What is not text is not ours to judge.
    fn all(root: &Path) -> Result<Vec<Self>> {
        let output = Command::new("git")
            // A checkout that belongs to another user is judged like any other.
            .args(["-c", "safe.directory=*", "ls-files", "-z"])
            .args(["--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .context("git did not start")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "git ls-files failed: {stderr}");
        let paths = String::from_utf8(output.stdout)?;
        let mut paths: Vec<&str> = paths.split_terminator('\0').collect();
        paths.sort_unstable();
        paths.dedup();
        // A file that was deleted but not yet committed is still in the list.
        Ok(paths
            .into_iter()
            .filter_map(|path| {
                let text = std::fs::read_to_string(root.join(path)).ok()?;
                Some(Self { path: path.to_owned(), text })
            })
            .collect())
    }

    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Files that hold nothing but tests.
    fn is_test(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.contains("/tests/")
    }

    /// The text before the test module at its end, when that is not a file of its own.
    fn text_without_tests(&self) -> &str {
        let mut markers = self.text.match_indices("\n#[cfg(test)]\nmod ");
        let begins_module = |at: &usize| {
            let rest = self.text[*at..].lines().nth(2);
            rest.is_some_and(|line| line.ends_with('{'))
        };
        match markers.find_map(|(at, _)| Some(at).filter(begins_module)) {
            Some(end) => &self.text[..=end],
            None => &self.text,
        }
    }

    fn lexed(&self) -> Lexed {
        lex(self.text_without_tests())
    }

    fn finding(&self, line: usize, what: impl Into<String>) -> Finding {
        Finding { path: self.path.clone(), line, what: what.into() }
    }
}

#[cfg(test)]
mod tests;
