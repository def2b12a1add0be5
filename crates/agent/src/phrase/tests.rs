use super::*;

fn abandon_art() -> String {
    format!("{}art", "abandon ".repeat(23))
}

/// Addresses that other wallets show for these words.
#[test]
fn ethereum_wallets_find_the_same_address() {
    let junk = format!("{}junk", "test ".repeat(11));
    let mnemonic = Mnemonic::parse_in_normalized(Language::English, &junk).unwrap();
    assert_eq!(
        wallet_of(&mnemonic).address().to_string(),
        "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
    );
    assert_eq!(
        Phrase::parse(&abandon_art()).unwrap().wallet().address().to_checksummed(),
        "0xF278cF59F82eDcf871d630F28EcC8056f25C1cdb"
    );
}

#[test]
fn words_roundtrip() {
    let phrase = Phrase::from_entropy([0; 32]);
    assert_eq!(*phrase.words(), abandon_art());
    let phrase = Phrase::from_entropy([0xa5; 32]);
    let spaced = format!("\n {}\t", phrase.words().to_uppercase().replace(' ', "  "));
    assert_eq!(*Phrase::parse(&spaced).unwrap().words(), *phrase.words());
}

#[test]
fn every_key_is_another() {
    let phrase = Phrase::from_entropy([1; 32]);
    let keys = [
        phrase.identity_key(0),
        phrase.identity_key(1),
        phrase.recovery_key(),
        phrase.operator_key(),
    ];
    let public: std::collections::BTreeSet<_> = keys.iter().map(SecretKey::public).collect();
    assert_eq!(public.len(), keys.len());
}

#[test]
fn wrong_phrases_are_refused_without_repeating_them() {
    let refused = |text: &str| Phrase::parse(text).unwrap_err();
    assert_eq!(refused(""), ParsePhraseError::WordCount { found: 0 });
    assert_eq!(refused("art"), ParsePhraseError::WordCount { found: 1 });
    let unknown = abandon_art().replacen("abandon abandon", "abandon hunter2", 1);
    assert_eq!(refused(&unknown), ParsePhraseError::UnknownWord { number: 2 });
    assert!(!refused(&unknown).to_string().contains("hunter2"));
    let wrong = abandon_art().replace("art", "abandon");
    assert_eq!(refused(&wrong), ParsePhraseError::Checksum);
}
