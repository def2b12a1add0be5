use skep_base::{Did, Timestamp};

use super::*;

#[test]
fn published_content_ids() {
    let cases: [(&[u8], &str); 2] = [
        (b"", "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku"),
        (b"hello world", "bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e"),
    ];
    for (content, published) in cases {
        assert_eq!(cid(content), published);
        assert_eq!(hash_of_cid(published), Some(sha256(content)));
    }
}

#[test]
fn each_content_has_one_id() {
    let good = cid(b"x");
    // The last digit holds three bits that count and two that must be zero.
    let last = BASE32.iter().position(|digit| good.ends_with(char::from(*digit))).unwrap();
    for other in (0..32).filter(|other| *other != last) {
        let other = format!("{}{}", &good[..CID_LEN - 1], char::from(BASE32[other]));
        assert!(hash_of_cid(&other).is_none_or(|hash| hash != sha256(b"x")), "{other}");
    }
    let unused = format!("{}{}", &good[..CID_LEN - 1], char::from(BASE32[last | 1]));
    let bad = [
        unused.as_str(),
        "",
        "b",
        &good[1..],
        &good[..CID_LEN - 1],
        &good.to_uppercase(),
        &format!("{good}a"),
        &good.replacen("bafkrei", "bafybei", 1),
        &format!("z{}", &good[1..]),
        "QmYwAPJzv5CZsnAzt8auVZRn5VpGf3dPGuqKDvSbPUtYBF",
        &format!("b{}é", &good[3..]),
    ];
    for bad in bad {
        assert_eq!(hash_of_cid(bad), None, "{bad}");
    }
}

#[test]
fn every_chunk_can_be_proven() {
    let content: Vec<u8> = (0..CHUNK_LEN * 2 + 5).map(|n| (n % 251) as u8).collect();
    let (root, size) = (content_root(&content), content.len() as u64);
    for (index, chunk) in (0..).zip(content.chunks(CHUNK_LEN)) {
        let proof = chunk_proof(&content, index).unwrap();
        assert!(verify_chunk(chunk, index, size, &proof, &root));
        assert!(!verify_chunk(&chunk[1..], index, size, &proof, &root));
        assert!(!verify_chunk(chunk, index + 1, size, &proof, &root));
    }
    assert_eq!(chunk_proof(&content, 3), None);
    assert_eq!(content_root(b"small"), merkle::leaf_hash(b"small"));
    assert_eq!((content_root(b""), chunk_proof(b"", 0)), (sha256(b""), None));
}

fn artifact(n: u8) -> Artifact {
    Artifact {
        artifact_id: format!("art-{n}"),
        task_id: "t".to_owned(),
        producer: Did::from_fingerprint(Hash32([n; 32])),
        content_cid: cid(&[n]),
        merkle_hash: content_root(&[n]),
        content_type: "text/plain".to_owned(),
        size_bytes: 1,
        created_at: Timestamp::from_ms(1_800_000_000_000),
    }
}

#[test]
fn every_part_has_a_place_in_the_whole() {
    let parts: Vec<Option<Artifact>> = (0..5).map(|n| (n != 3).then(|| artifact(n))).collect();
    let whole = root(&parts);
    for (index, part) in (0..).zip(&parts) {
        let place = place(&parts, index).unwrap();
        match part {
            Some(part) => {
                assert!(verify_place(part, &place, &whole));
                let mut other = part.clone();
                other.size_bytes += 1;
                assert!(!verify_place(&other, &place, &whole));
                let elsewhere = Place { index: (index + 1) % 5, ..place };
                assert!(!verify_place(part, &elsewhere, &whole));
            }
            None => {
                let leaf = missing_leaf(index);
                assert!(merkle::verify_inclusion(&whole, &leaf, index, 5, &place.hashes));
            }
        }
    }
    assert_eq!(place(&parts, 5), None);
    let mut swapped = parts.clone();
    swapped.swap(0, 1);
    assert_ne!(root(&swapped), whole, "the order counts");
    assert_ne!(root(&parts[..4]), whole);
    assert_ne!(missing_leaf(3), missing_leaf(4));
}

#[test]
fn sizes_that_strangers_wrote_never_pass_what_json_holds() {
    let most = json::MAX_INTEGER.unsigned_abs();
    let sized = |size_bytes| Artifact { size_bytes, ..artifact(1) };
    assert_eq!(size(&[]), 0);
    assert_eq!(size(&[sized(2), sized(3)]), 5);
    assert_eq!(size(&[sized(most), sized(0)]), most);
    for many in [2, 64, 5_000] {
        let whole = sized(size(&vec![sized(most); many]));
        assert_eq!(whole.size_bytes, most);
        assert!(json::to_vec(&whole).is_ok());
    }
}
