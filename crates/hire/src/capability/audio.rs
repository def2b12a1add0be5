//! Transcripts and speech.

use super::{findings::Job, image, language, text};
use crate::media::{SOUND_LEN_MAX, Sound, listen};

/// How far the stated length of a sound may be off: the larger of a share and a fixed part.
const DURATION_PERCENT_V0: u64 = 10;
const DURATION_MS_V0: u64 = 500;
const DURATION_PERCENT_V1: u64 = 2;
const DURATION_MS_V1: u64 = 150;
/// A voice takes between these times for a character, in milliseconds.
const PACE_MS_MIN: u64 = 10;
const PACE_MS_MAX: u64 = 1000;
/// Pauses before and after, in milliseconds.
const PAUSE_MS: u64 = 3000;
/// What a transcript may be longer than its recording, in milliseconds.
const OVERHANG_MS: u64 = 1000;

/// audio.transcribe.json-with-timestamps
pub(super) fn timed(job: &mut Job<'_>) {
    let code = job.text("language");
    let why = || format!("{code:?} is no code of ISO 639-1");
    let is_code = job.check("language_code", language::is_code(code), why);
    // The name's language, or the one that was hinted at.
    let wanted = [job.slot("lang"), job.param("language_hint")];
    if let Some(wanted) = wanted.into_iter().find(|code| !code.is_empty()) {
        let why = || format!("{code:?}, and {wanted:?} was asked for");
        job.check("language_matches", code == wanted, why);
    }
    let segments = job.result["segments"].as_array().map_or(&[][..], Vec::as_slice);
    if !job.check("has_segments", !segments.is_empty(), || "there are none".to_owned()) {
        return;
    }
    let times: Vec<(u64, u64)> = segments
        .iter()
        .map(|s| (s["start_ms"].as_u64().unwrap_or(0), s["end_ms"].as_u64().unwrap_or(0)))
        .collect();
    let backwards = times.windows(2).position(|pair| pair[1].0 < pair[0].0);
    let why = || format!("segment {} starts before the one before it", backwards.unwrap_or(0) + 1);
    job.check("timestamps_monotonic", backwards.is_none(), why);
    let negative = times.iter().position(|(start, end)| end < start);
    let why = || format!("segment {} ends before it starts", negative.unwrap_or(0));
    job.check("segments_end_after_start", negative.is_none(), why);
    let words: Vec<&str> = segments.iter().filter_map(|s| s["text"].as_str()).collect();
    let words = words.join(" ");
    job.check("not_empty", !words.trim().is_empty(), || "no segment has a text".to_owned());
    if job.strict {
        let overlapping = times.windows(2).position(|pair| pair[1].0 < pair[0].1);
        let why = || format!("segment {} begins too early", overlapping.unwrap_or(0) + 1);
        job.check("segments_do_not_overlap", overlapping.is_none(), why);
        if let Some(length) = job.params["duration_ms"].as_u64() {
            let last = times.iter().map(|(_, end)| *end).max().unwrap_or(0);
            let why = || format!("{last} ms, and the recording has {length} ms");
            job.check("ends_with_recording", last <= length + OVERHANG_MS, why);
        }
        if is_code {
            text::in_language(job, &words, code);
        }
    }
}

/// audio.transcribe.{lang}.text and audio.translate.{src}.{tgt}
pub(super) fn transcribed(job: &mut Job<'_>, slot: &str) {
    let words = job.text("text");
    if job.check("not_empty", !words.trim().is_empty(), || "there is no text".to_owned()) {
        text::in_language(job, words, job.slot(slot));
    }
}

/// audio.generate-speech.{voice}.mp3
pub(super) fn spoken(job: &mut Job<'_>) {
    let Some(bytes) = image::file(job, "audio_b64", SOUND_LEN_MAX) else { return };
    let Some(sound) = job.take("mp3_decodes", listen(&bytes)) else { return };
    let Sound { duration_ms: heard, silent } = sound;
    let said = job.result["duration_ms"].as_u64().unwrap_or(0);
    let (percent, fixed) = match job.strict {
        true => (DURATION_PERCENT_V1, DURATION_MS_V1),
        false => (DURATION_PERCENT_V0, DURATION_MS_V0),
    };
    let apart = heard.abs_diff(said);
    let why = || format!("{heard} ms were heard, {said} ms are stated");
    job.check("duration_matches", apart <= fixed.max(heard * percent / 100), why);
    job.check("not_silent", !silent, || "nothing can be heard".to_owned());
    if job.strict {
        let characters = job.param("text").chars().count() as u64;
        let least = characters * PACE_MS_MIN;
        let most = characters * PACE_MS_MAX + PAUSE_MS;
        let why = || format!("{heard} ms for {characters} characters is no pace of a voice");
        job.check("pace_plausible", (least..=most).contains(&heard), why);
    }
}
