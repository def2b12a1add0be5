//! Embeddings and classifications.

use serde_json::Value;

use super::{findings::Job, label};

/// How many numbers well-known models give.
const DIMENSIONS: &[(&str, u64)] = &[
    ("text-embedding-3-small", 1536),
    ("text-embedding-3-large", 3072),
    ("text-embedding-ada-002", 1536),
    ("all-minilm-l6-v2", 384),
    ("clip-vit-b-32", 512),
    ("clip-vit-l-14", 768),
    ("siglip-base", 768),
];
/// Models that promise vectors of length one.
const UNIT: &str = "text-embedding-";
const NORM_TOLERANCE: f64 = 0.01;
/// How far the confidences' sum may be from one.
const SUM_TOLERANCE_V0: f64 = 0.05;
const SUM_TOLERANCE_V1: f64 = 0.01;
/// The winner of three has at least a third, the winner of two a half.
const SENTIMENT_MIN: f64 = 1.0 / 3.0;
const TOXICITY_MIN: f64 = 0.5;

/// embed.text.{model} and embed.image.{model}
pub(super) fn embedded(job: &mut Job<'_>) {
    let vector: Vec<f64> =
        job.result["vector"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
    let dim = job.result["dim"].as_u64().unwrap_or(0);
    let length = vector.len() as u64;
    job.check("dim_matches", length == dim, || format!("{length} numbers, {dim} are stated"));
    let model = job.slot("model");
    // A buyer may ask for fewer; else a known model gives what it gives.
    let known = DIMENSIONS.iter().find(|(name, _)| *name == model).map(|(_, dim)| *dim);
    let asked = job.params["dimensions"].as_u64();
    if let Some(wanted) = asked.or(known) {
        job.check("model_dimension", dim == wanted, || format!("{dim}, not {wanted}"));
    }
    let even = vector.iter().all(|number| *number == vector[0]);
    job.check("not_constant", length == 1 || !even, || "all numbers are equal".to_owned());
    let finite = vector.iter().all(|number| number.is_finite());
    job.check("finite", finite, || "one number is not finite".to_owned());
    if job.strict {
        let norm = vector.iter().map(|number| number * number).sum::<f64>().sqrt();
        job.check("norm_in_range", norm.is_normal(), || format!("its length is {norm}"));
        if model.starts_with(UNIT) {
            let unit = (norm - 1.0).abs() <= NORM_TOLERANCE;
            job.check("unit_norm", unit, || format!("its length is {norm:.4}, not 1"));
        }
    }
}

/// classify.image.{taxonomy} and classify.text.{taxonomy}
pub(super) fn classified(job: &mut Job<'_>) {
    let labels: Vec<(&str, f64)> = job.result["labels"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|entry| Some((entry["label"].as_str()?, entry["confidence"].as_f64()?)))
        .collect();
    let sum: f64 = labels.iter().map(|(_, confidence)| confidence).sum();
    let tolerance = if job.strict { SUM_TOLERANCE_V1 } else { SUM_TOLERANCE_V0 };
    let why = || format!("the confidences add up to {sum:.3}");
    job.check("confidence_sum", (sum - 1.0).abs() <= tolerance, why);
    let asked: Option<Vec<&str>> = job.params["labels"]
        .as_array()
        .map(|labels| labels.iter().filter_map(Value::as_str).collect());
    let known = asked.or_else(|| label::known(job.slot("taxonomy")).map(<[&str]>::to_vec));
    match known {
        Some(known) => {
            let strange = labels.iter().find(|(label, _)| !known.contains(label));
            let why = || format!("{strange:?} is not in the taxonomy");
            job.check("labels_in_taxonomy", strange.is_none(), why);
        }
        None => job.pass_but("labels_in_taxonomy", "nobody has listed this taxonomy's labels"),
    }
    if job.strict {
        let sorted = labels.is_sorted_by(|a, b| a.1 >= b.1);
        job.check("sorted_by_confidence", sorted, || "the best is not first".to_owned());
        let mut names: Vec<&str> = labels.iter().map(|(label, _)| *label).collect();
        names.sort_unstable();
        names.dedup();
        let once = names.len() == labels.len();
        job.check("labels_distinct", once, || "one is there twice".to_owned());
    }
}

/// classify.text.sentiment
pub(super) fn sentiment(job: &mut Job<'_>) {
    let confidence = job.number("confidence");
    in_range(job, confidence);
    if job.strict {
        let why = || format!("{confidence} is too little for the best of three");
        job.check("confidence_plausible", confidence >= SENTIMENT_MIN - 1e-9, why);
    }
}

/// classify.text.toxicity
pub(super) fn toxicity(job: &mut Job<'_>) {
    let confidence = job.number("confidence");
    in_range(job, confidence);
    if job.strict {
        let why = || format!("{confidence} is too little for the better of two");
        job.check("confidence_plausible", confidence >= TOXICITY_MIN - 1e-9, why);
    }
}

fn in_range(job: &mut Job<'_>, confidence: f64) {
    let fine = (0.0..=1.0).contains(&confidence);
    job.check("confidence_in_range", fine, || format!("{confidence} is not in 0 to 1"));
}
