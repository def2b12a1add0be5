//! PNG, strictly.

use std::io::Cursor;

use png::{ColorType, Decoder, Limits, Transformations};

use super::{Picture, UNPACKED_LEN_MAX};

/// The most pixels of a picture in seven passes, which takes far longer to put together.
const INTERLACED_PIXELS_MAX: u64 = 2048 * 2048;

const MAGIC: &[u8] = b"\x89PNG\r\n\x1a\n";
/// The last chunk, which is always the same.
const END: &[u8] = b"\0\0\0\0IEND\xaeB`\x82";

pub(super) fn has_magic(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

pub(super) fn ends_well(bytes: &[u8]) -> bool {
    bytes.ends_with(END)
}

/// Width and height stand at a fixed place in the first chunk.
pub(super) fn size(bytes: &[u8]) -> Option<(u32, u32)> {
    if bytes.get(12..16)? != b"IHDR" {
        return None;
    }
    let number = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    Some((number(16)?, number(20)?))
}

pub(super) fn decode(bytes: &[u8]) -> Result<Picture, String> {
    let limits = Limits { bytes: UNPACKED_LEN_MAX };
    let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
    // Text and profiles may be compressed too, and nobody looks at them.
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let mut reader = decoder.read_info().map_err(|error| error.to_string())?;
    let info = reader.info();
    // Sixteen bits are unpacked before they are cut to eight; each row has a byte before it.
    if info.raw_bytes() > UNPACKED_LEN_MAX + info.height as usize {
        return Err("it is too large unpacked".to_owned());
    }
    if info.interlaced && u64::from(info.width) * u64::from(info.height) > INTERLACED_PIXELS_MAX {
        return Err(format!("it is interlaced and has more than {INTERLACED_PIXELS_MAX} pixels"));
    }
    let length = reader.output_buffer_size().filter(|length| *length <= UNPACKED_LEN_MAX);
    let mut samples = vec![0; length.ok_or("it is too large unpacked")?];
    let info = reader.next_frame(&mut samples).map_err(|error| error.to_string())?;
    samples.truncate(info.buffer_size());
    let channels = match info.color_type {
        ColorType::Grayscale => 1,
        ColorType::GrayscaleAlpha => 2,
        ColorType::Rgb => 3,
        ColorType::Rgba => 4,
        ColorType::Indexed => return Err("its palette is missing".to_owned()),
    };
    Picture::new(info.width, info.height, channels, samples)
}
