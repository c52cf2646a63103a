use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::run::Run;

/// Packages and their dependencies, as `cargo metadata` tells them.
#[derive(Deserialize)]
pub(super) struct Metadata {
    pub(super) packages: Vec<Package>,
    workspace_members: BTreeSet<String>,
    #[serde(default)]
    resolve: Resolve,
}

#[derive(Deserialize)]
pub(super) struct Package {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) license: Option<String>,
    pub(super) description: Option<String>,
    #[serde(default)]
    pub(super) authors: Vec<String>,
    pub(super) repository: Option<String>,
    /// Absent for a package of the workspace.
    pub(super) source: Option<String>,
    pub(super) manifest_path: PathBuf,
    pub(super) publish: Option<Vec<String>>,
    pub(super) readme: Option<String>,
    #[serde(default)]
    pub(super) keywords: Vec<String>,
    #[serde(default)]
    pub(super) categories: Vec<String>,
    #[serde(default)]
    pub(super) metadata: serde_json::Value,
    pub(super) dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
pub(super) struct Dependency {
    pub(super) name: String,
    /// `dev`, `build`, or nothing.
    pub(super) kind: Option<String>,
    pub(super) path: Option<PathBuf>,
}

#[derive(Default, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

#[derive(Deserialize)]
struct EdgeKind {
    kind: Option<String>,
}

impl Package {
    pub(super) fn dir(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new("/"))
    }

    pub(super) fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }
}

impl Metadata {
    /// Everything that the lock file has, for the platforms of `target` alone where one is given.
    pub(super) fn read(root: &Path, target: Option<&str>) -> Result<Self> {
        let mut args = vec!["metadata", "--format-version=1", "--locked"];
        args.extend(target.map(|_| "--filter-platform"));
        args.extend(target);
        let printed = Run::cargo(&args, root).output()?;
        serde_json::from_slice(&printed).context("`cargo metadata` printed something unknown")
    }

    pub(super) fn is_member(&self, package: &Package) -> bool {
        self.workspace_members.contains(&package.id)
    }

    /// Members of the workspace that a registry gets.
    pub(super) fn published(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.is_member(package) && package.is_published())
    }

    pub(super) fn by_id(&self) -> BTreeMap<&str, &Package> {
        self.packages.iter().map(|package| (package.id.as_str(), package)).collect()
    }

    /// Ids that each package needs to be built: tests do not count.
    pub(super) fn edges(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let needed = |edge: &&Edge| edge.dep_kinds.iter().any(|kind| kind.kind.as_deref() != Some("dev"));
        let nodes = self.resolve.nodes.iter();
        nodes
            .map(|node| {
                let needs = node.deps.iter().filter(needed).map(|edge| edge.pkg.as_str());
                (node.id.as_str(), needs.collect())
            })
            .collect()
    }

    /// Packages that `name` is built of, itself included, sorted by name and version, with the features that it has
    /// when it is built alone.
    pub(super) fn tree(&self, root: &Path, name: &str, target: Option<&str>) -> Result<Vec<&Package>> {
        let target = target.unwrap_or("all");
        let args = ["tree", "--locked", "--package", name, "--target", target, "--edges", "normal,build"];
        let args: Vec<&str> = args.into_iter().chain(["--prefix", "none", "--format", "{p}"]).collect();
        let printed = String::from_utf8(Run::cargo(&args, root).output()?)?;
        let mut wanted = BTreeSet::new();
        for line in printed.lines() {
            let mut words = line.split_whitespace();
            if let (Some(name), Some(version)) = (words.next(), words.next()) {
                wanted.insert((name, version.trim_start_matches('v')));
            }
        }
        let is_wanted =
            |package: &&Package| wanted.contains(&(package.name.as_str(), package.version.as_str()));
        let mut packages: Vec<&Package> = self.packages.iter().filter(is_wanted).collect();
        packages.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
        Ok(packages)
    }
}
