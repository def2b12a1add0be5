//! `skep score compute`: the formula alone, on JSON lines.

use std::{
    fs,
    io::{self, BufRead, BufReader, BufWriter, Read, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use skep_score::{
    compute::{Input, output},
    parameters::Parameters,
};

/// The longest line that is read, in bytes.
const LINE_LEN_MAX: usize = 64 * 1024;

/// Compute scores from numbers: JSON lines in, JSON lines out, as the specification's own code
#[derive(Debug, Args)]
#[command(after_help = "Example:
  echo '{\"conduitSessions90d\": 80, \"conduitSuccessful90d\": 76, \"ap2Sessions90d\": 40,
    \"ap2Successful90d\": 38, \"conduitSessionsLifetime\": 250, \"ap2SessionsLifetime\": 120,
    \"trustTier\": \"VERIFIED\", \"hasCryptographicIdentity\": true,
    \"disputedSessionsActive\": 0}' | tr -d '\\n' | skep score compute

A line that is no input gets a line on stderr with its number, and the exit code is 1 in the end.")]
pub struct Compute {
    /// A file with one input on each line; - or nothing reads stdin
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
}

impl Compute {
    pub fn run(self, out: &mut dyn Write) -> Result<()> {
        let name = self.file.display();
        let cannot = || format!("{name} cannot be read");
        let read: Box<dyn Read> = match self.file == Path::new("-") {
            true => Box::new(io::stdin()),
            false => Box::new(fs::File::open(&self.file).with_context(cannot)?),
        };
        let mut lines = BufReader::new(read);
        let mut out = BufWriter::new(out);
        let (mut line, mut number, mut bad) = (Vec::new(), 0_u64, 0_u64);
        loop {
            line.clear();
            let limit = LINE_LEN_MAX as u64 + 1;
            if (&mut lines).take(limit).read_until(b'\n', &mut line).with_context(cannot)? == 0 {
                break;
            }
            number += 1;
            if line.len() > LINE_LEN_MAX {
                bail!("line {number} of {name} is longer than {} KiB", LINE_LEN_MAX >> 10);
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            match computed(&line) {
                Ok(answer) => writeln!(out, "{answer}")?,
                Err(why) => {
                    bad += 1;
                    eprintln!("line {number}: {why}");
                }
            }
        }
        out.flush()?;
        match bad {
            0 => Ok(()),
            bad => bail!("{bad} of {number} lines of {name} are no inputs"),
        }
    }
}

fn computed(line: &[u8]) -> Result<String, String> {
    let input: Input = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    Ok(output(&input, &Parameters::SPEC).to_json())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_vector_is_printed_to_the_last_digit() {
        let input = br#"{"conduitSessions90d":80,"conduitSuccessful90d":76,"ap2Sessions90d":40,
            "ap2Successful90d":38,"conduitSessionsLifetime":250,"ap2SessionsLifetime":120,
            "trustTier":"VERIFIED","hasCryptographicIdentity":true,"disputedSessionsActive":0}"#;
        let expected = "{\"score\":759,\"tier\":\"STANDARD\",\"conduitRate90d\":0.95,\
             \"ap2Rate90d\":0.95,\"conduitContribution\":304,\"ap2Contribution\":455,\
             \"qualificationGaps\":[],\"escrowModifier\":0.39280000000000004}";
        assert_eq!(computed(input).unwrap(), expected);
        assert!(computed(b"{}").unwrap_err().contains("conduitSessions90d"));
    }
}
