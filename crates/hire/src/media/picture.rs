//! An unpacked picture and what can be said about it without opinion.

/// A picture is looked at through a grid of so many cells each way.
const GRID: usize = 8;
/// In each direction at most so many pixels are looked at for what is a matter of degree.
const LOOKED_AT_MAX: u32 = 512;
/// Eight-bit samples whose spread (standard deviation) is below this show one colour.
const SPREAD_MIN: f64 = 2.0;
/// The darkest and the brightest cell of a picture of something differ by at least this.
const CELLS_APART_MIN: f64 = 4.0;

/// Eight-bit samples, row by row: grey, grey and alpha, RGB or RGBA.
#[derive(Debug)]
pub(crate) struct Picture {
    pub width: u32,
    pub height: u32,
    channels: usize,
    samples: Vec<u8>,
}

/// What the grid shows on one background.
struct Look {
    spread: f64,
    cells: [f64; GRID * GRID],
}

impl Picture {
    pub fn new(width: u32, height: u32, channels: usize, samples: Vec<u8>) -> Result<Self, String> {
        let expected = (width as usize).checked_mul(height as usize);
        let expected = expected.and_then(|pixels| pixels.checked_mul(channels));
        if expected != Some(samples.len()) || samples.is_empty() {
            return Err("it holds less than its header says".to_owned());
        }
        Ok(Picture { width, height, channels, samples })
    }

    pub fn has_alpha(&self) -> bool {
        matches!(self.channels, 2 | 4)
    }

    /// Whether one colour is all there is, on a white and on a black ground.
    pub fn is_blank(&self) -> bool {
        self.look(255.0).spread < SPREAD_MIN && self.look(0.0).spread < SPREAD_MIN
    }

    /// Whether light and dark are arranged in some way that is still there from afar.
    pub fn has_structure(&self) -> bool {
        [255.0, 0.0].into_iter().any(|ground| {
            let cells = self.look(ground).cells;
            let least = cells.iter().copied().fold(f64::INFINITY, f64::min);
            let most = cells.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            most - least >= CELLS_APART_MIN
        })
    }

    /// A perceptual hash: one bit for each cell, set where it is brighter than the middle.
    pub fn hash(&self) -> u64 {
        let cells = self.look(255.0).cells;
        let mean = cells.iter().sum::<f64>() / cells.len() as f64;
        let bits = cells.iter().enumerate().filter(|(_, cell)| **cell > mean);
        bits.fold(0, |hash, (at, _)| hash | (1 << at))
    }

    /// How far the cells of two pictures are apart on average, in levels of grey.
    pub fn distance(&self, other: &Picture) -> f64 {
        let (ours, theirs) = (self.look(255.0).cells, other.look(255.0).cells);
        let sum: f64 = ours.iter().zip(&theirs).map(|(a, b)| (a - b).abs()).sum();
        sum / ours.len() as f64
    }

    /// Whether every pixel is fully black or fully white, and how many are white.
    pub fn as_mask(&self) -> Option<u64> {
        let colours = if self.channels < 3 { 1 } else { 3 };
        let mut white = 0;
        for pixel in self.samples.chunks_exact(self.channels) {
            let first = pixel[0];
            if !matches!(first, 0 | 255) || pixel[..colours].iter().any(|other| *other != first) {
                return None;
            }
            white += u64::from(first == 255);
        }
        Some(white)
    }

    pub fn pixels(&self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }

    /// In how many pixels of every thousand a mask says the same as this picture's alpha.
    pub fn agreement(&self, mask: &Picture) -> u64 {
        if !self.has_alpha() || (mask.width, mask.height) != (self.width, self.height) {
            return 0;
        }
        let ours = self.samples.chunks_exact(self.channels).map(|pixel| pixel[pixel.len() - 1]);
        let theirs = mask.samples.chunks_exact(mask.channels).map(|pixel| pixel[0]);
        let same = ours.zip(theirs).filter(|(a, b)| (*a > 127) == (*b > 127)).count();
        same as u64 * 1000 / self.pixels()
    }

    fn look(&self, ground: f64) -> Look {
        let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
        let mut cells = [(0.0, 0.0); GRID * GRID];
        let (across, down) = (step(self.width), step(self.height));
        for y in (0..self.height).step_by(down) {
            let row = cell(y, self.height) * GRID;
            for x in (0..self.width).step_by(across) {
                let value = self.grey(x, y, ground);
                sum += value;
                squares += value * value;
                count += 1.0;
                let (total, seen) = &mut cells[row + cell(x, self.width)];
                *total += value;
                *seen += 1.0;
            }
        }
        let mean: f64 = sum / count;
        let spread = (squares / count - mean * mean).max(0.0).sqrt();
        // A cell that a small picture has no pixel for counts as the mean of all.
        let cells = cells.map(|(total, seen)| if seen > 0.0 { total / seen } else { mean });
        Look { spread, cells }
    }

    /// How bright a pixel is on a ground that shines through.
    fn grey(&self, x: u32, y: u32, ground: f64) -> f64 {
        let at = (y as usize * self.width as usize + x as usize) * self.channels;
        let sample = |channel: usize| f64::from(self.samples[at + channel]);
        let grey = match self.channels {
            1 | 2 => sample(0),
            _ => 0.299 * sample(0) + 0.587 * sample(1) + 0.114 * sample(2),
        };
        if !self.has_alpha() {
            return grey;
        }
        let alpha = sample(self.channels - 1) / 255.0;
        grey * alpha + ground * (1.0 - alpha)
    }
}

fn step(side: u32) -> usize {
    side.div_ceil(LOOKED_AT_MAX) as usize
}

fn cell(at: u32, side: u32) -> usize {
    (u64::from(at) * GRID as u64 / u64::from(side)) as usize
}
