//! The writer. Values go straight into the output; an object remembers where its entries lie and
//! moves them only if they did not come in order already.

mod array;
mod object;

use serde::{Serialize, ser};

use self::{
    array::Array,
    object::{Entry, Object, Struct},
};
use super::{MAX_DEPTH, MAX_INTEGER, RAW_VALUE, parser};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CanonicalError {
    #[error("NaN and infinity have no JSON form")]
    NotFinite,
    #[error("a float stands where only integers are allowed")]
    FloatRefused,
    #[error("the integer {integer} is too large to be read exactly everywhere")]
    IntegerTooLarge { integer: i128 },
    #[error("a key of an object is not a string")]
    KeyNotString,
    #[error("the key {key:?} occurs twice in one object")]
    DuplicateKey { key: Box<str> },
    #[error("the value nests deeper than {MAX_DEPTH} levels")]
    TooDeep,
    #[error("raw JSON inside the value was refused")]
    Raw(#[source] Box<parser::ParseError>),
    #[error("the value refused to be written: {reason}")]
    Custom { reason: Box<str> },
}

impl ser::Error for CanonicalError {
    fn custom<T: std::fmt::Display>(reason: T) -> Self {
        CanonicalError::Custom { reason: reason.to_string().into() }
    }
}

type Result<T, E = CanonicalError> = std::result::Result<T, E>;

/// The canonical JSON of a value, as RFC 8785 has it.
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(128);
    write(value, &mut out)?;
    Ok(out)
}

/// [`to_vec`] as a string.
pub fn to_string<T: Serialize + ?Sized>(value: &T) -> Result<String> {
    Ok(String::from_utf8(to_vec(value)?).expect("only whole strings and ASCII are written"))
}

/// Appends the canonical JSON of a value; on an error `out` is as it was.
pub fn write<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<()> {
    write_with(value, out, true)
}

/// For what wallets sign, where a float would be a second spelling of the same terms.
pub(crate) fn to_vec_without_floats<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(128);
    write_with(value, &mut out, false)?;
    Ok(out)
}

fn write_with<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>, floats: bool) -> Result<()> {
    let start = out.len();
    let mut writer = Writer {
        out: &mut *out,
        floats,
        depth: 0,
        keys: Vec::new(),
        entries: Vec::new(),
        scratch: Vec::new(),
    };
    let done = value.serialize(&mut writer);
    if done.is_err() {
        out.truncate(start);
    }
    done
}

struct Writer<'o> {
    out: &'o mut Vec<u8>,
    floats: bool,
    depth: usize,
    /// The plain form of escaped keys of all objects that are still open, one after the other.
    keys: Vec<u8>,
    /// The entries of all objects that are still open, innermost last.
    entries: Vec<Entry>,
    /// Where an object lies while its entries are put in order.
    scratch: Vec<u8>,
}

impl Writer<'_> {
    fn enter(&mut self, bracket: u8) -> Result<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(CanonicalError::TooDeep);
        }
        self.out.push(bracket);
        Ok(())
    }

    fn leave(&mut self, bracket: u8) {
        self.depth -= 1;
        self.out.push(bracket);
    }

    fn text(&mut self, text: &str) {
        write_text(self.out, text);
    }

    fn unsigned(&mut self, value: u64) -> Result<()> {
        if value > MAX_INTEGER as u64 {
            return Err(CanonicalError::IntegerTooLarge { integer: value.into() });
        }
        self.out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        Ok(())
    }

    fn signed(&mut self, value: i64) -> Result<()> {
        if value.unsigned_abs() > MAX_INTEGER as u64 {
            return Err(CanonicalError::IntegerTooLarge { integer: value.into() });
        }
        self.out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        Ok(())
    }

    fn raw(&mut self, text: &str) -> Result<()> {
        let value =
            parser::parse(text.as_bytes()).map_err(|error| CanonicalError::Raw(Box::new(error)))?;
        value.serialize(self)
    }
}

/// What stands after the backslash for a byte that needs one; `u` means four hex digits follow.
const ESCAPES: [u8; 256] = {
    let mut table = [0; 256];
    let mut control = 0;
    while control < 0x20 {
        table[control] = b'u';
        control += 1;
    }
    table[0x08] = b'b';
    table[0x09] = b't';
    table[0x0a] = b'n';
    table[0x0c] = b'f';
    table[0x0d] = b'r';
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table
};

