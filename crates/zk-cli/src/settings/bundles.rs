//! Bundles in the settings: their hooks and servers count like those of settings files.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use zk_bundles::{Loaded, ProjectBundle};
use zk_core::service::visible_line;
use zk_hooks::HookSet;
use zk_settings::to_json;

use super::{File, Layer, ProjectFile, Settings, SettingsSources};
use crate::bundles;
use crate::exit::{Failure, Outcome};
use zk_exec::ProgramEnv;

/// Key of the list of bundle directories in a project's settings file.
pub(super) const LIST: &str = "plugin_dirs";

/// Kind of a bundle of a project in the trust store.
const KIND: &str = "plugin";

/// Maximum number of directories in the list.
const MAX_DIRECTORIES: usize = 16;

/// Maximum size of the files of all bundles of the project, in bytes.
const MAX_TOTAL_BYTES: usize = 64 << 20;

/// JSON Schema of the list.
pub(super) fn schema() -> Value {
    json!({
        "type": "array",
        "items": { "type": "string" },
        "description": "Directories of plugins, in the settings file of a project: below its root.",
    })
}

/// Takes the list of bundle directories out of a project's settings table.
pub(super) fn take(table: &mut toml::Table, path: &Path) -> Outcome<Vec<String>> {
    let Some(list) = table.remove(LIST) else { return Ok(Vec::new()) };
    serde_json::from_value(to_json(list)).map_err(|_| {
        let path = path.display();
        Failure::usage(format!("{path}: `{LIST}` is a list of directories, such as [\"tools/review-kit\"]"))
    })
}

/// Refuses the list of bundle directories in a person's settings, since the person adds plugins by a command.
pub(super) fn refuse(table: &toml::Table, path: &Path) -> Outcome<()> {
    match table.contains_key(LIST) {
        true => Err(Failure::usage(format!(
            "{}: `{LIST}` belongs into the settings of a project (.zk/settings.toml); `zk plugin add PATH` adds one of \
             your own",
            path.display()
        ))),
        false => Ok(()),
    }
}

/// Beginning of the trust question about a bundle of a project; the caller adds its end.
pub(super) fn describe(found: &ProjectBundle) -> String {
    let name = visible_line(found.bundle.name());
    let about = found.bundle.manifest.description.as_deref().map(visible_line);
    let about = about.map(|about| format!(" ({about})")).unwrap_or_default();
    format!("this project wants zk to use a plugin: {name}{about}.")
}

/// Rows for a person who decides about trust in a bundle.
fn rows(found: &ProjectBundle, project: &Path) -> Result<Vec<(String, toml::Value)>, String> {
    let bundle = &found.bundle;
    let placed = bundles::bundle_without_directory(bundle);
    let hooks = bundles::hooks(&placed, project).map_err(|error| error.to_string())?;
    let (servers, wrong) = bundles::servers(&placed, project);
    if let Some(error) = wrong.first() {
        return Err(error.to_string());
    }
    let row = |what: &str, text: String| (format!("{} {what}", bundle.name()), toml::Value::String(text));
    let mut rows: Vec<_> = hooks.rows().map(|(event, command)| row(&event, command)).collect();
    rows.extend(servers.iter().map(|server| {
        let definition = String::from_utf8_lossy(&server.definition()).into_owned();
        row(&format!("server {}", server.name), definition)
    }));
    let variables = bundle.environment_names();
    if !variables.is_empty() {
        let names = variables.into_iter().collect::<Vec<_>>().join(", ");
        rows.push(row("gives its servers the variables", names));
    }
    let commands = bundle.commands.iter().map(|command| command.name.clone()).collect();
    let agents = bundle.agents.iter().map(|agent| agent.path.clone()).collect();
    let named = [("commands", commands), ("agents", agents), ("skills", bundle.skills.clone())];
    let named = named.into_iter().chain([("not served", bundle.unserved.clone())]);
    let named = named.filter(|(_, names): &(&str, Vec<String>)| !names.is_empty());
    rows.extend(named.map(|(what, names)| row(what, names.join(", "))));
    rows.push(row("SHA-256 of all its files", bundle.digest.clone()));
    Ok(rows)
}

impl Settings {
    /// Adds bundles of a project, each with its own approval.
    pub(super) fn bundles_of_project(
        &mut self,
        dirs: Vec<String>,
        sources: &SettingsSources<'_>,
        (layer, file): (Layer, &str),
        warnings: &mut Vec<String>,
    ) {
        let mut left_bytes = MAX_TOTAL_BYTES;
        let known: BTreeSet<String> = dirs.into_iter().collect();
        if known.len() > MAX_DIRECTORIES {
            let all = known.len();
            warnings.push(format!(
                "{file}: `{LIST}` has {all} directories; the first {MAX_DIRECTORIES} are read"
            ));
        }
        for dir in known.into_iter().take(MAX_DIRECTORIES) {
            let name = format!("{file}: {dir}");
            let found = ProjectBundle::read(sources.project, &dir, sources.files);
            let found = found.map_err(|error| error.to_string()).and_then(|found| {
                let left = left_bytes.checked_sub(found.total_bytes());
                left_bytes = left.ok_or_else(|| {
                    let most = MAX_TOTAL_BYTES >> 20;
                    format!("the plugins of the project have more than {most} MiB together")
                })?;
                Ok(found)
            });
            match found.and_then(|found| Ok((rows(&found, sources.project)?, found))) {
                Err(why) => warnings.push(visible_line(&format!("the plugin `{name}` is not used: {why}"))),
                Ok((rows, found)) => {
                    let digest = found.bundle.digest.clone().into_bytes();
                    let file = File::new(name, KIND, layer, digest).with_rows(rows);
                    let file = file.checked(sources.trust, sources.project);
                    let bundle = Some(Arc::new(found));
                    self.project_files.push(ProjectFile { bundle, ..ProjectFile::new(file) });
                }
            }
        }
    }

    /// The bundles of the project that a person approved.
    pub(crate) fn approved_bundles(&self) -> Vec<Arc<ProjectBundle>> {
        let trusted = self.project_files.iter().filter(|file| file.trusted);
        trusted.filter_map(|file| file.bundle.clone()).collect()
    }

    /// Adds the settings of loaded bundles. A bundle with invalid hooks or servers is left out as a whole,
    /// since one of them may guard calls.
    pub(crate) fn add_bundles(&mut self, mut loaded: Loaded, project: &Path, env: &ProgramEnv) {
        let mut used = Vec::new();
        for mut placed in std::mem::take(&mut loaded.bundles) {
            placed.read_options(&|name| env.text(name).map(str::to_owned));
            let hooks = bundles::hooks(&placed, project).map_err(|error| error.to_string());
            let (servers, wrong) = bundles::servers(&placed, project);
            let why = hooks.as_ref().err().cloned().or(wrong.first().map(ToString::to_string));
            if let Some(why) = why {
                loaded.problems.push(format!("the plugin `{}` is not used: {why}", placed.bundle.name()));
                continue;
            }
            // These warnings were shown when the bundle was added.
            self.hooks.extend(HookSet { warnings: Vec::new(), ..hooks.unwrap_or_default() });
            self.servers.add_of_bundle(servers);
            used.push(placed);
        }
        loaded.bundles = used;
        Arc::make_mut(&mut self.bundles).extend(loaded);
    }

    /// The bundles that are used.
    pub(crate) fn bundles(&self) -> &Loaded {
        &self.bundles
    }
}
