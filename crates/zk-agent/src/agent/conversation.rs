mod leaf;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use tokio::sync::{Mutex, MutexGuard};
use tokio::task::JoinHandle;
use zk_core::events::{
    CompactionTrigger, SessionBeforeCompact, SessionBeforeFork, SessionBeforeReply, SessionBeforeSwitch,
    SessionSwitch, SteerKind,
};
use zk_core::kernel::{Cx, Plugin, Scope};
use zk_core::model::{AgentError, Block, Message, RunId, SessionId};
use zk_core::service::{
    AnswerError, ContextWindow, Conversation, ConversationError, ConversationState, Delivery,
    MessageDelivery, OpenedSession, QuestionDigest, QuestionId, Questions, Reduction, RunEnded,
    SessionOpener, Submitted, SwitchTarget, TurnCwd, TurnEnv, UiAnswer,
};

use crate::lock::lock;
use crate::run::RunShared;
use crate::{Agent, Run, RunOptions};

/// The conversation of an [`Agent`], as a handle: clones are the same conversation.
///
/// Plugins of the current session (its recorder, its store of large results) are installed on the agent's bus
/// as long as the session is current.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::sync::Arc;
///
/// use zk_agent::{Agent, AgentConversation};
/// use zk_core::model::Block;
/// use zk_core::service::{Conversation, SwitchTarget};
/// use zk_testkit::{Script, ScriptedProvider};
///
/// let provider = ScriptedProvider::new(Script::new().turn(|turn| turn.text("Hello.")));
/// let conversation = AgentConversation::new(Agent::builder(Arc::new(provider)).build().unwrap());
/// conversation.submit(vec![Block::text("Hi.")]).await.unwrap();
/// conversation.idle().await;
/// assert_eq!(conversation.state().messages, 2);
/// conversation.switch(SwitchTarget::New).await.unwrap();
/// assert_eq!(conversation.state().messages, 0);
/// # });
/// ```
#[derive(Clone)]
pub struct AgentConversation {
    inner: Arc<Inner>,
}

struct Inner {
    agent: Agent,
    opener: Arc<dyn SessionOpener>,
    /// Scopes of the current session's plugins, newest last. Locked while a run begins and while the session
    /// is replaced.
    session: Mutex<Vec<Scope>>,
    /// Task that collects the messages a submitted run did not deliver.
    watching: std::sync::Mutex<Option<JoinHandle<()>>>,
    /// Messages that no run delivered.
    unsent: std::sync::Mutex<Vec<Arc<Message>>>,
}

impl fmt::Debug for AgentConversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentConversation").field("agent", &self.inner.agent).finish_non_exhaustive()
    }
}

/// Delivery service of a conversation, which does not keep the conversation alive.
struct DeliveryToConversation(Weak<Inner>);

#[async_trait]
impl MessageDelivery for DeliveryToConversation {
    async fn deliver(&self, message: Message, delivery: Delivery) -> Result<Submitted, ConversationError> {
        let inner = self.0.upgrade().ok_or_else(|| ConversationError::Unsupported {
            what: "a message".into(),
            reason: "the conversation is over".into(),
        })?;
        Conversation::deliver(&AgentConversation { inner }, message, delivery).await
    }
}

/// Session opener for a host without a session store: opens only new conversations.
struct Unstored;

#[async_trait]
impl SessionOpener for Unstored {
    async fn open(
        &self,
        target: &SwitchTarget,
        _: Option<&SessionId>,
    ) -> Result<OpenedSession, ConversationError> {
        match target {
            SwitchTarget::New => Ok(OpenedSession::default()),
            SwitchTarget::Session(_)
            | SwitchTarget::Branch(_)
            | SwitchTarget::Tree(_)
            | SwitchTarget::Fork(_) => Err(ConversationError::Unsupported {
                what: target.to_string(),
                reason: "this conversation has no store; make it with `AgentConversation::stored`".into(),
            }),
        }
    }
}

impl AgentConversation {
    /// Creates the conversation of `agent` without a session store: it can only be replaced by a new
    /// conversation.
    #[must_use]
    pub fn new(agent: Agent) -> Self {
        Self::with_opener(agent, Arc::new(Unstored))
    }

