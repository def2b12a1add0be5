//! What `skep keys` does, apart from reading its arguments.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use serde::Serialize;
use skep_base::{AgentId, Did, Timestamp, ed25519::PublicKey, json};
use skep_wire::identity::{NAME_LEN_MAX, RegisterAgent, WEBHOOK_URL_LEN_MAX};
use zeroize::Zeroizing;

use crate::{
    Keyring, Phrase, PublicInfo,
    keyring::{
        KeyNumberTooLarge, LockError, NothingStaged, OpenError, OperatorCheck, RegistrationError,
        SaveError, StageError,
    },
    passphrase::{self, Ask, PassphraseError, ReadLineError},
    phrase::ParsePhraseError,
    verify_registration,
};

mod rotate;
#[cfg(test)]
mod tests;

pub use rotate::{Rotate, RotateStep, Submit, rotate};

/// No registration is longer.
const REGISTRATION_LEN_MAX: u64 = 64 * 1024;

/// What every command needs to know.
#[derive(Clone, Debug)]
pub struct Keys {
    pub path: PathBuf,
    pub passphrase_fd: Option<u32>,
    /// One JSON document instead of text for people.
    pub json: bool,
    pub now: Timestamp,
}

#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Save(#[from] SaveError),
    #[error(transparent)]
    Stage(#[from] StageError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Passphrase(#[from] PassphraseError),
    #[error(transparent)]
    Phrase(#[from] ParsePhraseError),
    #[error("the recovery phrase could not be read")]
    ReadPhrase(#[from] ReadLineError),
    #[error("there is no terminal to ask for the recovery phrase: give --phrase-fd N")]
    NoPhrase,
    #[error(transparent)]
    KeyNumber(#[from] KeyNumberTooLarge),
    #[error(transparent)]
    NothingStaged(#[from] NothingStaged),
    #[error("{what} is longer than {max} bytes")]
    TooLong { what: &'static str, max: usize },
    #[error("{path} could not be read")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path} holds no registration")]
    NoRegistration { path: PathBuf, source: json::ParseError },
    #[error("the registration in {path} is not good")]
    Registration { path: PathBuf, source: RegistrationError },
    #[error("there are no random bytes to be had")]
    Random(#[source] io::Error),
    #[error("the output could not be written")]
    Write(#[source] io::Error),
    #[error("no node was named: give --node URL, or --offline to print the signed change")]
    NoNode,
    #[error("the node did not answer what it knows of {agent}: {reason}")]
    Node { agent: AgentId, reason: String },
    #[error(
        "the node did not take the new key: {reason}; the key stays staged: `skep keys rotate` \
         sends it again, `skep keys rotate --drop` forgets it"
    )]
    NotConfirmed { reason: String },
    #[error("the node already has the staged key: finish with `skep keys rotate`")]
    InUse,
}

/// How `skep keys new` makes a keyring.
#[derive(Clone, Debug, Default)]
pub struct New {
    /// Reads a phrase instead of making one.
    pub from_phrase: bool,
    /// Where the phrase is read; the terminal if absent.
    pub phrase_fd: Option<u32>,
    pub key_number: u32,
    /// Adds the phrase's operator key.
    pub operator: bool,
}

#[derive(Serialize)]
struct NewAnswer<'a> {
    #[serde(flatten)]
    info: PublicInfo,
    recovery_key: PublicKey,
    #[serde(skip_serializing_if = "Option::is_none")]
    operator: Option<Did>,
    path: &'a Path,
    #[serde(skip_serializing_if = "Option::is_none")]
    recovery_phrase: Option<&'a str>,
}

/// Makes a keyring, writes its file and shows the recovery phrase this once.
pub fn new(keys: &Keys, options: &New, out: &mut dyn Write) -> Result<(), CommandError> {
    // Before anybody types a passphrase for nothing.
    if keys.path.symlink_metadata().is_ok() {
        return Err(SaveError::Exists { path: keys.path.clone() }.into());
    }
    let (mut keyring, phrase) = if options.from_phrase {
        let phrase = read_phrase(options.phrase_fd)?;
        (Keyring::from_phrase(&phrase, options.key_number)?, phrase)
    } else {
        Keyring::create(*random()?)
    };
    if options.operator {
        keyring = keyring.with_operator(phrase.operator_key());
    }
    let passphrase = passphrase::read(keys.passphrase_fd, Ask::Twice)?;
    keyring.save_new(&keys.path, &passphrase)?;
    let words = (!options.from_phrase).then(|| phrase.words());
    let shown = show_new(keys, &keyring, words.as_deref().map(String::as_str), out);
    if shown.is_err() {
        // A keyring whose phrase nobody saw could never be recovered; nobody uses it yet.
        let _ = fs::remove_file(&keys.path);
    }
    shown
}

fn show_new(
    keys: &Keys,
    keyring: &Keyring,
    recovery_phrase: Option<&str>,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let answer = NewAnswer {
        info: keyring.public_info(),
        recovery_key: keyring.recovery_key(),
        operator: keyring.operator().map(|operator| operator.public().did()),
        path: &keys.path,
        recovery_phrase,
    };
    if keys.json {
        return print_json(out, &answer);
    }
    let mut text = Zeroizing::new(String::with_capacity(4096));
    text.push_str(&describe(&answer.info, &keys.path));
    if let Some(operator) = answer.operator {
        text.push_str(&format!("operator    {operator}\n"));
    }
    if let Some(phrase) = recovery_phrase {
        text.push_str("\nRecovery phrase:\n\n");
        for (index, word) in phrase.split(' ').enumerate() {
            let end = if index % 6 == 5 { "\n" } else { "" };
            text.push_str(&Zeroizing::new(format!("{:>4} {word:<8}{end}", index + 1)));
        }
        text.push_str(
            "\nWrite these 24 words down now. They are shown this once and stored nowhere.\n\
             Whoever has them has the agent and its money; without them a lost file is lost.\n",
        );
    }
    print(out, &text)
}

#[derive(Serialize)]
struct ShowAnswer<'a> {
    #[serde(flatten)]
    info: PublicInfo,
    path: &'a Path,
}

/// Shows what the file says without a passphrase.
pub fn show(keys: &Keys, out: &mut dyn Write) -> Result<(), CommandError> {
    let info = Keyring::read_public_info(&keys.path)?;
    if keys.json {
        return print_json(out, &ShowAnswer { info, path: &keys.path });
    }
    print(out, &describe(&info, &keys.path))
}

/// What goes into a registration beside the keys.
#[derive(Clone, Debug, Default)]
pub struct Bind {
    pub name: Option<String>,
    pub webhook_url: Option<String>,
}

/// Prints the registration of this agent, signed by both its keys, and by its operator's key if
/// the keyring holds one.
pub fn bind(keys: &Keys, options: &Bind, out: &mut dyn Write) -> Result<(), CommandError> {
    let Bind { name, webhook_url } = options.clone();
    fits("the name", name.as_deref(), NAME_LEN_MAX)?;
    fits("the webhook URL", webhook_url.as_deref(), WEBHOOK_URL_LEN_MAX)?;
    let keyring = open(keys)?;
    let registration = keyring.registration(keys.now, keyring.operator(), name, webhook_url);
    print_document(keys, out, &registration)
}

fn fits(what: &'static str, text: Option<&str>, max: usize) -> Result<(), CommandError> {
    match text {
        Some(text) if text.len() > max => Err(CommandError::TooLong { what, max }),
        _ => Ok(()),
    }
}

#[derive(Serialize)]
struct BindingAnswer {
    valid: bool,
    agent_id: AgentId,
    public_key: PublicKey,
    #[serde(skip_serializing_if = "Option::is_none")]
    operator: Option<Did>,
    operator_check: OperatorCheck,
    issued_at: Timestamp,
}

/// Checks the signatures of a registration that somebody handed over.
pub fn verify(
    json: bool,
    file: &Path,
    operator_key: Option<&PublicKey>,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let path = || file.to_owned();
    let mut bytes = Vec::new();
    File::open(file)
        .and_then(|file| file.take(REGISTRATION_LEN_MAX).read_to_end(&mut bytes))
        .map_err(|source| CommandError::Read { path: path(), source })?;
    let registration: RegisterAgent = json::from_slice(&bytes)
        .map_err(|source| CommandError::NoRegistration { path: path(), source })?;
    let operator_check = verify_registration(&registration, operator_key)
        .map_err(|source| CommandError::Registration { path: path(), source })?;
    let binding = registration.binding;
    let answer = BindingAnswer {
        valid: true,
        agent_id: binding.agent_id,
        public_key: binding.public_key,
        operator: binding.operator,
        operator_check,
        issued_at: binding.issued_at,
    };
    if json {
        return print_json(out, &answer);
    }
    let mut text = format!(
        "The binding is good: wallet and key signed each other on {}.\n\
         agent id    {}\npublic key  {}\n",
        answer.issued_at, answer.agent_id, answer.public_key
    );
    if let Some(operator) = answer.operator {
        let check = match operator_check {
            OperatorCheck::Verified => "signed as well",
            _ => "not checked: give --operator-key KEY",
        };
        text.push_str(&format!("operator    {operator} ({check})\n"));
    }
    print(out, &text)
}

fn open(keys: &Keys) -> Result<Keyring, CommandError> {
    // A file that is missing or exposed is named before anybody types a passphrase for it.
    Keyring::read_public_info(&keys.path)?;
    let passphrase = passphrase::read(keys.passphrase_fd, Ask::Once)?;
    Ok(Keyring::open(&keys.path, &passphrase)?)
}

fn read_phrase(fd: Option<u32>) -> Result<Phrase, CommandError> {
    let text = match fd {
        Some(fd) => passphrase::read_fd(fd)?,
        None => passphrase::prompt("Recovery phrase (24 words): ")
            .map_err(PassphraseError::Terminal)?
            .ok_or(CommandError::NoPhrase)?,
    };
    Ok(Phrase::parse(&text)?)
}

fn random() -> Result<Zeroizing<[u8; 32]>, CommandError> {
    let mut bytes = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *bytes).map_err(|error| CommandError::Random(io::Error::other(error)))?;
    Ok(bytes)
}

fn describe(info: &PublicInfo, path: &Path) -> String {
    format!(
        "agent id    {}\nDID         {}\npublic key  {}\nkeyring     {}\n",
        info.agent_id,
        info.did,
        info.public_key,
        path.display()
    )
}

fn print(out: &mut dyn Write, text: &str) -> Result<(), CommandError> {
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(CommandError::Write)
}

fn print_json(out: &mut dyn Write, answer: &impl Serialize) -> Result<(), CommandError> {
    // An answer may hold the recovery phrase.
    let mut bytes = Zeroizing::new(Vec::with_capacity(8192));
    serde_json::to_writer(&mut *bytes, answer)
        .map_err(|error| CommandError::Write(error.into()))?;
    bytes.push(b'\n');
    out.write_all(&bytes).and_then(|()| out.flush()).map_err(CommandError::Write)
}

/// JSON in both cases: on one line for programs, indented for people.
fn print_document(
    keys: &Keys,
    out: &mut dyn Write,
    document: &impl Serialize,
) -> Result<(), CommandError> {
    if keys.json {
        return print_json(out, document);
    }
    let text = serde_json::to_string_pretty(document)
        .map_err(|error| CommandError::Write(error.into()))?;
    print(out, &format!("{text}\n"))
}
