//! Site of the documentation: the pages of `docs/`, the README and the decisions, built with mdBook.

mod check;
mod compose;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

use crate::run::Run;
use crate::workspace::{Text, Workspace};

/// Page that lists all others, by reader.
pub(crate) const SUMMARY: &str = "docs/SUMMARY.md";
/// mdBook that builds the site.
const MDBOOK: &str = "0.5.4";
/// Folders below `target/`: the composed book, the built site, and the tool.
const BOOK: &str = "target/site/book";
const SITE: &str = "target/site/html";
const TOOLS: &str = "target/tools";

/// Builds the site and checks its links. Installs mdBook where it is absent and `installs` says so.
///
/// # Errors
/// When a page, a link or mdBook is missing.
pub(crate) fn run(workspace: &Workspace, installs: bool) -> Result<()> {
    let mdbook = mdbook(workspace, installs)?;
    let (book, site) = (workspace.root().join(BOOK), workspace.root().join(SITE));
    for dir in [&book, &site] {
        if dir.exists() {
            fs::remove_dir_all(dir)?;
        }
    }
    let texts = workspace.texts()?;
    let files = compose::files(workspace, &texts)?;
    for (path, bytes) in &files {
        let path = book.join(path);
        fs::create_dir_all(path.parent().context("a page is in a folder")?)?;
        fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let site_arg = site.to_string_lossy();
    Run::new(&mdbook.to_string_lossy(), &["build", "--dest-dir", &site_arg], &book).wait()?;
    let found = check::site(&site)?;
    for fault in &found.faults {
        println!("error: {fault}");
    }
    ensure!(found.faults.is_empty(), "site: {} broken links", found.faults.len());
    println!("site: {} pages, {} links, none broken: {}", found.pages, found.links, site.display());
    Ok(())
}

/// Reason why the site cannot be built here without an installation.
pub(crate) fn missing(workspace: &Workspace) -> Option<String> {
    mdbook(workspace, false).err().map(|error| format!("{error:#}"))
}

/// The mdBook of the right version: the installed one, or one in `target/tools`.
fn mdbook(workspace: &Workspace, installs: bool) -> Result<PathBuf> {
    let tools = workspace.root().join(TOOLS);
    let own = tools.join("bin/mdbook");
    for program in [PathBuf::from("mdbook"), own.clone()] {
        let printed = Run::new(&program.to_string_lossy(), &["--version"], workspace.root()).output();
        if printed.is_ok_and(|text| String::from_utf8_lossy(&text).trim().ends_with(MDBOOK)) {
            return Ok(program);
        }
    }
    if !installs {
        bail!("mdBook {MDBOOK} is not installed; `cargo xtask site` installs it into {TOOLS}");
    }
    let into = tools.to_string_lossy();
    let features = ["--no-default-features", "--features", "search"];
    let args = ["install", "--locked", "mdbook", "--version", MDBOOK, "--root", &into];
    let args: Vec<&str> = args.into_iter().chain(features).collect();
    // The tool is no part of the workspace, whose toolchain and target folder it would take.
    let target = workspace.root().join(TOOLS).join("build");
    Run::cargo(&args, workspace.root()).env("CARGO_TARGET_DIR", &target.to_string_lossy()).wait()?;
    fs::remove_dir_all(&target)?;
    Ok(own)
}

/// Pages of `docs/` that no reader is led to.
pub(crate) fn unlisted(texts: &[Text]) -> Vec<String> {
    let Some(summary) = texts.iter().find(|text| text.path == SUMMARY) else { return Vec::new() };
    let listed = compose::listed(&summary.text);
    let is_page = |path: &str| {
        path.starts_with("docs/")
            && path.ends_with(".md")
            && path != SUMMARY
            && !path.starts_with(compose::DECISIONS)
    };
    texts
        .iter()
        .filter(|text| is_page(&text.path) && !listed.contains(&text.path))
        .map(|text| text.path.clone())
        .collect()
}
