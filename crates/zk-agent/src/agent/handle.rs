use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio_util::sync::CancellationToken;
use zk_core::events::{Cause, CwdChanged, ModelSelect, ThinkingSelect};
use zk_core::kernel::{Bus, Scope};
use zk_core::model::{AgentError, Message, Model, Role, ThinkingRequest};
use zk_core::service::{ContextId, OpenedSession, RunControl, SideAnswer, SideCall, TurnCwd, spent_in};

use super::busy::Busy;
use crate::agent::{AgentInner, AgentState};
use crate::budget::BudgetChain;
use crate::run::Control;
use crate::run::Driver;
use crate::run::Lineage;
use crate::run::RunShared;
use crate::run::identified;
use crate::tools::ToolMemory;
use crate::turn::is_blank;
use crate::{Run, RunOptions};

/// A conversation with a model that can use tools. As a handle: clones are the same agent.
#[derive(Clone)]
pub struct Agent {
    pub(crate) inner: Arc<AgentInner>,
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("provider", &self.inner.provider.name())
            .field("model", &self.inner.state().model.id)
            .field("messages", &self.inner.state().history.len())
            .field("running", &self.is_running())
            .finish_non_exhaustive()
    }
}

impl Agent {
    pub(crate) fn new(inner: AgentInner) -> Self {
        Self { inner: Arc::new(inner) }
    }

    /// Creates a run, which starts when it is awaited.
    ///
    /// # Errors
    /// [`AgentError::Usage`] while another run is active, and for a run without a prompt when there is
    /// nothing to continue: the history is empty, or ends with a finished answer.
    pub fn run(&self, options: impl Into<RunOptions>) -> Result<Run, AgentError> {
        self.run_with_lineage(options.into(), self.inner.token.child_token(), Lineage::default())
    }

    /// Runs a prompt and returns the answer as a `T`, whose JSON Schema the model has to follow.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use zk_agent::Agent;
    /// # use zk_core::model::AgentError;
    /// # use zk_testkit::{Script, ScriptedProvider};
    /// use schemars::JsonSchema;
    /// use serde::Deserialize;
    ///
    /// #[derive(Deserialize, JsonSchema)]
    /// struct City {
    ///     name: String,
    ///     /// In millions
    ///     people: f64,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), AgentError> {
    /// # let model = Script::new()
    /// #     .turn(|t| t.call("__output__", serde_json::json!({ "name": "Lagos", "people": 16.5 })));
    /// # let agent = Agent::builder(Arc::new(ScriptedProvider::new(model))).build()?;
    /// let city: City = agent.run_as("Which city of Nigeria has the most people?").await?;
    /// assert_eq!((&*city.name, city.people), ("Lagos", 16.5));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`Agent::run`] and of the run itself, and [`AgentError::Output`] when the final answer
    /// is no valid `T`.
    #[cfg(feature = "typed")]
    pub async fn run_as<T>(&self, options: impl Into<RunOptions>) -> Result<T, AgentError>
    where
        T: serde::de::DeserializeOwned + schemars::JsonSchema,
    {
        self.run(options.into().answering::<T>())?.wait().await.answer()
    }

    pub(crate) fn run_with_lineage(
        &self,
        mut options: RunOptions,
        stop: CancellationToken,
        lineage: Lineage,
    ) -> Result<Run, AgentError> {
        if options.prompt.as_deref().is_none_or(is_blank) {
            options.prompt = None;
            let pending = self.inner.state().history.last().is_some_and(|last| last.role == Role::User);
            // A leg may find its run finished, or its prompt in the mailbox.
            if !pending && options.leg.is_none() {
                return Err(AgentError::Usage(
                    "there is nothing to do: give a prompt, or resume a conversation whose last message is the user's"
                        .into(),
                ));
            }
        }
        let shared = Arc::new(match options.leg.clone() {
            Some(run) => RunShared::of_run(run, stop),
            None => RunShared::new(stop),
        });
        let busy = Busy::new(&self.inner, &shared).ok_or_else(|| {
            AgentError::Usage("this agent is running: steer the run, or wait for it to end".into())
        })?;
        self.inner.state().current = Arc::downgrade(&shared);
        let driver = Driver::new(self.inner.clone(), shared.clone(), options, lineage);
        Ok(Run::new(shared, self.inner.bus.clone(), async move {
            let outcome = driver.run().await;
            drop(busy);
            outcome
        }))
    }

