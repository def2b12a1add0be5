//! What kind of thing some bytes are, by themselves: nobody is asked, least of all their sender.

use super::json;

const PNG: &str = "image/png";
const JPEG: &str = "image/jpeg";
const GIF: &str = "image/gif";
const WEBP: &str = "image/webp";
const PDF: &str = "application/pdf";
const ZIP: &str = "application/zip";
const GZIP: &str = "application/gzip";
const JSON: &str = "application/json";
const HTML: &str = "text/html";
const SVG: &str = "image/svg+xml";
const XML: &str = "application/xml";
const TEXT: &str = "text/plain";
const OTHER: &str = "application/octet-stream";

/// Short words that are understood for a media type.
const WORDS: &[(&str, &str)] = &[
    ("png", PNG),
    ("jpeg", JPEG),
    ("jpg", JPEG),
    ("gif", GIF),
    ("webp", WEBP),
    ("pdf", PDF),
    ("zip", ZIP),
    ("gzip", GZIP),
    ("json", JSON),
    ("html", HTML),
    ("svg", SVG),
    ("xml", XML),
    ("text/xml", XML),
    ("text", TEXT),
];

/// The media type of `bytes`.
pub(crate) fn sniff(bytes: &[u8]) -> &'static str {
    match bytes {
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => PNG,
        [0xff, 0xd8, 0xff, ..] => JPEG,
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => GIF,
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => WEBP,
        [b'%', b'P', b'D', b'F', b'-', ..] => PDF,
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => ZIP,
        [0x1f, 0x8b, 8, ..] => GZIP,
        _ => text(bytes).map_or(OTHER, sniff_text),
    }
}

/// The text that the bytes are, if they are one: UTF-8 without control characters.
pub(crate) fn text(bytes: &[u8]) -> Option<&str> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let controls = |c: char| c.is_ascii_control() && !c.is_ascii_whitespace() && c != '\x1b';
    std::str::from_utf8(bytes).ok().filter(|text| !text.contains(controls))
}

fn sniff_text(text: &str) -> &'static str {
    let mut start = text.trim_start();
    if start.starts_with(['{', '[']) && json::parse(start.as_bytes()).is_ok() {
        return JSON;
    }
    let declared = starts_with(start, "<?xml");
    while let Some(rest) = prologue(start) {
        start = rest.trim_start();
    }
    let opens = |name: &str| {
        starts_with(start, name)
            && start[name.len()..]
                .starts_with(|c: char| c.is_ascii_whitespace() || "/>".contains(c))
    };
    let html = ["<!doctype html", "<html", "<head", "<body", "<title", "<div", "<p", "<h1"];
    match () {
        () if opens("<svg") || opens("<!doctype svg") => SVG,
        () if html.iter().any(|name| opens(name)) => HTML,
        () if declared => XML,
        () => TEXT,
    }
}

/// What comes after a comment or an XML declaration, if the text begins with one.
fn prologue(text: &str) -> Option<&str> {
    let end = if starts_with(text, "<!--") {
        "-->"
    } else if starts_with(text, "<?xml") {
        "?>"
    } else {
        return None;
    };
    text.split_once(end).map(|(_, rest)| rest)
}

fn starts_with(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// The type without its parameters, in lower case.
pub(crate) fn essence(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Whether a sender's word or else the bytes say HTML.
pub(crate) fn is_html(bytes: &[u8], content_type: Option<&str>) -> bool {
    match content_type.map(essence).as_deref() {
        Some("text/html" | "application/xhtml+xml") => true,
        None | Some("" | TEXT | OTHER) => sniff(bytes) == HTML,
        Some(_) => false,
    }
}

/// Whether what was sniffed is what was asked for: a type, a word for one, or `image/*`. Nothing
/// if it cannot be told by looking at the bytes.
pub(crate) fn is_asked(sniffed: &str, asked: &str) -> Option<bool> {
    let asked = essence(asked);
    let named = WORDS.iter().find(|(word, media)| *word == asked || *media == asked);
    let asked = named.map_or(asked.as_str(), |(_, media)| media);
    let is_text = matches!(sniffed, TEXT | JSON | HTML | SVG | XML);
    match asked {
        "*/*" | OTHER => Some(true),
        "image/*" => Some(sniffed.starts_with("image/")),
        TEXT | "text/*" => Some(is_text),
        // Markdown, CSV and the like look like any text.
        _ if named.is_none() && asked.starts_with("text/") => Some(is_text),
        _ if named.is_none() => None,
        XML => Some(matches!(sniffed, XML | SVG)),
        asked => Some(sniffed == asked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_told_apart() {
        let table: &[(&[u8], &str)] = &[
            (b"\x89PNG\r\n\x1a\n....", PNG),
            (b"\xff\xd8\xff\xe0", JPEG),
            (b"GIF89a...", GIF),
            (b"RIFF\0\0\0\0WEBPVP8 ", WEBP),
            (b"%PDF-1.7\n", PDF),
            (b"PK\x03\x04", ZIP),
            (b"\x1f\x8b\x08\0", GZIP),
            (b" {\"a\": [1]}", JSON),
            (b"[1,2", TEXT),
            (b"42", TEXT),
            (b"<!DOCTYPE html><p>x", HTML),
            (b"<!-- c --> <html lang=en>", HTML),
            (b"<p>x", HTML),
            (b"<pre-release>", TEXT),
            (b"<?xml version='1.0'?><svg/>", SVG),
            (b"<?xml version='1.0'?><feed/>", XML),
            (b"# Title\n\ttext", TEXT),
            (b"", TEXT),
            (b"\xef\xbb\xbftext", TEXT),
            (b"\0\x01\x02", OTHER),
            (b"caf\xe9", OTHER),
        ];
        for (bytes, media) in table {
            assert_eq!(sniff(bytes), *media, "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn what_is_asked_is_understood_in_several_words() {
        for (sniffed, asked, fits) in [
            (PNG, "image/png", Some(true)),
            (PNG, "PNG", Some(true)),
            (PNG, "image/*", Some(true)),
            (PNG, "jpeg", Some(false)),
            (JSON, "application/json; charset=utf-8", Some(true)),
            (JSON, "text", Some(true)),
            (TEXT, "text/markdown", Some(true)),
            (TEXT, "json", Some(false)),
            (PDF, "text/csv", Some(false)),
            (SVG, "application/xml", Some(true)),
            (OTHER, "video/mp4", None),
        ] {
            assert_eq!(is_asked(sniffed, asked), fits, "{sniffed} for {asked}");
        }
    }

    #[test]
    fn a_sender_says_whether_it_is_html_and_is_asked_no_further() {
        assert!(is_html(b"hello", Some("text/html; charset=utf-8")));
        assert!(is_html(b"<html>", Some("text/plain")));
        assert!(is_html(b"<html>", None));
        assert!(!is_html(b"<html>", Some("application/json")));
        assert!(!is_html(b"hello", None));
    }
}
