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

/// Writes bytes as lower-case hex without a heap allocation; `N` is twice the number of bytes.
pub(crate) fn write_hex<const N: usize>(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    let mut text = [0; N];
    hex::encode_to_slice(bytes, &mut text).map_err(|_| fmt::Error)?;
    f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
}
