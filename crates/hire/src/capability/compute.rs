//! Numbers: computed again.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    expression::{self, Formula},
    findings::Job,
};

/// How far a number may be off, as a share of it.
const TOLERANCE_V0: f64 = 1e-6;
const TOLERANCE_V1: f64 = 1e-9;

/// compute.math.numeric
pub(super) fn number(job: &mut Job<'_>) {
    let result = job.number("result");
    if !job.check("finite", result.is_finite(), || "it is not a finite number".to_owned()) {
        return;
    }
    let value = expression::parse(job.param("expression"))
        .and_then(|formula| formula.value(&variables(job.params)));
    match value {
        Err(why) => {
            let note = format!("the expression cannot be computed here: {why}");
            job.pass_but("value_recomputed", &note);
        }
        Ok(value) if !value.is_finite() => {
            job.pass_but("value_recomputed", "the expression has no finite value");
        }
        Ok(value) => {
            let why = || format!("{result}, and it is {value}");
            let close = is_close(result, value, tolerance(job.strict));
            let rounded = job.params["precision"].as_u64().is_some_and(|digits| {
                let digits = i32::try_from(digits).unwrap_or(15);
                is_rounded(result, value, digits, job.strict)
            });
            job.check("value_recomputed", close || rounded, why);
            if let (Some(digits), true) = (job.params["precision"].as_u64(), job.strict) {
                let digits = i32::try_from(digits).unwrap_or(15);
                let fine = has_precision(result, digits) || is_rounded(result, value, digits, true);
                job.check("precision_honored", fine, || format!("{result} has more digits"));
            }
        }
    }
}

/// Whether a number is the value to so many decimals, or to so many digits: both are usual.
fn is_rounded(result: f64, value: f64, digits: i32, strict: bool) -> bool {
    let unit = 10_f64.powi(-digits);
    let magnitude = value.abs().max(f64::MIN_POSITIVE).log10().floor();
    let significant = 10_f64.powf(magnitude - f64::from(digits - 1));
    // A last digit that was cut off instead of rounded is fine in v0.
    let slack = if strict { 0.5 } else { 1.0 } + 1e-6;
    let apart = (result - value).abs();
    apart <= slack * unit || apart <= slack * significant
}

/// Whether a number has no more decimals, or digits, than were asked for.
fn has_precision(result: f64, digits: i32) -> bool {
    let scaled = result * 10_f64.powi(digits);
    (scaled - scaled.round()).abs() <= 1e-6 * scaled.abs().max(1.0)
}

/// compute.statistics.{op}
pub(super) fn statistic(job: &mut Job<'_>) {
    let result = job.number("result");
    if !job.check("finite", result.is_finite(), || "it is not a finite number".to_owned()) {
        return;
    }
    let mut data: Vec<f64> =
        job.params["data"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
    data.sort_by(f64::total_cmp);
    let tolerance = tolerance(job.strict);
    let mean = mean(&data);
    let close = |value: f64| is_close(result, value, tolerance);
    let (right, wanted) = match job.slot("op") {
        "mean" => (close(mean), mean),
        "median" => (close(median(&data)), median(&data)),
        "percentile-95" => {
            let (below, above, between) = percentile(&data, 0.95);
            // Between two neighbours there are several usual rules; v1 knows the common three.
            let right = match job.strict {
                true => close(between) || close(below) || close(above),
                false => (below - 1e-9..=above + 1e-9).contains(&result) || close(between),
            };
            (right, between)
        }
        op => {
            let squares: f64 = data.iter().map(|value| (value - mean).powi(2)).sum();
            let (population, sample) = match data.len() {
                1 => (0.0, 0.0),
                count => (squares / count as f64, squares / (count - 1) as f64),
            };
            let root = |value: f64| if op == "stddev" { value.sqrt() } else { value };
            let (population, sample) = (root(population), root(sample));
            // Who did not say which of the two gets either.
            match job.params["sample"].as_bool() {
                Some(true) => (close(sample), sample),
                Some(false) => (close(population), population),
                None => (close(sample) || close(population), sample),
            }
        }
    };
    job.check("value_recomputed", right, || format!("{result}, and it is {wanted}"));
}

fn mean(data: &[f64]) -> f64 {
    // Divided first, so that no sum of finite numbers becomes infinite.
    let count = data.len() as f64;
    data.iter().map(|value| value / count).sum()
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => sorted[middle - 1] / 2.0 + sorted[middle] / 2.0,
        _ => sorted[middle],
    }
}

/// The neighbours of a rank, and the point between them.
fn percentile(sorted: &[f64], share: f64) -> (f64, f64, f64) {
    let rank = share * (sorted.len() - 1) as f64;
    let (low, high) = (rank.floor() as usize, rank.ceil() as usize);
    let (below, above) = (sorted[low], sorted[high]);
    (below, above, below + (above - below) * (rank - rank.floor()))
}

fn tolerance(strict: bool) -> f64 {
    if strict { TOLERANCE_V1 } else { TOLERANCE_V0 }
}

pub(super) fn is_close(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * a.abs().max(b.abs()).max(1.0)
}

/// The variables with their values: numbers, or formulas of numbers.
pub(super) fn variables(params: &Value) -> BTreeMap<String, f64> {
    let vars = params["vars"].as_object().into_iter().flatten();
    vars.filter_map(|(name, value)| {
        let value = match value {
            Value::String(text) => {
                expression::parse(text).and_then(|formula: Formula| formula.value(&BTreeMap::new()))
            }
            other => other.as_f64().ok_or_else(String::new),
        };
        Some((name.clone(), value.ok()?))
    })
    .collect()
}
