//! Money in whole minor units of an asset: no doubles, no rounding that nobody asked for.

mod amount;
mod asset;
#[cfg(test)]
mod tests;

use std::{fmt, str::FromStr};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, IgnoredAny, MapAccess, Visitor},
    ser::SerializeStruct,
};

use crate::json::RAW_VALUE;

pub use amount::{Amount, ParseAmountError, Rounding};
pub use asset::{Asset, ParseAssetError};

/// An amount of an asset. In JSON: `{"amount":"12.50","amount_minor":"12500000","asset":"USDC"}`.
///
/// On input one of the two amounts is enough; if both are there, they must agree. `amount` may be a
/// JSON number and is then read from its digits, so that no double ever stands in for money.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Money {
    pub amount: Amount,
    pub asset: Asset,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MoneyError {
    #[error("{left} and {right} cannot be added or compared")]
    AssetMismatch { left: Asset, right: Asset },
    #[error("the sum is too large")]
    Overflow,
    #[error("more would be taken than there is")]
    Negative,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseMoneyError {
    #[error("an amount is digits, with a point and more digits if need be")]
    Malformed,
    #[error("an amount is not negative")]
    Negative,
    #[error("the amount is too large")]
    TooLarge,
    #[error("the amount has {given} decimals, and its asset has {allowed}")]
    TooManyDecimals { given: usize, allowed: usize },
    #[error("an asset must follow the amount, as in 12.50 USDC")]
    MissingAsset,
    #[error(transparent)]
    Asset(#[from] ParseAssetError),
}

impl Money {
    pub const fn new(amount: Amount, asset: Asset) -> Self {
        Money { amount, asset }
    }

    pub const fn zero(asset: Asset) -> Self {
        Money { amount: Amount::ZERO, asset }
    }

    pub fn checked_add(self, other: Money) -> Result<Money, MoneyError> {
        let asset = self.common_asset(other)?;
        let amount = self.amount.checked_add(other.amount).ok_or(MoneyError::Overflow)?;
        Ok(Money { amount, asset })
    }

    pub fn checked_sub(self, other: Money) -> Result<Money, MoneyError> {
        let asset = self.common_asset(other)?;
        let amount = self.amount.checked_sub(other.amount).ok_or(MoneyError::Negative)?;
        Ok(Money { amount, asset })
    }

    fn common_asset(self, other: Money) -> Result<Asset, MoneyError> {
        if self.asset != other.asset {
            return Err(MoneyError::AssetMismatch { left: self.asset, right: other.asset });
        }
        Ok(self.asset)
    }

    /// Reads `12.50` exactly. One spelling of the digits only: no sign, no exponent, no leading
    /// zeros, digits on both sides of the point, and no more decimals than the asset has.
    pub fn parse_decimal(text: &str, asset: Asset) -> Result<Money, ParseMoneyError> {
        if text.starts_with('-') {
            return Err(ParseMoneyError::Negative);
        }
        let (whole, decimals) = match text.split_once('.') {
            Some((_, "")) => return Err(ParseMoneyError::Malformed),
            Some(parts) => parts,
            None => (text, ""),
        };
        let all_digits = whole.bytes().chain(decimals.bytes()).all(|b| b.is_ascii_digit());
        let leading_zero = whole.len() > 1 && whole.starts_with('0');
        if whole.is_empty() || !all_digits || leading_zero {
            return Err(ParseMoneyError::Malformed);
        }
        let allowed = asset.exponent() as usize;
        if decimals.len() > allowed {
            return Err(ParseMoneyError::TooManyDecimals { given: decimals.len(), allowed });
        }
        let padding = std::iter::repeat_n(b'0', allowed - decimals.len());
        let digits = whole.bytes().chain(decimals.bytes()).chain(padding);
        let minor = digits.into_iter().try_fold(0_i64, |sum, digit| {
            sum.checked_mul(10)?.checked_add(i64::from(digit - b'0'))
        });
        let amount = minor.and_then(Amount::new).ok_or(ParseMoneyError::TooLarge)?;
        Ok(Money { amount, asset })
    }

    /// The amount with all the decimals of its asset: `12.500000`.
    pub fn to_decimal(&self) -> String {
        let exponent = self.asset.exponent() as usize;
        let mut digits = format!("{:0>width$}", self.amount.minor(), width = exponent + 1);
        if exponent > 0 {
            digits.insert(digits.len() - exponent, '.');
        }
        digits
    }

    /// The amount as people write it: zeros at the end go, but two decimals stay.
    fn to_short_decimal(self) -> String {
        let mut digits = self.to_decimal();
        let Some(point) = digits.find('.') else {
            return digits;
        };
        while digits.len() > point + 3 && digits.ends_with('0') {
            digits.pop();
        }
        digits
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.to_short_decimal(), self.asset)
    }
}

impl fmt::Debug for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Money {
    type Err = ParseMoneyError;

    fn from_str(text: &str) -> Result<Self, ParseMoneyError> {
        let (amount, asset) = text.split_once(' ').ok_or(ParseMoneyError::MissingAsset)?;
        Money::parse_decimal(amount, asset.parse()?)
    }
}

impl Serialize for Money {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Money", 3)?;
        fields.serialize_field("amount", &self.to_short_decimal())?;
        fields.serialize_field("amount_minor", &self.amount)?;
        fields.serialize_field("asset", &self.asset)?;
        fields.end()
    }
}

