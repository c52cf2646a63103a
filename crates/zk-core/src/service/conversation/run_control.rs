use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::kernel::Source;
use crate::model::{AgentError, Message, Model, RunId, TurnUsage};

/// The run that an event belongs to, for plugins: `cx.service::<dyn RunControl>()`. Absent outside a run.
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
    /// The run's id.
    fn run_id(&self) -> RunId;

    /// Returns the state of the run.
    fn state(&self) -> RunState;

    /// Queues a message that interrupts the run after the present call, as a person's steering does.
    ///
    /// # Errors
    /// [`RunEnded`] with the message when the run takes no messages any more.
    fn steer(&self, message: Message) -> Result<(), RunEnded>;

    /// Queues a message for when the model is done; the run goes on with it.
    ///
    /// # Errors
    /// [`RunEnded`] with the message when the run takes no messages any more.
    fn follow_up(&self, message: Message) -> Result<(), RunEnded>;

    /// Queues a message for the person's next prompt: it joins the conversation right after that, and this run does not
    /// see it.
    fn next_prompt(&self, message: Message);

    /// Stops the run. It ends as aborted; `agent:abort`, `agent:done` and the outcome of the run tell the first
    /// reason that was given.
    fn abort(&self, reason: &str);

    /// Asks a model something beside the conversation: without tools, without a place in the history. Its
    /// usage counts in the totals of the run, and apart in [`Stats::side_calls`](crate::model::Stats);
    /// [`SideCallEnd`](crate::events::SideCallEnd) tells it with the plugin that asked.
    /// It stops with the run.
    ///
    /// # Errors
    /// [`AgentError`], of kind `Stalled` when there was no answer in time. What the provider had counted by then
    /// is accounted for all the same.
    async fn side_call(&self, call: SideCall) -> Result<SideAnswer, AgentError>;
}

/// A message that came too late: its run takes no more.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the run is over, so the message was not delivered; send it as the prompt of the next run")]
pub struct RunEnded {
    /// The message.
    pub message: Arc<Message>,
}

/// State of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunState {
    /// The turn, from 1; 0 before the first.
    pub turn: u32,
    /// Whether it is to stop.
    pub stopping: bool,
    /// Steering messages not delivered yet.
    pub steering: usize,
    /// Follow-ups not delivered yet.
    pub follow_ups: usize,
}

/// A request to a model beside the conversation.
#[derive(Clone, Debug)]
pub struct SideCall {
    /// The plugin that asks: the source of its scope. Stored usage names it.
    pub source: Source,
    /// Purpose of the call, in a word or two: `title`, `summary`. Statistics and logs name it.
    pub purpose: String,
    /// The system prompt.
    pub system: String,
    /// The messages.
    pub messages: Vec<Message>,
    /// The model; that of the run if nothing.
    pub model: Option<Model>,
    /// The longest answer in tokens; 1,024 if nothing.
    pub max_tokens: Option<u32>,
    /// Time limit of the call: 30 s unless changed.
    pub limit: Duration,
}

impl SideCall {
    /// A call of `source` for `purpose` with one prompt.
    pub fn new(source: &Source, purpose: impl Into<String>, prompt: impl Into<String>) -> Self {
        Self {
            source: source.clone(),
            purpose: purpose.into(),
            system: String::new(),
            messages: vec![Message::user_text(prompt)],
            model: None,
            max_tokens: None,
            limit: Duration::from_secs(30),
        }
    }
}

/// The answer to a [`SideCall`].
#[derive(Clone, Debug, PartialEq)]
pub struct SideAnswer {
    /// The answer's text.
    pub text: String,
    /// Usage of the call, with its cost.
    pub usage: TurnUsage,
}
