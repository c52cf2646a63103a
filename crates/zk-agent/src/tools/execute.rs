use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::{Either, select};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use zk_core::events::{
    CallRef, Coercion, ToolAfter, ToolBefore, ToolBegin, ToolEnd, ToolErrored, ToolProgress, ToolTransform,
};
use zk_core::kernel::EmitError;
use zk_core::model::{
    AgentError, Approved, Block, CallKind, Display, ToolContent, ToolError, ToolErrorKind, ToolOutput,
    output_bytes, wire,
};
use zk_core::service::{Progress, RedactedPieces, Redactor, Tool, ToolCx};

use super::call::{Calls, NOT_RUN, Settled, catch_panic, settled, skipped};
use super::preflight::Ready;

/// How long a tool that was told to stop may take to end by itself before its future is dropped.
const STOP_GRACE: Duration = Duration::from_millis(2_500);

/// Cancellation of a running call.
#[derive(Clone)]
pub(super) struct CallCancel {
    pub(super) stop: CancellationToken,
    /// Whether it is a failed sibling that stops it.
    pub(super) by_sibling: Arc<AtomicBool>,
}

/// What is known of a call that had begun.
pub(super) struct Begun {
    read_only: bool,
    summary: String,
    /// What the model is told of its arguments, behind the result.
    told: Option<String>,
}

