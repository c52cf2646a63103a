use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use serde::Serialize;
use serde_json::Value;
use zk_core::events::{ContextReduced, ResultPatch, SessionLoaded, ToolBegin, ToolTransform};
use zk_core::kernel::{BoxError, Cx, Event, HookOptions, Notify, Plugin, Reach, Scope};
use zk_core::model::{Block, CallId, Effect, Effects, ToolContent};
use zk_core::service::{
    ContextId, HostFiles, PinnedContext, PromptSection, Redactor, TurnCwd, section_order,
};

use super::{
    Instruction, Instructions, MAX_BYTES, Skipped, instructions, nearest_instructions, read_own, shell,
};
use crate::context::workplace::Workplace;
use crate::discovery::catalog::escape;

/// Maximum number of pending calls whose directories are remembered.
const MAX_CALLS: usize = 64;

/// Plugin for instructions of the person and the project: a section of the system prompt, read again for each
/// run, and those of a subdirectory with the first result of a call there. They survive compactions.
///
/// The plugin reads files through the bus's `dyn HostFiles`.
#[derive(Clone, Debug)]
pub struct InstructionsPlugin {
    cwd: PathBuf,
    root: PathBuf,
    own: Option<PathBuf>,
    /// Whether files of the project are ignored.
    without_project: bool,
    told: Arc<Mutex<Told>>,
}

/// Instructions that were delivered, by agent.
#[derive(Debug, Default)]
struct Told {
    /// Last event about read instructions.
    loaded: Option<InstructionsLoaded>,
    /// Files in the system prompt, by canonical path.
    prompt: BTreeSet<PathBuf>,
    /// Size of these files, in bytes.
    prompt_bytes: usize,
    prompt_cwd: Option<PathBuf>,
    /// Instructions delivered with results, by agent.
    results: HashMap<Option<ContextId>, Known>,
    /// Directories of calls without a result yet.
    calls: Vec<(CallId, Vec<PathBuf>)>,
}

#[derive(Debug, Default)]
struct Known {
    /// Files that were delivered with a result that is still sent, with the delivered text.
    files: BTreeMap<PathBuf, String>,
    /// Files whose results may no longer be sent: they are delivered again, unless pinned first.
    left: BTreeMap<PathBuf, String>,
    /// Files that are pinned since a compaction, with the delivered text.
    pinned: BTreeMap<PathBuf, String>,
    /// Files that exceeded the size limit.
    skipped: BTreeSet<PathBuf>,
    /// Directories that were searched in this run.
    looked: BTreeSet<PathBuf>,
}

impl Known {
    /// Bytes of all instructions that the context has, or will have again.
    fn bytes(&self) -> usize {
        [&self.files, &self.left, &self.pinned].into_iter().flat_map(BTreeMap::values).map(String::len).sum()
    }

    fn has_file(&self, path: &Path) -> bool {
        self.files.contains_key(path) || self.pinned.contains_key(path) || self.skipped.contains(path)
    }
}

/// Instructions to deliver with a result.
#[derive(Default)]
struct News {
    text: Option<String>,
    /// Event to announce if not everything could be read.
    loaded: Option<InstructionsLoaded>,
}

/// Instructions of a conversation were read: for its first run and after changes; those of a subdirectory
/// only if they exceed the size limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct InstructionsLoaded {
    /// Files: the person's, then from the project's root downwards.
    pub files: Vec<PathBuf>,
    /// File whose end was cut, because all files together are too long.
    pub cut: Option<PathBuf>,
    /// Files that were not read, with the reason.
    pub skipped: Vec<String>,
}

impl Event for InstructionsLoaded {
    const NAME: &'static str = "instructions:loaded";
    const CANCELLABLE: bool = false;
    type Reply = ();
    type Mode = Notify;
}

impl InstructionsPlugin {
    /// Plugin for work in `cwd` of the project `root` (or in a run's later directory), and for the person's
    /// file `own`.
    #[must_use]
    pub fn new(cwd: &Path, root: &Path, own: Option<PathBuf>) -> Self {
        let (cwd, root) = (cwd.to_path_buf(), root.to_path_buf());
        Self { cwd, root, own, without_project: false, told: Arc::default() }
    }

