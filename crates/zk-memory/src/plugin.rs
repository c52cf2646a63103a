use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use zk_core::events::{AgentBeforeStart, ContextReduced, SessionLoaded};
use zk_core::kernel::{BoxError, Cx, HookOptions, Plugin, Reach, Scope, Stage};
use zk_core::model::SessionId;
use zk_core::service::{
    Command, ContextId, ContextMode, ContextProducer, EntryKind, ExpandedPrompts, HostFiles, QUERY_CONTEXT,
    Redactor, Tool, Trust, Ui, visible_line,
};

use crate::command::{MemoryCommand, RememberCommand};
use crate::gate::MemoryGate;
use crate::memory_file::MemoryFile;
use crate::misses::{MissLog, MissOutcome};
use crate::recall::block::{self, BLOCK};
use crate::recall::words::query_words;
use crate::taint::Taint;
use crate::tool::{REMEMBER, Remember};
use crate::{MemoryError, MemorySettings, MemoryStore, RecallQuery, Recalled};

/// Longest wait for the memory, besides the wait for another process.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Maximum number of conversations whose told facts are known.
const MAX_CONTEXTS: usize = 64;

/// Plugin that recalls facts for each prompt, and provides the tool `remember`, `/remember` and `/memory`.
///
/// ```
/// use std::sync::Arc;
/// use zk_core::kernel::Bus;
/// use zk_core::service::{Command, Tool};
/// use zk_memory::{Memory, MemorySettings, MemoryStore};
///
/// # let dir = tempfile::tempdir()?;
/// # let (private, project) = (dir.path().join("memory/memory.db"), dir.path().to_owned());
/// let bus = Bus::new();
/// let store = Arc::new(MemoryStore::new(private));
/// bus.install(&Memory::new(store, project, MemorySettings::default()))?;
/// assert!(bus.item::<dyn Tool>("remember").is_some() && bus.item::<dyn Command>("memory").is_some());
/// # Ok::<(), zk_core::kernel::BoxError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Memory {
    shared: Arc<Shared>,
}

/// State that the parts of the plugin share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Arc<MemoryStore>,
    /// Canonical root of the project.
    pub(crate) project: PathBuf,
    pub(crate) taint: Arc<Taint>,
    settings: MemorySettings,
    files: Vec<MemoryFile>,
    misses: Option<MissLog>,
    outlet: Option<Outlet>,
    state: Mutex<State>,
}

/// Callback for problems.
#[derive(Clone)]
struct Outlet(Arc<dyn Fn(&str) + Send + Sync>);

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlet").finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct State {
    /// Prompts whose context is being built.
    prompts: HashMap<Option<ContextId>, String>,
    /// Lines that a context window has.
    told: HashMap<Option<ContextId>, HashSet<String>>,
    /// Problems that the person was told of.
    problems: HashSet<String>,
}