impl Calls<'_> {
    /// Runs a call to its result. Never fails: whatever happens becomes a result.
    pub(super) async fn execute(&self, ready: Ready, cancel: CallCancel) -> Settled {
        let Ready { approved, tool, coercions, dedup, .. } = ready;
        let (call, args) = (approved.call().clone(), approved.args());
        let starts_calls = catch_panic(|| tool.starts_calls()).unwrap_or(true);
        let read_only = approved.effects().is_read_only() && !starts_calls;
        let summary = catch_panic(|| tool.summary(args)).unwrap_or_else(|| call.name.clone());
        let kind = catch_panic(|| tool.kind()).flatten().unwrap_or_else(|| CallKind::of(approved.effects()));
        let locations = catch_panic(|| tool.locations(args)).filter(|found| !found.is_empty());
        let locations = locations.unwrap_or_else(|| approved.effects().locations());
        let told = describe_coercions(&coercions);
        let begun = Begun { read_only, summary: summary.clone(), told };
        let begin = || ToolBegin {
            run_id: self.driver.shared.id.clone(),
            call: call.clone(),
            args: args.clone(),
            effects: approved.effects().clone(),
            summary: summary.clone(),
            kind,
            locations: locations.clone(),
            read_only,
        };
        match self.cx.emit_with(begin).await {
            Ok(()) => {}
            Err(EmitError::Cancelled { .. }) => return skipped(&self.cx, &call, NOT_RUN).await,
            Err(EmitError::Hook(error)) => {
                let reason = format!("it could not be recorded before it ran, so it was not run: {error}");
                let by = Some(error.source.to_string());
                return self.blocked(call, args.clone(), reason, by).await;
            }
        }
        let before = ToolBefore {
            call: call.clone(),
            args: args.clone(),
            summary: summary.clone(),
            coercions: (!coercions.is_empty()).then_some(coercions),
            run_tool_counts: self.counts.clone(),
        };
        if let Err(EmitError::Cancelled { .. }) = self.cx.emit(before).await {
            return skipped(&self.cx, &call, NOT_RUN).await;
        }
        let started = Instant::now();
        let outcome = self.call_tool(&approved, &tool, &cancel).await;
        let elapsed = started.elapsed();
        match outcome {
            Ok(output) => {
                if let Some(key) = dedup {
                    self.driver.agent.dedup.record(&call.name, key, &output);
                }
                self.finish(call, output, false, elapsed, Some(begun)).await
            }
            Err(error) => {
                let errored = ToolErrored { call: call.clone(), error: error.clone(), result: None };
                let substitute = self.cx.emit(errored).await.ok().and_then(|errored| errored.result);
                let is_error = substitute.is_none();
                let content = substitute.unwrap_or(ToolContent::Text(error.message));
                let output = ToolOutput { content, display: error.display, details: None };
                let mut settled = self.finish(call, output, is_error, elapsed, Some(begun)).await;
                settled.cancels_siblings = is_error && tool.failure_cancels_siblings();
                settled
            }
        }
    }

    async fn call_tool(
        &self,
        approved: &Approved,
        tool: &Arc<dyn Tool>,
        cancel: &CallCancel,
    ) -> Result<ToolOutput, ToolError> {
        let (progress, mut shown) = if self.cx.bus().has_listeners::<ToolProgress>() {
            let (sender, shown) = mpsc::unbounded_channel();
            (Progress::new(move |text: &str| drop(sender.send(text.to_owned()))), Some(shown))
        } else {
            (Progress::default(), None)
        };
        let mut pieces = self.cx.service::<Redactor>().map(RedactedPieces::new);
        let cx = ToolCx {
            cx: self.cx.with_stop(cancel.stop.clone()),
            call_id: approved.call().call_id.clone(),
            cwd: self.driver.cwd.clone(),
            progress,
        };
        let call = approved.call();
        // The call itself is made inside, so that nothing a tool does can unwind further.
        let work = async { tool.call(approved, &cx).await };
        let mut work = std::pin::pin!(AssertUnwindSafe(work).catch_unwind());
        let mut deadline = std::pin::pin!(async {
            cancel.stop.cancelled().await;
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
                    self.show_progress(call, &mut pieces, text).await;
                }
                // Not while the tool's context, which holds the sender, is alive.
                Either::Right((Either::Left((None, _)), _)) => {}
                Either::Right((Either::Right(_), _)) => break None,
            }
        };
        if let Some(shown) = &mut shown {
            while let Ok(text) = shown.try_recv() {
                self.show_progress(call, &mut pieces, text).await;
            }
            if let Some(mut pieces) = pieces {
                self.show_progress(call, &mut None, pieces.finish()).await;
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
                if error.kind == ToolErrorKind::Aborted && cancel.by_sibling.load(Ordering::Acquire) =>
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

    /// Announces more of a call's output, without secrets that it comes in pieces of.
    async fn show_progress(&self, call: &Arc<CallRef>, pieces: &mut Option<RedactedPieces>, text: String) {
        let text = match pieces {
            Some(pieces) => pieces.push(text),
            None => text,
        };
        if !text.is_empty() {
            let _ = self.cx.emit(ToolProgress { call: call.clone(), text }).await;
        }
    }

    /// Transform, images, end, after: what every result of a call that was let through passes. The end of a call that
    /// had begun is announced.
    pub(super) async fn finish(
        &self,
        call: Arc<CallRef>,
        output: ToolOutput,
        is_error: bool,
        elapsed: Duration,
        begun: Option<Begun>,
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
        if let Some(told) = begun.as_ref().and_then(|begun| begun.told.as_deref()) {
            content = with_note(content, told);
        }
        let bytes = output_bytes(&content);
        let elapsed_ms = elapsed.as_millis() as u64;
        let exit_code = display.as_ref().and_then(Display::exit_code);
        let mut settled = Settled { bytes, ..settled(&call, content.clone(), is_error) };
        if let Some(Begun { read_only, summary, .. }) = begun {
            let end = || ToolEnd {
                run_id: self.driver.shared.id.clone(),
                call: call.clone(),
                summary: summary.clone(),
                read_only,
                result: settled.result.clone(),
                display: display.clone(),
                exit_code,
                details: details.clone(),
                elapsed_ms,
            };
            settled.unrecorded = self.cx.emit_with(end).await.err().map(AgentError::from);
        }
        let after = || ToolAfter {
            call: call.clone(),
            content: content.clone(),
            is_error,
            display: display.clone().or_else(|| first_line(&content)),
            exit_code,
            details,
            output_bytes: bytes,
            elapsed_ms,
            run_tool_counts: self.counts.clone(),
        };
        let _ = self.cx.emit_with(after).await;
        settled
    }
}

/// Conversions of arguments that are told, and characters of a value that are shown.
const TOLD: (usize, usize) = (4, 60);

/// What a model is told of arguments that came as another type than the tool asks for.
fn describe_coercions(coercions: &[Coercion]) -> Option<String> {
    let shown = |value: &Value| {
        let text = value.to_string();
        let cut = if text.chars().nth(TOLD.1).is_some() { "…" } else { "" };
        format!("{}{cut}", text.chars().take(TOLD.1).collect::<String>())
    };
    let one = |coercion: &Coercion| {
        format!("`{}` as {} instead of {}", coercion.key, shown(&coercion.to), shown(&coercion.from))
    };
    let all: Vec<String> = coercions.iter().take(TOLD.0).map(one).collect();
    (!all.is_empty()).then(|| format!("[Arguments were converted: give {} next time.]", all.join(", ")))
}

/// The content with a line behind it.
fn with_note(content: ToolContent, note: &str) -> ToolContent {
    match content {
        ToolContent::Text(text) if text.is_empty() => ToolContent::Text(note.to_owned()),
        ToolContent::Text(text) => {
            let separator = if text.ends_with('\n') { "" } else { "\n" };
            ToolContent::Text(format!("{text}{separator}{note}"))
        }
        ToolContent::Blocks(mut blocks) => {
            blocks.push(Block::text(note));
            ToolContent::Blocks(blocks)
        }
    }
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
