//! Swarms from a seed, and transcripts of what they decided.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};
use skep_base::ed25519::SecretKey;
use skep_wire::swarm::{
    Check, Chosen, End, Message, Meta, OpenError, Outcome, Signed, Word, key_text, plain_id,
};

fn swarm(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skep"));
    command.env_clear().env("HOME", folder).current_dir(folder).stdin(Stdio::null());
    command.arg("swarm").args(args).output().unwrap()
}

#[track_caller]
fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What is said about a file that does not hold: both streams.
#[track_caller]
fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.starts_with("error: "), "{error}");
    format!("{}{error}", String::from_utf8_lossy(&output.stdout))
}

/// Another way to say the same run, as its replay command does.
#[test]
fn a_seed_is_a_run_and_its_command_runs_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut args = vec!["simulate", "--seed", "4", "--nodes", "7", "--tasks", "1"];
    args.extend(["--loss", "0.05", "--duplication", "0.02", "--byzantine", "2", "--crashes", "1"]);
    args.extend(["--partition", "1", "--epoch", "200", "--begin-ms", "150500", "--json"]);
    args.extend(["--lies", "Flood,FalseWitness", "--flood", "40", "--faults-ms", "70000"]);
    let first: Value = serde_json::from_str(&stdout(&swarm(folder.path(), &args))).unwrap();
    assert_eq!(first["nodes"], 7);
    assert_eq!(first["loss"], 0.05);
    assert_eq!(first["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(first["violations"], json!([]));
    let replay = first["replay"].as_str().unwrap();
    let mut again: Vec<&str> = replay.strip_prefix("skep swarm ").unwrap().split(' ').collect();
    again.extend(["--json", "--svg", "run.svg"]);
    let second: Value = serde_json::from_str(&stdout(&swarm(folder.path(), &again))).unwrap();
    assert_eq!(first, second);
    let picture = fs::read_to_string(folder.path().join("run.svg")).unwrap();
    assert!(picture.starts_with("<svg ") && picture.contains(replay), "{replay}");
    let told = stdout(&swarm(folder.path(), &again[..again.len() - 3]));
    assert!(told.contains("no invariant is broken") && told.contains(replay), "{told}");
}

#[test]
fn many_seeds_run_at_once_and_nonsense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let args = ["simulate", "--seed", "10", "--seeds", "4", "--nodes", "5", "--json"];
    let many: Value = serde_json::from_str(&stdout(&swarm(folder, &args))).unwrap();
    assert_eq!(many["runs"], 4);
    assert_eq!((&many["first_seed"], &many["last_seed"]), (&json!(10), &json!(13)));
    assert_eq!(many["broken"], 0);
    let told = refused(&swarm(folder, &["simulate", "--nodes", "4", "--byzantine", "5"]));
    assert!(told.contains("more than there are nodes: 4"), "{told}");
    let nonsense = [["--loss", "1.5"], ["--nodes", "0"], ["--lies", "White"], ["--lies", ""]];
    for [name, value] in nonsense {
        let args = ["simulate", name, value];
        assert_eq!(swarm(folder, &args).status.code(), Some(2), "{args:?}");
    }
}

/// A transcript of a run in which some lie, and what it says.
struct Run {
    folder: tempfile::TempDir,
    transcript: Value,
}

impl Run {
    fn new() -> Run {
        let folder = tempfile::tempdir().unwrap();
        // Clients that cancel or reject are rare; there is a plan and a result in one of these.
        for seed in 1..10 {
            let seed = seed.to_string();
            let mut args = vec!["simulate", "--seed", &seed, "--nodes", "7", "--tasks", "1"];
            args.extend(["--byzantine", "2", "--partition", "0", "--epoch", "3600"]);
            args.extend(["--transcript", "run.json", "--json"]);
            let run: Value = serde_json::from_str(&stdout(&swarm(folder.path(), &args))).unwrap();
            if run["tasks"][0]["outcome"] == "succeeded" {
                let text = fs::read(folder.path().join("run.json")).unwrap();
                let mut run = Run { folder, transcript: serde_json::from_slice(&text).unwrap() };
                run.keep_one("plan");
                run.keep_one("result");
                return run;
            }
        }
        panic!("no task was done in nine runs");
    }

    fn verify(&self, transcript: &Value) -> Output {
        let text = serde_json::to_vec(transcript).unwrap();
        fs::write(self.folder.path().join("told.json"), text).unwrap();
        swarm(self.folder.path(), &["verify", "told.json"])
    }

    /// The place of the certificate about the task's plan or result.
    fn certificate(&self, about: &str) -> usize {
        let messages = self.transcript["messages"].as_array().unwrap();
        messages.iter().position(|message| certifies(message, about)).unwrap()
    }

    /// Several have passed it on, with ever more signatures: the last, in the first one's place.
    fn keep_one(&mut self, about: &str) {
        let first = self.certificate(about);
        let messages = self.transcript["messages"].as_array_mut().unwrap();
        let subject = messages[first]["params"]["subject"].clone();
        let is_same = |message: &mut Value| {
            certifies(message, about) && message["params"]["subject"] == subject
        };
        let last = messages.extract_if(first.., is_same).last().unwrap();
        messages.insert(first, last);
    }
}

fn certifies(message: &Value, about: &str) -> bool {
    let task = message["params"]["subject"]["task_id"].as_str();
    message["method"] == "consensus.certificate"
        && message["params"]["word"] == "bundle"
        && message["params"]["step"] == "commit"
        && message["params"]["subject"]["about"] == about
        && task.is_some_and(|id| plain_id(id) == "task-0")
}