    /// Creates the conversation of `agent`, with `opener` to open other sessions. `plugins` belong to the
    /// agent's current session, like [`OpenedSession::plugins`].
    ///
    /// # Errors
    /// [`AgentError::Usage`] when a plugin cannot be installed; none stays installed then.
    pub async fn stored(
        agent: Agent,
        opener: Arc<dyn SessionOpener>,
        plugins: &[Arc<dyn Plugin>],
    ) -> Result<Self, AgentError> {
        let conversation = Self::with_opener(agent, opener);
        let mut scopes = conversation.inner.session.lock().await;
        if let Err(error) = conversation.add_plugins(&mut scopes, plugins) {
            close_all(&mut scopes).await;
            return Err(AgentError::Usage(error.to_string()));
        }
        drop(scopes);
        Ok(conversation)
    }

    fn with_opener(agent: Agent, opener: Arc<dyn SessionOpener>) -> Self {
        let bus = agent.bus().clone();
        let inner = Arc::new(Inner {
            agent,
            opener,
            session: Mutex::default(),
            watching: std::sync::Mutex::default(),
            unsent: std::sync::Mutex::default(),
        });
        let delivery = Arc::new(DeliveryToConversation(Arc::downgrade(&inner)));
        bus.scope("conversation").provide_service::<dyn MessageDelivery>(delivery);
        Self { inner }
    }

    /// Returns the agent.
    #[must_use]
    pub fn agent(&self) -> &Agent {
        &self.inner.agent
    }

    /// Creates a run of this conversation, for a front-end that waits for the outcome itself.
    ///
    /// # Errors
    /// As [`Agent::run`].
    pub async fn run(&self, options: impl Into<RunOptions> + Send) -> Result<Run, AgentError> {
        let _not_meanwhile = self.inner.session.lock().await;
        self.inner.agent.run(options)
    }

    /// Returns the context for a [`Command`](zk_core::service::Command) of this conversation. It provides the
    /// [`Conversation`], the id of its context window and its directory, besides the services of the bus.
    #[must_use]
    pub fn command_cx(&self) -> Cx {
        let cx = self.inner.agent.bus().cx().with_service::<dyn Conversation>(Arc::new(self.clone()));
        let cwd = TurnCwd(self.inner.agent.inner.state().cwd.clone());
        cx.with_service(Arc::new(self.inner.agent.context())).with_service(Arc::new(cwd))
    }

    /// Stops the run, closes the session's plugins, and then the agent.
    pub async fn close(&self) {
        self.inner.agent.stop_and_wait().await;
        let mut scopes = self.inner.session.lock().await;
        close_all(&mut scopes).await;
        drop(scopes);
        self.inner.agent.close().await;
    }

    /// Withdraws the newest steering message with this text, if the run has not delivered it yet. Returns
    /// false if there is none: the model has it, or the run ended and returned it.
    #[must_use]
    pub fn unsteer(&self, text: &str) -> bool {
        self.current_run().is_some_and(|run| run.queues().unsteer(text))
    }

    fn current_run(&self) -> Option<Arc<RunShared>> {
        let current = self.inner.agent.inner.state().current.upgrade();
        current.filter(|_| self.inner.agent.is_running())
    }

    /// Queues `message` for the active run. Returns the message if no run is active any more.
    async fn queue_message(&self, kind: SteerKind, message: Message) -> Result<RunId, Message> {
        let Some(run) = self.current_run() else { return Err(message) };
        if run.queue(kind, message.clone()).is_ok() {
            return Ok(run.id.clone());
        }
        // The run accepts no more messages and is about to end.
        self.inner.agent.wait_for_idle().await;
        Err(message)
    }

    /// Starts a run in the background.
    fn start_run(&self, options: RunOptions) -> Result<Submitted, ConversationError> {
        let mut run = self.inner.agent.run(options)?;
        run.start();
        let (id, inner) = (run.id().clone(), Arc::downgrade(&self.inner));
        *lock(&self.inner.watching) = Some(tokio::spawn(async move {
            let outcome = run.wait().await;
            if let Some(inner) = inner.upgrade() {
                lock(&inner.unsent).extend(outcome.unsent);
            }
        }));
        Ok(Submitted::Started(id))
    }

    fn add_plugins(&self, to: &mut Vec<Scope>, plugins: &[Arc<dyn Plugin>]) -> Result<(), ConversationError> {
        for plugin in plugins {
            let installed = self.inner.agent.bus().install(&**plugin);
            to.push(installed.map_err(|error| ConversationError::Install(error.into()))?);
        }
        Ok(())
    }

