//! The settings: what can be set ([`schema`]), where from ([`layers`]) and the files ([`mod@file`]).

mod file;
mod given;
mod hooks;
mod json_schema;
mod layers;
mod mcp;
mod models;
mod plugins;
mod presets;
mod prompt_files;
mod rules;
mod schema;

use std::borrow::Cow;
use std::path::Path;

use zk_core::model::ThinkingLevel;
use zk_core::service::{HostFiles, Trust, TrustItem};
use zk_hooks::HookSet;
use zk_mcp::{Scripts, ServerConfig};
use zk_permission::Decision;

pub(crate) use given::LayerValues;
use given::{defaults, environment};
pub(crate) use json_schema::json_schema;
pub(crate) use layers::{Entry, Layer, Layers, Origin};

use crate::additions::Additions;
use crate::dirs::Dirs;
use crate::env::Env;
use crate::exit::{Failure, Outcome};
use crate::policy;

/// File of the settings that nobody can outrank.
const MANAGED: &str = "/etc/zk/settings.toml";

/// The merged settings, each with where it comes from. Their types are checked when they are read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    layers: Layers,
    /// The permission rules of all layers: none outranks another.
    pub(crate) rules: Vec<(Layer, Decision, String)>,
    /// Additions that can be set something about, beside what zk knows itself.
    pub(crate) additions: Additions,
    /// The settings files of the project that set anything.
    pub(crate) project_files: Vec<ProjectFile>,
    hooks: HookSet,
    /// Whether no MCP server is to be started.
    has_no_mcp: bool,
    /// MCP servers of files that the command line named.
    given_servers: Vec<ServerConfig>,
}

/// A settings file of the project, which counts only once a person has approved exactly these bytes.
#[derive(Clone, Debug)]
pub(crate) struct ProjectFile {
    /// Path of the file, relative to the project.
    pub(crate) name: Cow<'static, str>,
    /// Kind of the file for [`Trust`].
    kind: &'static str,
    bytes: Vec<u8>,
    pub(crate) trusted: bool,
    /// Values that the file sets.
    pub(crate) values: Vec<(String, toml::Value)>,
    layer: Layer,
    leaves: Vec<(Vec<String>, toml::Value)>,
    hooks: HookSet,
    /// The one MCP server it is, of several in a `.mcp.json`.
    server: Option<ServerConfig>,
    /// Scripts of this machine that the server runs.
    scripts: Scripts,
}

impl ProjectFile {
    /// Returns the item that has to be approved.
    pub(crate) fn item<'a>(&'a self, project: &'a Path) -> TrustItem<'a> {
        TrustItem { project, kind: self.kind, name: &self.name, bytes: &self.bytes }
    }
}

/// Sources of the layers.
pub(crate) struct SettingsSources<'a> {
    pub(crate) env: &'a Env,
    pub(crate) dirs: &'a Dirs,
    pub(crate) files: &'a dyn HostFiles,
    /// The root of the project worked in.
    pub(crate) project: &'a Path,
    pub(crate) trust: &'a dyn Trust,
    /// The file named on the command line.
    pub(crate) extra: Option<&'a Path>,
    /// Additions of this program to what zk knows itself.
    pub(crate) additions: Additions,
}

impl Settings {
    /// Settings of which nothing was read yet, of a program with these additions.
    pub(crate) fn unread(additions: Additions) -> Self {
        Self { additions, ..Self::default() }
    }

