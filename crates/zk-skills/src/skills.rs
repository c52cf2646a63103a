//! The skills of a conversation: which there are, and which are in use.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use zk_core::events::ResourcesDiscover;
use zk_core::kernel::{Cx, EmitError};
use zk_core::model::{ToolError, ToolErrorKind};
use zk_core::service::{ContextId, HostFiles, ToolCx, Trust};

use crate::catalog::catalog;
use crate::delivery::deliver;
use crate::discover::{SkillApproval, SkillRoots, SkillSet, dirs, discover};
use crate::events::{ActivatedBy, DeactivatedBecause, SkillActivated, SkillDeactivated, SkillsResolved};
use crate::served::served;
use crate::skill::{Bundle, Skill, SkillSource};
use crate::{allowed, interpolate, tools};

/// How many skills may be in use at once, unless said otherwise.
const MAX_ACTIVE: usize = 3;

/// How long nobody looks for skills again: an editor writes several files at once.
const FRESH: Duration = Duration::from_millis(500);

/// What the skills of a conversation are made of.
#[derive(Clone, Debug)]
pub struct SkillsOptions {
    /// Where they are looked for.
    pub roots: SkillRoots,
    /// How many may be in use at once.
    pub max_active: usize,
    /// Looks for them again when files change between two runs, and not with the next run only: for a host that shows
    /// them to a person.
    pub watched: bool,
}

impl SkillsOptions {
    /// The skills of `roots`, of which three may be in use at once.
    #[must_use]
    pub fn new(roots: SkillRoots) -> Self {
        Self { roots, max_active: MAX_ACTIVE, watched: false }
    }
}

/// The skills of a conversation and of its sub-agents, each of which uses its own. Clones are the same.
#[derive(Clone)]
pub struct Skills {
    inner: Arc<Inner>,
}

struct Inner {
    options: SkillsOptions,
    state: Mutex<State>,
    /// Held while they are looked for, so that everybody waits for the one search.
    search: tokio::sync::Mutex<()>,
    /// Whether a run is at work, whose skills stay as they are.
    running: tokio::sync::watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    set: Option<Arc<SkillSet>>,
    /// When somebody looked for them last.
    searched: Option<Instant>,
    contexts: HashMap<Option<ContextId>, InUse>,
    /// The section of the system prompt, of the set it was made of.
    catalog: Option<(Arc<SkillSet>, Arc<str>)>,
}

/// What one agent uses.
#[derive(Default)]
struct InUse {
    /// The skills in use, by name.
    active: BTreeMap<String, Arc<Skill>>,
    /// Which texts are in its conversation, by name.
    delivered: BTreeMap<String, u64>,
}

impl std::fmt::Debug for Skills {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Skills").field("options", &self.inner.options).finish_non_exhaustive()
    }
}

