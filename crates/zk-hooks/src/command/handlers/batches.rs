//! Hooks `PostToolBatch`, run once all calls of an answer have results.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{Either, select};
use serde_json::{Value, json};
use zk_core::events::{AgentDone, ToolBefore, ToolResultsAfter};
use zk_core::kernel::{Answer, Cx, Handler, HookOptions, Reach, Scope, Stage};
use zk_core::model::{Message, ToolContent};
use zk_core::service::{Redactor, RunControl};

use super::super::event::HookEvent;
use super::super::names::Vocabulary;
use super::super::reply::Verdict;
use super::super::runner::Runner;
use super::calls::stop_run;

pub(super) fn register(scope: &Scope, runner: &Arc<Runner>) {
    if !runner.set.hooks.iter().any(|hook| hook.event == HookEvent::PostToolBatch) {
        return;
    }
    let batches = Arc::new(Batches { runner: runner.clone(), args: Mutex::default() });
    let everywhere = HookOptions { reach: Some(Reach::Descendants), ..HookOptions::default() };
    let begun = batches.clone();
    scope.on_sync_at(everywhere, move |before: &ToolBefore, cx: &Cx| {
        let call = before.call.call_id.to_string();
        begun.args().entry(cx.run_id().to_owned()).or_default().insert(call, before.args.clone());
    });
    let over = batches.clone();
    scope.on_sync_at(everywhere, move |_: &AgentDone, cx: &Cx| {
        over.args().remove(cx.run_id());
    });
    // Runs after the results are stored.
    let time_limit = runner.time_limit(&[HookEvent::PostToolBatch]);
    scope.handle_at::<ToolResultsAfter, _>(
        HookOptions { stage: Stage::Late, time_limit, ..everywhere },
        batches,
    );
}

struct Batches {
    runner: Arc<Runner>,
    /// Arguments with which calls ran, by run and call.
    args: Mutex<HashMap<String, HashMap<String, Value>>>,
}

impl Batches {
    fn args(&self) -> MutexGuard<'_, HashMap<String, HashMap<String, Value>>> {
        self.args.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handler<ToolResultsAfter> for Batches {
    async fn call(&self, batch: &ToolResultsAfter, cx: &Cx) -> Answer<ToolResultsAfter> {
        let ran = self.args().remove(cx.run_id()).unwrap_or_default();
        let redactor = cx.service::<Redactor>();
        let response = |content: &ToolContent| {
            let mut response = json!(content);
            if let Some(redactor) = &redactor {
                redactor.redact_value(&mut response);
            }
            response
        };
        let calls: Vec<_> = batch
            .assistant
            .calls()
            .zip(batch.results.results())
            .map(|(call, result)| {
                let args = ran.get(&call.id.to_string()).unwrap_or(&call.args);
                (call, args, response(&result.content))
            })
            .collect();
        let fields = |names: Vocabulary| {
            let calls = calls.iter().map(|(call, args, response)| {
                json!({
                    "tool_name": names.tool(&call.name),
                    "tool_input": names.args(&call.name, args),
                    "tool_use_id": call.id,
                    "tool_response": response,
                })
            });
            json!({ "tool_calls": calls.collect::<Vec<_>>() })
        };
        let running = pin!(self.runner.run(self.runner.for_any(HookEvent::PostToolBatch), cx, fields));
        // A cancelled run does not wait for hooks.
        let Either::Left((answered, _)) = select(running, pin!(cx.stop_token().cancelled())).await else {
            return Ok(None);
        };
        self.runner.report(&answered);
        let mut context = Vec::new();
        for reply in answered.into_iter().filter_map(|(_, answer)| answer.ok()) {
            let blocked = match reply.verdict {
                Verdict::Block(reason) => Some(reason),
                Verdict::None | Verdict::Allow | Verdict::Ask(_) => None,
            };
            if stop_run(reply.stop.or(blocked).as_deref(), cx).is_some() {
                return Ok(None);
            }
            context.extend(reply.context);
        }
        if let Some(run) = cx.service::<dyn RunControl>().filter(|_| !context.is_empty()) {
            let text = format!("A hook says: {}", context.join("\n"));
            // Fails only if the run has ended.
            let _ = run.steer(Message::injected(text, "hooks"));
        }
        Ok(None)
    }
}
