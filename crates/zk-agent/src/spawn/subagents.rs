use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use zk_core::events::{SessionSwitch, SteerKind};
use zk_core::kernel::{Cx, Reach, Scope};
use zk_core::model::Message;
use zk_core::service::{ContextId, RunningAgents};

use super::mailbox::Mailboxes;
use crate::lock::lock;
use crate::run::RunShared;

/// Maximum number of ended sub-agents whose results are kept.
const MAX_ENDED: usize = 200;

/// The sub-agents of a tree of agents, running and ended: `bus.service::<Subagents>()`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
///
/// use serde_json::json;
/// use zk_agent::{Agent, SpawnOptions, SubagentState, Subagents};
/// use zk_testkit::{Script, ScriptedProvider};
///
/// let script = Script::new()
///     .turn(|t| t.call("spawn", json!({ "task": "Read it.", "background": true })))
///     .turn(|t| t.text("It is being read."))
///     .turn(|t| t.text("It is short."));
/// let options = SpawnOptions { background: true, ..SpawnOptions::default() };
/// let agent = Agent::builder(Arc::new(ScriptedProvider::new(script))).spawn(options).build()?;
/// agent.run("What does it say?")?.wait().await.result?;
/// let subagents = agent.bus().service::<Subagents>().ok_or("none")?;
/// subagents.until_idle().await;
/// assert_eq!(subagents.list()[0].state, SubagentState::Done);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Subagents {
    list: Mutex<BTreeMap<u64, Arc<Handle>>>,
    next: Mutex<u64>,
    changes: watch::Sender<u64>,
    pub(super) mail: Mailboxes,
    /// Tasks of background sub-agents.
    pub(super) tasks: TaskTracker,
}

/// Information about a sub-agent.
#[derive(Clone, Debug, PartialEq)]
pub struct SubagentInfo {
    /// Name of the sub-agent, unique in its tree, which identifies it in calls.
    pub name: String,
    /// Name of the agent that started the sub-agent.
    pub parent: String,
    /// Depth of the sub-agent in the tree; 1 for a child of the conversation's agent.
    pub depth: u32,
    /// Name of the sub-agent's definition, if it has one.
    pub definition: Option<String>,
    /// First line of the sub-agent's task.
    pub task: String,
    /// Whether the parent continues while the sub-agent works.
    pub is_background: bool,
    /// State of the sub-agent.
    pub state: SubagentState,
    /// Number of turns of the sub-agent so far.
    pub turns: u32,
    /// Cost of the sub-agent so far in US dollars, its own sub-agents included, if known.
    pub cost: Option<f64>,
    /// Time for which the sub-agent has worked.
    pub elapsed: Duration,
}

/// State of a sub-agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubagentState {
    /// The sub-agent works.
    Running,
    /// The sub-agent gave its answer.
    Done,
    /// The sub-agent failed, for this reason.
    Failed(String),
    /// The sub-agent was stopped, for this reason.
    Stopped(String),
}

impl SubagentState {
    /// Whether the sub-agent has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        match self {
            Self::Running => false,
            Self::Done | Self::Failed(_) | Self::Stopped(_) => true,
        }
    }
}

/// Reason for which a sub-agent cannot be steered or stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubagentError {
    /// There is no sub-agent of this name.
    #[error("there is no sub-agent `{name}`; {known}")]
    Unknown {
        /// Requested name.
        name: String,
        /// Names of the existing sub-agents, as text.
        known: String,
    },
    /// The sub-agent has ended.
    #[error("{name} has ended already")]
    Ended {
        /// Name of the sub-agent.
        name: String,
    },
}

/// One sub-agent.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) name: String,
    pub(super) parent: String,
    pub(super) depth: u32,
    pub(super) definition: Option<String>,
    pub(super) task: String,
    pub(super) is_background: bool,
    /// Whether the sub-agent is offered the tool `agents`, with which it reads messages.
    pub(super) reads_mail: bool,
    began: Instant,
    run: Mutex<Weak<RunShared>>,
    phase: watch::Sender<Option<Arc<Ending>>>,
    /// Whether reporting the end to the parent is settled: a call gave the result, a notice was sent, or none
    /// will be.
    is_reported: AtomicBool,
    /// Conversation that is notified of the end instead, since another branch of the session was loaded.
    moved_to: Mutex<Option<ContextId>>,
    /// Number of calls that wait for the end of the sub-agent and will return its result.
    awaited: watch::Sender<usize>,
}

/// End of a sub-agent.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    pub(super) state: SubagentState,
    /// Last answer of the sub-agent, or its text so far.
    pub(super) text: String,
    pub(super) turns: u32,
    pub(super) cost: Option<f64>,
    elapsed: Duration,
}

impl Handle {
    pub(super) fn ending(&self) -> Option<Arc<Ending>> {
        self.phase.borrow().clone()
    }

