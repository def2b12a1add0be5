use std::{borrow::Cow, collections::BTreeSet};

use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value, map::Entry};

use super::{MAX_DEPTH, MAX_INTEGER};

/// From here on a double is written with an exponent, and so is read back as what it is.
const FIRST_WITH_EXPONENT: f64 = 1e21;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    #[error("the key {key:?} occurs twice in one object")]
    DuplicateKey { key: String },
    #[error("the number {number} is too large to be read exactly everywhere")]
    NumberTooLarge { number: String },
    #[error("the JSON nests deeper than {MAX_DEPTH} levels")]
    TooDeep,
    #[error("not JSON at line {line}, column {column}: {reason}")]
    Malformed { line: usize, column: usize, reason: &'static str },
    #[error("not what was expected here: {reason}")]
    WrongShape { reason: String },
}

/// Reads JSON that has one meaning only.
///
/// Refused: a key twice in an object, an integer beyond 2^53 - 1 (also one with an exponent whose
/// canonical form would be such an integer), a number beyond a double, half of a surrogate pair,
/// bytes that are not UTF-8, anything after the value, nesting beyond [`MAX_DEPTH`].
pub fn parse(bytes: &[u8]) -> Result<Value, ParseError> {
    read::<true>(text_of(bytes)?)
}

fn text_of(bytes: &[u8]) -> Result<&str, ParseError> {
    let bad = |error: std::str::Utf8Error| malformed_at(bytes, error.valid_up_to(), "not UTF-8");
    std::str::from_utf8(bytes).map_err(bad)
}

/// The whole text; where nothing is kept of it, it is only checked.
fn read<const KEEP: bool>(text: &str) -> Result<Value, ParseError> {
    let mut parser = Parser::<KEEP> { text, at: 0 };
    parser.skip_space();
    let value = parser.value(0)?;
    parser.skip_space();
    if parser.at < text.len() {
        return Err(parser.malformed("something follows the value"));
    }
    Ok(value)
}

/// [`parse`], then read as a `T`; an error names the path to the part that does not fit.
///
/// The `T` is read from the text, not from the parsed value, so that it may hold decimal numbers
/// exactly (as raw values), which a [`Value`] cannot.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ParseError> {
    let text = text_of(bytes)?;
    read::<false>(text)?;
    // The path costs time, and is looked for only where somebody is told of it.
    if let Ok(read) = T::deserialize(&mut deserializer(text)) {
        return Ok(read);
    }
    serde_path_to_error::deserialize(&mut deserializer(text)).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        let reason = if path == "." { inner.to_string() } else { format!("{path}: {inner}") };
        ParseError::WrongShape { reason }
    })
}

/// The depth is known to be within MAX_DEPTH; serde_json's own limit is one level lower.
fn deserializer(text: &str) -> serde_json::Deserializer<serde_json::de::StrRead<'_>> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer.disable_recursion_limit();
    deserializer
}

/// Reads what this program wrote itself. What came in was at most [`MAX_DEPTH`] deep, and what we
/// keep it in adds a little: it must never be unreadable for that.
pub fn read_own<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    deserializer.disable_recursion_limit();
    let read = T::deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(read)
}

fn malformed_at(bytes: &[u8], at: usize, reason: &'static str) -> ParseError {
    let before = &bytes[..at.min(bytes.len())];
    let line = before.iter().filter(|b| **b == b'\n').count() + 1;
    let line_start = before.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
    let column = String::from_utf8_lossy(&before[line_start..]).chars().count() + 1;
    ParseError::Malformed { line, column, reason }
}

/// Reads a value, or checks its text and keeps nothing of it.
struct Parser<'a, const KEEP: bool> {
    text: &'a str,
    at: usize,
}

