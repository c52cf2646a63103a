use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use zk_core::events::{AgentBeforeStart, AgentDone, ContextReduced, SessionLoaded};
use zk_core::kernel::{BoxError, Cx, HookOptions, Plugin, Reach, Scope, Stage};
use zk_core::service::{Command, ContextMode, ContextProducer, ExpandedPrompts, Tool};

use crate::command::{MemoryCommand, RememberCommand};
use crate::fact::REMEMBER;
use crate::gate::MemoryGate;
use crate::memory_file::MemoryFile;
use crate::misses::MissLog;
use crate::recall::block::BLOCK;
use crate::shared::{Outlet, Shared, context_id};
use crate::tool::Remember;
use crate::{MemorySettings, MemoryStore};

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
        self.with_shared(|shared| shared.files = files)
    }

    /// Logs recalls that gave the model no fact.
    #[must_use]
    pub fn with_misses(self, log: MissLog) -> Self {
        self.with_shared(|shared| shared.misses = Some(log))
    }

    /// Tells the person about problems through `tell`, in place of the service [`Ui`](zk_core::service::Ui).
    #[must_use]
    pub fn telling(self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.with_shared(|shared| shared.outlet = Some(Outlet(Arc::new(tell))))
    }

    fn with_shared(self, change: impl FnOnce(&mut Shared)) -> Self {
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
        // Runs before the handler that asks context producers.
        let first = HookOptions { stage: Stage::Early, reach: Some(Reach::Descendants), time_limit: None };
        let prompts = shared.clone();
        scope.on_sync_at(first, move |start: &AgentBeforeStart, cx: &Cx| {
            if let Some(prompt) = &start.prompt {
                prompts.note_prompt(prompt.text(), cx);
            }
            None
        });
        let reduced = shared.clone();
        scope.on_sync_at(Reach::Descendants, move |_: &ContextReduced, cx: &Cx| {
            reduced.lock_state().told.remove(&context_id(cx));
        });
        // A sub-agent has only one run, so its state is not needed any more.
        let ended = shared.clone();
        scope.on_sync_at(Reach::Descendants, move |_: &AgentDone, cx: &Cx| {
            if cx.origin().depth > 0 {
                let (mut state, context) = (ended.lock_state(), context_id(cx));
                state.told.remove(&context);
                state.prompts.remove(&context);
            }
        });
        let loaded = shared.clone();
        scope.on_sync_at(Reach::Own, move |event: &SessionLoaded, cx: &Cx| loaded.restore_told(event, cx));
        scope.provide::<dyn ContextProducer>(BLOCK, Arc::new(RecallPart(shared.clone())))?;
        scope.provide::<dyn Tool>(REMEMBER, Arc::new(Remember::new(shared.clone())))?;
        scope.provide::<dyn Command>("remember", Arc::new(RememberCommand(shared.clone())))?;
        scope.provide::<dyn Command>("memory", Arc::new(MemoryCommand(shared.clone())))?;
        Ok(())
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
        let prompt = self.0.lock_state().prompts.remove(&context_id(cx));
        let Some(prompt) = prompt else { return Ok(None) };
        Ok(self.0.recall_block(prompt, cx).await)
    }
}
