use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use zk_agent::{Agent, RunOptions, RunOutcome};
use zk_core::events::{ContextReduced, ProviderRetry, ToolAfter, ToolArgsRepaired, ToolBefore, ToolBlocked};
use zk_core::kernel::{AnyEvent, Bus, Cx, Reach};
use zk_core::model::AgentError;
use zk_core::service::{Redactor, StoreError, Tool};

use super::answer_text::AnswerText;
use super::blocked_calls::BlockedCalls;
use super::shared_screen::SharedScreen;
use super::status_line::watch_idle_streams;
use super::summary;
use crate::app::{AppContext, runtime};
use crate::args::{Format, Prompt};
use crate::compose::{self, HostOptions};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::events::{PROTOCOL, write_line};
use crate::output::result::RunResult;
use crate::output::{Output, WriteFailure};
use crate::sessions::{self, Kept, Session};
use crate::signals::Signals;
use crate::stdin;
use crate::term::{Screen, Style, print_stderr, sanitise};

/// How long the output of a stopped run may take to be read.
const STOPPED_FLUSH_LIMIT: Duration = Duration::from_secs(2);

/// How long that of a finished run may take: as long as the reader reads.
const FLUSH_LIMIT: Duration = Duration::from_secs(7 * 24 * 3600);

/// One run without a person.
pub(crate) fn run(app: &AppContext, prompt: Prompt) -> Outcome<Exit> {
    let Prompt { text, format, resume, .. } = prompt;
    let text = stdin::join(text.clone(), stdin::text(text.is_some())?);
    let options = match text {
        Some(text) => RunOptions::from(text),
        None if resume.is_some() => RunOptions::resume(),
        None => {
            return Err(Failure::usage(
                "there is no prompt: zk -p \"what to do\", or pipe it to standard input",
            ));
        }
    };
    let stop = CancellationToken::new();
    let broken = stop.clone();
    let cannot = |error: std::io::Error| Failure::failed(format!("cannot start: {error}"));
    let output = Output::stdout(move || broken.cancel()).map_err(cannot)?;
    let signals = Signals::watch(|| ()).map_err(cannot)?;
    let no_waiting = output.clone();
    signals.arm_process(stop.clone(), move || no_waiting.stop_waiting());
    runtime()?.block_on(async {
        let endpoint = app.endpoint().await?;
        let provider = compose::provider(app, &endpoint).await?;
        let session = sessions::begin(app, resume.as_ref()).await?;
        let allow_all = app.settings.flag("permissions.allow_all");
        let bus = compose::bus(app, &session, HostOptions { ui: None, questions: None, allow_all })?;
        let model = compose::model(app, &*provider, &session).await?;
        let agent = compose::agent(app, &bus, provider, model, &session)?;
        let head = Headless {
            output,
            stderr: SharedScreen::new(Screen::stderr(&app.env)),
            answer: AnswerText::default(),
            format,
            verbose: app.verbose,
            blocked_calls: BlockedCalls::default(),
            redactor: app.redactor.clone(),
        };
        head.listen(&bus);
        let stderr = head.stderr.clone();
        app.notices.route_to(move |text| stderr.line(Style::Plain, &format!("zk: {text}")));
        if format == Format::StreamJson {
            head.say(&init(app, &agent, &session));
        }
        let outcome = head.drive(&agent, options, &stop).await?;
        head.stderr.end_line();
        agent.close().await;
        bus.close().await;
        let closed = session.close().await;
        Ok(head.finish(&outcome, &signals, &session, closed))
    })
}

struct Headless {
    output: Output,
    stderr: SharedScreen,
    answer: AnswerText,
    format: Format,
    verbose: bool,
    blocked_calls: BlockedCalls,
    redactor: Arc<Redactor>,
}

impl Headless {
    fn listen(&self, bus: &Bus) {
        let scope = bus.scope("output");
        self.blocked_calls.watch(&scope);
        let interim = self.verbose.then(|| self.stderr.clone());
        self.answer.listen(&scope, move |text| {
            if let Some(stderr) = &interim {
                stderr.line(Style::Plain, text);
            }
        });
        match self.format {
            Format::Text => {
                watch_idle_streams(&scope, &self.stderr);
                let stderr = self.stderr.clone();
                scope.on_sync(move |event: &ProviderRetry, _: &Cx| {
                    stderr.retry(Style::Plain, "zk: ", &event.retry);
                });
                let stderr = self.stderr.clone();
                scope.on_sync(move |event: &ContextReduced, _: &Cx| {
                    stderr.line(Style::Plain, &format!("zk: {}", summary::reduced(event)));
                });
            }
            Format::StreamJson => {
                let output = self.output.clone();
                scope.observe_at(Reach::Descendants, move |event: &dyn AnyEvent, cx: &Cx| {
                    output.add(|out| write_line(event, cx, out));
                });
            }
            Format::Json => {}
        }
        if self.verbose {
            let stderr = self.stderr.clone();
            scope.on_sync(move |event: &ToolArgsRepaired, _: &Cx| {
                stderr.line(Style::Plain, &summary::repaired(event));
            });
            let stderr = self.stderr.clone();
            scope.on_sync(move |event: &ToolBefore, _: &Cx| {
                stderr.line(Style::Plain, &format!("● {}", event.summary));
            });
            let stderr = self.stderr.clone();
            scope.on_sync(move |event: &ToolAfter, _: &Cx| {
                let sign = if event.is_error { "✗" } else { "✓" };
                stderr.line(Style::Plain, &format!("  {sign} {}", summary::result(event)));
            });
            let stderr = self.stderr.clone();
            scope.on_sync(move |event: &ToolBlocked, _: &Cx| {
                let text = format!("✗ {} was refused: {}", event.call.name, event.reason);
                stderr.line(Style::Plain, &text);
            });
        }
    }