impl<'a, const KEEP: bool> Parser<'a, KEEP> {
    fn malformed(&self, reason: &'static str) -> ParseError {
        malformed_at(self.text.as_bytes(), self.at, reason)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Takes `byte` if it is next, after any space, and the space that follows it.
    fn take(&mut self, byte: u8) -> bool {
        self.skip_space();
        let taken = self.peek() == Some(byte);
        if taken {
            self.at += 1;
            self.skip_space();
        }
        taken
    }

    fn value(&mut self, depth: usize) -> Result<Value, ParseError> {
        match self.peek() {
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b'"') => {
                let text = self.string()?;
                Ok(if KEEP { Value::String(text.into_owned()) } else { Value::Null })
            }
            Some(b'-' | b'0'..=b'9') => self.number().map(Value::Number),
            Some(b'n') => self.word("null", Value::Null),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(_) => Err(self.malformed("a value is expected here")),
            None => Err(self.malformed("the text ends where a value is expected")),
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, ParseError> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(self.malformed("the only words are null, true and false"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn array(&mut self, depth: usize) -> Result<Value, ParseError> {
        if depth > MAX_DEPTH {
            return Err(ParseError::TooDeep);
        }
        self.take(b'[');
        let mut items = Vec::new();
        if self.take_end(b']') {
            return Ok(Value::Array(items));
        }
        loop {
            let item = self.value(depth)?;
            if KEEP {
                items.push(item);
            }
            self.skip_space();
            if self.take_end(b']') {
                return Ok(Value::Array(items));
            }
            if !self.take(b',') {
                return Err(self.malformed("a comma or ] is expected here"));
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, ParseError> {
        if depth > MAX_DEPTH {
            return Err(ParseError::TooDeep);
        }
        self.take(b'{');
        let (mut entries, mut keys) = (Map::new(), BTreeSet::new());
        if self.take_end(b'}') {
            return Ok(Value::Object(entries));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.malformed("a key in double quotes is expected here"));
            }
            let key = self.string()?;
            if !self.take(b':') {
                return Err(self.malformed("a colon is expected here"));
            }
            if !KEEP {
                if keys.contains(&key) {
                    return Err(ParseError::DuplicateKey { key: key.into_owned() });
                }
                keys.insert(key);
                self.value(depth)?;
            } else {
                match entries.entry(key.into_owned()) {
                    Entry::Occupied(entry) => {
                        return Err(ParseError::DuplicateKey { key: entry.key().clone() });
                    }
                    Entry::Vacant(entry) => entry.insert(self.value(depth)?),
                };
            }
            self.skip_space();
            if self.take_end(b'}') {
                return Ok(Value::Object(entries));
            }
            if !self.take(b',') {
                return Err(self.malformed("a comma or } is expected here"));
            }
        }
    }

    /// Takes a closing bracket but not the space after it, which the caller looks at.
    fn take_end(&mut self, bracket: u8) -> bool {
        let taken = self.peek() == Some(bracket);
        self.at += usize::from(taken);
        taken
    }

    fn digits(&mut self) -> Result<usize, ParseError> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.malformed("a digit is expected here"));
        }
        Ok(self.at - start)
    }

    fn number(&mut self) -> Result<Number, ParseError> {
        let start = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        let leading_zero = self.peek() == Some(b'0');
        if self.digits()? > 1 && leading_zero {
            return Err(self.malformed("a number does not start with 0"));
        }
        let mut integer = true;
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
            integer = false;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
            integer = false;
        }
        let text = &self.text[start..self.at];
        let number = if integer { exact_integer(text) } else { safe_double(text) };
        number.ok_or_else(|| ParseError::NumberTooLarge { number: shortened(text) })
    }

    /// Reads a string from its opening quote to behind its closing one.
    fn string(&mut self) -> Result<Cow<'a, str>, ParseError> {
        self.at += 1;
        let text = self.text;
        let mut value = Cow::Borrowed("");
        loop {
            let rest = &text.as_bytes()[self.at..];
            let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..=0x1f);
            let len = rest.iter().position(special).unwrap_or(rest.len());
            // Adding to what is empty borrows: nothing is copied where there is no escape.
            value += &text[self.at..self.at + len];
            self.at += len;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(value);
                }
                Some(b'\\') => value.to_mut().push(self.escape()?),
                Some(_) => return Err(self.malformed("a control character must be escaped")),
                None => return Err(self.malformed("the text ends inside a string")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, ParseError> {
        let start = self.at;
        self.at += 2;
        match self.text.as_bytes().get(start + 1) {
            Some(b'"') => Ok('"'),
            Some(b'\\') => Ok('\\'),
            Some(b'/') => Ok('/'),
            Some(b'b') => Ok('\u{8}'),
            Some(b'f') => Ok('\u{c}'),
            Some(b'n') => Ok('\n'),
            Some(b'r') => Ok('\r'),
            Some(b't') => Ok('\t'),
            Some(b'u') => {
                let first = self.hex4()?;
                let mut units = [first, 0];
                let mut len = 1;
                if (0xd800..0xdc00).contains(&first)
                    && self.text.as_bytes()[self.at..].starts_with(b"\\u")
                {
                    self.at += 2;
                    units[1] = self.hex4()?;
                    len = 2;
                }
                match char::decode_utf16(units[..len].iter().copied()).next() {
                    Some(Ok(char)) => Ok(char),
                    _ => {
                        self.at = start;
                        Err(self.malformed("half of a surrogate pair stands alone"))
                    }
                }
            }
            _ => {
                self.at = start;
                Err(self.malformed("no such escape"))
            }
        }
    }

    fn hex4(&mut self) -> Result<u16, ParseError> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|b| char::from(b).to_digit(16));
            let digit = digit.ok_or_else(|| self.malformed("\\u needs four hex digits"))?;
            unit = unit << 4 | digit as u16;
            self.at += 1;
        }
        Ok(unit)
    }
}

/// Minus zero becomes zero: it has no canonical form of its own.
fn exact_integer(text: &str) -> Option<Number> {
    let value: i64 = text.parse().ok()?;
    (-MAX_INTEGER..=MAX_INTEGER).contains(&value).then(|| value.into())
}

fn safe_double(text: &str) -> Option<Number> {
    let value: f64 = text.parse().ok()?;
    let size = value.abs();
    let as_long_integer = size > MAX_INTEGER as f64 && size < FIRST_WITH_EXPONENT;
    if as_long_integer { None } else { Number::from_f64(value) }
}

fn shortened(number: &str) -> String {
    const SHOWN: usize = 40;
    if number.len() <= SHOWN { number.to_owned() } else { format!("{}...", &number[..SHOWN]) }
}
