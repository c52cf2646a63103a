use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use zk_core::kernel::{Bus, Plugin, Scope};
use zk_core::model::{AgentError, Message, Model, SessionId, ThinkingRequest};
use zk_core::service::{
    CurrentCwd, Entry, PresetParts, PresetServer, PresetSkill, Provider, StoredConversation, Tool,
    UnfinishedRun,
};

use super::models;
use super::preset::add_servers;
use crate::agent::Agent;
use crate::agent::{AgentInner, Config};
use crate::spawn::{self, SpawnOptions};
use crate::tools::{Aliases, check_guarded, check_tools};
use crate::{AgentDefinition, Behavior, Preset, RateLimits, RetryPolicy, Retrying, ToolSet};

/// Builder of an [`Agent`].
#[must_use = "an agent is made by `build`"]
pub struct AgentBuilder {
    provider: Arc<dyn Provider>,
    /// Bus to use; `None` creates one for the agent.
    bus: Option<Bus>,
    model: Option<ModelChoice>,
    system: String,
    tools: ToolSet,
    aliases: BTreeMap<String, String>,
    behavior: Behavior,
    thinking: ThinkingRequest,
    history: Vec<Arc<Message>>,
    restored: Option<Arc<[Entry]>>,
    unfinished: Option<UnfinishedRun>,
    session: Option<SessionId>,
    cwd: PathBuf,
    retry: RetryPolicy,
    limits: RateLimits,
    parts: Parts,
    spawn: Option<SpawnOptions>,
    eager: bool,
    is_unguarded: bool,
}

/// Parts that the agent installs on its bus.
#[derive(Default)]
struct Parts {
    plugins: Vec<Arc<dyn Plugin>>,
    tools: Vec<Arc<dyn Tool>>,
    /// Servers of presets.
    servers: Vec<PresetServer>,
    /// Skills of presets.
    skills: Vec<PresetSkill>,
}

