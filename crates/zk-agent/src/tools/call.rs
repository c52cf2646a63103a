use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::{Either, select};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use zk_core::events::{
    CallRef, Coercion, Decision, ToolAfter, ToolBefore, ToolBlocked, ToolErrored, ToolGate, ToolProgress,
    ToolSkipped, ToolTransform, ToolUnknown, ValidationCoerce, ValidationReject,
};
use zk_core::kernel::{Cx, EmitError};
use zk_core::model::{
    Block, Concurrency, Display, ToolCall, ToolContent, ToolError, ToolErrorKind, ToolOutput, ToolResult,
    output_bytes, wire,
};
use zk_core::service::{Progress, Tool, ToolCx};

use super::validate;
use crate::driver::Driver;
use crate::gates::call_key;

/// What the model is told of a call that a stopped run did not get to.
pub(super) const NOT_RUN: &str = "Aborted: the run was stopped before this call. It was not run.";

/// How long a tool that was told to stop may take to end by itself before its future is dropped.
const STOP_GRACE: Duration = Duration::from_millis(2_500);

/// What all calls of one batch share.
pub(super) struct Calls<'a> {
    pub(super) driver: &'a Driver,
    pub(super) cx: Cx,
    /// Calls of the run before this batch.
    pub(super) counts: Arc<BTreeMap<String, u32>>,
}

/// A call with its result.
pub(super) struct Settled {
    pub(super) result: ToolResult,
    pub(super) bytes: usize,
    /// Whether its failure cancels the calls running beside it.
    pub(super) cancels_siblings: bool,
}

/// A call that may run.
pub(super) struct Ready {
    pub(super) call: Arc<CallRef>,
    pub(super) tool: Arc<dyn Tool>,
    pub(super) args: Value,
    pub(super) concurrency: Concurrency,
    coercions: Vec<Coercion>,
    /// Under which its result is remembered.
    dedup: Option<String>,
}

/// What is settled about a call before it runs.
pub(super) enum Preflight {
    Settled(Settled),
    Ready(Ready),
    /// The run was stopped in the meantime; the call was not let through.
    Stopped,
}

/// How a running call is told to stop.
#[derive(Clone)]
pub(super) struct Leash {
    pub(super) stop: CancellationToken,
    /// Whether it is a failed sibling that stops it.
    pub(super) by_sibling: Arc<AtomicBool>,
}

