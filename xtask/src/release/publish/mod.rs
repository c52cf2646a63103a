//! Crates go to a registry in the order in which they need each other, each tested from its packaged sources.

pub(super) mod order;
mod sources;
mod there;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::metadata::{Metadata, Package};
use crate::run::Run;
use crate::workspace::Workspace;
use crate::workspace::names::PROGRAM_PACKAGE;

/// Words of cargo for a version that a registry has.
const ALREADY_THERE: [&str; 2] = ["already exists on", "is already uploaded"];

#[derive(Default)]
struct Options<'a> {
    dry: bool,
    /// Name of the registry in cargo's configuration; nothing is crates.io.
    registry: Option<&'a str>,
    /// Crates that are tested; nothing is all of them.
    only: Vec<&'a str>,
}

impl<'a> Options<'a> {
    fn parse(args: &[&'a str]) -> Result<Self> {
        let mut options = Self::default();
        let mut args = args.iter();
        while let Some(name) = args.next() {
            match *name {
                "--dry-run" => options.dry = true,
                "--registry" => options.registry = Some(args.next().context("--registry wants a name")?),
                "--only" => options.only.push(args.next().context("--only wants a crate")?),
                other => bail!("publish: unknown argument `{other}`; see `cargo xtask help`"),
            }
        }
        if !options.dry && !options.only.is_empty() {
            bail!("--only is for a dry run: a version is published whole");
        }
        Ok(options)
    }
}

/// Crates of a version that a registry has taken.
#[derive(Default, Serialize, Deserialize)]
struct Journal {
    version: String,
    registry: String,
    /// Checksum of each package.
    published: BTreeMap<String, String>,
}

/// Publishes all crates, or says what would be published.
pub(crate) fn run(workspace: &Workspace, args: &[&str]) -> Result<()> {
    let options = Options::parse(args)?;
    let root = workspace.root();
    let metadata = Metadata::read(root, None)?;
    let crates = order::by_need(metadata.published().collect())?;
    let version = &crates.first().context("no crate of the workspace is published")?.version;
    if let Some(name) = options.only.iter().find(|name| crates.iter().all(|of| of.name != **name)) {
        bail!(
            "--only: there is no published crate {name}; name it as registries do, such as {PROGRAM_PACKAGE}"
        );
    }
    if !options.dry {
        refuse_untagged(root, version)?;
    }
    let mut journal = read_journal(root, version, options.registry.unwrap_or("crates-io"))?;
    let sources = sources::lay_out(root, &crates, options.registry, options.dry)?;
    let total = crates.len();
    for (index, of) in crates.iter().enumerate() {
        let place = format!("{} {} ({} of {total})", of.name, of.version, index + 1);
        let packed = sources::checksum(root, of)?;
        if let Some(published) = journal.published.get(&of.name) {
            // A dry run may pack files that are in no commit.
            if !options.dry {
                there::refuse_another(&place, published, &packed)?;
            }
            println!("==> {place}: was published before, skipped");
            continue;
        }
        if options.only.is_empty() || options.only.contains(&of.name.as_str()) {
            println!("==> {place}: tests from its packaged sources");
            sources::test(root, &sources, &of.name).with_context(|| {
                format!("{place}: its package is not what the checkout is; {index} of {total} are published")
            })?;
        }
        if options.dry {
            println!("==> {place}: would be published");
            continue;
        }
        publish(root, of, options.registry, &place, &packed)?;
        journal.published.insert(of.name.clone(), packed);
        write_journal(root, &journal)?;
    }
    if !options.dry {
        let path = journal_path(root);
        fs::remove_file(&path).with_context(|| format!("cannot delete {}", path.display()))?;
    }
    println!(
        "publish: {} crates of {version}{}",
        total,
        if options.dry { " would be published" } else { " are published" }
    );
    Ok(())
}

fn publish(root: &Path, of: &Package, registry: Option<&str>, place: &str, packed: &str) -> Result<()> {
    let mut args = vec!["publish", "--package", &of.name, "--locked", "--no-verify"];
    args.extend(registry.map(|_| "--registry"));
    args.extend(registry);
    match Run::cargo(&args, root).tried()? {
        Ok(()) => println!("==> {place}: published"),
        Err(said) if ALREADY_THERE.iter().any(|words| said.contains(words)) => {
            there::refuse_another(place, &there::checksum(root, of, registry)?, packed)?;
            println!("==> {place}: the registry has it, skipped");
        }
        Err(said) => bail!(
            "{place}: the registry did not take it. A crate is taken whole or not at all: \
             `cargo xtask publish` goes on here. cargo says:\n{}",
            said.trim()
        ),
    }
    Ok(())
}

/// Only a version that has its tag goes out, with nothing beside it.
fn refuse_untagged(root: &Path, version: &str) -> Result<()> {
    let git = |args: &[&str]| -> Result<String> {
        Ok(String::from_utf8(Run::new("git", args, root).output()?)?.trim().to_owned())
    };
    if let Some(first) = git(&["status", "--porcelain"])?.lines().next() {
        bail!("the tree is not clean ({first}): what is published is what was tagged");
    }
    let tag = format!("v{version}");
    if !git(&["tag", "--points-at", "HEAD"])?.lines().any(|name| name == tag) {
        bail!("this commit has no tag {tag}: `cargo xtask release {version}` first, or check out the tag");
    }
    Ok(())
}

fn journal_path(root: &Path) -> std::path::PathBuf {
    root.join("target/publish-journal.json")
}

/// Journal of this version and registry: another one is of no use.
fn read_journal(root: &Path, version: &str, registry: &str) -> Result<Journal> {
    let path = journal_path(root);
    let new =
        Journal { version: version.to_owned(), registry: registry.to_owned(), published: BTreeMap::new() };
    if !path.exists() {
        return Ok(new);
    }
    let journal: Journal = serde_json::from_str(&fs::read_to_string(&path)?).with_context(|| {
        format!("{} does not parse; the registry knows what it has, so delete it", path.display())
    })?;
    Ok(if journal.version == version && journal.registry == registry { journal } else { new })
}

fn write_journal(root: &Path, journal: &Journal) -> Result<()> {
    let path = journal_path(root);
    let half = path.with_extension("half");
    fs::create_dir_all(root.join("target"))?;
    fs::write(&half, serde_json::to_string_pretty(journal)? + "\n")?;
    fs::rename(&half, &path).with_context(|| format!("cannot write {}", path.display()))
}
