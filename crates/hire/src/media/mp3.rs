//! MP3: every frame is counted, and enough of them are decoded to hear whether there is anything.

use std::io::Cursor;

use symphonia::{
    core::{
        codecs::audio::{AudioDecoder, AudioDecoderOptions},
        formats::{FormatOptions, FormatReader},
        io::MediaSourceStream,
        packet::Packet,
    },
    default::{codecs::MpaDecoder, formats::MpaReader},
};

/// So many frames are decoded whole; of a longer sound, runs of frames that are spread over it.
const DECODED_MAX: usize = 1024;
/// How long a run is.
const RUN: usize = 32;
/// After a jump the first frames may miss bits that stood in those before.
const RUN_IN: usize = 3;
/// The most frames that are counted: about an hour.
const FRAMES_MAX: usize = 150_000;
/// Samples (from -1 to 1) that never leave this band are silence.
const SILENCE: f32 = 0.001;
/// Of the frames that were decoded, so many in a thousand may be damaged.
const DAMAGED_PER_MILLE_MAX: usize = 50;

/// What was heard.
#[derive(Debug)]
pub(crate) struct Sound {
    pub duration_ms: u64,
    pub silent: bool,
}

/// Listens to an MP3.
pub(crate) fn listen(bytes: &[u8]) -> Result<Sound, String> {
    let bytes = without_tags(bytes)?;
    if !matches!(bytes, [0xff, second, ..] if second & 0xe6 == 0xe2) {
        return Err("it does not begin with a frame of MPEG layer III".to_owned());
    }
    let source = MediaSourceStream::new(Box::new(Cursor::new(bytes)), Default::default());
    let mut reader =
        MpaReader::try_new(source, FormatOptions::default()).map_err(|error| error.to_string())?;
    let params = reader.tracks().first().and_then(|track| track.codec_params.clone());
    let params = params.and_then(|params| params.audio().cloned()).ok_or("it has no track")?;
    let rate = u64::from(params.sample_rate.filter(|rate| *rate > 0).ok_or("it has no rate")?);
    let mut packets: Vec<Packet> = Vec::new();
    let mut samples = 0_u64;
    // Whatever follows the last whole frame is the end.
    while let Ok(Some(packet)) = reader.next_packet() {
        samples = samples.saturating_add(packet.dur.get());
        packets.push(packet);
        if packets.len() > FRAMES_MAX {
            return Err(format!("it has more than {FRAMES_MAX} frames"));
        }
    }
    if packets.is_empty() {
        return Err("it has no frame".to_owned());
    }
    let mut decoder = MpaDecoder::try_new(&params, &AudioDecoderOptions::default())
        .map_err(|error| error.to_string())?;
    let silent = decode(&mut decoder, &packets)?;
    Ok(Sound { duration_ms: samples.saturating_mul(1000) / rate, silent })
}

/// Whether nothing was heard.
fn decode(decoder: &mut MpaDecoder, packets: &[Packet]) -> Result<bool, String> {
    let whole = packets.len() <= DECODED_MAX;
    let runs = DECODED_MAX / RUN;
    let (mut decoded, mut damaged, mut silent) = (0_usize, 0_usize, true);
    let mut heard: Vec<f32> = Vec::new();
    let mut listen =
        |decoder: &mut MpaDecoder, packet: &Packet, counts: bool| match decoder.decode(packet) {
            Ok(buffer) => {
                heard.clear();
                buffer.copy_to_vec_interleaved(&mut heard);
                silent &= heard.iter().all(|sample| sample.abs() < SILENCE);
                decoded += 1;
            }
            Err(_) if counts => {
                decoded += 1;
                damaged += 1;
            }
            Err(_) => {}
        };
    if whole {
        for (at, packet) in packets.iter().enumerate() {
            listen(decoder, packet, at >= RUN_IN);
        }
    } else {
        for run in 0..runs {
            decoder.reset();
            let start = run * (packets.len() - RUN) / (runs - 1);
            for (at, packet) in packets[start..start + RUN].iter().enumerate() {
                listen(decoder, packet, at >= RUN_IN);
            }
        }
    }
    if decoded == 0 || damaged * 1000 > decoded * DAMAGED_PER_MILLE_MAX {
        return Err(format!("{damaged} of {decoded} frames are damaged"));
    }
    Ok(silent)
}

/// Without the tags that may stand before the first frame.
fn without_tags(mut bytes: &[u8]) -> Result<&[u8], String> {
    while let [b'I', b'D', b'3', _, _, flags, a, b, c, d, ..] = *bytes {
        // Seven bits of each byte count.
        let length = [a, b, c, d].iter().fold(0, |sum, byte| sum << 7 | usize::from(byte & 0x7f));
        let footer = if flags & 0x10 == 0 { 0 } else { 10 };
        bytes = bytes.get(10 + length + footer..).ok_or("its tag is longer than the file")?;
    }
    Ok(bytes)
}
