//! Small words that several messages of SHP share.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use skep_base::{Amount, Asset, Money, money::ParseMoneyError};

/// The version that this program speaks by itself.
pub const PROTOCOL: &str = "swarmwage/v0.3";
/// The version that brings clarification.
pub const PROTOCOL_CLARIFY: &str = "swarmwage/v0.4";

/// What a message may say of its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clarifies {
    /// `/clarify`, or a hire with a quote: v0.4 is understood too.
    Yes,
    No,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("protocol {given:?} is not spoken here: swarmwage/v0.1 to v0.3, v0.4 with a quote")]
pub struct UnknownProtocol {
    pub given: String,
}

/// Decision 12: v0.1 to v0.3 everywhere, v0.4 where something is clarified.
pub fn check_protocol(given: &str, clarifies: Clarifies) -> Result<(), UnknownProtocol> {
    let minor = given.strip_prefix("swarmwage/v0.").and_then(|minor| minor.parse::<u8>().ok());
    match (minor, clarifies) {
        (Some(1..=3), _) | (Some(4), Clarifies::Yes) => Ok(()),
        _ => Err(UnknownProtocol { given: given.to_owned() }),
    }
}

/// A price as it is written, such as `0.50`: digits, and at most six behind the point. It keeps its
/// spelling, since it is signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Usdc {
    text: String,
    amount: Amount,
}

impl Usdc {
    pub fn amount(&self) -> Amount {
        self.amount
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl From<Amount> for Usdc {
    fn from(amount: Amount) -> Usdc {
        Usdc { text: Money::new(amount, Asset::USDC).to_decimal(), amount }
    }
}

impl TryFrom<String> for Usdc {
    type Error = ParseMoneyError;

    fn try_from(text: String) -> Result<Usdc, ParseMoneyError> {
        let amount = Money::parse_decimal(&text, Asset::USDC)?.amount;
        Ok(Usdc { text, amount })
    }
}

impl From<Usdc> for String {
    fn from(price: Usdc) -> String {
        price.text
    }
}

impl FromStr for Usdc {
    type Err = ParseMoneyError;

    fn from_str(text: &str) -> Result<Usdc, ParseMoneyError> {
        text.to_owned().try_into()
    }
}

impl fmt::Display for Usdc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// 7.3.1: how a listing is paid.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum PaymentMode {
    #[default]
    Direct,
    /// The provider's name, such as this node's.
    PlatformEscrow(String),
    /// The address of an escrow that both sides agreed on; it speaks the same verbs.
    CustomEscrow(String),
}

impl PaymentMode {
    pub fn is_escrow(&self) -> bool {
        *self != PaymentMode::Direct
    }

    /// Who keeps the money meanwhile.
    pub fn escrow_provider(&self) -> Option<&str> {
        match self {
            PaymentMode::Direct => None,
            PaymentMode::PlatformEscrow(name) | PaymentMode::CustomEscrow(name) => Some(name),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is no payment mode: direct, platform_escrow:NAME or custom_escrow:URL")]
pub struct NotAPaymentMode {
    pub given: String,
}

/// The longest payment mode, in bytes.
pub const PAYMENT_MODE_LEN_MAX: usize = 300;

impl FromStr for PaymentMode {
    type Err = NotAPaymentMode;

    fn from_str(text: &str) -> Result<PaymentMode, NotAPaymentMode> {
        let named = |name: &str| !name.is_empty() && text.len() <= PAYMENT_MODE_LEN_MAX;
        match text.split_once(':') {
            None if text == "direct" => Ok(PaymentMode::Direct),
            Some(("platform_escrow", name)) if named(name) => {
                Ok(PaymentMode::PlatformEscrow(name.to_owned()))
            }
            Some(("custom_escrow", url)) if named(url) => {
                Ok(PaymentMode::CustomEscrow(url.to_owned()))
            }
            _ => Err(NotAPaymentMode { given: text.chars().take(PAYMENT_MODE_LEN_MAX).collect() }),
        }
    }
}

impl fmt::Display for PaymentMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PaymentMode::Direct => f.write_str("direct"),
            PaymentMode::PlatformEscrow(name) => write!(f, "platform_escrow:{name}"),
            PaymentMode::CustomEscrow(url) => write!(f, "custom_escrow:{url}"),
        }
    }
}

impl TryFrom<String> for PaymentMode {
    type Error = NotAPaymentMode;

    fn try_from(text: String) -> Result<PaymentMode, NotAPaymentMode> {
        text.parse()
    }
}

impl From<PaymentMode> for String {
    fn from(mode: PaymentMode) -> String {
        mode.to_string()
    }
}
