use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use tokio::sync::{Notify, OnceCell};
use tokio_util::sync::CancellationToken;
use zk_core::events::AgentWarmUp;
use zk_core::kernel::{Bus, Scope};
use zk_core::model::{AgentError, Message, Model, SessionId, ThinkingRequest};
use zk_core::service::{ContextId, Entry, Provider, TurnEnv, UnfinishedRun, spent_in};

use crate::budget::Ledger;
use crate::context::PrefixGuard;
use crate::gates::DedupMemory;
use crate::lock::lock;
use crate::parts::SideCallLimits;
use crate::run::RunShared;
use crate::run::{Commit, identified};
use crate::tools::{Aliases, ToolMemory};
use crate::{Behavior, RateLimits, RetryPolicy, Retrying, ToolSet};

/// Values from the builder for a new agent.
pub(crate) struct Config {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) retry: RetryPolicy,
    pub(crate) limits: RateLimits,
    pub(crate) bus: Bus,
    pub(crate) owns_bus: bool,
    pub(crate) is_unguarded: bool,
    pub(crate) model: Model,
    pub(crate) system: Arc<str>,
    pub(crate) tools: ToolSet,
    pub(crate) aliases: Aliases,
    pub(crate) behavior: Behavior,
    pub(crate) thinking: ThinkingRequest,
    pub(crate) history: Vec<Arc<Message>>,
    pub(crate) restored: Option<Arc<[Entry]>>,
    pub(crate) unfinished: Option<UnfinishedRun>,
    pub(crate) session: Option<SessionId>,
    pub(crate) cwd: PathBuf,
}

/// State shared by an agent's handles, runs and handlers.
pub(crate) struct AgentInner {
    /// Provider with retries, unless the agent was built without.
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) retry: RetryPolicy,
    pub(crate) limits: RateLimits,
    pub(crate) bus: Bus,
    /// Whether the agent created the bus, and therefore closes it.
    pub(crate) owns_bus: bool,
    pub(crate) is_unguarded: bool,
    /// Scopes that the agent opened on its bus, newest last.
    scopes: Mutex<Vec<Scope>>,
    pub(crate) system: Arc<str>,
    pub(crate) tools: ToolSet,
    pub(crate) aliases: Aliases,
    pub(crate) behavior: Behavior,
    /// Spending of all runs of this agent and its sub-agents, if a budget is set.
    pub(crate) ledger: Option<Arc<Ledger>>,
    /// Number of sub-agents that have been given names.
    pub(crate) sub_agents: AtomicU32,
    pub(crate) dedup: Arc<DedupMemory>,
    pub(crate) side_calls: SideCallLimits,
    pub(crate) token: CancellationToken,
    state: Mutex<AgentState>,
    pub(crate) running: AtomicBool,
    pub(crate) idle: Notify,
    /// Set once the warm-up has run, so that it runs once for an agent.
    warm: OnceCell<()>,
}

/// Conversation of an agent, and the values for its next run.
pub(crate) struct AgentState {
    /// Id of the session; a run keeps the value from its start.
    pub(crate) session: Option<SessionId>,
    /// Working directory; a turn keeps the value from its start.
    pub(crate) cwd: PathBuf,
    /// Environment variables for commands; a turn keeps the value from its start.
    pub(crate) env: Arc<TurnEnv>,
    pub(crate) model: Model,
    pub(crate) thinking: ThinkingRequest,
    pub(crate) history: Vec<Arc<Message>>,
    /// Id of the context, replaced on every reset.
    pub(crate) context: ContextId,
    /// Stored entries of a loaded conversation, until a run announces them.
    pub(crate) restored: Option<Arc<[Entry]>>,
    /// Unfinished run of the loaded conversation, until its leg begins.
    pub(crate) unfinished: Option<UnfinishedRun>,
    /// Models that providers' endpoints listed, by provider.
    pub(crate) listed: BTreeMap<String, Vec<Model>>,
    /// Commits that could not be stored, which the next run announces again at its start.
    pub(crate) unstored: Vec<Commit>,
    /// Messages that wait for the person's next prompt, and follow it.
    pub(crate) next_prompt: Vec<Message>,
    pub(crate) current: Weak<RunShared>,
    /// Tools of the last request, for comparison with the next.
    pub(crate) tools: ToolMemory,
    /// Guard that compares each request's prefix with that of the last request.
    pub(crate) prefix: PrefixGuard,
}

