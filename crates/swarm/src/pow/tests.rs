use skep_base::hash::sha256;

use super::*;

#[test]
fn a_proof_is_for_one_agent_and_what_it_says() {
    let (mine, other) = (Did::from_fingerprint(sha256(b"me")), Did::from_fingerprint(sha256(b"o")));
    let proof = solve(&mine, DIFFICULTY_MIN);
    let joined = [mine.to_string().as_bytes(), &proof.nonce.to_le_bytes()].concat();
    assert_eq!(proof.hash, sha256(&joined));
    assert_eq!(proof.hash.0[..2], [0, 0]);
    assert!(check(&mine, &proof, DIFFICULTY_MIN));
    assert!(!check(&other, &proof, DIFFICULTY_MIN));
    assert!(!check(&mine, &proof, DIFFICULTY_MIN + 1), "too little was done");
    let with = |change: fn(&mut ProofOfWork)| {
        let mut changed = proof.clone();
        change(&mut changed);
        check(&mine, &changed, DIFFICULTY_MIN)
    };
    assert!(!with(|proof| proof.nonce += 1));
    assert!(!with(|proof| proof.hash = Hash32::ZERO));
    assert!(!with(|proof| proof.difficulty = 15));
    assert!(!with(|proof| proof.difficulty = 64), "claims more than it has");
    assert!(!with(|proof| proof.difficulty = 65));
    assert!(!with(|proof| proof.difficulty = u32::MAX));
}

#[test]
fn bits_are_counted_one_by_one() {
    let mut hash = [0xff; 32];
    assert_eq!(zero_bits(&Hash32(hash)), 0);
    hash[..3].copy_from_slice(&[0, 0, 0x1f]);
    assert_eq!(zero_bits(&Hash32(hash)), 19);
    assert_eq!(zero_bits(&Hash32::ZERO), 256);
}
