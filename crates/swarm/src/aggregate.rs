//! How results are named and put together: content ids, chunks, Merkle trees (decisions 47, 49).

use serde::{Deserialize, Serialize};
use skep_base::{Hash32, hash::sha256, json, merkle};
use skep_wire::swarm::{Artifact, Place};

#[cfg(test)]
mod tests;

/// Content is proven in chunks of so many bytes; the last may be shorter.
pub const CHUNK_LEN: usize = 262_144;

/// The root over a content's chunks.
pub fn content_root(content: &[u8]) -> Hash32 {
    merkle::root(&chunk_leaves(content))
}

/// Proof that a chunk belongs to a content; `None` if there is no such chunk.
pub fn chunk_proof(content: &[u8], index: u64) -> Option<Vec<Hash32>> {
    merkle::inclusion_proof(&chunk_leaves(content), index)
}

/// Whether a chunk is the one at `index` of a content of `size_bytes` with this root.
pub fn verify_chunk(
    chunk: &[u8],
    index: u64,
    size_bytes: u64,
    proof: &[Hash32],
    root: &Hash32,
) -> bool {
    let chunks = size_bytes.div_ceil(CHUNK_LEN as u64);
    merkle::verify_inclusion(root, &merkle::leaf_hash(chunk), index, chunks, proof)
}

fn chunk_leaves(content: &[u8]) -> Vec<Hash32> {
    content.chunks(CHUNK_LEN).map(merkle::leaf_hash).collect()
}

/// What a CID of ours begins with: version 1, raw bytes, SHA-256 of 32 bytes.
const CID_HEAD: [u8; 4] = [0x01, 0x55, 0x12, 0x20];
/// `b`, for base32 without padding, and 36 bytes in its digits.
const CID_LEN: usize = 59;
const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const DIGIT_BITS: u32 = 5;

/// The content's id: CIDv1, raw, SHA-256.
pub fn cid(content: &[u8]) -> String {
    let bytes = [&CID_HEAD[..], sha256(content).as_bytes()].concat();
    let mut text = String::with_capacity(CID_LEN);
    text.push('b');
    let (mut buffer, mut bits) = (0u32, 0);
    for byte in bytes {
        buffer = buffer << u8::BITS | u32::from(byte);
        bits += u8::BITS;
        while bits >= DIGIT_BITS {
            bits -= DIGIT_BITS;
            text.push(char::from(BASE32[(buffer >> bits & 31) as usize]));
        }
    }
    if bits > 0 {
        text.push(char::from(BASE32[(buffer << (DIGIT_BITS - bits) & 31) as usize]));
    }
    text
}

/// The hash in an id as [`cid`] writes it. Each content has one id only, so nothing else is read.
pub fn hash_of_cid(cid: &str) -> Option<Hash32> {
    let digits = cid.strip_prefix('b').filter(|_| cid.len() == CID_LEN)?;
    let (mut buffer, mut bits) = (0u32, 0);
    let mut bytes = Vec::with_capacity(CID_LEN);
    for digit in digits.bytes() {
        let value = BASE32.iter().position(|known| *known == digit)?;
        buffer = (buffer << DIGIT_BITS | value as u32) & 0xfff;
        bits += DIGIT_BITS;
        if bits >= u8::BITS {
            bits -= u8::BITS;
            bytes.push((buffer >> bits) as u8);
        }
    }
    let unused = buffer & ((1 << bits) - 1);
    let hash = bytes.strip_prefix(&CID_HEAD).filter(|_| unused == 0)?;
    <[u8; 32]>::try_from(hash).ok().map(Hash32)
}

/// An artifact's leaf in the tree of the whole.
pub fn artifact_leaf(artifact: &Artifact) -> Hash32 {
    // Only a number beyond what JSON holds cannot be written: no message can bring one.
    let text = json::to_vec(artifact).expect("artifacts come from JSON");
    merkle::leaf_hash(&text)
}

/// What parts have together, at most what JSON can hold: anybody may have written their sizes.
pub fn size(parts: &[Artifact]) -> u64 {
    let most = json::MAX_INTEGER.unsigned_abs();
    parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.size_bytes)).min(most)
}

/// What the content of a whole is written as: its pieces, in JSON.
pub const WHOLE_TYPE: &str = "application/vnd.skep.parts+json";

/// A part of a whole with what was asked for, and what was delivered: content, or further pieces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    pub description: String,
    pub artifact: Artifact,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pieces: Vec<Piece>,
}

/// The content of a whole.
pub fn written(pieces: &[Piece]) -> Option<String> {
    json::to_string(pieces).ok()
}

/// The pieces that a content is made of; each text has one meaning, and each whole one text.
pub fn pieces(content: &str) -> Option<Vec<Piece>> {
    let read: Vec<Piece> = serde_json::from_str(content).ok()?;
    (written(&read)? == content).then_some(read)
}

/// Whether an artifact is that of a content.
pub fn is_of_content(artifact: &Artifact, content: &str) -> bool {
    let bytes = content.as_bytes();
    u64::try_from(bytes.len()) == Ok(artifact.size_bytes)
        && artifact.merkle_hash == content_root(bytes)
        && artifact.content_cid == cid(bytes)
        && artifact.content_type != WHOLE_TYPE
}

/// Whether an artifact is that of these pieces, and theirs of what they hold, to the last byte.
pub fn is_of_pieces(artifact: &Artifact, made_of: &[Piece]) -> bool {
    let parts: Vec<Artifact> = made_of.iter().map(|piece| piece.artifact.clone()).collect();
    let leaves: Vec<Option<Artifact>> = parts.iter().cloned().map(Some).collect();
    let holds = |piece: &Piece| match &piece.content {
        Some(content) => piece.pieces.is_empty() && is_of_content(&piece.artifact, content),
        None => is_of_pieces(&piece.artifact, &piece.pieces),
    };
    !made_of.is_empty()
        && artifact.size_bytes == size(&parts)
        && artifact.merkle_hash == root(&leaves)
        && written(made_of).is_some_and(|text| artifact.content_cid == cid(text.as_bytes()))
        && artifact.content_type == WHOLE_TYPE
        && made_of.iter().all(holds)
}

/// The leaf of a part that was not done.
pub fn missing_leaf(index: u64) -> Hash32 {
    merkle::leaf_hash(format!("{{\"missing\":{index}}}").as_bytes())
}

/// The root over a task's parts in the order of their index.
pub fn root(parts: &[Option<Artifact>]) -> Hash32 {
    merkle::root(&part_leaves(parts))
}

/// Where a part is in the whole; `None` if the task has no such part.
pub fn place(parts: &[Option<Artifact>], index: u64) -> Option<Place> {
    let hashes = merkle::inclusion_proof(&part_leaves(parts), index)?;
    Some(Place { index, size: parts.len() as u64, hashes })
}

/// Whether an artifact is at this place of the whole. The size must come from where the root does:
/// a root does not contain it.
pub fn verify_place(artifact: &Artifact, place: &Place, root: &Hash32) -> bool {
    let leaf = artifact_leaf(artifact);
    merkle::verify_inclusion(root, &leaf, place.index, place.size, &place.hashes)
}

fn part_leaves(parts: &[Option<Artifact>]) -> Vec<Hash32> {
    let leaf = |(index, part): (u64, &Option<Artifact>)| {
        part.as_ref().map_or_else(|| missing_leaf(index), artifact_leaf)
    };
    (0..).zip(parts).map(leaf).collect()
}
