use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
};

use base64::{Engine, engine::general_purpose::*};
use serde_json::{Value, json};
use skep_base::Timestamp;
use skep_wire::identity::{KeyChange, Statement};
use zeroize::Zeroizing;

use super::*;

const NOW: Timestamp = Timestamp::from_ms(1_800_000_000_000);

struct Scene {
    folder: tempfile::TempDir,
    keyring: Keyring,
    phrase: Phrase,
}

impl Scene {
    fn new() -> Self {
        let (keyring, phrase) = Keyring::create([7; 32]);
        let keyring = keyring.with_kdf(KdfCost::new(8, 1, 1).unwrap());
        Scene { folder: tempfile::tempdir().unwrap(), keyring, phrase }
    }

    fn saved() -> Self {
        let scene = Scene::new();
        scene.keyring.save_new(&scene.path(), &right()).unwrap();
        scene
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("deep/er/keys.json")
    }

    fn opened(&self) -> Keyring {
        Keyring::open(&self.path(), &right()).unwrap()
    }

    fn write(&self, envelope: &Value) {
        fs::write(self.path(), serde_json::to_vec(envelope).unwrap()).unwrap();
    }
}

fn passphrase(text: &str) -> Passphrase {
    Passphrase::new(Zeroizing::new(text.to_owned())).unwrap()
}

fn right() -> Passphrase {
    passphrase("correct horse")
}

fn same(a: &Keyring, b: &Keyring) -> bool {
    let secrets = |keyring: &Keyring| {
        let seed = |key: &SecretKey| *key.seed();
        (
            *keyring.wallet.to_bytes(),
            seed(&keyring.current),
            keyring.pending.as_ref().map(seed),
            keyring.operator.as_ref().map(seed),
        )
    };
    secrets(a) == secrets(b)
        && a.history == b.history
        && a.recovery_key == b.recovery_key
        && a.kdf == b.kdf
}

#[test]
fn a_file_gives_back_what_was_saved() {
    let scene = Scene::new();
    let keyring = scene.keyring.clone().with_operator(scene.phrase.operator_key());
    keyring.save_new(&scene.path(), &right()).unwrap();
    assert!(same(&scene.opened(), &keyring));
    assert_eq!(Keyring::read_public_info(&scene.path()).unwrap(), keyring.public_info());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&scene.path()), 0o600);
    assert_eq!(mode(scene.path().parent().unwrap()), 0o700);
    let files = fs::read_dir(scene.path().parent().unwrap()).unwrap().count();
    assert_eq!(files, 1, "no temporary file is left");
}

#[test]
fn the_phrase_gives_back_the_keyring_and_is_not_in_it() {
    let scene = Scene::saved();
    let again = Keyring::from_phrase(&scene.phrase, 0).unwrap();
    assert!(same(&again.with_kdf(scene.keyring.kdf), &scene.keyring));
    let third = Keyring::from_phrase(&scene.phrase, 2).unwrap();
    assert_eq!(third.did(), scene.keyring.did());
    assert_eq!(third.agent_id(), scene.keyring.agent_id());
    assert_eq!(third.history().len(), 2);
    assert!(Keyring::from_phrase(&scene.phrase, KEY_NUMBER_MAX + 1).is_err());
}

#[test]
fn a_wrong_passphrase_is_named() {
    let scene = Scene::saved();
    let error = Keyring::open(&scene.path(), &passphrase("hunter2")).unwrap_err();
    let OpenError::Unseal { source, .. } = &error else { panic!("{error:?}") };
    assert!(matches!(source, UnsealError::WrongPassphrase));
    assert!(source.to_string().contains("the passphrase is wrong"));
    assert!(!format!("{error:?} {error} {source}").contains("hunter2"));
}