    /// Asks plugins, with a `session:before-*` event, whether the conversation may be replaced.
    async fn ask_plugins(&self, target: &SwitchTarget) -> Result<(), ConversationError> {
        let cx = self.inner.agent.bus().cx();
        let from = self.state().session;
        let here = || {
            from.clone().ok_or_else(|| ConversationError::Unsupported {
                what: target.to_string(),
                reason: "this conversation is not stored, so it has no entries".into(),
            })
        };
        let reply = match target {
            SwitchTarget::New => cx.emit(SessionBeforeSwitch { from, to: None }).await?,
            SwitchTarget::Session(id) => cx.emit(SessionBeforeSwitch { from, to: Some(id.clone()) }).await?,
            SwitchTarget::Branch(_) | SwitchTarget::Tree(_) => None,
            SwitchTarget::Fork(entry) => {
                let session_id = here()?;
                cx.emit(SessionBeforeFork { session_id, entry: entry.clone() }).await?
            }
        };
        check_reply(reply.as_ref(), || target.to_string())
    }

    /// Replaces the current session by `opened`. The plugins of the old session are closed already.
    async fn replace(
        &self,
        scopes: &mut Vec<Scope>,
        opened: OpenedSession,
    ) -> Result<ConversationState, ConversationError> {
        let OpenedSession { plugins, .. } = &opened;
        if let Err(error) = self.add_plugins(scopes, plugins) {
            close_all(scopes).await;
            self.begin_session(OpenedSession::default()).await?;
            return Err(error);
        }
        self.begin_session(opened).await?;
        Ok(self.state())
    }

    /// Replaces the agent's conversation by `opened`, and announces the switch to front-ends.
    async fn begin_session(&self, opened: OpenedSession) -> Result<(), ConversationError> {
        let (from, to, entries) = (self.state().session, opened.id.clone(), opened.entries.clone());
        let replaced = self.inner.agent.replace(opened).await;
        lock(&self.inner.unsent).clear();
        self.inner.agent.bus().cx().emit(SessionSwitch { from, to, entries }).await?;
        Ok(replaced?)
    }

    /// Locks the current session's plugins, unless a run is active.
    fn idle_session(&self) -> Result<MutexGuard<'_, Vec<Scope>>, ConversationError> {
        let session = self.inner.session.try_lock().map_err(|_| ConversationError::Busy)?;
        if self.inner.agent.is_running() { Err(ConversationError::Busy) } else { Ok(session) }
    }
}

fn check_reply(
    reply: Option<&SessionBeforeReply>,
    what: impl Fn() -> String,
) -> Result<(), ConversationError> {
    match reply {
        Some(reply) if reply.cancel => {
            let reason = reply.reason.clone().unwrap_or_else(|| "it gave no reason".to_owned());
            Err(ConversationError::Refused { what: what(), reason })
        }
        Some(_) | None => Ok(()),
    }
}

/// Closes scopes, newest first.
async fn close_all(scopes: &mut Vec<Scope>) {
    while let Some(scope) = scopes.pop() {
        scope.close().await;
    }
}

#[async_trait]
impl Conversation for AgentConversation {
    fn state(&self) -> ConversationState {
        let run = self.current_run();
        let queued = run.as_ref().map_or(0, |run| {
            let queues = run.queues();
            queues.steer.len() + queues.follow_up.len()
        });
        let state = self.inner.agent.inner.state();
        ConversationState {
            session: state.session.clone(),
            messages: state.history.len(),
            cwd: state.cwd.clone(),
            run: run.map(|run| run.id.clone()),
            queued,
        }
    }

    async fn submit(&self, prompt: Vec<Block>) -> Result<Submitted, ConversationError> {
        let _not_meanwhile = self.inner.session.lock().await;
        let message = Message { injected_by: Some("follow-up".into()), ..Message::user(prompt.clone()) };
        match self.queue_message(SteerKind::FollowUp, message).await {
            Ok(run) => Ok(Submitted::Queued(run)),
            Err(_) => self.start_run(RunOptions::prompt(prompt)),
        }
    }

    async fn deliver(&self, message: Message, delivery: Delivery) -> Result<Submitted, ConversationError> {
        let kind = match delivery {
            Delivery::Steer => SteerKind::Steer,
            Delivery::FollowUp => SteerKind::FollowUp,
            Delivery::NextPrompt => {
                self.inner.agent.inner.state().next_prompt.push(message);
                return Ok(Submitted::Waiting);
            }
        };
        let _not_meanwhile = self.inner.session.lock().await;
        match self.queue_message(kind, message).await {
            Ok(run) => Ok(Submitted::Queued(run)),
            Err(message) => {
                self.inner.agent.inject(message)?;
                self.start_run(RunOptions::resume())
            }
        }
    }

