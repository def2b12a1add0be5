//! Charts as PNG, drawn dot by dot.

use std::{f64::consts::TAU, io::Write};

use anyhow::{Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::{Compression, Crc, write::ZlibEncoder};
use serde::Deserialize;
use serde_json::{Value, json};

/// The longest side, in dots.
const SIDE_MAX: u32 = 4096;
const WHITE: [u8; 3] = [255, 255, 255];
const DARK: [u8; 3] = [24, 26, 32];
const GREY: [u8; 3] = [140, 144, 152];
/// Told apart by people who see few colours, too.
const COLOURS: [[u8; 3]; 6] =
    [[38, 110, 182], [230, 129, 40], [46, 148, 90], [200, 60, 70], [130, 95, 175], [120, 90, 70]];

#[derive(Debug, Deserialize)]
pub(super) struct Chart {
    data: Vec<Point>,
    chart_type: String,
    width: u32,
    height: u32,
    #[serde(default)]
    theme: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Point {
    y: f64,
}

pub(super) fn draw(chart: &Chart) -> Result<Value> {
    let (width, height) = (chart.width, chart.height);
    ensure!((1..=SIDE_MAX).contains(&width) && (1..=SIDE_MAX).contains(&height), "bad size");
    ensure!(!chart.data.is_empty(), "there is nothing to draw");
    let ground = if chart.theme.as_deref() == Some("dark") { DARK } else { WHITE };
    let size = width as usize * height as usize;
    let mut canvas = Canvas { width, height, dots: vec![ground; size] };
    let values: Vec<f64> = chart.data.iter().map(|point| point.y).collect();
    match chart.chart_type.as_str() {
        "pie" => canvas.pie(&values),
        "line" => canvas.line(&values),
        _ => canvas.bars(&values),
    }
    let image = STANDARD.encode(canvas.png()?);
    let kind = &chart.chart_type;
    Ok(json!({ "image_b64": image, "width": width, "height": height, "chart_type": kind }))
}

struct Canvas {
    width: u32,
    height: u32,
    dots: Vec<[u8; 3]>,
}

impl Canvas {
    fn dot(&mut self, x: i64, y: i64, colour: [u8; 3]) {
        if (0..i64::from(self.width)).contains(&x) && (0..i64::from(self.height)).contains(&y) {
            self.dots[y as usize * self.width as usize + x as usize] = colour;
        }
    }

    fn fill(&mut self, (left, top): (f64, f64), (right, bottom): (f64, f64), colour: [u8; 3]) {
        for y in top.round() as i64..bottom.round() as i64 {
            for x in left.round() as i64..right.round() as i64 {
                self.dot(x, y, colour);
            }
        }
    }

    /// The inside of the axes: left, top, right, bottom.
    fn frame(&mut self) -> (f64, f64, f64, f64) {
        let (width, height) = (f64::from(self.width), f64::from(self.height));
        let (left, top) = (width * 0.08, height * 0.08);
        let (right, bottom) = (width * 0.95, height * 0.9);
        self.fill((left - 2.0, top), (left, bottom), GREY);
        self.fill((left - 2.0, bottom), (right, bottom + 2.0), GREY);
        (left, top, right, bottom)
    }

    fn bars(&mut self, values: &[f64]) {
        let (left, top, right, bottom) = self.frame();
        let scale = Scale::of(values, top, bottom);
        let step = (right - left) / values.len() as f64;
        for (at, value) in values.iter().enumerate() {
            let from = left + step * (at as f64 + 0.15);
            let (a, b) = (scale.y(*value), scale.y(0.0));
            let colour = COLOURS[at % COLOURS.len()];
            self.fill((from, a.min(b)), (from + step * 0.7, a.max(b).max(a.min(b) + 1.0)), colour);
        }
    }

    fn line(&mut self, values: &[f64]) {
        let (left, top, right, bottom) = self.frame();
        let scale = Scale::of(values, top, bottom);
        let step = (right - left) / values.len().saturating_sub(1).max(1) as f64;
        let points: Vec<(f64, f64)> = values
            .iter()
            .enumerate()
            .map(|(at, value)| (left + step * at as f64, scale.y(*value)))
            .collect();
        for pair in points.windows(2) {
            let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
            let steps = (x1 - x0).abs().max((y1 - y0).abs()).ceil().max(1.0);
            for n in 0..=steps as i64 {
                let part = n as f64 / steps;
                let (x, y) = (x0 + (x1 - x0) * part, y0 + (y1 - y0) * part);
                self.fill((x - 1.0, y - 1.0), (x + 2.0, y + 2.0), COLOURS[0]);
            }
        }
        for (x, y) in points {
            self.fill((x - 3.0, y - 3.0), (x + 4.0, y + 4.0), COLOURS[1]);
        }
    }

    fn pie(&mut self, values: &[f64]) {
        let total: f64 = values.iter().map(|value| value.abs()).sum();
        let (cx, cy) = (f64::from(self.width) / 2.0, f64::from(self.height) / 2.0);
        let radius = cx.min(cy) * 0.85;
        for y in 0..i64::from(self.height) {
            for x in 0..i64::from(self.width) {
                let (dx, dy) = (x as f64 + 0.5 - cx, y as f64 + 0.5 - cy);
                if dx.hypot(dy) > radius {
                    continue;
                }
                let mut left = (dx.atan2(-dy) + TAU) % TAU / TAU * total;
                let slice = values.iter().position(|value| {
                    left -= value.abs();
                    left <= 0.0
                });
                self.dot(x, y, COLOURS[slice.unwrap_or(0) % COLOURS.len()]);
            }
        }
    }

    /// Eight bits each of red, green and blue, no filter.
    fn png(&self) -> Result<Vec<u8>> {
        let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
        for row in self.dots.chunks(self.width as usize) {
            packed.write_all(&[0])?;
            packed.write_all(row.as_flattened())?;
        }
        let mut header = Vec::new();
        header.extend_from_slice(&self.width.to_be_bytes());
        header.extend_from_slice(&self.height.to_be_bytes());
        header.extend_from_slice(&[8, 2, 0, 0, 0]);
        let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
        chunk(&mut file, b"IHDR", &header);
        chunk(&mut file, b"IDAT", &packed.finish()?);
        chunk(&mut file, b"IEND", &[]);
        Ok(file)
    }
}

/// Where a value stands between top and bottom. Zero is always on the chart.
struct Scale {
    low: f64,
    high: f64,
    top: f64,
    bottom: f64,
}

impl Scale {
    fn of(values: &[f64], top: f64, bottom: f64) -> Scale {
        let low = values.iter().copied().fold(0.0, f64::min);
        let high = values.iter().copied().fold(0.0, f64::max);
        let high = if high > low { high } else { low + 1.0 };
        Scale { low, high, top, bottom }
    }

    fn y(&self, value: f64) -> f64 {
        let part = (value - self.low) / (self.high - self.low);
        self.bottom - (self.bottom - self.top) * part
    }
}

fn chunk(file: &mut Vec<u8>, name: &[u8; 4], body: &[u8]) {
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    file.extend_from_slice(&length.to_be_bytes());
    let mut sum = Crc::new();
    sum.update(name);
    sum.update(body);
    file.extend_from_slice(name);
    file.extend_from_slice(body);
    file.extend_from_slice(&sum.sum().to_be_bytes());
}
