//! Which crate may use which. The table is the architecture; `cargo metadata` is what is built.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, MetadataCommand};

use crate::steps::cargo_program;

/// Each crate of the workspace and those of the workspace that it may use.
const MAY_USE: &[(&str, &[&str])] = &[
    ("skep-base", &[]),
    ("skep-wire", &["skep-base"]),
    ("skep-settle", &["skep-base", "skep-wire"]),
    ("skep-hire", &["skep-base", "skep-wire"]),
    ("skep-score", &["skep-base", "skep-wire"]),
    ("skep-swarm", &["skep-base", "skep-wire"]),
    ("skep-sim", &["skep-base", "skep-swarm", "skep-wire"]),
    ("skep-store", &["skep-base", "skep-wire"]),
    (
        "skep-market",
        &["skep-base", "skep-hire", "skep-score", "skep-wire", "skep-settle", "skep-store"],
    ),
    (
        "skep-api",
        &[
            "skep-base",
            "skep-hire",
            "skep-market",
            "skep-score",
            "skep-settle",
            "skep-store",
            "skep-wire",
        ],
    ),
    ("skep-probe", &["skep-base", "skep-hire", "skep-settle", "skep-wire"]),
    ("skep-sdk", &["skep-base", "skep-wire"]),
    (
        "skep-agent",
        &["skep-base", "skep-hire", "skep-wire", "skep-probe", "skep-sdk", "skep-settle"],
    ),
    ("skep-testkit", &["skep-base", "skep-wire", "skep-sdk", "skep-store"]),
    (
        "skep",
        &[
            "skep-agent",
            "skep-api",
            "skep-base",
            "skep-hire",
            "skep-market",
            "skep-probe",
            "skep-score",
            "skep-sdk",
            "skep-settle",
            "skep-sim",
            "skep-store",
            "skep-swarm",
            "skep-testkit",
            "skep-wire",
        ],
    ),
    ("xtask", &[]),
];

/// Crates from outside that wrap one kind of outside world, and the only ones that may name them.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("rusqlite", &["skep-store"]),
    ("tokio-postgres", &["skep-store"]),
    ("deadpool-postgres", &["skep-store"]),
    // A seller has a door of its own, beside the node's.
    ("axum", &["skep-agent", "skep-api"]),
    ("hyper", &["skep-agent", "skep-api"]),
    ("hyper-util", &["skep-agent", "skep-api"]),
    // Addresses that strangers name are fetched by skep-probe; the others know whom they talk to: a
    // seller forwards work to an address of its operator's own.
    ("reqwest", &["skep-agent", "skep-api", "skep-probe", "skep-sdk"]),
];

/// What a crate must not reach, not even through others: the words have no I/O.
const NEVER_REACHES: &[(&str, &[&str])] = &[
    ("skep-base", &["tokio", "mio"]),
    ("skep-wire", &["tokio", "mio"]),
    ("skep-settle", &["tokio", "mio"]),
    ("skep-hire", &["tokio", "mio"]),
    ("skep-score", &["tokio", "mio"]),
    ("skep-swarm", &["tokio", "mio"]),
    ("skep-sim", &["tokio", "mio"]),
];

/// What is built: for every crate the crates it uses, those of its tests left out.
struct Graph {
    members: BTreeSet<String>,
    uses: BTreeMap<String, BTreeSet<String>>,
}

/// Prints every arrow that goes the wrong way; whether there is none.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let findings = Graph::load(root)?.findings();
    for finding in &findings {
        eprintln!("{finding}");
    }
    Ok(findings.is_empty())
}

impl Graph {
    fn load(root: &Path) -> Result<Self> {
        let metadata = MetadataCommand::new()
            .cargo_path(cargo_program())
            .current_dir(root)
            // Without this, crates for other systems would be downloaded to be looked at.
            .other_options(["--filter-platform".to_owned(), host()?])
            .exec()
            .context("cargo metadata")?;
        let name = |id| metadata[id].name.to_string();
        let resolve = metadata.resolve.as_ref().context("cargo metadata resolved nothing")?;
        let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for node in &resolve.nodes {
            let built = node.deps.iter().filter(|dep| {
                dep.dep_kinds.iter().any(|kind| kind.kind != DependencyKind::Development)
            });
            // Two versions of one crate count as one.
            uses.entry(name(&node.id)).or_default().extend(built.map(|dep| name(&dep.pkg)));
        }
        Ok(Self { members: metadata.workspace_members.iter().map(name).collect(), uses })
    }

    fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        for member in &self.members {
            let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| name == member) else {
                findings.push(format!("{member} has no row in the table of arrows"));
                continue;
            };
            for used in self.used_by(member) {
                if self.members.contains(used) && !allowed.contains(&used) {
                    findings.push(format!("{member} must not use {used}"));
                }
                let only = ONLY_IN.iter().find(|(name, _)| *name == used);
                if let Some((_, only)) = only
                    && !only.contains(&member.as_str())
                {
                    findings.push(format!("{member} must not use {used}: only {only:?} may"));
                }
            }
        }
        for (name, never) in NEVER_REACHES {
            let reached = self.reached_from(name);
            for never in never.iter().filter(|never| reached.contains(*never)) {
                findings.push(format!("{name} must not reach {never}, not even through others"));
            }
        }
        findings
    }

    fn used_by(&self, name: &str) -> impl Iterator<Item = &str> {
        self.uses.get(name).into_iter().flatten().map(String::as_str)
    }

    fn reached_from<'a>(&'a self, name: &'a str) -> BTreeSet<&'a str> {
        let mut reached = BTreeSet::new();
        let mut next = vec![name];
        while let Some(name) = next.pop() {
            next.extend(self.used_by(name).filter(|used| reached.insert(*used)));
        }
        reached
    }
}

/// The name of the system that we build for, as rustc calls it.
fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("rustc did not start")?;
    let text = String::from_utf8(output.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not name its host")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(arrows: &[(&str, &[&str])]) -> Graph {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Graph {
            members: arrows
                .iter()
                .map(|(name, _)| (*name).to_owned())
                .filter(|name| name.starts_with("skep") || name == "xtask")
                .collect(),
            uses: arrows.iter().map(|(name, uses)| ((*name).to_owned(), owned(uses))).collect(),
        }
    }

    #[test]
    fn the_workspace_keeps_its_directions() {
        let root = crate::root().unwrap();
        assert_eq!(Graph::load(&root).unwrap().findings(), Vec::<String>::new());
    }

    #[test]
    fn every_planted_arrow_is_found() {
        let good = graph(&[
            ("skep-base", &["serde"]),
            ("skep-store", &["skep-base", "rusqlite"]),
            ("skep-api", &["skep-store", "axum"]),
        ]);
        assert_eq!(good.findings(), Vec::<String>::new());

        let backwards = graph(&[("skep-base", &["skep-store"]), ("skep-store", &[])]);
        assert_eq!(backwards.findings(), ["skep-base must not use skep-store"]);

        let sql_outside = graph(&[("skep-market", &["rusqlite"])]);
        assert!(sql_outside.findings()[0].starts_with("skep-market must not use rusqlite: only"));

        let server_outside = graph(&[("skep-market", &["axum"])]);
        assert_eq!(server_outside.findings().len(), 1);

        let through_another = graph(&[("skep-base", &["sly"]), ("sly", &["tokio"])]);
        assert_eq!(
            through_another.findings(),
            ["skep-base must not reach tokio, not even through others"]
        );

        let unknown = graph(&[("skep-new", &[])]);
        assert_eq!(unknown.findings(), ["skep-new has no row in the table of arrows"]);
    }
}
