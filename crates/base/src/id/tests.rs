use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{Hash32, Timestamp, ed25519::SecretKey, hash::sha256};

/// The addresses that EIP-55 gives as examples.
const CHECKSUMMED: [&str; 4] = [
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
    "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
    "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
];

#[test]
fn agent_ids_in_every_case() {
    for text in CHECKSUMMED {
        let id: AgentId = text.parse().unwrap();
        assert_eq!(id.to_checksummed(), text);
        assert_eq!(id.to_string(), text.to_lowercase());
        assert_eq!(text.to_lowercase().parse(), Ok(id));
        assert_eq!(format!("0x{}", text[2..].to_uppercase()).parse(), Ok(id));
        assert_eq!(serde_json::from_value::<AgentId>(json!(id)).unwrap(), id);
        assert_eq!(json!(id), json!(text.to_lowercase()));
        let swapped = text.replacen('E', "e", 1).replacen('F', "f", 1);
        assert_eq!(swapped.parse::<AgentId>(), Err(ParseAgentIdError::WrongChecksum));
    }
    let text = CHECKSUMMED[0];
    for wrong in
        [&text[2..], &text[..41], "0x", "", &text.replace("0x", "0X"), &format!("{text}00")]
    {
        assert_eq!(wrong.parse::<AgentId>(), Err(ParseAgentIdError::Malformed), "{wrong}");
    }
}

#[test]
fn did_of_a_key() {
    let key = SecretKey::from_seed([9; 32]).public();
    let did = Did::of(&key);
    assert_eq!(did.fingerprint(), sha256(key.as_bytes()));
    assert_eq!(did.to_string().parse(), Ok(did));
    assert_eq!(serde_json::from_value::<Did>(json!(did)).unwrap(), did);
    assert_eq!(
        Did::from_fingerprint(Hash32::ZERO).to_string(),
        format!("did:swarm:{}", "0".repeat(64))
    );
    let text = did.to_string();
    for wrong in [&text[4..], &text.to_uppercase(), "did:swarm:", "did:key:00", &text[..73]] {
        assert_eq!(wrong.parse::<Did>(), Err(ParseDidError), "{wrong}");
    }
}

/// The example of the ULID description, whose layout the ids share.
#[test]
fn layout_of_an_id() {
    let id: TransferId = "tr_01aryz6s41tsv4rrffq69g5fav".parse().unwrap();
    assert_eq!(id.time().as_ms(), 1_469_918_176_385);
    assert_eq!(id.to_string(), "tr_01aryz6s41tsv4rrffq69g5fav");
    let mut entropy = [0; 10];
    entropy.copy_from_slice(&id.as_bytes()[6..]);
    assert_eq!(TransferId::new(id.time(), entropy), id);
    assert_eq!(EventId::from_bytes([0; 16]).to_string(), "evt_00000000000000000000000000");
    assert_eq!(JobId::from_bytes([0xff; 16]).to_string(), "job_7zzzzzzzzzzzzzzzzzzzzzzzzz");
    assert_eq!(JobId::from_bytes([0xff; 16]).time(), Timestamp::MAX);
}

#[test]
fn an_id_of_another_kind_is_refused_by_name() {
    let error = "esc_01aryz6s41tsv4rrffq69g5fav".parse::<TransferId>().unwrap_err();
    assert_eq!(error, ParseIdError::WrongKind { expected: "tr", found: "esc".to_owned() });
    assert_eq!(
        error.to_string(),
        "an id that starts with tr_ is expected here, and this one starts with esc_"
    );
    let error = serde_json::from_value::<DebtId>(json!("ntc_01aryz6s41tsv4rrffq69g5fav"));
    assert!(error.unwrap_err().to_string().contains("debt_"));
}

#[test]
fn an_id_has_one_form() {
    let malformed = Err(ParseIdError::Malformed { expected: "req" });
    for wrong in [
        "",
        "req",
        "req_",
        "01aryz6s41tsv4rrffq69g5fav",
        "req_01ARYZ6S41TSV4RRFFQ69G5FAV",
        "req_01aryz6s41tsv4rrffq69g5fa",
        "req_01aryz6s41tsv4rrffq69g5fav0",
        "req_81aryz6s41tsv4rrffq69g5fav",
        "req_01aryz6s41tsv4rrffq69g5fai",
        "req_01aryz6s41tsv4rrffq69g5fal",
        "req_01aryz6s41tsv4rrffq69g5fao",
        "req_01aryz6s41tsv4rrffq69g5fau",
        "req_01aryz6s41tsv4rrffq69g5fa\u{e9}",
        "req_\u{e9}1aryz6s41tsv4rrffq69g5fa",
    ] {
        assert_eq!(wrong.parse::<RequestId>(), malformed, "{wrong}");
    }
}

#[test]
fn derived_ids_are_the_same_every_time() {
    let parent = RequestId::new(Timestamp::from_ms(1_700_000_000_000), [5; 10]);
    let hold: TransferId = parent.derive("hold");
    assert_eq!(hold, parent.derive("hold"));
    assert_ne!(hold, parent.derive("release"));
    assert_eq!(hold.time(), parent.time());
    let hash = sha256(&[parent.as_bytes().as_slice(), b"hold"].concat());
    assert_eq!(hold.as_bytes()[6..], hash.as_bytes()[..10]);
}

proptest! {
    #[test]
    fn ids_roundtrip_and_sort_as_their_text(a in any::<[u8; 16]>(), b in any::<[u8; 16]>()) {
        let (a, b) = (ReceiptId::from_bytes(a), ReceiptId::from_bytes(b));
        prop_assert_eq!(a.to_string().parse(), Ok(a));
        prop_assert_eq!(serde_json::from_value::<ReceiptId>(json!(a)).unwrap(), a);
        prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
    }

    #[test]
    fn later_ids_sort_later(
        ms in 0..Timestamp::MAX.as_ms(),
        a in any::<[u8; 10]>(),
        b in any::<[u8; 10]>(),
    ) {
        let (earlier, later) = (Timestamp::from_ms(ms), Timestamp::from_ms(ms + 1));
        prop_assert!(NoticeId::new(earlier, a) < NoticeId::new(later, b));
        prop_assert_eq!(NoticeId::new(earlier, a).time(), earlier);
    }

    #[test]
    fn agent_ids_roundtrip(bytes in any::<[u8; 20]>()) {
        let id = AgentId(bytes);
        prop_assert_eq!(id.to_string().parse(), Ok(id));
        prop_assert_eq!(id.to_checksummed().parse(), Ok(id));
    }
}
