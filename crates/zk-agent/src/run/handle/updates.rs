use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::Stream;
use futures_util::task::AtomicWaker;
use serde_json::Value;
use tokio_util::sync::WaitForCancellationFutureOwned;
use zk_core::events::{
    AgentDone, ProviderRetry, StreamText, StreamThinking, ToolBegin, ToolEnd, ToolResultsAfter, TurnAfter,
};
use zk_core::kernel::{Cx, Event, Scope, ScopeGuard, Stage};
use zk_core::model::{CallId, RunId, Stats, ToolResult, Usage, output_bytes};
use zk_core::service::{RetryNotice, RunStatus};

use super::{MAX_UNREAD_ITEMS, Run};
use crate::turn::OUTPUT_TOOL;

/// Maximum number of unread bytes of text, arguments and results.
const MAX_UNREAD_BYTES: usize = 16 << 20;

/// Update on a run, for a program that displays or logs it. Sub-agents appear only as the result of their
/// call. The call with the structured output is not reported: the output is in the [`Stats`] of the end.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RunUpdate {
    /// More text of the answer; pieces are joined for a slow reader.
    Text(String),
    /// More reasoning; pieces are joined for a slow reader.
    Thinking(String),
    /// The request waits for a retry or a rate limit. With [`RetryNotice::discards`], the answer so far must
    /// be discarded.
    Retry(RetryNotice),
    /// The model answered or failed to answer. Its tool calls follow.
    #[non_exhaustive]
    TurnEnded {
        /// Number of the turn in the run, from 1.
        turn: u32,
        /// Token usage of the turn; zero if none was counted.
        usage: Usage,
        /// Cost of the turn in US dollars, if known.
        cost: Option<f64>,
        /// Description of the turn's failure.
        error: Option<String>,
    },
    /// A tool call was approved and is about to run.
    #[non_exhaustive]
    ToolStarted {
        /// Id of the call.
        call_id: CallId,
        /// Canonical name of the tool.
        tool: String,
        /// Final arguments of the call.
        args: Value,
        /// Summary of what the call will do, in one line.
        summary: String,
    },
    /// A tool call has its result. Sent for every call, even if it was refused or skipped and never started.
    #[non_exhaustive]
    ToolEnded {
        /// Canonical name of the tool.
        tool: String,
        /// Result for the model, with the id of the call.
        result: ToolResult,
        /// Duration of the tool's execution in milliseconds; 0 if it never started.
        elapsed_ms: u64,
    },
    /// The run is over; this is the last update. [`Run::wait`] has the typed error.
    #[non_exhaustive]
    Ended {
        /// Status with which the run ended.
        status: RunStatus,
        /// Description of the error that ended the run.
        error: Option<String>,
        /// Text of the last answer.
        text: String,
        /// Statistics of the run.
        stats: Box<Stats>,
    },
}

impl RunUpdate {
    fn bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Thinking(text) => text.len(),
            Self::ToolStarted { args, summary, .. } => args.to_string().len() + summary.len(),
            Self::ToolEnded { result, .. } => output_bytes(&result.content),
            Self::Retry(_) | Self::TurnEnded { .. } | Self::Ended { .. } => 0,
        }
    }
}

#[derive(Default)]
struct Waiting {
    updates: VecDeque<RunUpdate>,
    bytes: usize,
    missed: u64,
}

impl Waiting {
    fn add(&mut self, update: RunUpdate) {
        let (bytes, count) = (update.bytes(), self.updates.len());
        let is_last = matches!(update, RunUpdate::Ended { .. });
        if self.bytes.saturating_add(bytes) > MAX_UNREAD_BYTES && !is_last {
            self.missed += 1;
            return;
        }
        match (self.updates.back_mut(), &update) {
            (Some(RunUpdate::Text(waiting)), RunUpdate::Text(more))
            | (Some(RunUpdate::Thinking(waiting)), RunUpdate::Thinking(more)) => waiting.push_str(more),
            _ if count >= MAX_UNREAD_ITEMS && !is_last => {
                self.missed += 1;
                return;
            }
            _ => self.updates.push_back(update),
        }
        self.bytes += bytes;
    }

    fn take(&mut self) -> Option<RunUpdate> {
        let update = self.updates.pop_front()?;
        self.bytes = self.bytes.saturating_sub(update.bytes());
        Some(update)
    }
}

#[derive(Default)]
struct Mailbox {
    waiting: Mutex<Waiting>,
    reader: AtomicWaker,
}

impl Mailbox {
    fn lock_waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, update: RunUpdate) {
        self.lock_waiting().add(update);
        self.reader.wake();
    }
}

/// Subscriber to the events of one run, which it converts to updates.
struct Subscriber<'a> {
    scope: &'a Scope,
    run: &'a RunId,
    mailbox: &'a Arc<Mailbox>,
}

