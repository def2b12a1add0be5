//! Pictures: really decoded, and held against what was asked for.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

use super::{NotVerifiable, findings::Job, taxonomy::Kind};
use crate::media::{self, Drawing, Format, Header, PICTURE_LEN_MAX, Picture};

/// How far an enlarged picture's parts may be from the original's, in levels of grey.
const LIKENESS_MAX: f64 = 16.0;
/// In so many pixels of a thousand a mask and an alpha channel must agree.
const AGREEMENT_MIN: u64 = 980;

/// Whether a seller can work with the picture that came in.
pub(super) fn input_fits(kind: Kind, params: &Value) -> Result<(), String> {
    let takes_picture = matches!(
        kind,
        Kind::BackgroundRemove | Kind::Upscale(_) | Kind::EmbedImage | Kind::ClassifyImage
    );
    if !takes_picture {
        return Ok(());
    }
    let bytes = decode_base64(params["image_b64"].as_str().unwrap_or(""))?;
    let header = Header::read(&bytes).map_err(|why| format!("image_b64: {why}"))?;
    header.fits().map_err(|why| format!("image_b64: {why}"))?;
    if let Kind::Upscale(factor) = kind {
        let width = header.width.saturating_mul(factor);
        let height = header.height.saturating_mul(factor);
        let enlarged = Header { width, height, ..header };
        enlarged.fits().map_err(|why| format!("image_b64, {factor} times as large: {why}"))?;
    }
    Ok(())
}

fn decode_base64(text: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(text).map_err(|error| format!("it is not base64: {error}"))
}

/// The bytes of a file in a field of the result.
pub(super) fn file(job: &mut Job<'_>, field: &str, most: usize) -> Option<Vec<u8>> {
    let bytes = job.take("valid_base64", decode_base64(job.text(field)))?;
    let fits = bytes.len() < most;
    let why = || format!("{} bytes, and {most} are the limit", bytes.len());
    job.check("file_size_below_limit", fits, why).then_some(bytes)
}

/// Image generation: a PNG of the right size that shows something.
pub(super) fn generated(job: &mut Job<'_>) {
    let Some(bytes) = file(job, "image_b64", PICTURE_LEN_MAX) else { return };
    let Some(header) = png_header(job, &bytes) else { return };
    let wanted = (job.params["width"].as_u64(), job.params["height"].as_u64());
    let got = (Some(u64::from(header.width)), Some(u64::from(header.height)));
    if !job.check("dimensions_match", got == wanted, || mismatch(header, wanted)) {
        return;
    }
    if job.capability.kind == Kind::Photo {
        let said = (job.result["width"].as_u64(), job.result["height"].as_u64());
        job.check("declared_dimensions_match", got == said, || mismatch(header, said));
    }
    let Some(picture) = job.take("png_decodes", header.decode(&bytes)) else { return };
    shows_something(job, &picture, &bytes);
}

/// A header that says PNG and no more than can be unpacked.
pub(super) fn png_header(job: &mut Job<'_>, bytes: &[u8]) -> Option<Header> {
    if !job.check("valid_png_magic", media::is_png(bytes), || "it is not a PNG".to_owned()) {
        return None;
    }
    let header = Header::read(bytes).and_then(|header| header.fits().map(|()| header));
    job.take("dimensions_within_limits", header)
}

/// Not one colour; in v1 something that can be seen from afar, and a file that ends as it should.
pub(super) fn shows_something(job: &mut Job<'_>, picture: &Picture, bytes: &[u8]) {
    job.check("not_blank", !picture.is_blank(), || "it shows one colour".to_owned());
    if job.strict {
        let structured = picture.has_structure();
        let hash = picture.hash();
        let why = || format!("its perceptual hash {hash:016x} is that of an even surface");
        job.check("perceptual_hash", structured, why);
        if media::is_png(bytes) {
            let why = || "it does not end with the last chunk of a PNG".to_owned();
            job.check("complete_file", media::png_is_complete(bytes), why);
        }
    }
}

pub(super) fn mismatch(header: Header, wanted: (Option<u64>, Option<u64>)) -> String {
    let Header { width, height, .. } = header;
    let (w, h) = (wanted.0.unwrap_or(0), wanted.1.unwrap_or(0));
    format!("the picture is {width} by {height}, not {w} by {h}")
}

