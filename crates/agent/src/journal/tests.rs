use super::*;

#[tokio::test]
async fn what_was_written_is_there_again_and_half_a_line_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/journal");
    let (journal, entries) = Journal::open::<u32>(&path).unwrap();
    assert!(entries.is_empty() && journal.is_empty().unwrap());
    assert!(matches!(Journal::open::<u32>(&path), Err(JournalError::InUse { .. })));
    for number in 0..100u32 {
        journal.append(&number).await.unwrap();
    }
    drop(journal);
    let whole = std::fs::read(&path).unwrap();
    let expected: Vec<u32> = (0..100).collect();
    // Wherever a crash cuts the last line, the others stand and a new one can follow.
    for cut in 1..=20 {
        std::fs::write(&path, &whole[..whole.len() - cut]).unwrap();
        let (journal, entries) = open_again::<u32>(&path);
        assert_eq!(entries, expected[..99]);
        journal.append(&7u32).await.unwrap();
        drop(journal);
        let (_journal, entries) = open_again::<u32>(&path);
        assert_eq!(entries.last(), Some(&7));
        assert_eq!(entries.len(), 100);
    }
}

#[tokio::test]
async fn damage_before_the_end_is_not_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let (journal, _) = Journal::open::<u32>(&path).unwrap();
    for number in 0..3u32 {
        journal.append(&number).await.unwrap();
    }
    drop(journal);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let opened = (0..50).find_map(|_| match Journal::open::<u32>(&path) {
        Err(JournalError::InUse { .. }) => {
            std::thread::sleep(std::time::Duration::from_millis(20));
            None
        }
        opened => Some(opened),
    });
    assert!(matches!(opened, Some(Err(JournalError::Damaged { line: 2, .. }))), "{opened:?}");
}

#[tokio::test]
async fn what_is_nested_deep_is_read_again_and_what_cannot_be_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let (journal, _) = Journal::open::<serde_json::Value>(&path).unwrap();
    let tower = (0..200).fold(serde_json::json!(1), |inner, _| serde_json::json!([inner]));
    journal.append(&tower).await.unwrap();
    let found: Vec<serde_json::Value> = Journal::find(&path, "1").unwrap();
    assert_eq!(found.first(), Some(&tower));
    #[derive(Debug, serde::Serialize, serde::Deserialize)]
    struct Strange {
        #[serde(serialize_with = "as_text")]
        number: u8,
    }
    fn as_text<S: serde::Serializer>(_: &u8, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("seven")
    }
    let strange = journal.append(&Strange { number: 7 }).await;
    assert!(matches!(strange, Err(JournalError::BadEntry)), "{strange:?}");
    drop(journal);
    let (_journal, entries) = open_again::<serde_json::Value>(&path);
    assert_eq!(entries, [tower]);
}

/// The writer's thread lets go of the file a moment after the last clone is dropped.
fn open_again<T: DeserializeOwned>(path: &Path) -> (Journal, Vec<T>) {
    for _ in 0..500 {
        match Journal::open(path) {
            Err(JournalError::InUse { .. }) => {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            opened => return opened.unwrap(),
        }
    }
    panic!("the journal stays locked");
}
