//! Slash commands in files: prompts with placeholders for arguments.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use zk_core::events::{Input, InputReply};
use zk_core::kernel::{BoxError, Cx, Event, Item, Notify, Plugin, Scope};
use zk_core::service::{Command, HostFiles, HostRead, ToolCx, Trust, TrustItem, TurnCwd, match_command};

use crate::commands::arguments::Arguments;
use crate::commands::interpolate;
use crate::commands::prompt_command::PromptCommand;
use crate::context::workplace::Workplace;
use crate::skill::{BundleCommand, BundlePlace, Manifest, SkillSource, frontmatter, is_own};

/// Kind of a project's commands in the trust store; only approved ones may run commands in their text.
pub const TRUST_COMMAND: &str = "command";

/// Largest command file, in bytes.
const MAX_BYTES: usize = 256 * 1024;

/// Maximum number of files of one directory of commands.
const MAX_FILES: usize = 500;

/// Maximum number of levels below a directory of commands.
const MAX_DEPTH: usize = 4;

/// Longest description and longest hint in a list, in characters.
const MAX_HELP_CHARS: usize = 100;
const MAX_HINT_CHARS: usize = 30;

/// Directories of a project that contain commands.
const PROJECT_DIRS: [&str; 2] = [".zk/commands", ".claude/commands"];

/// Slash command in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandFile {
    /// Name of the command: the file's path below the directory of commands, with colons between its parts,
    /// without `.md`.
    pub name: String,
    /// Canonical path of the file.
    pub path: PathBuf,
    /// Source of the file.
    pub source: SkillSource,
    /// Description for a list of commands.
    pub help: String,
    /// Hint for the command's arguments; `None` without any.
    pub hint: Option<String>,
    /// Arguments that a person may choose from.
    pub choices: Vec<String>,
    /// Text of a command that is no file.
    pub text: Option<&'static str>,
    /// Bundle that contains the command, if any.
    pub bundle: Option<Arc<BundlePlace>>,
    /// Other files of the same name, which are not used.
    pub shadowed: Vec<PathBuf>,
}

/// Command files were searched, and the result has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommandFilesFound {
    /// Names of the commands.
    pub commands: Vec<String>,
    /// Files that are not used because their name is taken.
    pub conflicts: Vec<String>,
}

impl Event for CommandFilesFound {
    const NAME: &'static str = "commands:found";
    const CANCELLABLE: bool = false;
    type Reply = ();
    type Mode = Notify;
}

/// Finds the person's commands in `user` and those of the project `root` for work in `cwd`. The first of a
/// name is used: the person's, so that no project can replace it, then those of the project from the working
/// directory upwards. Blocks on the file system.
#[must_use]
pub fn command_files(cwd: &Path, root: &Path, user: &[PathBuf], files: &dyn HostFiles) -> Vec<CommandFile> {
    let mut found = own_command_files(user, files);
    let top = if cwd.starts_with(root) { root } else { cwd };
    for dir in cwd.ancestors().take_while(|dir| dir.starts_with(top)) {
        for kind in PROJECT_DIRS {
            find_commands_in(&dir.join(kind), SkillSource::Project, Some(top), files, &mut found);
        }
    }
    found.into_values().collect()
}

/// The person's commands, by name.
fn own_command_files(user: &[PathBuf], files: &dyn HostFiles) -> BTreeMap<String, CommandFile> {
    let mut found = BTreeMap::new();
    for dir in user {
        find_commands_in(dir, SkillSource::User, None, files, &mut found);
    }
    found
}

fn find_commands_in(
    dir: &Path,
    source: SkillSource,
    fence: Option<&Path>,
    files: &dyn HostFiles,
    found: &mut BTreeMap<String, CommandFile>,
) {
    let Ok(real) = dir.canonicalize() else { return };
    let leads_out = fence.is_some_and(|fence| !real.starts_with(fence));
    if leads_out || (source == SkillSource::Project && !is_own(&real, files)) {
        return;
    }
    let mut paths = Vec::new();
    list_files(&real, 0, &mut paths);
    paths.sort();
    for path in paths {
        let Some(name) = name_of(&path, &real) else { continue };
        let how = HostRead { beneath: fence.map(Path::to_path_buf), ..HostRead::whole(MAX_BYTES).own_only() };
        let Ok(file) = files.read(&path, &how) else { continue };
        let text = String::from_utf8_lossy(&file.bytes);
        match found.entry(name.clone()) {
            Entry::Vacant(place) => {
                place.insert(CommandFile::of(name, path, source, &text));
            }
            Entry::Occupied(mut first) if first.get().path != path => first.get_mut().shadowed.push(path),
            Entry::Occupied(_) => {}
        }
    }
}

