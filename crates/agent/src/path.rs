//! Where a keyring is kept.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no home folder to keep a keyring in: give --keys PATH or set SKEP_KEYS")]
pub struct NoHome;

/// The path that was asked for, else `$SKEP_KEYS`, else `skep/keys.json` in the user's folder for
/// configuration.
pub fn keys_path(asked: Option<&Path>) -> Result<PathBuf, NoHome> {
    find(asked, &|name| std::env::var_os(name))
}

fn find(asked: Option<&Path>, env: &dyn Fn(&str) -> Option<OsString>) -> Result<PathBuf, NoHome> {
    let set = |name| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = asked.map(PathBuf::from).or_else(|| set("SKEP_KEYS")) {
        return Ok(path);
    }
    // The XDG rules say that a relative path there is to be ignored.
    let config = set("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    config
        .or_else(|| set("HOME").map(|home| home.join(".config")))
        .map(|config| config.join("skep").join("keys.json"))
        .ok_or(NoHome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_wins() {
        let all = ["SKEP_KEYS=k.json", "XDG_CONFIG_HOME=/xdg", "HOME=/me"];
        let with = |asked: Option<&str>, settings: &[&str]| {
            let env = |name: &str| {
                let mut pairs = settings.iter().filter_map(|setting| setting.split_once('='));
                pairs.find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
            };
            find(asked.map(Path::new), &env).map(|path| path.display().to_string())
        };
        assert_eq!(with(Some("asked"), &all), Ok("asked".to_owned()));
        assert_eq!(with(None, &all), Ok("k.json".to_owned()));
        assert_eq!(with(None, &all[1..]), Ok("/xdg/skep/keys.json".to_owned()));
        assert_eq!(with(None, &all[2..]), Ok("/me/.config/skep/keys.json".to_owned()));
        let relative = ["SKEP_KEYS=", "XDG_CONFIG_HOME=xdg", "HOME=/me"];
        assert_eq!(with(None, &relative), Ok("/me/.config/skep/keys.json".to_owned()));
        assert_eq!(with(None, &[]), Err(NoHome));
    }
}