impl AgentState {
    /// Adds a message to the conversation, which is stored when the next run begins.
    pub(crate) fn inject(&mut self, message: Message) {
        let message = message.identified().shared();
        self.history.push(message.clone());
        self.unstored.push(Commit::injected(message));
    }
}

impl Drop for AgentInner {
    fn drop(&mut self) {
        // Sub-agents in the background stop with their agent, even if it was not closed.
        self.token.cancel();
    }
}

impl AgentInner {
    pub(crate) fn new(config: Config) -> Self {
        let mut prefix = PrefixGuard::default();
        prefix.restore(config.restored.as_deref().unwrap_or_default());
        let ledger = config.behavior.budget.and_then(Ledger::new);
        if let (Some(ledger), Some(entries)) = (&ledger, &config.restored) {
            ledger.restore_spent(spent_in(entries));
        }
        Self {
            provider: config.provider,
            retry: config.retry,
            limits: config.limits,
            bus: config.bus,
            owns_bus: config.owns_bus,
            is_unguarded: config.is_unguarded,
            scopes: Mutex::default(),
            system: config.system,
            tools: config.tools,
            aliases: config.aliases,
            ledger,
            behavior: config.behavior,
            sub_agents: AtomicU32::new(0),
            dedup: Arc::default(),
            side_calls: SideCallLimits::default(),
            token: CancellationToken::new(),
            state: Mutex::new(AgentState {
                session: config.session,
                cwd: config.cwd,
                env: Arc::default(),
                model: config.model,
                thinking: config.thinking,
                history: identified(config.history),
                context: ContextId::fresh(),
                restored: config.restored,
                unfinished: config.unfinished,
                listed: BTreeMap::new(),
                unstored: Vec::new(),
                next_prompt: Vec::new(),
                current: Weak::new(),
                tools: ToolMemory::default(),
                prefix,
            }),
            running: AtomicBool::new(false),
            idle: Notify::new(),
            warm: OnceCell::new(),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, AgentState> {
        lock(&self.state)
    }

    /// Queues a message for the conversation `context`: it is delivered between two turns of the active run, or with
    /// the next prompt. Messages for another conversation are dropped.
    pub(crate) fn notify(&self, context: &ContextId, message: Message) {
        let mut state = self.state();
        if state.context != *context {
            return;
        }
        let run = state.current.upgrade().filter(|_| self.running.load(Ordering::Acquire));
        let message = message.identified().shared();
        let left = match run {
            Some(run) => run.queues().add_notice(message),
            None => Err(message),
        };
        if let Err(message) = left {
            state.next_prompt.push(Arc::unwrap_or_clone(message));
        }
    }

    pub(crate) async fn warm_up(&self) -> Result<(), AgentError> {
        let warm = async {
            self.bus.warm_up();
            let model = self.state().model.reference();
            Ok(self.bus.cx().emit(AgentWarmUp { model }).await?)
        };
        self.warm.get_or_try_init(|| warm).await.map(|&()| ())
    }

    /// Records whether the model `name` answered, for the back-off.
    pub(crate) fn record_answer(&self, name: &str, error: Option<&AgentError>) {
        match error {
            None => self.side_calls.backoff.record_success(name),
            Some(error) if error.is_transient() => self.side_calls.backoff.record_failure(name, error),
            Some(_) => {}
        }
    }

    /// Keeps scopes open until the agent is closed.
    pub(crate) fn keep_scopes(&self, scopes: Vec<Scope>) {
        lock(&self.scopes).extend(scopes);
    }

    pub(crate) fn take_scopes(&self) -> Vec<Scope> {
        std::mem::take(&mut *lock(&self.scopes))
    }

    /// Returns the agent's own provider with its decorators applied; `None` if a decorator panicked.
    pub(crate) fn own_provider(&self) -> Option<Arc<dyn Provider>> {
        self.bus.decorate(self.provider.name(), self.provider.clone())
    }

    /// Returns the provider of `model`: the agent's own, or a registered one by name.
    pub(crate) fn provider_of(&self, model: &Model) -> Result<Arc<dyn Provider>, AgentError> {
        if model.provider == self.provider.name() {
            return self.own_provider().ok_or_else(|| {
                AgentError::Usage(format!("a decorator of provider `{}` panicked", model.provider))
            });
        }
        let retrying = |provider| Retrying::unless_retrying(&self.limits, provider, &self.retry);
        self.bus.item::<dyn Provider>(&model.provider).map(retrying).ok_or_else(|| {
            AgentError::Usage(format!(
                "model `{}` belongs to provider `{}`, which is not registered",
                model.id, model.provider
            ))
        })
    }
}
