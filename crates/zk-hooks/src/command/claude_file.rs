use std::path::Path;

use serde_json::Value;
use zk_core::service::{HostFileError, HostFiles, HostRead};

use super::config::{HookSet, HookSource};

/// Largest settings file of Claude Code, in bytes.
const MAX_BYTES: usize = 1 << 20;

impl HookSet {
    /// Reads the hooks of a Claude Code settings file, and the JSON bytes whose trust has to be checked;
    /// `None` if the file has no hooks.
    ///
    /// # Errors
    /// A text, if the hooks cannot be read: they cannot be trusted then, and are not used.
    pub fn read_claude(files: &dyn HostFiles, path: &Path) -> Result<Option<(Self, Vec<u8>)>, String> {
        let place = path.display().to_string();
        let not = |why: &dyn std::fmt::Display| format!("the hooks of {place} do not count: {why}");
        let file = match files.read(path, &HostRead::whole(MAX_BYTES).own_only()) {
            Ok(file) => file,
            Err(error) if error.is_missing() => return Ok(None),
            Err(HostFileError::ForeignOwner { uid }) => {
                return Err(not(&format!("it belongs to another user (uid {uid})")));
            }
            Err(error) => return Err(not(&error)),
        };
        let settings: Value = serde_json::from_slice(&file.bytes).map_err(|error| not(&error))?;
        let Some(hooks) = settings.get("hooks") else { return Ok(None) };
        let source = HookSource { place: place.clone(), is_claude: true, may_allow: false };
        let set = Self::read(hooks, source).map_err(|error| not(&error))?;
        let bytes = serde_json::to_vec(hooks).map_err(|error| not(&error))?;
        Ok((!set.is_empty()).then_some((set, bytes)))
    }

    /// Setting and command of each hook, for a person who decides about trust.
    pub fn rows(&self) -> impl Iterator<Item = (String, String)> {
        self.hooks
            .iter()
            .map(|hook| (format!("hooks.{} for {}", hook.event, hook.matcher), hook.command.clone()))
    }
}
