use std::path::PathBuf;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::notify;
use crate::kernel::{Event, Gather};

/// Query for further skill directories. All answers are gathered, each with its source.
///
/// Tools, commands and prompt sections need no such query: a plugin registers them as items.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ResourcesDiscover {
    /// Working directory of the conversation.
    pub cwd: PathBuf,
}

/// The directory that tools and commands work in changed. Turns that already run keep theirs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct CwdChanged {
    /// Directory before the change.
    pub from: PathBuf,
    /// Directory from the next turn on.
    pub to: PathBuf,
}
notify!(CwdChanged, "cwd:changed", CANCELLABLE = false);

/// A file was created, changed or removed, by anybody. Emitted by a plugin that watches files, once a file has
/// been quiet for a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct FileChanged {
    /// Absolute path of the file.
    pub path: PathBuf,
    /// Kind of the change.
    pub change: FileChange,
}
notify!(FileChanged, "file:changed", CANCELLABLE = false);

/// Kind of a change of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FileChange {
    /// The file is there, with new content or for the first time.
    Written,
    /// The file is gone.
    Removed,
}

/// Answer to [`ResourcesDiscover`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default)]
pub struct Resources {
    /// Absolute paths of directories with skills. They rank behind the directories that settings name.
    pub skills: Vec<PathBuf>,
}

impl Event for ResourcesDiscover {
    const NAME: &'static str = "resources:discover";
    type Reply = Resources;
    type Mode = Gather;
}