impl Calls<'_> {
    pub(super) fn call_ref(&self, call: &ToolCall) -> Arc<CallRef> {
        Arc::new(CallRef {
            turn_id: self.cx.turn_id().into(),
            call_id: call.id.clone(),
            name: call.name.clone(),
            display_name: self.driver.toolbox.wire_name(&call.name),
        })
    }

    /// Gate, unknown tool, arguments. Calls are taken through this one after the other, in the order the
    /// model made them.
    pub(super) async fn preflight(&self, call: &ToolCall, info: Arc<CallRef>) -> Preflight {
        if let Some(raw) = &call.malformed {
            self.driver.shared.count(&call.name);
            return Preflight::Settled(self.malformed(info, raw).await);
        }
        let gate = ToolGate {
            call: info.clone(),
            args: call.args.clone(),
            run_tool_counts: self.counts.clone(),
            decision: None,
            decided_by: None,
        };
        let gate = match self.cx.emit(gate).await {
            Ok(gate) => gate,
            Err(EmitError::Cancelled { .. }) => return Preflight::Stopped,
            Err(EmitError::Hook(error)) => {
                let reason = format!("a guard failed, so this call was not run: {error}");
                return Preflight::Settled(self.blocked(info, call.args.clone(), reason, None).await);
            }
        };
        let ToolGate { args, decision, decided_by, .. } = gate;
        match decision {
            Some(Decision::Refuse { reason }) => {
                let by = decided_by.map(|source| source.to_string());
                Preflight::Settled(self.blocked(info, args, reason, by).await)
            }
            Some(Decision::Substitute { output }) => {
                self.driver.shared.count(&info.name);
                Preflight::Settled(self.finish(info, output, false, Duration::ZERO).await)
            }
            None => {
                self.driver.shared.count(&info.name);
                match self.driver.toolbox.get(&info.name).cloned() {
                    Some(tool) => self.check_args(info, tool, args).await,
                    None => Preflight::Settled(self.unknown(info, args).await),
                }
            }
        }
    }

    async fn check_args(&self, call: Arc<CallRef>, tool: Arc<dyn Tool>, args: Value) -> Preflight {
        match validate(&args, &tool.spec().schema) {
            Ok(fits) => {
                if !fits.coercions.is_empty() {
                    let coerced =
                        || ValidationCoerce { call: call.clone(), coercions: fits.coercions.clone() };
                    let _ = self.cx.emit_with(coerced).await;
                }
                Preflight::Ready(Ready {
                    concurrency: concurrency(&*tool, &fits.args),
                    dedup: call_key(&self.driver.behavior, &call.name, &args),
                    call,
                    tool,
                    args: fits.args,
                    coercions: fits.coercions,
                })
            }
            Err(issues) => {
                let text = format!(
                    "Validation error: {}. Call it again with corrected arguments.",
                    issues.join("; ")
                );
                let _ = self.cx.emit(ValidationReject { call: call.clone(), args, issues }).await;
                Preflight::Settled(failed(&call, text))
            }
        }
    }

    async fn malformed(&self, call: Arc<CallRef>, raw: &str) -> Settled {
        let why = match serde_json::from_str::<Value>(raw) {
            Ok(_) => "they are not a JSON object".to_owned(),
            Err(error) => error.to_string(),
        };
        let tail: String = raw.chars().rev().take(40).collect::<Vec<_>>().into_iter().rev().collect();
        let issue = format!("the arguments are not valid JSON ({why}); they end with `{tail}`");
        let text = format!("Validation error: {issue}. The call was not run; make it again, complete.");
        let args = Value::String(raw.to_owned());
        let _ = self.cx.emit(ValidationReject { call: call.clone(), args, issues: vec![issue] }).await;
        failed(&call, text)
    }

    async fn blocked(&self, call: Arc<CallRef>, args: Value, reason: String, by: Option<String>) -> Settled {
        let settled = failed(&call, format!("Blocked: {reason}"));
        let _ = self.cx.emit(ToolBlocked { call, args, reason, by }).await;
        settled
    }

    async fn unknown(&self, call: Arc<CallRef>, args: Value) -> Settled {
        let asked = ToolUnknown { call: call.clone(), args, result: None, suppress_error: false };
        let (mut result, suppressed) = match self.cx.emit(asked).await {
            Ok(answer) => (answer.result, answer.suppress_error),
            Err(_) => (None, false),
        };
        let text = format!(
            "Unknown tool `{}`. The tools are: {}.",
            call.display_name,
            self.driver
                .toolbox
                .names()
                .iter()
                .map(|name| self.driver.toolbox.wire_name(name))
                .collect::<Vec<_>>()
                .join(", ")
        );
        if !suppressed {
            let error = ToolError::new(ToolErrorKind::NotFound, text.clone());
            let errored = ToolErrored { call: call.clone(), error, result: result.take() };
            result = self.cx.emit(errored).await.ok().and_then(|errored| errored.result);
        }
        match result {
            Some(content) => settled(&call, content, false),
            None => failed(&call, text),
        }
    }

    /// Runs a call to its result. Never fails: whatever happens becomes a result.
    pub(super) async fn execute(&self, ready: Ready, leash: Leash) -> Settled {
        let Ready { call, tool, args, coercions, dedup, .. } = ready;
        let before = ToolBefore {
            call: call.clone(),
            args: args.clone(),
            summary: told(|| tool.summary(&args)).unwrap_or_else(|| call.name.clone()),
            coercions: (!coercions.is_empty()).then_some(coercions),
            run_tool_counts: self.counts.clone(),
        };
        if let Err(EmitError::Cancelled { .. }) = self.cx.emit(before).await {
            return skipped(&self.cx, &call, NOT_RUN).await;
        }
        let started = Instant::now();
        let outcome = self.call_tool(&call, &tool, args, &leash).await;
        let elapsed = started.elapsed();
        match outcome {
            Ok(output) => {
                if let Some(key) = dedup {
                    self.driver.agent.dedup.record(&call.name, key, &output);
                }
                self.finish(call, output, false, elapsed).await
            }
            Err(error) => {
                let errored = ToolErrored { call: call.clone(), error: error.clone(), result: None };
                let substitute = self.cx.emit(errored).await.ok().and_then(|errored| errored.result);
                let is_error = substitute.is_none();
                let content = substitute.unwrap_or(ToolContent::Text(error.message));
                let output = ToolOutput { content, display: error.display, details: None };
                let mut settled = self.finish(call, output, is_error, elapsed).await;
                settled.cancels_siblings = is_error && tool.failure_cancels_siblings();
                settled
            }
        }
    }

    async fn call_tool(
        &self,
        call: &Arc<CallRef>,
        tool: &Arc<dyn Tool>,
        args: Value,
        leash: &Leash,
    ) -> Result<ToolOutput, ToolError> {
        let (progress, mut shown) = if self.cx.bus().listens::<ToolProgress>() {
            let (sender, shown) = mpsc::unbounded_channel();
            (Progress::new(move |text: &str| drop(sender.send(text.to_owned()))), Some(shown))
        } else {
            (Progress::default(), None)
        };
        let cx = ToolCx {
            cx: self.cx.with_stop(leash.stop.clone()),
            call_id: call.call_id.clone(),
            cwd: self.driver.agent.cwd.clone(),
            progress,
        };
        // The call itself is made inside, so that nothing a tool does can unwind further.
        let work = async { tool.call(args, &cx).await };
        let mut work = std::pin::pin!(AssertUnwindSafe(work).catch_unwind());
        let mut deadline = std::pin::pin!(async {
            leash.stop.cancelled().await;
            tokio::time::sleep(STOP_GRACE).await;
        });
        let ended = loop {
            let more = async {
                match &mut shown {
                    Some(shown) => shown.recv().await,
                    None => std::future::pending().await,
                }
            };
            match select(work.as_mut(), select(std::pin::pin!(more), deadline.as_mut())).await {
                Either::Left((ended, _)) => break Some(ended),
                Either::Right((Either::Left((Some(text), _)), _)) => {
                    let _ = self.cx.emit(ToolProgress { call: call.clone(), text }).await;
                }
                // Not while the tool's context, which holds the sender, is alive.
                Either::Right((Either::Left((None, _)), _)) => {}
                Either::Right((Either::Right(_), _)) => break None,
            }
        };
        if let Some(shown) = &mut shown {
            while let Ok(text) = shown.try_recv() {
                let _ = self.cx.emit(ToolProgress { call: call.clone(), text }).await;
            }
        }
        let outcome = match ended {
            Some(Ok(outcome)) => outcome,
            Some(Err(_)) => Err(ToolError::failed(format!(
                "`{}` failed inside: a bug in the tool, not in the call. Try another way.",
                call.name
            ))),
            None => Err(ToolError::new(ToolErrorKind::Aborted, "stopped")),
        };
        match outcome {
            Err(error)
                if error.kind == ToolErrorKind::Aborted && leash.by_sibling.load(Ordering::Acquire) =>
            {
                Err(ToolError {
                    message: "Cancelled: a command running beside this call failed. Its effects are unknown."
                        .into(),
                    ..error
                })
            }
            outcome => outcome,
        }
    }

    /// Transform, images, after: what every result of a call that was let through passes.
    async fn finish(
        &self,
        call: Arc<CallRef>,
        output: ToolOutput,
        is_error: bool,
        elapsed: Duration,
    ) -> Settled {
        let ToolOutput { content, display, details } = output;
        let bytes = output_bytes(&content);
        let transform = ToolTransform { call: call.clone(), output_bytes: bytes, content, is_error, details };
        let (mut content, is_error, details) = match self.cx.emit(transform).await {
            Ok(transform) => (transform.content, transform.is_error, transform.details),
            // What should have been cut or masked must not get through as it is.
            Err(error) => (format!("The result is withheld: {error}.").into(), true, None),
        };
        if !self.driver.model.capabilities.vision {
            content = without_images(content);
        }
        let bytes = output_bytes(&content);
        let after = || ToolAfter {
            call: call.clone(),
            content: content.clone(),
            is_error,
            display: display.clone().or_else(|| first_line(&content)),
            details,
            output_bytes: bytes,
            elapsed_ms: elapsed.as_millis() as u64,
            run_tool_counts: self.counts.clone(),
        };
        let _ = self.cx.emit_with(after).await;
        Settled { bytes, ..settled(&call, content, is_error) }
    }
}

