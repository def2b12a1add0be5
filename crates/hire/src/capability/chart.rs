//! chart.generate.from-data

use super::{findings::Job, image};
use crate::media::{Drawing, PICTURE_LEN_MAX};

/// A picture of the size that was asked for, which shows something. v0 takes an SVG too.
pub(super) fn drawn(job: &mut Job<'_>) {
    let said = (job.result["width"].as_u64(), job.result["height"].as_u64());
    let wanted = (job.params["width"].as_u64(), job.params["height"].as_u64());
    let why = || format!("{said:?} is stated, {wanted:?} was asked for");
    job.check("declared_dimensions_match", said == wanted, why);
    let (kind, asked) = (job.text("chart_type"), job.param("chart_type"));
    job.check("chart_type_matches", kind == asked, || format!("{kind:?}, not {asked:?}"));
    let Some(bytes) = image::file(job, "image_b64", PICTURE_LEN_MAX) else { return };
    if !job.strict && bytes.trim_ascii_start().starts_with(b"<") {
        return as_drawing(job, &bytes, wanted);
    }
    let Some(header) = image::png_header(job, &bytes) else { return };
    let got = (Some(u64::from(header.width)), Some(u64::from(header.height)));
    if !job.check("dimensions_match", got == wanted, || image::mismatch(header, wanted)) {
        return;
    }
    let Some(picture) = job.take("png_decodes", header.decode(&bytes)) else { return };
    image::shows_something(job, &picture, &bytes);
}

fn as_drawing(job: &mut Job<'_>, bytes: &[u8], wanted: (Option<u64>, Option<u64>)) {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string());
    let Some(drawing) = job.take("svg_parses", text.and_then(Drawing::read)) else { return };
    job.check("not_blank", drawing.shapes > 0, || "nothing is drawn".to_owned());
    let is = |side: Option<f64>, wanted: Option<u64>| {
        side.is_none_or(|side| wanted.is_some_and(|wanted| (side - wanted as f64).abs() < 1.0))
    };
    let fits = is(drawing.width, wanted.0) && is(drawing.height, wanted.1);
    let why = || format!("{:?} by {:?}", drawing.width, drawing.height);
    job.check("dimensions_match", fits, why);
    image::is_harmless(job, &drawing);
}
