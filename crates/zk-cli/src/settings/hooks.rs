//! Command hooks of the settings files. Those of all files count: none can take away those of another.

use std::path::Path;

use serde_json::Value;
use zk_core::service::{HostFileError, HostFiles, HostRead};
use zk_hooks::{HookSet, HookSource};

use super::plugins::to_json;
use super::{Layer, Settings};
use crate::exit::{Failure, Outcome};

/// The table that holds them.
const TABLE: &str = "hooks";

/// Settings files of Claude Code in a project, of which zk takes the hooks.
pub(super) const CLAUDE: [(Layer, &str); 2] =
    [(Layer::Project, ".claude/settings.json"), (Layer::ProjectLocal, ".claude/settings.local.json")];

/// The most such a file may have.
const MAX_BYTES: usize = 1 << 20;

/// The hooks of a settings file, taken out of its table.
pub(super) fn take(table: &mut toml::Table, layer: Layer, path: &Path) -> Outcome<HookSet> {
    let Some(hooks) = table.remove(TABLE) else { return Ok(HookSet::default()) };
    let place = path.display().to_string();
    let source = HookSource { place: place.clone(), is_claude: false, may_allow: !layer.is_project() };
    HookSet::read(&to_json(hooks), source).map_err(|error| Failure::usage(format!("{place}: {error}")))
}

/// The hooks of a settings file of Claude Code, with the bytes that stand for them; nothing if it has none.
///
/// # Errors
/// In words, if they cannot be read: they cannot be trusted then, and so do not count.
pub(super) fn read_claude(files: &dyn HostFiles, path: &Path) -> Result<Option<(HookSet, Vec<u8>)>, String> {
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
    let Some(hooks) = settings.get(TABLE) else { return Ok(None) };
    let source = HookSource { place: place.clone(), is_claude: true, may_allow: false };
    let set = HookSet::read(hooks, source).map_err(|error| not(&error))?;
    let bytes = serde_json::to_vec(hooks).map_err(|error| not(&error))?;
    Ok((!set.is_empty()).then_some((set, bytes)))
}

/// Lists what a person reads of hooks before they trust them: a setting for each.
pub(super) fn rows(set: &HookSet) -> Vec<(String, toml::Value)> {
    let row = |hook: &std::sync::Arc<zk_hooks::CommandHook>| {
        let name = format!("{TABLE}.{} for {}", hook.event, hook.matcher);
        (name, toml::Value::String(hook.command.clone()))
    };
    set.hooks.iter().map(row).collect()
}

impl Settings {
    /// The hooks of every file that counts.
    pub(crate) fn hooks(&self) -> &HookSet {
        &self.hooks
    }

    /// The hooks that count only once their file is trusted.
    pub(crate) fn untrusted_hooks(&self) -> impl Iterator<Item = &HookSet> {
        self.project_files.iter().filter(|file| !file.trusted).map(|file| &file.hooks)
    }
}