/// Every leaf of the file is changed in turn, and every name.
#[test]
fn a_changed_file_is_refused() {
    let scene = Scene::saved();
    let envelope: Value = serde_json::from_slice(&fs::read(scene.path()).unwrap()).unwrap();
    let other = Keyring::create([8; 32]).0;
    let encoded = |len| json!(URL_SAFE_NO_PAD.encode(vec![1; len]));
    let changes = [
        ("/header/version", json!(2)),
        ("/header/agent_id", json!(other.agent_id())),
        ("/header/did", json!(other.did())),
        ("/header/public_key", json!(other.public_key())),
        ("/header/kdf/name", json!("argon2i")),
        ("/header/kdf/memory_kib", json!(16)),
        ("/header/kdf/passes", json!(2)),
        ("/header/kdf/lanes", json!(2)),
        ("/header/kdf/salt", encoded(16)),
        ("/header/kdf/salt", encoded(15)),
        ("/header/cipher/name", json!("none")),
        ("/header/cipher/nonce", encoded(24)),
        ("/header/cipher/nonce", encoded(12)),
        ("/ciphertext", encoded(300)),
        ("/ciphertext", json!("")),
        ("/ciphertext", json!("!")),
    ];
    for (pointer, value) in changes {
        let mut changed = envelope.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        scene.write(&changed);
        assert!(Keyring::open(&scene.path(), &right()).is_err(), "{pointer}");
    }
    for pointer in ["", "/header", "/header/kdf", "/header/cipher"] {
        let mut changed = envelope.clone();
        let object = changed.pointer_mut(pointer).unwrap().as_object_mut().unwrap();
        object.insert("more".to_owned(), json!(1));
        scene.write(&changed);
        assert!(Keyring::open(&scene.path(), &right()).is_err(), "{pointer}/more");
    }
    let text = serde_json::to_string(&envelope).unwrap();
    for at in [0, 1, text.len() / 2, text.len() - 1] {
        fs::write(scene.path(), &text[..at]).unwrap();
        assert!(Keyring::open(&scene.path(), &right()).is_err(), "cut at {at}");
    }
    scene.write(&envelope);
    assert!(same(&scene.opened(), &scene.keyring));
}

#[test]
fn every_byte_of_the_ciphertext_counts() {
    let scene = Scene::saved();
    let envelope: Value = serde_json::from_slice(&fs::read(scene.path()).unwrap()).unwrap();
    let sealed = URL_SAFE_NO_PAD.decode(envelope["ciphertext"].as_str().unwrap()).unwrap();
    for at in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[at] ^= 1;
        let mut envelope = envelope.clone();
        envelope["ciphertext"] = json!(URL_SAFE_NO_PAD.encode(changed));
        scene.write(&envelope);
        assert!(Keyring::open(&scene.path(), &right()).is_err(), "byte {at}");
    }
}

#[test]
fn a_hostile_file_cannot_take_the_machine() {
    let scene = Scene::saved();
    let envelope: Value = serde_json::from_slice(&fs::read(scene.path()).unwrap()).unwrap();
    for (field, value) in [
        ("memory_kib", u32::MAX),
        ("memory_kib", 1024 * 1024 + 1),
        ("memory_kib", 0),
        ("passes", 17),
        ("passes", 0),
        ("lanes", 5),
        ("lanes", 0),
    ] {
        let mut changed = envelope.clone();
        changed["header"]["kdf"][field] = json!(value);
        scene.write(&changed);
        let error = Keyring::open(&scene.path(), &right()).unwrap_err();
        let OpenError::Unseal { source, .. } = error else { panic!("{error:?}") };
        assert!(matches!(source, UnsealError::KdfCost(_)), "{field} {value}: {source:?}");
    }
    fs::write(scene.path(), vec![b' '; 300 * 1024]).unwrap();
    let error = Keyring::read_public_info(&scene.path()).unwrap_err();
    assert!(matches!(error, OpenError::NotAFile { .. }));
}

#[test]
fn a_file_that_others_may_read_is_refused() {
    let scene = Scene::saved();
    for mode in [0o644, 0o640, 0o604, 0o620, 0o601] {
        fs::set_permissions(scene.path(), fs::Permissions::from_mode(mode)).unwrap();
        let error = Keyring::open(&scene.path(), &right()).unwrap_err();
        assert!(error.to_string().contains("chmod 600"), "{error}");
        assert!(Keyring::read_public_info(&scene.path()).is_err());
    }
    fs::set_permissions(scene.path(), fs::Permissions::from_mode(0o400)).unwrap();
    assert!(same(&scene.opened(), &scene.keyring));
}

