use std::cmp::Ordering;

use serde::{
    Serialize,
    ser::{self, Impossible},
};

use super::{CanonicalError, Result, Writer, write_text};

/// One entry of an object: key and value together in `out`, and where its key can be read.
pub(super) struct Entry {
    key: std::ops::Range<usize>,
    /// The key was escaped in `out`: its plain form is in `keys`.
    is_escaped: bool,
    start: usize,
    end: usize,
}

impl Entry {
    fn key<'a>(&self, out: &'a [u8], keys: &'a [u8]) -> &'a [u8] {
        &(if self.is_escaped { keys } else { out })[self.key.clone()]
    }
}

/// Compares UTF-8 strings as their UTF-16 code units compare.
///
/// The two orders differ only where U+E000..U+FFFF (first byte EE or EF) meets a surrogate pair
/// (first byte F0 or more): the pair comes first.
fn utf16_order(a: &[u8], b: &[u8]) -> Ordering {
    if a.is_ascii() && b.is_ascii() {
        return a.cmp(b);
    }
    let rank = |byte: u8| {
        if byte == 0xee || byte == 0xef { byte | 0xf0 } else { byte }
    };
    match a.iter().zip(b).find(|(a, b)| a != b) {
        Some((a, b)) => rank(*a).cmp(&rank(*b)),
        None => a.len().cmp(&b.len()),
    }
}

/// An object that is being written.
pub(super) struct Object<'w, 'o> {
    writer: &'w mut Writer<'o>,
    /// Where its first entry starts in the output.
    start: usize,
    /// How many entries and key bytes belong to the objects around it.
    outer_entries: usize,
    outer_keys: usize,
    in_order: bool,
    in_variant: bool,
}

impl<'w, 'o> Object<'w, 'o> {
    pub(super) fn open(writer: &'w mut Writer<'o>, in_variant: bool) -> Result<Self> {
        writer.enter(b'{')?;
        if writer.entries.capacity() == 0 {
            // Room for a usual object at once, instead of growing to it in steps.
            writer.entries.reserve(16);
        }
        let (start, outer_entries) = (writer.out.len(), writer.entries.len());
        let outer_keys = writer.keys.len();
        Ok(Object { writer, start, outer_entries, outer_keys, in_order: true, in_variant })
    }

    fn key(&mut self, key: &str) -> Result<()> {
        let Writer { out, keys, entries, .. } = &mut *self.writer;
        if entries.len() > self.outer_entries {
            out.push(b',');
            if self.in_order {
                let last = entries[entries.len() - 1].key(out, keys);
                match utf16_order(last, key.as_bytes()) {
                    Ordering::Less => {}
                    Ordering::Equal => return Err(duplicate(key)),
                    Ordering::Greater => self.in_order = false,
                }
            }
        }
        let start = out.len();
        write_text(out, key);
        let is_escaped = out.len() - start != key.len() + 2;
        let mut key_start = start + 1;
        if is_escaped {
            key_start = keys.len();
            keys.extend_from_slice(key.as_bytes());
        }
        let key = key_start..key_start + key.len();
        entries.push(Entry { key, is_escaped, start, end: start });
        out.push(b':');
        Ok(())
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        value.serialize(&mut *self.writer)?;
        let end = self.writer.out.len();
        if let Some(entry) = self.writer.entries.last_mut() {
            entry.end = end;
        }
        Ok(())
    }

    fn close(mut self) -> Result<()> {
        if !self.in_order {
            self.put_in_order()?;
        }
        self.writer.entries.truncate(self.outer_entries);
        self.writer.keys.truncate(self.outer_keys);
        self.writer.leave(b'}');
        if self.in_variant {
            self.writer.leave(b'}');
        }
        Ok(())
    }

    fn put_in_order(&mut self) -> Result<()> {
        let Writer { out, keys, entries, scratch, .. } = &mut *self.writer;
        let key = |entry: &Entry| entry.key(out, keys);
        let entries = &mut entries[self.outer_entries..];
        entries.sort_unstable_by(|a, b| utf16_order(key(a), key(b)));
        if let Some(twice) = entries.windows(2).find(|pair| key(&pair[0]) == key(&pair[1])) {
            return Err(duplicate(&String::from_utf8_lossy(key(&twice[0]))));
        }
        scratch.clear();
        scratch.extend_from_slice(&out[self.start..]);
        out.truncate(self.start);
        for (nth, entry) in entries.iter().enumerate() {
            if nth > 0 {
                out.push(b',');
            }
            out.extend_from_slice(&scratch[entry.start - self.start..entry.end - self.start]);
        }
        Ok(())
    }
}

