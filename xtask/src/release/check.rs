//! Checks of a release that need no release: they run with every change.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::metadata::{Metadata, Package};
use super::publish::order;
use crate::run::{Run, exists, programs};
use crate::workspace::Workspace;

/// Keywords that a registry takes of one crate, and the characters of one.
const MAX_KEYWORDS: usize = 5;
const MAX_KEYWORD_CHARS: usize = 20;
/// Categories of crates.io that a crate of zk may be in.
const CATEGORIES: [&str; 12] = [
    "api-bindings",
    "asynchronous",
    "authentication",
    "command-line-interface",
    "command-line-utilities",
    "config",
    "database",
    "development-tools",
    "development-tools::testing",
    "network-programming",
    "parser-implementations",
    "text-processing",
];
/// Shells with a script that loads the completions and a word that must be among the answers.
const SHELLS: [(&str, &[&str], &str); 3] = [
    ("bash", &["-c", "source <(\"$ZK\" completions bash) && complete -p zk"], "zk"),
    (
        "zsh",
        &[
            "-fc",
            "autoload -U compinit && compinit -D -u && source <(\"$ZK\" completions zsh) && print $_comps[zk]",
        ],
        "zk",
    ),
    ("fish", &["-c", "\"$ZK\" completions fish | source; complete -C 'zk sess'"], "sessions"),
];

/// Runs the light checks, with a program that is there or with one that is built for them.
pub(crate) fn run(workspace: &Workspace, program: Option<&Path>) -> Result<()> {
    let root = workspace.root();
    let metadata = Metadata::read(root, None)?;
    let crates: Vec<&Package> = metadata.published().collect();
    let faults: Vec<String> = crates.iter().flat_map(|package| faults(package)).collect();
    for fault in &faults {
        println!("error: {fault}");
    }
    if !faults.is_empty() {
        bail!("release: {} faults in the manifests of crates", faults.len());
    }
    let ordered = order::by_need(crates)?;
    println!("{} crates have what a registry shows, and an order to publish them in", ordered.len());
    let zk = match program {
        Some(program) => root.join(program),
        None => programs(root)?.join("zk"),
    };
    super::platforms::check_glibc(&zk)?;
    pages(root, &zk)?;
    completions(root, &zk)
}

/// Checks every crate from its packaged sources, tests included: a build of its own for each.
pub(crate) fn run_long(workspace: &Workspace) -> Result<()> {
    super::publish::run(workspace, &["--dry-run"])
}

/// Fields of a manifest that a registry or the documentation's host asks for.
fn faults(package: &Package) -> Vec<String> {
    let mut faults = Vec::new();
    let mut fault = |what: String| faults.push(format!("{}: {what}", package.manifest_path.display()));
    for (name, is_there) in [
        ("description", package.description.is_some()),
        ("license", package.license.is_some()),
        ("repository", package.repository.is_some()),
        ("README.md", package.readme.is_some()),
        ("keywords", !package.keywords.is_empty()),
        ("categories", !package.categories.is_empty()),
        ("metadata.docs.rs", docs_rs(package)),
    ] {
        if !is_there {
            fault(format!("no {name}"));
        }
    }
    if package.keywords.len() > MAX_KEYWORDS {
        fault(format!("{} keywords, {MAX_KEYWORDS} are taken", package.keywords.len()));
    }
    for word in &package.keywords {
        let is_plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "-_+".contains(c));
        if !is_plain || word.chars().count() > MAX_KEYWORD_CHARS {
            fault(format!("keyword `{word}`: at most {MAX_KEYWORD_CHARS} letters, digits and hyphens"));
        }
    }
    for category in package.categories.iter().filter(|category| !CATEGORIES.contains(&category.as_str())) {
        fault(format!("category `{category}` is none of {}", CATEGORIES.join(", ")));
    }
    faults
}

fn docs_rs(package: &Package) -> bool {
    package.metadata.get("docs").is_some_and(|docs| docs.get("rs").is_some())
}

/// Manual pages as their readers see them.
fn pages(root: &Path, zk: &Path) -> Result<()> {
    if !mandoc_is_there() {
        println!("manual pages: skipped, mandoc is not installed");
        return Ok(());
    }
    let dir = root.join("target/release-pages");
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    Run::new(&zk.to_string_lossy(), &["debug", "man", &dir.to_string_lossy()], root).wait()?;
    let mut paths = Vec::new();
    for entry in fs::read_dir(&dir)? {
        paths.push(entry?.path().to_string_lossy().into_owned());
    }
    paths.sort();
    let args: Vec<&str> =
        ["-T", "lint", "-W", "warning"].into_iter().chain(paths.iter().map(String::as_str)).collect();
    Run::new("mandoc", &args, root).wait().context("manual pages that readers warn of")?;
    println!("{} manual pages have no warning", paths.len());
    Ok(())
}

/// `mandoc` has no `--version`.
fn mandoc_is_there() -> bool {
    Path::new("/usr/bin/mandoc").exists()
}

/// Completions as real shells load them.
fn completions(root: &Path, zk: &Path) -> Result<()> {
    let folder = zk.parent().context("zk is in no folder")?;
    for (shell, args, word) in SHELLS {
        if !exists(shell) {
            println!("completions of {shell}: skipped, it is not installed");
            continue;
        }
        // The scripts ask the `zk` of the path, which need not be there while they are loaded.
        let home = tempdir(root, shell)?;
        let answered = Run::new(shell, args, root)
            .env("ZK", &zk.to_string_lossy())
            .env("PATH", &format!("{}:/usr/bin:/bin", folder.display()))
            .env("HOME", &home.to_string_lossy())
            .output()
            .with_context(|| format!("{shell} does not load the completions"))?;
        let answered = String::from_utf8_lossy(&answered).into_owned();
        if !answered.contains(word) {
            bail!("{shell} loads the completions and completes nothing: {}", answered.trim());
        }
        println!("completions of {shell} work");
    }
    Ok(())
}

/// Empty home, so that no configuration of a person counts.
fn tempdir(root: &Path, shell: &str) -> Result<std::path::PathBuf> {
    let dir = root.join("target/release-home").join(shell);
    fs::create_dir_all(&dir)?;
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifest_without_what_a_registry_shows_is_told_field_by_field() {
        let read = |more: serde_json::Value| -> Package {
            let mut fields = serde_json::json!({
                "id": "a", "name": "a", "version": "0.1.0", "manifest_path": "a/Cargo.toml", "dependencies": [],
            });
            fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            serde_json::from_value(fields).unwrap()
        };
        assert_eq!(faults(&read(serde_json::json!({}))).len(), 7);
        let whole = serde_json::json!({
            "description": "A", "license": "MIT", "repository": "https://a.invalid", "readme": "README.md",
            "keywords": ["agent"], "categories": ["config"], "metadata": { "docs": { "rs": {} } },
        });
        assert_eq!(faults(&read(whole.clone())), Vec::<String>::new());
        let mut wrong = read(whole);
        wrong.keywords = ["a b", "c", "d", "e", "f", "g"].map(str::to_owned).to_vec();
        wrong.categories = vec!["agents".to_owned()];
        assert_eq!(faults(&wrong).len(), 3);
    }
}