    /// Reads every layer, the lowest first. The second part are warnings.
    pub(crate) fn read(sources: &SettingsSources<'_>, given: LayerValues) -> Outcome<(Self, Vec<String>)> {
        let mut settings = Self::unread(sources.additions.clone());
        let mut warnings = Vec::new();
        settings.give(Layer::Default, defaults(), &mut warnings)?;
        settings.give(
            Layer::Environment,
            environment(sources.env, &sources.additions.vendors),
            &mut warnings,
        )?;
        let user = sources.dirs.settings();
        if let Some(path) = user {
            settings.file(sources.files, Layer::User, &path, false, &mut warnings)?;
        }
        settings.own_prompt_files(sources, &mut warnings)?;
        for (layer, name) in
            [(Layer::Project, ".zk/settings.toml"), (Layer::ProjectLocal, ".zk/settings.local.toml")]
        {
            settings.project_file(sources, layer, name, &mut warnings)?;
        }
        settings.project_prompt_files(sources, &mut warnings)?;
        for (layer, name) in hooks::CLAUDE {
            settings.claude_file(sources, layer, name, &mut warnings);
        }
        settings.mcp_file(sources, &mut warnings);
        if let Some(path) = sources.extra {
            settings.file(sources.files, Layer::CommandLine, path, true, &mut warnings)?;
        }
        settings.give(Layer::CommandLine, given, &mut warnings)?;
        settings.file(sources.files, Layer::Managed, Path::new(MANAGED), false, &mut warnings)?;
        settings.preset(sources, &mut warnings)?;
        warnings.extend(settings.models_of_nobody());
        Ok((settings, warnings))
    }

    fn file(
        &mut self,
        files: &dyn HostFiles,
        layer: Layer,
        path: &Path,
        needed: bool,
        warnings: &mut Vec<String>,
    ) -> Outcome<()> {
        let mut table = match file::read(files, layer, path, needed)? {
            file::Read::Table { table, .. } => table,
            file::Read::Foreign(warning) => {
                warnings.push(warning);
                return Ok(());
            }
        };
        self.add_hooks(hooks::take(&mut table, layer, path)?, warnings);
        let origin = Origin { layer, place: path.display().to_string() };
        for (key, value) in layers::flatten(table) {
            self.set(key, value, &origin, warnings)?;
        }
        Ok(())
    }

    /// A file of the project: what it sets counts only if exactly these bytes were approved.
    fn project_file(
        &mut self,
        sources: &SettingsSources<'_>,
        layer: Layer,
        name: &'static str,
        warnings: &mut Vec<String>,
    ) -> Outcome<()> {
        let path = sources.project.join(name);
        let (mut table, bytes) = match file::read(sources.files, layer, &path, false)? {
            file::Read::Table { table, bytes } => (table, bytes),
            file::Read::Foreign(warning) => {
                warnings.push(warning);
                return Ok(());
            }
        };
        let hooks = hooks::take(&mut table, layer, &path)?;
        let leaves = layers::flatten(table);
        if leaves.is_empty() && hooks.is_empty() {
            return Ok(());
        }
        let values = leaves.iter().map(|(key, value)| (layers::dotted(key), value.clone()));
        let values = values.chain(hooks::rows(&hooks)).collect();
        let kind = "settings";
        let mut file = ProjectFile {
            name: name.into(),
            kind,
            bytes,
            trusted: false,
            values,
            layer,
            leaves: leaves.clone(),
            hooks,
            server: None,
            scripts: Scripts::default(),
        };
        file.trusted = sources.trust.is_trusted(&file.item(sources.project));
        let (trusted, hooks) = (file.trusted, file.hooks.clone());
        self.project_files.push(file);
        if trusted {
            self.add_hooks(hooks, warnings);
            let origin = Origin { layer, place: path.display().to_string() };
            for (key, value) in leaves {
                self.set(key, value, &origin, warnings)?;
            }
        }
        Ok(())
    }