fn duplicate(key: &str) -> CanonicalError {
    CanonicalError::DuplicateKey { key: key.into() }
}

impl ser::SerializeMap for Object<'_, '_> {
    type Ok = ();
    type Error = CanonicalError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<()> {
        key.serialize(OnlyText(|key: &str| self.key(key)))
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.value(value)
    }

    fn end(self) -> Result<()> {
        self.close()
    }
}

impl ser::SerializeStructVariant for Object<'_, '_> {
    type Ok = ();
    type Error = CanonicalError;

    fn serialize_field<T>(&mut self, key: &'static str, value: &T) -> Result<()>
    where
        T: Serialize + ?Sized,
    {
        self.key(key)?;
        self.value(value)
    }

    fn end(self) -> Result<()> {
        self.close()
    }
}

/// A struct, or the one by which `serde_json` passes on raw text: that is read and written anew.
pub(super) enum Struct<'w, 'o> {
    Fields(Object<'w, 'o>),
    Raw(&'w mut Writer<'o>),
}

impl ser::SerializeStruct for Struct<'_, '_> {
    type Ok = ();
    type Error = CanonicalError;

    fn serialize_field<T>(&mut self, key: &'static str, value: &T) -> Result<()>
    where
        T: Serialize + ?Sized,
    {
        match self {
            Struct::Fields(object) => {
                object.key(key)?;
                object.value(value)
            }
            Struct::Raw(writer) => value.serialize(OnlyText(|text: &str| writer.raw(text))),
        }
    }

    fn end(self) -> Result<()> {
        match self {
            Struct::Fields(object) => object.close(),
            Struct::Raw(_) => Ok(()),
        }
    }
}

/// Passes a string on and refuses everything else: what keys and raw text are read with.
struct OnlyText<F>(F);

/// The refusals of [`OnlyText`], one method per kind of value that is not a string.
macro_rules! refuse {
    ($($method:ident($($arg:ty),*) -> $ok:ty;)*) => {
        $(fn $method(self, $(_: $arg),*) -> Result<$ok> {
            Err(CanonicalError::KeyNotString)
        })*
    };
}

type Never = Impossible<(), CanonicalError>;

impl<F: FnMut(&str) -> Result<()>> ser::Serializer for OnlyText<F> {
    type Ok = ();
    type Error = CanonicalError;
    type SerializeSeq = Never;
    type SerializeTuple = Never;
    type SerializeTupleStruct = Never;
    type SerializeTupleVariant = Never;
    type SerializeMap = Never;
    type SerializeStruct = Never;
    type SerializeStructVariant = Never;

    fn serialize_str(mut self, text: &str) -> Result<()> {
        (self.0)(text)
    }

    fn serialize_char(self, text: char) -> Result<()> {
        self.serialize_str(text.encode_utf8(&mut [0; 4]))
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<()> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T>(self, _: &'static str, value: &T) -> Result<()>
    where
        T: Serialize + ?Sized,
    {
        value.serialize(self)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, _: &T) -> Result<()> {
        Err(CanonicalError::KeyNotString)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<()> {
        Err(CanonicalError::KeyNotString)
    }

    refuse! {
        serialize_bool(bool) -> ();
        serialize_i8(i8) -> ();
        serialize_i16(i16) -> ();
        serialize_i32(i32) -> ();
        serialize_i64(i64) -> ();
        serialize_i128(i128) -> ();
        serialize_u8(u8) -> ();
        serialize_u16(u16) -> ();
        serialize_u32(u32) -> ();
        serialize_u64(u64) -> ();
        serialize_u128(u128) -> ();
        serialize_f32(f32) -> ();
        serialize_f64(f64) -> ();
        serialize_bytes(&[u8]) -> ();
        serialize_none() -> ();
        serialize_unit() -> ();
        serialize_unit_struct(&'static str) -> ();
        serialize_seq(Option<usize>) -> Never;
        serialize_tuple(usize) -> Never;
        serialize_tuple_struct(&'static str, usize) -> Never;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Never;
        serialize_map(Option<usize>) -> Never;
        serialize_struct(&'static str, usize) -> Never;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Never;
    }
}