/// image.generate.illustration.svg
pub(super) fn drawn(job: &mut Job<'_>) {
    let Some(drawing) = job.take("svg_parses", Drawing::read(job.text("svg"))) else { return };
    let paths = drawing.paths;
    job.check("has_path", paths > 0, || "it has no path element".to_owned());
    if let Some(most) = job.params["max_paths"].as_u64() {
        let fits = paths as u64 <= most;
        job.check("max_paths", fits, || format!("{paths} paths, and {most} are allowed"));
    }
    if job.strict {
        is_harmless(job, &drawing);
        let bad = drawing.bad_paths;
        job.check("path_data_valid", bad == 0, || format!("{bad} paths have no path data"));
    }
}

pub(super) fn is_harmless(job: &mut Job<'_>, drawing: &Drawing) {
    let script = drawing.script.as_deref();
    job.check("no_scripts", script.is_none(), || format!("it has {}", script.unwrap_or("")));
    let outside = drawing.outside.as_deref();
    let why = || format!("it refers to {}", outside.unwrap_or(""));
    job.check("no_outside_references", outside.is_none(), why);
}

/// What the buyer sent: if that cannot be read, no seller can be blamed.
fn original(job: &Job<'_>, whole: bool) -> Result<(Header, Option<Picture>), NotVerifiable> {
    let unreadable = |why| NotVerifiable(format!("the picture in the params: {why}"));
    let bytes = decode_base64(job.param("image_b64")).map_err(unreadable)?;
    let header = Header::read(&bytes).map_err(unreadable)?;
    let picture = whole.then(|| header.decode(&bytes)).transpose().map_err(unreadable)?;
    Ok((header, picture))
}

/// image.edit.background-remove
pub(super) fn cut_out(job: &mut Job<'_>) -> Result<(), NotVerifiable> {
    let (before, _) = original(job, false)?;
    let size = (Some(u64::from(before.width)), Some(u64::from(before.height)));
    let Some(bytes) = file(job, "image_b64", PICTURE_LEN_MAX) else { return Ok(()) };
    let Some(header) = png_header(job, &bytes) else { return Ok(()) };
    let same = (header.width, header.height) == (before.width, before.height);
    if !job.check("dimensions_match", same, || mismatch(header, size)) {
        return Ok(());
    }
    let Some(picture) = job.take("png_decodes", header.decode(&bytes)) else { return Ok(()) };
    job.check("has_alpha", picture.has_alpha(), || "it has no alpha channel".to_owned());
    let mask = decode_base64(job.text("mask_b64")).and_then(|bytes| {
        if !media::is_png(&bytes) {
            return Err("the mask is not a PNG".to_owned());
        }
        let header = Header::read(&bytes)?;
        let same = (header.width, header.height) == (before.width, before.height);
        if same { header.decode(&bytes) } else { Err(mismatch(header, size)) }
    });
    let Some(mask) = job.take("mask_decodes", mask) else { return Ok(()) };
    let white = mask.as_mask();
    job.check("mask_is_binary", white.is_some(), || "it has more than two colours".to_owned());
    if job.strict {
        let white = white.unwrap_or(0);
        let both = white > 0 && white < mask.pixels();
        job.check("mask_separates", both, || "it keeps everything or nothing".to_owned());
        let agreement = picture.agreement(&mask);
        let why = || format!("they agree in {agreement} of 1000 pixels");
        job.check("mask_matches_alpha", agreement >= AGREEMENT_MIN, why);
    }
    Ok(())
}

/// image.upscale.2x and .4x
pub(super) fn upscaled(job: &mut Job<'_>, factor: u32) -> Result<(), NotVerifiable> {
    let (before, picture_before) = original(job, job.strict)?;
    let Some(bytes) = file(job, "image_b64", PICTURE_LEN_MAX) else { return Ok(()) };
    let header = Header::read(&bytes);
    let Some(header) = job.take("png_or_jpeg", header) else { return Ok(()) };
    let (width, height) = (before.width * factor, before.height * factor);
    let exact = (header.width, header.height) == (width, height);
    let wanted = (Some(u64::from(width)), Some(u64::from(height)));
    if !job.check("exact_scale", exact, || mismatch(header, wanted)) {
        return Ok(());
    }
    let Some(picture) = job.take("picture_decodes", header.decode(&bytes)) else { return Ok(()) };
    if let Some(original) = picture_before {
        let apart = original.distance(&picture);
        let why = || format!("its parts are {apart:.0} levels of grey apart from the original's");
        job.check("resembles_input", apart <= LIKENESS_MAX, why);
        if header.format == Format::Png {
            let why = || "it does not end with the last chunk of a PNG".to_owned();
            job.check("complete_file", media::png_is_complete(&bytes), why);
        }
    }
    Ok(())
}
