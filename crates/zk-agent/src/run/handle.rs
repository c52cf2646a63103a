use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures_util::Stream;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::WaitForCancellationFutureOwned;
use zk_core::events::{SteerKind, StreamText};
use zk_core::kernel::{AnyEvent, Bus, Cx, Reach, Scope, ScopeGuard};
use zk_core::model::{AgentError, Message, RunId, Stats, StopReason};
use zk_core::service::RunEnded;

use super::lineage::Lineage;
use super::shared::RunShared;

mod updates;

pub use updates::{RunUpdate, RunUpdates};

/// Maximum number of unread items in the channel of a stream.
const MAX_UNREAD_ITEMS: usize = 16_384;

/// A run: everything that one prompt causes, as one handle.
///
/// A run starts when it is first awaited, through [`Run::wait`] or [`Run::events`], or at [`Run::start`].
/// Dropping it cancels everything it does: the request, the tools, the sub-agents.
#[must_use = "a run does nothing until it is awaited or started"]
pub struct Run {
    shared: Arc<RunShared>,
    bus: Bus,
    task: RunTask,
}

enum RunTask {
    Idle(Pin<Box<dyn Future<Output = RunOutcome> + Send>>),
    Running(oneshot::Receiver<RunOutcome>),
    Over,
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("id", &self.shared.id).finish_non_exhaustive()
    }
}

/// Result of a finished run.
#[derive(Debug)]
pub struct RunOutcome {
    /// Id of the run.
    pub run_id: RunId,
    /// Success, or the error that ended the run.
    pub result: Result<(), AgentError>,
    /// The text of the last answer.
    pub text: String,
    /// Reason for which the last response ended.
    pub stop: Option<StopReason>,
    /// Statistics of the run.
    pub stats: Stats,
    /// Steering messages and follow-ups that were not delivered.
    pub unsent: Vec<Arc<Message>>,
    /// Reason for the stop, if the caller gave one.
    pub abort_reason: Option<String>,
}

impl RunOutcome {
    /// Returns the final answer of a run that was asked for a `T` ([`RunOptions::answering`](crate::RunOptions::answering)).
    ///
    /// # Errors
    /// The error that ended the run, and [`AgentError::Output`] when the final answer is no valid `T`.
    #[cfg(feature = "typed")]
    pub fn answer<T: serde::de::DeserializeOwned>(self) -> Result<T, AgentError> {
        self.result?;
        let output = self.stats.output.ok_or_else(|| {
            AgentError::Output(
                "the run ended before the model gave it; ask again, or go on with the run".into(),
            )
        })?;
        serde_json::from_value(output).map_err(|error| {
            AgentError::Output(format!("the answer follows its schema and is still no valid value: {error}"))
        })
    }
}

/// Handle to steer or stop a run from elsewhere; clones refer to the same run.
#[derive(Clone, Debug)]
pub struct RunHandle {
    shared: Arc<RunShared>,
}

impl RunHandle {
    /// Queues a message that interrupts the run: delivered between tool calls or before the next turn. Calls
    /// of the batch that have not begun are skipped.
    ///
    /// An accepted message is delivered, or returned in [`RunOutcome::unsent`].
    ///
    /// # Errors
    /// [`RunEnded`] with the message when the run accepts no more.
    pub fn steer(&self, text: impl Into<String>) -> Result<(), RunEnded> {
        self.shared.queue(SteerKind::Steer, message_of(SteerKind::Steer, text))
    }

    /// Queues a message for when the run would end.
    ///
    /// # Errors
    /// The errors of [`RunHandle::steer`].
    pub fn follow_up(&self, text: impl Into<String>) -> Result<(), RunEnded> {
        self.shared.queue(SteerKind::FollowUp, message_of(SteerKind::FollowUp, text))
    }

    /// Stops the run, which ends with [`AgentError::Aborted`] and a valid history.
    pub fn abort(&self) {
        self.shared.abort(None);
    }

    /// Stops the run like [`RunHandle::abort`], with a reason that `agent:abort`, `agent:done` and the
    /// outcome report.
    pub fn abort_because(&self, reason: &str) {
        self.shared.abort(Some(reason));
    }

    /// Leaves the run to another worker: it ends with [`AgentError::HandedOver`] before its next call or turn. Calls that run
    /// are waited for, and those that have not begun are left to the other worker. Only a
    /// [leg](crate::RunOptions::drive_leg) can be handed over; any other run goes on.
    pub fn hand_over(&self) {
        self.shared.hand_over();
    }

    /// Leaves the run to another worker at once: an answer that is arriving is dropped and asked for again there, and calls
    /// that run are cancelled like those of a run that is stopped.
    pub fn hand_over_now(&self) {
        self.shared.hand_over();
        self.shared.stop.cancel();
    }