    /// Ignores the project's files: only the person's are read.
    ///
    /// ```
    /// use std::path::{Path, PathBuf};
    /// use zk_skills::InstructionsPlugin;
    ///
    /// let own = Some(PathBuf::from("/home/me/.config/zk/AGENTS.md"));
    /// let place = Path::new("/home/me/unknown");
    /// let plugin = InstructionsPlugin::new(place, place, own).without_project();
    /// # let _ = plugin;
    /// ```
    #[must_use]
    pub fn without_project(mut self) -> Self {
        self.without_project = true;
        self
    }

    fn lock_told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Working directory of the run of `cx`.
    fn cwd(&self, cx: &Cx) -> PathBuf {
        TurnCwd::of(cx).unwrap_or_else(|| self.cwd.clone())
    }

    /// Reads the files for work in `cwd`. Blocks on the file system.
    fn read(&self, cwd: &Path, files: &dyn HostFiles) -> Instructions {
        let place = Workplace::new(&self.cwd, &self.root).moved(Some(cwd.to_path_buf()), files);
        let mut found = match self.without_project {
            true => Instructions::default(),
            false => instructions(cwd, &place.project, files),
        };
        let Some(path) = &self.own else { return found };
        match read_own(path, files) {
            Ok(None) => {}
            Ok(Some(file)) => {
                // Two names of one file, such as links, count once.
                let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
                let own = real(&file.path);
                let is_other = |other: &Instruction| real(&other.path) != own;
                found.files.retain(is_other);
                found.files.insert(0, file);
                found.limit();
            }
            Err(why) => found.skipped.insert(0, Skipped { path: path.clone(), why }),
        }
        found
    }

    /// Text of the section, and the event if it has changed.
    fn section(&self, cwd: PathBuf, found: &Instructions) -> (String, Option<InstructionsLoaded>) {
        let loaded = InstructionsLoaded {
            files: found.files.iter().map(|file| file.path.clone()).collect(),
            cut: found.files.iter().find(|file| file.cut).map(|file| file.path.clone()),
            skipped: found
                .skipped
                .iter()
                .map(|file| format!("{}: {}", file.path.display(), file.why))
                .collect(),
        };
        let mut told = self.lock_told();
        let real = found.files.iter().filter_map(|file| file.path.canonicalize().ok());
        told.prompt = real.collect();
        told.prompt_bytes = found.files.iter().map(|file| file.text.len()).sum();
        told.prompt_cwd = Some(cwd);
        told.results.values_mut().for_each(|known| known.looked.clear());
        let news = (told.loaded.as_ref() != Some(&loaded)).then(|| loaded.clone());
        told.loaded = Some(loaded);
        let own = self.own.as_deref();
        let texts = found.files.iter().map(|file| format_for_prompt(file, Some(&*file.path) == own));
        (texts.collect::<Vec<_>>().join("\n\n"), news)
    }

    /// Directory whose instructions are in the system prompt; a turn may work below it.
    fn prompt_cwd(&self, cx: &Cx) -> PathBuf {
        let known = self.lock_told().prompt_cwd.clone();
        known.unwrap_or_else(|| self.cwd(cx))
    }

    /// Remembers the directory of a call, if it is below that of the system prompt.
    fn remember_directory(&self, begin: &ToolBegin, cx: &Cx) {
        let (cwd, top) = (self.cwd(cx), self.prompt_cwd(cx));
        let Effects::Known { list } = &begin.effects else { return };
        if self.without_project {
            return;
        }
        let mut dirs = Vec::new();
        for effect in list {
            match effect {
                Effect::Reads { paths } | Effect::Writes { paths } => {
                    dirs.extend(paths.iter().map(|path| {
                        let mut path = cwd.join(path);
                        // A name with an extension is taken for a file; a directory of such a name counts
                        // with the first file in it.
                        if path.extension().is_some() {
                            path.pop();
                        }
                        path
                    }));
                }
                Effect::Executes { command: Some(line), .. } => {
                    let own = begin.args.get("command").and_then(Value::as_str);
                    dirs.push(shell::directory_of_call(line, own, &cwd));
                }
                Effect::Executes { command: None, .. }
                | Effect::Network { .. }
                | Effect::LeavesContext { .. } => {}
            }
        }
        // Parent directories count as well.
        dirs.retain(|dir| dir.starts_with(&top) && *dir != top);
        if !dirs.is_empty() {
            let mut told = self.lock_told();
            if told.calls.len() == MAX_CALLS {
                told.calls.remove(0);
            }
            told.calls.push((begin.call.call_id.clone(), dirs));
        }
    }

