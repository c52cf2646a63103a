//! The settings of the program: its sections ([`sections`]), the files and variables they come from, and what of a project counts.

mod bundles;
mod checks;
mod extensions;
mod hooks;
mod json_schema;
mod mcp;
mod models;
mod own_tools;
mod plugins;
mod presets;
mod program;
mod prompt_files;
mod providers;
mod sections;
mod variables;

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use zk_bundles::{Loaded, ProjectBundle};
use zk_core::model::ThinkingLevel;
use zk_core::service::{HostFiles, Trust, TrustRequest, visible_line};
use zk_exec::ContextName;
use zk_extensions::ExtensionConfig;
use zk_hooks::HookSet;
use zk_mcp::{Scripts, ServerChoice, ServerConfig, ServerTransport};
use zk_permission::Decision;
use zk_settings::{
    Check, FileRead, MergedSettings, Precedence, ProjectFile as File, Schema, flatten, read_file,
};

pub(crate) use json_schema::{json_schema, reference};
pub(crate) use own_tools::{TOOLS_OF_RUNS, own_tools};
pub(crate) use program::{ProgramSettings, ScreenName, ThemeName};
pub(crate) use sections::Sections;
pub(crate) use zk_settings::{Entry, Layer, LayerValues, Origin};

use crate::additions::Additions;
use crate::args::StartScope;
use crate::exit::Outcome;
use zk_exec::ProgramEnv;
use zk_settings::ZkDirs;

/// Settings file of the machine's administrator, which overrides all others.
const MANAGED: &str = "/etc/zk/settings.toml";

/// Merged settings with their origins. Sections are fields: `settings.tools.read_lines`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    merged: MergedSettings,
    sections: Arc<Sections>,
    /// Vendors, providers and plugins that a team added to the program.
    pub(crate) additions: Additions,
    /// Settings files of the project that are not empty.
    pub(crate) project_files: Vec<ProjectFile>,
    hooks: HookSet,
    /// Hooks of the machine's manager, which are among `hooks` as well.
    managed_hooks: HookSet,
    /// Extensions of the person's files.
    extensions: Vec<ExtensionConfig>,
    /// Sources that these settings were read from.
    scope: StartScope,
    /// MCP servers of files named on the command line, and of bundles.
    servers: ServerChoice,
    /// Bundles that the person added.
    bundles: Arc<Loaded>,
}

impl Deref for Settings {
    type Target = Sections;

    fn deref(&self) -> &Sections {
        &self.sections
    }
}

/// Item of the project that needs an approval: a settings file, or one MCP server, extension or bundle.
#[derive(Clone, Debug)]
pub(crate) struct ProjectFile {
    file: File,
    hooks: HookSet,
    /// MCP server of a `.mcp.json`, if the item is one.
    server: Option<ServerConfig>,
    /// Local scripts that the MCP server runs.
    scripts: Scripts,
    /// Extension of a project, if the item is one.
    extension: Option<ExtensionConfig>,
    /// Bundle of a project, if the item is one.
    pub(crate) bundle: Option<Arc<ProjectBundle>>,
}

impl ProjectFile {
    fn new(file: File) -> Self {
        let (hooks, scripts) = (HookSet::default(), Scripts::default());
        Self { file, hooks, server: None, scripts, extension: None, bundle: None }
    }
}

impl ProjectFile {
    /// Describes the bundle, MCP server or extension, with its command or address; `None` for a settings file.
    fn describe_part(&self) -> Option<String> {
        if let Some(bundle) = &self.bundle {
            return Some(bundles::describe(bundle));
        }
        if let Some(extension) = &self.extension {
            return Some(extensions::describe(extension));
        }
        let server = self.server.as_ref()?;
        let how = match &server.transport {
            ServerTransport::Stdio { command, args, .. } => {
                let words = std::iter::once(command).chain(args).map(String::as_str);
                visible_line(&words.collect::<Vec<_>>().join(" "))
            }
            ServerTransport::Http { url, .. } => visible_line(url),
        };
        let name = visible_line(&server.name);
        Some(format!("this project wants to start an MCP server: {name} (`{how}`)."))
    }

    /// Warning that the item is ignored until it is approved.
    fn warning(&self, project: &Path) -> String {
        let part = self.describe_part();
        let state = if self.bundle.is_some() { "Not used" } else { "Not started" };
        let warned = part.map(|part| format!("{part} {state}: `zk trust add` allows it"));
        warned.unwrap_or_else(|| self.untrusted_warning(project))
    }

