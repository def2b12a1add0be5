//! Agents that change their keys.

use skep_base::AgentId;

use super::*;
use crate::identity::{Rotation, Statement};

/// Agent `old` takes the key of `new`.
fn link(old: u8, new: u8, at_ms: i64) -> KeyLink {
    let statement = Rotation {
        agent_id: AgentId::ZERO,
        old_key: key(old).public(),
        new_key: key(new).public(),
        issued_at: Timestamp::from_ms(at_ms),
    };
    let [old_key_signature, new_key_signature] =
        [old, new].map(|n| statement.sign(&key(n)).unwrap());
    KeyLink { statement, old_key_signature, new_key_signature }
}

fn chain(first: u8, links: &[KeyLink]) -> Result<KeyChain, ChainError> {
    KeyChain::follow(key(first).public(), links)
}

#[test]
fn keys_follow_from_one_another() {
    let good = chain(1, &[link(1, 11, 5), link(11, 12, 5)]).unwrap();
    assert_eq!((good.did(), *good.newest()), (did(1), key(12).public()));
    assert_eq!(KeyChain::ending(key(12).public(), good.links()).as_ref(), Ok(&good));
    let end = KeyChain::ending(key(11).public(), good.links());
    assert_eq!(end, Err(ChainError::Gap(2)));
    assert_eq!(chain(2, good.links()), Err(ChainError::Gap(0)));
    assert_eq!(chain(1, &[link(1, 11, 5), link(1, 12, 6)]), Err(ChainError::Gap(1)));
    assert_eq!(chain(1, &[link(1, 11, 5), link(11, 1, 6)]), Err(ChainError::Gap(1)));
    assert_eq!(chain(1, &[link(1, 11, 5), link(11, 12, 4)]), Err(ChainError::OutOfOrder(1)));
    let mut forged = link(1, 11, 5);
    forged.old_key_signature = forged.new_key_signature;
    assert_eq!(chain(1, &[forged]), Err(ChainError::BadSignature(0)));
    let mut unasked = link(1, 11, 5);
    unasked.new_key_signature = unasked.old_key_signature;
    assert_eq!(chain(1, &[unasked]), Err(ChainError::BadSignature(0)));
    let many: Vec<KeyLink> = (100..=133).map(|n| link(n, n + 1, 5)).collect();
    assert!(chain(100, &many[..KEY_LINKS_MAX]).is_ok());
    assert_eq!(chain(100, &many[..=KEY_LINKS_MAX]), Err(ChainError::TooLong));
    // What the market keeps as the proof of a rotation is a link.
    let mut proof = serde_json::to_value(link(1, 11, 5)).unwrap();
    proof["action"] = json!("rotate");
    proof["wallet_signature"] = json!("0x00");
    assert_eq!(serde_json::from_value::<KeyLink>(proof).unwrap(), link(1, 11, 5));
}

#[test]
fn the_first_known_chain_stays_and_only_grows() {
    let mut keys = keys();
    let once = chain(1, &[link(1, 11, 5)]).unwrap();
    let twice = chain(1, &[link(1, 11, 5), link(11, 12, 6)]).unwrap();
    let other = chain(1, &[link(1, 21, 5)]).unwrap();
    let longer = chain(1, &[link(1, 21, 5), link(21, 22, 6), link(22, 23, 7)]).unwrap();
    keys.follow(once.clone()).unwrap();
    keys.follow(once.clone()).unwrap();
    assert_eq!(keys.follow(other), Err(ChainError::Forked));
    keys.follow(twice.clone()).unwrap();
    assert_eq!(keys.follow(longer), Err(ChainError::Forked), "however long");
    assert_eq!(keys.follow(once), Err(ChainError::Outdated));
    keys.learn(key(1).public());
    assert_eq!(keys.get(&did(1)), Some(&twice));
}

