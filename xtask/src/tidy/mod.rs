//! Rules of the project that no compiler or lint checks.

mod arrows;
mod constants;
pub(crate) mod links;
mod manifests;
mod modules;
mod names;
pub(crate) mod openings;
mod places;
mod repeats;
mod shape;
mod size;
mod snippets;
#[cfg(test)]
mod tests;
mod vendors;
mod words;

use anyhow::{Result, bail};

use crate::models;
use crate::site;
use crate::workspace::Workspace;

/// Findings of the checks, in order.
#[derive(Default)]
pub(super) struct Findings {
    errors: Vec<String>,
}

impl Findings {
    pub(super) fn error(&mut self, place: impl std::fmt::Display, message: impl std::fmt::Display) {
        self.errors.push(format!("{place}: {message}"));
    }
}

/// Checks all rules.
///
/// # Errors
/// When a rule is broken; all findings were printed then.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let findings = check(workspace)?;
    for error in &findings.errors {
        println!("error: {error}");
    }
    if !findings.errors.is_empty() {
        bail!("tidy: {} errors", findings.errors.len());
    }
    println!("tidy: ok");
    Ok(())
}

fn check(workspace: &Workspace) -> Result<Findings> {
    let mut findings = Findings::default();
    let packages = workspace.packages()?;
    let texts = workspace.texts()?;
    arrows::check(&packages, &mut findings);
    manifests::check(workspace, &packages, &texts, &mut findings)?;
    let examples = workspace.example_packages()?;
    names::check(&packages, &examples, &texts, &mut findings);
    modules::check(&packages, &texts, &mut findings);
    modules::check(&examples, &texts, &mut findings);
    let vendors = vendors::names(&texts);
    for fault in models::faults(workspace, None)? {
        findings.error("the table of models", fault);
    }
    repeats::check(&texts, &mut findings);
    shape::check(&packages, &texts, &mut findings)?;
    places::check(&texts, &mut findings);
    for page in site::unlisted(&texts) {
        findings.error(&page, format_args!("no reader is led to it: list it in {}", site::SUMMARY));
    }
    snippets::check_all(&texts, &mut findings);
    for text in &texts {
        size::check(text, &mut findings);
        words::check(text, &mut findings);
        openings::check(text, &mut findings);
        constants::check(text, &mut findings);
        vendors::check(text, &vendors, &mut findings);
        links::check(workspace, text, &texts, &mut findings);
        snippets::check(text, &texts, &mut findings);
    }
    Ok(findings)
}
