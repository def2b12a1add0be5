//! `skep work`: small programs that do real work, to try selling with. Parameters come as JSON on
//! stdin, the result goes as JSON to stdout, as `skep sell` wants it of any program.

mod chart;
mod summary;

use std::io::{Read, Write};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde_json::{Value, json};

/// The most that is read, in bytes.
const PARAMS_LEN_MAX: u64 = 16 * 1024 * 1024;
/// Tells a program which of its capabilities it is hired for.
const CAPABILITY: &str = "SKEP_CAPABILITY";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Job {
    /// chart.generate.from-data: draws a bar, line or pie chart as PNG
    Chart,
    /// compute.statistics.*: mean, median, stddev, variance, percentile-95
    Statistics,
    /// text.summarize.*: picks the sentences that say most
    Summarize,
}

/// Do a piece of work: parameters as JSON on stdin, the result on stdout
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    skep sell compute.statistics.mean --price 0.01 -- skep work statistics")]
pub struct WorkArgs {
    job: Job,
    /// Which capability it is done for, where one program serves several
    #[arg(long, env = CAPABILITY, default_value = "")]
    capability: String,
}

impl WorkArgs {
    pub fn run(self, out: &mut dyn Write) -> Result<()> {
        let mut text = String::new();
        std::io::stdin().take(PARAMS_LEN_MAX).read_to_string(&mut text)?;
        let params: Value = serde_json::from_str(&text).context("the parameters are no JSON")?;
        let last = self.capability.rsplit('.').next().unwrap_or_default();
        let result = match self.job {
            Job::Chart => chart::draw(&serde_json::from_value(params)?)?,
            Job::Statistics => statistics(last, &serde_json::from_value(params)?)?,
            Job::Summarize => summary::of(last, params["text"].as_str().unwrap_or_default()),
        };
        Ok(writeln!(out, "{result}")?)
    }
}

#[derive(Debug, Deserialize)]
struct Numbers {
    data: Vec<f64>,
    #[serde(default)]
    sample: bool,
}

fn statistics(op: &str, numbers: &Numbers) -> Result<Value> {
    let mut data = numbers.data.clone();
    if data.is_empty() {
        bail!("there are no numbers");
    }
    data.sort_by(f64::total_cmp);
    let count = data.len() as f64;
    let mean = data.iter().map(|value| value / count).sum::<f64>();
    let squares: f64 = data.iter().map(|value| (value - mean).powi(2)).sum();
    let divisor = if numbers.sample { count - 1.0 } else { count };
    let variance = if data.len() == 1 { 0.0 } else { squares / divisor };
    let at = |share: f64| {
        let rank = share * (count - 1.0);
        let (low, high) = (data[rank.floor() as usize], data[rank.ceil() as usize]);
        low + (high - low) * rank.fract()
    };
    let result = match op {
        "mean" => mean,
        "median" => at(0.5),
        "stddev" => variance.sqrt(),
        "variance" => variance,
        "percentile-95" => at(0.95),
        other => bail!("there is no statistic {other:?}"),
    };
    Ok(json!({ "result": result }))
}
