//! Files of a release, told from those of somebody else by the trees that its steps left.

use anyhow::{Result, bail};

use super::git::Git;
use super::journal::{Journal, Step};
use super::{bump, changes};
use crate::docs;
use crate::release::order;

/// Whether a step changes the file, whether it ends or is killed.
fn is_written(git: &Git<'_>, journal: &Journal, step: Option<Step>, path: &str) -> Result<bool> {
    Ok(match step {
        Some(Step::Bump) => {
            let files = bump::files(git, &journal.begun_at, &journal.from, &journal.version)?;
            path == "Cargo.lock" || files.iter().any(|(written, _)| written == path)
        }
        Some(Step::Changes) => {
            path == changes::CHANGELOG
                || changes::files(git, &journal.begun_at)?.iter().any(|gathered| gathered == path)
        }
        Some(Step::Docs) => docs::is_generated(path),
        Some(Step::Order) => path == order::FILE,
        Some(Step::Ci | Step::Commit | Step::Tag) | None => false,
    })
}

/// First of the files that the step does not write.
fn first_foreign<'a>(
    git: &Git<'_>,
    journal: &Journal,
    step: Option<Step>,
    paths: &'a [String],
) -> Result<Option<&'a String>> {
    for path in paths {
        if !is_written(git, journal, step, path)? {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Step that may have been killed.
fn next(journal: &Journal) -> Option<Step> {
    Step::ALL.into_iter().find(|step| !journal.done.contains(step))
}

/// Refuses to go on where somebody else changed a file since the last step ended.
pub(super) fn refuse_foreign(git: &Git<'_>, journal: &Journal) -> Result<()> {
    let changed = git.differing(&journal.left, &git.tree()?)?;
    match first_foreign(git, journal, next(journal), &changed)? {
        Some(path) => bail!(
            "{path} changed and is not of the release{}: put the change elsewhere. \
             If the release had written the file, then undo it and begin again",
            if journal.done.contains(&Step::Ci) { ", nor was it tested" } else { "" }
        ),
        None => Ok(()),
    }
}

/// Tree that a step left, if nobody else changed a file meanwhile.
pub(super) fn left_by(git: &Git<'_>, journal: &Journal, step: Step) -> Result<String> {
    if step >= Step::Commit {
        return Ok(journal.left.clone());
    }
    let left = git.tree()?;
    let changed = git.differing(&journal.left, &left)?;
    match first_foreign(git, journal, Some(step), &changed)? {
        Some(path) => bail!("{path} changed meanwhile, which this step does not write: put it elsewhere"),
        None => Ok(left),
    }
}

/// Refuses a tree that is not the one that the CI tested.
pub(super) fn refuse_untested(git: &Git<'_>, journal: &Journal, tree: &str) -> Result<()> {
    match git.differing(&journal.left, tree)?.first() {
        Some(path) => bail!("{path} is not as the CI tested it: undo the release and begin again"),
        None => Ok(()),
    }
}

/// Refuses to undo where a file of somebody else would be lost. Tells whether a killed step left files that no journal
/// proves to be of the release.
pub(super) fn refuse_lost(git: &Git<'_>, journal: &Journal) -> Result<bool> {
    let now = git.tree()?;
    let mut changed = git.differing(&journal.left, &now)?;
    let lost = git.differing(&journal.begun_at, &now)?;
    // An undo that was killed has taken these back already.
    changed.retain(|path| lost.contains(path));
    match first_foreign(git, journal, next(journal), &changed)? {
        Some(path) => bail!(
            "{path} changed and is not of the release, so it would be lost: \
             `git stash push --include-untracked -- {path}` keeps it"
        ),
        None => Ok(!changed.is_empty()),
    }
}