    /// Leaves the run to the worker that has its session now, at once: it ends with [`AgentError::Fenced`], and its end is
    /// not stored.
    pub fn lose_session(&self) {
        self.shared.mark_fenced();
    }

    /// Returns the statistics of the run so far.
    #[must_use]
    pub fn usage(&self) -> Stats {
        self.shared.snapshot()
    }
}

/// User message marked as a steering message or a follow-up.
pub(super) fn message_of(kind: SteerKind, text: impl Into<String>) -> Message {
    let by = match kind {
        SteerKind::Steer => "steer",
        SteerKind::FollowUp => "follow-up",
    };
    Message::injected(text, by)
}

impl Run {
    pub(crate) fn new(
        shared: Arc<RunShared>,
        bus: Bus,
        work: impl Future<Output = RunOutcome> + Send + 'static,
    ) -> Self {
        Self { shared, bus, task: RunTask::Idle(Box::pin(work)) }
    }

    /// Returns the run's id.
    #[must_use]
    pub fn id(&self) -> &RunId {
        &self.shared.id
    }

    /// Returns a handle to steer or stop the run from elsewhere.
    #[must_use]
    pub fn handle(&self) -> RunHandle {
        RunHandle { shared: self.shared.clone() }
    }

    /// Queues an interrupting message: see [`RunHandle::steer`].
    ///
    /// # Errors
    /// [`RunEnded`] with the message when the run accepts no more.
    pub fn steer(&self, text: impl Into<String>) -> Result<(), RunEnded> {
        self.handle().steer(text)
    }

    /// Queues a message for the end of the run: see [`RunHandle::follow_up`].
    ///
    /// # Errors
    /// The errors of [`Run::steer`].
    pub fn follow_up(&self, text: impl Into<String>) -> Result<(), RunEnded> {
        self.handle().follow_up(text)
    }

    /// Stops the run: see [`RunHandle::abort`].
    pub fn abort(&self) {
        self.handle().abort();
    }

    /// Returns the statistics of the run so far.
    #[must_use]
    pub fn usage(&self) -> Stats {
        self.shared.snapshot()
    }

    /// Starts the run in the background. Needs a tokio runtime.
    pub fn start(&mut self) {
        let task = std::mem::replace(&mut self.task, RunTask::Over);
        self.task = match task {
            RunTask::Idle(work) => {
                self.shared.mark_begun();
                let (done, outcome) = oneshot::channel();
                tokio::spawn(async move {
                    // The receiver is gone if the run's handle was dropped.
                    let _ = done.send(work.await);
                });
                RunTask::Running(outcome)
            }
            other @ (RunTask::Running(_) | RunTask::Over) => other,
        };
    }

    /// Returns a stream of the events of this run and its sub-agents, as data, without those of other runs on
    /// the bus. Starts the run; call it before all other methods that start it, to receive all events.
    ///
    /// A reader that falls 16,384 events behind misses further ones, so that it delays neither the run nor
    /// fills memory: [`RunEvent::missed`] of the next event says how many, and [`RunStream::missed`] how many
    /// in all. For typed events, subscribe on the agent's bus ([`Scope::on_sync`]).
    pub fn events(&mut self) -> RunEvents {
        let missed = AtomicU64::new(0);
        self.stream("run-events", move |scope, run, outlet| {
            scope.observe_at(Reach::Descendants, move |event: &dyn AnyEvent, cx: &Cx| {
                let is_ours = cx.run_id() == &*run || Lineage::of(cx).is_some_and(|runs| runs.contains(&run));
                if !is_ours {
                    return;
                }
                if !outlet.has_room() {
                    missed.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                if let Ok(data) = event.to_json() {
                    let origin = cx.origin();
                    let missed = missed.swap(0, Ordering::Relaxed);
                    let agent = origin.agent.clone();
                    outlet.send_item(RunEvent {
                        name: event.name(),
                        agent,
                        depth: origin.depth,
                        missed,
                        data,
                    });
                }
            });
        })
    }

    /// Returns a stream of the text of the run's answers, without sub-agents' text. Starts the run;
    /// [`Run::wait`] still returns its outcome.
    ///
    /// While 16,384 pieces are unread, further ones are dropped, and the text has gaps: [`RunStream::missed`]
    /// counts them. [`RunOutcome::text`] is complete nevertheless.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use zk_agent::Agent;
    /// # use zk_core::model::AgentError;
    /// # use zk_testkit::{Script, ScriptedProvider};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), AgentError> {
    /// # let model = Script::new().turn(|t| t.chunks(["Because of how air ", "scatters light."]));
    /// # let agent = Agent::builder(Arc::new(ScriptedProvider::new(model))).build()?;
    /// let mut run = agent.run("Why is the sky blue?")?;
    /// let mut text = run.text();
    /// let mut answer = String::new();
    /// while let Some(piece) = text.next().await {
    ///     answer.push_str(&piece);
    /// }
    /// run.wait().await.result?;
    /// assert_eq!(answer, "Because of how air scatters light.");
    /// # Ok(())
    /// # }
    /// ```
    pub fn text(&mut self) -> RunText {
        self.stream("run-text", move |scope, run, outlet| {
            scope.on_sync(move |piece: &StreamText, cx: &Cx| {
                if cx.run_id() == &*run && outlet.has_room() {
                    outlet.send_item(piece.delta.clone());
                }
            });
        })
    }

    /// Starts the run and streams the items for which `register` subscribes.
    fn stream<T>(
        &mut self,
        name: &'static str,
        register: impl FnOnce(&Scope, Arc<str>, Outlet<T>),
    ) -> RunStream<T> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let waiting = Arc::<AtomicUsize>::default();
        let scope = self.bus.scope(name);
        let missed = Arc::<AtomicU64>::default();
        let outlet = Outlet { sender, waiting: waiting.clone(), missed: missed.clone() };
        register(&scope, self.shared.id.shared(), outlet);
        self.start();
        let over = Box::pin(self.shared.over.clone().cancelled_owned());
        RunStream { receiver, waiting, missed, over, _scope: scope.close_on_drop() }
    }

