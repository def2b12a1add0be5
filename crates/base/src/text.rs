//! What the types with one textual form have in common.

use std::fmt;

/// Implements serde through `Display` and `FromStr`, so that a type has one textual form
/// everywhere.
macro_rules! serde_as_text {
    ($type:ty, $expecting:literal) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str($crate::text::FromText::new($expecting))
            }
        }
    };
}
pub(crate) use serde_as_text;

/// A serde visitor that reads a string through `FromStr` and refuses everything else.
pub(crate) struct FromText<T> {
    expecting: &'static str,
    target: std::marker::PhantomData<fn() -> T>,
}

impl<T> FromText<T> {
    pub(crate) fn new(expecting: &'static str) -> Self {
        Self { expecting, target: std::marker::PhantomData }
    }
}

impl<T> serde::de::Visitor<'_> for FromText<T>
where
    T: std::str::FromStr,
    T::Err: fmt::Display,
{
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

/// Writes a prefix and bytes as lower-case hex, `N` characters in all.
pub(crate) fn write_hex<const N: usize>(
    f: &mut fmt::Formatter<'_>,
    prefix: &str,
    bytes: &[u8],
) -> fmt::Result {
    let mut text = [0; N];
    let (first, digits) = text.split_at_mut_checked(prefix.len()).ok_or(fmt::Error)?;
    first.copy_from_slice(prefix.as_bytes());
    hex::encode_to_slice(bytes, digits).map_err(|_| fmt::Error)?;
    write_ascii(f, &text)
}

/// Writes a whole text in one go. Ids and times are written dozens of times in every step, and a
/// string that takes them in parts is allocated anew for each part.
pub(crate) fn write_ascii(f: &mut fmt::Formatter<'_>, text: &[u8]) -> fmt::Result {
    f.write_str(std::str::from_utf8(text).map_err(|_| fmt::Error)?)
}