fn write_text(out: &mut Vec<u8>, text: &str) {
    let mut rest = text.as_bytes();
    out.reserve(rest.len() + 3);
    out.push(b'"');
    loop {
        let plain = plain_len(rest);
        out.extend_from_slice(&rest[..plain]);
        let Some(&byte) = rest.get(plain) else { break };
        match ESCAPES[usize::from(byte)] {
            b'u' => {
                let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
                let (high, low) = (digit(byte >> 4), digit(byte & 15));
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
            }
            escape => out.extend_from_slice(&[b'\\', escape]),
        }
        rest = &rest[plain + 1..];
    }
    out.push(b'"');
}

/// How many bytes from the start need no escape. Eight at a time while there are as many: text is
/// most of what is written.
fn plain_len(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = 0x8080_8080_8080_8080;
    let mut at = 0;
    while let Some(chunk) = bytes.get(at..at + 8) {
        let word = u64::from_le_bytes(chunk.try_into().unwrap_or_default());
        let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word & TOPS;
        let is = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
        if below(word, 0x20) | is(b'"') | is(b'\\') != 0 {
            break;
        }
        at += 8;
    }
    let special = bytes[at..].iter().position(|byte| ESCAPES[usize::from(*byte)] != 0);
    special.map_or(bytes.len(), |more| at + more)
}

impl<'w, 'o> ser::Serializer for &'w mut Writer<'o> {
    type Ok = ();
    type Error = CanonicalError;
    type SerializeSeq = Array<'w, 'o>;
    type SerializeTuple = Array<'w, 'o>;
    type SerializeTupleStruct = Array<'w, 'o>;
    type SerializeTupleVariant = Array<'w, 'o>;
    type SerializeMap = Object<'w, 'o>;
    type SerializeStruct = Struct<'w, 'o>;
    type SerializeStructVariant = Object<'w, 'o>;

    fn serialize_bool(self, value: bool) -> Result<()> {
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn serialize_i8(self, value: i8) -> Result<()> {
        self.signed(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<()> {
        self.signed(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<()> {
        self.signed(value.into())
    }

    fn serialize_i64(self, value: i64) -> Result<()> {
        self.signed(value)
    }

    fn serialize_i128(self, value: i128) -> Result<()> {
        let small = i64::try_from(value);
        self.signed(small.map_err(|_| CanonicalError::IntegerTooLarge { integer: value })?)
    }

    fn serialize_u8(self, value: u8) -> Result<()> {
        self.unsigned(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<()> {
        self.unsigned(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<()> {
        self.unsigned(value.into())
    }

    fn serialize_u64(self, value: u64) -> Result<()> {
        self.unsigned(value)
    }

    fn serialize_u128(self, value: u128) -> Result<()> {
        self.serialize_i128(i128::try_from(value).unwrap_or(i128::MAX))
    }

    fn serialize_f32(self, value: f32) -> Result<()> {
        self.serialize_f64(value.into())
    }

    fn serialize_f64(self, value: f64) -> Result<()> {
        if !self.floats {
            return Err(CanonicalError::FloatRefused);
        }
        if !value.is_finite() {
            return Err(CanonicalError::NotFinite);
        }
        self.out.extend_from_slice(ryu_js::Buffer::new().format_finite(value).as_bytes());
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<()> {
        self.text(value.encode_utf8(&mut [0; 4]));
        Ok(())
    }

    fn serialize_str(self, value: &str) -> Result<()> {
        self.text(value);
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<()> {
        self.collect_seq(value)
    }

    fn serialize_none(self) -> Result<()> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<()> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<()> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<()> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<()> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T>(self, _name: &'static str, value: &T) -> Result<()>
    where
        T: Serialize + ?Sized,
    {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<()>
    where
        T: Serialize + ?Sized,
    {
        self.enter(b'{')?;
        self.text(variant);
        self.out.push(b':');
        value.serialize(&mut *self)?;
        self.leave(b'}');
        Ok(())
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Array<'w, 'o>> {
        Array::open(self, false)
    }

    fn serialize_tuple(self, _len: usize) -> Result<Array<'w, 'o>> {
        Array::open(self, false)
    }

    fn serialize_tuple_struct(self, _name: &'static str, _len: usize) -> Result<Array<'w, 'o>> {
        Array::open(self, false)
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Array<'w, 'o>> {
        self.enter(b'{')?;
        self.text(variant);
        self.out.push(b':');
        Array::open(self, true)
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Object<'w, 'o>> {
        Object::open(self, false)
    }

    fn serialize_struct(self, name: &'static str, _len: usize) -> Result<Struct<'w, 'o>> {
        if name == RAW_VALUE {
            return Ok(Struct::Raw(self));
        }
        Object::open(self, false).map(Struct::Fields)
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Object<'w, 'o>> {
        self.enter(b'{')?;
        self.text(variant);
        self.out.push(b':');
        Object::open(self, true)
    }
}