impl Subscriber<'_> {
    /// Subscribes late among the handlers, so that a call that a recorder refuses is not reported as started.
    fn subscribe<E>(&self, convert: impl Fn(&E, &Mailbox) + Send + Sync + 'static)
    where
        E: Event<Reply = ()>,
    {
        let (run, mailbox) = (self.run.shared(), self.mailbox.clone());
        self.scope.on_sync_at(Stage::Late, move |event: &E, cx: &Cx| {
            if cx.run_id() == &*run {
                convert(event, &mailbox);
            }
        });
    }

    fn subscribe_to_all(&self) {
        self.subscribe(|text: &StreamText, to| to.add(RunUpdate::Text(text.delta.clone())));
        self.subscribe(|thinking: &StreamThinking, to| to.add(RunUpdate::Thinking(thinking.delta.clone())));
        self.subscribe(|again: &ProviderRetry, to| to.add(RunUpdate::Retry(again.retry.clone())));
        self.subscribe(|turn: &TurnAfter, to| {
            let (usage, cost, error) = (turn.usage, turn.cost, turn.error.clone());
            to.add(RunUpdate::TurnEnded { turn: turn.turn, usage, cost, error });
        });
        self.subscribe(|begun: &ToolBegin, to| {
            if begun.call.name == OUTPUT_TOOL {
                return;
            }
            let (call_id, tool) = (begun.call.call_id.clone(), begun.call.name.clone());
            let (args, summary) = (begun.args.clone(), begun.summary.clone());
            to.add(RunUpdate::ToolStarted { call_id, tool, args, summary });
        });
        self.subscribe_to_tool_ends();
        self.subscribe(|done: &AgentDone, to| {
            let (error, text, stats) = (done.error.clone(), done.text.clone(), done.stats.clone().into());
            to.add(RunUpdate::Ended { status: done.status, error, text, stats });
        });
    }

    /// Subscribes to the results of calls: reported as calls end, and after the batch for calls that never
    /// began.
    fn subscribe_to_tool_ends(&self) {
        let ended = Arc::<Mutex<BTreeSet<CallId>>>::default();
        let of_batch = ended.clone();
        self.subscribe(move |end: &ToolEnd, to| {
            if end.call.name == OUTPUT_TOOL {
                return;
            }
            let (tool, result) = (end.call.name.clone(), end.result.clone());
            ended.lock().unwrap_or_else(PoisonError::into_inner).insert(end.call.call_id.clone());
            to.add(RunUpdate::ToolEnded { tool, result, elapsed_ms: end.elapsed_ms });
        });
        self.subscribe(move |batch: &ToolResultsAfter, to| {
            let ended = std::mem::take(&mut *of_batch.lock().unwrap_or_else(PoisonError::into_inner));
            for (call, result) in batch.assistant.calls().zip(batch.results.results()) {
                if !ended.contains(&call.id) && call.name != OUTPUT_TOOL {
                    let (tool, result) = (call.name.clone(), result.clone());
                    to.add(RunUpdate::ToolEnded { tool, result, elapsed_ms: 0 });
                }
            }
        });
    }
}

/// Stream of the updates of a run, in order. Ends when the run is over and its agent idle.
pub struct RunUpdates {
    mailbox: Arc<Mailbox>,
    over: Pin<Box<WaitForCancellationFutureOwned>>,
    _scope: ScopeGuard,
}

impl fmt::Debug for RunUpdates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.mailbox.lock_waiting().updates.len();
        f.debug_struct("RunUpdates").field("waiting", &waiting).finish_non_exhaustive()
    }
}

impl RunUpdates {
    /// Returns the number of updates dropped so far because the reader was too far behind.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.mailbox.lock_waiting().missed
    }

    /// Receives the next update; `None` after the last one of the run.
    pub async fn next(&mut self) -> Option<RunUpdate> {
        std::future::poll_fn(|task| Pin::new(&mut *self).poll_next(task)).await
    }
}

impl Stream for RunUpdates {
    type Item = RunUpdate;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<RunUpdate>> {
        self.mailbox.reader.register(task.waker());
        // Polled first, because no update is added after the run is over.
        let is_over = self.over.as_mut().poll(task).is_ready();
        match self.mailbox.lock_waiting().take() {
            Some(update) => Poll::Ready(Some(update)),
            None if is_over => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl Run {
    /// Returns a stream of typed updates on the run: text, tool calls with their results, usage, retries, the
    /// end. Starts the run; call it before all other methods that start it, to receive all updates.
    /// [`Run::wait`] still returns the outcome.
    ///
    /// A slow reader delays nothing: unread text is joined into one update. While 16,384 updates or 16 MiB
    /// are unread, further ones except the end are dropped; [`RunUpdates::missed`] counts them.
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
    /// use zk_agent::RunUpdate;
    ///
    /// let mut run = agent.run("Why is the sky blue?")?;
    /// let mut updates = run.updates();
    /// while let Some(update) = updates.next().await {
    ///     match update {
    ///         RunUpdate::Text(text) => print!("{text}"),
    ///         RunUpdate::ToolStarted { summary, .. } => println!("[{summary}]"),
    ///         RunUpdate::ToolEnded { tool, result, .. } if result.is_error => println!("{tool} failed"),
    ///         RunUpdate::TurnEnded { usage, .. } => println!("\n{} tokens", usage.output),
    ///         _ => {}
    ///     }
    /// }
    /// run.wait().await.result?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn updates(&mut self) -> RunUpdates {
        let mailbox = Arc::<Mailbox>::default();
        let scope = self.bus.scope("run-updates");
        Subscriber { scope: &scope, run: &self.shared.id, mailbox: &mailbox }.subscribe_to_all();
        self.start();
        let over = Box::pin(self.shared.over.clone().cancelled_owned());
        RunUpdates { mailbox, over, _scope: scope.close_on_drop() }
    }
}
