//! Extensions of the settings files. Those of all files count: a project can take away none of the person's.

use std::collections::BTreeMap;
use std::path::Path;

use zk_core::service::visible_line;
use zk_extensions::{ExtensionConfig, ExtensionOrigin, Fingerprint};
use zk_settings::to_json;

use super::{File, Layer, ProjectFile, Settings, SettingsSources};
use crate::exit::{Failure, Outcome};

/// Key of the list of extensions in a settings file.
const LIST: &str = "extensions";
/// Kind of an extension of a project in the trust store.
const KIND: &str = "extension";

/// Takes the extensions out of the table of a settings file.
pub(super) fn take(table: &mut toml::Table, layer: Layer, path: &Path) -> Outcome<Vec<ExtensionConfig>> {
    let Some(list) = table.remove(LIST) else { return Ok(Vec::new()) };
    let origin = ExtensionOrigin { place: path.display().to_string(), is_project: layer.is_project() };
    let read = ExtensionConfig::read_all(&to_json(list), &origin);
    read.map_err(|error| Failure::usage(format!("{}: {error}", origin.place)))
}

/// Beginning of the trust question about an extension of a project; the caller adds its end.
pub(super) fn describe(extension: &ExtensionConfig) -> String {
    let (name, command) = (&extension.name, visible_line(&extension.command_line()));
    format!("this project wants to start an extension of zk: {name} (`{command}`).")
}

impl Settings {
    /// Adds extensions of the person. One in a later file replaces an earlier one of the same name.
    pub(super) fn add_extensions(&mut self, extensions: Vec<ExtensionConfig>) {
        for extension in extensions {
            self.extensions.retain(|one| one.name != extension.name);
            self.extensions.push(extension);
        }
    }

    /// Adds extensions of a project, each with its own approval.
    pub(super) fn extensions_of_project(
        &mut self,
        extensions: Vec<ExtensionConfig>,
        sources: &SettingsSources<'_>,
        (layer, file): (Layer, &str),
        warnings: &mut Vec<String>,
    ) {
        for extension in extensions {
            let name = format!("{file}: {}", extension.name);
            let path = sources.env.get("PATH");
            match Fingerprint::of(&extension, sources.project, path, sources.files) {
                Err(error) => warnings.push(format!("extension `{name}` is not used: {error}")),
                Ok(fingerprint) => {
                    let definition = extension.definition();
                    let shown = String::from_utf8_lossy(&definition).into_owned();
                    let key = format!("{LIST}.{}", extension.name);
                    let mut rows = vec![(key.clone(), toml::Value::String(shown))];
                    let files = fingerprint.lines();
                    rows.extend(
                        files.map(|(path, digest)| {
                            (format!("{key} runs {path}"), toml::Value::String(digest))
                        }),
                    );
                    let file = File::new(name, KIND, layer, fingerprint.approval(definition)).with_rows(rows);
                    let file = file.checked(sources.trust, sources.project);
                    self.project_files
                        .push(ProjectFile { extension: Some(extension), ..ProjectFile::new(file) });
                }
            }
        }
    }

    /// Returns the extensions to start: the person's, then approved ones of the project with other names.
    pub(crate) fn extensions(&self) -> Vec<ExtensionConfig> {
        let mut all = self.extensions.clone();
        let trusted = self.project_files.iter().filter(|file| file.trusted);
        for extension in trusted.filter_map(|file| file.extension.as_ref()) {
            if all.iter().all(|one| one.name != extension.name) {
                all.push(extension.clone());
            }
        }
        all
    }

    /// The extensions of the project that nobody approved.
    pub(crate) fn untrusted_extensions(&self) -> impl Iterator<Item = &ExtensionConfig> {
        self.project_files.iter().filter(|file| !file.trusted).filter_map(|file| file.extension.as_ref())
    }

    /// Approved content of the project's extensions, by name.
    pub(crate) fn approved_extensions(&self) -> BTreeMap<String, Vec<u8>> {
        let trusted = self.project_files.iter().filter(|file| file.trusted);
        trusted.filter_map(|file| Some((file.extension.as_ref()?.name.clone(), file.bytes.clone()))).collect()
    }
}
