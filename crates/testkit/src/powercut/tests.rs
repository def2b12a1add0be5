use super::*;

/// Puts a trace as people write it into the form that `strace -xx` gives.
fn hexed(trace: &str) -> String {
    let hex =
        |text: &str| -> String { text.bytes().map(|byte| format!("\\x{byte:02x}")).collect() };
    let mut out = String::new();
    for line in trace.lines().map(str::trim).filter(|line| !line.is_empty()) {
        for (index, part) in line.split('"').enumerate() {
            if index % 2 == 1 {
                out += &format!("\"{}\"", hex(&part.replace("\\n", "\n")));
            } else {
                out += part;
            }
        }
        out.push('\n');
    }
    out
}

fn trace(text: &str) -> Trace {
    trace_with(text, &[])
}

fn trace_with(text: &str, before: &[(&str, &str)]) -> Trace {
    let before =
        before.iter().map(|(path, text)| (PathBuf::from(path), text.as_bytes().to_vec())).collect();
    Trace::parse(&hexed(text), Path::new("/d"), &before).unwrap()
}

/// The contents that one file may have after a cut after the given line, over many seeds.
fn outcomes(trace: &Trace, line: usize, name: &str) -> BTreeSet<Option<String>> {
    (0..400)
        .map(|seed| {
            let dir = tempfile::tempdir().unwrap();
            Cut { trace, at: line + 1, seed }.rebuild(dir.path()).unwrap();
            let bytes = fs::read(dir.path().join(name)).ok()?;
            Some(String::from_utf8(bytes).unwrap().replace('\0', "."))
        })
        .collect()
}

fn set(texts: &[&str]) -> BTreeSet<Option<String>> {
    texts.iter().map(|text| Some((*text).to_owned())).collect()
}

#[test]
fn synced_writes_stay_and_others_may_go() {
    let trace = trace(
        r#"
        7 openat(AT_FDCWD</d>, "log", O_WRONLY|O_CREAT|O_CLOEXEC, 0644) = 3</d/log>
        7 write(3</d/log>, "ab", 2) = 2
        7 fdatasync(3</d/log>) = 0
        7 write(1<pipe:[5]>, "ACK one\n", 8) = 8
        7 write(3</d/log>, "cd", 2) = 2
        7 write(3</d/log>, "ef", 2) = 2
        7 fsync(3</d/log>) = 0
        7 write(1<pipe:[5]>, "hello\nACK two\nACK thr", 21) = 21
        7 write(1<pipe:[5]>, "ee\n", 3) = 3
        7 +++ exited with 0 +++"#,
    );
    assert_eq!(outcomes(&trace, 0, "log"), BTreeSet::from([None]));
    assert_eq!(outcomes(&trace, 1, "log"), set(&[""]));
    assert_eq!(outcomes(&trace, 2, "log"), set(&["", "ab"]));
    assert_eq!(outcomes(&trace, 3, "log"), set(&["ab"]));
    assert_eq!(outcomes(&trace, 5, "log"), set(&["ab", "abcd"]));
    assert_eq!(outcomes(&trace, 6, "log"), set(&["ab", "abcd", "ab..ef", "abcdef"]));
    assert_eq!(outcomes(&trace, 7, "log"), set(&["abcdef"]));
    assert_eq!(trace.acks(), ["one", "two", "three"]);
    assert_eq!(trace.acks_before(4), Vec::<String>::new());
    assert_eq!(trace.acks_before(5), ["one"]);
}

