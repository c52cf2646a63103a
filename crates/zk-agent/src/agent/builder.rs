use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use zk_core::kernel::{Bus, Plugin, Scope};
use zk_core::model::{AgentError, Message, Model, SessionId, ThinkingRequest};
use zk_core::service::{CurrentCwd, Entry, Provider, StoredConversation, Tool};

use super::models;
use crate::agent::Agent;
use crate::agent::{AgentInner, Config};
use crate::spawn::{self, SpawnOptions};
use crate::tools::{Aliases, check_guarded, check_tools};
use crate::{Behavior, Preset, RateLimits, RetryPolicy, Retrying, ToolSet};

/// Puts an [`Agent`] together.
#[must_use = "an agent is made by `build`"]
pub struct AgentBuilder {
    provider: Arc<dyn Provider>,
    /// Nothing: the agent makes one of its own.
    bus: Option<Bus>,
    model: Option<ModelChoice>,
    system: String,
    tools: ToolSet,
    aliases: BTreeMap<String, String>,
    behavior: Behavior,
    thinking: ThinkingRequest,
    history: Vec<Arc<Message>>,
    restored: Option<Arc<[Entry]>>,
    session: Option<SessionId>,
    cwd: PathBuf,
    retry: RetryPolicy,
    limits: RateLimits,
    plugins: Vec<Arc<dyn Plugin>>,
    local_tools: Vec<Arc<dyn Tool>>,
    spawn: Option<SpawnOptions>,
    eager: bool,
    is_unguarded: bool,
}

/// Model of an agent, as it was named.
#[derive(Debug)]
enum ModelChoice {
    Model(Box<Model>),
    Id(String),
}

impl fmt::Debug for AgentBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentBuilder")
            .field("provider", &self.provider.name())
            .field("model", &self.model)
            .field("tools", &self.tools)
            .field("behavior", &self.behavior)
            .finish_non_exhaustive()
    }
}

impl Agent {
    /// An agent that asks `provider`.
    pub fn builder(provider: Arc<dyn Provider>) -> AgentBuilder {
        AgentBuilder::new(provider)
    }
}

impl AgentBuilder {
    fn new(provider: Arc<dyn Provider>) -> Self {
        Self {
            provider,
            bus: None,
            model: None,
            system: String::new(),
            tools: ToolSet::All,
            aliases: BTreeMap::new(),
            behavior: Behavior::default(),
            thinking: ThinkingRequest::default(),
            history: Vec::new(),
            restored: None,
            session: None,
            cwd: PathBuf::from("."),
            retry: RetryPolicy::default(),
            limits: RateLimits::default(),
            plugins: Vec::new(),
            local_tools: Vec::new(),
            spawn: None,
            eager: false,
            is_unguarded: false,
        }
    }

    /// The model.
    pub fn model(mut self, model: Model) -> Self {
        self.model = Some(ModelChoice::Model(Box::new(model)));
        self
    }

    /// The model, by the id its provider knows; a [`model`](Self::model) wins over it.
    pub fn model_id(mut self, id: impl Into<String>) -> Self {
        if !matches!(self.model, Some(ModelChoice::Model(_))) {
            self.model = Some(ModelChoice::Id(id.into()));
        }
        self
    }

    /// The bus whose plugins and items the agent uses; a new one unless set. It stays its owner's: a build that
    /// fails leaves nothing on it, and [`Agent::close`] leaves it open.
    pub fn bus(mut self, bus: Bus) -> Self {
        self.bus = Some(bus);
        self
    }

    /// The system prompt; none unless set.
    pub fn system(mut self, system: impl Into<String>) -> Self {
        self.system = system.into();
        self
    }

    /// Sets which of the registered tools the model is offered; all unless set.
    pub fn tools(mut self, tools: ToolSet) -> Self {
        self.tools = tools;
        self
    }

    pub(crate) fn tool_set(&self) -> &ToolSet {
        &self.tools
    }