impl CommandFile {
    /// The command of a bundle; `None` if its file cannot be read.
    fn of_bundle(command: &BundleCommand, files: &dyn HostFiles) -> Option<Self> {
        let how = HostRead { beneath: Some(command.place.root.clone()), ..HostRead::whole(MAX_BYTES) };
        let file = files.read(&command.path, &how).ok()?;
        let text = String::from_utf8_lossy(&file.bytes);
        let mut made = Self::of(command.name.clone(), command.path.clone(), SkillSource::Bundle, &text);
        if let Some(help) = &command.help {
            made.help = one_line(help, MAX_HELP_CHARS);
        }
        made.bundle = Some(command.place.clone());
        Some(made)
    }

    /// The command of a text.
    fn of(name: String, path: PathBuf, source: SkillSource, text: &str) -> Self {
        let (fields, body) = split_text(text);
        let has_place = || ["$ARGUMENTS", "$@", "$1"].iter().any(|place| body.contains(place));
        let hint = fields.argument_hint.clone().or_else(|| has_place().then(|| "[WORDS]".to_owned()));
        Self {
            name,
            path,
            source,
            help: one_line(&help_text(&fields, body), MAX_HELP_CHARS),
            hint: hint.map(|hint| one_line(&hint, MAX_HINT_CHARS)),
            choices: fields.argument_choices,
            text: None,
            bundle: None,
            shadowed: Vec::new(),
        }
    }
}

fn one_line(text: &str, max_chars: usize) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(max_chars).collect()
}

fn list_files(dir: &Path, depth: usize, paths: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && depth < MAX_DEPTH {
            list_files(&path, depth + 1, paths);
        } else if path.extension().is_some_and(|extension| extension == "md") && paths.len() < MAX_FILES {
            paths.push(path);
        }
    }
}

/// Command name of a path: `git/commit.md` is `git:commit`. `None` for a name that cannot be typed.
fn name_of(path: &Path, dir: &Path) -> Option<String> {
    let below = path.strip_prefix(dir).ok()?.with_extension("");
    let name = below.iter().map(|part| part.to_str()).collect::<Option<Vec<_>>>()?.join(":");
    let is_typed = |c: char| c.is_alphanumeric() || "-_:.".contains(c);
    (!name.is_empty() && name.chars().all(is_typed)).then_some(name)
}

/// The description of a command, or its first line.
fn help_text(fields: &Manifest, body: &str) -> String {
    if !fields.description.is_empty() {
        return fields.description.clone();
    }
    let first = body.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    first.trim_start_matches(['#', ' ']).to_owned()
}

/// Frontmatter of a command, if any, and its text.
fn split_text(text: &str) -> (Manifest, &str) {
    match frontmatter::split(text) {
        Some(parts) => (Manifest::fields(parts.yaml), parts.body),
        None => (Manifest::default(), text.trim_start_matches('\u{feff}')),
    }
}

/// Source name of file commands in a list.
pub(crate) const COMMAND_FILES_SOURCE: &str = "command-files";

/// Plugin that makes files commands of the conversation: `/NAME arguments`, typed or in a prompt.
#[derive(Clone, Debug)]
pub struct CommandFilesPlugin {
    begun: Workplace,
    user: Vec<PathBuf>,
    /// Whether files of the project are ignored.
    without_project: bool,
    /// Names of the program's own commands.
    reserved: Arc<[String]>,
    /// Commands of the program that are prompts: names and texts.
    builtin: &'static [(&'static str, &'static str)],
    /// Commands of bundles.
    bundles: Arc<[BundleCommand]>,
    /// Commands that are registered for the person, with the scope that removes them.
    offered: Arc<tokio::sync::Mutex<Option<Offered>>>,
}

type Offered = (Vec<CommandFile>, Scope);

/// Files by name, with the searched directory.
#[derive(Default)]
struct Found {
    files: Vec<CommandFile>,
    at: Workplace,
}

