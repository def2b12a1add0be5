use std::{fmt, str::FromStr};

use crate::{hash::keccak256, text};

/// An agent's stable name in the market: the address of its wallet, `0x` and 40 lower-case hex
/// digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentId(pub [u8; 20]);

impl AgentId {
    /// The address that nobody holds the key of.
    pub const ZERO: AgentId = AgentId([0; 20]);

    pub const fn from_bytes(bytes: [u8; 20]) -> Self {
        AgentId(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }

    /// The form whose letter case is a checksum (EIP-55), as wallets show it.
    pub fn to_checksummed(&self) -> String {
        let plain = self.to_string();
        let hash = keccak256(&plain.as_bytes()[2..]);
        let nibble = |at: usize| hash.0[at / 2] >> (4 * (1 - at % 2)) & 15;
        let cased = plain.chars().enumerate().map(|(at, digit)| match at {
            2.. if nibble(at - 2) >= 8 => digit.to_ascii_uppercase(),
            _ => digit,
        });
        cased.collect()
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::write_hex::<42>(f, "0x", &self.0)
    }
}

impl fmt::Debug for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AgentId({self})")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseAgentIdError {
    #[error("an agent id is 0x and 40 hex digits")]
    Malformed,
    #[error("the upper and lower case of this agent id do not match its checksum (EIP-55)")]
    WrongChecksum,
}

impl FromStr for AgentId {
    type Err = ParseAgentIdError;

    /// Lower or upper case is taken as it is; mixed case is a checksum and must hold.
    fn from_str(text: &str) -> Result<Self, ParseAgentIdError> {
        let digits = text.strip_prefix("0x").ok_or(ParseAgentIdError::Malformed)?;
        let mut bytes = [0; 20];
        hex::decode_to_slice(digits, &mut bytes).map_err(|_| ParseAgentIdError::Malformed)?;
        let id = AgentId(bytes);
        let has = |of_case: fn(&u8) -> bool| digits.as_bytes().iter().any(of_case);
        let mixed = has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
        if mixed && id.to_checksummed() != text {
            return Err(ParseAgentIdError::WrongChecksum);
        }
        Ok(id)
    }
}

text::serde_as_text!(AgentId, "an agent id, 0x and 40 hex digits");
