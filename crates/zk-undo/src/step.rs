use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::from_slice;
use zk_core::service::StateFiles;

use crate::path_text::SavedPath;
use crate::workspace::snapshot::Identity;
use crate::{Change, UndoError};

/// Maximum size of a record of the journal, in bytes.
const MAX_STEP_BYTES: usize = 256 << 20;

/// Kind of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum StepKind {
    /// The calls of one turn.
    Turn,
    /// An undo of other steps.
    Undo {
        /// Numbers of the steps that were undone.
        steps: Vec<u64>,
    },
    /// An undo that was taken back.
    Redo {
        /// Number of the undo that was taken back.
        step: u64,
    },
    /// Files brought to another point of the conversation.
    Move {
        /// Numbers of the steps that were undone.
        undone: Vec<u64>,
        /// Numbers of the steps that were done again.
        redone: Vec<u64>,
    },
}

/// Changes of files by one turn, or by one undo.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Number of the step in its journal, from 1.
    pub number: u64,
    /// Kind of the step.
    pub kind: StepKind,
    /// Run whose call made the changes.
    pub run: String,
    /// Turn whose call made the changes.
    pub turn: String,
    /// Beginning of the prompt of that run.
    pub prompt: String,
    /// Time of the first change in milliseconds since 1970.
    pub at_ms: u64,
    /// Changes in their order. A path may have several.
    pub changes: Vec<Change>,
    /// Identities of the workspaces at the time of the step.
    pub(crate) workspaces: Vec<Identity>,
    /// Whether all changes are taken back.
    pub is_undone: bool,
    /// Paths whose changes are taken back, if an undo was refused at other paths; empty if all changes are taken back.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) undone: BTreeSet<SavedPath>,
    /// Whether zk ended while a call of the turn ran, so that changes of others may be among these.
    pub is_interrupted: bool,
    /// Whether the model was told of this undo.
    pub(crate) is_told: bool,
}

impl Step {
    /// Changes that are not taken back.
    pub(crate) fn done_changes(&self) -> impl DoubleEndedIterator<Item = &Change> {
        self.changes.iter().filter(|change| !self.is_undone && !self.is_undone_at(&change.path))
    }

    /// Changes that are taken back.
    pub(crate) fn undone_changes(&self) -> impl DoubleEndedIterator<Item = &Change> {
        self.changes.iter().filter(|change| self.is_undone || self.is_undone_at(&change.path))
    }

    /// Whether some changes are taken back and others are still in effect.
    pub(crate) fn is_partly_undone(&self) -> bool {
        !self.is_undone && !self.undone.is_empty()
    }

    fn is_undone_at(&self, path: &Path) -> bool {
        self.undone.contains(path)
    }

    /// Records that the changes are taken back, or in effect again, except at the paths that stayed as they were.
    pub(crate) fn set_undone(&mut self, is_undone: bool, stayed: &BTreeSet<SavedPath>) {
        let all: BTreeSet<SavedPath> =
            self.changes.iter().map(|change| SavedPath(change.path.clone())).collect();
        let mut undone = if self.is_undone { all.clone() } else { std::mem::take(&mut self.undone) };
        for path in all.difference(stayed) {
            if is_undone {
                undone.insert(path.clone());
            } else {
                undone.remove(path);
            }
        }
        self.is_undone = undone == all;
        self.undone = if self.is_undone { BTreeSet::new() } else { undone };
    }
}

/// Steps of a journal on disk, one file for each.
#[derive(Debug)]
pub(crate) struct Steps {
    dir: PathBuf,
    files: Arc<dyn StateFiles>,
}

impl Steps {
    pub(crate) fn new(dir: PathBuf, files: Arc<dyn StateFiles>) -> Self {
        Self { dir, files }
    }

    /// All steps, oldest first.
    pub(crate) fn all(&self) -> Result<Vec<Step>, UndoError> {
        self.numbers()?.into_iter().map(|number| self.read(number)).collect()
    }

    /// Number for the next step.
    pub(crate) fn next_number(&self) -> Result<u64, UndoError> {
        Ok(self.numbers()?.last().map_or(1, |last| last + 1))
    }

    pub(crate) fn write(&self, step: &Step) -> Result<(), UndoError> {
        let path = self.path(step.number);
        let bytes = serde_json::to_vec(step).map_err(|error| UndoError::damaged(&path, error.to_string()))?;
        Ok(self.files.replace(&path, &bytes)?)
    }

    pub(crate) fn update(&self, number: u64, change: impl FnOnce(&mut Step)) -> Result<(), UndoError> {
        let mut step = self.read(number)?;
        change(&mut step);
        self.write(&step)
    }

    fn read(&self, number: u64) -> Result<Step, UndoError> {
        read_record(&*self.files, &self.path(number))?
            .ok_or_else(|| UndoError::damaged(&self.path(number), "it is gone"))
    }

    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{number:08}.json"))
    }

    fn numbers(&self) -> Result<Vec<u64>, UndoError> {
        let entries = match std::fs::read_dir(&self.dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(UndoError::io("read", &self.dir))?,
        };
        let number =
            |entry: std::fs::DirEntry| entry.file_name().to_str()?.strip_suffix(".json")?.parse().ok();
        let mut numbers: Vec<u64> = entries.flatten().filter_map(number).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }
}

/// Version of the records that this program reads. A record without a version has the first one.
const RECORD_VERSION: u32 = 1;

/// Kinds of steps that this program reads.
const STEP_KINDS: [&str; 4] = ["turn", "undo", "redo", "move"];

/// Parts of a record that say whether a newer program wrote it.
#[derive(Deserialize)]
struct RecordHead {
    #[serde(default)]
    version: Option<u32>,
    #[serde(default)]
    kind: Option<KindHead>,
}

#[derive(Deserialize)]
struct KindHead {
    is: String,
}

impl RecordHead {
    fn is_newer(&self) -> bool {
        self.version.is_some_and(|version| version > RECORD_VERSION)
            || self.kind.as_ref().is_some_and(|kind| !STEP_KINDS.contains(&kind.is.as_str()))
    }
}

/// Reads a record of the journal; `None` if there is none.
pub(crate) fn read_record<T: serde::de::DeserializeOwned>(
    files: &dyn StateFiles,
    path: &Path,
) -> Result<Option<T>, UndoError> {
    let Some(bytes) = files.read(path, MAX_STEP_BYTES)? else { return Ok(None) };
    if from_slice::<RecordHead>(&bytes).is_ok_and(|head| head.is_newer()) {
        return Err(UndoError::Newer { path: path.to_owned() });
    }
    from_slice(&bytes).map(Some).map_err(|error| UndoError::damaged(path, error.to_string()))
}