    /// Question to the person whether to trust the item.
    pub(crate) fn question(&self, project: &Path) -> TrustRequest {
        let mut rows: Vec<String> =
            self.values.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        match self.describe_part() {
            Some(part) => {
                // The digest of a bundle says less than what it runs.
                let shown = if self.bundle.is_some() { rows.len().saturating_sub(1) } else { 1 };
                let details = rows.split_off(rows.len().min(shown));
                let text = capitalized(&format!("{part} Allow it?"));
                TrustRequest { text, items: rows, details }
            }
            None => {
                let text =
                    format!("Trust {} exactly as it is? It sets:", project.join(&*self.name).display());
                TrustRequest { text, items: rows, details: Vec::new() }
            }
        }
    }
}

/// A sentence that begins with a capital letter.
fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().collect::<String>() + letters.as_str())
        .unwrap_or_default()
}

impl Deref for ProjectFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

/// Sources from which the layers of settings are read.
pub(crate) struct SettingsSources<'a> {
    pub(crate) env: &'a ProgramEnv,
    pub(crate) dirs: &'a ZkDirs,
    pub(crate) files: &'a dyn HostFiles,
    /// Root of the current project.
    pub(crate) project: &'a Path,
    pub(crate) trust: &'a dyn Trust,
    /// The file named on the command line.
    pub(crate) extra: Option<&'a Path>,
    /// Sources that this start uses.
    pub(crate) scope: StartScope,
    /// Vendors, providers and plugins that a team added to the program.
    pub(crate) additions: Additions,
}

impl Settings {
    /// Returns a copy of these settings with more hidden paths.
    pub(crate) fn hiding(&self, paths: Vec<String>) -> Self {
        let mut settings = self.clone();
        Arc::make_mut(&mut settings.sections).sandbox.hidden.extend(paths);
        settings
    }

    /// Creates settings without layers.
    fn empty(additions: Additions) -> Self {
        let merged = MergedSettings::new(Arc::new(checks::schema(additions.providers.vendors())));
        Self { merged, additions, ..Self::default() }
    }

    /// Checks one file as a layer; returns warnings about it.
    ///
    /// # Errors
    /// The faults of the file.
    pub(crate) fn check_file(
        additions: Additions,
        files: &dyn HostFiles,
        layer: Layer,
        path: &Path,
    ) -> Outcome<Vec<String>> {
        let mut settings = Self::empty(additions);
        let mut warnings = Vec::new();
        settings.add_layer(Layer::Default, variables::defaults(), &mut Vec::new())?;
        settings.add_file(files, layer, path, true, &mut warnings)?;
        settings.read_sections()?;
        Ok(warnings)
    }

    /// Settings of the demo: without those of the person, and without storage.
    pub(crate) fn for_demo() -> Self {
        let mut sections = Sections::default();
        sections.program.thinking = ThinkingLevel::Off;
        sections.program.sessions = false;
        sections.program.shorten = false;
        sections.skills.enabled = false;
        sections.skills.project = false;
        sections.permissions.audit = false;
        Self { sections: Arc::new(sections), ..Self::default() }
    }

    /// Reads all layers, lowest first. Returns the settings and warnings.
    pub(crate) fn read(sources: &SettingsSources<'_>, given: LayerValues) -> Outcome<(Self, Vec<String>)> {
        let mut settings = Self { scope: sources.scope, ..Self::empty(sources.additions.clone()) };
        let mut warnings = Vec::new();
        settings.add_layer(Layer::Default, variables::defaults(), &mut warnings)?;
        let environment = variables::environment(sources.env, sources.additions.providers.vendors());
        settings.add_layer(Layer::Environment, environment, &mut warnings)?;
        let user = sources.dirs.settings();
        if let Some(path) = user {
            settings.add_file(sources.files, Layer::User, &path, false, &mut warnings)?;
        }
        if sources.scope.has_own_parts() {
            settings.own_prompt_files(sources, &mut warnings)?;
        }
        if sources.scope.has_project() {
            settings.project_files(sources, &mut warnings)?;
        }
        if let Some(path) = sources.extra {
            settings.add_file(sources.files, Layer::CommandLine, path, true, &mut warnings)?;
        }
        settings.add_layer(Layer::CommandLine, given, &mut warnings)?;
        settings.add_file(sources.files, Layer::Managed, Path::new(MANAGED), false, &mut warnings)?;
        settings.preset(sources, &mut warnings)?;
        settings.read_sections()?;
        warnings.extend(settings.models_of_nobody());
        Ok((settings, warnings))
    }