    /// Instructions for the result of a call, if it is the first in its directory.
    async fn instructions_for_result(&self, call: &CallId, cx: &Cx) -> Result<News, BoxError> {
        let context = context_of(cx);
        let dirs = {
            let mut told = self.lock_told();
            let Some(at) = told.calls.iter().position(|(id, _)| id == call) else {
                return Ok(News::default());
            };
            let (_, mut dirs) = told.calls.remove(at);
            if let Some(known) = told.results.get(&context) {
                dirs.retain(|dir| !known.looked.contains(dir));
            }
            dirs
        };
        let Some(files) = cx.service::<dyn HostFiles>().filter(|_| !dirs.is_empty()) else {
            return Ok(News::default());
        };
        let (cwd, begun) = (self.prompt_cwd(cx), Workplace::new(&self.cwd, &self.root));
        let find = move || {
            let root = begun.moved(Some(cwd.clone()), &*files).project;
            (nearest_instructions(&dirs, &cwd, &root, &*files), dirs)
        };
        let (mut found, dirs) = tokio::task::spawn_blocking(find).await?;
        if let Some(redactor) = cx.service::<Redactor>() {
            found.iter_mut().for_each(|(_, file)| file.text = redactor.redact(&file.text).into_owned());
        }
        let mut told = self.lock_told();
        let Told { prompt, prompt_bytes, results, .. } = &mut *told;
        let known = results.entry(context).or_default();
        known.looked.extend(dirs);
        let (mut texts, mut loaded) = (Vec::new(), InstructionsLoaded::default());
        for (path, mut file) in found {
            if prompt.contains(&path) || known.has_file(&path) {
                continue;
            }
            known.left.remove(&path);
            let left = MAX_BYTES.saturating_sub(*prompt_bytes + known.bytes());
            let shown = file.path.display();
            if left == 0 {
                let why = format!("all instructions together fill the limit of {}", limit());
                loaded.skipped.push(format!("{shown}: {why}"));
                texts.push(format!("(The instructions in {shown} are left out: {why}. Read the file.)"));
                known.skipped.insert(path);
                continue;
            }
            file.cut_to(left);
            if file.cut {
                loaded.cut = Some(file.path.clone());
            }
            let text = format_for_result(&file);
            known.files.insert(path, text.clone());
            loaded.files.push(file.path);
            texts.push(text);
        }
        let is_all = loaded.cut.is_none() && loaded.skipped.is_empty();
        let text = (!texts.is_empty()).then(|| texts.join("\n"));
        Ok(News { text, loaded: (!is_all).then_some(loaded) })
    }

    /// Marks instructions of omitted results: they are delivered again with the next result, or pinned.
    fn mark_results_omitted(&self, cx: &Cx) {
        if let Some(known) = self.lock_told().results.get_mut(&context_of(cx)) {
            let files = std::mem::take(&mut known.files);
            known.left.extend(files);
            known.looked.clear();
        }
    }

    fn forget(&self, cx: &Cx) {
        self.lock_told().results.remove(&context_of(cx));
    }
}

fn context_of(cx: &Cx) -> Option<ContextId> {
    cx.service::<ContextId>().map(|id| (*id).clone())
}