/// Choice of the agent's model: a complete model, or an id.
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
    /// Starts building an agent that uses `provider`.
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
            unfinished: None,
            session: None,
            cwd: PathBuf::from("."),
            retry: RetryPolicy::default(),
            limits: RateLimits::default(),
            parts: Parts::default(),
            spawn: None,
            eager: false,
            is_unguarded: false,
        }
    }

    /// Sets the model.
    pub fn model(mut self, model: Model) -> Self {
        self.model = Some(ModelChoice::Model(Box::new(model)));
        self
    }

    /// Sets the model by its id at the provider; [`model`](Self::model) takes precedence.
    pub fn model_id(mut self, id: impl Into<String>) -> Self {
        if !matches!(self.model, Some(ModelChoice::Model(_))) {
            self.model = Some(ModelChoice::Id(id.into()));
        }
        self
    }

    /// Sets the bus whose plugins and items the agent uses; a new one by default. The bus stays the caller's:
    /// a build that fails leaves nothing registered on it, and [`Agent::close`] leaves it open.
    pub fn bus(mut self, bus: Bus) -> Self {
        self.bus = Some(bus);
        self
    }

    /// Sets the system prompt; empty by default.
    pub fn system(mut self, system: impl Into<String>) -> Self {
        self.system = system.into();
        self
    }

    /// Sets which of the registered tools the model is offered; all by default.
    pub fn tools(mut self, tools: ToolSet) -> Self {
        self.tools = tools;
        self
    }

    pub(crate) fn tool_set(&self) -> &ToolSet {
        &self.tools
    }

    /// Registers a tool under its name.
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.parts.tools.push(tool);
        self
    }

    /// Sets the name `wire` under which the model sees the tool `canonical`. Histories and hooks keep the
    /// canonical name.
    pub fn alias(mut self, canonical: impl Into<String>, wire: impl Into<String>) -> Self {
        self.aliases.insert(canonical.into(), wire.into());
        self
    }

    /// Sets the behaviour.
    pub fn behavior(mut self, behavior: Behavior) -> Self {
        self.behavior = behavior;
        self
    }

    /// Sets the reasoning request; off by default.
    pub fn thinking(mut self, thinking: ThinkingRequest) -> Self {
        self.thinking = thinking;
        self
    }

    /// Sets the retry policy of failed requests; by default that of [`RetryPolicy`], with enough attempts to
    /// outlast a short overload. A provider that retries by itself, such as a [`Retrying`] one, keeps its own
    /// policy.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// Sets the rate limits shared with other agents; by default only sub-agents share them.
    pub fn rate_limits(mut self, limits: RateLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the history of the conversation. Messages without an id get one; shared ones are copied for this.
    pub fn history(mut self, history: Vec<Arc<Message>>) -> Self {
        self.history = history;
        self
    }

    /// Sets the stored entries that the conversation was loaded from, up to the leaf. The first run announces
    /// them to plugins with `session:loaded`, before all other events.
    pub fn restored(mut self, entries: impl Into<Arc<[Entry]>>) -> Self {
        self.restored = Some(entries.into());
        self
    }

    /// Resumes a stored conversation: sets its history, its session and the plugins' entries, and stores new
    /// messages. `zk_session::resume_conversation` opens such a conversation.
    pub fn resume(mut self, stored: StoredConversation) -> Self {
        self.parts.plugins.push(stored.recorder);
        self.unfinished = stored.unfinished;
        self.history(stored.messages).restored(stored.entries).session(stored.session)
    }

    /// Sets the run that earlier legs left unfinished, as [`RunOptions::drive_leg`](crate::RunOptions::drive_leg) continues it.
    pub fn continue_run(mut self, unfinished: UnfinishedRun) -> Self {
        self.unfinished = Some(unfinished);
        self
    }

    /// Sets the session id for events. Storing the session is left to a plugin.
    pub fn session(mut self, session: SessionId) -> Self {
        self.session = Some(session);
        self
    }

    /// Sets the working directory of tools; `.` by default.
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = cwd.into();
        self
    }

    /// Installs a plugin for the agent's lifetime.
    pub fn plugin(mut self, plugin: impl Plugin + 'static) -> Self {
        self.parts.plugins.push(Arc::new(plugin));
        self
    }

    /// Applies the values that the preset sets; others stay unchanged.
    pub fn preset(mut self, preset: Preset) -> Self {
        self.system = preset.system.unwrap_or(self.system);
        self.tools = preset.tools.unwrap_or(self.tools);
        self.aliases.extend(preset.aliases);
        self.behavior = preset.behavior.or(&self.behavior);
        self.thinking = preset.thinking.unwrap_or(self.thinking);
        self.eager = preset.eager.unwrap_or(self.eager);
        add_servers(&mut self.parts.servers, preset.servers);
        self.parts.skills = preset.skills.unwrap_or(self.parts.skills);
        self.parts.plugins.extend(preset.plugins);
        self
    }

    /// Offers the model the tool `spawn`, with which it delegates work to sub-agents.
    pub fn spawn(mut self, options: SpawnOptions) -> Self {
        self.spawn = Some(options);
        self
    }

    /// Adds a named sub-agent, to which the model delegates with the tool `spawn`. Limits are those of
    /// [`AgentBuilder::spawn`], or its defaults.
    pub fn sub_agent(mut self, agent: AgentDefinition) -> Self {
        self.spawn.get_or_insert_default().agents.push(agent);
        self
    }

    /// Makes the agent warm up in the background right after the build ([`Agent::warm_up`]); without a
    /// runtime, when its first run begins.
    pub fn eager(mut self) -> Self {
        self.eager = true;
        self
    }

    /// Allows all calls that no gate decides, whatever their effects, also those of sub-agents.
    ///
    /// Otherwise an agent rejects tools that may do more than read, unless a plugin provides a
    /// [`CallGuard`](zk_core::service::CallGuard). Meant for hosts whose tools are harmless, or that run in a
    /// place where no harm can be done.
    pub fn unguarded(mut self) -> Self {
        self.is_unguarded = true;
        self
    }

    /// Builds the agent.
    ///
    /// Tools registered later are checked before each request: a tool that the build would have rejected as
    /// unguarded ends the run with [`AgentError::Unguarded`] before a request is sent.
    ///
    /// # Errors
    /// [`AgentError::Unguarded`] when a tool may do more than read, no plugin provides a
    /// [`CallGuard`](zk_core::service::CallGuard), and the agent is not [`unguarded`](Self::unguarded).
    /// [`AgentError::Usage`] when no model is chosen, a plugin cannot be installed, a tool's name is taken,
    /// no provider accepts the name or the schema of a tool, two tools have the same name for the model, or a
    /// preset has servers or skills and no plugin takes them.
    /// Nothing of the agent stays registered on its bus then.
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
        // If the build fails, dropping this guard closes the scopes installed so far.
        let mut installed = Installed::default();
        install_plugins(&bus, &self.parts, &mut installed)?;
        let scope = bus.scope("agent");
        installed.0.push(scope.clone());
        for tool in self.parts.tools {
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
            unfinished: self.unfinished,
            session: self.session,
            cwd: self.cwd,
        }));
        models::register_handlers(&agent.inner, &scope);
        scope.provide_service::<dyn CurrentCwd>(Arc::new(AgentCwd(Arc::downgrade(&agent.inner))));
        if let Some(options) = self.spawn {
            spawn::register_tool(&agent, options, &scope)?;
        }
        if self.eager {
            agent.warm_up_in_background(&scope);
        }
        agent.inner.keep_scopes(std::mem::take(&mut installed.0));
        Ok(agent)
    }
}

/// Service that returns the agent's current working directory.
struct AgentCwd(Weak<AgentInner>);

impl CurrentCwd for AgentCwd {
    fn cwd(&self) -> Option<PathBuf> {
        self.0.upgrade().map(|agent| agent.state().cwd.clone())
    }
}

/// Installs the plugins of an agent, while they can take the servers and skills of its presets.
fn install_plugins(bus: &Bus, parts: &Parts, installed: &mut Installed) -> Result<(), AgentError> {
    let declared = Arc::new(PresetParts::new(parts.servers.clone(), parts.skills.clone()));
    let declaring = bus.scope("preset").close_on_drop();
    if !parts.servers.is_empty() || !parts.skills.is_empty() {
        declaring.scope().provide_service(declared.clone());
    }
    for plugin in &parts.plugins {
        let scope = bus.install(&**plugin).map_err(|error| AgentError::Usage(error.to_string()))?;
        installed.0.push(scope);
    }
    let unused = |what: &str, name: &str, next: &str| {
        Err(AgentError::Usage(format!(
            "a preset has the {what} `{name}`, and no plugin that this agent installs takes it: add {next}"
        )))
    };
    match (declared.take_servers().first(), declared.take_skills().first()) {
        (Some(server), _) => {
            unused("server", &server.name, "one that starts servers, such as `McpPlugin` of zk-mcp")
        }
        (None, Some(skill)) => {
            unused("skill", &skill.name, "one that offers skills, such as `SkillsPlugin` of zk-skills")
        }
        (None, None) => Ok(()),
    }
}

/// Scopes of an agent that is being built. Dropping this closes them, newest first, unless they were taken
/// out.
#[derive(Default)]
struct Installed(Vec<Scope>);

impl Drop for Installed {
    fn drop(&mut self) {
        for scope in self.0.drain(..).rev() {
            drop(scope.close_on_drop());
        }
    }
}
