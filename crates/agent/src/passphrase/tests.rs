use std::{io::Write, os::fd::AsRawFd};

use super::*;

fn nobody(_: &str) -> io::Result<Option<Zeroizing<String>>> {
    Ok(None)
}

fn env(settings: &[(&'static str, &str)]) -> impl Fn(&str) -> Option<OsString> + use<> {
    let settings: Vec<_> =
        settings.iter().map(|(key, value)| (*key, OsString::from(value))).collect();
    move |name| {
        let found = settings.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| value.clone())
    }
}

fn text(passphrase: &Passphrase) -> &str {
    &passphrase.0
}

#[test]
fn each_way_in_its_order() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"from the file\r\nsecond line\n").unwrap();
    let path = file.path().to_str().unwrap();
    let mut pipe_in = io::pipe().unwrap();
    pipe_in.1.write_all(b"from the pipe\nnext").unwrap();
    let fd = u32::try_from(pipe_in.0.as_raw_fd()).unwrap();

    let both = env(&[("SKEP_PASSPHRASE", "from env"), ("SKEP_PASSPHRASE_FILE", path)]);
    let read = read_from(Some(fd), &both, &mut nobody, Ask::Twice).unwrap();
    assert_eq!(text(&read), "from the pipe");
    let read = read_from(None, &both, &mut nobody, Ask::Twice).unwrap();
    assert_eq!(text(&read), "from env");
    let second = env(&[("SKEP_PASSPHRASE_FILE", path)]);
    let read = read_from(None, &second, &mut nobody, Ask::Once).unwrap();
    assert_eq!(text(&read), "from the file");

    // The second line is still there for whoever reads next.
    drop(pipe_in.1);
    assert_eq!(*read_fd(fd).unwrap(), "next");
}

#[test]
fn typed_passphrases() {
    let mut answers = ["one", "two", "same", "same", "once"].into_iter();
    let mut typed = |_: &str| Ok(answers.next().map(|text| Zeroizing::new(text.to_owned())));
    let none = env(&[]);
    let differ = read_from(None, &none, &mut typed, Ask::Twice).unwrap_err();
    assert!(matches!(differ, PassphraseError::Differ));
    assert_eq!(text(&read_from(None, &none, &mut typed, Ask::Twice).unwrap()), "same");
    assert_eq!(text(&read_from(None, &none, &mut typed, Ask::Once).unwrap()), "once");
}

#[test]
fn without_any_way_the_error_names_the_three() {
    let error = read_from(None, &env(&[]), &mut nobody, Ask::Once).unwrap_err();
    for way in ["--passphrase-fd", "SKEP_PASSPHRASE ", "SKEP_PASSPHRASE_FILE"] {
        assert!(error.to_string().contains(way), "{error}");
    }
}

#[test]
fn refused_passphrases_are_not_repeated() {
    let empty = read_from(None, &env(&[("SKEP_PASSPHRASE", "")]), &mut nobody, Ask::Once);
    assert!(matches!(empty, Err(PassphraseError::Empty)));

    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"hunter2\xff\n").unwrap();
    let error = read_line(file.path()).unwrap_err();
    assert!(matches!(error, ReadLineError::NotUtf8 { .. }));
    assert!(!format!("{error:?}").contains("hunter2"));

    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&[b'x'; LINE_LEN_MAX + 1]).unwrap();
    assert!(matches!(read_line(file.path()), Err(ReadLineError::TooLong { .. })));
    let missing = Path::new("no/such/file");
    assert!(matches!(read_line(missing), Err(ReadLineError::Io { .. })));
}