/// Formats a file for the system prompt.
fn format_for_prompt(file: &Instruction, is_own: bool) -> String {
    let cut = if file.cut { "\n(The rest is left out: it is too long.)" } else { "" };
    let whose = if is_own { "of the user, for all projects" } else { "of the project" };
    format!("Instructions {whose}, from {}:\n{}{cut}", file.path.display(), file.text)
}

/// Formats a file for the end of a result.
fn format_for_result(file: &Instruction) -> String {
    let tag = "project_instructions";
    let text = file.text.replace(&format!("</{tag}"), &format!("&lt;/{tag}"));
    let cut = if file.cut { "\n(The rest is left out: it is too long.)" } else { "" };
    format!("<{tag} from=\"{}\">\n{text}{cut}\n</{tag}>", escape(&file.path.display().to_string()))
}

/// Appends text to a result.
pub(crate) fn with_text(content: &ToolContent, more: &str) -> ToolContent {
    match content {
        ToolContent::Text(text) => ToolContent::Text(format!("{text}\n\n{more}")),
        ToolContent::Blocks(blocks) => {
            let mut blocks = blocks.clone();
            blocks.push(Block::text(more));
            ToolContent::Blocks(blocks)
        }
    }
}

#[async_trait]
impl PromptSection for InstructionsPlugin {
    fn order(&self) -> i32 {
        section_order::PROJECT
    }

    async fn text(&self, cx: &Cx) -> Result<String, BoxError> {
        let files = cx.service::<dyn HostFiles>().ok_or("nothing here reads files")?;
        let (reader, cwd) = (self.clone(), self.cwd(cx));
        let at = cwd.clone();
        let found = tokio::task::spawn_blocking(move || reader.read(&at, &*files)).await?;
        let (text, news) = self.section(cwd, &found);
        if let Some(news) = news {
            cx.emit(news).await?;
        }
        Ok(text)
    }
}

/// Pins delivered instructions of subdirectories, byte for byte, since they stay valid after a compaction.
#[async_trait]
impl PinnedContext for InstructionsPlugin {
    async fn text(&self, cx: &Cx) -> Result<Option<String>, BoxError> {
        let mut told = self.lock_told();
        let Some(known) = told.results.get_mut(&context_of(cx)) else { return Ok(None) };
        let (left, files) = (std::mem::take(&mut known.left), std::mem::take(&mut known.files));
        known.pinned.extend(left.into_iter().chain(files));
        let texts: Vec<&str> = known.pinned.values().map(String::as_str).collect();
        Ok((!texts.is_empty()).then(|| texts.join("\n")))
    }
}

impl Plugin for InstructionsPlugin {
    fn name(&self) -> &'static str {
        "instructions"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        scope.provide::<dyn PromptSection>("instructions", Arc::new(self.clone()))?;
        let everywhere = HookOptions { reach: Some(Reach::Descendants), ..HookOptions::default() };
        let plugin = self.clone();
        scope.on_sync_at(everywhere, move |begin: &ToolBegin, cx: &Cx| plugin.remember_directory(begin, cx));
        scope.on_async_with_at(
            everywhere,
            self.clone(),
            async |plugin: &Self, result: &ToolTransform, cx: &Cx| {
                if result.is_error {
                    return Ok::<_, BoxError>(None);
                }
                let news = plugin.instructions_for_result(&result.call.call_id, cx).await?;
                if let Some(loaded) = news.loaded {
                    cx.emit(loaded).await?;
                }
                let content = news.text.map(|news| with_text(&result.content, &news));
                Ok(content.map(|content| ResultPatch { content: Some(content), ..ResultPatch::default() }))
            },
        );
        scope.provide::<dyn PinnedContext>("instructions", Arc::new(self.clone()))?;
        let plugin = self.clone();
        scope.on_sync_at(everywhere, move |_: &ContextReduced, cx: &Cx| plugin.mark_results_omitted(cx));
        let plugin = self.clone();
        scope.on_sync(move |_: &SessionLoaded, cx: &Cx| plugin.forget(cx));
        Ok(())
    }
}

/// Size limit as text for a person.
#[must_use]
pub fn limit() -> String {
    format!("{} KiB", MAX_BYTES / 1024)
}