    /// Reads the files of the project.
    fn project_files(&mut self, sources: &SettingsSources<'_>, warnings: &mut Vec<String>) -> Outcome<()> {
        for (layer, name) in
            [(Layer::Project, ".zk/settings.toml"), (Layer::ProjectLocal, ".zk/settings.local.toml")]
        {
            self.project_file(sources, layer, name, warnings)?;
        }
        self.project_prompt_files(sources, warnings)?;
        for (layer, name) in hooks::CLAUDE {
            self.claude_file(sources, layer, name, warnings);
        }
        self.mcp_file(sources, warnings);
        Ok(())
    }

    /// Reads the sections again after a layer was added.
    fn read_sections(&mut self) -> Outcome<()> {
        self.sections = Arc::new(Sections::read(&self.merged)?);
        Ok(())
    }

    /// Returns a copy with kept values of this directory, each with lower precedence than the values of this start.
    pub(crate) fn with_kept(&self, values: impl Iterator<Item = (&'static str, String)>) -> Outcome<Self> {
        let origin = Origin { layer: Layer::Kept, place: "chosen in a conversation".to_owned() };
        let mut kept = self.clone();
        for (key, value) in values {
            kept.merged.set_below(vec![key.to_owned()], value.into(), &origin, &mut Vec::new())?;
        }
        kept.read_sections()?;
        Ok(kept)
    }

    fn add_file(
        &mut self,
        files: &dyn HostFiles,
        layer: Layer,
        path: &Path,
        needed: bool,
        warnings: &mut Vec<String>,
    ) -> Outcome<()> {
        let mut table = match read_file(files, layer, path, needed)? {
            FileRead::Table { table, .. } => table,
            FileRead::Foreign(warning) => {
                warnings.push(warning);
                return Ok(());
            }
        };
        let hooks = hooks::take(&mut table, layer, path)?;
        let extensions = extensions::take(&mut table, layer, path)?;
        if layer == Layer::Managed {
            self.managed_hooks = hooks.clone();
        }
        if layer == Layer::User && !self.scope.has_own_parts() {
            mcp::take_servers(&mut table);
        } else {
            self.add_hooks(hooks, warnings);
            self.add_extensions(extensions);
        }
        bundles::refuse(&table, path)?;
        let origin = Origin { layer, place: path.display().to_string() };
        Ok(self.merged.set_all(flatten(table), &origin, Precedence::Over, warnings)?)
    }

    /// Reads a settings file of the project. Its settings only apply if exactly these bytes were approved.
    fn project_file(
        &mut self,
        sources: &SettingsSources<'_>,
        layer: Layer,
        name: &'static str,
        warnings: &mut Vec<String>,
    ) -> Outcome<()> {
        let path = sources.project.join(name);
        let (mut table, bytes) = match read_file(sources.files, layer, &path, false)? {
            FileRead::Table { table, bytes } => (table, bytes),
            FileRead::Foreign(warning) => {
                warnings.push(warning);
                return Ok(());
            }
        };
        let hooks = hooks::take(&mut table, layer, &path)?;
        self.extensions_of_project(
            extensions::take(&mut table, layer, &path)?,
            sources,
            (layer, name),
            warnings,
        );
        let dirs = bundles::take(&mut table, &path)?;
        self.bundles_of_project(dirs, sources, (layer, name), warnings);
        if table.is_empty() && hooks.is_empty() {
            return Ok(());
        }
        let file = File::new(name, "settings", layer, bytes).with_table(table).with_rows(hooks::rows(&hooks));
        self.apply_if_trusted(
            ProjectFile { hooks, ..ProjectFile::new(file) },
            sources,
            warnings,
            Precedence::Over,
        )
    }

    /// Reads the hooks in a project's settings file of Claude Code.
    fn claude_file(
        &mut self,
        sources: &SettingsSources<'_>,
        layer: Layer,
        name: &'static str,
        warnings: &mut Vec<String>,
    ) {
        let (hooks, bytes) = match HookSet::read_claude(sources.files, &sources.project.join(name)) {
            Ok(Some(found)) => found,
            Ok(None) => return,
            Err(warning) => {
                warnings.push(warning);
                return;
            }
        };
        let file = File::new(name, "hook", layer, bytes).with_rows(hooks::rows(&hooks));
        let file = file.checked(sources.trust, sources.project);
        if file.trusted {
            self.add_hooks(hooks.clone(), warnings);
        }
        self.project_files.push(ProjectFile { hooks, ..ProjectFile::new(file) });
    }

    /// Adds an item of the project, and applies it if its bytes were approved.
    fn apply_if_trusted(
        &mut self,
        mut found: ProjectFile,
        sources: &SettingsSources<'_>,
        warnings: &mut Vec<String>,
        precedence: Precedence,
    ) -> Outcome<()> {
        found.file = found.file.checked(sources.trust, sources.project);
        if found.trusted {
            self.add_hooks(found.hooks.clone(), warnings);
            let origin = found.origin(sources.project);
            self.merged.set_all(found.leaves.clone(), &origin, precedence, warnings)?;
        }
        self.project_files.push(found);
        Ok(())
    }

    fn add_hooks(&mut self, hooks: HookSet, warnings: &mut Vec<String>) {
        warnings.extend(hooks.warnings.iter().cloned());
        self.hooks.extend(hooks);
    }

    /// Applies a project file that was just approved. Layers of higher rank keep their values.
    pub(crate) fn count_project_file(&mut self, approved: &File, project: &Path) -> Outcome<Vec<String>> {
        let mut warnings = Vec::new();
        // A plugin and an extension of one file can have one name.
        let is_approved =
            |file: &&mut ProjectFile| (file.kind, &file.name) == (approved.kind, &approved.name);
        let found = self.project_files.iter_mut().find(is_approved);
        let Some(found) = found.filter(|file| !file.trusted) else { return Ok(warnings) };
        found.file.trusted = true;
        let origin = found.origin(project);
        let (leaves, hooks) = (found.leaves.clone(), found.hooks.clone());
        self.add_hooks(hooks, &mut warnings);
        self.merged.set_all(leaves, &origin, Precedence::Below, &mut warnings)?;
        self.read_sections()?;
        Ok(warnings)
    }

    /// Returns a warning for each file of the project with unapproved settings.
    pub(crate) fn untrusted_warnings(&self, project: &Path) -> Vec<String> {
        let files = self.project_files.iter().filter(|file| !file.trusted);
        files.map(|file| file.warning(project)).collect()
    }

    fn add_layer(&mut self, layer: Layer, given: LayerValues, warnings: &mut Vec<String>) -> Outcome<()> {
        Ok(self.merged.give(layer, given, warnings)?)
    }

    /// Returns the permission rules of all layers, which all apply together.
    pub(crate) fn rules(&self) -> impl Iterator<Item = (Layer, Decision, &str)> {
        self.merged.appended().iter().flat_map(|list| {
            let decision = list.path.last().and_then(|list| list.parse().ok());
            let texts = list.value.as_array().into_iter().flatten().filter_map(toml::Value::as_str);
            texts.filter_map(move |text| Some((list.layer, decision?, text)))
        })
    }

    /// Returns the setting `what` of a provider. The provider's name may have dots.
    pub(crate) fn of_provider(&self, name: &str, what: &str) -> Option<&Entry> {
        self.merged.at(&["providers".to_owned(), name.to_owned(), what.to_owned()])
    }

    /// Returns everything under a table, if it is not empty.
    pub(crate) fn table(&self, name: &[&str]) -> Option<toml::Table> {
        self.merged.table(name)
    }

    /// Iterates over all values with their paths.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[String], &Entry)> {
        self.merged.iter()
    }

