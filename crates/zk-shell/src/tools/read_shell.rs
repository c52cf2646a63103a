use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use zk_core::model::{Approved, CallKind, Effects, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{CallPlace, Redactor, Tool, ToolCx};

use crate::pump::SharedState;
use crate::record::{CaptureState, Exchange, ExchangeEnd, LiveScreen, redact_shell_text};

/// Default number of lines.
const DEFAULT_LINES: usize = 50;

/// Maximum number of lines.
const MAX_LINES: usize = 1_000;

/// Tool that reads the last output in the person's shell.
pub(crate) struct ReadShell {
    spec: Arc<ToolSpec>,
    shared: SharedState,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// Lines from the end, default 50
    lines: Option<usize>,
}

impl ReadShell {
    pub(crate) fn new(shared: SharedState) -> Self {
        let about = "Read the output of the command that runs in the user's live shell, or of the last one. Of a \
                     full-screen program, read the screen as it stands.";
        Self { spec: ToolSpec::of::<Args>("read_shell", about), shared }
    }
}

#[async_trait]
impl Tool for ReadShell {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    /// Unknown effects, since the person is asked before each look.
    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::Unknown
    }

    fn asks_each_time(&self) -> bool {
        true
    }

    fn kind(&self) -> Option<CallKind> {
        Some(CallKind::Read)
    }

    fn summary(&self, _: &Value) -> String {
        "read the output in your shell".to_owned()
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let args: Args = call.parse()?;
        let (screen, shown, is_running) = {
            let recorder = self.shared.recorder();
            if recorder.state() == CaptureState::Off {
                return Err(ToolError::failed("the user switched recording off; ask them, do not try again"));
            }
            let running = recorder.running();
            let is_running = running.is_some();
            (recorder.live_screen(), running.or_else(|| recorder.newest()), is_running)
        };
        if let Some((screen, size)) = screen {
            return Ok(ToolOutput::text(screen_rows(screen, size, cx.cx.service::<Redactor>()).await?));
        }
        let Some(shown) = shown else { return Ok(ToolOutput::text("nothing was recorded in the shell")) };
        let (redactor, count) =
            (cx.cx.service::<Redactor>(), args.lines.unwrap_or(DEFAULT_LINES).min(MAX_LINES));
        let head = redact_shell_text(&describe_state(&shown, is_running), redactor.as_deref());
        Ok(ToolOutput::text(format!("{head}\n{}", last_lines(shown, count, redactor).await?)))
    }
}

/// Command of the shell, and whether it runs or how it ended.
fn describe_state(shown: &Exchange, is_running: bool) -> String {
    let command = shown.command.as_deref().unwrap_or("(command unknown)");
    let state = match shown.end {
        _ if is_running => format!("runs since {} s", shown.duration.as_secs()),
        ExchangeEnd::Code(code) => format!("ended with code {code}"),
        ExchangeEnd::Unknown => "ended, exit code unknown".to_owned(),
    };
    format!("$ {command}\n({state})")
}

/// Renders the screen of a full-screen program on a blocking thread, redacted.
async fn screen_rows(
    screen: LiveScreen,
    size: (u16, u16),
    redactor: Option<Arc<Redactor>>,
) -> Result<String, ToolError> {
    let rendered = tokio::task::spawn_blocking(move || {
        let rows = screen.rows(size).join("\n");
        let rows = redact_shell_text(&rows, redactor.as_deref());
        let missing = if screen.is_cut() { "; rows that it drew long ago may be missing" } else { "" };
        format!(
            "A full-screen program has the screen ({} columns, {} rows{missing}):\n{rows}",
            size.0, size.1
        )
    });
    rendered.await.map_err(|error| ToolError::failed(error.to_string()))
}

/// Renders the last lines of a command's output on a blocking thread, redacted.
pub(super) async fn last_lines(
    exchange: Exchange,
    count: usize,
    redactor: Option<Arc<Redactor>>,
) -> Result<String, ToolError> {
    let rendered = tokio::task::spawn_blocking(move || {
        let lines = exchange.output_lines();
        let text = lines.get(lines.len().saturating_sub(count)..).unwrap_or_default().join("\n");
        redact_shell_text(&text, redactor.as_deref())
    });
    rendered.await.map_err(|error| ToolError::failed(error.to_string()))
}
