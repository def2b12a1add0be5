//! Files that a test makes.

use base64::{Engine, engine::general_purpose::STANDARD};
use png::{BitDepth, ColorType, Encoder};

pub(crate) const TONE: &[u8] = include_bytes!("../../../testdata/tone.mp3");
pub(crate) const SILENCE: &[u8] = include_bytes!("../../../testdata/silence.mp3");
pub(crate) const JPEG: &[u8] = include_bytes!("../../../testdata/picture.jpg");
/// The size of [`JPEG`].
pub(crate) const JPEG_SIZE: (u32, u32) = (48, 32);

pub(crate) fn b64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

pub(crate) fn png(
    (width, height): (u32, u32),
    colour: ColorType,
    pixel: impl Fn(u32, u32) -> Vec<u8>,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, width, height);
    encoder.set_color(colour);
    encoder.set_depth(BitDepth::Eight);
    let mut writer = encoder.write_header().unwrap();
    let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
    let samples: Vec<u8> = pixels.flat_map(|(x, y)| pixel(x, y)).collect();
    writer.write_image_data(&samples).unwrap();
    writer.finish().unwrap();
    bytes
}

/// A disc before a gradient.
pub(crate) fn scene(width: u32, height: u32) -> Vec<u8> {
    png((width, height), ColorType::Rgb, |x, y| {
        let (x, y) = (x * 255 / width, y * 255 / height);
        let inside = x.abs_diff(128).pow(2) + y.abs_diff(128).pow(2) < 64 * 64;
        if inside { vec![230, 40, 40] } else { vec![x as u8, y as u8, 120] }
    })
}

pub(crate) fn even(width: u32, height: u32, grey: u8) -> Vec<u8> {
    png((width, height), ColorType::Rgb, |_, _| vec![grey; 3])
}

/// A picture whose left half was cut away, and the mask of that.
pub(crate) fn cut_out((width, height): (u32, u32)) -> (Vec<u8>, Vec<u8>) {
    let kept = move |x: u32| if x < width / 2 { 0 } else { 255 };
    let picture = png((width, height), ColorType::Rgba, |x, y| vec![x as u8, y as u8, 50, kept(x)]);
    (picture, png((width, height), ColorType::Grayscale, |x, _| vec![kept(x)]))
}

/// The [`JPEG`]'s scene, enlarged.
pub(crate) fn enlarged(factor: u32) -> Vec<u8> {
    let (width, height) = JPEG_SIZE;
    png((width * factor, height * factor), ColorType::Rgb, |x, y| {
        let (x, y) = (x / factor, y / factor);
        vec![(x * 5) as u8, (y * 7) as u8, (x * y % 200) as u8]
    })
}

/// A header that promises more than any machine wants to unpack, with little behind it.
pub(crate) fn bomb() -> Vec<u8> {
    let mut bytes = even(8, 8, 0);
    bytes[16..24].copy_from_slice(&[0, 0, 0xc3, 0x50, 0, 0, 0xc3, 0x50]);
    bytes
}