impl Memory {
    /// Plugin for the project with this canonical root.
    #[must_use]
    pub fn new(store: Arc<MemoryStore>, project: impl Into<PathBuf>, settings: MemorySettings) -> Self {
        let shared = Shared {
            store,
            project: project.into(),
            taint: Arc::default(),
            settings,
            files: Vec::new(),
            misses: None,
            outlet: None,
            state: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Recalls the facts of these files too.
    #[must_use]
    pub fn with_files(self, files: impl IntoIterator<Item = MemoryFile>) -> Self {
        let files = files.into_iter().collect();
        self.with(|shared| shared.files = files)
    }

    /// Logs recalls that told nothing.
    #[must_use]
    pub fn with_misses(self, log: MissLog) -> Self {
        self.with(|shared| shared.misses = Some(log))
    }

    /// Tells the person about problems through `tell`, in place of the service [`Ui`].
    #[must_use]
    pub fn telling(self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.with(|shared| shared.outlet = Some(Outlet(Arc::new(tell))))
    }

    fn with(self, change: impl FnOnce(&mut Shared)) -> Self {
        let Shared { store, project, taint, settings, files, misses, outlet, .. } = &*self.shared;
        let mut shared = Shared {
            store: store.clone(),
            project: project.clone(),
            taint: taint.clone(),
            settings: settings.clone(),
            files: files.clone(),
            misses: misses.clone(),
            outlet: outlet.clone(),
            state: Mutex::default(),
        };
        change(&mut shared);
        Self { shared: Arc::new(shared) }
    }
}

impl Plugin for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let shared = &self.shared;
        scope.provide_service(Arc::new(ExpandedPrompts::default()));
        shared.taint.register(scope);
        MemoryGate::new(shared.clone()).register(scope);
        // Before the handler that asks for context.
        let first = HookOptions { stage: Stage::Early, reach: Some(Reach::Own), time_limit: None };
        let prompts = shared.clone();
        scope.on_sync_at(first, move |start: &AgentBeforeStart, cx: &Cx| {
            if let Some(prompt) = &start.prompt {
                prompts.note_prompt(prompt.text(), cx);
            }
            None
        });
        let reduced = shared.clone();
        scope.on_sync_at(Reach::Own, move |_: &ContextReduced, cx: &Cx| {
            reduced.state().told.remove(&context(cx));
        });
        let loaded = shared.clone();
        scope.on_sync_at(Reach::Own, move |event: &SessionLoaded, cx: &Cx| loaded.restore(event, cx));
        scope.provide::<dyn ContextProducer>(BLOCK, Arc::new(RecallPart(shared.clone())))?;
        scope.provide::<dyn Tool>(REMEMBER, Arc::new(Remember::new(shared.clone())))?;
        scope.provide::<dyn Command>("remember", Arc::new(RememberCommand(shared.clone())))?;
        scope.provide::<dyn Command>("memory", Arc::new(MemoryCommand(shared.clone())))?;
        Ok(())
    }
}