impl Skills {
    /// The skills that `options` describe. Nothing is looked for yet.
    #[must_use]
    pub fn new(options: SkillsOptions) -> Self {
        Self {
            inner: Arc::new(Inner {
                options,
                state: Mutex::default(),
                search: tokio::sync::Mutex::default(),
                running: tokio::sync::watch::Sender::new(false),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The skills that were found; nothing before anybody looked for them.
    #[must_use]
    pub fn found(&self) -> Option<Arc<SkillSet>> {
        self.state().set.clone()
    }

    /// The skills. Whoever asks first looks for them; the others wait for that.
    ///
    /// # Errors
    /// [`EmitError`] when a handler of `skills:resolved` fails.
    pub async fn resolve(&self, cx: &Cx) -> Result<Arc<SkillSet>, EmitError> {
        if let Some(set) = self.found() {
            return Ok(set);
        }
        let _search = self.inner.search.lock().await;
        match self.found() {
            Some(set) => Ok(set),
            None => self.search(cx, false).await,
        }
    }

    /// The skills as they are now, unless somebody has just looked for them. Where nothing changed, nothing happens.
    ///
    /// # Errors
    /// As [`Skills::resolve`].
    pub async fn refresh(&self, cx: &Cx) -> Result<Arc<SkillSet>, EmitError> {
        let fresh = |state: &State| {
            let searched = state.searched.filter(|at| at.elapsed() < FRESH);
            searched.and_then(|_| state.set.clone())
        };
        if let Some(set) = fresh(&self.state()) {
            return Ok(set);
        }
        let _search = self.inner.search.lock().await;
        let found = fresh(&self.state());
        match found {
            Some(set) => Ok(set),
            None => self.search(cx, false).await,
        }
    }

    /// Looks for them again. The set before stays where that fails.
    ///
    /// # Errors
    /// As [`Skills::resolve`].
    pub async fn reload(&self, cx: &Cx) -> Result<Arc<SkillSet>, EmitError> {
        let _search = self.inner.search.lock().await;
        self.search(cx, false).await
    }

    /// The same while no run is at work: what a run began with stays until its end.
    pub(crate) async fn reload_idle(&self, cx: &Cx) -> Result<Arc<SkillSet>, EmitError> {
        let _search = self.inner.search.lock().await;
        self.search(cx, true).await
    }

    async fn search(&self, cx: &Cx, only_idle: bool) -> Result<Arc<SkillSet>, EmitError> {
        let (files, trust) = (cx.service::<dyn HostFiles>(), cx.service::<dyn Trust>());
        let mut roots = self.inner.options.roots.clone();
        if cx.bus().has_handlers::<ResourcesDiscover>() {
            let answers = cx.emit(ResourcesDiscover { cwd: roots.cwd.clone() }).await?;
            let dirs = answers.into_iter().flat_map(|answer| answer.reply.skills);
            roots.configured.extend(dirs.filter(|dir| dir.is_absolute()));
        }
        let found = tokio::task::spawn_blocking(move || {
            let files = files?;
            Some(discover(&roots, &*files, trust.as_deref()))
        });
        // A search that broke, or a host that reads no files: what was there stays.
        let Ok(Some(mut found)) = found.await else { return Ok(self.found().unwrap_or_default()) };
        self.add_served(&mut found, cx);
        let (set, reloaded) = {
            let mut state = self.state();
            if only_idle && *self.inner.running.borrow() {
                return Ok(state.set.clone().unwrap_or_default());
            }
            state.searched = Some(Instant::now());
            match &state.set {
                Some(before) if **before == found => return Ok(before.clone()),
                // What a directory has that was read before and cannot be now is not known: what was there stays.
                Some(before) if found.unread.iter().any(|dir| !before.unread.contains(dir)) => {
                    return Ok(before.clone());
                }
                before => {
                    let reloaded = before.is_some();
                    (state.set.insert(Arc::new(found)).clone(), reloaded)
                }
            }
        };
        let names = |skills: &[Arc<Skill>]| skills.iter().map(|skill| skill.name().to_owned()).collect();
        let broken = set.broken.iter();
        cx.emit(SkillsResolved {
            skills: names(&set.skills),
            untrusted: names(&set.untrusted),
            broken: broken
                .map(|skill| format!("{}: {}", skill.path.display(), skill.diagnostic.message))
                .collect(),
            reloaded,
        })
        .await?;
        Ok(set)
    }

    /// Adds the skills that are served. Their names are their hosts', so that none takes the place of another.
    fn add_served(&self, set: &mut SkillSet, cx: &Cx) {
        let exclude = &self.inner.options.roots.exclude;
        for skill in served(cx).into_iter().filter(|skill| exclude.iter().all(|name| name != skill.name())) {
            if let Err(at) = set.skills.binary_search_by(|other| other.name().cmp(skill.name())) {
                set.skills.insert(at, Arc::new(skill));
            }
        }
    }

    /// The names of the skills that the agent of `cx` uses.
    #[must_use]
    pub fn active(&self, cx: &Cx) -> Vec<String> {
        let state = self.state();
        state.contexts.get(&context(cx)).map(|used| used.active.keys().cloned().collect()).unwrap_or_default()
    }

    /// The skill `name`, if the agent of `cx` uses it.
    pub(crate) fn in_use(&self, name: &str, cx: &Cx) -> Result<Arc<Skill>, ToolError> {
        let found = self.state().contexts.get(&context(cx)).and_then(|used| used.active.get(name).cloned());
        found.ok_or_else(|| {
            let why = format!("the skill `{name}` is not in use; call skills_use with its name first");
            ToolError::new(ToolErrorKind::Denied, why)
        })
    }

    /// Why the skills in use do not allow a call, if so: once one of them names its tools, only tools that one of them
    /// names may be called.
    pub(crate) fn forbids(&self, tool: &str, args: &Value, cx: &Cx) -> Option<String> {
        if tools::NAMES.contains(&tool) {
            return None;
        }
        let state = self.state();
        let used = state.contexts.get(&context(cx))?;
        let lists: Vec<&Vec<String>> =
            used.active.values().filter_map(|skill| skill.manifest.allowed_tools.as_ref()).collect();
        let patterns = || lists.iter().flat_map(|list| list.iter().map(String::as_str));
        if lists.is_empty() || allowed::is_allowed(patterns(), tool, args) {
            return None;
        }
        let names: Vec<&str> = used.active.keys().map(String::as_str).collect();
        let tools: Vec<&str> = patterns().collect();
        let tools = if tools.is_empty() { "none".to_owned() } else { tools.join(", ") };
        Some(format!("the skills in use ({}) allow only these tools: {tools}", names.join(", ")))
    }

    /// Takes the skill `name` into use. Gives its text; nothing when the conversation has just that text already.
    ///
    /// # Errors
    /// [`ToolError`] when there is none of that name, it changed since it was approved, or too many are in use.
    pub async fn activate(
        &self,
        name: &str,
        arguments: &str,
        via: ActivatedBy,
        cx: &ToolCx,
    ) -> Result<Option<String>, ToolError> {
        let failed = |error: EmitError| ToolError::failed(error.to_string());
        let set = self.resolve(&cx.cx).await.map_err(failed)?;
        let hidden = |skill: &Skill| via == ActivatedBy::Model && skill.manifest.disable_model_invocation;
        let skill = set.get(name).filter(|skill| !hidden(skill)).cloned();
        let skill = skill.ok_or_else(|| unknown(name, &set))?;
        self.check_room(&skill, &cx.cx)?;
        let files =
            cx.cx.service::<dyn HostFiles>().ok_or_else(|| ToolError::failed("nothing here reads files"))?;
        let (trust, project) = (cx.cx.service::<dyn Trust>(), self.inner.options.roots.project.clone());
        let reading = skill.clone();
        let (body, bundle) = match &skill.served {
            Some(served) => {
                if !self.active(&cx.cx).iter().any(|name| name == skill.name()) {
                    served.check(&skill, &project, &cx.cx).await?;
                }
                (served.body(skill.name(), &cx.cx).await?, served.bundle())
            }
            None => {
                let read = move || read(&reading, &*files, trust.as_deref(), &project);
                let read = tokio::task::spawn_blocking(read).await;
                read.map_err(|error| ToolError::failed(error.to_string()))??
            }
        };
        if via == ActivatedBy::Model {
            self.check_text(&skill, &body, &cx.cx).await?;
        }
        let (mut body, placed) = crate::arguments::substitute(&body, arguments);
        // Commands in a text from elsewhere are text.
        if skill.served.is_none() {
            body = interpolate::interpolate(&body, cx).await;
        }
        let mut text = deliver(&skill, &body, &bundle);
        if !placed && !arguments.trim().is_empty() {
            text.push_str(&format!("\n\nWith these arguments: {}", arguments.trim()));
        }
        let delivered = self.take_into_use(&skill, &text, &cx.cx)?;
        let activated = SkillActivated {
            name: skill.name().to_owned(),
            source: skill.source.as_str().to_owned(),
            via,
            delivered,
        };
        cx.cx.emit(activated).await.map_err(failed)?;
        Ok(delivered.then_some(text))
    }

    fn check_room(&self, skill: &Skill, cx: &Cx) -> Result<(), ToolError> {
        let max = self.inner.options.max_active;
        let active = self.active(cx);
        if active.len() < max || active.iter().any(|name| name == skill.name()) {
            return Ok(());
        }
        let why = format!(
            "{max} skills are in use already ({}), and no more may be at once; go on with those until the run ends",
            active.join(", ")
        );
        Err(ToolError::new(ToolErrorKind::Denied, why))
    }

    fn take_into_use(&self, skill: &Arc<Skill>, text: &str, cx: &Cx) -> Result<bool, ToolError> {
        // Two calls of a batch may have come here together.
        self.check_room(skill, cx)?;
        let mut state = self.state();
        let used = state.contexts.entry(context(cx)).or_default();
        used.active.insert(skill.name().to_owned(), skill.clone());
        let digest = digest(text);
        Ok(used.delivered.insert(skill.name().to_owned(), digest) != Some(digest))
    }

    /// Takes those skills into use that a stored conversation used last, whose texts are in it.
    pub(crate) async fn restore(&self, used: Vec<(String, String)>, cx: &Cx) -> Result<(), EmitError> {
        if used.is_empty() {
            return Ok(());
        }
        let set = self.resolve(cx).await?;
        let first = used.len().saturating_sub(self.inner.options.max_active);
        for (at, (name, text)) in used.iter().enumerate() {
            let Some(skill) = set.get(name) else { continue };
            {
                let mut state = self.state();
                let used = state.contexts.entry(context(cx)).or_default();
                used.delivered.insert(name.clone(), digest(text));
                if at < first {
                    continue;
                }
                used.active.insert(name.clone(), skill.clone());
            }
            let (name, source) = (name.clone(), skill.source.as_str().to_owned());
            cx.emit(SkillActivated { name, source, via: ActivatedBy::Resume, delivered: false }).await?;
        }
        Ok(())
    }

    /// Takes all skills of the agent of `cx` out of use.
    pub(crate) async fn deactivate(&self, reason: DeactivatedBecause, cx: &Cx) -> Result<(), EmitError> {
        let names: Vec<String> = {
            let mut state = self.state();
            let used = state.contexts.get_mut(&context(cx));
            used.map(|used| std::mem::take(&mut used.active).into_keys().collect()).unwrap_or_default()
        };
        for name in names {
            cx.emit(SkillDeactivated { name, reason }).await?;
        }
        Ok(())
    }

    /// The text of skills may not be in the conversation of `cx` any more: the next use of each gives it again.
    pub(crate) fn forget_delivered(&self, cx: &Cx) {
        if let Some(used) = self.state().contexts.get_mut(&context(cx)) {
            used.delivered.clear();
        }
    }

    /// The agent of `cx` is gone, or has another conversation.
    pub(crate) fn forget(&self, cx: &Cx) {
        self.state().contexts.remove(&context(cx));
    }

    /// The thinking level that the skills in use ask for: the highest.
    pub(crate) fn thinking(&self, cx: &Cx) -> Option<zk_core::model::ThinkingLevel> {
        let state = self.state();
        let used = state.contexts.get(&context(cx))?;
        used.active.values().filter_map(|skill| skill.manifest.thinking.as_ref()?.parse().ok()).max()
    }
}

impl Skills {
    /// The section of the system prompt about `set`, made once.
    pub(crate) fn catalog_of(&self, set: &Arc<SkillSet>) -> Arc<str> {
        if let Some((of, text)) = &self.state().catalog
            && Arc::ptr_eq(of, set)
        {
            return text.clone();
        }
        let text: Arc<str> = catalog(set).into();
        self.state().catalog = Some((set.clone(), text.clone()));
        text
    }

    /// The model that the skills in use ask for: that of the first by name that asks for one.
    pub(crate) fn model(&self, cx: &Cx) -> Option<String> {
        let state = self.state();
        let used = state.contexts.get(&context(cx))?;
        used.active.values().find_map(|skill| skill.manifest.model.clone())
    }
}

/// What an agent's skills are kept under.
fn context(cx: &Cx) -> Option<ContextId> {
    cx.service::<ContextId>().map(|id| (*id).clone())
}

fn digest(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// The text and the files of a skill. All files of one of a project must be as they were approved.
fn read(
    skill: &Skill,
    files: &dyn HostFiles,
    trust: Option<&dyn Trust>,
    project: &std::path::Path,
) -> Result<(Arc<str>, Bundle), ToolError> {
    let failed = |error: &dyn std::fmt::Display| ToolError::failed(error.to_string());
    check_approval(skill, files, trust, project)?;
    let body = crate::skill::body(skill, files).map_err(|error| failed(&error))?;
    let bundle = Bundle::of(skill).map_err(|error| failed(&error))?;
    Ok((body, bundle))
}

/// Whether the files of a skill may be used as they are now.
pub(crate) fn check_approval(
    skill: &Skill,
    files: &dyn HostFiles,
    trust: Option<&dyn Trust>,
    project: &std::path::Path,
) -> Result<(), ToolError> {
    match skill.source {
        SkillSource::Configured | SkillSource::User | SkillSource::Inline | SkillSource::Builtin => Ok(()),
        // A person was asked before it was taken into use.
        SkillSource::Server => Ok(()),
        SkillSource::Project => {
            let approval = SkillApproval::of(skill, project, files);
            let approval = approval.map_err(|error| ToolError::failed(error.to_string()))?;
            if trust.is_some_and(|trust| approval.is_given(project, trust)) {
                return Ok(());
            }
            let why = format!(
                "files of the skill `{}` changed since the user approved it, so it cannot be used; the user \
                 approves it again with `zk trust add`",
                skill.name()
            );
            Err(ToolError::new(ToolErrorKind::Denied, why))
        }
    }
}

impl Skills {
    /// The root of the project.
    pub(crate) fn project(&self) -> PathBuf {
        self.inner.options.roots.project.clone()
    }

    /// The directories they are looked for in, there or not.
    pub(crate) fn dirs(&self) -> Vec<PathBuf> {
        dirs(&self.inner.options.roots)
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.inner.options.watched
    }

    /// A run begins, or ended.
    pub(crate) fn note_run(&self, is_running: bool) {
        self.inner.running.send_replace(is_running);
    }

    /// Waits until no run is at work.
    pub(crate) async fn idle(&self) {
        // The sender is here.
        let _ = self.inner.running.subscribe().wait_for(|running| !running).await;
    }

    /// The directory that commands of a skill run in which a person asked for.
    pub(crate) fn cwd(&self) -> PathBuf {
        self.inner.options.roots.cwd.clone()
    }
}

fn unknown(name: &str, set: &SkillSet) -> ToolError {
    let names: Vec<&str> = set.for_model().map(|skill| skill.name()).take(50).collect();
    let there = if names.is_empty() {
        "there are none".to_owned()
    } else {
        format!("there are {}", names.join(", "))
    };
    let untrusted = set.untrusted.iter().any(|skill| skill.name() == name);
    let note = if untrusted { "; the user has not approved the one of this project" } else { "" };
    ToolError::new(ToolErrorKind::NotFound, format!("there is no skill `{name}`{note}; {there}"))
}
