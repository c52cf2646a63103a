use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

/// Undo: what is kept of the workspace before a turn changes it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("x-by-projects" = false))]
pub struct UndoSettings {
    /// Whether files are kept, so that `/undo` brings them back.
    pub enabled: bool,
    /// Largest file that is kept, in bytes.
    pub max_file_bytes: u64,
    /// Most files that are kept at one time, without those that git has.
    pub max_files: u64,
    /// Most bytes that the journal of a session holds.
    pub max_journal_bytes: u64,
    /// Longest time in which a workspace is looked through before a command, in seconds.
    #[schemars(range(min = 1, max = 25))]
    pub max_seconds: u64,
}

impl Default for UndoSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            max_file_bytes: 32 << 20,
            max_files: 20_000,
            max_journal_bytes: 2 << 30,
            max_seconds: 10,
        }
    }
}

impl UndoSettings {
    pub(crate) fn scan_limit(&self) -> Duration {
        Duration::from_secs(self.max_seconds.clamp(1, 25))
    }
}