    /// Returns the origin of the first value under a table.
    pub(crate) fn origin_below(&self, name: &[&str]) -> Option<&Origin> {
        self.merged.origin_below(name)
    }

    /// Returns the execution context of commands.
    pub(crate) fn context(&self) -> ContextName {
        self.program.context.clone().unwrap_or(ContextName::Process)
    }

    /// Returns the execution context as written in the settings.
    pub(crate) fn context_text(&self) -> Option<&str> {
        self.merged.at(&["context".to_owned()]).and_then(Entry::text)
    }

    /// Returns the execution context as written in the settings, if it is another machine or container.
    pub(crate) fn remote_context_text(&self) -> Option<&str> {
        self.context_text().filter(|context| context.contains(':'))
    }

    /// Returns the origin of a key.
    pub(crate) fn origin(&self, key: &str) -> Option<&Origin> {
        self.merged.origin(key)
    }

    /// Whether a layer may set this value.
    pub(crate) fn check(&self, key: &[String], value: &toml::Value, layer: Layer) -> Check {
        self.merged.schema().check(key, value, layer)
    }

    /// Formats each setting as a line of TOML without secrets, if wanted with its origin as a comment.
    pub(crate) fn lines(&self, with_origin: bool) -> Vec<String> {
        self.merged.lines(with_origin)
    }
}

/// Returns the schema of all settings, for a program without additions.
pub(crate) fn known_schema() -> Schema {
    checks::schema(&zk_providers::Vendors::default())
}

#[cfg(test)]
pub(crate) mod tests;
#[cfg(test)]
pub(crate) use tests::of_text;
