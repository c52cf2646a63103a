use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// Work of a release in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Step {
    Bump,
    Changes,
    Docs,
    Order,
    Ci,
    Commit,
    Tag,
}

impl Step {
    pub(super) const ALL: [Self; 7] =
        [Self::Bump, Self::Changes, Self::Docs, Self::Order, Self::Ci, Self::Commit, Self::Tag];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Bump => "versions in the manifests",
            Self::Changes => "the list of changes",
            Self::Docs => "generated docs",
            Self::Order => "functions of usual runs, for the linker",
            Self::Ci => "everything the CI runs",
            Self::Commit => "the commit",
            Self::Tag => "the tag",
        }
    }
}

/// Progress of a release, kept outside of git so that a release that was broken off can go on or be undone.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Journal {
    pub(super) version: String,
    pub(super) from: String,
    /// Commit on which the release stands.
    pub(super) begun_at: String,
    /// Day in the list of changes.
    pub(super) day: String,
    pub(super) done: Vec<Step>,
    /// Tree that the last of these left: after the CI the one that it tested.
    pub(super) left: String,
}

impl Journal {
    pub(super) fn path(root: &Path) -> PathBuf {
        root.join("target/release-journal.json")
    }

    /// Journal of a release that has begun and has not ended.
    pub(super) fn read(root: &Path) -> Result<Option<Self>> {
        let path = Self::path(root);
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(&path)?;
        let journal = serde_json::from_str(&text);
        journal.map(Some).with_context(|| {
            format!("{} does not parse; if no release is on its way, delete it", path.display())
        })
    }

    /// Writes it whole: a release that is broken off leaves the journal before or after.
    pub(super) fn write(&self, root: &Path) -> Result<()> {
        let path = Self::path(root);
        let half = path.with_extension("half");
        fs::create_dir_all(root.join("target"))?;
        fs::write(&half, serde_json::to_string_pretty(self)? + "\n")?;
        fs::rename(&half, &path).with_context(|| format!("cannot write {}", path.display()))
    }

    pub(super) fn remove(root: &Path) -> Result<()> {
        let path = Self::path(root);
        fs::remove_file(&path).with_context(|| format!("cannot delete {}", path.display()))
    }
}
