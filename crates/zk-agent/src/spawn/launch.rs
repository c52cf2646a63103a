use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use serde_json::json;
use tokio::sync::oneshot;
use zk_core::events::{SpawnComplete, SpawnError};
use zk_core::kernel::Cx;
use zk_core::model::{AgentError, Display, Message, ToolError, ToolErrorKind, ToolOutput};
use zk_core::service::{ContextId, IsolatedCopy};

use super::child::Closing;
use super::limits::Place;
use super::own_model::Rerun;
use super::record;
use super::subagents::{Ending, Handle, SubagentState, Subagents};
use crate::agent::AgentInner;
use crate::run::SUB_AGENTS;
use crate::{Run, RunOutcome};

/// Maximum size of a sub-agent's answer in the notice of its end, in bytes.
pub(super) const MAX_NOTICE_BYTES: usize = 16 << 10;

/// A sub-agent whose run is about to begin.
pub(super) struct Launch {
    pub(super) parent: Weak<AgentInner>,
    /// Conversation of the parent, which is notified of the end as long as it is current.
    pub(super) context: ContextId,
    pub(super) child: Closing,
    pub(super) run: Run,
    /// Second run with another model, in case the sub-agent's own model does not answer.
    pub(super) rerun: Option<Rerun>,
    pub(super) ended: EndGuard,
    /// Context in which the end is announced.
    pub(super) cx: Cx,
    pub(super) calls: Arc<AtomicU64>,
    /// Flag that the output limit stopped the sub-agent, and the limit in tokens.
    pub(super) cut: Option<(Arc<AtomicBool>, u64)>,
    pub(super) copy: Option<Arc<dyn IsolatedCopy>>,
    pub(super) place: Place,
}

/// Guard that records the end of a sub-agent, also when the call that waits for it is dropped.
pub(super) struct EndGuard {
    pub(super) subagents: Arc<Subagents>,
    pub(super) handle: Arc<Handle>,
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        if !self.handle.is_over() {
            let state = SubagentState::Stopped("the call that waited for it was given up".to_owned());
            self.subagents.record_end(&self.handle, state, String::new());
        }
    }
}

impl Launch {
    /// Runs the sub-agent to its end, and returns the result of its call.
    pub(super) async fn run_to_end(self) -> Result<ToolOutput, ToolError> {
        let Self { parent, child, run, rerun, ended, cx, calls, cut, copy, place, .. } = self;
        let handle = ended.handle.clone();
        let count = |outcome: &RunOutcome| {
            if let Some(run) = parent.upgrade().and_then(|parent| parent.state().current.upgrade()) {
                run.stats().add_child(outcome.stats.clone());
            }
        };
        let mut outcome = run.wait().await;
        count(&outcome);
        if let Some(rerun) = rerun
            && let Some(run) = rerun.begin_run(&child.child, &outcome, &cx).await
        {
            if let Some(run) = child.child.inner.state().current.upgrade() {
                handle.set_run(&run);
            }
            outcome = run.wait().await;
            count(&outcome);
        }
        announce_end(&handle, &outcome, &cx).await;
        let left = ended.subagents.children_of(&handle.name);
        let left: Vec<String> =
            left.iter().filter(|child| !child.is_over()).map(|child| child.name.clone()).collect();
        child.close().await;
        let mut notes = Vec::new();
        if !left.is_empty() {
            notes.push(format!("(its sub-agents {} were stopped with it)", left.join(", ")));
        }
        if let Some(copy) = copy {
            notes.push(take_changes(&*copy, &handle.name).await);
        }
        drop(place);
        let result = call_result(&handle, &outcome, calls.load(Ordering::Acquire), cut.as_ref(), &notes);
        let state = match &outcome.result {
            Ok(()) => SubagentState::Done,
            Err(AgentError::Aborted) => {
                SubagentState::Stopped(outcome.abort_reason.unwrap_or_else(|| "with its parent".to_owned()))
            }
            Err(error) => SubagentState::Failed(error.to_string()),
        };
        let text = match &result {
            Ok(output) => output.content.to_text(),
            Err(error) => error.message.clone(),
        };
        ended.subagents.end_with(&handle, Ending::new(state, text, outcome.stats.turns, outcome.stats.cost));
        result
    }

    /// Runs the sub-agent to its end in a separate task, so that dropping the call does not lose the changes
    /// in its copy. The parent then gets a notice instead of the result.
    pub(super) async fn finish_beyond_call(self) -> Result<ToolOutput, ToolError> {
        let (given, result) = oneshot::channel();
        let subagents = self.ended.subagents.clone();
        subagents.tasks.spawn(async move {
            let (parent, context) = (self.parent.clone(), self.context.clone());
            let handle = self.ended.handle.clone();
            let result = self.run_to_end().await;
            if given.send(result).is_err()
                && let (Some(parent), Some(ending)) = (parent.upgrade(), handle.ending())
                && handle.claim_report()
            {
                parent.notify(&context, Message::injected(end_notice(&handle, &ending), SUB_AGENTS));
            }
        });
        result.await.unwrap_or_else(|_| Err(ToolError::failed("the sub-agent ended without a result")))
    }

