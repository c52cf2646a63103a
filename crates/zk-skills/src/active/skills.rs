//! The skills of a conversation: which there are, and which are in use.

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

/// Most skills in use at once, unless said otherwise.
const MAX_ACTIVE_SKILLS: usize = 3;

/// Time after a search in which nobody looks for skills again: an editor writes several files at once.
const SEARCH_FRESH_FOR: Duration = Duration::from_millis(500);

/// Settings of a conversation's skills.
#[derive(Clone, Debug)]
pub struct SkillsOptions {
    /// Places that are searched for skills.
    pub roots: SkillRoots,
    /// Most skills in use at once.
    pub max_active: usize,
    /// Looks for them again when files change between two runs, and not with the next run only: for a host that shows
    /// them to a person.
    pub watched: bool,
}

impl SkillsOptions {
    /// The skills of `roots`, of which three may be in use at once.
    #[must_use]
    pub fn new(roots: SkillRoots) -> Self {
        Self { roots, max_active: MAX_ACTIVE_SKILLS, watched: false }
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
    /// Lock that is held while skills are looked for, so that everybody waits for the one search.
    search: tokio::sync::Mutex<()>,
    /// Whether a run is at work, whose skills stay as they are.
    running: tokio::sync::watch::Sender<bool>,
    /// Signal that the skills are those of another directory.
    moved: tokio::sync::Notify,
}

#[derive(Default)]
struct State {
    set: Option<Arc<SkillSet>>,
    /// For work in which directory somebody looked for them last, and when.
    searched: Option<(PathBuf, Instant)>,
    /// Workplace that the set is for.
    place: Option<Workplace>,
    /// Number of changes that sources reported, and how many of them the last search knew.
    source_changes: u64,
    searched_changes: u64,
    contexts: HashMap<Option<ContextId>, InUse>,
    /// The section of the system prompt, of the set it was made of.
    catalog: Option<(Arc<SkillSet>, Arc<str>)>,
}

impl State {
    /// Whether a source has others that nobody has looked for.
    fn is_stale(&self) -> bool {
        self.searched_changes != self.source_changes
    }
}

/// Skills in use of one agent, and their texts in its conversation.
#[derive(Default)]
struct InUse {
    /// The skills in use, by name.
    active: BTreeMap<String, Arc<Skill>>,
    /// The first skill of the run that a person allowed for once only.
    allowed_once: Option<String>,
    /// Texts that are in its conversation, by name.
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
                moved: tokio::sync::Notify::new(),
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

    /// The skills as they are now, unless somebody has just looked for them, or a run is at work. Where nothing changed, nothing
    /// happens.
    ///
    /// # Errors
    /// As [`Skills::resolve`].
    pub async fn refresh(&self, cx: &Cx) -> Result<Arc<SkillSet>, EmitError> {
        match self.found().filter(|_| *self.inner.running.borrow()) {
            Some(set) => Ok(set),
            None => self.begin_run(cx).await,
        }
    }

    /// The skills for a run that begins.
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

    /// Looks for them again at once, also in the middle of a run. The set before stays where that fails.
    ///
    /// # Errors
    /// As [`Skills::resolve`].
    pub async fn reload(&self, cx: &Cx) -> Result<Arc<SkillSet>, EmitError> {
        let _search = self.inner.search.lock().await;
        self.search(cx, false).await
    }

    /// Looks for the skills again while no run is at work: those with which a run began stay until its end.
    pub(crate) async fn reload_idle(&self, cx: &Cx) -> Result<Arc<SkillSet>, EmitError> {
        let _search = self.inner.search.lock().await;
        self.search(cx, true).await
    }

    /// A source of skills has others now. Looks for them at once while no run is at work, and after its end otherwise, in a task
    /// of `scope`: what a run began with stays until then.
    ///
    /// # Errors
    /// As [`Skills::resolve`], for a search that is made at once.
    pub async fn source_changed(&self, scope: &Scope, cx: &Cx) -> Result<(), EmitError> {
        self.state().source_changes += 1;
        if !*self.inner.running.borrow() {
            return self.reload_idle(cx).await.map(|_| ());
        }
        let (skills, scope) = (self.clone(), scope.clone());
        scope.clone().spawn(async move {
            skills.idle().await;
            if let Some(bus) = scope.bus().filter(|_| skills.state().is_stale()) {
                // A failing handler is reported by the bus, and what was there stays.
                let _ = skills.reload_idle(&bus.cx()).await;
            }
        });
        Ok(())
    }

    async fn search(&self, cx: &Cx, only_idle: bool) -> Result<Arc<SkillSet>, EmitError> {
        let changes = self.state().source_changes;
        let (files, trust) = (cx.service::<dyn HostFiles>(), cx.service::<dyn Trust>());
        let mut roots = self.inner.options.roots.clone();
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
        // A search that broke, or a host that reads no files: what was there stays.
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
                // A directory that was read before and cannot be now has unknown skills: the set before
                // stays.
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
            shadowed: set.shadowed.iter().map(|(skill, first)| shadow(skill, first)).collect(),
            reloaded,
        })
        .await?;
        let made = SkillsCatalog { skills: names(&set.skills), text: catalog(&set) };
        let text = cx.emit(made).await?.text;
        self.state().catalog = Some((set.clone(), text.into()));
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
}

/// A skill whose name another one has, in words.
fn shadow(skill: &Skill, first: &str) -> String {
    format!("{} of {} (used is that of {first})", skill.name(), place(skill))
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
    /// The root of the project that they are of.
    pub(crate) fn project(&self) -> PathBuf {
        self.place().project
    }

    fn place(&self) -> Workplace {
        let begun = || Workplace::new(&self.inner.options.roots.cwd, &self.inner.options.roots.project);
        self.state().place.clone().unwrap_or_else(begun)
    }

    /// The directories they are looked for in, there or not.
    pub(crate) fn dirs(&self) -> Vec<PathBuf> {
        let Workplace { cwd, project } = self.place();
        dirs(&SkillRoots { cwd, project, ..self.inner.options.roots.clone() })
    }

    /// Waits until they are looked for in another directory.
    pub(crate) async fn moved(&self) {
        self.inner.moved.notified().await;
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.inner.options.watched
    }

    pub(crate) fn is_running(&self) -> bool {
        *self.inner.running.borrow()
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

    /// Returns the working directory of the conversation of `cx`.
    pub(crate) fn cwd(&self, cx: &Cx) -> PathBuf {
        TurnCwd::of(cx).unwrap_or_else(|| self.inner.options.roots.cwd.clone())
    }
}