    fn say(&self, line: &serde_json::Value) {
        self.output.add(|out| {
            out.extend_from_slice(line.to_string().as_bytes());
            out.push(b'\n');
        });
    }

    async fn drive(
        &self,
        agent: &Agent,
        options: RunOptions,
        stop: &CancellationToken,
    ) -> Outcome<RunOutcome> {
        let run = agent.run(options).map_err(|error| Failure::usage(error.to_string()))?;
        let handle = run.handle();
        let mut wait = std::pin::pin!(run.wait());
        tokio::select! {
            outcome = &mut wait => return Ok(outcome),
            () = stop.cancelled() => handle.abort(),
        }
        Ok(wait.await)
    }

    /// Says how it went, and the exit code.
    fn finish(
        &self,
        outcome: &RunOutcome,
        signals: &Signals,
        session: &Session,
        closed: Result<Kept, StoreError>,
    ) -> Exit {
        let signal = signals.seen();
        let (kept, unsaved) = match closed {
            Ok(kept) => (Some(kept), None),
            Err(error) => (None, Some(format!("session not saved: {error}"))),
        };
        let (exit, error) = match &outcome.result {
            Ok(()) if unsaved.is_some() => (Exit::Failed, unsaved),
            Ok(()) if self.blocked_calls.decided_the_run() => (
                Exit::Denied,
                Some("every call of the last step was refused; --allow-all lets every tool run".to_owned()),
            ),
            Ok(()) => (Exit::Done, None),
            Err(AgentError::Aborted) => {
                (signal.unwrap_or(Exit::Failed), Some(AgentError::Aborted.to_string()))
            }
            Err(error) => (Exit::of(error), Some(summary::run_error(error))),
        };
        let id = session.open.as_ref().map(|open| open.id().clone());
        let text = self.redactor.redact(&self.answer.take()).into_owned();
        let error = error.map(|error| self.redactor.redact(&error).into_owned());
        let warning = summary::incomplete(outcome, &text);
        match self.format {
            Format::Text if !text.is_empty() => {
                let text = if std::io::stdout().is_terminal() { sanitise(&text) } else { (&*text).into() };
                self.output.add(|out| {
                    out.extend_from_slice(text.as_bytes());
                    if !text.ends_with('\n') {
                        out.push(b'\n');
                    }
                });
            }
            Format::Text => {}
            Format::Json | Format::StreamJson => {
                let denied = self.blocked_calls.all();
                let result = RunResult::new(outcome, text, exit, error.clone(), id, denied);
                self.output.add(|out| result.write(out, &self.redactor));
            }
        }
        let limit = if signal.is_some() { STOPPED_FLUSH_LIMIT } else { FLUSH_LIMIT };
        match self.output.finish(limit) {
            // The reader went away: a message would reach nobody.
            Some(WriteFailure::Pipe) => return Exit::BrokenPipe,
            Some(WriteFailure::Failed(why)) => {
                print_stderr(&format!("zk: cannot write the output: {why}"));
                return Exit::Failed;
            }
            None => {}
        }
        if let Some(warning) = warning {
            print_stderr(&format!("zk: {warning}"));
        }
        if let Some(error) = error {
            print_stderr(&format!("zk: {error}"));
            match kept {
                Some(Kept::All(id)) if exit != Exit::Auth => {
                    print_stderr(&format!("zk: session saved: zk --resume {id}"));
                }
                Some(Kept::Part { id, missing }) => print_stderr(&format!(
                    "zk: session saved up to that point ({missing} later entries are lost): zk --resume {id}"
                )),
                Some(Kept::All(_) | Kept::Nothing) | None => {}
            }
        }
        exit
    }
}

/// The first line of `stream-json`.
fn init(app: &AppContext, agent: &Agent, session: &Session) -> serde_json::Value {
    let tools: Vec<String> =
        agent.bus().items::<dyn Tool>().iter().map(|tool| tool.name.to_string()).collect();
    json!({
        "type": "system",
        "subtype": "init",
        "protocol": PROTOCOL,
        "session_id": session.open.as_ref().map(|open| open.id().clone()),
        "model": agent.model().reference(),
        "tools": tools,
        "cwd": app.cwd,
        "version": env!("CARGO_PKG_VERSION"),
    })
}
