//! Command hooks of the settings files. Those of all files count: none can take away those of another.

use std::path::Path;

use zk_hooks::{HookSet, HookSource};
use zk_settings::to_json;

use super::{Layer, Settings};
use crate::exit::{Failure, Outcome};

/// The table that holds them.
const TABLE: &str = "hooks";

/// Settings files of Claude Code in a project, of which zk takes the hooks.
pub(super) const CLAUDE: [(Layer, &str); 2] =
    [(Layer::Project, ".claude/settings.json"), (Layer::ProjectLocal, ".claude/settings.local.json")];

/// The hooks of a settings file, taken out of its table.
pub(super) fn take(table: &mut toml::Table, layer: Layer, path: &Path) -> Outcome<HookSet> {
    let Some(hooks) = table.remove(TABLE) else { return Ok(HookSet::default()) };
    let place = path.display().to_string();
    let source = HookSource { place: place.clone(), is_claude: false, may_allow: !layer.is_project() };
    HookSet::read(&to_json(hooks), source).map_err(|error| Failure::usage(format!("{place}: {error}")))
}

/// Lists what a person reads of hooks before they trust them: a setting for each.
pub(super) fn rows(set: &HookSet) -> Vec<(String, toml::Value)> {
    set.rows().map(|(name, command)| (name, toml::Value::String(command))).collect()
}

impl Settings {
    /// The hooks of every file that counts.
    pub(crate) fn hooks(&self) -> &HookSet {
        &self.hooks
    }

    /// Leaves only the hooks of the machine's manager.
    pub(crate) fn keep_managed_hooks(&mut self) {
        self.hooks = self.managed_hooks.clone();
    }

    /// The hooks that count only once their file is trusted.
    pub(crate) fn untrusted_hooks(&self) -> impl Iterator<Item = &HookSet> {
        self.project_files.iter().filter(|file| !file.trusted).map(|file| &file.hooks)
    }
}
