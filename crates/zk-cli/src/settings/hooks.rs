//! Command hooks of the settings files. Those of all files count: none can take away those of another.

use std::path::Path;
use std::sync::Arc;

use zk_exec::ContextName;
use zk_hooks::{HookSet, HookSource};
use zk_settings::to_json;

use super::{Layer, Settings};
use crate::exit::{Failure, Outcome};

/// Key of the table of hooks in a settings file.
const TABLE: &str = "hooks";

/// Settings files of Claude Code in a project, whose hooks zk uses.
pub(super) const CLAUDE: [(Layer, &str); 2] =
    [(Layer::Project, ".claude/settings.json"), (Layer::ProjectLocal, ".claude/settings.local.json")];

/// Removes the hooks from the table of a settings file and parses them.
pub(super) fn take(table: &mut toml::Table, layer: Layer, path: &Path) -> Outcome<HookSet> {
    let Some(hooks) = table.remove(TABLE) else { return Ok(HookSet::default()) };
    let place = path.display().to_string();
    let source = HookSource { place: place.clone(), is_claude: false, may_allow: !layer.is_project() };
    HookSet::read(&to_json(hooks), source).map_err(|error| Failure::usage(format!("{place}: {error}")))
}

/// Formats hooks as settings, for a person who decides about them.
pub(super) fn rows(set: &HookSet) -> Vec<(String, toml::Value)> {
    set.rows().map(|(name, command)| (name, toml::Value::String(command))).collect()
}

impl Settings {
    /// Returns the hooks of all files that apply.
    pub(crate) fn hooks(&self) -> &HookSet {
        &self.hooks
    }

    /// Leaves only the hooks of the machine's manager.
    pub(crate) fn keep_managed_hooks(&mut self) {
        self.hooks = self.managed_hooks.clone();
    }

    /// Returns settings for a replay: they start no program, send no request, and write no file.
    pub(crate) fn for_replay(&self) -> Self {
        let mut settings = self.clone();
        let is_elsewhere = self.remote_context_text().is_some();
        let sections = Arc::make_mut(&mut settings.sections);
        if is_elsewhere {
            sections.program.context = Some(ContextName::Process);
        }
        sections.program.debug_dump = None;
        sections.program.sessions = false;
        sections.permissions.audit = false;
        sections.compaction.shared_lines = false;
        sections.backends.clear();
        #[cfg(feature = "otel")]
        {
            sections.otel = zk_otel::OtelSettings::default();
        }
        settings.leave_out_mcp_servers();
        (settings.hooks, settings.managed_hooks) = (HookSet::default(), HookSet::default());
        settings.extensions.clear();
        settings.project_files.retain(|file| file.extension.is_none() && file.bundle.is_none());
        settings
    }

    /// Returns the hooks of files that are not trusted.
    pub(crate) fn untrusted_hooks(&self) -> impl Iterator<Item = &HookSet> {
        self.project_files.iter().filter(|file| !file.trusted).map(|file| &file.hooks)
    }
}
