//! Settings: a flag wins over the environment, that over `skep.toml`, that over the default.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use serde::Serialize;

/// What can be set. The environment's name is `SKEP_` and the name in capitals.
pub const KNOWN: [(&str, &str); 40] = [
    ("data_dir", "where the node keeps its database and its keys"),
    ("database", "sqlite:PATH or postgres://USER@HOST/NAME; default: a file in data_dir"),
    (
        "lanes",
        "connections to PostgreSQL that write; default: half as many as there are cores, 1 to 8",
    ),
    ("listen", "the address that the node listens on"),
    ("dev", "test money and loopback addresses; loopback only"),
    ("tls_cert", "PEM file of the certificate"),
    ("tls_key", "PEM file of the certificate's key"),
    ("behind_proxy", "a proxy in front of the node ends TLS"),
    ("public_names", "hosts that others know the node by, separated by commas"),
    ("cors_origins", "web pages that may call the node, separated by commas"),
    ("rate_limits", "on or off; default: on, but off with --dev"),
    ("accredited", "agents that the marketplace picks to verify, and reviewers; by commas"),
    ("verifier", "on or off: the verifier inside the node; default: on"),
    ("chromium", "the program of Chromium, for pages and sessions; default: looked for in PATH"),
    ("chromium_as_root", "on: run Chromium as root, without its sandbox; default: only with --dev"),
    ("llm_url", "where a language model's API is, for the engine llm; default: no such engine"),
    ("llm_model", "the model's name there"),
    ("llm_style", "openai or anthropic: the API that llm_url speaks; default: openai"),
    ("llm_api_key", "the secret for llm_url; best in the environment"),
    ("fee_bps", "the platform's fee in 1/10000 of what is released, at most 2000; default: 0"),
    ("fee_tiers", "fees of providers with a subscription, as pro=100, by commas; default: none"),
    ("fee_buyer_share_bps", "the buyer's part of the fee in 1/10000; default: 5000"),
    ("dispute_deposit_bps", "what a dispute costs its loser in 1/10000 of the price; default: 500"),
    ("remainder_multiple", "open remainders per free balance, 0 to 100; default: 4"),
    ("auto_approve_max", "the dearest deal that is released on the provider's word; default: 50"),
    ("subsidy_deals", "a newcomer's first deals that the platform fronts a part of; default: 10"),
    ("subsidy_price_max", "the dearest of them, in whole units of its asset; default: 500"),
    ("review_deadline_s", "refunds what no reviewer decided in time; default: never"),
    ("browsers", "browsers that run at the same time; default: 8"),
    ("gateway_url", "a gateway in another process; default: browsers run in the node"),
    ("gateway_secret", "what node and gateway both know, at least 32 characters"),
    ("gateway_secret_file", "a file that holds it"),
    ("gateway_key", "the gateway's public key; default: the first that it gives"),
    ("session_price_minor", "what a billable action costs, in minor units of USDC; default: 1000"),
    ("session_prices", "actions with prices of their own, as CRAWL=5000, by commas"),
    ("sessions_max", "browser sessions that one agent may have open; default: 4"),
    (
        "listing_challenge",
        "off, soft or enforce: sellers show that they are at their addresses; default: enforce",
    ),
    ("log_format", "auto, text or json"),
    ("node", "the node that commands talk to"),
    ("keys", "the keyring's file"),
];

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    Flag,
    Environment(String),
    File(PathBuf),
    Default,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Flag => f.write_str("flag"),
            Origin::Environment(variable) => f.write_str(variable),
            Origin::File(path) => write!(f, "{}", path.display()),
            Origin::Default => f.write_str("default"),
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Setting {
    pub value: String,
    pub origin: Origin,
}

/// Every setting that has a value.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    values: BTreeMap<&'static str, Setting>,
}

