use std::path::Path;

use serde_json::Value;
use zk_core::service::{HostFiles, HostRead};

use crate::bundle::is_bundle_name;

/// Paths of a project's settings files that may request bundles.
const SETTINGS_FILES: [&str; 2] = [".claude/settings.json", ".claude/settings.local.json"];

/// Maximum size of a settings file, in bytes.
const MAX_SETTINGS_BYTES: usize = 1 << 20;

/// Returns the bundles requested by a project's settings, as `NAME@MARKETPLACE`. They are only shown to the
/// person, never added.
#[must_use]
pub fn wanted_by_project(project: &Path, files: &dyn HostFiles) -> Vec<String> {
    let mut wanted = Vec::new();
    for name in SETTINGS_FILES {
        let how = HostRead {
            beneath: Some(project.to_path_buf()),
            ..HostRead::whole(MAX_SETTINGS_BYTES).own_only()
        };
        let Ok(file) = files.read(&project.join(name), &how) else { continue };
        let Ok(settings) = serde_json::from_slice::<Value>(&file.bytes) else { continue };
        let enabled = settings.get("enabledPlugins").and_then(Value::as_object);
        for (plugin, state) in enabled.into_iter().flatten() {
            let is_named = plugin
                .split_once('@')
                .is_some_and(|(name, market)| is_bundle_name(name) && is_bundle_name(market));
            if is_named && state.as_bool() == Some(true) && !wanted.contains(plugin) {
                wanted.push(plugin.clone());
            }
        }
    }
    wanted
}
