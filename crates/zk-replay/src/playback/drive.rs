use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zk_agent::{Agent, AgentBuilder, AgentConversation, RunOptions};
use zk_core::kernel::{BoxError, Bus, Plugin};
use zk_core::model::{AgentError, Message, ThinkingRequest};
use zk_core::service::{
    ContextWindow, Conversation as _, NewSession, Provider, SERVER_TOOL_PREFIX, SessionStore, StoreError,
    Tool,
};
use zk_session::{MemoryStore, Recorder};

use super::tools::StandIn;
use super::{Playback, ReplayProvider};
use crate::recording::{RecordedRun, WindowStep, is_from_outside, prompt_blocks};
use crate::{Recording, ReplayLog};

/// Longest time that one replayed run may take. Nothing in it waits for anything outside.
const RUN_LIMIT: Duration = Duration::from_secs(120);

/// Failure of a replay itself. A run that fails is a result, not an error.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The recording has no run.
    #[error("the session has no run to replay: no prompt was sent in it")]
    Empty,
    /// The agent cannot be built, or does not begin a run.
    #[error("run {run} cannot be replayed: {error}")]
    Agent {
        /// Number of the run, from 1.
        run: usize,
        /// Error of the agent.
        error: AgentError,
    },
    /// A run does not end.
    #[error(
        "run {run} does not end within {} s in the replay, and was stopped; a plugin may wait for something outside",
        RUN_LIMIT.as_secs()
    )]
    Stuck {
        /// Number of the run, from 1.
        run: usize,
    },
    /// The replayed session cannot be kept in memory.
    #[error("the replayed session cannot be read: {0}")]
    Store(#[from] StoreError),
}

impl Playback {
    /// Drives an agent through all runs of the recording, on a bus with this playback and a
    /// [`ReplayProvider`] for each of the recording's providers.
    ///
    /// # Errors
    /// [`ReplayError`]; the recorded runs before it were replayed.
    pub async fn drive(&self, agent: &Agent) -> Result<(), ReplayError> {
        if self.recording().runs.is_empty() {
            return Err(ReplayError::Empty);
        }
        let stand_ins = agent.bus().scope("replay-stand-ins");
        for name in self.foreign_tools() {
            if agent.bus().item::<dyn Tool>(&name).is_none() {
                // Cannot fail: no item of the agent has the name.
                let _ = stand_ins.provide::<dyn Tool>(&name, Arc::new(StandIn::new(&name)));
            }
        }
        for (index, run) in self.recording().runs.iter().enumerate() {
            self.begin_run(index);
            let changed = tokio::time::timeout(RUN_LIMIT, change_window(agent, &run.window_steps)).await;
            changed.map_err(|_| ReplayError::Stuck { run: index + 1 })?;
            self.drive_run(agent, run, index + 1).await?;
        }
        stand_ins.close().await;
        Ok(())
    }

    /// Names of the tools of servers that were called.
    fn foreign_tools(&self) -> Vec<String> {
        let calls = self.recording().runs.iter().flat_map(|run| &run.turns).flat_map(|turn| &turn.calls);
        let mut names: Vec<String> = calls.map(|call| call.call.name.clone()).collect();
        names.retain(|name| name.starts_with(SERVER_TOOL_PREFIX));
        names.sort_unstable();
        names.dedup();
        names
    }

    async fn drive_run(&self, agent: &Agent, run: &RecordedRun, number: usize) -> Result<(), ReplayError> {
        let refused = |error| ReplayError::Agent { run: number, error };
        if !self.inner.keeps_model {
            if let Some(model) = run.first_model().filter(|model| agent.model().reference() != **model) {
                agent.set_model(self.recording().model(model)).await.map_err(refused)?;
            }
            let thinking = ThinkingRequest { level: run.thinking, ..agent.thinking() };
            if agent.thinking().level != run.thinking {
                agent.set_thinking(thinking).await.map_err(refused)?;
            }
        }
        for message in run.opening.iter().filter(|message| was_injected(message)) {
            agent.inject(Message { id: None, ..Message::clone(message) }).map_err(refused)?;
        }
        let options = match run.prompt() {
            Some(prompt) => RunOptions::prompt(prompt_blocks(prompt)),
            None => RunOptions::resume(),
        };
        let running = agent.run(options).map_err(refused)?;
        let handle = running.handle();
        let mut wait = std::pin::pin!(running.wait());
        if tokio::time::timeout(RUN_LIMIT, &mut wait).await.is_err() {
            handle.abort();
            return Err(ReplayError::Stuck { run: number });
        }
        Ok(())
    }
}

