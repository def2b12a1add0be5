//! Numbers as JavaScript compares and prints them: other implementations run in it.

/// `Math.min`: what is no number stays none.
pub(super) const fn min(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) }
}

/// `Math.max`, which takes zero for more than minus zero.
pub(super) const fn max(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a == b {
        // Only zeros are equal and differ.
        if a.is_sign_negative() { b } else { a }
    } else {
        a.max(b)
    }
}

/// `String(value)`
pub(super) fn number(value: f64) -> String {
    let printed = skep_base::json::to_string(&value);
    printed.unwrap_or_else(|_| match value {
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        _ => "NaN".to_owned(),
    })
}

/// `JSON.stringify(value)`
pub(super) fn json_number(value: f64) -> String {
    if value.is_finite() { number(value) } else { "null".to_owned() }
}

/// `value.toFixed(1)`: halves go away from zero. Of all doubles only those that end in .25 or .75
/// lie in the middle, and Rust rounds the first of them towards zero.
pub(crate) fn to_fixed_1(value: f64) -> String {
    if !value.is_finite() || value.abs() >= 1e21 {
        return number(value);
    }
    if value.abs().fract() == 0.25 {
        let sign = if value < 0.0 { "-" } else { "" };
        return format!("{sign}{:.0}.3", value.abs().trunc());
    }
    // Minus zero is zero; what only rounds to it keeps its sign.
    let value = if value == 0.0 { 0.0 } else { value };
    format!("{value:.1}")
}
