use std::fmt;
use std::sync::Arc;

use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use zk_core::events::{AgentDone, SessionBeforeEnd, SessionLoaded};
use zk_core::kernel::{BoxError, Cx, Plugin, Reach, Scope};
use zk_core::service::{BUILT_IN_BACKEND, Backend, BuiltInBackend, EntryKind, NewEntry, Provider, Tool};

use crate::acp::step::{STEP_KINDS, step_tool};
use crate::backend::AcpBackend;
use crate::steps::StepTool;

/// Kind and version of the entry with the id of the agent's session.
const ENTRY_KIND: &str = "backend-session";
const ENTRY_VERSION: u32 = 1;

/// Stored entry with the id of an agent's session.
#[derive(Serialize, Deserialize)]
struct StoredSession {
    backend: String,
    session: String,
    /// Id of the zk session that it belongs to. A copy of that session is another conversation and does not
    /// use it.
    of: String,
}

/// Plugin with the built-in agent and these agents as backends.
///
/// ```
/// use std::sync::Arc;
///
/// use zk_backends::BackendsPlugin;
/// use zk_core::kernel::Bus;
/// use zk_core::service::Backend;
///
/// let bus = Bus::new();
/// bus.install(&BackendsPlugin::new(Vec::new())).unwrap();
/// assert_eq!(bus.items::<dyn Backend>().len(), 1);
/// ```
pub struct BackendsPlugin {
    backends: Vec<Arc<AcpBackend>>,
}

impl fmt::Debug for BackendsPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackendsPlugin").field("backends", &self.backends).finish()
    }
}

impl BackendsPlugin {
    /// Creates the plugin.
    #[must_use]
    pub fn new(backends: Vec<Arc<AcpBackend>>) -> Self {
        Self { backends }
    }
}

impl Plugin for BackendsPlugin {
    fn name(&self) -> &'static str {
        "backends"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        scope.provide::<dyn Backend>(BUILT_IN_BACKEND, Arc::new(BuiltInBackend))?;
        for backend in &self.backends {
            scope.provide::<dyn Backend>(backend.name(), backend.clone())?;
            if let Some(provider) = backend.provider() {
                scope.provide::<dyn Provider>(backend.name(), provider)?;
            }
        }
        if self.backends.is_empty() {
            return Ok(());
        }
        let steps: Vec<_> = self.backends.iter().map(|backend| backend.steps.clone()).collect();
        for kind in STEP_KINDS {
            scope.provide::<dyn Tool>(&step_tool(kind), Arc::new(StepTool::new(kind, steps.clone())))?;
        }
        let (source, backends) = (scope.source().to_string(), self.backends.clone());
        scope.on_sync_at(Reach::Own, move |loaded: &SessionLoaded, _: &Cx| {
            restore(loaded, &source, &backends)
        });
        let backends = self.backends.clone();
        scope.on_sync_at(Reach::Own, move |ending: &SessionBeforeEnd, _: &Cx| record(ending, &backends));
        let backends = self.backends.clone();
        scope.on_sync_at(Reach::Descendants, move |_: &AgentDone, cx: &Cx| {
            let run = cx.run_id();
            backends.iter().for_each(|backend| backend.agent.cancel_prompts_of_run(run));
        });
        let backends = self.backends.clone();
        scope.on_close(async move || {
            join_all(backends.iter().map(|backend| backend.stop())).await;
        });
        Ok(())
    }
}

fn restore(loaded: &SessionLoaded, source: &str, backends: &[Arc<AcpBackend>]) {
    let Some(key) = &loaded.session_id else { return };
    let own = loaded.entries.iter().filter_map(|entry| match &entry.kind {
        EntryKind::Custom(own) if own.kind == ENTRY_KIND && own.source == source => Some(own),
        _ => None,
    });
    for entry in own.filter(|entry| entry.version == ENTRY_VERSION) {
        let Ok(stored) = entry.data.read::<StoredSession>() else { continue };
        let backend = backends.iter().find(|backend| backend.name() == stored.backend);
        if let Some(backend) = backend.filter(|_| stored.of == key.as_str()) {
            backend.agent.restore_session(key.as_str(), stored.session);
        }
    }
}

/// Returns the entry for an agent's session that this conversation used for the first time.
fn record(ending: &SessionBeforeEnd, backends: &[Arc<AcpBackend>]) -> Option<NewEntry> {
    let key = ending.session_id.as_ref()?.as_str();
    let new = |backend: &Arc<AcpBackend>| {
        let session = backend.agent.take_unrecorded_id(key)?;
        let stored = StoredSession { backend: backend.name().to_owned(), session, of: key.to_owned() };
        Some(NewEntry::hidden(ENTRY_KIND, ENTRY_VERSION, serde_json::to_value(stored).ok()?))
    };
    backends.iter().find_map(new)
}