pub(super) fn settled(call: &CallRef, content: ToolContent, is_error: bool) -> Settled {
    let bytes = output_bytes(&content);
    let result = ToolResult { call_id: call.call_id.clone(), content, is_error };
    Settled { result, bytes, cancels_siblings: false }
}

pub(super) fn failed(call: &CallRef, text: String) -> Settled {
    settled(call, ToolContent::Text(text), true)
}

/// An honest result for a call that has none.
pub(super) async fn skipped(cx: &Cx, call: &Arc<CallRef>, reason: &str) -> Settled {
    let _ = cx.emit(ToolSkipped { call: call.clone(), reason: reason.to_owned() }).await;
    failed(call, reason.to_owned())
}

/// Which calls this one may run beside. A tool that cannot say runs alone.
pub(super) fn concurrency(tool: &dyn Tool, args: &Value) -> Concurrency {
    told(|| tool.concurrency(args)).unwrap_or_default()
}

/// What a tool says of a call; nothing if it panics, since its arguments may be anything.
fn told<T>(say: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(say)).ok()
}

fn first_line(content: &ToolContent) -> Option<Display> {
    let ToolContent::Text(text) = content else { return None };
    let line: String = text.lines().next()?.chars().take(200).collect();
    Some(Display::Line { text: line })
}

/// The content for a model without vision.
fn without_images(content: ToolContent) -> ToolContent {
    let ToolContent::Blocks(blocks) = content else { return content };
    let blocks = blocks
        .into_iter()
        .map(|block| match block {
            Block::Image(_) => Block::text(wire::IMAGE_OMITTED),
            other => other,
        })
        .collect();
    ToolContent::Blocks(blocks)
}
