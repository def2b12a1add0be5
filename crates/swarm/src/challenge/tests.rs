use skep_base::hash::sha256;

use super::*;

#[test]
fn an_answer_is_for_one_agent_and_one_epoch() {
    const BITS: u32 = 12;
    let (beacon, other) = (sha256(b"this epoch"), sha256(b"the next"));
    let [me, you] = [b"me", b"yu"].map(|name| Did::from_fingerprint(sha256(name)));
    let nonce = solve(&beacon, &me, BITS);
    let text = me.to_string();
    let joined = [beacon.as_bytes(), text.as_bytes(), &nonce.to_le_bytes()[..]].concat();
    assert_eq!(sha256(&joined).0[0], 0);
    assert_eq!(sha256(&joined).0[1] >> 4, 0);
    assert!(check(&beacon, &me, nonce, BITS));
    assert!(!check(&other, &me, nonce, BITS));
    assert!(!check(&beacon, &you, nonce, BITS));
    assert!((0..nonce).all(|less| !check(&beacon, &me, less, BITS)), "the first one is found");
    assert!(!check(&beacon, &me, NONCE_MAX + 1, 0), "it could not be signed");
}

#[test]
fn late_answers_are_worth_less_until_they_are_worth_nothing() {
    assert_eq!(grade(0), Share::ONE);
    assert_eq!(grade(FULL_MS), Share::ONE);
    assert!(grade(FULL_MS + 1) < Share::ONE);
    assert_eq!(grade((FULL_MS + END_MS) / 2), Share::percent(50));
    assert!(grade(END_MS - 1) > Share::ZERO);
    assert_eq!(grade(END_MS), Share::ZERO);
    assert_eq!(grade(u64::MAX), Share::ZERO);
}
