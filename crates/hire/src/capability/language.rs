//! Natural languages: their codes (ISO 639-1), and which one a text seems to be in.

use whatlang::{Detector, Lang};

/// All two-letter codes in use.
const CODES: &str = "aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co \
    cr cs cu cv cy da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he \
    hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku \
    kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr \
    nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr \
    ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo \
    za zh zu";

/// Languages that can be told apart, with the codes that they are asked for by.
const KNOWN: &[(&str, Lang)] = &[
    ("af", Lang::Afr),
    ("am", Lang::Amh),
    ("ar", Lang::Ara),
    ("az", Lang::Aze),
    ("be", Lang::Bel),
    ("bg", Lang::Bul),
    ("bn", Lang::Ben),
    ("ca", Lang::Cat),
    ("cs", Lang::Ces),
    ("cy", Lang::Cym),
    ("da", Lang::Dan),
    ("de", Lang::Deu),
    ("el", Lang::Ell),
    ("en", Lang::Eng),
    ("eo", Lang::Epo),
    ("es", Lang::Spa),
    ("et", Lang::Est),
    ("fa", Lang::Pes),
    ("fi", Lang::Fin),
    ("fr", Lang::Fra),
    ("gu", Lang::Guj),
    ("he", Lang::Heb),
    ("hi", Lang::Hin),
    ("hr", Lang::Hrv),
    ("hu", Lang::Hun),
    ("hy", Lang::Hye),
    ("id", Lang::Ind),
    ("it", Lang::Ita),
    ("ja", Lang::Jpn),
    ("ka", Lang::Kat),
    ("km", Lang::Khm),
    ("kn", Lang::Kan),
    ("ko", Lang::Kor),
    ("la", Lang::Lat),
    ("lt", Lang::Lit),
    ("lv", Lang::Lav),
    ("mk", Lang::Mkd),
    ("ml", Lang::Mal),
    ("mr", Lang::Mar),
    ("my", Lang::Mya),
    ("nb", Lang::Nob),
    ("ne", Lang::Nep),
    ("nl", Lang::Nld),
    ("no", Lang::Nob),
    ("pa", Lang::Pan),
    ("pl", Lang::Pol),
    ("pt", Lang::Por),
    ("ro", Lang::Ron),
    ("ru", Lang::Rus),
    ("si", Lang::Sin),
    ("sk", Lang::Slk),
    ("sl", Lang::Slv),
    ("sr", Lang::Srp),
    ("sv", Lang::Swe),
    ("ta", Lang::Tam),
    ("te", Lang::Tel),
    ("th", Lang::Tha),
    ("tr", Lang::Tur),
    ("uk", Lang::Ukr),
    ("ur", Lang::Urd),
    ("vi", Lang::Vie),
    ("yi", Lang::Yid),
    ("zh", Lang::Cmn),
];
/// The languages of the taxonomy: what a text is told apart from.
const USUAL: &[&str] = &["en", "it", "es", "de", "fr", "pt", "ja", "zh", "ko", "ru", "ar"];

/// Texts with fewer letters than this are let through in v0.
const LETTERS_MIN_V0: usize = 40;
/// And in v1.
const LETTERS_MIN_V1: usize = 16;
/// From so many letters on v1 asks for confidence.
const LETTERS_SURE: usize = 80;
/// How sure v1 must be, from 0 to 1.
const CONFIDENCE_MIN: f64 = 0.1;
/// A Chinese, Japanese or Korean sign is worth so many letters here.
const DENSE: usize = 3;
/// So many characters of a text are looked at, from three places.
const LOOKED_AT: usize = 6000;

pub(super) fn is_code(word: &str) -> bool {
    word.len() == 2 && CODES.split_whitespace().any(|code| code == word)
}

/// Chinese, Japanese and Korean signs.
pub(super) fn is_dense(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7af}' | '\u{20000}'..='\u{2fa1f}')
}

/// What can be said about a text's language.
#[derive(Debug, PartialEq)]
pub(super) enum Heard {
    Right,
    /// Nothing can be said, for this reason.
    Open(&'static str),
    Wrong(String),
}

/// Whether a text is in the language.
pub(super) fn hear(text: &str, code: &str, strict: bool) -> Heard {
    // One sign of a dense writing says more than one letter.
    let letters = text.chars().filter(|c| c.is_alphabetic());
    let letters: usize = letters.map(|c| if is_dense(c) { DENSE } else { 1 }).sum();
    let least = if strict { LETTERS_MIN_V1 } else { LETTERS_MIN_V0 };
    if letters < least {
        return Heard::Open("the text is too short to tell its language");
    }
    let Some((_, wanted)) = KNOWN.iter().find(|(known, _)| *known == code) else {
        return Heard::Open("this language cannot be told from others here");
    };
    let mut among: Vec<Lang> =
        KNOWN.iter().filter(|(known, _)| USUAL.contains(known)).map(|(_, lang)| *lang).collect();
    if !among.contains(wanted) {
        among.push(*wanted);
    }
    let Some(info) = Detector::with_allowlist(among).detect(&sample(text)) else {
        return Heard::Wrong(format!("no language was recognized, {code} was asked for"));
    };
    if info.lang() != *wanted {
        return Heard::Wrong(format!("it looks like {}, {code} was asked for", info.lang()));
    }
    if strict && letters >= LETTERS_SURE && info.confidence() < CONFIDENCE_MIN {
        return Heard::Wrong(format!("it hardly looks like {code}"));
    }
    Heard::Right
}

/// The beginning, the middle and the end of a long text.
fn sample(text: &str) -> String {
    let length = text.chars().count();
    if length <= LOOKED_AT {
        return text.to_owned();
    }
    let part = LOOKED_AT / 3;
    let from = |start: usize| text.chars().skip(start).take(part).chain([' ']);
    from(0).chain(from(length / 2)).chain(from(length - part)).collect()
}
