//! Generated part of `docs/reference`, and READMEs of the crates.

mod clients;
mod emitted;
mod events;
mod messages;
mod models;
mod readmes;
mod schema;
mod schemas;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use emitted::Emitters;

use crate::run::{Run, programs};
use crate::workspace::Workspace;

/// Writes all pages.
pub(crate) fn write(workspace: &Workspace) -> Result<()> {
    for (path, text) in pages(workspace)? {
        let path = workspace.root().join(path);
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        fs::write(&path, text)?;
        println!("wrote {}", path.display());
    }
    Ok(())
}

/// Pages in folders that people write in, too.
const SINGLE_PAGES: [&str; 4] = [
    "docs/cli.md",
    "docs/settings.md",
    "clients/typescript/src/types.ts",
    "clients/python/src/zk_rpc/types.py",
];

/// Whether a file of this path is written here and by nobody else.
pub(crate) fn is_generated(path: &str) -> bool {
    let is_readme = path.starts_with("crates/") && path.ends_with("/README.md");
    is_readme || path.starts_with("docs/reference/") || SINGLE_PAGES.contains(&path)
}

/// Fails if a page is outdated.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let pages = pages(workspace)?;
    for (path, text) in &pages {
        if fs::read_to_string(workspace.root().join(path)).unwrap_or_default() != *text {
            bail!("{path} is stale: run `cargo xtask docs` and commit it");
        }
    }
    println!("docs: {} generated pages are up to date", pages.len());
    Ok(())
}

fn pages(workspace: &Workspace) -> Result<Vec<(String, String)>> {
    let programs = programs(workspace.root())?;
    let dump = output(workspace, &programs.join("examples/dump_events"), &[])?;
    let catalogue = serde_json::from_slice(&dump).context("the event catalogue is no JSON")?;
    let texts = workspace.texts()?;
    let events = events::page(&catalogue, &Emitters::new(&texts))?;
    let mut pages = schemas::pages(workspace, &programs)?;
    let mut references = messages::pages(&pages)?;
    references.extend([schemas::list(&pages)?, models::page(&texts)?]);
    pages.extend(clients::pages(&pages)?);
    pages.extend(references);
    pages.extend(readmes::pages(&workspace.packages()?, &texts)?);
    pages.push(("docs/reference/events.md".to_owned(), events));
    let references = output(workspace, &programs.join("examples/dump_reference"), &[])?;
    let references: BTreeMap<String, String> =
        serde_json::from_slice(&references).context("the references are no JSON")?;
    pages.extend(references);
    if let Some((path, _)) = pages.iter().find(|(path, _)| !is_generated(path)) {
        bail!("{path} is generated, and `is_generated` of xtask does not know it: a release would refuse it");
    }
    Ok(pages)
}

fn output(workspace: &Workspace, program: &Path, args: &[&str]) -> Result<Vec<u8>> {
    Run::new(&program.to_string_lossy(), args, workspace.root()).output()
}
