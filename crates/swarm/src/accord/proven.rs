//! What signatures prove.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use skep_base::{Did, Hash32};
use skep_wire::swarm::{Message, Signed, Step, Value, Word};

use super::Setting;
use crate::{draw::quorum, kept::Kept};

/// A value with the signatures of one step, and the messages from which it follows where they are
/// at hand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proven {
    pub view: u32,
    pub value: Value,
    pub signatures: Vec<Kept>,
    pub record: Vec<Kept>,
}

impl Proven {
    pub(super) fn is_whole(&self) -> bool {
        self.record.len() == self.value.record.len()
    }
}

/// Those attached messages that a value follows from, in its order; fewer if some are missing.
pub(crate) fn record_of(value: &Value, message: &Signed) -> Vec<Kept> {
    let attached: BTreeMap<Hash32, &Arc<Signed>> =
        message.attached.iter().map(|kept| (kept.hash(), kept)).collect();
    let found = value.record.iter().filter_map(|hash| attached.get(hash));
    found.map(|kept| Kept((*kept).clone())).collect()
}

/// Whether all messages that a value follows from came along.
pub fn has_record(value: &Value, message: &Signed) -> bool {
    record_of(value, message).len() == value.record.len()
}

/// The view in which a proposed value was prepared before, if its signatures are attached.
pub(super) fn justification(
    setting: &Setting,
    message: &Kept,
    view: u32,
    hash: &Hash32,
) -> Option<u32> {
    let mut by_view: BTreeMap<u32, Vec<Did>> = BTreeMap::new();
    for signature in &message.attached {
        if let Message::Certificate(inner) = &signature.message
            && inner.subject == setting.subject
            && inner.view < view
            && inner.word == (Word::Sign { step: Step::Prepare, hash: *hash })
            && setting.is_witness(&signature.meta.signer)
        {
            by_view.entry(inner.view).or_default().push(signature.meta.signer);
        }
    }
    by_view.into_iter().rev().find_map(|(view, mut signers)| {
        signers.sort();
        signers.dedup();
        (signers.len() >= setting.quorum()).then_some(view)
    })
}

/// The value of a bundle, if enough witnesses have signed it.
pub fn proven(message: &Kept, step: Step, value: &Value, witnesses: &[Did]) -> Option<Proven> {
    let Message::Certificate(certificate) = &message.message else {
        return None;
    };
    let word = Word::Sign { step, hash: value.hash() };
    let is_signature = |kept: &Signed| {
        matches!(&kept.message, Message::Certificate(inner)
            if inner.subject == certificate.subject && inner.view == certificate.view
                && inner.word == word)
    };
    let signatures = enough(message, witnesses, is_signature)?;
    let record = record_of(value, message);
    Some(Proven { view: certificate.view, value: value.clone(), signatures, record })
}

/// One attached signature of each of so many witnesses as are needed, and no more: what is kept is
/// passed on, and nobody can make it long.
pub(super) fn enough(
    message: &Kept,
    witnesses: &[Did],
    is_signature: impl Fn(&Signed) -> bool,
) -> Option<Vec<Kept>> {
    let by_signer: BTreeMap<Did, &Arc<Signed>> = message
        .attached
        .iter()
        .filter(|kept| is_signature(kept) && witnesses.binary_search(&kept.meta.signer).is_ok())
        .map(|kept| (kept.meta.signer, kept))
        .collect();
    let quorum = quorum(witnesses.len());
    let first = by_signer.values().take(quorum).map(|kept| Kept((*kept).clone()));
    (by_signer.len() >= quorum).then(|| first.collect())
}
