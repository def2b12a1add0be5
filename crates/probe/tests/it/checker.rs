//! How a checker takes what may become of its process. The real one is tested with the binary.

use std::{path::PathBuf, time::Duration};

use serde_json::{Value, json};
use skep_probe::checker::{Checker, READY, SURVIVED};
use skep_wire::hire::Verification;

const PICTURE: &str = "image.generate.illustration.png";

/// A process that does as the script says, after it has said that it is ready.
fn script(then: &str) -> Checker {
    let script = format!("echo '{READY}'; {then}");
    Checker::new(PathBuf::from("/bin/sh"), vec!["-c".to_owned(), script])
}

async fn look(checker: &Checker, result: &Value) -> Verification {
    let params = json!({"prompt": "p", "width": 64, "height": 64});
    checker.verify(PICTURE, Some("v1"), &params, result).await
}

#[tokio::test]
async fn a_process_that_does_not_come_back_is_the_results_fault() {
    let result = json!({"image_b64": "AAAA".repeat(100_000)});
    for (what, then) in [
        ("signal: 9", "kill -9 $$"),
        ("died", "exit 3"),
        // It does not even read.
        ("died", "exec 0<&-; exit 1"),
        ("babbled", "cat >/dev/null; echo nonsense"),
        ("babbled", "exec cat /dev/zero"),
        ("longer than", "exec sleep 60"),
    ] {
        let seen = look(&script(then), &result).await;
        assert!(seen.failed(), "{then}: {seen:?}");
        let check = &seen.checks[0];
        assert_eq!((check.name.as_str(), check.passed), (SURVIVED, false));
        assert!(check.detail.as_deref().unwrap().contains(what), "{then}: {seen:?}");
        assert_eq!(seen.version.as_deref(), Some("v1"));
    }
}

#[tokio::test]
async fn a_process_that_was_never_there_is_nobodys_fault() {
    let result = json!({"image_b64": "AAAA"});
    let absent = Checker::new(PathBuf::from("/nowhere/skep"), vec![]);
    let other = Checker::new(PathBuf::from("/bin/echo"), vec!["hello".to_owned()]);
    let silent = Checker::new(PathBuf::from("/bin/false"), vec![]);
    for checker in [absent, other, silent] {
        let seen = look(&checker, &result).await;
        assert!(!seen.verifiable && !seen.all_passed && !seen.failed(), "{seen:?}");
    }
}

#[tokio::test]
async fn what_comes_back_is_believed_and_the_environment_stays_here() {
    let answer = r#"{"checks":[{"name":"HOME","passed":true}],"all_passed":true,"version":"v1"}"#;
    let tell = format!("cat >/dev/null; test -z \"$HOME$CARGO\" && echo '{answer}'");
    let seen = look(&script(&tell), &json!({"image_b64": "AAAA"})).await;
    assert!(seen.all_passed, "{seen:?}");
    assert_eq!(seen.checks[0].name, "HOME");
}

#[tokio::test]
async fn what_needs_no_process_starts_none() {
    let absent = Checker::new(PathBuf::from("/nowhere/skep"), vec![]);
    let (params, result) = (json!({"data": [1, 2, 3]}), json!({"result": 2}));
    let seen = absent.verify("compute.statistics.mean", None, &params, &result).await;
    assert!(seen.all_passed, "{seen:?}");
    // Neither does what is too deep to be sent, nor what is too long.
    let mut tower = json!(1);
    for _ in 0..200 {
        tower = json!([tower]);
    }
    let seen = look(&absent, &json!({"image_b64": tower})).await;
    assert!(seen.failed() && seen.checks[0].name == "nesting_depth", "{seen:?}");
    let seen = look(&absent, &json!({"image_b64": "A".repeat(33 << 20)})).await;
    assert!(seen.failed() && seen.checks[0].name == "result_size", "{seen:?}");
}

#[tokio::test]
async fn a_process_ends_with_the_one_who_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("pid");
    let checker = script(&format!("echo $$ > '{}'; exec sleep 60", note.display()));
    let waiting = tokio::spawn(async move { look(&checker, &json!({"image_b64": "AAAA"})).await });
    let pid = loop {
        let text = std::fs::read_to_string(&note).unwrap_or_default();
        match text.trim().parse::<u32>() {
            Ok(pid) => break pid,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    let running = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !status.is_empty() && !status.contains(") Z ")
    };
    assert!(running());
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    while running() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