#[test]
fn a_sync_covers_only_what_had_returned_when_it_began() {
    let trace = trace(
        r#"
        7 openat(AT_FDCWD</d>, "/d/log", O_WRONLY|O_CREAT|O_APPEND, 0644) = 3</d/log>
        7 write(3</d/log>, "ab", 2 <unfinished ...>
        8 fsync(3</d/log> <unfinished ...>
        7 <... write resumed>)              = 2
        8 <... fsync resumed>)              = 0
        8 fsync(3</d/log> <unfinished ...>
        7 write(3</d/log>, "cd", 2 <unfinished ...>
        8 <... fsync resumed>)              = 0
        7 +++ killed by SIGKILL +++"#,
    );
    assert_eq!(outcomes(&trace, 5, "log"), set(&["", "ab"]));
    assert_eq!(outcomes(&trace, 7, "log"), set(&["", "ab", "..cd", "abcd"]));
    assert_eq!(outcomes(&trace, 8, "log"), set(&["ab", "abcd"]));
}

#[test]
fn writes_are_torn_between_sectors_only() {
    let (a, b) = ("a".repeat(412), "b".repeat(512));
    let text = format!(
        r#"
        7 openat(AT_FDCWD</d>, "/d/log", O_RDWR) = 3</d/log>
        7 pwrite64(3</d/log>, "{a}{b}", 924, 100) = 924
        7 +++ exited with 0 +++"#
    );
    let old = "-".repeat(1024);
    let trace = trace_with(&text, &[("log", &old)]);
    let head = "-".repeat(100);
    let expected = [
        old.clone(),
        format!("{head}{a}{b}"),
        format!("{head}{a}{}", "-".repeat(512)),
        format!("{}{b}", "-".repeat(512)),
    ];
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    assert_eq!(outcomes(&trace, 2, "log"), set(&expected));
}

#[test]
fn lengths_follow_syncs_and_names_change_at_once() {
    let trace = trace_with(
        r#"
        7 openat(AT_FDCWD</d>, "/d/a", O_RDWR|O_TRUNC) = 3</d/a>
        7 ftruncate(3</d/a>, 3) = 0
        7 fsync(3</d/a>) = 0
        7 rename("/d/a", "/d/b") = 0
        7 writev(3</d/b>, [{iov_base="x", iov_len=1}, {iov_base="yz", iov_len=2}], 2) = 2
        7 unlink("b") = 0
        7 write(3</d/b>(deleted), "nothing", 7) = 7
        7 +++ exited with 0 +++"#,
        &[("a", "old"), ("keep-shm", "never"), ("sub/c", "c")],
    );
    assert_eq!(outcomes(&trace, 1, "a"), set(&["", "old"]));
    // The middle two of four: the cut to nothing lost, the growth kept, and the reverse.
    assert_eq!(outcomes(&trace, 2, "a"), set(&["", "old", "..."]));
    assert_eq!(outcomes(&trace, 4, "b"), set(&["..."]));
    assert_eq!(outcomes(&trace, 4, "a"), BTreeSet::from([None]));
    assert_eq!(outcomes(&trace, 5, "b"), set(&["...", "xy."]));
    assert_eq!(outcomes(&trace, 6, "b"), BTreeSet::from([None]));
    assert_eq!(outcomes(&trace, 6, "sub/c"), set(&["c"]));
    assert_eq!(outcomes(&trace, 0, "keep-shm"), BTreeSet::from([None]));
}

#[test]
fn plain_writes_go_where_reads_and_seeks_left_off() {
    let trace = trace_with(
        r#"
        7 openat(AT_FDCWD</d>, "/d/a", O_RDWR) = 3</d/a>
        7 read(3</d/a>, "01", 2) = 2
        7 write(3</d/a>, "x", 1) = 1
        7 lseek(3</d/a>, -1, SEEK_END) = 5
        7 write(3</d/a>, "y", 1) = 1
        7 write(3</d/a>, "no", 2) = -1 ENOSPC (No space left on device)
        7 fsync(3</d/a>) = 0
        7 +++ exited with 0 +++"#,
        &[("a", "012345")],
    );
    assert_eq!(outcomes(&trace, 7, "a"), set(&["01x34y"]));
}

#[test]
fn refuses_what_it_cannot_replay() {
    for call in [
        r#"7 mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, 3</d/a>, 0) = 0x7f0000000000"#,
        r#"7 copy_file_range(4</e>, NULL, 3</d/a>, NULL, 10, 0) = 10"#,
        r#"7 io_uring_setup(8, {flags=0}) = 5"#,
        r#"7 rename("/e", "/d/a") = 0"#,
    ] {
        let result = Trace::parse(&hexed(call), Path::new("/d"), &BTreeMap::new());
        assert!(matches!(result, Err(PowercutError::Unmodelled { .. })), "{call}: {result:?}");
    }
    let shared_memory = "7 mmap(NULL, 9, PROT_READ|PROT_WRITE, MAP_SHARED, 3</d/a-shm>, 0) = 0x7f";
    assert!(Trace::parse(&hexed(shared_memory), Path::new("/d"), &BTreeMap::new()).is_ok());
    let left_out = r#"7 write(3</d/a>, "ab"..., 9) = 9"#;
    let result = Trace::parse(&hexed(left_out), Path::new("/d"), &BTreeMap::new());
    assert!(matches!(result, Err(PowercutError::Syntax { line: 1, .. })), "{result:?}");
}

#[test]
fn what_was_sent_can_acknowledge() {
    let mut trace = trace(
        r#"
        7 sendto(9<socket:[77]>, "201 order-1", 11, MSG_NOSIGNAL, NULL, 0) = 11
        7 writev(9<socket:[77]>, [{iov_base="201 ", iov_len=4}, {iov_base="b", iov_len=1}], 2) = 5
        7 +++ exited with 0 +++"#,
    );
    trace.acknowledge_sent(|bytes| {
        let text = String::from_utf8_lossy(bytes);
        text.strip_prefix("201 ").map(str::to_owned).into_iter().collect()
    });
    assert_eq!(trace.acks(), ["order-1", "b"]);
}

#[test]
fn the_same_seed_gives_the_same_cuts() {
    let trace = trace(
        r#"
        7 openat(AT_FDCWD</d>, "/d/a", O_RDWR|O_CREAT, 0600) = 3</d/a>
        7 write(3</d/a>, "x", 1) = 1
        7 fsync(3</d/a>) = 0
        7 +++ exited with 0 +++"#,
    );
    let cuts =
        |seed| -> Vec<_> { trace.cuts(seed, 50).map(|cut| (cut.at(), cut.seed())).collect() };
    assert_eq!(cuts(1), cuts(1));
    assert_ne!(cuts(1), cuts(2));
    let moments: BTreeSet<usize> = cuts(1).into_iter().map(|(at, _)| at).collect();
    assert_eq!(moments, BTreeSet::from([0, 2, 3, 4]));
}

/// The whole way round with a real child. It syncs what it acknowledges, or, planted, does not:
/// the harness must see the difference.
#[test]
fn tells_a_careful_writer_from_a_careless_one() {
    let lost = |sync: &str| -> usize {
        let dir = tempfile::tempdir().unwrap();
        let script = format!(
            r#"cd "$0"; for i in 1 2 3 4 5; do printf "$i\n" >> log; {sync}; echo "ACK $i"; done"#
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]).arg(dir.path());
        let trace = record(&command, dir.path()).unwrap();
        assert_eq!(trace.acks(), ["1", "2", "3", "4", "5"]);
        trace
            .cuts(42, 200)
            .filter(|cut| {
                let disk = tempfile::tempdir().unwrap();
                let acked = cut.rebuild(disk.path()).unwrap();
                let log = fs::read_to_string(disk.path().join("log")).unwrap_or_default();
                acked.iter().any(|ack| !log.lines().any(|line| line == ack))
            })
            .count()
    };
    assert_eq!(lost("sync -d log"), 0);
    assert!(lost(":") > 0);
}