impl Settings {
    /// Collects the settings. `flags` are those of the command line that were given.
    pub fn load(
        config: Option<&Path>,
        flags: &[(&'static str, Option<String>)],
    ) -> Result<Settings> {
        let mut settings = Settings::defaults()?;
        if let Some(path) = config_path(config) {
            settings.read_file(&path)?;
        }
        for (name, _) in KNOWN {
            let variable = format!("SKEP_{}", name.to_uppercase());
            if let Ok(value) = env::var(&variable) {
                settings.set(name, value, Origin::Environment(variable));
            }
        }
        for (name, value) in flags {
            if let Some(value) = value {
                settings.set(name, value.clone(), Origin::Flag);
            }
        }
        Ok(settings)
    }

    fn defaults() -> Result<Settings> {
        let mut settings = Settings::default();
        let data_dir = data_home().map(|home| home.join("skep"));
        if let Some(folder) = data_dir {
            settings.set("data_dir", folder.display().to_string(), Origin::Default);
        }
        for (name, value) in [
            ("listen", "127.0.0.1:4020"),
            ("dev", "false"),
            ("behind_proxy", "false"),
            ("log_format", "auto"),
            ("node", "http://127.0.0.1:4020"),
        ] {
            settings.set(name, value.to_owned(), Origin::Default);
        }
        Ok(settings)
    }

    fn read_file(&mut self, path: &Path) -> Result<()> {
        let text = fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
        let table: toml::Table =
            text.parse().with_context(|| format!("{} is not TOML", path.display()))?;
        for (key, value) in table {
            let Some((name, _)) = KNOWN.iter().find(|(name, _)| *name == key) else {
                let names = KNOWN.map(|(name, _)| name).join(", ");
                bail!("{} sets {key:?}, which is none of {names}", path.display());
            };
            let value = match value {
                toml::Value::String(text) => text,
                toml::Value::Boolean(word) => word.to_string(),
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Array(list) => {
                    list.iter().filter_map(toml::Value::as_str).collect::<Vec<_>>().join(",")
                }
                _ => bail!("{} sets {key:?} to something that is no text", path.display()),
            };
            self.set(name, value, Origin::File(path.to_owned()));
        }
        Ok(())
    }

    fn set(&mut self, name: &'static str, value: String, origin: Origin) {
        self.values.insert(name, Setting { value, origin });
    }

    /// Every value with where it came from, fit to be shown: without passwords.
    pub fn shown(&self) -> BTreeMap<&'static str, Setting> {
        let mut shown = self.values.clone();
        for name in ["database", "llm_url"] {
            if let Some(setting) = shown.get_mut(name) {
                setting.value = without_password(&setting.value);
            }
        }
        if let Some(secret) = shown.get_mut("llm_api_key") {
            secret.value = "…".to_owned();
        }
        if let Some(secret) = shown.get_mut("gateway_secret") {
            "…".clone_into(&mut secret.value);
        }
        shown
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|s| s.value.as_str()).filter(|v| !v.is_empty())
    }

    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.text(name).map(PathBuf::from)
    }

    pub fn is_on(&self, name: &str) -> Result<bool> {
        match self.text(name) {
            None | Some("false" | "off" | "no" | "0") => Ok(false),
            Some("true" | "on" | "yes" | "1") => Ok(true),
            Some(other) => bail!("{name} is {other:?}: say true or false"),
        }
    }

    pub fn list(&self, name: &str) -> Vec<String> {
        let words = self.text(name).unwrap_or_default().split(',').map(str::trim);
        words.filter(|w| !w.is_empty()).map(str::to_owned).collect()
    }

    pub fn data_dir(&self) -> Result<PathBuf> {
        self.path("data_dir").context("no home folder was found: say --data-dir FOLDER")
    }

    /// The database, by default a file in the data folder.
    pub fn database(&self) -> Result<String> {
        match self.text("database") {
            Some(url) => Ok(url.to_owned()),
            None => Ok(format!("sqlite:{}", self.data_dir()?.join("skep.db").display())),
        }
    }
}

/// `postgres://user:secret@host/name` with the secret taken out, wherever it stands.
fn without_password(url: &str) -> String {
    let (before_query, query) = url.split_once('?').unwrap_or((url, ""));
    let mut shown = before_query.to_owned();
    if let Some((scheme, rest)) = before_query.split_once("://")
        && let Some((user, host)) = rest.rsplit_once('@')
        && let Some((name, _)) = user.split_once(':')
    {
        shown = format!("{scheme}://{name}:…@{host}");
    }
    let kept: Vec<&str> = query.split('&').filter(|p| !p.starts_with("password=")).collect();
    match query.is_empty() {
        true => shown,
        false => format!("{shown}?{}", kept.join("&")),
    }
}

fn config_path(given: Option<&Path>) -> Option<PathBuf> {
    let named = given.map(Path::to_owned).or_else(|| env::var_os("SKEP_CONFIG").map(PathBuf::from));
    if named.is_some() {
        return named;
    }
    let here = PathBuf::from("skep.toml");
    let home = config_home().map(|home| home.join("skep/skep.toml"));
    [Some(here), home].into_iter().flatten().find(|path| path.is_file())
}

fn home() -> Option<PathBuf> {
    env::var_os("HOME").filter(|h| !h.is_empty()).map(PathBuf::from)
}

fn data_home() -> Option<PathBuf> {
    let set = env::var_os("XDG_DATA_HOME").filter(|v| !v.is_empty()).map(PathBuf::from);
    set.or_else(|| home().map(|h| h.join(".local/share")))
}

fn config_home() -> Option<PathBuf> {
    let set = env::var_os("XDG_CONFIG_HOME").filter(|v| !v.is_empty()).map(PathBuf::from);
    set.or_else(|| home().map(|h| h.join(".config")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        for (url, shown) in [
            ("sqlite:/data/skep.db", "sqlite:/data/skep.db"),
            ("postgres://skep@db/skep", "postgres://skep@db/skep"),
            ("postgres://skep:p@ss:w@db:5432/skep", "postgres://skep:…@db:5432/skep"),
            ("postgres://db/skep?user=a&password=b&x=1", "postgres://db/skep?user=a&x=1"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }

    #[test]
    fn a_flag_wins_over_a_file_and_a_file_over_the_default() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("skep.toml");
        fs::write(&file, "listen = \"127.0.0.1:1\"\npublic_names = [\"a\", \"b\"]\n").unwrap();
        let from_file = Settings::load(Some(&file), &[]).unwrap();
        assert_eq!(from_file.text("listen"), Some("127.0.0.1:1"));
        assert_eq!(from_file.list("public_names"), ["a", "b"]);
        let flag = [("listen", Some("127.0.0.1:2".to_owned()))];
        let settings = Settings::load(Some(&file), &flag).unwrap();
        assert_eq!(settings.text("listen"), Some("127.0.0.1:2"));
        assert_eq!(settings.shown()["listen"].origin, Origin::Flag);
        fs::write(&file, "llm_api_key = \"sk-secret\"").unwrap();
        let settings = Settings::load(Some(&file), &[]).unwrap();
        assert_eq!(settings.text("llm_api_key"), Some("sk-secret"));
        assert_eq!(settings.shown()["llm_api_key"].value, "…");
        fs::write(&file, "lisen = 1").unwrap();
        let wrong = Settings::load(Some(&file), &[]).unwrap_err().to_string();
        assert!(wrong.contains("lisen") && wrong.contains("listen"), "{wrong}");
    }
}