    pub(super) fn is_over(&self) -> bool {
        self.phase.borrow().is_some()
    }

    /// Waits for the end of the sub-agent.
    pub(super) async fn wait_for_end(&self) -> Option<Arc<Ending>> {
        let mut phase = self.phase.subscribe();
        phase.wait_for(Option::is_some).await.ok().and_then(|ending| ending.clone())
    }

    /// Claims the duty to report the end to the parent; false if it was claimed before.
    pub(super) fn claim_report(&self) -> bool {
        !self.is_reported.swap(true, Ordering::AcqRel)
    }

    /// Stops the run of the sub-agent, whose end is not reported.
    fn abort_without_report(&self, reason: &str) {
        self.claim_report();
        if let Some(run) = lock(&self.run).upgrade() {
            run.abort(Some(reason));
        }
    }

    /// Sets another conversation to be notified of the end.
    pub(super) fn move_to(&self, context: ContextId) {
        *lock(&self.moved_to) = Some(context);
    }

    /// Returns the conversation that is notified of the end instead of the first one.
    pub(super) fn context(&self) -> Option<ContextId> {
        lock(&self.moved_to).clone()
    }

    /// Counts a tool call as a waiter for the result of the sub-agent, until the guard is dropped.
    pub(super) fn await_end(&self) -> Awaited<'_> {
        self.awaited.send_modify(|count| *count += 1);
        Awaited(self)
    }

    /// Waits until no call waits for the end of the sub-agent any more.
    pub(super) async fn wait_until_unawaited(&self) {
        // The sender is a part of this handle, so the wait cannot fail.
        let _ = self.awaited.subscribe().wait_for(|count| *count == 0).await;
    }

    pub(super) fn set_run(&self, run: &Arc<RunShared>) {
        *lock(&self.run) = Arc::downgrade(run);
    }

    fn info(&self) -> SubagentInfo {
        let (state, turns, cost, elapsed) = match self.ending() {
            Some(ending) => (ending.state.clone(), ending.turns, ending.cost, ending.elapsed),
            None => {
                let stats = lock(&self.run).upgrade().map(|run| run.snapshot());
                let (turns, cost) = stats.map(|stats| (stats.turns, stats.cost)).unwrap_or_default();
                (SubagentState::Running, turns, cost, self.began.elapsed())
            }
        };
        SubagentInfo {
            name: self.name.clone(),
            parent: self.parent.clone(),
            depth: self.depth,
            definition: self.definition.clone(),
            task: self.task.clone(),
            is_background: self.is_background,
            state,
            turns,
            cost,
            elapsed,
        }
    }
}

/// Guard of a call that waits for the end of a sub-agent.
#[derive(Debug)]
pub(super) struct Awaited<'a>(&'a Handle);

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.0.awaited.send_modify(|count| *count -= 1);
    }
}

/// Parameters for registering a sub-agent that begins.
#[derive(Debug)]
pub(super) struct Beginning {
    pub(super) name: String,
    pub(super) parent: String,
    pub(super) depth: u32,
    pub(super) definition: Option<String>,
    pub(super) task: String,
    pub(super) is_background: bool,
    pub(super) reads_mail: bool,
}

impl Default for Subagents {
    fn default() -> Self {
        let tasks = TaskTracker::new();
        tasks.close();
        Self {
            list: Mutex::default(),
            next: Mutex::default(),
            changes: watch::Sender::new(0),
            mail: Mailboxes::default(),
            tasks,
        }
    }
}

impl Subagents {
    /// Returns the registry of the tree that `scope` is in. The root registers one for its conversation.
    pub(super) fn of(scope: &Scope) -> Arc<Self> {
        let known = scope.bus().and_then(|bus| bus.service::<Self>());
        known.unwrap_or_else(|| {
            let all = Arc::new(Self::default());
            scope.provide_service(all.clone());
            scope.provide_service::<dyn RunningAgents>(all.clone());
            let left = all.clone();
            scope.on_sync_at(Reach::Own, move |switch: &SessionSwitch, _: &Cx| {
                if !switch.is_same_session() {
                    left.stop_and_remove_all();
                }
            });
            all
        })
    }

    /// Lists all sub-agents, the oldest first.
    #[must_use]
    pub fn list(&self) -> Vec<SubagentInfo> {
        self.handles().iter().map(|handle| handle.info()).collect()
    }

