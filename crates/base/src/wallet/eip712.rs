//! Typed data as wallets sign it (EIP-712), for the structs whose fields this crate knows.

use crate::{
    hash::{Hash32, keccak256},
    id::AgentId,
};

/// Who the typed data is meant for; a signature for one domain is worth nothing in another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    pub name: String,
    pub version: String,
    pub chain_id: u64,
    pub verifying_contract: AgentId,
}

impl Domain {
    pub fn separator(&self) -> Hash32 {
        let domain_type = type_hash(
            "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)",
        );
        struct_hash(
            domain_type,
            &[
                Field::String(&self.name),
                Field::String(&self.version),
                Field::Uint256(self.chain_id.into()),
                Field::Address(self.verifying_contract),
            ],
        )
    }
}

/// A field of a struct. A field that is a struct itself goes in as the `Bytes32` of its own hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field<'a> {
    Address(AgentId),
    Uint256(u128),
    Bytes32(Hash32),
    String(&'a str),
    Bytes(&'a [u8]),
    Bool(bool),
}

impl Field<'_> {
    fn word(&self) -> [u8; 32] {
        let mut word = [0; 32];
        match self {
            Field::Address(address) => word[12..].copy_from_slice(address.as_bytes()),
            Field::Uint256(number) => word[16..].copy_from_slice(&number.to_be_bytes()),
            Field::Bytes32(bytes) => word = bytes.0,
            Field::String(text) => word = keccak256(text.as_bytes()).0,
            Field::Bytes(bytes) => word = keccak256(bytes).0,
            Field::Bool(value) => word[31] = u8::from(*value),
        }
        word
    }
}

/// The hash of a type's description, such as `Mail(address to,string contents)`.
pub fn type_hash(description: &str) -> Hash32 {
    keccak256(description.as_bytes())
}

/// A struct as the bytes that are hashed: its type, then one word for each field.
pub fn encode(type_hash: Hash32, fields: &[Field<'_>]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32 * (fields.len() + 1));
    bytes.extend_from_slice(type_hash.as_bytes());
    for field in fields {
        bytes.extend_from_slice(&field.word());
    }
    bytes
}

/// The hash of a struct's [`encode`]d form.
pub fn struct_hash(type_hash: Hash32, fields: &[Field<'_>]) -> Hash32 {
    keccak256(&encode(type_hash, fields))
}

/// What a wallet signs: a struct within a domain.
pub fn digest(domain_separator: Hash32, struct_hash: Hash32) -> Hash32 {
    let mut bytes = [0; 66];
    bytes[..2].copy_from_slice(b"\x19\x01");
    bytes[2..34].copy_from_slice(domain_separator.as_bytes());
    bytes[34..].copy_from_slice(struct_hash.as_bytes());
    keccak256(&bytes)
}
