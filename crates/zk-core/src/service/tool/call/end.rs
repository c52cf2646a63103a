use std::time::Duration;

use serde_json::Value;

use super::{BegunCall, CallSteps};
use crate::events::{ToolAfter, ToolEnd, ToolErrored, ToolTransform};
use crate::kernel::EmitError;
use crate::model::{
    Block, Display, ToolContent, ToolError, ToolErrorKind, ToolOutput, ToolResult, output_bytes, wire,
};

/// Result of a call after all transformations.
#[derive(Debug)]
pub struct CallEnd {
    /// Result for the model.
    pub result: ToolResult,
    /// Display form of the result, for a person.
    pub display: Option<Display>,
    /// Structured data of the tool, for plugins.
    pub details: Option<Value>,
    /// Size of the result in bytes as sent.
    pub bytes: usize,
    /// Class of the tool's error, unless a handler gave another result.
    pub failure: Option<ToolErrorKind>,
    /// Error that prevented recording the end of the call. The run has to stop then.
    pub unrecorded: Option<EmitError>,
}

impl CallEnd {
    /// Converts to the output of a tool that made this call itself.
    ///
    /// # Errors
    /// [`ToolError`] for an error result, also when the end could not be recorded.
    pub fn into_output(self) -> Result<ToolOutput, ToolError> {
        if let Some(error) = self.unrecorded {
            return Err(ToolError::failed(format!("it ran, but its end could not be recorded: {error}")));
        }
        if self.result.is_error {
            let kind = self.failure.unwrap_or(ToolErrorKind::Failed);
            let message = self.result.content.to_text();
            return Err(ToolError { display: self.display, ..ToolError::new(kind, message) });
        }
        Ok(ToolOutput { content: self.result.content, display: self.display, details: self.details })
    }
}

impl CallSteps {
    /// Announces the result of a begun call: `tool:error`, `tool:transform`, `tool:end` and `tool:after`.
    pub async fn end(&self, begun: BegunCall, outcome: Result<ToolOutput, ToolError>) -> CallEnd {
        let elapsed = begun.started.elapsed();
        match outcome {
            Ok(output) => self.announce_result(output, false, elapsed, Some(begun)).await,
            Err(error) => {
                let errored = ToolErrored { call: self.call.clone(), error: error.clone(), result: None };
                let substitute = self.cx.emit(errored).await.ok().and_then(|errored| errored.result);
                let failure = substitute.is_none().then_some(error.kind);
                let content = substitute.unwrap_or(ToolContent::Text(error.message));
                let output = ToolOutput { content, display: error.display, details: None };
                let end = self.announce_result(output, failure.is_some(), elapsed, Some(begun)).await;
                CallEnd { failure, ..end }
            }
        }
    }

    /// Announces a gate's substitute for a call: `tool:transform` and `tool:after`.
    pub async fn substitute(&self, output: ToolOutput) -> CallEnd {
        self.announce_result(output, false, Duration::ZERO, None).await
    }

    async fn announce_result(
        &self,
        output: ToolOutput,
        is_error: bool,
        elapsed: Duration,
        begun: Option<BegunCall>,
    ) -> CallEnd {
        let ToolOutput { content, display, details } = output;
        let call = &self.call;
        let output_bytes_before = output_bytes(&content);
        let transform = ToolTransform {
            call: call.clone(),
            output_bytes: output_bytes_before,
            content,
            is_error,
            details,
        };
        let (mut content, is_error, details) = match self.cx.emit(transform).await {
            Ok(transform) => (transform.content, transform.is_error, transform.details),
            // Output that was not cut or masked must not get through.
            Err(error) => (format!("The result is withheld: {error}.").into(), true, None),
        };
        if !self.keeps_images {
            content = without_images(content);
        }
        if let Some(note) = begun.as_ref().and_then(|begun| begun.note.as_deref()) {
            content = with_note(content, note);
        }
        let bytes = output_bytes(&content);
        let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let exit_code = display.as_ref().and_then(Display::exit_code);
        let result = ToolResult { call_id: call.call_id.clone(), content, is_error };
        let mut unrecorded = None;
        if let Some(BegunCall { read_only, summary, .. }) = begun {
            let end = || ToolEnd {
                run_id: self.run_id.clone(),
                call: call.clone(),
                summary: summary.clone(),
                read_only,
                result: result.clone(),
                display: display.clone(),
                exit_code,
                details: details.clone(),
                elapsed_ms,
            };
            unrecorded = self.cx.emit_with(end).await.err();
        }
        let after = || ToolAfter {
            call: call.clone(),
            content: result.content.clone(),
            is_error,
            display: display.clone().or_else(|| first_line_display(&result.content)),
            exit_code,
            details: details.clone(),
            output_bytes: bytes,
            elapsed_ms,
            run_tool_counts: self.run_tool_counts.clone(),
        };
        let _ = self.cx.emit_with(after).await;
        CallEnd { result, display, details, bytes, failure: None, unrecorded }
    }
}

/// Appends a note to the content as its last line.
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

fn first_line_display(content: &ToolContent) -> Option<Display> {
    let ToolContent::Text(text) = content else { return None };
    let line: String = text.lines().next()?.chars().take(200).collect();
    Some(Display::Line { text: line })
}

/// Replaces images by a placeholder text, for a reader without vision.
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