#[test]
fn nothing_is_overwritten() {
    let scene = Scene::saved();
    let before = fs::read(scene.path()).unwrap();
    let other = Keyring::create([8; 32]).0.with_kdf(scene.keyring.kdf);
    let refused = other.save_new(&scene.path(), &right());
    assert!(matches!(refused, Err(SaveError::Exists { .. })));
    let refused = other.save(&scene.path(), &right());
    assert!(matches!(refused, Err(SaveError::OtherAgent { .. })));
    assert_eq!(fs::read(scene.path()).unwrap(), before);

    // Not even what a link to nowhere would make.
    let link = scene.folder.path().join("link.json");
    symlink("nowhere.json", &link).unwrap();
    assert!(matches!(other.save_new(&link, &right()), Err(SaveError::Exists { .. })));
    let missing = scene.folder.path().join("missing.json");
    let refused = other.save(&missing, &right());
    assert!(matches!(refused, Err(SaveError::Replaced(OpenError::Missing { .. }))));
}

#[test]
fn a_link_to_the_file_stays_a_link() {
    let scene = Scene::saved();
    let link = scene.folder.path().join("link.json");
    symlink(scene.path(), &link).unwrap();
    scene.keyring.save(&link, &passphrase("another")).unwrap();
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert!(Keyring::open(&scene.path(), &passphrase("another")).is_ok());
    assert!(Keyring::open(&scene.path(), &right()).is_err(), "the passphrase was changed");
}

#[test]
fn two_changes_at_once_are_refused() {
    let scene = Scene::saved();
    let lock = Keyring::lock(&scene.path()).unwrap();
    assert!(matches!(Keyring::lock(&scene.path()), Err(LockError::Busy { .. })));
    drop(lock);
    assert!(Keyring::lock(&scene.path()).is_ok());
}

/// A crash is: memory is gone, the file is what it was.
#[test]
fn a_rotation_survives_a_crash_at_every_step() {
    let scene = Scene::saved();
    let (path, did) = (scene.path(), scene.keyring.did());
    let mut keyring = scene.opened();
    assert_eq!(keyring.rotation(NOW), Err(NothingStaged));
    let staged = keyring.stage_rotation(&path, &right(), [9; 32]).unwrap();
    let sent = keyring.rotation(NOW).unwrap();
    drop(keyring);

    let mut keyring = scene.opened();
    assert_eq!(keyring.pending_key(), Some(staged));
    assert_eq!(keyring.public_key(), scene.keyring.public_key(), "the old key signs until then");
    assert_eq!(keyring.rotation(NOW).unwrap(), sent, "the same key can be sent again");
    let again = keyring.stage_rotation(&path, &right(), [10; 32]);
    assert!(matches!(again, Err(StageError::AlreadyStaged)));
    keyring.promote_rotation(&path, &right()).unwrap();
    drop(keyring);

    let mut keyring = scene.opened();
    assert_eq!(keyring.public_key(), staged);
    assert_eq!(keyring.pending_key(), None);
    assert_eq!(keyring.history(), [scene.keyring.public_key()]);
    assert_eq!(keyring.did(), did, "the DID stays");
    let nothing = keyring.promote_rotation(&path, &right());
    assert!(matches!(nothing, Err(StageError::NothingStaged)));

    keyring.stage_rotation(&path, &right(), [11; 32]).unwrap();
    keyring.drop_rotation(&path, &right()).unwrap();
    assert_eq!(scene.opened().pending_key(), None);
    assert_eq!(scene.opened().public_key(), staged);
    let nothing = keyring.drop_rotation(&path, &right());
    assert!(matches!(nothing, Err(StageError::NothingStaged)));
}

/// What cannot be saved is not in memory either: it must not be sent.
#[test]
fn a_key_that_cannot_be_saved_is_not_staged() {
    let scene = Scene::saved();
    let mut keyring = scene.opened();
    fs::remove_file(scene.path()).unwrap();
    let refused = keyring.stage_rotation(&scene.path(), &right(), [9; 32]);
    assert!(matches!(refused, Err(StageError::Save(_))));
    assert_eq!(keyring.pending_key(), None);
}