fn methods(messages: &Value, method: &str) -> Vec<usize> {
    let numbered = messages.as_array().unwrap().iter().enumerate();
    numbered.filter(|(_, message)| message["method"] == method).map(|(index, _)| index).collect()
}

#[test]
fn a_transcript_holds_until_anything_in_it_is_changed() {
    let run = Run::new();
    let told = stdout(&run.verify(&run.transcript));
    for word in ["board", "ballots", "round 1", "winner", "end        succeeded", "root", "holds"] {
        assert!(told.contains(word), "{word} is not in {told}");
    }
    let (plan, result) = (run.certificate("plan"), run.certificate("result"));

    // One word of one message, wherever it is.
    let mut changed = run.transcript.clone();
    let number = methods(&changed["messages"], "consensus.proposal_reveal")[0];
    changed["messages"][number]["params"]["plan"]["rationale"] = json!("because I say so");
    let told = refused(&run.verify(&changed));
    assert!(told.contains(&format!("message {number}: the signature does not fit")), "{told}");

    // What everybody signed says another outcome.
    let mut changed = run.transcript.clone();
    changed["messages"][plan]["params"]["value"]["outcome"]["plan_id"] = json!("another");
    let told = refused(&run.verify(&changed));
    assert!(told.contains(&format!("message {plan}: the signature does not fit")), "{told}");

    // The certificate of the plan is gone: what follows hangs in the air.
    let mut changed = run.transcript.clone();
    changed["messages"].as_array_mut().unwrap().remove(plan);
    let told = refused(&run.verify(&changed));
    assert!(told.contains("the result of task-0: the plan's certificate is missing"), "{told}");

    // A ballot is gone from the record, though it is there elsewhere.
    let mut changed = run.transcript.clone();
    let attached = &mut changed["messages"][plan]["attached"];
    let ballots = methods(attached, "consensus.vote");
    let attached = attached.as_array_mut().unwrap();
    // A liar may have sent it along several times.
    let lost = attached[ballots[0]]["signature"].clone();
    let other = attached
        .iter()
        .find(|message| message["method"] == "consensus.vote" && message["signature"] != lost);
    let other = other.unwrap().clone();
    attached.retain(|message| message["signature"] != lost);
    let told = refused(&run.verify(&changed));
    let wrong = "the plan of task-0: the value names other messages than its record";
    assert!(told.contains(wrong), "{told}");

    // One voter's ballot is there twice, another's is not.
    let mut changed = run.transcript.clone();
    let attached = changed["messages"][plan]["attached"].as_array_mut().unwrap();
    for message in attached.iter_mut().filter(|message| message["signature"] == lost) {
        *message = other.clone();
    }
    let told = refused(&run.verify(&changed));
    assert!(told.contains(wrong), "{told}");

    // Two voters have swapped their ballots, and kept their signatures.
    let mut changed = run.transcript.clone();
    let attached = changed["messages"][plan]["attached"].as_array_mut().unwrap();
    let one = attached[ballots[0]]["params"].clone();
    let second = attached.iter().position(|message| *message == other).unwrap();
    attached[ballots[0]]["params"] = other["params"].clone();
    attached[second]["params"] = one;
    let told = refused(&run.verify(&changed));
    assert!(told.contains(&format!("message {plan}: the signature does not fit")), "{told}");

    // A result that one liar has signed, with everybody's signatures for another one.
    let told = refused(&run.verify(&forged(&run.transcript, result)));
    let few = "the result of task-0: too few of its witnesses have signed it";
    assert!(told.contains(few), "{told}");
}

/// Takes what is written as signed, to have it in hand.
struct Trusting;

impl Check for Trusting {
    fn check(&self, _: &skep_wire::swarm::Claim<'_>) -> Result<(), OpenError> {
        Ok(())
    }
}

/// The same certificate with another end, properly signed by somebody.
fn forged(transcript: &Value, number: usize) -> Value {
    let mut forged = transcript.clone();
    let genuine = Signed::from_json(forged["messages"][number].clone(), &Trusting).unwrap();
    let Message::Certificate(mut certificate) = genuine.message else { panic!("not that") };
    let Word::Bundle { value, .. } = &mut certificate.word else { panic!("not that") };
    match &mut value.outcome {
        Outcome::Result(ended) => ended.end = End::Failed,
        Outcome::Plan(chosen) => *chosen = Chosen::NoPlan,
        other => panic!("{other:?}"),
    }
    let key = SecretKey::from_seed([9; 32]);
    let meta = Meta { signer: key.public().did(), ..genuine.meta };
    let sealed = Signed::seal(meta, Message::Certificate(certificate), genuine.attached, &key);
    forged["messages"][number] = sealed.to_json();
    let known = forged["keys"].as_array_mut().unwrap();
    known.push(json!(key_text::write(&key.public())));
    forged
}

#[test]
fn a_file_that_is_no_transcript_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let deep = "[".repeat(5_000);
    let other = json!({"format": "else", "genesis": {}, "keys": [], "messages": []}).to_string();
    for text in ["", "nonsense", "{}", "[1, 2]", &deep, &other] {
        fs::write(folder.join("file"), text).unwrap();
        let told = refused(&swarm(folder, &["verify", "file"]));
        assert!(told.contains("file: this is not a transcript: "), "{told}");
    }
    let told = refused(&swarm(folder, &["verify", "absent"]));
    assert!(told.contains("absent cannot be read"), "{told}");
}
