//! `skep check` as people use it, and its process as strangers' files meet it.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::{Compression, Crc, write::ZlibEncoder};
use serde_json::{Value, json};
use skep_probe::{
    Checker,
    checker::{READY, SURVIVED},
};
use skep_wire::hire::Verification;

const PROGRAM: &str = env!("CARGO_BIN_EXE_skep");
const PICTURE: &str = "image.generate.illustration.png";
const JPEG: &[u8] = include_bytes!("../../../hire/testdata/picture.jpg");

fn checker() -> Checker {
    Checker::new(PathBuf::from(PROGRAM), vec!["check".to_owned(), "--stdin".to_owned()])
}

/// A grey PNG whose header says what is given and whose pixels are what is given.
fn png((width, height): (u32, u32), pixels: impl Fn(u32, u32) -> u8) -> Vec<u8> {
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::fast());
    for y in 0..height {
        let row: Vec<u8> = (0..width).map(|x| pixels(x, y)).collect();
        packed.write_all(&[0]).unwrap();
        packed.write_all(&row).unwrap();
    }
    file((width, height), &packed.finish().unwrap())
}

fn file((width, height): (u32, u32), packed: &[u8]) -> Vec<u8> {
    let mut header = [width.to_be_bytes(), height.to_be_bytes()].concat();
    header.extend([8, 0, 0, 0, 0]);
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    for (name, data) in [(b"IHDR", header.as_slice()), (b"IDAT", packed), (b"IEND", &[])] {
        let mut crc = Crc::new();
        crc.update(name);
        crc.update(data);
        file.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
        file.extend(name);
        file.extend(data);
        file.extend(crc.sum().to_be_bytes());
    }
    file
}

fn scene(side: u32) -> Vec<u8> {
    png((side, side), |x, y| ((x + y) * 127 / side) as u8)
}

async fn look(bytes: &[u8], side: u32) -> Verification {
    let params = json!({"prompt": "p", "width": side, "height": side});
    let result = json!({"image_b64": STANDARD.encode(bytes)});
    checker().verify(PICTURE, Some("v1"), &params, &result).await
}

#[track_caller]
fn failed_by(seen: &Verification, name: &str) {
    let found = seen.checks.iter().any(|check| check.name == name && !check.passed);
    assert!(seen.failed() && found, "{name}: {seen:?}");
}

#[tokio::test]
async fn strangers_files_are_taken_apart_in_a_process_that_can_do_little() {
    let good = look(&scene(256), 256).await;
    assert!(good.all_passed, "{good:?}");
    // The largest picture that can be asked for fits into what the process may use.
    let large = look(&scene(4096), 4096).await;
    assert!(large.all_passed, "{large:?}");
    let whole = scene(256);
    failed_by(&look(&whole[..whole.len() / 2], 256).await, "png_decodes");
    failed_by(&look(JPEG, 256).await, "valid_png_magic");
    failed_by(&look(&png((256, 256), |_, _| 0), 256).await, "not_blank");
    failed_by(&look(&file((50_000, 50_000), b"x"), 256).await, "dimensions_within_limits");
    // A small header before pixels that go on and on, and a large one before none.
    let mut endless = ZlibEncoder::new(Vec::new(), Compression::best());
    endless.write_all(&vec![0; 256 << 20]).unwrap();
    let endless = endless.finish().unwrap();
    failed_by(&look(&file((256, 256), &endless), 256).await, "not_blank");
    failed_by(&look(&file((4096, 4096), b"\x78\x9c\x03\0"), 4096).await, "png_decodes");
    let voice = json!({"text": "Hello."});
    let noise = json!({"audio_b64": STANDARD.encode(vec![0xff; 9_000_000]), "duration_ms": 5});
    let seen = checker().verify("audio.generate-speech.a.mp3", None, &voice, &noise).await;
    failed_by(&seen, "mp3_decodes");
}

/// Grammars are written in C, with another allocator than ours: both have to find room.
#[tokio::test]
async fn the_longest_code_is_read_in_the_process_too() {
    let pieces = [
        ("python", "def f(a):\n    return [x * a for x in range(9)]\n\n"),
        ("javascript", "function f(a) { return [a].map(x => x * 2); }\n"),
        ("go", "func f(a int) int { if a > 2 { return a }; return 2 }\n"),
        ("rust", "fn f(a: u32) -> Vec<u32> { (0..9).map(|x| x * a).collect() }\n"),
        ("bash", "f() { if [ -n \"$1\" ]; then echo \"$1\"; fi; }\n"),
        ("c", "int f(int a) { for (int i = 0; i < a; i++) a += i; return a; }\n"),
    ];
    for (language, piece) in pieces {
        let first = if language == "go" { "package main\n" } else { "" };
        let code = first.to_owned() + &piece.repeat(60_000 / piece.len());
        let (id, asked) = (format!("code.generate.{language}.script"), json!({"task": "much"}));
        let seen = checker().verify(&id, Some("v1"), &asked, &json!({"code": code})).await;
        assert!(seen.all_passed, "{language}: {seen:?}");
    }
}

/// What the process says to bytes that are no request, and how it ends.
fn raw(request: &[u8]) -> Output {
    let mut child = Command::new(PROGRAM)
        .args(["check", "--stdin"])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // It may have heard enough before the end.
    let _ = stdin.write_all(request);
    drop(stdin);
    child.wait_with_output().unwrap()
}

#[test]
fn fifty_megabytes_of_brackets_are_an_error_and_no_more() {
    let head = format!("{{\"capability\":\"{PICTURE}\",\"version\":null}}\n{{}}\n");
    for tower in ["[", "{\"a\":"] {
        let mut request = head.clone().into_bytes();
        request.extend(tower.repeat((50 << 20) / tower.len()).into_bytes());
        let output = raw(&request);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.starts_with("error: recursion limit exceeded"), "{told}");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), READY);
    }
    assert_eq!(raw(b"").status.code(), Some(1));
}