#[test]
fn the_signatures_of_a_rotation_and_of_a_recovery() {
    let scene = Scene::saved();
    let mut keyring = scene.opened();
    let new_key = keyring.stage_rotation(&scene.path(), &right(), [9; 32]).unwrap();
    let KeyChange::Rotate { statement, wallet_signature, old_key_signature, new_key_signature } =
        keyring.rotation(NOW).unwrap()
    else {
        panic!("not a rotation")
    };
    assert_eq!((statement.old_key, statement.new_key), (keyring.public_key(), new_key));
    assert_eq!(statement.wallet_signer(&wallet_signature), Some(keyring.agent_id()));
    statement.verify(&statement.old_key, &old_key_signature).unwrap();
    statement.verify(&statement.new_key, &new_key_signature).unwrap();

    keyring.promote_rotation(&scene.path(), &right()).unwrap();
    let stranger = Phrase::from_entropy([8; 32]);
    let refused = keyring.stage_recovery(&scene.path(), &right(), &stranger, &[]);
    assert!(matches!(refused, Err(StageError::PhraseOfAnotherAgent { .. })));
    let used = [scene.phrase.identity_key(1).public()];
    let new_key = keyring.stage_recovery(&scene.path(), &right(), &scene.phrase, &used).unwrap();
    assert_eq!(new_key, scene.phrase.identity_key(2).public(), "0 and 1 were used before");
    let old_key = keyring.public_key();
    let KeyChange::Recover { statement, recovery_signature, new_key_signature } =
        keyring.recovery(&scene.phrase, NOW, old_key).unwrap()
    else {
        panic!("not a recovery")
    };
    assert_eq!((statement.old_key, statement.new_key), (old_key, new_key));
    statement.verify(&keyring.recovery_key(), &recovery_signature).unwrap();
    statement.verify(&new_key, &new_key_signature).unwrap();
    assert!(keyring.recovery(&stranger, NOW, old_key).is_err());
}

#[test]
fn the_signatures_of_other_changes() {
    let Scene { keyring, phrase, .. } = Scene::new();
    let key = keyring.public_key();
    let KeyChange::Revoke { statement, wallet_signature, key_signature, .. } =
        keyring.revocation(NOW, key, Some(NOW))
    else {
        panic!("not a revocation")
    };
    assert_eq!(statement.wallet_signer(&wallet_signature.unwrap()), Some(keyring.agent_id()));
    statement.verify(&key, &key_signature.unwrap()).unwrap();
    let older = phrase.identity_key(5).public();
    let KeyChange::Revoke { key_signature, .. } = keyring.revocation(NOW, older, None) else {
        panic!("not a revocation")
    };
    assert_eq!(key_signature, None, "only its own key signs");

    let KeyChange::CancelRecovery { statement, wallet_signature, key_signature } =
        keyring.cancellation(NOW, older)
    else {
        panic!("not a cancellation")
    };
    assert_eq!(statement.wallet_signer(&wallet_signature.unwrap()), Some(keyring.agent_id()));
    statement.verify(&key, &key_signature.unwrap()).unwrap();

    let operator = phrase.operator_key();
    let KeyChange::Attach { statement, key_signature, operator_signature } =
        keyring.attachment(NOW, &operator)
    else {
        panic!("not an attachment")
    };
    assert_eq!(statement.operator, operator.public().did());
    statement.verify(&key, &key_signature).unwrap();
    statement.verify(&operator.public(), &operator_signature).unwrap();
}

