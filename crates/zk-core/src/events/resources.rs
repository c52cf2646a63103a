use std::path::PathBuf;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
