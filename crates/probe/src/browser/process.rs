//! One Chromium: how it is found, started, watched and ended.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, geteuid, kill_process_group};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::{BrowserError, Chromium, Limits};

/// The variable that names the browser.
const VARIABLE: &str = "SKEP_CHROMIUM";
/// What the browser is called by those who package it.
const NAMES: &[&str] =
    &["chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome"];
/// How often the memory of a browser is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Less shared memory than this is left alone, in bytes.
const SHARED_MEMORY_MIN: u64 = 512 * 1024 * 1024;
/// How often and after what pauses a folder is tried to be removed.
const REMOVE_TRIES: u32 = 40;
const REMOVE_PAUSE: Duration = Duration::from_millis(25);

/// A shell puts the pipes where Chromium wants them (3 in, 4 out) and becomes it: to do that
/// from here would need `unsafe`.
const WIRING: &str = r#"exec "$0" "$@" 3<&0 4>&1 0</dev/null 1>/dev/null"#;

/// Features that talk to the network on their own, or that a page nobody sees has no use for.
const FEATURES_OFF: &str = "--disable-features=AsyncDns,AutofillServerCommunication,\
    CertificateTransparencyComponentUpdater,DialMediaRouteProvider,DnsOverHttps,HttpsUpgrades,\
    HttpsFirstBalancedModeAutoEnable,InterestFeedContentSuggestions,IsolateOrigins,MediaRouter,\
    NetworkTimeServiceQuerying,OptimizationHints,PreconnectToSearch,Prerender2,\
    PaintHolding,Translate,WebOTP,\
    site-per-process";

const FLAGS: &[&str] = &[
    "--headless=new",
    "--remote-debugging-pipe",
    FEATURES_OFF,
    // Nobody else's pages are in this browser, and frames of other sites would be out of sight.
    "--disable-site-isolation-trials",
    "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    "--dns-prefetch-disable",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-pings",
    // What the browser itself would talk to leads to the proxy's `NOWHERE`.
    "--allow-browser-signin=false",
    "--gaia-url=https://127.0.0.1:1",
    "--google-base-url=https://127.0.0.1:1",
    "--gcm-checkin-url=https://127.0.0.1:1",
    "--gcm-registration-url=https://127.0.0.1:1",
    "--gcm-mcs-endpoint=https://127.0.0.1:1",
    "--variations-server-url=https://127.0.0.1:1",
    "--variations-insecure-server-url=https://127.0.0.1:1",
    // Updates are asked for even where they are disabled.
    "--component-updater=url-source=https://127.0.0.1:1,disable-pings",
    "--apps-gallery-update-url=https://127.0.0.1:1/",
    "--no-service-autorun",
    "--no-startup-window",
    "--deny-permission-prompts",
    "--disable-auto-reload",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-component-extensions-with-background-pages",
    "--disable-component-update",
    "--disable-crash-reporter",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-hang-monitor",
    "--disable-notifications",
    "--disable-print-preview",
    "--disable-search-engine-choice-screen",
    "--disable-speech-api",
    "--disable-sync",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--hide-scrollbars",
    "--metrics-recording-only",
    "--mute-audio",
    "--password-store=basic",
    "--use-mock-keychain",
    "--renderer-process-limit=2",
    "--window-size=1280,800",
    "--force-color-profile=srgb",
    "--lang=en-US",
];

impl Chromium {
    /// Chromium gives root none.
    pub fn has_sandbox() -> bool {
        !geteuid().is_root()
    }

    /// The given path or `SKEP_CHROMIUM` first, then the usual names; the error is one sentence
    /// that says what to do.
    pub fn find(given: Option<&Path>) -> Result<Chromium, BrowserError> {
        let named = given.map(Path::to_owned).or_else(|| {
            std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
        });
        if let Some(path) = named {
            if is_program(&path) {
                return Ok(Chromium { path });
            }
            return Err(BrowserError::NoBrowser {
                reason: format!("{} is no program that can be run", path.display()),
            });
        }
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let folders: Vec<PathBuf> = std::env::split_paths(&paths).collect();
        let candidates =
            NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
        let found = candidates.into_iter().find(|path| is_program(path));
        found
            .map(|path| Chromium { path })
            .ok_or_else(|| BrowserError::NoBrowser { reason: "no Chromium was found".to_owned() })
    }
}

/// What is free of the memory that processes share.
fn shared_memory_bytes() -> u64 {
    let free = rustix::fs::statvfs("/dev/shm");
    free.map_or(0, |free| free.f_bavail.saturating_mul(free.f_frsize))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// Why a browser was ended.
pub(super) type Ended = Arc<OnceLock<BrowserError>>;

/// A running browser. It is killed, with all its children, when this is dropped.
#[derive(Debug)]
pub(super) struct Process {
    group: Pid,
    pub(super) ended: Ended,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill(BrowserError::Crashed);
    }
}

