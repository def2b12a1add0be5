//! The specification's TypeScript, run by Node, and this crate must say the same, byte for byte.

use std::{
    env, fs,
    io::{BufRead, BufReader, BufWriter, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use skep_score::{
    compute::{Input, output},
    parameters::Parameters,
};
use skep_wire::settle::Tier;

const SEED: u64 = 0x5ca1_ab1e;
const INPUTS: usize = 1_000_000;
const COMMITTED: usize = 2_000;

/// SplitMix64: the same inputs for everybody.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }

    /// Sessions and the successful ones among them.
    fn sessions(&mut self) -> (f64, f64) {
        let some = self.below(320) as f64;
        match self.below(10) {
            0..=3 => (some, self.below(some as u64 + 1) as f64),
            // Few failures: this is where labels change.
            4..=5 => (some, (some - self.below(12) as f64).max(0.0)),
            6 => (some / 2.0, self.below(some as u64 + 1) as f64 / 2.0),
            7 => {
                let near = self.one_of(&[0.0, 1.0, 25.0, 50.0, 100.0, 150.0]);
                (near + self.below(3) as f64 - 1.0, near)
            }
            8 => (self.strange(), self.strange()),
            _ => (some, self.strange()),
        }
    }

    fn strange(&mut self) -> f64 {
        match self.below(5) {
            0 => -(self.below(500) as f64) / 4.0,
            1 => 10_f64.powi(self.below(600) as i32 - 300),
            2 => self.below(1_000_000) as f64 / 997.0,
            3 => self.below(1 << 53) as f64,
            _ => Some(f64::from_bits(self.next())).filter(|x| x.is_finite()).unwrap_or(0.0),
        }
    }

    fn input(&mut self) -> Input {
        let (conduit_sessions, conduit_successful) = self.sessions();
        let (ap2_sessions, ap2_successful) = self.sessions();
        let tiers = [Tier::Unverified, Tier::Basic, Tier::Verified, Tier::Verified, Tier::Trusted];
        Input {
            conduit_sessions,
            conduit_successful,
            ap2_sessions,
            ap2_successful,
            conduit_sessions_lifetime: self.below(1000) as f64,
            ap2_sessions_lifetime: self.below(1000) as f64,
            trust_tier: self.one_of(&tiers),
            has_cryptographic_identity: self.below(8) > 0,
            disputed_sessions_active: self.one_of(&[0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0, -1.0, 0.5]),
        }
    }
}

/// The code of 6.1 without its types, where the specification is at hand.
fn javascript() -> Option<String> {
    let folder = env::var_os("SKEP_SPECS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/specs"),
        PathBuf::from,
    );
    let specification = fs::read_to_string(folder.join("swarmscore-v1.txt")).ok()?;
    let begin = specification.find("interface SwarmScoreInput {").unwrap();
    let end = specification.find("6.2 Simplified Formula").unwrap();
    let mut code = specification[begin..end].to_owned();
    while let Some(begin) = code.find("interface ") {
        let end = begin + code[begin..].find("\n}\n").unwrap() + 3;
        code.replace_range(begin..end, "");
    }
    for (typed, plain) in [
        ("(input: SwarmScoreInput): SwarmScoreOutput", "(input)"),
        ("(input: SwarmScoreInput): number", "(input)"),
        ("(tier: 'UNVERIFIED' | 'BASIC' | 'VERIFIED' | 'TRUSTED'): number", "(tier)"),
        ("(score: number): number", "(score)"),
        ("const gaps: string[]", "const gaps"),
        ("const tier: 'NONE' | 'STANDARD' | 'ELITE'", "const tier"),
    ] {
        assert!(code.contains(typed), "the specification has changed: no {typed}");
        code = code.replace(typed, plain);
    }
    code.push_str(
        "
const lines = require('readline').createInterface({ input: process.stdin });
let out = [];
lines.on('line', line => {
    out.push(JSON.stringify(computeSwarmScore(JSON.parse(line))));
    if (out.length === 4096) { process.stdout.write(out.join('\\n') + '\\n'); out = []; }
});
lines.on('close', () => { if (out.length) process.stdout.write(out.join('\\n') + '\\n'); });
",
    );
    Some(code)
}

/// Gives `each` every input with what the specification's code makes of it; says whether the
/// specification is at hand. Where it is, Node must be.
fn in_node(count: usize, mut each: impl FnMut(&Input, &str)) -> bool {
    let Some(code) = javascript() else { return false };
    let node = Command::new("node")
        .args(["-e", &code])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut node = node.expect("install nodejs: the specification's own code runs in it");
    let mut sink = BufWriter::new(node.stdin.take().unwrap());
    let writer = std::thread::spawn(move || {
        let mut chance = Chance(SEED);
        for _ in 0..count {
            let line = serde_json::to_string(&chance.input()).unwrap();
            writeln!(sink, "{line}").unwrap();
        }
        sink.flush().unwrap();
    });
    let mut chance = Chance(SEED);
    let mut lines = BufReader::new(node.stdout.take().unwrap()).lines();
    for _ in 0..count {
        let line = lines.next().expect("Node answers every line").unwrap();
        each(&chance.input(), &line);
    }
    assert!(lines.next().is_none());
    writer.join().unwrap();
    assert!(node.wait().unwrap().success());
    true
}

#[test]
fn a_million_inputs_agree_with_the_specification_s_own_code() {
    let mut tiers = std::collections::BTreeMap::new();
    let ran = in_node(INPUTS, |input, theirs| {
        let ours = output(input, &Parameters::SPEC);
        assert_eq!(ours.to_json(), theirs, "{input:?}");
        *tiers.entry(ours.tier).or_insert(0) += 1;
    });
    if ran {
        // The inputs reach every label.
        assert!(tiers.len() == 3 && tiers.values().all(|n| *n > 1000), "{tiers:?}");
    } else {
        eprintln!("no specification here: the committed vectors are all there is");
    }
}

fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors.jsonl")
}

/// One line for each input, one for what comes of it.
#[test]
fn committed_vectors_hold() {
    if env::var_os("UPDATE_EXPECT").is_some() {
        let mut lines = String::new();
        let ran = in_node(COMMITTED, |input, theirs| {
            lines.push_str(&serde_json::to_string(input).unwrap());
            lines.push('\n');
            lines.push_str(theirs);
            lines.push('\n');
        });
        assert!(ran, "vectors are made by the specification's own code");
        fs::write(vectors(), lines).unwrap();
    }
    let text = fs::read_to_string(vectors()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2 * COMMITTED);
    for pair in lines.chunks(2) {
        let input: Input = serde_json::from_str(pair[0]).unwrap();
        assert_eq!(output(&input, &Parameters::SPEC).to_json(), pair[1], "{input:?}");
    }
}
