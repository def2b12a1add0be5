//! Weather, search and prices: what was asked for, in ranges that occur on earth.

use serde_json::Value;
use skep_base::Timestamp;

use super::{currency, findings::Job};

/// Colder and hotter air has not been measured, in degrees Celsius.
const TEMPERATURE_MIN: f64 = -95.0;
const TEMPERATURE_MAX: f64 = 60.0;
/// 2020-01-01 and 2100-01-01, in seconds: before the market and long after this program.
const SECONDS_MIN: u64 = 1_577_836_800;
const SECONDS_MAX: u64 = 4_102_444_800;
/// Words that a forecast in one sentence has at least in v1.
const SUMMARY_WORDS_MIN: usize = 4;

/// data.lookup.weather.{format}
pub(super) fn weather(job: &mut Job<'_>) {
    match job.slot("format") {
        "geojson" => geojson(job),
        "summary-text" => {
            let words = job.text("summary").split_whitespace().count();
            let least = if job.strict { SUMMARY_WORDS_MIN } else { 1 };
            job.check("has_summary", words >= least, || format!("it has {words} words"));
            if job.strict {
                let digits = job.text("summary").contains(|c: char| c.is_ascii_digit());
                job.check("has_a_number", digits, || "it names no measurement".to_owned());
            }
        }
        _ => {
            let fields = temperature(job.result);
            check_temperature(job, &fields);
            if job.strict {
                let at = job.text("observed_at");
                job.check("observed_at_is_time", is_time(at), || format!("{at:?} is no time"));
            }
        }
    }
}

fn geojson(job: &mut Job<'_>) {
    let features: Vec<&Value> = match job.text("type") {
        "Feature" => vec![job.result],
        _ => job.result["features"].as_array().into_iter().flatten().collect(),
    };
    let why = || "a FeatureCollection needs features".to_owned();
    if !job.check("has_features", !features.is_empty(), why) {
        return;
    }
    let typed = features.iter().all(|f| f["type"] == "Feature" && f["properties"].is_object());
    job.check("features_well_formed", typed, || "one is no Feature with properties".to_owned());
    let on_earth = features.iter().all(|f| match f["geometry"]["coordinates"].as_array() {
        Some(pair) => match pair.as_slice() {
            [x, y, ..] if f["geometry"]["type"] == "Point" => {
                let within = |value: &Value, most: f64| {
                    value.as_f64().is_some_and(|value| value.abs() <= most)
                };
                within(x, 180.0) && within(y, 90.0)
            }
            // Other shapes are taken as they are in v0.
            _ => !job.strict && !pair.is_empty(),
        },
        None => false,
    });
    job.check("coordinates_on_earth", on_earth, || "one is not a point on earth".to_owned());
    let fields: Vec<(String, f64)> =
        features.iter().flat_map(|feature| temperature(&feature["properties"])).collect();
    check_temperature(job, &fields);
}

/// Every field that is called a temperature.
fn temperature(fields: &Value) -> Vec<(String, f64)> {
    let fields = fields.as_object().into_iter().flatten();
    fields
        .filter(|(name, _)| name.to_ascii_lowercase().starts_with("temp"))
        .filter_map(|(name, value)| Some((name.to_ascii_lowercase(), value.as_f64()?)))
        .collect()
}

fn check_temperature(job: &mut Job<'_>, fields: &[(String, f64)]) {
    let why = || "no field tells the temperature".to_owned();
    if !job.check("has_temperature", !fields.is_empty(), why) {
        return;
    }
    let odd = fields.iter().find(|(name, degrees)| {
        // Only what says so is in other degrees.
        let celsius = match name.rsplit('_').next() {
            Some("f" | "fahrenheit") => (degrees - 32.0) / 1.8,
            Some("k" | "kelvin") => degrees - 273.15,
            _ => *degrees,
        };
        !(TEMPERATURE_MIN..=TEMPERATURE_MAX).contains(&celsius)
    });
    let why = || format!("{odd:?} has not been measured on earth");
    job.check("temperature_in_range", odd.is_none(), why);
}

