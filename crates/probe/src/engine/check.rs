//! Takes the wanted part out of a document and holds it to the criteria.

use serde_json::Value;
use skep_base::{Hash32, hash::sha256};
use unicode_normalization::UnicodeNormalization;

use super::{
    criteria::{Criteria, Selection},
    html::Page,
    json, media,
    record::{Deadline, Stop},
};

/// A document as it came.
#[derive(Debug)]
pub(crate) struct Material {
    pub(crate) bytes: Vec<u8>,
    /// What its sender says it is.
    pub(crate) content_type: Option<String>,
}

/// What was taken out of a document.
#[derive(Debug)]
pub(crate) struct Extract {
    /// How many places the selector found; one without a selector.
    pub(crate) found: usize,
    /// Nothing if the document is not text.
    pub(crate) text: Option<String>,
    /// The text as it is compared.
    folded: String,
    pub(crate) fingerprint: Hash32,
    /// The JSON values found, or the whole document if it was needed.
    values: Option<Vec<Value>>,
    document_len: usize,
}

impl Extract {
    pub(crate) fn of_text(text: String, found: usize, document_len: usize) -> Extract {
        let folded = fold(&text);
        let fingerprint = sha256(folded.as_bytes());
        Extract { found, text: Some(text), folded, fingerprint, values: None, document_len }
    }
}

/// Text as two readers would agree on it: composed (NFC), without regard to case, and with one
/// space for any white space. A fingerprint is taken of the same, so that a page does not change
/// by being indented.
pub(crate) fn fold(text: &str) -> String {
    // Upper case first: only there are ß and ss, or the two small sigmas, the same.
    let cased = text.nfc().flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    let folded: String = cased.nfc().collect();
    folded.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Takes out what the selector names: the text of elements, or JSON values. Without one it is the
/// text that a reader sees of a page, or else the document itself.
pub(crate) fn extract(
    material: &Material,
    criteria: &Criteria,
    deadline: Deadline,
) -> Result<Extract, Stop> {
    let Material { bytes, content_type } = material;
    let length = bytes.len();
    let not_json = |error: String| Stop::failed(format!("the document is not good JSON: {error}"));
    let mut extract = match &criteria.selection {
        Some(Selection::JsonPath(path)) => {
            let document = json::parse(bytes).map_err(not_json)?;
            let values = json::query(path, &document)?;
            let extract = Extract::of_text(json::to_text(&values), values.len(), length);
            return Ok(Extract { values: Some(values), ..extract });
        }
        Some(Selection::Css(css)) => {
            if !media::is_html(bytes, content_type.as_deref()) {
                return Err(Stop::failed("the document is not HTML, but the selector is for that"));
            }
            let page = Page::parse(&String::from_utf8_lossy(bytes), deadline)?;
            let texts = page.select(css, deadline)?;
            Extract::of_text(texts.join("\n"), texts.len(), length)
        }
        None if media::is_html(bytes, content_type.as_deref()) => {
            let page = Page::parse(&String::from_utf8_lossy(bytes), deadline)?;
            Extract::of_text(page.visible_text()?, 1, length)
        }
        None => match media::text(bytes) {
            Some(text) => Extract::of_text(text.to_owned(), 1, length),
            None => Extract {
                text: None,
                // There is nothing to fold in an image.
                fingerprint: sha256(bytes),
                ..Extract::of_text(String::new(), 1, length)
            },
        },
    };
    if criteria.wants_json() {
        extract.values = Some(vec![json::parse(bytes).map_err(not_json)?]);
    }
    Ok(extract)
}

/// Holds what was taken out to everything that is asked of it.
pub(crate) fn check(extract: &Extract, criteria: &Criteria) -> Result<(), Stop> {
    if let Some(expected) = &criteria.expected_content {
        if extract.text.is_none() {
            return Err(Stop::failed("the document is not text, so the content is not there"));
        }
        if !extract.folded.contains(&fold(expected)) {
            return Err(Stop::failed(format!("the content {expected:?} is not there")));
        }
    }
    let values = extract.values.as_deref().unwrap_or_default();
    if let Some(wanted) = &criteria.custom.equals {
        match values {
            [value] if json::same(value, wanted) => {}
            [value] => return Err(Stop::failed(format!("{value} is not equal to {wanted}"))),
            _ => {
                let found = values.len();
                return Err(Stop::failed(format!("there are {found} values where one is wanted")));
            }
        }
    }
    if let Some(schema) = &criteria.schema {
        for value in values {
            schema.check(value, extract.document_len)?;
        }
    }
    Ok(())
}

/// Whether a status is the one that was asked for. An outage is nobody's failure: no money moves.
pub(crate) fn status(status: u16, asked: Option<u16>) -> Result<(), Stop> {
    let wanted = asked.map_or((200..300).contains(&status), |asked| status == asked);
    match status {
        _ if wanted => Ok(()),
        // The server asks to come back later.
        408 | 425 | 429 | 500.. => Err(Stop::error(
            "server_error",
            format!("HTTP status {status}: the server is in trouble"),
        )),
        _ => Err(Stop::failed(match asked {
            Some(asked) => format!("HTTP status {status} instead of {asked}"),
            None => format!("HTTP status {status}"),
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_white_space_and_composition_do_not_count() {
        let same = [
            ("  Hello,\n\tWORLD ", "hello, world"),
            ("cafe\u{301}", "CAFÉ"),
            ("STRASSE", "straße"),
            ("ὈΔΟΣ", "ὀδος"),
            ("a\u{a0}b", "a b"),
            // Marks in another order: they must be put in order before case makes letters of them.
            ("α\u{345}\u{301}", "ᾴ"),
            ("ﬁne", "FINE"),
        ];
        for (a, b) in same {
            assert_eq!(fold(a), fold(b), "{a:?} and {b:?}");
        }
        assert_ne!(fold("cafe"), fold("café"));
        assert_ne!(fold("ab"), fold("a b"));
    }

    #[test]
    fn trouble_at_the_server_is_no_failure_of_the_work() {
        assert_eq!(status(204, None), Ok(()));
        assert_eq!(status(404, Some(404)), Ok(()));
        assert_eq!(status(503, Some(503)), Ok(()));
        for trouble in [408, 429, 500, 502, 503, 599] {
            let stop = status(trouble, None).unwrap_err();
            assert!(matches!(&stop, Stop::Error(report) if report.code == "server_error"));
            assert!(matches!(status(trouble, Some(200)), Err(Stop::Error(_))));
        }
        assert_eq!(status(404, None), Err(Stop::failed("HTTP status 404")));
        assert_eq!(status(302, None), Err(Stop::failed("HTTP status 302")));
        assert_eq!(status(200, Some(201)), Err(Stop::failed("HTTP status 200 instead of 201")));
    }
}