#[test]
fn old_keys_sign_nothing_new() {
    let mut keys = keys();
    let at_ms = NOW.parse::<Timestamp>().unwrap().as_ms();
    let hello = |by: u8, links: &[KeyLink]| {
        let mut params = params("swarm.handshake");
        params["pub_key"] = json!(key_text::write(&key(by).public()));
        params["key_chain"] = json!(links);
        signed("swarm.handshake", params, 1, by).to_string().into_bytes()
    };
    let decline = |by: u8| signed("board.decline", params("board.decline"), 1, by);
    let open = |keys: &KnownKeys, text: &[u8]| Signed::open(text, keys);
    let code = |result: Result<Signed, OpenError>| result.map(|_| ()).map_err(|e| e.code());
    let refused = Err(ErrorCode::InvalidSignature);

    let (links, early) = ([link(1, 11, at_ms)], [link(1, 11, at_ms - 1)]);
    let unknown = decline(11).to_string();
    assert_eq!(code(open(&keys, unknown.as_bytes())), refused);
    assert_eq!(code(open(&keys, &hello(1, &links))), refused, "the new key signs");
    let greeting = open(&keys, &hello(11, &links)).unwrap();
    keys.meet(&greeting);
    assert!(open(&keys, unknown.as_bytes()).is_ok());
    let old = decline(1).to_string();
    assert_eq!(code(open(&keys, old.as_bytes())), refused);
    assert_eq!(code(open(&keys, &hello(1, &[]))), refused, "a shorter chain");
    let fork = open(&keys, &hello(21, &[link(1, 21, at_ms)])).unwrap_err();
    assert_eq!(fork, OpenError::Keys { signer: did(1), why: ChainError::Forked });

    // In what others attach, and for auditors, all keys count that are known.
    assert!(open(&keys, &around(decline(1))).is_ok());
    assert!(open(&keys, &around(decline(11))).is_ok());
    assert_eq!(code(open(&keys, &around(decline(21)))), refused);
    assert!(Signed::open(old.as_bytes(), &keys.of_any_time()).is_ok());
    // Nobody knows when it was really sent: a change that is dated back voids nothing.
    let mut replaced = self::keys();
    replaced.follow(chain(1, &early).unwrap()).unwrap();
    assert!(open(&replaced, &around(decline(1))).is_ok());
    assert!(Signed::open(old.as_bytes(), &replaced.of_any_time()).is_ok());
}

fn around(inner: Value) -> Vec<u8> {
    let method = "hierarchy.succession";
    let mut outer = signed(method, params(method), 2, 2);
    outer["attached"] = json!([inner]);
    outer.to_string().into_bytes()
}

/// An agent may tell each of the others of another change of its key, or only one of them. What one
/// of them has opened and attaches, all can open.
#[test]
fn what_is_attached_brings_the_changes_of_its_signers_key() {
    let decline = |by: u8| signed("board.decline", params("board.decline"), 1, by);
    let knowing = |links: &[KeyLink]| {
        let mut keys = keys();
        keys.follow(chain(1, links).unwrap()).unwrap();
        keys
    };
    let opened = Signed::from_json(decline(11), &knowing(&[link(1, 11, 5)])).unwrap().to_json();
    let others = [keys(), knowing(&[link(1, 21, 5)]), knowing(&[link(1, 11, 5), link(11, 12, 5)])];
    for keys in &others {
        assert!(Signed::open(&around(opened.clone()), keys).is_ok());
        assert!(Signed::from_json(opened.clone(), keys).is_err(), "for itself it shows nothing");
    }
    let passed_on = Signed::open(&around(opened.clone()), &others[0]).unwrap().to_json();
    assert!(Signed::open(passed_on.to_string().as_bytes(), &others[1]).is_ok());
    assert!(Signed::from_json(opened.clone(), &others[1].of_any_time()).is_ok(), "for auditors");

    // What does not lead there is not passed on.
    let mut wrong = opened.clone();
    wrong["key_chain"] = json!([link(2, 11, 5)]);
    assert!(Signed::open(&around(wrong.clone()), &others[0]).is_err());
    let passed_on = Signed::open(&around(wrong), &others[2]).unwrap().to_json();
    assert!(Signed::open(passed_on.to_string().as_bytes(), &others[0]).is_ok());
    let mut long = opened;
    long["key_chain"] = json!(vec![link(1, 11, 5); KEY_LINKS_MAX + 1]);
    assert!(Signed::open(&around(long), &others[2]).is_err());
}
