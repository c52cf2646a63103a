use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use tokio::sync::{Notify, OnceCell};
use tokio_util::sync::CancellationToken;
use zk_core::events::AgentWarmUp;
use zk_core::kernel::{Bus, Scope};
use zk_core::model::{AgentError, Message, Model, SessionId, ThinkingRequest};
use zk_core::service::{ContextId, Entry, Provider, TurnEnv};

use crate::budget::{Ledger, stored_spent};
use crate::context::PrefixGuard;
use crate::gates::DedupMemory;
use crate::lock::lock;
use crate::run::RunShared;
use crate::run::{Commit, identified};
use crate::tools::{Aliases, ToolMemory};
use crate::{Behavior, RateLimits, RetryPolicy, Retrying, ToolSet};

/// Parts that an agent is put together of.
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
    pub(crate) session: Option<SessionId>,
    pub(crate) cwd: PathBuf,
}

/// An agent, as its handles, its runs and its handlers share it.
pub(crate) struct AgentInner {
    /// Provider that sends failed requests again, unless the agent was told not to.
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) retry: RetryPolicy,
    pub(crate) limits: RateLimits,
    pub(crate) bus: Bus,
    /// Nobody else made the bus: it is closed with the agent.
    pub(crate) owns_bus: bool,
    pub(crate) is_unguarded: bool,
    /// Scopes that the agent put on its bus, newest last.
    scopes: Mutex<Vec<Scope>>,
    pub(crate) system: Arc<str>,
    pub(crate) tools: ToolSet,
    pub(crate) aliases: Aliases,
    pub(crate) behavior: Behavior,
    /// Ledger of what all runs of this agent and of its sub-agents may spend together.
    pub(crate) ledger: Option<Arc<Ledger>>,
    /// Number of sub-agents that got a name.
    pub(crate) sub_agents: AtomicU32,
    pub(crate) dedup: Arc<DedupMemory>,
    pub(crate) token: CancellationToken,
    state: Mutex<AgentState>,
    pub(crate) running: AtomicBool,
    pub(crate) idle: Notify,
    /// Set once the agent was warmed up.
    warm: OnceCell<()>,
}

/// Conversation of an agent, and what its next run begins with.
pub(crate) struct AgentState {
    /// Fixed for a run when it begins.
    pub(crate) session: Option<SessionId>,
    /// Fixed for a turn when it begins.
    pub(crate) cwd: PathBuf,
    /// Fixed for a turn when it begins.
    pub(crate) env: Arc<TurnEnv>,
    pub(crate) model: Model,
    pub(crate) thinking: ThinkingRequest,
    pub(crate) history: Vec<Arc<Message>>,
    /// Another one after every reset.
    pub(crate) context: ContextId,
    /// The stored entries of a conversation that was loaded or replaced, until a run has announced them.
    pub(crate) restored: Option<Arc<[Entry]>>,
    /// Models that the endpoints listed, by provider.
    pub(crate) listed: BTreeMap<String, Vec<Model>>,
    /// Commits that could not be stored: announced again before anything else happens.
    pub(crate) unstored: Vec<Commit>,
    /// Queued messages that join the conversation right after the next prompt.
    pub(crate) next_prompt: Vec<Message>,
    pub(crate) current: Weak<RunShared>,
    /// The tools of the last request.
    pub(crate) tools: ToolMemory,
    /// The last request.
    pub(crate) prefix: PrefixGuard,
}

impl AgentState {
    /// Adds a message to the conversation, to be stored when its next run begins.
    pub(crate) fn inject(&mut self, message: Message) {
        let message = message.identified().shared();
        self.history.push(message.clone());
        self.unstored.push(Commit::injected(message));
    }
}

impl AgentInner {
    pub(crate) fn new(config: Config) -> Self {
        let mut prefix = PrefixGuard::default();
        prefix.restore(config.restored.as_deref().unwrap_or_default());
        let ledger = config.behavior.budget.and_then(Ledger::new);
        if let (Some(ledger), Some(entries)) = (&ledger, &config.restored) {
            ledger.restore(stored_spent(entries));
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

    pub(crate) async fn warm_up(&self) -> Result<(), AgentError> {
        let warm = async {
            self.bus.warm_up();
            let model = self.state().model.reference();
            Ok(self.bus.cx().emit(AgentWarmUp { model }).await?)
        };
        self.warm.get_or_try_init(|| warm).await.map(|&()| ())
    }

    /// Keeps what was registered for the agent until it is closed.
    pub(crate) fn keep(&self, scopes: Vec<Scope>) {
        lock(&self.scopes).extend(scopes);
    }

    pub(crate) fn take_scopes(&self) -> Vec<Scope> {
        std::mem::take(&mut *lock(&self.scopes))
    }

    /// The provider that the agent was built with, inside its decorators; nothing where one of them panicked.
    pub(crate) fn own_provider(&self) -> Option<Arc<dyn Provider>> {
        self.bus.decorate(self.provider.name(), self.provider.clone())
    }

    /// The provider of `model`: the agent's own, or the registered one of that name.
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