impl CommandFilesPlugin {
    /// Plugin for the commands of the project `root` for work in `cwd` (or in the conversation's later
    /// directory), and the person's in `user`.
    #[must_use]
    pub fn new(cwd: &Path, root: &Path, user: Vec<PathBuf>) -> Self {
        let (reserved, offered) = (Arc::default(), Arc::default());
        Self {
            begun: Workplace::new(cwd, root),
            user,
            without_project: false,
            reserved,
            builtin: &[],
            bundles: Arc::default(),
            offered,
        }
    }

    /// Ignores the project's files.
    #[must_use]
    pub fn without_project(mut self) -> Self {
        self.without_project = true;
        self
    }

    /// Ignores files with these names, which are the program's own commands.
    #[must_use]
    pub fn reserving(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.reserved = names.into_iter().map(Into::into).collect();
        self
    }

    /// Offers built-in commands: names, and texts in the format of files. A file or another source with the
    /// same name replaces one.
    #[must_use]
    pub fn offering(mut self, builtin: &'static [(&'static str, &'static str)]) -> Self {
        self.builtin = builtin;
        self
    }

    /// Offers the commands of bundles, whose names have the bundle's before them.
    #[must_use]
    pub fn with_bundles(mut self, commands: Vec<BundleCommand>) -> Self {
        self.bundles = commands.into();
        self
    }

    /// Searches again, and updates the registered commands.
    pub async fn refresh(&self, cx: &Cx) {
        let mut offered = self.offered.lock().await;
        let found = self.find_files(cx).await.files;
        if offered.as_ref().is_some_and(|(before, _)| *before == found) {
            return;
        }
        if let Some((_, before)) = offered.take() {
            before.close().await;
        }
        let scope = cx.bus().scope(COMMAND_FILES_SOURCE);
        let (mut commands, mut conflicts) = (Vec::new(), Vec::new());
        for command in &found {
            let CommandFile { name, path, shadowed, .. } = command;
            let unused =
                |path: &Path, why: String| format!("/{name} of {} is not used: {why}", path.display());
            let has = |path: &Path| format!("{} has that name, too", path.display());
            conflicts.extend(shadowed.iter().map(|other| unused(other, has(path))));
            if self.is_reserved(name) {
                conflicts.push(unused(path, format!("zk has a command /{name} of its own")));
                continue;
            }
            let item = Arc::new(PromptCommand {
                name: name.clone(),
                help: command.help.clone(),
                hint: command.hint.clone(),
                choices: command.choices.clone(),
            });
            match scope.provide::<dyn Command>(name, item) {
                // A built-in command was not found in a file.
                Ok(()) | Err(_) if command.text.is_some() => {}
                Ok(()) => commands.push(name.clone()),
                Err(taken) => conflicts.push(unused(path, taken.to_string())),
            }
        }
        *offered = Some((found, scope));
        drop(offered);
        // A failing handler is reported by the bus.
        let _ = cx.emit(CommandFilesFound { commands, conflicts }).await;
    }

    /// Whether there may be commands, judged by the directories alone.
    fn may_have_commands(&self, at: &Workplace) -> bool {
        let top = if at.cwd.starts_with(&at.project) { &at.project } else { &at.cwd };
        let is_used = !self.without_project;
        let dirs = at.cwd.ancestors().take_while(|dir| is_used && dir.starts_with(top));
        let project = dirs.flat_map(|dir| PROJECT_DIRS.iter().map(move |kind| dir.join(kind)));
        project.chain(self.user.iter().cloned()).any(|dir| dir.is_dir())
    }

    fn is_reserved(&self, name: &str) -> bool {
        self.reserved.iter().any(|reserved| reserved == name)
    }

    async fn find_files(&self, cx: &Cx) -> Found {
        let Some(host_files) = cx.service::<dyn HostFiles>() else { return Found::default() };
        let (plugin, cwd) = (self.clone(), TurnCwd::of(cx));
        let found = tokio::task::spawn_blocking(move || {
            let at = plugin.begun.moved(cwd, &*host_files);
            let any = plugin.may_have_commands(&at);
            let find = || match plugin.without_project {
                true => own_command_files(&plugin.user, &*host_files).into_values().collect(),
                false => command_files(&at.cwd, &at.project, &plugin.user, &*host_files),
            };
            let mut files = if any { find() } else { Vec::new() };
            let of_bundles =
                plugin.bundles.iter().filter(|command| files.iter().all(|file| file.name != command.name));
            let of_bundles: Vec<CommandFile> =
                of_bundles.filter_map(|command| CommandFile::of_bundle(command, &*host_files)).collect();
            files.extend(of_bundles);
            for (name, text) in plugin.builtin {
                if !files.iter().any(|file| file.name == *name) {
                    let made =
                        CommandFile::of((*name).to_owned(), PathBuf::new(), SkillSource::Builtin, text);
                    files.push(CommandFile { text: Some(text), ..made });
                }
            }
            Found { files, at }
        });
        found.await.unwrap_or_default()
    }