fn context(cx: &Cx) -> Option<ContextId> {
    cx.service::<ContextId>().map(|id| (*id).clone())
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` with the store on a thread that may block.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&MemoryStore) -> Result<T, MemoryError> + Send + 'static,
    ) -> Result<T, MemoryError> {
        let store = self.store.clone();
        match tokio::time::timeout(TIME_LIMIT, tokio::task::spawn_blocking(move || work(&store))).await {
            Ok(Ok(done)) => done,
            Ok(Err(error)) => Err(MemoryError::NoAnswer(error.to_string())),
            Err(_) => Err(MemoryError::NoAnswer(format!("nothing within {} s", TIME_LIMIT.as_secs()))),
        }
    }

    fn note_prompt(&self, prompt: String, cx: &Cx) {
        let mut state = self.state();
        if state.prompts.len() >= MAX_CONTEXTS {
            state.prompts.clear();
        }
        state.prompts.insert(context(cx), prompt);
    }

    /// Learns which lines the stored conversation has.
    fn restore(&self, event: &SessionLoaded, cx: &Cx) {
        let mut lines = HashSet::new();
        for entry in event.entries.iter() {
            let EntryKind::Message { message, .. } = &entry.kind else { continue };
            if message.injected_by.as_deref() == Some(QUERY_CONTEXT) {
                lines.extend(block::lines_in(&message.text()));
            }
        }
        let mut state = self.state();
        if state.told.len() >= MAX_CONTEXTS {
            state.told.clear();
        }
        state.told.insert(context(cx), lines);
    }

    /// Tells the person about a problem once.
    fn tell(&self, problem: &str, cx: &Cx) {
        if !self.state().problems.insert(problem.to_owned()) {
            return;
        }
        let text = format!("warning: {}", visible_line(problem));
        match &self.outlet {
            Some(Outlet(tell)) => tell(&text),
            None => cx.service::<dyn Ui>().iter().for_each(|ui| ui.notify(&text)),
        }
    }

    fn note_miss(&self, outcome: MissOutcome, prompt: &str, cx: &Cx) {
        if let Some(misses) = &self.misses {
            misses.note(outcome, prompt, cx.service::<Redactor>().as_deref());
        }
    }

    /// Brings the facts of files up to date, and recalls. Blocks on the files.
    fn read(
        &self,
        query: &RecallQuery,
        files: Option<&dyn HostFiles>,
        trust: Option<&dyn Trust>,
        problems: &mut Vec<String>,
    ) -> Result<Option<Recalled>, MemoryError> {
        for file in &self.files {
            let Some(files) = files else { break };
            let read = file.read(files, trust);
            problems.extend(read.problem);
            for (_, error) in self.store.sync(&file.synced(read.facts))? {
                problems.push(format!("a fact of {} is left out: {error}", file.path.display()));
            }
        }
        self.store.recall(query)
    }

    /// Block with the facts for a prompt that the context window does not have yet.
    async fn block(self: &Arc<Self>, prompt: String, cx: &Cx) -> Option<String> {
        let max_facts = usize::try_from(self.settings.max_facts).unwrap_or(usize::MAX);
        let query = RecallQuery { words: query_words(&prompt), project: self.project.clone(), max_facts };
        let (files, trust) = (cx.service::<dyn HostFiles>(), cx.service::<dyn Trust>());
        let (reader, wanted) = (self.clone(), query.clone());
        let read = self
            .blocking(move |_| {
                let mut problems = Vec::new();
                let found = reader.read(&wanted, files.as_deref(), trust.as_deref(), &mut problems);
                Ok((found, problems))
            })
            .await;
        let found = match read {
            Ok((found, problems)) => {
                problems.iter().for_each(|problem| self.tell(problem, cx));
                found
            }
            Err(error) => Err(error),
        };
        let recalled = match found {
            Ok(Some(recalled)) => recalled,
            Ok(None) => return None,
            Err(error) => {
                self.tell(&error.to_string(), cx);
                self.note_miss(MissOutcome::Error, &prompt, cx);
                return None;
            }
        };
        let max_tokens = usize::try_from(self.settings.max_tokens).unwrap_or(usize::MAX);
        let (places, lines, is_known) = {
            let mut state = self.state();
            let told = state.told.entry(context(cx)).or_default();
            let (places, lines) = block::news(&recalled.facts, told, &self.project, max_tokens);
            let is_known = recalled.facts.iter().any(|fact| told.contains(&block::line(fact, &self.project)));
            told.extend(lines.iter().cloned());
            (places, lines, is_known)
        };
        let miss = match (query.words.is_empty(), recalled.facts.is_empty(), lines.is_empty()) {
            (true, _, _) => Some(MissOutcome::NoWords),
            (false, true, _) => Some(MissOutcome::NoMatch),
            (false, false, true) if is_known => Some(MissOutcome::AllTold),
            (false, false, true) => Some(MissOutcome::OverBudget),
            (false, false, false) => None,
        };
        if let Some(outcome) = miss {
            self.note_miss(outcome, &prompt, cx);
        }
        let facts: Vec<_> = places.iter().filter_map(|place| recalled.facts.get(*place).cloned()).collect();
        let session = cx.service::<SessionId>().map(|id| id.to_string());
        let store = self.store.clone();
        // Nobody waits for the record.
        tokio::task::spawn_blocking(move || store.record_recall(session.as_deref(), &query, &facts));
        (!lines.is_empty()).then(|| block::text(&lines))
    }
}

/// Part of the context before a prompt: facts that fit it.
#[derive(Debug)]
struct RecallPart(Arc<Shared>);

#[async_trait]
impl ContextProducer for RecallPart {
    fn mode(&self) -> ContextMode {
        ContextMode::PerQuery
    }

    async fn text(&self, cx: &Cx) -> Result<Option<String>, BoxError> {
        // Sub-agents work on what they are told.
        if cx.origin().depth > 0 {
            return Ok(None);
        }
        let prompt = self.0.state().prompts.remove(&context(cx));
        let Some(prompt) = prompt else { return Ok(None) };
        Ok(self.0.block(prompt, cx).await)
    }
}