#[test]
fn the_process_takes_its_rights_away_before_it_reads() {
    let mut child = Command::new(PROGRAM)
        .args(["check", "--stdin"])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut ready).unwrap();
    assert_eq!(ready.trim(), READY);
    let limits = fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
    for (name, soft) in [
        ("Max cpu time", "2"),
        ("Max file size", "0"),
        ("Max core file size", "0"),
        ("Max open files", "16"),
        ("Max processes", "0"),
        ("Max address space", "1073741824"),
    ] {
        let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        assert_eq!(line.split_whitespace().next(), Some(soft), "{limits}");
    }
    // Without a word it ends by itself.
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[tokio::test]
async fn a_process_that_is_killed_is_a_failed_check() {
    // The same limits, and a request that is read for ever: only the wall ends it.
    let script = format!("{{ echo '{READY}'; exec sleep 30; }}");
    let checker = Checker::new(PathBuf::from("/bin/sh"), vec!["-c".to_owned(), script]);
    let params = json!({"prompt": "p", "width": 8, "height": 8});
    let seen = checker.verify(PICTURE, None, &params, &json!({"image_b64": "AAAA"})).await;
    failed_by(&seen, SURVIVED);
}

fn skep(folder: &Path, args: &[&str]) -> Output {
    Command::new(PROGRAM).args(args).env_clear().current_dir(folder).output().unwrap()
}

#[test]
fn people_check_results_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mean = "compute.statistics.mean";
    let params = ["--params", r#"{"data": [1, 2, 3]}"#];
    let run = |result: &str, more: &[&str]| {
        let args = [&["check", mean][..], &params, &["--result", result], more].concat();
        skep(folder, &args)
    };
    let good = run(r#"{"result": 2}"#, &["--capability-version", "v1"]);
    assert!(good.status.success(), "{good:?}");
    assert!(String::from_utf8_lossy(&good.stdout).ends_with("by the checks of v1\n"), "{good:?}");
    let bad = run(r#"{"result": 5}"#, &["--json"]);
    assert_eq!(bad.status.code(), Some(1));
    let seen: Value = serde_json::from_slice(&bad.stdout).unwrap();
    assert_eq!(seen["all_passed"], false);
    let told = String::from_utf8_lossy(&bad.stderr).into_owned();
    assert_eq!(told, "error: the result does not pass: value_recomputed\n");

    let params = json!({"prompt": "p", "width": 64, "height": 64}).to_string();
    let result = json!({"image_b64": STANDARD.encode(scene(64))}).to_string();
    fs::write(folder.join("params.json"), params).unwrap();
    fs::write(folder.join("result.json"), result).unwrap();
    let files = ["--params", "@params.json", "--result", "@result.json"];
    let picture = skep(folder, &[&["check", PICTURE][..], &files].concat());
    assert!(picture.status.success(), "{picture:?}");

    for (args, told) in [
        (&["check", "custom.a.b", "--params", "1", "--result", "1"][..], "cannot be verified"),
        (&["check", "image.dance", "--params", "1", "--result", "1"], "not in the taxonomy"),
        (&["check", mean, "--params", "{", "--result", "1"], "--params is not JSON"),
        (&["check", mean, "--params", "@none", "--result", "1"], "none cannot be read"),
    ] {
        let output = skep(folder, args);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(stderr.contains(told) && stderr.lines().count() == 1, "{stderr}");
    }
    assert_eq!(skep(folder, &["check"]).status.code(), Some(2));
}

#[test]
fn the_programs_that_come_along_pass_the_checks_of_v1() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let story = "The market opened at nine. Many agents came to sell their work. Some of them drew \
        charts for the buyers. Others wrote long summaries of long reports. A few agents only \
        watched the market and its prices. In the evening every agent had been paid for its work.";
    let points = json!([{"x": "a", "y": 1}, {"x": "b", "y": 4}, {"x": "c", "y": 2}]);
    let chart =
        |kind: &str| json!({"data": points, "chart_type": kind, "width": 320, "height": 200});
    let numbers = json!({"data": [3, 1, 4, 1, 5, 9, 2, 6]});
    for (job, id, params) in [
        ("chart", "chart.generate.from-data", chart("bar")),
        ("chart", "chart.generate.from-data", chart("line")),
        ("chart", "chart.generate.from-data", chart("pie")),
        ("statistics", "compute.statistics.mean", numbers.clone()),
        ("statistics", "compute.statistics.median", numbers.clone()),
        ("statistics", "compute.statistics.stddev", numbers.clone()),
        ("statistics", "compute.statistics.variance", numbers.clone()),
        ("statistics", "compute.statistics.percentile-95", numbers),
        ("summarize", "text.summarize.short", json!({"text": story})),
        ("summarize", "text.summarize.medium", json!({"text": story})),
        ("summarize", "text.summarize.long", json!({"text": story})),
    ] {
        let mut worker = Command::new(PROGRAM)
            .args(["work", job, "--capability", id])
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        worker.stdin.take().unwrap().write_all(params.to_string().as_bytes()).unwrap();
        let done = worker.wait_with_output().unwrap();
        assert!(done.status.success(), "{job} {id}: {done:?}");
        fs::write(folder.join("result.json"), done.stdout).unwrap();
        let params = params.to_string();
        let checked = ["check", id, "--params", &params, "--result", "@result.json"];
        let seen = skep(folder, &[&checked[..], &["--capability-version", "v1"]].concat());
        assert!(seen.status.success(), "{id}: {seen:?}");
    }
}
