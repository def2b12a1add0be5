//! How long verification functions take with the largest that sellers may send.

use std::{io::Write, time::Instant};

use anyhow::{Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::{Compression, Crc, write::ZlibEncoder};
use serde_json::{Value, json};

use super::Report;
use crate::{
    bench::{Figure, progress},
    check::checker,
};

/// What a check may take, in milliseconds.
const ALLOWED_MS: f64 = 200.0;
/// Looks at each: the shortest counts, since the others are the machine's.
const LOOKS: usize = 5;
const SIDE: u32 = 4096;
const TONE: &[u8] = include_bytes!("../../../../hire/testdata/tone.mp3");
const TONE_MS: usize = 1_584;
const SOUND_LEN: usize = 9_900_000;
const TEXT_LEN: usize = 260_000;
const CODE_LEN: usize = 65_000;
const NUMBERS: usize = 100_000;

struct Large {
    capability: &'static str,
    params: Value,
    result: Value,
}

pub(super) async fn measure(report: Report<'_>) -> Result<()> {
    let checker = checker()?;
    for large in larges()? {
        progress(&format!("{} at its largest", large.capability));
        let mut shortest = f64::INFINITY;
        for _ in 0..LOOKS {
            let started = Instant::now();
            let Large { capability, params, result } = &large;
            let seen = checker.verify(capability, Some("v1"), params, result).await;
            shortest = shortest.min(started.elapsed().as_secs_f64() * 1e3);
            ensure!(seen.all_passed, "{capability}: {seen:?}");
        }
        let name = format!("200 ms (peer: the check of {} at its largest)", large.capability);
        report(Figure::new(&name, ALLOWED_MS, shortest, "ms", Some(1.0)))?;
    }
    Ok(())
}

fn larges() -> Result<Vec<Large>> {
    let large = |capability, params, result| Large { capability, params, result };
    let picture = STANDARD.encode(scene(SIDE)?);
    let half = STANDARD.encode(scene(SIDE / 2)?);
    let sized = json!({"prompt": "a scene", "width": SIDE, "height": SIDE});
    let drawn = json!({"image_b64": picture, "width": SIDE, "height": SIDE});
    let english = "Our customers are very happy with the new delivery service this year. ";
    let italian = "I nostri clienti sono molto contenti del nuovo servizio di consegna. ";
    let text = |piece: &str| json!({"text": piece.repeat(TEXT_LEN / piece.len())});
    let python = "def f(a):\n    return [x * a for x in range(9)]\n\n";
    let code = json!({"code": python.repeat(CODE_LEN / python.len())});
    let tones = SOUND_LEN / TONE.len();
    let sound = STANDARD.encode(TONE.repeat(tones));
    let (spoken, said) = (json!({"text": english.repeat(50)}), tones * TONE_MS);
    let numbers: Vec<u32> = (0..NUMBERS as u32).map(|n| n % 2).collect();
    let path = "<path d='M0 0L9 9 C 1 2 3 4 5 6 z'/>".repeat(50_000);
    let svg = format!("<svg xmlns='http://www.w3.org/2000/svg'>{path}</svg>");
    Ok(vec![
        large("image.generate.photorealistic.png", sized, drawn),
        large("image.upscale.2x", json!({"image_b64": half}), json!({"image_b64": picture})),
        large("image.generate.illustration.svg", json!({"prompt": "lines"}), json!({"svg": svg})),
        large(
            "audio.generate-speech.alloy.mp3",
            spoken,
            json!({"audio_b64": sound, "duration_ms": said}),
        ),
        large("text.translate.en.it.business", text(english), text(italian)),
        large("code.generate.python.script", json!({"task": "much"}), code),
        large("compute.statistics.mean", json!({"data": numbers}), json!({"result": 0.5})),
    ])
}

/// A colourful picture as a PNG, each row told by the one above and the pixel before.
fn scene(side: u32) -> Result<Vec<u8>> {
    let pixel = |x: u32, y: u32| {
        let (grain, x, y) = ((x / 8 * 7 + y / 8 * 13) % 11, x * 255 / side, y * 255 / side);
        [x + grain, y + grain, x * y / 255 + grain].map(|value| value.min(255) as u8)
    };
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::fast());
    for y in 0..side {
        let mut row = vec![4];
        for x in 0..side {
            let at = |x: Option<u32>, y: Option<u32>| x.zip(y).map_or([0; 3], |(x, y)| pixel(x, y));
            let (left, up) = (x.checked_sub(1), y.checked_sub(1));
            let near = [at(left, Some(y)), at(Some(x), up), at(left, up)];
            for (channel, value) in pixel(x, y).into_iter().enumerate() {
                row.push(value.wrapping_sub(paeth(near.map(|pixel| pixel[channel]))));
            }
        }
        packed.write_all(&row)?;
    }
    let mut header = [side.to_be_bytes(), side.to_be_bytes()].concat();
    header.extend([8, 2, 0, 0, 0]);
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    for (name, data) in [(b"IHDR", header), (b"IDAT", packed.finish()?), (b"IEND", vec![])] {
        let mut crc = Crc::new();
        crc.update(name);
        crc.update(&data);
        file.extend(u32::try_from(data.len())?.to_be_bytes());
        file.extend(name);
        file.extend(data);
        file.extend(crc.sum().to_be_bytes());
    }
    Ok(file)
}

/// PNG's guess: of three neighbours the one that is nearest to their plane.
fn paeth([left, up, corner]: [u8; 3]) -> u8 {
    let plane = i16::from(left) + i16::from(up) - i16::from(corner);
    let far = |from: u8| (plane - i16::from(from)).abs();
    if far(left) <= far(up) && far(left) <= far(corner) {
        left
    } else if far(up) <= far(corner) {
        up
    } else {
        corner
    }
}