    /// Waits for the end of the run; starts it if it has not started.
    pub async fn wait(mut self) -> RunOutcome {
        self.start();
        let ended = match &mut self.task {
            RunTask::Running(outcome) => outcome.await.ok(),
            RunTask::Idle(_) | RunTask::Over => None,
        };
        self.task = RunTask::Over;
        ended.unwrap_or_else(|| RunOutcome {
            run_id: self.shared.id.clone(),
            result: Err(AgentError::Usage(
                "the run's task ended without an outcome: a bug in zk or in a plugin panicked".into(),
            )),
            text: String::new(),
            stop: None,
            stats: self.shared.snapshot(),
            unsent: self.shared.queues().close(),
            abort_reason: self.shared.abort_reason(),
        })
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !matches!(self.task, RunTask::Over) {
            self.shared.stop.cancel();
            self.shared.queues().close();
        }
    }
}

/// One event as data.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunEvent {
    /// Name of the event.
    pub name: &'static str,
    /// Name of the agent that emitted the event.
    pub agent: Arc<str>,
    /// Depth of that agent: 0 for the root agent, more for sub-agents.
    pub depth: u32,
    /// Number of events dropped right before this one because the reader was too far behind.
    #[serde(skip_serializing_if = "is_zero")]
    pub missed: u64,
    /// Data of the event.
    pub data: Value,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Stream of the events of a run, in order.
pub type RunEvents = RunStream<RunEvent>;

/// Stream of the text of a run, in pieces.
pub type RunText = RunStream<String>;

/// Sending half of a [`RunStream`].
struct Outlet<T> {
    sender: mpsc::UnboundedSender<T>,
    waiting: Arc<AtomicUsize>,
    missed: Arc<AtomicU64>,
}

impl<T> Outlet<T> {
    /// Whether the channel has room for one more item; if not, counts the item as dropped.
    fn has_room(&self) -> bool {
        let has_room = self.waiting.load(Ordering::Acquire) < MAX_UNREAD_ITEMS;
        if !has_room {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
        has_room
    }

    fn send_item(&self, item: T) {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        // The receiver may have been dropped.
        let _ = self.sender.send(item);
    }
}

/// Stream of a run's items for a reader, in order. Ends when the run is over and its agent idle.
pub struct RunStream<T> {
    receiver: mpsc::UnboundedReceiver<T>,
    /// Number of unread items in the channel, which the sender increments.
    waiting: Arc<AtomicUsize>,
    /// Number of dropped items.
    missed: Arc<AtomicU64>,
    over: Pin<Box<WaitForCancellationFutureOwned>>,
    _scope: ScopeGuard,
}

impl<T> fmt::Debug for RunStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunStream").field("waiting", &self.receiver.len()).finish_non_exhaustive()
    }
}

impl<T> RunStream<T> {
    /// Returns the number of items dropped so far because the reader was too far behind.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Receives the next item; `None` after the last one of the run.
    pub async fn next(&mut self) -> Option<T> {
        std::future::poll_fn(|task| Pin::new(&mut *self).poll_next(task)).await
    }
}

impl<T> Stream for RunStream<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<T>> {
        if !self.receiver.is_closed() && self.over.as_mut().poll(task).is_ready() {
            // Items that were sent before the end can still be read.
            self.receiver.close();
        }
        let next = self.receiver.poll_recv(task);
        if let Poll::Ready(Some(_)) = &next {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
        }
        next
    }
}
