//! Skills of a conversation: the available ones and those in use.

mod in_use;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use zk_core::events::ResourcesDiscover;
use zk_core::kernel::{Cx, EmitError, Scope};
use zk_core::model::{ToolError, ToolErrorKind};
use zk_core::service::{ContextId, HostFiles, Trust, TurnCwd};

use crate::context::workplace::Workplace;
use crate::discovery::catalog::catalog;
use crate::discovery::discover::{SkillApproval, SkillRoots, SkillSet, dirs, discover};
use crate::discovery::served_skills::served;
use crate::events::{SkillsCatalog, SkillsResolved};
use crate::skill::{Skill, SkillSource, place};

/// Default of the most skills in use at a time.
const MAX_ACTIVE_SKILLS: usize = 3;

/// Time after a search in which its result is reused, since an editor writes several files in a row.
const SEARCH_FRESH_FOR: Duration = Duration::from_millis(500);

/// Options of a conversation's skills.
#[derive(Clone, Debug)]
pub struct SkillsOptions {
    /// Directories that are searched for skills.
    pub roots: SkillRoots,
    /// Maximum number of skills in use at a time.
    pub max_active: usize,
    /// Whether skills are searched again as soon as files change, not only for the next run: for hosts that
    /// show skills to a person.
    pub watched: bool,
}

impl SkillsOptions {
    /// Options for these directories, with up to three skills in use.
    #[must_use]
    pub fn new(roots: SkillRoots) -> Self {
        Self { roots, max_active: MAX_ACTIVE_SKILLS, watched: false }
    }
}

/// Skills of a conversation and its sub-agents; each agent has its own skills in use. Clones share the state.
#[derive(Clone)]
pub struct Skills {
    inner: Arc<Inner>,
}

struct Inner {
    options: SkillsOptions,
    state: Mutex<State>,
    /// Lock held during a search, so that concurrent callers share its result.
    search: tokio::sync::Mutex<()>,
    /// Whether a run is active; it keeps its skills.
    running: tokio::sync::watch::Sender<bool>,
    /// Notification that skills are searched in another directory.
    moved: tokio::sync::Notify,
}

#[derive(Default)]
struct State {
    set: Option<Arc<SkillSet>>,
    /// Directory and time of the last search.
    searched: Option<(PathBuf, Instant)>,
    /// Workplace of the current set.
    place: Option<Workplace>,
    /// Skills that presets of the agent declare.
    declared: Vec<Skill>,
    /// Number of changes that sources reported, and how many of them the last search included.
    source_changes: u64,
    searched_changes: u64,
    contexts: HashMap<Option<ContextId>, InUse>,
    /// Section of the system prompt, with the set that it was made from.
    catalog: Option<(Arc<SkillSet>, Arc<str>)>,
}

impl State {
    /// Whether a source has reported changes since the last search.
    fn is_stale(&self) -> bool {
        self.searched_changes != self.source_changes
    }
}

/// Skills in use by one agent, and their texts in its conversation.
#[derive(Default)]
struct InUse {
    /// Skills in use, by name.
    active: BTreeMap<String, Arc<Skill>>,
    /// First skill of the run that a person allowed only once.
    allowed_once: Option<String>,
    /// Hashes of the texts in the conversation, by name.
    delivered: BTreeMap<String, u64>,
}

impl std::fmt::Debug for Skills {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Skills").field("options", &self.inner.options).finish_non_exhaustive()
    }
}

