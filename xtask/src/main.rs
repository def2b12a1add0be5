//! The work on this repository that is not in the program itself: `cargo xtask help`.

mod arrows;
mod gates;
mod interop;
mod setup;
mod steps;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

const HELP: &str = "\
cargo xtask setup                        install by name what the tests need and is missing
cargo xtask test [--long] [--advisories] setup, then every gate and every test
cargo xtask tidy                         the rules of the house and the directions between crates
cargo xtask bench [WHAT...]              the published benchmarks, in release

--long        the tests with large numbers, too (SKEP_TEST_LONG=1)
--advisories  also asks the advisory database, for which its host must be reachable
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all went well; an error is what kept it from being found out.
fn run(args: &[&str]) -> Result<bool> {
    let root = root()?;
    match args {
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(true)
        }
        ["setup"] => setup::run(&root).map(|()| true),
        ["test", options @ ..] => gates::run(&root, &gates::Options::parse(options)?),
        ["tidy"] => Ok(tidy::run(&root)? & arrows::run(&root)?),
        ["bench", what @ ..] => {
            let args = [&["run", "--release", "--", "bench"], what].concat();
            steps::cargo(&root, &args)
        }
        [other, ..] => bail!("there is no command {other}\n\n{HELP}"),
    }
}

/// Asked of cargo first: with a shared target folder, who compiled us may have been elsewhere.
fn root() -> Result<PathBuf> {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let here = here.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).to_owned());
    Ok(here.parent().context("xtask lies in the workspace")?.to_owned())
}
