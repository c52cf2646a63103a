use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::kernel::Source;
use crate::model::{AgentError, Message, Model, RunId, TurnUsage};
use crate::service::OutputFormat;

/// Running sub-agents of a conversation, in the background too: `bus.service::<dyn RunningAgents>()`. Absent
/// without an agent that has sub-agents.
pub trait RunningAgents: Send + Sync {
    /// Whether any sub-agent of the conversation is running.
    fn is_any_running(&self) -> bool;

    /// Stops all running sub-agents of the conversation for this reason. Their ends begin no run.
    fn stop_all(&self, reason: &str);
}

/// Control of the run that an event belongs to, for plugins: `cx.service::<dyn RunControl>()`. Absent outside
/// of a run.
///
/// ```
/// use zk_core::events::TurnAfter;
/// use zk_core::kernel::{Cx, plugin_fn};
/// use zk_core::model::Message;
/// use zk_core::service::RunControl;
///
/// let wrap_up = plugin_fn("wrap-up", |scope| {
///     scope.on_sync(|turn: &TurnAfter, cx: &Cx| {
///         if turn.turn == 20 && let Some(run) = cx.service::<dyn RunControl>() {
///             // A run that is over answers with the message; there is nobody left to tell.
///             let _ = run.steer(Message::injected("Come to an end now.", "wrap-up"));
///         }
///     });
///     Ok(())
/// });
/// # let _ = wrap_up;
/// ```
#[async_trait]
pub trait RunControl: Send + Sync {
    /// Returns the run's id.
    fn run_id(&self) -> RunId;

    /// Returns the run's turn, its queues, and whether it is stopping.
    fn state(&self) -> RunState;

    /// Queues a message that interrupts the run after the current call, like steering by a person.
    ///
    /// # Errors
    /// [`RunEnded`] with the message when the run takes no messages any more.
    fn steer(&self, message: Message) -> Result<(), RunEnded>;

    /// Queues a message for when the model is done; the run continues with it.
    ///
    /// # Errors
    /// [`RunEnded`] with the message when the run takes no messages any more.
    fn follow_up(&self, message: Message) -> Result<(), RunEnded>;

    /// Queues a message that joins the conversation right after the person's next prompt. This run does not
    /// see it.
    fn next_prompt(&self, message: Message);

    /// Stops the run, which ends as aborted. `agent:abort`, `agent:done` and the run's result report the
    /// reason of the first call.
    fn abort(&self, reason: &str);

    /// Ends the run at once because another worker writes its session now
    /// ([`StoreError::Fenced`](crate::service::StoreError::Fenced)). Called by the recorder of the session; does nothing by
    /// default.
    fn lose_session(&self) {}

    /// Makes a side call: a request to a model without tools, outside of the history. It is cancelled with
    /// the run. The usage counts in the run's totals, and separately in
    /// [`Stats::side_calls`](crate::model::Stats); [`SideCallEnd`](crate::events::SideCallEnd) announces it
    /// with the plugin's source.
    ///
    /// # Errors
    /// [`AgentError`], of kind `Stalled` if there was no answer in time. Tokens that the provider had counted
    /// by then are still accounted for.
    async fn side_call(&self, call: SideCall) -> Result<SideAnswer, AgentError>;
}

/// A message that was sent too late: its run accepts no more messages.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the run is over, so the message was not delivered; send it as the prompt of the next run")]
pub struct RunEnded {
    /// The undelivered message.
    pub message: Arc<Message>,
}

/// State of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunState {
    /// Number of the current turn, from 1; 0 before the first.
    pub turn: u32,
    /// Whether the run is being stopped.
    pub stopping: bool,
    /// Number of queued steering messages.
    pub steering: usize,
    /// Number of queued follow-ups.
    pub follow_ups: usize,
}

/// Request to a model outside of the conversation.
#[derive(Clone, Debug)]
pub struct SideCall {
    /// Source of the plugin that asks. Stored usage names it.
    pub source: Source,
    /// Purpose of the call in a word or two, such as `title` or `summary`, for statistics and logs.
    pub purpose: String,
    /// System prompt of the call.
    pub system: String,
    /// Messages to send.
    pub messages: Vec<Message>,
    /// Part of the agent that asks, by which [`PartModels`](super::PartModels) chooses the model; `None` for
    /// the run's model.
    pub part: Option<String>,
    /// Model to ask, whichever the part; `None` for the part's or the run's.
    pub model: Option<Model>,
    /// Output limit in tokens; `None` for 1,024.
    pub max_tokens: Option<u32>,
    /// Time limit of the call, 30 s by default.
    pub limit: Duration,
    /// Required form of the answer. Only a provider that can enforce it for the model is given it, so that the caller
    /// still validates the answer.
    pub output: Option<OutputFormat>,
}

impl SideCall {
    /// Creates a call by `source` for `purpose` with one prompt.
    pub fn new(source: &Source, purpose: impl Into<String>, prompt: impl Into<String>) -> Self {
        Self {
            source: source.clone(),
            purpose: purpose.into(),
            system: String::new(),
            messages: vec![Message::user_text(prompt)],
            part: None,
            model: None,
            max_tokens: None,
            limit: Duration::from_secs(30),
            output: None,
        }
    }

    /// Asks the model of a part, such as `supervisor`, if one is set.
    ///
    /// ```
    /// use zk_core::kernel::Source;
    /// use zk_core::service::{SUPERVISOR_PART, SideCall};
    ///
    /// let call = SideCall::new(&Source::new("goals"), "verdict", "Is it done?").for_part(SUPERVISOR_PART);
    /// assert_eq!(call.part.as_deref(), Some(SUPERVISOR_PART));
    /// ```
    #[must_use]
    pub fn for_part(self, part: impl Into<String>) -> Self {
        Self { part: Some(part.into()), ..self }
    }
}

/// Answer to a [`SideCall`].
#[derive(Clone, Debug, PartialEq)]
pub struct SideAnswer {
    /// Text of the answer.
    pub text: String,
    /// Usage and cost of the call.
    pub usage: TurnUsage,
}
