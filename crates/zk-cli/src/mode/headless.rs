use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use zk_agent::{Agent, Behavior, RunOptions, RunOutcome};
use zk_core::kernel::{AnyEvent, Bus, Cx, Reach};
use zk_core::model::AgentError;
use zk_core::service::{ExpandedPrompts, HostFiles, HostRead, LeftSession, Redactor, StoreError};
use zk_permission::Mode;
use zk_serve::print::{Denials, PermissionDenial, RunResult, first_line, write_event, write_value};
use zk_tui::Style;
use zk_tui::plain::{RunReport, Screen, SharedScreen, piped_text};
use zk_tui::term::{Output, SafeText, StdStream, WriteFailure, print_stderr};
use zk_view::{RefusedCalls, ViewDriver, final_answer};
use zk_worktree::{WaitingPatch, Worktrees};

use super::goal_run::{self, GoalRun};
use super::{prompt_command, summary, unattended};
use crate::app::{AppContext, Workplace, runtime};
use crate::args::{Format, Prompt};
use crate::compose::HostOptions;
use crate::exit::{Exit, Failure, Outcome, ending_of};
use crate::sessions::{self, Session};
use crate::signals::{self, exit_of};
use zk_chat::{Interrupts, Signals, incomplete};

/// Longest wait for the output of a stopped run to be read.
const STOPPED_FLUSH_LIMIT: Duration = Duration::from_secs(2);

/// Longest wait for the output of a finished run to be read; practically unlimited.
const FLUSH_LIMIT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Performs one unattended run.
pub(crate) fn run(app: &AppContext, prompt: Prompt) -> Outcome<Exit> {
    let Prompt { text, format, resume, schema, goal, verbose, .. } = prompt;
    let schema = schema.map(|file| read_schema(&app.work, &file)).transpose()?;
    let piped = piped_text(text.is_some() || goal.is_some())?;
    let is_piped = piped.is_some();
    let text = join_prompt(text, piped).or_else(|| goal.clone());
    if text.is_none() && resume.is_none() {
        return Err(Failure::usage("there is no prompt: zk -p \"what to do\", or pipe it to standard input"));
    }
    let stop = CancellationToken::new();
    let broken = stop.clone();
    let cannot = |error: std::io::Error| Failure::failed(format!("cannot start: {error}"));
    let output = Output::stdout(move || broken.cancel()).map_err(cannot)?;
    let signals = signals::watch(|| ()).map_err(cannot)?;
    let no_waiting = output.clone();
    signals.arm_process(stop.clone(), move || no_waiting.stop_waiting());
    runtime()?.block_on(async {
        let session = sessions::begin(&app.work, &app.settings, resume.as_ref()).await?;
        // The session's file is created in the background while the rest gets ready.
        session.open.iter().for_each(|open| open.prepare());
        let host = HostOptions { is_listed: true, ..HostOptions::unattended(&app.settings) };
        let view = host.view.clone();
        if let Some(entries) = session.restored() {
            view.begin(&entries);
        }
        let (agent, bus) = match Box::pin(unattended::open(app, &session, host)).await {
            Ok(opened) => opened,
            Err(failure) => {
                // Closing removes the unused file. The first error is reported.
                let _ = session.close().await;
                return Err(failure);
            }
        };
        let text = match text {
            Some(text) => match prompt_command::prompt_of(&agent, &text, &stop).await {
                Ok(prompt) => {
                    let is_expanded = is_piped || prompt.is_some();
                    let prompt = prompt.unwrap_or(text);
                    if let Some(expanded) = bus.service::<ExpandedPrompts>().filter(|_| is_expanded) {
                        expanded.note(&prompt);
                    }
                    Some(prompt)
                }
                Err(failure) => return Err(close_all(&agent, &bus, &session, failure).await),
            },
            None => None,
        };
        let head = Headless {
            output,
            stderr: SharedScreen::new(Screen::stderr(&app.work.machine.terminal())),
            format,
            verbose,
            before: view.view().blocks.len(),
            view,
            redactor: app.work.machine.redactor.clone(),
            denials: Denials::default(),
        };
        head.register_listeners(&bus);
        let telling = head.print_progress();
        let stderr = head.stderr.clone();
        app.work.machine.notices.route_to(move |text| stderr.line(Style::PLAIN, &format!("zk: {text}")));
        if matches!(format, Format::StreamJson | Format::ViewJson) {
            let id = session.open.as_ref().map(|open| open.id());
            head.print_line(&first_line(&agent, id, &app.work.cwd, env!("CARGO_PKG_VERSION")));
        }
        let printing = match head.print_view() {
            Ok(printing) => printing,
            Err(failure) => return Err(close_all(&agent, &bus, &session, failure).await),
        };
        let begun = async {
            let goal = GoalRun::begin(&agent, &app.settings, goal.as_deref(), text.is_none()).await?;
            let options = match (text, &goal) {
                (Some(text), _) => RunOptions::from(text),
                (None, Some(goal)) => goal.resumed(&agent)?,
                (None, None) => RunOptions::resume(),
            };
            Ok((goal, options))
        };
        let (goal, options) = match begun.await {
            Ok(begun) => begun,
            Err(failure) => return Err(close_all(&agent, &bus, &session, failure).await),
        };
        let options = options.behavior(Behavior { schema, ..Behavior::default() });
        let outcome = match head.drive_goal(&agent, options, goal.as_ref(), &stop).await {
            Ok(outcome) => outcome,
            Err(failure) => return Err(close_all(&agent, &bus, &session, failure).await),
        };
        let waiting = bus.service::<Worktrees>().map(|copies| copies.waiting()).unwrap_or_default();
        agent.close().await;
        bus.close().await;
        if let Some(telling) = telling {
            // The task ends with the bus, after its last output.
            let _ = telling.await;
        }
        if let Some(printing) = printing {
            let _ = tokio::task::spawn_blocking(move || printing.join()).await;
        }
        head.stderr.end_line();
        let closed = session.close().await;
        let ending = goal.and_then(|goal| goal.ending());
        Ok(head.finish(&outcome, ending, &signals, &session, closed, &waiting))
    })
}

