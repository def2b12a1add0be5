//! Numbers as Python prints them, because AIVS hashes them so.

/// Where Python changes to an exponent, as powers of ten.
const FIXED: std::ops::Range<i32> = -4..16;

/// `repr` of a float: the shortest digits that give it back, and of two such the even one, which
/// is JavaScript's rule too and not that of Rust's own printing.
pub(super) fn python(value: f64) -> Option<String> {
    if !value.is_finite() {
        return None;
    }
    if value == 0.0 {
        return Some(if value.is_sign_negative() { "-0.0" } else { "0.0" }.to_owned());
    }
    let mut buffer = ryu_js::Buffer::new();
    let text = buffer.format_finite(value.abs());
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    let significant = all.trim_start_matches('0');
    let leading = i32::try_from(all.len() - significant.len()).ok()?;
    // The power of ten that the first digit stands for.
    let power = exponent + i32::try_from(whole.len()).ok()? - 1 - leading;
    let digits = significant.trim_end_matches('0');
    let sign = if value < 0.0 { "-" } else { "" };
    Some(sign.to_owned() + &layout(digits, power))
}

fn layout(digits: &str, power: i32) -> String {
    if !FIXED.contains(&power) {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let sign = if power < 0 { '-' } else { '+' };
        return format!("{first}{point}{rest}e{sign}{:02}", power.abs());
    }
    if power < 0 {
        return format!("0.{}{digits}", "0".repeat(power.unsigned_abs() as usize - 1));
    }
    let whole = power.unsigned_abs() as usize + 1;
    match digits.len() > whole {
        true => format!("{}.{}", &digits[..whole], &digits[whole..]),
        false => format!("{digits}{}.0", "0".repeat(whole - digits.len())),
    }
}

/// A JSON number as Python prints it after it has read it: one without point and exponent is an
/// integer there.
pub(super) fn as_python(text: &str) -> Option<String> {
    let is_integer = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    match is_integer {
        true => text.parse::<i64>().ok().map(|number| number.to_string()),
        // The standard library rounds correctly, which not every JSON reader does.
        false => python(text.parse().ok()?),
    }
}