    /// The hooks of a settings file of Claude Code in the project.
    fn claude_file(
        &mut self,
        sources: &SettingsSources<'_>,
        layer: Layer,
        name: &'static str,
        warnings: &mut Vec<String>,
    ) {
        let (hooks, bytes) = match hooks::read_claude(sources.files, &sources.project.join(name)) {
            Ok(Some(found)) => found,
            Ok(None) => return,
            Err(warning) => {
                warnings.push(warning);
                return;
            }
        };
        let (values, kind, leaves) = (hooks::rows(&hooks), "hook", Vec::new());
        let name = name.into();
        let scripts = Scripts::default();
        let mut file = ProjectFile {
            name,
            kind,
            bytes,
            trusted: false,
            values,
            layer,
            leaves,
            hooks,
            server: None,
            scripts,
        };
        file.trusted = sources.trust.is_trusted(&file.item(sources.project));
        if file.trusted {
            self.add_hooks(file.hooks.clone(), warnings);
        }
        self.project_files.push(file);
    }

    fn add_hooks(&mut self, hooks: HookSet, warnings: &mut Vec<String>) {
        warnings.extend(hooks.warnings.iter().cloned());
        self.hooks.extend(hooks);
    }

    /// Lets a file of the project count that was approved just now: below what outranks it.
    pub(crate) fn count_project_file(&mut self, name: &str, project: &Path) -> Outcome<Vec<String>> {
        let mut warnings = Vec::new();
        let found = self.project_files.iter_mut().find(|file| file.name == name);
        let Some(file) = found.filter(|file| !file.trusted) else { return Ok(warnings) };
        file.trusted = true;
        let origin = Origin { layer: file.layer, place: project.join(&*file.name).display().to_string() };
        let (leaves, hooks) = (file.leaves.clone(), file.hooks.clone());
        self.add_hooks(hooks, &mut warnings);
        for (key, value) in leaves {
            self.set_below(key, value, &origin, &mut warnings)?;
        }
        Ok(warnings)
    }

    /// Sets what no higher layer says something about.
    fn set_below(
        &mut self,
        key: Vec<String>,
        value: toml::Value,
        origin: &Origin,
        warnings: &mut Vec<String>,
    ) -> Outcome<()> {
        if self.layers.is_outranked(&key, origin.layer) {
            self.note_rules(&key, &value, origin.layer);
            return Ok(());
        }
        self.set(key, value, origin, warnings)
    }

    /// Warns of what the project sets and nobody approved: a warning for each file.
    pub(crate) fn untrusted_warnings(&self, project: &Path) -> Vec<String> {
        let files = self.project_files.iter().filter(|file| !file.trusted);
        let warning = |file: &ProjectFile| {
            let names: Vec<String> = file.values.iter().map(|(name, _)| format!("`{name}`")).collect();
            let place = project.join(&*file.name);
            format!(
                "{} is not trusted, so what it sets is ignored: {}. Read it, then run `zk trust add`",
                place.display(),
                names.join(", ")
            )
        };
        files.map(warning).collect()
    }

    fn give(&mut self, layer: Layer, given: LayerValues, warnings: &mut Vec<String>) -> Outcome<()> {
        for (key, from, value) in given.0 {
            let key = key.split('.').map(str::to_owned).collect();
            self.set(key, value, &Origin { layer, place: from }, warnings)?;
        }
        Ok(())
    }

    fn set(
        &mut self,
        key: Vec<String>,
        value: toml::Value,
        origin: &Origin,
        warnings: &mut Vec<String>,
    ) -> Outcome<()> {
        let told = |what: String| format!("{}: {what}", origin.place);
        match schema::check(&key, &value, origin.layer, &self.additions.vendors) {
            schema::Check::Valid => {}
            schema::Check::Warn(what) => warnings.push(told(what)),
            schema::Check::Ignored(what) => {
                warnings.push(told(what));
                return Ok(());
            }
            schema::Check::Invalid(what) => return Err(Failure::usage(told(what))),
        }
        // As a leaf it would take the place of what lower layers say there.
        if schema::is_empty_table(&key, &value) {
            return Ok(());
        }
        if let Some(old) = self.layers.at(&key)
            && old.origin.layer == Layer::CommandLine
            && origin.layer == Layer::Managed
            && old.value != value
        {
            warnings.push(told(format!("this file overrules {}", old.origin.place)));
        }
        self.note_rules(&key, &value, origin.layer);
        self.layers.set(key, value, origin.clone());
        Ok(())
    }

