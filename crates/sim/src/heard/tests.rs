use skep_base::{Timestamp, ed25519::SecretKey};
use skep_wire::swarm::{Chosen, Meta, Outcome, Value};

use super::*;

fn seal(by: u8, word: Word, attached: Vec<Arc<Signed>>) -> Arc<Signed> {
    let key = SecretKey::from_seed([by; 32]);
    let (signer, sent_at) = (key.public().did(), Timestamp::from_ms(1));
    let meta = Meta { signer, swarm: "s".to_owned(), epoch: 1, sent_at };
    let subject = Subject::Plan { task_id: "t".to_owned() };
    let message = Message::Certificate(Certificate { subject, view: 0, word });
    Arc::new(Signed::seal(meta, message, attached, &key))
}

/// A liar is the first to say what is certified, and shows no signatures.
#[test]
fn a_bundle_that_more_have_signed_is_kept_too() {
    let value = Value { outcome: Outcome::Plan(Chosen::NoPlan), record: Vec::new() };
    let sign = Word::Sign { step: Step::Commit, hash: value.hash() };
    let bundle = |by: u8, signers: std::ops::Range<u8>| {
        let attached = signers.map(|signer| seal(signer, sign.clone(), Vec::new())).collect();
        seal(by, Word::Bundle { step: Step::Commit, value: value.clone() }, attached)
    };
    let (bare, whole, again) = (bundle(1, 0..0), bundle(2, 2..5), bundle(3, 3..6));
    let mut heard = Heard::default();
    [&bare, &whole, &again].into_iter().for_each(|message| heard.hear(message));
    assert_eq!(heard.into_messages(), [bare, whole]);
}