    /// Runs the sub-agent to its end in the background, and notifies its parent once.
    pub(super) async fn finish_in_background(self) {
        let (parent, context) = (self.parent.clone(), self.context.clone());
        let handle = self.ended.handle.clone();
        let session = parent.upgrade().and_then(|parent| parent.state().session.clone());
        // The result is read from the handle.
        let _ = self.run_to_end().await;
        let (Some(parent), Some(ending)) = (parent.upgrade(), handle.ending()) else { return };
        if parent.token.is_cancelled() || parent.state().session != session {
            return;
        }
        let notice = end_notice(&handle, &ending);
        record::record_end(&parent, &handle.name, &notice).await;
        handle.wait_until_unawaited().await;
        let context = handle.context().unwrap_or(context);
        if handle.claim_report() {
            parent.notify(&context, Message::injected(notice, SUB_AGENTS));
        }
    }
}

/// Announces the end. A failing observer has no effect on the sub-agent, which is done.
async fn announce_end(handle: &Handle, outcome: &RunOutcome, cx: &Cx) {
    let (child, depth, stats) = (handle.name.clone(), handle.depth, outcome.stats.clone());
    let announced = match &outcome.result {
        Ok(()) => cx.emit(SpawnComplete { child, depth, stats }).await,
        Err(error) => cx.emit(SpawnError { child, depth, error: error.to_string(), stats }).await,
    };
    drop(announced);
}

/// Takes the changes out of a sub-agent's copy, and describes where they are.
async fn take_changes(copy: &dyn IsolatedCopy, name: &str) -> String {
    match copy.finish().await {
        Err(error) => format!("(its changes could not be taken from its copy: {error})"),
        Ok(changes) if changes.files.is_empty() => "(it changed nothing in its copy)".to_owned(),
        Ok(changes) => {
            let files = changes.files.join(", ");
            let (added, removed, tool) = (changes.added, changes.removed, changes.tool);
            let kept = changes.file.map_or_else(String::new, |file| {
                format!("; `git apply {}` in the project does so by hand", file.display())
            });
            format!(
                "(its changes are not in the workspace yet: +{added} -{removed} in {files}. `{tool}` with agent {name} shows them to the person and applies them{kept})"
            )
        }
    }
}

fn call_result(
    handle: &Handle,
    outcome: &RunOutcome,
    calls: u64,
    cut: Option<&(Arc<AtomicBool>, u64)>,
    notes: &[String],
) -> Result<ToolOutput, ToolError> {
    let text = &outcome.text;
    let with_notes = |text: String| match notes {
        [] => text,
        notes => format!("{text}\n\n{}", notes.join("\n")),
    };
    match &outcome.result {
        Ok(()) => {
            let line = match calls {
                1 => "1 call".to_owned(),
                calls => format!("{calls} calls"),
            };
            let answer = if text.is_empty() { "(the sub-agent gave no answer)".into() } else { text.clone() };
            let details =
                json!({"child": handle.name, "agent": handle.definition, "turns": outcome.stats.turns});
            let output = ToolOutput::text(with_notes(answer)).with_display(Display::Line { text: line });
            Ok(ToolOutput { details: Some(details), ..output })
        }
        Err(_) if cut.is_some_and(|(cut, _)| cut.load(Ordering::Acquire)) => {
            let most = cut.map(|(_, most)| *most).unwrap_or_default();
            let said = if text.is_empty() { "nothing yet".to_owned() } else { text.clone() };
            let next = "Give a smaller task, or do the rest yourself.";
            Err(ToolError::failed(with_notes(format!(
                "The sub-agent was stopped after {most} tokens of output, its limit. {next} It had said: {said}"
            ))))
        }
        Err(error) => {
            // A sub-agent that was stopped alone has a reason, and its failure does not abort the parent's
            // run.
            let kind = match (error, &outcome.abort_reason) {
                (AgentError::Aborted, None) => ToolErrorKind::Aborted,
                _ => ToolErrorKind::Failed,
            };
            let why = match (error, &outcome.abort_reason) {
                (AgentError::Aborted, Some(reason)) => format!("{error}: {reason}"),
                (error, _) => error.to_string(),
            };
            let partial = if text.is_empty() { String::new() } else { format!(" It had said: {text}") };
            Err(ToolError::new(kind, with_notes(format!("The sub-agent did not finish: {why}.{partial}"))))
        }
    }
}

/// Formats a number of turns.
pub(super) fn format_turn_count(turns: u32) -> String {
    match turns {
        1 => "1 turn".to_owned(),
        turns => format!("{turns} turns"),
    }
}

/// Returns the notice to the parent of a background sub-agent that ended.
pub(super) fn end_notice(handle: &Handle, ending: &Ending) -> String {
    let who = record::notice_start(&handle.name);
    // A turn that was broken off is not counted.
    let when = match ending.turns {
        0 => "in its first turn".to_owned(),
        turns => format!("after {}", format_turn_count(turns)),
    };
    let head = match &ending.state {
        SubagentState::Done => format!("{who} is done {when}. Its answer:"),
        SubagentState::Stopped(_) => format!("{who} was stopped {when}:"),
        SubagentState::Failed(_) | SubagentState::Running => format!("{who} failed {when}:"),
    };
    let end = ending.text.floor_char_boundary(MAX_NOTICE_BYTES);
    let answer = ending.text.get(..end).unwrap_or_default();
    match ending.text.len() - answer.len() {
        0 => format!("{head}\n{answer}"),
        left => format!("{head}\n{answer}\n({left} bytes more: `agents` with `result` gives all)"),
    }
}
