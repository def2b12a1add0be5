//! AIVS bundles as archives: `session_proof/…` in a gzipped tar.
//!
//! What is written depends on nothing but the files and the time: sorted, one mode, one time. What
//! is read comes from strangers: only plain files with known names, each once, and never more
//! bytes than a bundle may have, however small they were packed.

use std::{
    fs,
    io::{Read, Write},
    path::Path,
};

use anyhow::{Context, Result, bail, ensure};
use flate2::{Compression, GzBuilder, bufread::GzDecoder};
use skep_base::Timestamp;
use skep_settle::aivs::{BUNDLE_LEN_MAX, FOLDER, Files, NAMES};

/// Everything in a tar comes in blocks.
const BLOCK: usize = 512;
/// Headers, padding and the end, beside the files themselves.
const FRAME_LEN_MAX: usize = 64 * 1024;
const GZIP: [u8; 2] = [0x1f, 0x8b];
const FILE_MODE: u64 = 0o644;

pub fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&GZIP)
}

/// Packs a bundle; the same files and time give the same bytes.
pub fn pack(files: &Files, at: Timestamp) -> Result<Vec<u8>> {
    let seconds = u64::try_from(at.as_ms() / 1000).unwrap_or_default();
    let mut tar = Vec::new();
    for (name, bytes) in files {
        tar.extend(header(&format!("{FOLDER}/{name}"), bytes.len(), seconds)?);
        tar.extend(bytes);
        tar.resize(tar.len().next_multiple_of(BLOCK), 0);
    }
    tar.resize(tar.len() + 2 * BLOCK, 0);
    // Gzip's own time has 32 bits; the files' times are in the tar.
    let mut gzip = GzBuilder::new().write(Vec::new(), Compression::default());
    gzip.write_all(&tar)?;
    Ok(gzip.finish()?)
}

/// A POSIX ustar header for a plain file that belongs to nobody.
fn header(path: &str, len: usize, seconds: u64) -> Result<[u8; BLOCK]> {
    let mut block = [0; BLOCK];
    ensure!(path.len() <= 100, "{path} is too long a name for an archive");
    block[..path.len()].copy_from_slice(path.as_bytes());
    let octal = |number: u64, digits: usize| format!("{number:0digits$o}\0");
    put(&mut block, 100, &octal(FILE_MODE, 7));
    put(&mut block, 108, &octal(0, 7));
    put(&mut block, 116, &octal(0, 7));
    put(&mut block, 124, &octal(len as u64, 11));
    put(&mut block, 136, &octal(seconds, 11));
    put(&mut block, 156, "0");
    put(&mut block, 257, "ustar\u{0}00");
    let sum = checksum(&block);
    put(&mut block, 148, &format!("{sum:06o}\0 "));
    Ok(block)
}

fn put(block: &mut [u8; BLOCK], at: usize, text: &str) {
    block[at..at + text.len()].copy_from_slice(text.as_bytes());
}

/// The sum of a header's bytes, with blanks in the place of the sum itself.
fn checksum(block: &[u8; BLOCK]) -> u64 {
    let bytes = block.iter().enumerate();
    bytes.map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u64::from(*byte) }).sum()
}

/// Unpacks a bundle that a stranger made.
pub fn unpack(bytes: &[u8]) -> Result<Files> {
    let mut tar = Vec::new();
    let limit = BUNDLE_LEN_MAX + FRAME_LEN_MAX;
    let mut gzip = GzDecoder::new(bytes);
    let read = (&mut gzip).take(limit as u64 + 1).read_to_end(&mut tar);
    read.context("the archive is not whole")?;
    ensure!(tar.len() <= limit, "the archive unpacks to more than {} MiB", BUNDLE_LEN_MAX >> 20);
    ensure!(gzip.into_inner().is_empty(), "something follows the archive");
    let mut files = Files::new();
    let mut rest = tar.as_slice();
    while let Some((block, after)) = rest.split_first_chunk::<BLOCK>() {
        if block.iter().all(|byte| *byte == 0) {
            ensure!(after.iter().all(|byte| *byte == 0), "something follows the archive's end");
            return Ok(files);
        }
        let entry = Entry::read(block)?;
        ensure!(entry.len <= after.len(), "the archive ends inside a file");
        let (content, after) = after.split_at(entry.len);
        let padding = entry.len.next_multiple_of(BLOCK) - entry.len;
        rest = after.get(padding..).context("the archive ends inside a file")?;
        let Some(name) = entry.name else { continue };
        if files.insert(name.to_owned(), content.to_vec()).is_some() {
            bail!("{name} is in the archive twice");
        }
    }
    bail!("the archive has no end")
}

struct Entry {
    /// Absent for the folder itself.
    name: Option<&'static str>,
    len: usize,
}

impl Entry {
    fn read(block: &[u8; BLOCK]) -> Result<Entry> {
        let sum = octal(&block[148..156]);
        ensure!(sum == Some(checksum(block)), "a header of the archive is damaged");
        let path = std::str::from_utf8(until_zero(&block[..100])).context("a name is no text")?;
        ensure!(block[345] == 0, "{path:?} has too long a path");
        let len = octal(&block[124..136]).context("a length in the archive cannot be read")?;
        let len = usize::try_from(len)?;
        let in_folder = path.strip_prefix("./").unwrap_or(path).strip_prefix(FOLDER);
        match block[156] {
            b'5' if matches!(in_folder, Some("" | "/")) && len == 0 => {
                Ok(Entry { name: None, len })
            }
            b'0' | 0 => {
                let name = in_folder.and_then(|path| path.strip_prefix('/'));
                let known = NAMES.into_iter().find(|known| Some(*known) == name);
                let known = known.with_context(|| format!("{path:?} is no file of a bundle"))?;
                Ok(Entry { name: Some(known), len })
            }
            _ => bail!("{path:?} is no plain file: links and the like have no place in a bundle"),
        }
    }
}

fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn octal(bytes: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(until_zero(bytes)).ok()?.trim();
    u64::from_str_radix(text, 8).ok()
}

/// Reads a bundle that was unpacked: the folder itself, or the one that holds it.
pub fn read_folder(path: &Path) -> Result<Files> {
    let inner = path.join(FOLDER);
    let path = if inner.is_dir() { &inner } else { path };
    let (mut files, mut left) = (Files::new(), BUNDLE_LEN_MAX);
    for entry in fs::read_dir(path).with_context(|| format!("{}", path.display()))? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_str().filter(|name| NAMES.contains(name)).with_context(|| {
            format!("{:?} is no file of a bundle", entry.path().display().to_string())
        })?;
        // A link's own type is looked at, not that of what it leads to.
        ensure!(entry.file_type()?.is_file(), "{name} is no plain file");
        let mut bytes = Vec::new();
        fs::File::open(entry.path())?.take(left as u64 + 1).read_to_end(&mut bytes)?;
        ensure!(bytes.len() <= left, "the bundle is longer than {} MiB", BUNDLE_LEN_MAX >> 20);
        left -= bytes.len();
        files.insert(name.to_owned(), bytes);
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Files {
        let pairs = [("manifest.json", vec![b'm'; 513]), ("verify.py", vec![])];
        pairs.map(|(name, bytes)| (name.to_owned(), bytes)).into()
    }

    fn at() -> Timestamp {
        Timestamp::from_ms(1_794_733_200_000)
    }

    /// An archive of one entry that this program would not write.
    fn odd(path: &str, kind: u8, content: &[u8]) -> Vec<u8> {
        let mut block = header(path, content.len(), 0).unwrap();
        block[156] = kind;
        let sum = checksum(&block);
        put(&mut block, 148, &format!("{sum:06o}\0 "));
        let mut tar = block.to_vec();
        tar.extend(content);
        tar.resize(tar.len().next_multiple_of(BLOCK) + 2 * BLOCK, 0);
        gzip(&tar)
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut gzip = GzBuilder::new().write(Vec::new(), Compression::fast());
        gzip.write_all(bytes).unwrap();
        gzip.finish().unwrap()
    }

    #[test]
    fn what_was_packed_is_unpacked_and_tar_reads_it_too() {
        let packed = pack(&files(), at()).unwrap();
        assert_eq!(packed, pack(&files(), at()).unwrap());
        assert_eq!(unpack(&packed).unwrap(), files());
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.tar.gz"), &packed).unwrap();
        let mut tar = std::process::Command::new("tar");
        let out = tar.args(["xzf", "a.tar.gz"]).current_dir(folder.path()).output().unwrap();
        assert!(out.status.success(), "{out:?}");
        fs::remove_file(folder.path().join("a.tar.gz")).unwrap();
        assert_eq!(read_folder(folder.path()).unwrap(), files());
        assert_eq!(read_folder(&folder.path().join(FOLDER)).unwrap(), files());
        // And the other way round, with whatever headers it writes.
        let mut tar = std::process::Command::new("tar");
        tar.args(["czf", "b.tar.gz", "--format=ustar", FOLDER]);
        assert!(tar.current_dir(folder.path()).status().unwrap().success());
        let theirs = fs::read(folder.path().join("b.tar.gz")).unwrap();
        assert_eq!(unpack(&theirs).unwrap(), files());
        let link = folder.path().join(FOLDER).join("audit_log.jsonl");
        std::os::unix::fs::symlink("/etc/passwd", link).unwrap();
        let refused = read_folder(folder.path()).unwrap_err().to_string();
        assert_eq!(refused, "audit_log.jsonl is no plain file");
    }

    #[test]
    fn tricks_are_refused() {
        let refused = |bytes: &[u8]| unpack(bytes).unwrap_err().to_string();
        for path in [
            "session_proof/../../etc/passwd",
            "/etc/passwd",
            "manifest.json",
            "session_proof/more.txt",
            "session_proof/",
            "session_proof/./manifest.json",
            "session_proof/manifest.json/",
        ] {
            assert!(refused(&odd(path, b'0', b"x")).ends_with("is no file of a bundle"), "{path}");
        }
        for kind in [b'1', b'2', b'3', b'5', b'6', b'7', b'L', b'x', b'g'] {
            let refused = refused(&odd("session_proof/manifest.json", kind, b""));
            assert!(refused.contains("is no plain file"), "{refused}");
        }
        let bomb = vec![0; BUNDLE_LEN_MAX + FRAME_LEN_MAX + 1];
        assert!(refused(&gzip(&bomb)).contains("more than 16 MiB"));
        let packed = pack(&files(), at()).unwrap();
        assert!(refused(&packed[..packed.len() - 9]).contains("not whole"));
        let twice = [packed.as_slice(), b"x"].concat();
        assert_eq!(refused(&twice), "something follows the archive");
        let one = header("session_proof/verify.py", 0, 0).unwrap();
        assert!(refused(&gzip(&[one, one].concat())).contains("twice"));
        assert_eq!(refused(&gzip(&one)), "the archive has no end");
        assert_eq!(refused(&gzip(&one[..100])), "the archive has no end");
        assert_eq!(refused(&gzip(&[1; BLOCK])), "a header of the archive is damaged");
        let long = header("session_proof/verify.py", 4096, 0).unwrap();
        assert_eq!(refused(&gzip(&long)), "the archive ends inside a file");
    }
}