/// Joins the prompt and the text on standard input.
fn join_prompt(prompt: Option<String>, input: Option<String>) -> Option<String> {
    match (prompt, input) {
        (Some(prompt), Some(input)) => Some(format!("{prompt}\n\n{input}")),
        (one, other) => one.or(other),
    }
}

/// Closes the agent, bus and session of a run that cannot start; returns the failure.
async fn close_all(agent: &Agent, bus: &Bus, session: &Session, failure: Failure) -> Failure {
    agent.close().await;
    bus.close().await;
    // The reason for the missing run is reported, not an error of closing.
    let _ = session.close().await;
    failure
}

struct Headless {
    output: Output,
    stderr: SharedScreen,
    format: Format,
    verbose: bool,
    view: ViewDriver,
    /// Number of blocks in the conversation before this run.
    before: usize,
    redactor: Arc<Redactor>,
    /// The calls that the permission gate refused.
    denials: Denials,
}

impl Headless {
    fn register_listeners(&self, bus: &Bus) {
        self.denials.listen(bus, |mode| format!("--permission-mode {mode}"));
        if self.format == Format::StreamJson {
            let (output, redactor) = (self.output.clone(), self.redactor.clone());
            bus.scope("output").observe_at(Reach::Descendants, move |event: &dyn AnyEvent, cx: &Cx| {
                output.add(|out| write_event(event, cx, &redactor, out));
            });
        }
    }

    /// Prints progress to standard error until the bus is closed, if text output or `--verbose` is selected.
    fn print_progress(&self) -> Option<JoinHandle<()>> {
        if self.format != Format::Text && !self.verbose {
            return None;
        }
        let mut reader = self.view.reader();
        let warns = self.format == Format::Text;
        let blocks = self.view.view().blocks;
        let mut report = RunReport::new(self.stderr.clone(), warns, self.verbose, &blocks);
        Some(tokio::spawn(async move {
            while let Some(patches) = reader.next().await {
                patches.iter().for_each(|patch| report.patch(patch));
            }
        }))
    }

    /// Prints the patches of the view as lines until the bus is closed. A separate thread prints, so that a
    /// slow reader does not delay the run.
    fn print_view(&self) -> Outcome<Option<std::thread::JoinHandle<()>>> {
        if self.format != Format::ViewJson {
            return Ok(None);
        }
        let (mut reader, output, redactor) = (self.view.reader(), self.output.clone(), self.redactor.clone());
        let runtime = Handle::current();
        let print = move || {
            while let Some(patches) = runtime.block_on(reader.next()) {
                patches.iter().for_each(|patch| output.add(|out| write_value(patch, &redactor, out)));
            }
        };
        let thread = std::thread::Builder::new().name("view".to_owned()).spawn(print);
        thread.map(Some).map_err(|error| Failure::failed(format!("cannot print the view: {error}")))
    }

    fn print_line(&self, line: &serde_json::Value) {
        self.output.add(|out| write_value(line, &self.redactor, out));
    }

    /// Performs the run, and further runs after failures until the goal is reached.
    async fn drive_goal(
        &self,
        agent: &Agent,
        options: RunOptions,
        goal: Option<&GoalRun>,
        stop: &CancellationToken,
    ) -> Outcome<RunOutcome> {
        let mut outcome = self.perform_run(agent, options, stop).await?;
        if let Some(goal) = goal {
            while let Some(options) = goal.next(&outcome, agent, stop).await? {
                outcome = goal_run::join(outcome, self.perform_run(agent, options, stop).await?);
            }
        }
        Ok(outcome)
    }