impl<'de> Deserialize<'de> for Money {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename = "Money", deny_unknown_fields)]
        struct Fields {
            amount: Option<DecimalText>,
            amount_minor: Option<Amount>,
            asset: Asset,
        }
        let Fields { amount, amount_minor, asset } = Fields::deserialize(deserializer)?;
        let read = |text: DecimalText| Money::parse_decimal(&text.0, asset);
        let decimal = amount.map(read).transpose().map_err(de::Error::custom)?;
        let minor = amount_minor.map(|amount| Money { amount, asset });
        match (decimal, minor) {
            (Some(decimal), Some(minor)) if decimal != minor => {
                Err(de::Error::custom("amount and amount_minor are not the same"))
            }
            (Some(money), _) | (None, Some(money)) => Ok(money),
            (None, None) => Err(de::Error::custom("amount or amount_minor is missing")),
        }
    }
}

/// The text of a decimal, from a JSON string or from the digits of a JSON number. It is written as
/// a JSON number with exactly these digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecimalText(String);

impl DecimalText {
    /// The digits as they were sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<Money> for DecimalText {
    fn from(money: Money) -> DecimalText {
        DecimalText(money.to_short_decimal())
    }
}

impl Serialize for DecimalText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let number = serde_json::value::RawValue::from_string(self.0.clone());
        number.map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for DecimalText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(RAW_VALUE, DecimalVisitor)
    }
}

/// Gets the raw text from `serde_json`. Where serde has buffered the value already (in an untagged
/// enum, say), a number with decimals has been a double and is refused; strings and integers are
/// intact.
struct DecimalVisitor;

impl<'de> Visitor<'de> for DecimalVisitor {
    type Value = DecimalText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an amount as a string or a number")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut raw: A) -> Result<DecimalText, A::Error> {
        raw.next_key::<IgnoredAny>()?;
        let text: String = raw.next_value()?;
        match text.as_bytes().first() {
            Some(b'"') => serde_json::from_str(&text).map(DecimalText).map_err(de::Error::custom),
            Some(b'-' | b'0'..=b'9') => Ok(DecimalText(text)),
            _ => Err(de::Error::custom("an amount is a string or a number")),
        }
    }

    fn visit_newtype_struct<D>(self, deserializer: D) -> Result<DecimalText, D::Error>
    where
        D: Deserializer<'de>,
    {
        deserializer.deserialize_any(self)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<DecimalText, E> {
        Ok(DecimalText(text.to_owned()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<DecimalText, E> {
        Ok(DecimalText(number.to_string()))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<DecimalText, E> {
        Ok(DecimalText(number.to_string()))
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<DecimalText, E> {
        Err(E::custom("an amount with decimals must be a string here"))
    }
}