/// data.lookup.web-search
pub(super) fn web_search(job: &mut Job<'_>) {
    let results = job.result["results"].as_array().map_or(&[][..], Vec::as_slice);
    let urls: Vec<&str> = results.iter().filter_map(|found| found["url"].as_str()).collect();
    let bad = urls.iter().find(|url| !is_web_url(url));
    job.check("urls_well_formed", bad.is_none(), || format!("{bad:?} is no address"));
    if let Some(limit) = job.params["limit"].as_u64() {
        let why = || format!("{} results, and {limit} were asked for", urls.len());
        job.check("limit_honored", urls.len() as u64 <= limit, why);
    }
    if job.strict {
        let why = || "a search that found nothing has nothing to sell".to_owned();
        job.check("has_results", !urls.is_empty(), why);
        let mut once = urls.clone();
        once.sort_unstable();
        once.dedup();
        job.check("urls_distinct", once.len() == urls.len(), || "one is there twice".to_owned());
    }
}

/// data.lookup.stock-price
pub(super) fn stock(job: &mut Job<'_>) {
    same_name(job, "ticker");
    price(job);
    let code = job.text("currency");
    let known = match job.strict {
        true => currency::is_code(code),
        false => currency::is_code(&code.to_uppercase()),
    };
    job.check("currency_code", known, || format!("{code:?} is not in ISO 4217"));
    timestamp(job);
}

/// data.lookup.crypto-price
pub(super) fn crypto(job: &mut Job<'_>) {
    same_name(job, "symbol");
    price(job);
    let (got, asked) = (job.text("vs"), job.param("vs"));
    let asked = if asked.is_empty() { "usd" } else { asked };
    let why = || format!("{got:?}, and {asked:?} was asked for");
    job.check("vs_matches", got.eq_ignore_ascii_case(asked), why);
    timestamp(job);
}

fn same_name(job: &mut Job<'_>, field: &str) {
    let (got, asked) = (job.text(field), job.param(field));
    let why = || format!("{got:?}, and {asked:?} was asked for");
    job.check("symbol_matches", got.eq_ignore_ascii_case(asked), why);
}

fn price(job: &mut Job<'_>) {
    let price = job.number("price");
    let fine = price.is_finite() && price > 0.0;
    job.check("price_positive", fine, || format!("the price is {price}"));
}

/// A check has no clock; what it can see is whether the number is a time of these decades.
fn timestamp(job: &mut Job<'_>) {
    let time = job.result["timestamp"].as_u64().unwrap_or(0);
    let known = SECONDS_MIN..SECONDS_MAX;
    // v0 lets milliseconds through.
    let fine = known.contains(&time) || !job.strict && known.contains(&(time / 1000));
    let why = || format!("{time} is no time of these decades in seconds");
    job.check("timestamp_plausible", fine, why);
}

/// A date or a time of ISO 8601, with any offset.
pub(super) fn is_time(text: &str) -> bool {
    let Some(date) = text.get(..10) else { return false };
    let rest = &text[10..];
    let Some(clock) = rest.strip_prefix(['T', ' ']) else {
        return rest.is_empty() && format!("{date}T00:00:00Z").parse::<Timestamp>().is_ok();
    };
    let (clock, offset) = match clock.find(['Z', 'z', '+', '-']) {
        Some(at) => clock.split_at(at),
        None => (clock, "Z"),
    };
    let offset_is = |digits: &str| {
        let plain: String = digits.chars().filter(|c| *c != ':').collect();
        matches!(plain.len(), 2 | 4) && plain.bytes().all(|b| b.is_ascii_digit())
    };
    let zone = matches!(offset, "Z" | "z") || offset.get(1..).is_some_and(offset_is);
    let clock = if clock.len() == 5 { format!("{clock}:00") } else { clock.to_owned() };
    zone && format!("{date}T{clock}Z").parse::<Timestamp>().is_ok()
}

/// `http://` or `https://`, a host, and no space.
pub(super) fn is_web_url(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let Some(rest) = rest else { return false };
    let host = rest.split(['/', '?', '#']).next().unwrap_or("");
    let host = host.rsplit('@').next().unwrap_or("");
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        Some(_) if !host.starts_with('[') => return false,
        _ => host,
    };
    let printable = !url.contains(|c: char| c.is_whitespace() || c.is_control());
    printable && !name.is_empty() && !name.starts_with('.') && !name.contains("..")
}