    async fn perform_run(
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

    /// Prints the result and returns the exit code.
    fn finish(
        &self,
        outcome: &RunOutcome,
        ending: Option<(Exit, Option<String>)>,
        signals: &Signals,
        session: &Session,
        closed: Result<LeftSession, StoreError>,
        waiting: &[WaitingPatch],
    ) -> Exit {
        let signal = signals.seen().map(exit_of);
        let (kept, unsaved) = match closed {
            Ok(kept) => (Some(kept), None),
            Err(error) => (None, Some(format!("session not saved: {error}"))),
        };
        let view = self.view.view();
        let blocks = view.blocks.get(self.before..).unwrap_or_default();
        let refused = RefusedCalls::of(blocks);
        let denials = self.denials.take();
        let (exit, error) = match &outcome.result {
            Ok(()) if unsaved.is_some() => (Exit::Failed, unsaved.clone()),
            Ok(()) if refused.decided_the_run => (
                Exit::Denied,
                Some(format!("every call of the last step was refused{}", widest_flag(&denials))),
            ),
            Ok(()) => (Exit::Done, None),
            Err(AgentError::Aborted) => {
                (signal.unwrap_or(Exit::Failed), Some(AgentError::Aborted.to_string()))
            }
            Err(error) => (Exit::of(error), Some(summary::run_error(error))),
        };
        let (exit, error) = match ending {
            Some(ended) if signal.is_none() && unsaved.is_none() => ended,
            Some(_) | None => (exit, error),
        };
        let id = session.open.as_ref().map(|open| open.id().clone());
        let answer = match &outcome.stats.output {
            Some(output) => format!("{output:#}"),
            None => final_answer(blocks),
        };
        let text = self.redactor.redact(&answer).into_owned();
        // A NUL byte would end the text for programs that read C strings.
        let printed = text.replace('\0', "\u{fffd}");
        let error = error.map(|error| self.redactor.redact(&error).into_owned());
        let warning = incomplete(outcome, &text, summary::PHRASES.raise_output_limit);
        match self.format {
            Format::Text if !text.is_empty() => {
                self.output.text(&SafeText::new(&printed, StdStream::Stdout.reader()));
            }
            Format::Text => {}
            Format::Json | Format::StreamJson | Format::ViewJson => {
                let result =
                    RunResult::new(outcome, text, ending_of(exit), error.clone(), id, (refused.all, denials));
                self.output.add(|out| result.write(out, &self.redactor));
            }
        }
        let limit = if signal.is_some() { STOPPED_FLUSH_LIMIT } else { FLUSH_LIMIT };
        match self.output.finish(limit) {
            // With the output closed, there is no reader for a message.
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
        let saved = match &kept {
            Some(LeftSession::All(id) | LeftSession::Part { id, .. }) => Some(id.as_str()),
            Some(LeftSession::Nothing) | None => None,
        };
        waiting.iter().for_each(|patch| print_stderr(&format!("zk: {}", waiting_line(patch, saved))));
        if let Some(error) = error {
            print_stderr(&format!("zk: {error}"));
            let failed = outcome.result.as_ref().err();
            if let Some(choices) = failed.and_then(|error| summary::choices_without_a_person(error, saved)) {
                print_stderr(&format!("zk: {choices}"));
            }
            match kept {
                Some(LeftSession::All(id)) if exit != Exit::Auth => {
                    print_stderr(&format!("zk: session saved: zk --resume {id}"));
                }
                Some(LeftSession::Part { id, missing }) => print_stderr(&format!(
                    "zk: session saved up to that point ({missing} later entries are lost): zk --resume {id}"
                )),
                Some(LeftSession::All(_) | LeftSession::Nothing) | None => {}
            }
        }
        exit
    }
}

/// Line about changes of a sub-agent that nobody brought into the project.
fn waiting_line(patch: &WaitingPatch, session: Option<&str>) -> String {
    let WaitingPatch { description, file, .. } = patch;
    match session {
        Some(id) => format!("{description} wait for a review: zk --resume {id}, then /changes"),
        None => format!("{description} are not in the project: git apply {}", file.display()),
    }
}

/// Reads the JSON Schema for the answer.
fn read_schema(work: &Workplace, file: &Path) -> Outcome<serde_json::Value> {
    let cannot =
        |why: String| Failure::usage(format!("cannot use {} as a JSON Schema: {why}", file.display()));
    let read = work.machine.host_files.read(&work.cwd.join(file), &HostRead::whole(1 << 20));
    let read = read.map_err(|error| cannot(error.to_string()))?;
    let schema: serde_json::Value =
        serde_json::from_slice(&read.bytes).map_err(|error| cannot(error.to_string()))?;
    let is_of_an_object = schema.get("type").is_some_and(|kind| kind == "object");
    if is_of_an_object {
        Ok(schema)
    } else {
        Err(cannot("it has to be that of an object: \"type\": \"object\"".to_owned()))
    }
}

/// Returns the flag that would have allowed all of these calls.
fn widest_flag(denials: &[PermissionDenial]) -> String {
    let mode = |denial: &PermissionDenial| denial.allowed_by.as_deref()?.parse::<Mode>().ok();
    match denials.iter().filter_map(mode).max() {
        Some(mode) => format!(
            "; --permission-mode {mode} would let {} run",
            if denials.len() == 1 { "it" } else { "them" }
        ),
        None => String::new(),
    }
}