    /// Expands a line that calls a command of a file to its prompt; `None` for other lines. The handler of
    /// `input` does this for prompts that begin a run; for prompts that steer a run, the host does.
    ///
    /// # Errors
    /// A text, when the file cannot be read, or a command in its text cannot run.
    pub async fn prompt_of(&self, text: &str, cx: &Cx) -> Result<Option<String>, BoxError> {
        let Some(rest) = text.strip_prefix('/') else { return Ok(None) };
        // Searched again, since a file may be new.
        let found = self.find_files(cx).await;
        let named = |name: &str| {
            let command = found.files.iter().find(|command| command.name == name)?;
            let is_free = !self.is_reserved(name) && !is_taken(name, cx);
            is_free.then(|| command.clone())
        };
        let Some((command, given)) = match_command(rest, named) else { return Ok(None) };
        let files = cx.service::<dyn HostFiles>().ok_or("nothing here reads files")?;
        let path = command.path.clone();
        let read = move || files.read(&path, &HostRead::whole(MAX_BYTES).own_only());
        let bytes = match command.text {
            Some(text) => text.as_bytes().to_vec(),
            None => tokio::task::spawn_blocking(read).await??.bytes,
        };
        let text = String::from_utf8_lossy(&bytes).replace("\r\n", "\n");
        let (_, body) = split_text(&text);
        let (body, arguments) = match &command.bundle {
            Some(place) => (place.expand(body, None, cx), Arguments::from_zero(given)),
            None => (body.to_owned(), Arguments::new(given)),
        };
        let (mut prompt, placed) = if may_run(&command, &bytes, &found.at.project, cx) {
            let place = ToolCx::new(cx.clone(), TurnCwd::of(cx).unwrap_or(found.at.cwd));
            interpolate::interpolate(body.trim(), &arguments, &place).await
        } else {
            arguments.substitute(body.trim())
        };
        if !placed && !given.trim().is_empty() {
            prompt.push_str(&format!("\n\n{}", given.trim()));
        }
        Ok(Some(prompt))
    }
}

/// Whether `name` is a command from another source.
fn is_taken(name: &str, cx: &Cx) -> bool {
    let has_name =
        |item: &Item<dyn Command>| &*item.name == name && item.source.as_str() != COMMAND_FILES_SOURCE;
    cx.items::<dyn Command>().iter().any(has_name)
}

/// Whether commands in a text may run through the gates. A project's commands need an approval.
fn may_run(command: &CommandFile, bytes: &[u8], project: &Path, cx: &Cx) -> bool {
    if command.source != SkillSource::Project {
        return true;
    }
    let name = command_trust_name(command, project);
    let item = TrustItem { project, kind: TRUST_COMMAND, name: &name, bytes };
    cx.service::<dyn Trust>().is_some_and(|trust| trust.is_trusted(&item))
}

/// Name of a project's command in the trust store: its path in the project.
#[must_use]
pub fn command_trust_name(command: &CommandFile, root: &Path) -> String {
    command.path.strip_prefix(root).unwrap_or(&command.path).to_string_lossy().into_owned()
}

impl Plugin for CommandFilesPlugin {
    fn name(&self) -> &'static str {
        "command-files"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let plugin = self.clone();
        let names = scope.clone();
        // Searched in advance, so that a person can complete their names.
        scope.spawn(async move {
            if let Some(bus) = names.bus() {
                plugin.refresh(&bus.cx()).await;
            }
        });
        scope.provide_service(Arc::new(self.clone()));
        scope.on_async_with(self.clone(), async |plugin: &Self, input: &Input, cx: &Cx| {
            let text = plugin.prompt_of(&input.text, cx).await?;
            Ok::<_, BoxError>(text.map(|text| InputReply::Transform { text, images: None }))
        });
        Ok(())
    }
}