    fn steer(&self, message: Message) -> Result<(), RunEnded> {
        match self.current_run() {
            Some(run) => run.queue(SteerKind::Steer, message),
            None => Err(RunEnded { message: message.shared() }),
        }
    }

    fn answer(&self, id: QuestionId, digest: QuestionDigest, answer: UiAnswer) -> Result<(), AnswerError> {
        match self.inner.agent.bus().service::<Questions>() {
            Some(questions) => questions.attach().answer(id, digest, answer),
            None => Err(AnswerError::NotPending),
        }
    }

    fn cancel(&self, reason: &str) -> bool {
        let run = self.current_run();
        if let Some(run) = &run {
            run.abort(Some(reason));
        }
        run.is_some()
    }

    async fn idle(&self) -> Vec<Arc<Message>> {
        self.inner.agent.wait_for_idle().await;
        let watching = lock(&self.inner.watching).take();
        if let Some(watching) = watching {
            // The task ends right after its run, and does not panic.
            let _ = watching.await;
        }
        std::mem::take(&mut *lock(&self.inner.unsent))
    }

    async fn switch(&self, to: SwitchTarget) -> Result<ConversationState, ConversationError> {
        let mut scopes = self.idle_session()?;
        let from = self.state().session;
        if matches!(&to, SwitchTarget::Session(id) if from.as_ref() == Some(id)) {
            return Ok(self.state());
        }
        if let Some(wanted) = to.tree_move() {
            return self.move_leaf(&mut scopes, wanted).await;
        }
        self.ask_plugins(&to).await?;
        let opened = self.inner.opener.open(&to, from.as_ref()).await?;
        close_all(&mut scopes).await;
        self.replace(&mut scopes, opened).await
    }

    async fn compact(&self, instructions: Option<String>) -> Result<(), ConversationError> {
        let _idle = self.idle_session()?;
        let unsupported = |reason: &str| ConversationError::Unsupported {
            what: "a smaller conversation".into(),
            reason: reason.into(),
        };
        let bus = self.inner.agent.bus();
        let (session_id, context) = {
            let state = self.inner.agent.inner.state();
            (state.session.clone(), state.context.clone())
        };
        let window = bus.service::<dyn ContextWindow>().ok_or_else(|| {
            unsupported(
                "nothing owns the context window; install a plugin that does, such as zk-compaction's",
            )
        })?;
        let tokens = window.fill(&context).and_then(|fill| fill.tokens).unwrap_or_default();
        let reply = bus
            .cx()
            .emit(SessionBeforeCompact {
                session_id,
                tokens,
                instructions: instructions.clone(),
                trigger: CompactionTrigger::Manual,
            })
            .await?;
        check_reply(reply.as_ref(), || "a smaller conversation".to_owned())?;
        let summary = match reply.as_ref().map(SessionBeforeReply::summary).transpose() {
            Ok(summary) => summary.flatten().map(str::to_owned),
            Err(error) => return Err(unsupported(&error.to_string())),
        };
        window.reduce(&context, Reduction { instructions, summary });
        self.inner.agent.prepare_context().await?;
        Ok(())
    }

    async fn reload(&self) -> Result<ConversationState, ConversationError> {
        let mut scopes = self.idle_session()?;
        let Some(id) = self.state().session else {
            return Err(ConversationError::Unsupported {
                what: "reading the session again".into(),
                reason: "this conversation is not stored".into(),
            });
        };
        let target = SwitchTarget::Session(id.clone());
        self.ask_plugins(&target).await?;
        // Closed before reopening, because the store allows only one open session with this id.
        close_all(&mut scopes).await;
        match self.inner.opener.open(&target, Some(&id)).await {
            Ok(opened) => self.replace(&mut scopes, opened).await,
            Err(error) => {
                self.begin_session(OpenedSession::default()).await?;
                Err(ConversationError::Install(error.into()))
            }
        }
    }

    fn set_cwd(&self, cwd: PathBuf) {
        self.inner.agent.change_cwd(cwd);
    }

    fn set_env(&self, name: String, value: Option<String>) {
        let mut state = self.inner.agent.inner.state();
        let TurnEnv(env) = Arc::make_mut(&mut state.env);
        match value {
            Some(value) => _ = env.insert(name, value),
            None => _ = env.remove(&name),
        }
    }
}