    /// Returns a receiver that changes whenever a sub-agent begins or ends.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Sends a sub-agent a message of the person, which is delivered after its current call.
    ///
    /// # Errors
    /// [`SubagentError`] when there is no such sub-agent at work.
    pub fn steer(&self, name: &str, text: &str) -> Result<(), SubagentError> {
        let handle = self.find(name)?;
        let run = lock(&handle.run).upgrade().filter(|_| !handle.is_over());
        let sent = run.map(|run| run.queue(SteerKind::Steer, Message::injected(text, "steer")));
        match sent {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) | None => Err(SubagentError::Ended { name: name.to_owned() }),
        }
    }

    /// Stops a sub-agent and all its descendants. The parent gets the text so far.
    ///
    /// # Errors
    /// [`SubagentError`] when there is no such sub-agent at work.
    pub fn stop(&self, name: &str, reason: &str) -> Result<(), SubagentError> {
        let handle = self.find(name)?;
        match lock(&handle.run).upgrade().filter(|_| !handle.is_over()) {
            Some(run) => {
                run.abort(Some(reason));
                Ok(())
            }
            None => Err(SubagentError::Ended { name: name.to_owned() }),
        }
    }

    /// Waits until no sub-agent works in the background.
    pub async fn until_idle(&self) {
        self.tasks.wait().await;
    }

    /// Stops and removes all sub-agents, because their conversation was left.
    fn stop_and_remove_all(&self) {
        let all = std::mem::take(&mut *self.lock());
        for handle in all.into_values() {
            handle.abort_without_report("its conversation was left");
        }
        self.mail.clear();
        self.count_change();
    }

    pub(super) fn register(&self, beginning: Beginning) -> Arc<Handle> {
        let Beginning { name, parent, depth, definition, task, is_background, reads_mail } = beginning;
        let task = task.lines().next().unwrap_or_default().to_owned();
        self.mail.open(&name);
        let handle = Arc::new(Handle {
            name,
            parent,
            depth,
            definition,
            task,
            is_background,
            reads_mail,
            began: Instant::now(),
            run: Mutex::default(),
            phase: watch::Sender::new(None),
            is_reported: AtomicBool::new(false),
            moved_to: Mutex::default(),
            awaited: watch::Sender::new(0),
        });
        let number = {
            let mut next = lock(&self.next);
            *next += 1;
            *next
        };
        let mut list = self.lock();
        list.insert(number, handle.clone());
        while list.values().filter(|handle| handle.is_over()).count() > MAX_ENDED {
            let oldest = list.iter().find(|(_, handle)| handle.is_over()).map(|(number, _)| *number);
            let Some(oldest) = oldest else { break };
            list.remove(&oldest);
        }
        drop(list);
        self.count_change();
        handle
    }

    /// Records the end of a sub-agent; a second end has no effect.
    pub(super) fn record_end(&self, handle: &Handle, state: SubagentState, text: String) {
        let (turns, cost) = match lock(&handle.run).upgrade().map(|run| run.snapshot()) {
            Some(stats) => (stats.turns, stats.cost),
            None => (0, None),
        };
        self.end_with(handle, Ending { state, text, turns, cost, elapsed: Duration::ZERO });
    }

    pub(super) fn end_with(&self, handle: &Handle, ending: Ending) {
        let ending = Arc::new(Ending { elapsed: handle.began.elapsed(), ..ending });
        self.mail.close(&handle.name);
        handle.phase.send_if_modified(|phase| {
            let is_first = phase.is_none();
            if is_first {
                *phase = Some(ending);
            }
            is_first
        });
        self.count_change();
    }

    pub(super) fn find(&self, name: &str) -> Result<Arc<Handle>, SubagentError> {
        let found = self.lock().values().rev().find(|handle| handle.name == name).cloned();
        found.ok_or_else(|| {
            let names: Vec<String> = self.handles().iter().map(|handle| handle.name.clone()).collect();
            let known = match names.as_slice() {
                [] => "none has been started".to_owned(),
                names => format!("there are {}", names.join(", ")),
            };
            SubagentError::Unknown { name: name.to_owned(), known }
        })
    }

    /// Returns the sub-agents that `parent` started itself, oldest first.
    pub(super) fn children_of(&self, parent: &str) -> Vec<Arc<Handle>> {
        self.lock().values().filter(|handle| handle.parent == parent).cloned().collect()
    }

    pub(super) fn children(&self, parent: &str) -> Vec<SubagentInfo> {
        self.children_of(parent).iter().map(|handle| handle.info()).collect()
    }

    fn handles(&self) -> Vec<Arc<Handle>> {
        self.lock().values().cloned().collect()
    }

    fn count_change(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Handle>>> {
        lock(&self.list)
    }
}

impl RunningAgents for Subagents {
    fn is_any_running(&self) -> bool {
        self.handles().iter().any(|handle| !handle.is_over())
    }

    fn stop_all(&self, reason: &str) {
        for handle in self.handles().into_iter().filter(|handle| !handle.is_over()) {
            // A notice about the end would begin a run.
            handle.abort_without_report(reason);
        }
    }
}

impl Ending {
    pub(super) fn new(state: SubagentState, text: String, turns: u32, cost: Option<f64>) -> Self {
        Self { state, text, turns, cost, elapsed: Duration::ZERO }
    }
}