/// Makes the agent's window smaller, or restores it, as the person did between two runs. The comparison reports what fails
/// here as a missing compaction.
async fn change_window(agent: &Agent, steps: &[WindowStep]) {
    let Some(window) = agent.bus().service::<dyn ContextWindow>().filter(|_| !steps.is_empty()) else {
        return;
    };
    let conversation = AgentConversation::new(agent.clone());
    for step in steps {
        let _ = match step {
            WindowStep::Reduce { .. } => conversation.compact(None).await.map_err(BoxError::from),
            WindowStep::Restore => {
                window.restore(&agent.context(), &conversation.command_cx()).await.map(drop)
            }
        };
    }
}

/// Whether the message came before the prompt from outside of the loop, such as the output of a command of the person.
fn was_injected(message: &Message) -> bool {
    message.injected_by.is_some() && is_from_outside(message)
}

/// A replay through an agent of its own, on a bus of its own, with a session in memory.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// # use zk_core::model::Message;
/// # use zk_core::service::{Entry, EntryKind};
/// use zk_core::events::AgentBeforeStart;
/// use zk_core::kernel::{BoxError, Scope, plugin_fn};
/// use zk_replay::{Recording, Replay, compare};
///
/// # let kinds = [
/// #     EntryKind::RunStart { run_id: "r_1".into() },
/// #     EntryKind::Message { message: Message::user_text("hi").shared(), usage: None },
/// #     EntryKind::Message { message: Message::assistant(vec![zk_core::model::Block::text("Hello.")]).shared(), usage: None },
/// #     EntryKind::RunEnd { run_id: "r_1".into(), status: zk_core::service::RunStatus::Completed },
/// # ];
/// # let entries: Vec<Entry> = kinds.into_iter().map(|kind| Entry {
/// #     id: "e".into(), parent: None, time_ms: 0, kind }).collect();
/// let mine = plugin_fn("mine", |_: &Scope| Ok::<(), BoxError>(()));
/// let recording = Recording::of(&entries);
/// let run = Replay::new(recording.clone()).plugin(mine).run().await.unwrap();
/// assert!(compare(&recording, &run).is_empty());
/// # });
/// ```
#[must_use = "a replay does nothing until it runs"]
pub struct Replay {
    playback: Playback,
    plugins: Vec<Arc<dyn Plugin>>,
    setups: Vec<Box<dyn FnOnce(AgentBuilder) -> AgentBuilder + Send>>,
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay").field("playback", &self.playback).finish_non_exhaustive()
    }
}

impl Replay {
    /// Creates the replay of a recording.
    pub fn new(recording: Recording) -> Self {
        Self { playback: Playback::new(recording), plugins: Vec::new(), setups: Vec::new() }
    }

    /// Takes the answers from another recording.
    pub fn answered_by(self, answers: Recording) -> Self {
        Self { playback: self.playback.answered_by(answers), ..self }
    }

    /// Adds a plugin to the agent.
    pub fn plugin(mut self, plugin: impl Plugin + 'static) -> Self {
        self.plugins.push(Arc::new(plugin));
        self
    }

    /// Changes how the agent is built: tools, system prompt, behaviour.
    pub fn agent(mut self, set_up: impl FnOnce(AgentBuilder) -> AgentBuilder + Send + 'static) -> Self {
        self.setups.push(Box::new(set_up));
        self
    }

    /// Replays all runs, and returns the recording of them.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub async fn run(self) -> Result<Recording, ReplayError> {
        let Self { playback, plugins, setups } = self;
        let refused = |error: AgentError| ReplayError::Agent { run: 1, error };
        let names = playback.answers().providers();
        let mut providers = names.iter().map(|name| ReplayProvider::new(&**name, playback.clone()));
        let first = providers.next().unwrap_or_else(|| ReplayProvider::new("replay", playback.clone()));
        let bus = Bus::new();
        let scope = bus.scope("replay-providers");
        for provider in providers {
            let name = provider.name().to_owned();
            // Cannot fail: the names of the providers are unique.
            let _ = scope.provide::<dyn Provider>(&name, Arc::new(provider));
        }
        let store = MemoryStore::new().with_clock(playback.clock());
        let session = store.create(NewSession { id: None, cwd: "/".into(), parent: None }).await?;
        let install = |plugin: &dyn Plugin| {
            bus.install(plugin).map_err(|error| refused(AgentError::Usage(error.to_string())))
        };
        install(&Recorder::new(session.clone()))?;
        install(&ReplayLog::new())?;
        for plugin in &plugins {
            install(&**plugin)?;
        }
        install(&playback)?;
        let model = first.default_model().unwrap_or_else(|| "recorded".to_owned());
        let mut builder = Agent::builder(Arc::new(first))
            .bus(bus.clone())
            .model_id(model)
            .session(session.id().clone())
            .unguarded();
        for set_up in setups {
            builder = set_up(builder);
        }
        let agent = builder.build().map_err(refused)?;
        let driven = playback.drive(&agent).await;
        agent.close().await;
        bus.close().await;
        driven?;
        Ok(Recording::of(&session.entries().await?))
    }
}