    fn note_rules(&mut self, key: &[String], value: &toml::Value, layer: Layer) {
        let [table, list] = key else { return };
        let Some(decision) = policy::decision(list).filter(|_| table == "permissions") else { return };
        let texts = value.as_array().into_iter().flatten().filter_map(toml::Value::as_str);
        self.rules.extend(texts.map(|text| (layer, decision, text.to_owned())));
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.layers.get(key)?.value.as_str()
    }

    pub(crate) fn texts(&self, key: &str) -> Vec<String> {
        let texts = self.layers.get(key).and_then(|entry| entry.value.as_array()).into_iter().flatten();
        texts.filter_map(toml::Value::as_str).map(str::to_owned).collect()
    }

    pub(crate) fn count(&self, key: &str) -> Option<u32> {
        self.layers.get(key)?.value.as_integer()?.try_into().ok()
    }

    pub(crate) fn number(&self, key: &str) -> Option<f64> {
        let value = &self.layers.get(key)?.value;
        value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
    }

    /// A list of texts; empty where there is none.
    pub(crate) fn names(&self, key: &str) -> Vec<String> {
        let list = self.layers.get(key).and_then(|entry| entry.value.as_array()).into_iter().flatten();
        list.filter_map(toml::Value::as_str).map(str::to_owned).collect()
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        self.flag_or(key, false)
    }

    pub(crate) fn flag_or(&self, key: &str, default: bool) -> bool {
        self.layers.get(key).and_then(|entry| entry.value.as_bool()).unwrap_or(default)
    }

    /// Returns the setting `what` of a provider. The provider's name may have dots.
    pub(crate) fn of_provider(&self, name: &str, what: &str) -> Option<&Entry> {
        self.layers.at(&["providers".to_owned(), name.to_owned(), what.to_owned()])
    }

    /// Everything under a table, if there is something.
    pub(crate) fn table(&self, name: &[&str]) -> Option<toml::Table> {
        let mut table = toml::Table::new();
        for (path, entry) in self.layers.iter() {
            let mut path = path.iter();
            if !name.iter().all(|part| path.next().is_some_and(|at| at == *part)) {
                continue;
            }
            let Some(last) = path.next_back() else { continue };
            let inner = path.try_fold(&mut table, |table, part| {
                table.entry(part).or_insert_with(|| toml::Table::new().into()).as_table_mut()
            });
            inner?.insert(last.clone(), entry.value.clone());
        }
        (!table.is_empty()).then_some(table)
    }

    /// Returns the origin of the first value under a table.
    pub(crate) fn origin_below(&self, name: &[&str]) -> Option<&Origin> {
        let is_below =
            |path: &[String]| path.iter().map(String::as_str).take(name.len()).eq(name.iter().copied());
        self.layers.iter().find(|(path, _)| is_below(path)).map(|(_, entry)| &entry.origin)
    }

    pub(crate) fn thinking(&self) -> ThinkingLevel {
        self.text("thinking").and_then(|level| level.parse().ok()).unwrap_or_default()
    }

    pub(crate) fn origin(&self, key: &str) -> Option<&Origin> {
        self.layers.get(key).map(|entry| &entry.origin)
    }

    /// Every setting as a line of TOML, secrets left out, with its origin as a comment if wanted.
    pub(crate) fn lines(&self, with_origin: bool) -> Vec<String> {
        self.layers
            .iter()
            .map(|(key, entry)| {
                let value = if schema::is_secret(key) {
                    "\"(set, not shown)\"".to_owned()
                } else {
                    entry.value.to_string()
                };
                let name = layers::dotted(key);
                if with_origin {
                    format!("{name} = {value}  # {}", entry.origin)
                } else {
                    format!("{name} = {value}")
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::of_text;