    /// Registers a tool under its name.
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.local_tools.push(tool);
        self
    }

    /// Shows the tool `canonical` to the model as `wire`. Histories and hooks keep the canonical name.
    pub fn alias(mut self, canonical: impl Into<String>, wire: impl Into<String>) -> Self {
        self.aliases.insert(canonical.into(), wire.into());
        self
    }

    /// The behaviour; the defaults unless set.
    pub fn behavior(mut self, behavior: Behavior) -> Self {
        self.behavior = behavior;
        self
    }

    /// The reasoning; off unless set.
    pub fn thinking(mut self, thinking: ThinkingRequest) -> Self {
        self.thinking = thinking;
        self
    }

    /// Sets the retry policy of failed requests; the defaults of [`RetryPolicy`] unless set, which one
    /// overloaded answer does not end. A provider that retries by itself, such as a
    /// [`Retrying`] one, keeps its own policy.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// The rate limits the agent shares with others; its own and those of its sub-agents unless set.
    pub fn rate_limits(mut self, limits: RateLimits) -> Self {
        self.limits = limits;
        self
    }

    /// The conversation so far. A message without an id gets one, which copies it where others share it.
    pub fn history(mut self, history: Vec<Arc<Message>>) -> Self {
        self.history = history;
        self
    }

    /// The stored entries that the conversation was made of, to the leaf. The first run hands them to plugins with
    /// `session:loaded`, before anything else.
    pub fn restored(mut self, entries: impl Into<Arc<[Entry]>>) -> Self {
        self.restored = Some(entries.into());
        self
    }

    /// Goes on with a stored conversation: its history, its session and what plugins kept there, and stores what comes.
    /// `zk_session::resume_conversation` opens one.
    pub fn resume(mut self, stored: StoredConversation) -> Self {
        self.plugins.push(stored.recorder);
        self.history(stored.messages).restored(stored.entries).session(stored.session)
    }

    /// The session the conversation belongs to, for events. Storing it is a plugin's work.
    pub fn session(mut self, session: SessionId) -> Self {
        self.session = Some(session);
        self
    }

    /// The directory tools work in; `.` unless set.
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = cwd.into();
        self
    }

    /// Installs a plugin for the agent's whole life.
    pub fn plugin(mut self, plugin: impl Plugin + 'static) -> Self {
        self.plugins.push(Arc::new(plugin));
        self
    }

    /// Takes over what the preset sets; what it leaves open stays.
    pub fn preset(mut self, preset: Preset) -> Self {
        self.system = preset.system.unwrap_or(self.system);
        self.tools = preset.tools.unwrap_or(self.tools);
        self.aliases.extend(preset.aliases);
        self.behavior = preset.behavior.or(&self.behavior);
        self.thinking = preset.thinking.unwrap_or(self.thinking);
        self.eager = preset.eager.unwrap_or(self.eager);
        self.plugins.extend(preset.plugins);
        self
    }

    /// Offers the model the tool `spawn`, with which it delegates work to sub-agents.
    pub fn spawn(mut self, options: SpawnOptions) -> Self {
        self.spawn = Some(options);
        self
    }

    /// Warms the agent up in the background as soon as it is built ([`Agent::warm_up`]); without a runtime, when its
    /// first run begins. Not done unless set.
    pub fn eager(mut self) -> Self {
        self.eager = true;
        self
    }

    /// Lets calls run that nobody decided on, whatever they do; sub-agents too. A gate that is installed still decides.
    ///
    /// Without it an agent takes tools that may do more than read only where a plugin provides a [`CallGuard`](zk_core::service::CallGuard): for a
    /// host whose tools are harmless, or which is itself in a place where nothing can be harmed.
    pub fn unguarded(mut self) -> Self {
        self.is_unguarded = true;
        self
    }

    /// The agent.
    ///
    /// Tools that are registered later are looked at before each request: one that may do more than read ends the
    /// run with [`AgentError::Unguarded`] before anything is sent, where this would have.
    ///
    /// # Errors
    /// [`AgentError::Unguarded`] when a tool may do more than read, no plugin provides a [`CallGuard`](zk_core::service::CallGuard), and the agent
    /// is not [`unguarded`](Self::unguarded).
    /// [`AgentError::Usage`] when no model is chosen, a plugin does not install, a tool's name is taken, no
    /// provider takes the name or the schema of a tool, or two tools would have the same name for the model.
    /// Nothing of the agent stays on its bus then.
    pub fn build(self) -> Result<Agent, AgentError> {
        let default = || self.provider.default_model().map(ModelChoice::Id);
        let model = match self.model.or_else(default) {
            Some(ModelChoice::Model(model)) => *model,
            Some(ModelChoice::Id(id)) => self.provider.model(&id),
            None => {
                return Err(AgentError::Usage(format!(
                    "no model: `{}` has no default, name one with `model_id`",
                    self.provider.name()
                )));
            }
        };
        let owns_bus = self.bus.is_none();
        let bus = self.bus.unwrap_or_default();
        // Scopes that a build which fails leaves here are closed with it.
        let mut installed = Installed::default();
        for plugin in &self.plugins {
            let scope = bus.install(&**plugin).map_err(|error| AgentError::Usage(error.to_string()))?;
            installed.0.push(scope);
        }
        let scope = bus.scope("agent");
        installed.0.push(scope.clone());
        for tool in self.local_tools {
            let name = tool.spec().name.clone();
            scope.provide::<dyn Tool>(&name, tool).map_err(|taken| AgentError::Usage(taken.to_string()))?;
        }
        let aliases = Aliases::new(self.aliases)?;
        check_tools(&bus, &self.tools, &aliases)?;
        if !self.is_unguarded {
            check_guarded(&bus, &self.tools)?;
        }
        let agent = Agent::new(AgentInner::new(Config {
            provider: Retrying::unless_retrying(&self.limits, self.provider, &self.retry),
            retry: self.retry,
            limits: self.limits,
            bus,
            owns_bus,
            is_unguarded: self.is_unguarded,
            model,
            system: self.system.into(),
            tools: self.tools,
            aliases,
            behavior: self.behavior,
            thinking: self.thinking,
            history: self.history,
            restored: self.restored,
            session: self.session,
            cwd: self.cwd,
        }));
        models::offer(&agent.inner, &scope);
        scope.provide_service::<dyn CurrentCwd>(Arc::new(AgentCwd(Arc::downgrade(&agent.inner))));
        if let Some(options) = self.spawn {
            spawn::offer(&agent, options, &scope)?;
        }
        if self.eager {
            agent.warm_up_in_background(&scope);
        }
        agent.inner.keep(std::mem::take(&mut installed.0));
        Ok(agent)
    }
}

/// Working directory of an agent.
struct AgentCwd(Weak<AgentInner>);

impl CurrentCwd for AgentCwd {
    fn cwd(&self) -> Option<PathBuf> {
        self.0.upgrade().map(|agent| agent.state().cwd.clone())
    }
}

/// The scopes of an agent that is being built; closed at once, newest first, unless they are taken out.
#[derive(Default)]
struct Installed(Vec<Scope>);

impl Drop for Installed {
    fn drop(&mut self) {
        for scope in self.0.drain(..).rev() {
            drop(scope.close_on_drop());
        }
    }
}