impl Skills {
    /// Creates an empty set of skills with these options, without a search.
    #[must_use]
    pub fn new(options: SkillsOptions) -> Self {
        Self {
            inner: Arc::new(Inner {
                options,
                state: Mutex::default(),
                search: tokio::sync::Mutex::default(),
                running: tokio::sync::watch::Sender::new(false),
                moved: tokio::sync::Notify::new(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the skills that presets of the agent declare.
    pub(crate) fn declare(&self, declared: Vec<Skill>) {
        self.state().declared = declared;
    }

    /// Skills found by the last search; `None` before the first.
    #[must_use]
    pub fn found(&self) -> Option<Arc<SkillSet>> {
        self.state().set.clone()
    }

    /// Skills of the conversation, searched on the first call; concurrent callers share the search.
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

    /// Searches again, unless a search has just ended or a run is active. Does nothing without changes.
    ///
    /// # Errors
    /// As [`Skills::resolve`].
    pub async fn refresh(&self, cx: &Cx) -> Result<Arc<SkillSet>, EmitError> {
        match self.found().filter(|_| *self.inner.running.borrow()) {
            Some(set) => Ok(set),
            None => self.begin_run(cx).await,
        }
    }

    /// Skills for a run that begins.
    pub(crate) async fn begin_run(&self, cx: &Cx) -> Result<Arc<SkillSet>, EmitError> {
        let cwd = self.cwd(cx);
        let fresh = |state: &State| {
            let is_fresh = |(at, when): &(PathBuf, Instant)| *at == cwd && when.elapsed() < SEARCH_FRESH_FOR;
            state.set.clone().filter(|_| state.searched.as_ref().is_some_and(is_fresh) && !state.is_stale())
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

    /// Searches again at once, even during a run. If that fails, the previous set is kept.
    ///
    /// # Errors
    /// As [`Skills::resolve`].
    pub async fn reload(&self, cx: &Cx) -> Result<Arc<SkillSet>, EmitError> {
        let _search = self.inner.search.lock().await;
        self.search(cx, false).await
    }

    /// Searches again when no run is active, since a run keeps its skills.
    pub(crate) async fn reload_idle(&self, cx: &Cx) -> Result<Arc<SkillSet>, EmitError> {
        let _search = self.inner.search.lock().await;
        self.search(cx, true).await
    }

    /// Reacts to a change of a source: searches at once if no run is active, and otherwise after the run, in
    /// a task of `scope`.
    ///
    /// # Errors
    /// As [`Skills::resolve`], for an immediate search.
    pub async fn source_changed(&self, scope: &Scope, cx: &Cx) -> Result<(), EmitError> {
        self.state().source_changes += 1;
        if !*self.inner.running.borrow() {
            return self.reload_idle(cx).await.map(|_| ());
        }
        let (skills, scope) = (self.clone(), scope.clone());
        scope.clone().spawn(async move {
            skills.wait_until_idle().await;
            if let Some(bus) = scope.bus().filter(|_| skills.state().is_stale()) {
                // A failing handler is reported by the bus, and the previous set is kept.
                let _ = skills.reload_idle(&bus.cx()).await;
            }
        });
        Ok(())
    }

    async fn search(&self, cx: &Cx, only_idle: bool) -> Result<Arc<SkillSet>, EmitError> {
        let changes = self.state().source_changes;
        let (files, trust) = (cx.service::<dyn HostFiles>(), cx.service::<dyn Trust>());
        let mut roots = self.inner.options.roots.clone();
        // Of two skills of one name, the first is used.
        roots.inline.splice(..0, self.state().declared.iter().cloned());
        let asked = self.cwd(cx);
        if cx.bus().has_handlers::<ResourcesDiscover>() {
            let answers = cx.emit(ResourcesDiscover { cwd: asked.clone() }).await?;
            let dirs = answers.into_iter().flat_map(|answer| answer.reply.skills);
            roots.configured.extend(dirs.filter(|dir| dir.is_absolute()));
        }
        let cwd = asked.clone();
        let found = tokio::task::spawn_blocking(move || {
            let files = files?;
            let place = Workplace::new(&roots.cwd, &roots.project).moved(Some(cwd), &*files);
            (roots.cwd, roots.project) = (place.cwd.clone(), place.project.clone());
            Some((discover(&roots, &*files, trust.as_deref()), place))
        });
        // If the search panicked, or the host reads no files, the previous set is kept.
        let Ok(Some((mut found, place))) = found.await else { return Ok(self.found().unwrap_or_default()) };
        self.add_served(&mut found, cx);
        let (set, reloaded) = {
            let mut state = self.state();
            if only_idle && *self.inner.running.borrow() {
                return Ok(state.set.clone().unwrap_or_default());
            }
            state.searched = Some((asked, Instant::now()));
            state.searched_changes = changes;
            if state.place.replace(place.clone()).is_some_and(|before| before != place) {
                self.inner.moved.notify_one();
            }
            match &state.set {
                Some(before) if **before == found => return Ok(before.clone()),
                // If a directory has become unreadable, its skills are unknown, and the previous set is kept.
                Some(before) if found.unread.iter().any(|dir| !before.unread.contains(dir)) => {
                    return Ok(before.clone());
                }
                before => {
                    let reloaded = before.is_some();
                    (state.set.insert(Arc::new(found)).clone(), reloaded)
                }
            }
        };
        let names = |skills: &[Arc<Skill>]| -> Vec<String> {
            skills.iter().map(|skill| skill.name().to_owned()).collect()
        };
        let broken = set.broken.iter();
        cx.emit(SkillsResolved {
            skills: names(&set.skills),
            untrusted: names(&set.untrusted),
            broken: broken
                .map(|skill| format!("{}: {}", skill.path.display(), skill.diagnostic.message))
                .collect(),
            shadowed: set.shadowed.iter().map(|(skill, first)| describe_shadowed(skill, first)).collect(),
            reloaded,
        })
        .await?;
        let made = SkillsCatalog { skills: names(&set.skills), text: catalog(&set) };
        let text = cx.emit(made).await?.text;
        self.state().catalog = Some((set.clone(), text.into()));
        Ok(set)
    }

    /// Adds served skills. Their names have their host's prefix, so they hide no others.
    fn add_served(&self, set: &mut SkillSet, cx: &Cx) {
        let roots = &self.inner.options.roots;
        for skill in served(cx).into_iter().filter(|skill| roots.uses(skill.name())) {
            if let Err(at) = set.skills.binary_search_by(|other| other.name().cmp(skill.name())) {
                set.skills.insert(at, Arc::new(skill));
            }
        }
    }
}

impl Skills {
    /// Section of the system prompt about `set`, cached.
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
}

/// Describes a skill that is hidden by another of the same name.
fn describe_shadowed(skill: &Skill, first: &str) -> String {
    format!("{} of {} (used is that of {first})", skill.name(), place(skill))
}

/// Checks that the current files of a skill are approved.
pub(crate) fn check_approval(
    skill: &Skill,
    files: &dyn HostFiles,
    trust: Option<&dyn Trust>,
    project: &std::path::Path,
) -> Result<(), ToolError> {
    match skill.source {
        // A bundle was approved with all its files when it was added.
        SkillSource::Configured
        | SkillSource::User
        | SkillSource::Bundle
        | SkillSource::Inline
        | SkillSource::Builtin => Ok(()),
        // A person was asked before its first use.
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
    /// Root of the project to which the skills belong.
    pub(crate) fn project(&self) -> PathBuf {
        self.workplace().project
    }

    fn workplace(&self) -> Workplace {
        let begun = || Workplace::new(&self.inner.options.roots.cwd, &self.inner.options.roots.project);
        self.state().place.clone().unwrap_or_else(begun)
    }

    /// Directories that are searched, existing or not.
    pub(crate) fn dirs(&self) -> Vec<PathBuf> {
        let Workplace { cwd, project } = self.workplace();
        dirs(&SkillRoots { cwd, project, ..self.inner.options.roots.clone() })
    }

    /// Waits until skills are searched in another directory.
    pub(crate) async fn wait_for_move(&self) {
        self.inner.moved.notified().await;
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.inner.options.watched
    }

    pub(crate) fn is_running(&self) -> bool {
        *self.inner.running.borrow()
    }

    /// Records that a run begins or has ended.
    pub(crate) fn set_running(&self, is_running: bool) {
        self.inner.running.send_replace(is_running);
    }

    /// Waits until no run is active.
    pub(crate) async fn wait_until_idle(&self) {
        // Cannot fail, since the sender is alive.
        let _ = self.inner.running.subscribe().wait_for(|running| !running).await;
    }

    /// Working directory of the conversation of `cx`.
    pub(crate) fn cwd(&self, cx: &Cx) -> PathBuf {
        TurnCwd::of(cx).unwrap_or_else(|| self.inner.options.roots.cwd.clone())
    }
}