impl Process {
    pub(super) fn start(
        chromium: &Chromium,
        proxy_port: u16,
        limits: &Limits,
    ) -> Result<(Process, ChildStdin, ChildStdout), BrowserError> {
        let failed = |reason: String| BrowserError::Start { reason };
        let home = tempfile::Builder::new()
            .prefix("skep-browser-")
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir()
            .map_err(|error| failed(format!("there is no folder for it: {error}")))?;
        let home = Home(home.keep());
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", WIRING])
            .arg(&chromium.path)
            .args(FLAGS)
            .arg(format!("--proxy-server=http://127.0.0.1:{proxy_port}"))
            .arg(format!("--user-data-dir={}", home.0.join("profile").display()));
        if !Chromium::has_sandbox() {
            tracing::warn!("as root, the browser runs without its sandbox");
            command.arg("--no-sandbox");
        }
        // In a container it is often too small for one page.
        if shared_memory_bytes() < SHARED_MEMORY_MIN {
            command.arg("--disable-dev-shm-usage");
        }
        let mut child = command
            // What is in our environment (keys, passwords) is not the browser's business.
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", &home.0)
            .env("TMPDIR", &home.0)
            .env("LANG", "C.UTF-8")
            .current_dir(&home.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let (Some(group), Some(stdin), Some(stdout)) =
            (group, child.stdin.take(), child.stdout.take())
        else {
            return Err(failed("it has ended at once".to_owned()));
        };
        let process = Process { group, ended: Ended::default() };
        let watch = Watch {
            group,
            ended: Arc::clone(&process.ended),
            memory_max: limits.memory_bytes,
            until: Instant::now() + limits.session,
            session: limits.session,
        };
        tokio::spawn(watch.run(child, home));
        Ok((process, stdin, stdout))
    }

    pub(super) fn kill(&self, why: BrowserError) {
        kill(self.group, &self.ended, why);
    }

    /// Why it has ended, or a crash if nobody has ended it.
    pub(super) fn why(&self) -> BrowserError {
        self.ended.get().cloned().unwrap_or(BrowserError::Crashed)
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        if self.ended.get().is_some() { 0 } else { memory_bytes(self.group) }
    }

    pub(super) fn id(&self) -> i32 {
        self.group.as_raw_nonzero().get()
    }
}

/// Kills once only: the number may be somebody else's later.
fn kill(group: Pid, ended: &Ended, why: BrowserError) {
    if ended.set(why).is_ok() {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

struct Watch {
    group: Pid,
    ended: Ended,
    memory_max: u64,
    until: Instant,
    session: Duration,
}

impl Watch {
    /// Looks at the browser until it has ended, and clears up behind it.
    async fn run(self, mut child: Child, home: Home) {
        loop {
            tokio::select! {
                _ = child.wait() => break,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            let group = self.group;
            let looked = tokio::task::spawn_blocking(move || memory_bytes(group)).await;
            let memory = looked.unwrap_or_default();
            if memory > self.memory_max {
                let why = BrowserError::Memory { bytes: memory, max: self.memory_max };
                kill(self.group, &self.ended, why);
            }
            if Instant::now() > self.until {
                kill(self.group, &self.ended, BrowserError::Expired { limit: self.session });
            }
        }
        // Its children may outlive it for a moment; the group is theirs until they are gone.
        kill(self.group, &self.ended, BrowserError::Crashed);
        let _ = tokio::task::spawn_blocking(move || drop(home)).await;
    }
}

/// A browser's folder. It is removed when this is dropped.
struct Home(PathBuf);

impl Drop for Home {
    fn drop(&mut self) {
        // Processes that are just being killed may still write.
        for _ in 0..REMOVE_TRIES {
            if fs::remove_dir_all(&self.0).is_ok() || !self.0.exists() {
                return;
            }
            std::thread::sleep(REMOVE_PAUSE);
        }
        tracing::warn!(path = %self.0.display(), "a browser's folder cannot be removed");
    }
}

/// What a browser and its children hold that the machine cannot take back: not the pages of the
/// program itself, which all browsers share.
fn memory_bytes(group: Pid) -> u64 {
    let leader = group.as_raw_nonzero().get();
    let mut parents = BTreeMap::new();
    let mut members = Vec::new();
    let Ok(entries) = fs::read_dir("/proc") else { return 0 };
    for entry in entries.flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name, in parentheses, may contain anything.
        let mut words = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(1);
        let parent = words.next().and_then(|word| word.parse::<i32>().ok()).unwrap_or(0);
        let of_group = words.next().and_then(|word| word.parse::<i32>().ok()) == Some(leader);
        parents.insert(id, parent);
        if of_group {
            members.push(id);
        }
    }
    // A child that has left the group is still a child.
    let known: std::collections::BTreeSet<i32> = members.iter().copied().collect();
    members.extend(parents.keys().copied().filter(|id| {
        let mut at = *id;
        let line = std::iter::from_fn(|| {
            at = *parents.get(&at)?;
            (at > 1).then_some(at)
        });
        !known.contains(id) && line.take(64).any(|parent| known.contains(&parent))
    }));
    members.iter().map(|id| memory_of(*id)).sum()
}

fn memory_of(id: i32) -> u64 {
    let Ok(status) = fs::read_to_string(format!("/proc/{id}/status")) else { return 0 };
    let kib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    (kib("RssAnon:").unwrap_or(0) + kib("RssShmem:").unwrap_or(0)) * 1024
}
