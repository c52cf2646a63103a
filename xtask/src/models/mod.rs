//! Table of models: generated from a catalogue of many vendors, with manual corrections, and checked in.

mod corrections;
mod source;
mod table;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;
pub(crate) use corrections::{FILE as CORRECTIONS, PROVIDERS_FILE};

/// Path of the checked-in table.
pub(crate) const TABLE: &str = "crates/zk-providers/src/catalogue/models/models.tsv";

/// Path of the catalogue, beside the checkout and not part of it.
pub(crate) const SOURCE: &str = "../shared/spec/models.tsv";

fn source(workspace: &Workspace, from: Option<&Path>) -> PathBuf {
    from.map_or_else(|| workspace.root().join(SOURCE), Path::to_path_buf)
}

/// Generates the table.
pub(crate) fn write(workspace: &Workspace, from: Option<&Path>) -> Result<()> {
    let is_named = from.is_some();
    let from = source(workspace, from);
    if !is_named && !from.is_file() {
        bail!(
            "there is no catalogue at {SOURCE}: it is no part of the checkout. Name one with `cargo xtask models --from FILE`, or \
             add each row to {TABLE} by hand, in the order of providers and ids, with the values of its `Change::Add` in \
             {CORRECTIONS}; `cargo xtask models --check` tells whether the table is sound"
        );
    }
    let text = fs::read_to_string(&from).with_context(|| format!("cannot read {}", from.display()))?;
    let made = table::write(&source::read(&text)?);
    let wrong = table::faults(&made);
    if !wrong.is_empty() {
        bail!("the catalogue needs corrections before it can be a table:\n{}", wrong.join("\n"));
    }
    let path = workspace.root().join(TABLE);
    fs::write(&path, &made)?;
    println!("wrote {} models to {}", made.lines().count() - 1, path.display());
    Ok(())
}

/// Fails if the table has faults, or differs from the catalogue, if that is there.
pub(crate) fn check(workspace: &Workspace, from: Option<&Path>) -> Result<()> {
    let wrong = faults(workspace, from)?;
    if !wrong.is_empty() {
        bail!("{TABLE}:\n{}", wrong.join("\n"));
    }
    println!("models: the table is sound");
    Ok(())
}

/// Faults of the table in `workspace`, if it has one.
pub(crate) fn faults(workspace: &Workspace, from: Option<&Path>) -> Result<Vec<String>> {
    let path = workspace.root().join(TABLE);
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(path)?;
    let mut wrong = table::faults(&text);
    let source = source(workspace, from);
    if source.is_file() {
        let made = table::write(&source::read(&fs::read_to_string(&source)?)?);
        let differs = made.lines().zip(text.lines()).position(|(made, is)| made != is);
        if let Some(at) = differs.or_else(|| (made != text).then_some(made.lines().count())) {
            wrong.push(format!("line {} is stale: run `cargo xtask models` and commit it", at + 1));
        }
    } else if from.is_some() {
        bail!("there is no {}", source.display());
    } else {
        println!("models: {SOURCE} is not there; only the shape of the table is checked");
    }
    Ok(wrong)
}
