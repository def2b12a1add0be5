//! JPEG: what buyers send in and what may come back enlarged.

use std::io::Cursor;

use zune_jpeg::{
    JpegDecoder,
    zune_core::{colorspace::ColorSpace, options::DecoderOptions},
};

use super::{Picture, SIDE_MAX};

/// A progressive picture is drawn over itself this often at most.
const SCANS_MAX: usize = 16;
/// The most pixels of such a picture, which is kept twice until it is done.
const PROGRESSIVE_PIXELS_MAX: u64 = 3072 * 3072;

pub(super) fn has_magic(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0xff, 0xd8, 0xff])
}

/// What the picture's frame says of it.
struct Frame {
    size: (u32, u32),
    is_progressive: bool,
}

pub(super) fn size(bytes: &[u8]) -> Option<(u32, u32)> {
    frame(bytes).map(|frame| frame.size)
}

/// Walks over the segments to the one that tells the size.
fn frame(bytes: &[u8]) -> Option<Frame> {
    let mut at = 2;
    loop {
        while *bytes.get(at)? == 0xff && *bytes.get(at + 1)? == 0xff {
            at += 1;
        }
        let &[0xff, marker] = bytes.get(at..at + 2)? else { return None };
        let short = |at: usize| {
            let pair = bytes.get(at..at + 2)?.try_into().ok()?;
            Some(u32::from(u16::from_be_bytes(pair)))
        };
        match marker {
            // Tables of codes and of arithmetic stand among the numbers of the frames.
            0xc4 | 0xc8 | 0xcc => {}
            0xc0..=0xcf => {
                let size = (short(at + 7)?, short(at + 5)?);
                return Some(Frame { size, is_progressive: !matches!(marker, 0xc0 | 0xc1) });
            }
            0xd9 | 0xda => return None,
            _ => {}
        }
        let length = short(at + 2)?;
        if length < 2 {
            return None;
        }
        at += 2 + length as usize;
    }
}

pub(super) fn decode(bytes: &[u8]) -> Result<Picture, String> {
    let Frame { size: (width, height), is_progressive } = frame(bytes).ok_or("it has no size")?;
    if is_progressive && u64::from(width) * u64::from(height) > PROGRESSIVE_PIXELS_MAX {
        return Err(format!("it is progressive and has more than {PROGRESSIVE_PIXELS_MAX} pixels"));
    }
    let options = DecoderOptions::new_safe()
        .set_max_width(SIDE_MAX as usize)
        .set_max_height(SIDE_MAX as usize)
        .set_strict_mode(true)
        .jpeg_set_max_scans(SCANS_MAX)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(Cursor::new(bytes), options);
    let samples = decoder.decode().map_err(|error| format!("{error:?}"))?;
    let info = decoder.info().ok_or("it has no size")?;
    Picture::new(u32::from(info.width), u32::from(info.height), 3, samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    const JPEG: &[u8] = include_bytes!("../../testdata/picture.jpg");

    #[test]
    fn a_progressive_picture_may_not_be_the_largest() {
        let at = JPEG.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
        let said = |side: u16| {
            let mut bytes = JPEG.to_vec();
            bytes[at + 1] = 0xc2;
            bytes[at + 5..at + 7].copy_from_slice(&side.to_be_bytes());
            bytes[at + 7..at + 9].copy_from_slice(&side.to_be_bytes());
            decode(&bytes).err().unwrap()
        };
        assert_eq!(said(3073), "it is progressive and has more than 9437184 pixels");
        assert!(!said(3072).contains("progressive"), "the pixels are missing: {}", said(3072));
    }
}