    /// Lets plugins connect to external resources, such as tool servers, and waits for them; otherwise the
    /// first run does this. Later calls do nothing, and concurrent calls wait for the first.
    ///
    /// # Errors
    /// [`AgentError::Hook`] when a required handler fails; the next call tries again.
    pub async fn warm_up(&self) -> Result<(), AgentError> {
        self.inner.warm_up().await
    }

    /// Warms up in a task of `scope`, unless the agent is dropped before.
    pub(crate) fn warm_up_in_background(&self, scope: &Scope) {
        let agent = Arc::downgrade(&self.inner);
        scope.spawn(async move {
            if let Some(agent) = agent.upgrade() {
                // A run repeats the attempt, and reports the failure.
                let _ = agent.warm_up().await;
            }
        });
    }

    /// Returns the history of the conversation as stored: with canonical names, neither repaired nor reduced.
    #[must_use]
    pub fn history(&self) -> Vec<Arc<Message>> {
        self.inner.state().history.clone()
    }

    /// Whether there is a run that has not ended, even if it was not started.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.inner.running.load(Ordering::Acquire)
    }

    /// Waits until every run has ended or was dropped, even one that was not started.
    pub async fn wait_for_idle(&self) {
        loop {
            let idle = self.inner.idle.notified();
            if !self.is_running() {
                return;
            }
            idle.await;
        }
    }

    /// Returns the agent's bus.
    #[must_use]
    pub fn bus(&self) -> &Bus {
        &self.inner.bus
    }

    /// Returns the agent's own part of the system prompt, which precedes the sections.
    #[must_use]
    pub fn system(&self) -> &str {
        &self.inner.system
    }

    /// Returns the id of the conversation's context, under which its window is tracked.
    #[must_use]
    pub fn context(&self) -> ContextId {
        self.inner.state().context.clone()
    }

    /// Returns the model for the next run.
    #[must_use]
    pub fn model(&self) -> Model {
        self.inner.state().model.clone()
    }

    /// Returns the reasoning request for the next run.
    #[must_use]
    pub fn thinking(&self) -> ThinkingRequest {
        self.inner.state().thinking
    }

    /// Changes the model from the next turn on, also of a run in progress, and also to another registered
    /// provider. The history stays.
    ///
    /// # Errors
    /// [`AgentError::Usage`] when its provider is not registered.
    pub async fn set_model(&self, model: Model) -> Result<(), AgentError> {
        self.inner.provider_of(&model)?;
        self.select_model(model, Cause::Set).await
    }

    /// Changes the reasoning request from the next turn on, also of a run in progress.
    ///
    /// # Errors
    /// [`AgentError::Hook`] when a required handler fails.
    pub async fn set_thinking(&self, thinking: ThinkingRequest) -> Result<(), AgentError> {
        self.select_thinking(thinking, Cause::Set).await
    }

    /// Sends a request to a model outside of the conversation, also during a run: without tools and without a
    /// place in the history. It counts towards the agent's budgets and is announced as
    /// [`SideCallEnd`](zk_core::events::SideCallEnd).
    ///
    /// # Errors
    /// As [`RunControl::side_call`].
    pub async fn side_call(&self, call: SideCall, stop: CancellationToken) -> Result<SideAnswer, AgentError> {
        let budgets = BudgetChain::new(self.inner.ledger.clone(), None);
        let shared = Arc::new(RunShared::new(stop));
        Control::new(self.inner.clone(), shared, self.model(), self.inner.tools.clone(), budgets)
            .side_call(call)
            .await
    }

    /// Adds a message to the conversation, for the next run: the output of a command that the person ran, a
    /// note of a plugin.
    ///
    /// # Errors
    /// [`AgentError::Usage`] while a run is in progress: steer it instead.
    pub fn inject(&self, message: Message) -> Result<(), AgentError> {
        if self.is_running() {
            return Err(AgentError::Usage("this agent is running: steer the run instead".into()));
        }
        self.inner.state().inject(message);
        Ok(())
    }

    /// Clears the conversation and its queues. The next run announces an empty conversation with
    /// `session:loaded`.
    ///
    /// # Errors
    /// [`AgentError::Usage`] while a run is in progress.
    pub fn reset(&self) -> Result<(), AgentError> {
        self.clear_conversation(|_| ())
    }

    /// Clears the conversation, then applies `set_up` to the new state.
    fn clear_conversation(&self, set_up: impl FnOnce(&mut AgentState)) -> Result<(), AgentError> {
        if self.is_running() {
            return Err(AgentError::Usage("this agent is running: stop the run first".into()));
        }
        let mut state = self.inner.state();
        state.history.clear();
        state.context = ContextId::fresh();
        state.restored = Some(Arc::from([]));
        state.unfinished = None;
        state.unstored.clear();
        state.next_prompt.clear();
        state.tools = ToolMemory::default();
        state.prefix.restore(&[]);
        self.inner.dedup.clear();
        let before = state.session.clone();
        set_up(&mut state);
        // Spending of the session stays counted when another branch of it is loaded.
        if let Some(ledger) = self.inner.ledger.as_ref().filter(|_| state.session != before) {
            ledger.restore_spent(state.restored.as_deref().map(spent_in).unwrap_or_default());
        }
        Ok(())
    }

    /// Changes the directory for the next turns, and announces the change.
    pub(crate) fn change_cwd(&self, to: PathBuf) {
        let from = std::mem::replace(&mut self.inner.state().cwd, to.clone());
        if from == to {
            return;
        }
        let cx = self.inner.bus.cx().with_service(Arc::new(self.context()));
        let cx = cx.with_service(Arc::new(TurnCwd(to.clone())));
        // Subscribers are not awaited, since the caller is not asynchronous.
        self.inner.bus.scope("conversation").spawn(async move {
            // A failing subscriber is reported by the bus.
            let _ = cx.emit(CwdChanged { from, to }).await;
        });
    }

    /// Replaces the conversation by an opened session, with its model, reasoning and directory.
    pub(crate) async fn replace(&self, opened: OpenedSession) -> Result<(), AgentError> {
        let OpenedSession { id, messages, entries, model, thinking, cwd, plugins: _ } = opened;
        self.clear_conversation(|state| {
            state.session = id;
            state.history = identified(messages);
            state.prefix.restore(&entries);
            state.restored = Some(entries);
            state.env = Arc::default();
            if let Some(cwd) = cwd {
                state.cwd = cwd;
            }
        })?;
        let changed = model.filter(|model| self.model() != *model && self.inner.provider_of(model).is_ok());
        if let Some(model) = changed {
            self.select_model(model, Cause::Restore).await?;
        }
        let (now, thinking) =
            (self.thinking(), thinking.map(|level| ThinkingRequest { level, budget: None }));
        match thinking.filter(|thinking| thinking.level != now.level) {
            Some(thinking) => self.select_thinking(thinking, Cause::Restore).await,
            None => Ok(()),
        }
    }

    async fn select_model(&self, model: Model, cause: Cause) -> Result<(), AgentError> {
        let (to, window) = (model.reference(), model.window);
        let from = std::mem::replace(&mut self.inner.state().model, model).reference();
        let cx = self.inner.bus.cx().with_service(Arc::new(self.context()));
        Ok(cx.emit(ModelSelect { from: Some(from), to, window, cause }).await?)
    }

    async fn select_thinking(&self, thinking: ThinkingRequest, cause: Cause) -> Result<(), AgentError> {
        let from = std::mem::replace(&mut self.inner.state().thinking, thinking).level;
        Ok(self.inner.bus.cx().emit(ThinkingSelect { from, to: thinking.level, cause }).await?)
    }

    /// Stops the active run and all later ones, and waits for the end of the active one.
    pub(crate) async fn stop_and_wait(&self) {
        self.inner.token.cancel();
        // A run that was never started does not end by itself; when started, it finds its stop token
        // cancelled.
        if self.inner.state().current.upgrade().is_none_or(|run| run.has_begun()) {
            self.wait_for_idle().await;
        }
    }

    /// Stops the active run, waits for its end and closes the agent's scopes of plugins and tools, newest
    /// first, and its bus, unless the caller provided it.
    pub async fn close(&self) {
        self.stop_and_wait().await;
        if self.inner.owns_bus {
            self.inner.bus.close().await;
        }
        for scope in self.inner.take_scopes().into_iter().rev() {
            scope.close().await;
        }
    }
}
