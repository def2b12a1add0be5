//! `skep conformance`: a spec's own checklist, each line shown by a check that runs now.

/// Runs a check and makes its line.
macro_rules! line {
    (
        $world:ident,
        $level:ident $clause:literal $requirement:literal => $module:ident :: $check:ident
    ) => {{
        let seen = $module::$check(&$world).await;
        $crate::conformance::Line {
            level: $level,
            clause: $clause,
            requirement: $requirement,
            check: concat!(stringify!($module), "::", stringify!($check)),
            passed: seen.is_ok(),
            seen: seen.unwrap_or_else(|error| format!("{error:#}")),
        }
    }};
}

mod asip;
mod shp;
mod swarmscore;
mod vcap;

use std::io::Write;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde::Serialize;

/// Run a spec's checklist against a fresh node of this program
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  skep conformance vcap --json
  skep conformance shp
  skep conformance swarmscore
  skep conformance asip")]
pub struct ConformanceArgs {
    #[command(subcommand)]
    command: Spec,
}

#[derive(Debug, Subcommand)]
enum Spec {
    /// VCAP (draft-stone-vcap-01): the checklist of 12.2 and the levels of 12.1
    Vcap,
    /// SHP (swarmwage/v0.3), clause by clause, since it has no checklist of its own
    Shp,
    /// SwarmScore v1.0 with ATEP: the four levels of 14.2
    Swarmscore,
    /// ASIP (/openswarm/1.0.0), message by message, since it has no checklist of its own
    Asip,
}

/// One line of a report.
#[derive(Debug, Serialize)]
pub struct Line {
    /// The level that needs it.
    pub level: &'static str,
    /// Where the spec says it.
    pub clause: &'static str,
    pub requirement: &'static str,
    /// The check that ran.
    pub check: &'static str,
    pub passed: bool,
    /// What the check saw, or what went wrong.
    pub seen: String,
}

/// Where this program does something else than the letter of the spec, and why.
#[derive(Debug, Serialize)]
pub struct Deviation {
    pub clause: &'static str,
    pub deviation: &'static str,
}

#[derive(Debug, Serialize)]
pub struct Report {
    pub spec: &'static str,
    /// The same in one word.
    #[serde(skip)]
    pub name: &'static str,
    /// The levels that are reached.
    pub levels: Vec<(&'static str, bool)>,
    pub lines: Vec<Line>,
    pub deviations: Vec<Deviation>,
}

impl ConformanceArgs {
    pub async fn run(self, json: bool, out: &mut dyn Write) -> Result<()> {
        let report = match self.command {
            Spec::Vcap => vcap::report().await?,
            Spec::Shp => shp::report().await?,
            Spec::Swarmscore => swarmscore::report().await?,
            Spec::Asip => asip::report().await?,
        };
        if json {
            writeln!(out, "{}", serde_json::to_string(&report)?)?;
        } else {
            print(&report, out)?;
        }
        if report.lines.iter().any(|line| !line.passed) {
            bail!("not everything that {} asks for was shown", report.spec);
        }
        Ok(())
    }
}

fn print(report: &Report, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{}\n", report.spec)?;
    for line in &report.lines {
        let mark = if line.passed { "ok  " } else { "FAIL" };
        writeln!(out, "{mark} {:<9} {:<9} {}", line.level, line.clause, line.requirement)?;
        writeln!(out, "     {}: {}", line.check, line.seen)?;
    }
    writeln!(out)?;
    for (level, reached) in &report.levels {
        writeln!(out, "{} {} {level}", if *reached { "ok  " } else { "FAIL" }, report.name)?;
    }
    writeln!(out, "\nDeviations from the letter of the spec:")?;
    for deviation in &report.deviations {
        writeln!(out, "  {:<9} {}", deviation.clause, deviation.deviation)?;
    }
    Ok(())
}