#[test]
fn registrations_are_judged() {
    let Scene { keyring, phrase, .. } = Scene::new();
    let url = || Some("https://agent.example/inbox".to_owned());
    let alone = keyring.registration(NOW, None, Some("Ada".to_owned()), url());
    assert_eq!(verify_registration(&alone, None), Ok(OperatorCheck::None));
    let operator = phrase.operator_key();
    let good = keyring.registration(NOW, Some(&operator), None, None);
    let key = operator.public();
    assert_eq!(verify_registration(&good, None), Ok(OperatorCheck::NotChecked));
    assert_eq!(verify_registration(&good, Some(&key)), Ok(OperatorCheck::Verified));
    let did = key.did();
    let other = keyring.public_key();
    let refused = verify_registration(&good, Some(&other));
    assert_eq!(refused, Err(RegistrationError::OperatorKey { operator: did }));

    let stranger = Keyring::create([8; 32]).0.registration(NOW, None, None, None);
    let mut bad = good.clone();
    bad.wallet_signature = stranger.wallet_signature;
    let wallet = RegistrationError::Wallet { expected: keyring.agent_id() };
    assert_eq!(verify_registration(&bad, None), Err(wallet));
    let mut bad = good.clone();
    bad.binding.issued_at = Timestamp::EPOCH;
    assert_eq!(verify_registration(&bad, None), Err(wallet));
    let mut bad = good.clone();
    bad.key_signature = stranger.key_signature;
    assert_eq!(verify_registration(&bad, None), Err(RegistrationError::Key));
    let mut bad = good.clone();
    bad.operator_signature = Some(stranger.key_signature);
    let refused = verify_registration(&bad, Some(&key));
    assert_eq!(refused, Err(RegistrationError::Operator { operator: did }));
    bad.operator_signature = None;
    let refused = verify_registration(&bad, Some(&key));
    assert_eq!(refused, Err(RegistrationError::OperatorMissing { operator: did }));
    let mut bad = alone.clone();
    bad.operator_signature = good.operator_signature;
    assert_eq!(verify_registration(&bad, None), Err(RegistrationError::OperatorUnnamed));
    let mut bad = alone.clone();
    bad.webhook_url = Some("https://thief.example".to_owned());
    assert_eq!(verify_registration(&bad, None), Err(RegistrationError::Webhook));
    bad.webhook_url = None;
    assert_eq!(verify_registration(&bad, None), Ok(OperatorCheck::None));
}

/// No way of printing a type that holds a secret prints it, in any usual spelling.
#[test]
fn secrets_are_not_printed() {
    let scene = Scene::new();
    let keyring = scene.keyring.clone().with_operator(scene.phrase.operator_key());
    keyring.save_new(&scene.path(), &right()).unwrap();
    let mut keyring = scene.opened();
    keyring.stage_rotation(&scene.path(), &right(), [9; 32]).unwrap();
    let wrong = Keyring::open(&scene.path(), &passphrase("wrong")).unwrap_err();
    let again = keyring.stage_rotation(&scene.path(), &right(), [10; 32]).unwrap_err();
    let printed = [
        format!("{keyring:?} {keyring:#?}"),
        format!("{:?} {:?} {:?}", keyring.secret(), keyring.wallet(), keyring.operator()),
        format!("{:?} {:#?}", scene.phrase, scene.phrase),
        format!("{:?} {:#?}", right(), right()),
        format!("{wrong:?} {wrong} {again:?} {again}"),
        format!("{:?}", scene.phrase.identity_key(1)),
        fs::read_to_string(scene.path()).unwrap(),
    ];
    let words = scene.phrase.words();
    let secrets = [
        keyring.current.seed().to_vec(),
        keyring.pending.as_ref().unwrap().seed().to_vec(),
        keyring.wallet.to_bytes().to_vec(),
        keyring.operator.as_ref().unwrap().seed().to_vec(),
        scene.phrase.identity_key(1).seed().to_vec(),
        scene.phrase.recovery_key().seed().to_vec(),
        vec![7; 32],
        vec![10; 32],
        words.as_bytes().to_vec(),
        b"correct horse".to_vec(),
        b"wrong".to_vec(),
    ];
    for text in &printed {
        for secret in &secrets {
            let spellings = [
                hex::encode(secret),
                hex::encode_upper(secret),
                STANDARD.encode(secret),
                STANDARD_NO_PAD.encode(secret),
                URL_SAFE_NO_PAD.encode(secret),
                format!("{secret:?}").trim_matches(['[', ']']).to_owned(),
            ];
            for spelling in spellings {
                assert!(!text.contains(&spelling), "{text}");
            }
        }
        assert!(!text.contains(words.as_str()) && !text.contains("correct horse"), "{text}");
    }
}
