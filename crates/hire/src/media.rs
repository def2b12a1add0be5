//! Pictures, drawings and sound as strangers send them: sizes are read from the header and held
//! against limits before anything is unpacked.

mod jpeg;
mod mp3;
mod picture;
mod png;
mod svg;

pub(crate) use self::{
    mp3::{Sound, listen},
    picture::Picture,
    svg::Drawing,
};

/// A picture's file is smaller than this, in bytes: ten megabytes, as the taxonomy says.
pub(crate) const PICTURE_LEN_MAX: usize = 10_000_000;
/// A sound's file, in bytes.
pub(crate) const SOUND_LEN_MAX: usize = 10_000_000;
/// A drawing's text, in bytes.
pub(crate) const DRAWING_LEN_MAX: usize = 2 * 1024 * 1024;
/// The longest side of a picture.
const SIDE_MAX: u32 = 16_384;
/// The most pixels of a picture: 4096 by 4096.
const PIXELS_MAX: u64 = 4096 * 4096;
/// What one picture may take unpacked, in bytes: four channels of eight bits.
const UNPACKED_LEN_MAX: usize = 64 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Png,
    Jpeg,
}

/// What the first bytes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub format: Format,
    pub width: u32,
    pub height: u32,
}

impl Header {
    /// Reads sizes only: safe and quick whatever the bytes are.
    pub fn read(bytes: &[u8]) -> Result<Header, String> {
        let (format, size) = match bytes {
            _ if png::has_magic(bytes) => (Format::Png, png::size(bytes)),
            _ if jpeg::has_magic(bytes) => (Format::Jpeg, jpeg::size(bytes)),
            _ => return Err("it is neither a PNG nor a JPEG".to_owned()),
        };
        let (width, height) = size.ok_or("its header is cut off or damaged")?;
        if width == 0 || height == 0 {
            return Err(format!("its size is {width} by {height}"));
        }
        Ok(Header { format, width, height })
    }

    /// What would be too much to unpack.
    pub fn fits(self) -> Result<(), String> {
        let Header { width, height, .. } = self;
        if width > SIDE_MAX || height > SIDE_MAX {
            return Err(format!("{width} by {height}: no side is longer than {SIDE_MAX}"));
        }
        let pixels = u64::from(width) * u64::from(height);
        if pixels > PIXELS_MAX {
            return Err(format!("{width} by {height} is more than {PIXELS_MAX} pixels"));
        }
        Ok(())
    }

    /// Unpacks the whole picture.
    pub fn decode(self, bytes: &[u8]) -> Result<Picture, String> {
        self.fits()?;
        match self.format {
            Format::Png => png::decode(bytes),
            Format::Jpeg => jpeg::decode(bytes),
        }
    }
}

pub(crate) fn is_png(bytes: &[u8]) -> bool {
    png::has_magic(bytes)
}

/// Whether the file ends where the picture does.
pub(crate) fn png_is_complete(bytes: &[u8]) -> bool {
    png::ends_well(bytes)
}
