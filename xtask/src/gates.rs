//! `cargo xtask test`: all that must hold before a change goes in, cheap gates first.

use std::path::Path;

use anyhow::{Result, bail};

use crate::steps::{Steps, cargo, cargo_with};
use crate::{arrows, setup, tidy};

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Options {
    long: bool,
    advisories: bool,
}

impl Options {
    pub(crate) fn parse(args: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        for arg in args {
            match *arg {
                "--long" => options.long = true,
                "--advisories" => options.advisories = true,
                other => bail!("`cargo xtask test` has no option {other}"),
            }
        }
        Ok(options)
    }
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<bool> {
    let mut steps = Steps::default();
    steps.run("setup", || setup::run(root).map(|()| true));
    steps.run("format", || cargo(root, &["fmt", "--all", "--check"]));
    steps.run("tidy", || tidy::run(root));
    steps.run("arrows", || arrows::run(root));
    steps.run("clippy", || {
        cargo(root, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
    });
    steps.run("doc", || {
        let deny = [("RUSTDOCFLAGS", "-D warnings")];
        cargo_with(root, &["doc", "--workspace", "--no-deps"], &deny)
    });
    steps.run("deny", || cargo(root, &["deny", "check", "bans", "licenses", "sources"]));
    if options.advisories {
        steps.run("advisories", || cargo(root, &["deny", "check", "advisories"]));
    } else {
        println!("\nadvisories: not asked; --advisories does, where their host can be reached");
    }
    steps.run("machete", || cargo(root, &["machete"]));
    let long = if options.long { &[("SKEP_TEST_LONG", "1")][..] } else { &[] };
    steps.run("test", || cargo_with(root, &["test", "--workspace"], long));
    Ok(steps.summary())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_its_options() {
        assert_eq!(Options::parse(&[]).unwrap(), Options::default());
        let both = Options { long: true, advisories: true };
        assert_eq!(Options::parse(&["--advisories", "--long"]).unwrap(), both);
        assert!(Options::parse(&["--lnog"]).is_err());
    }
}
