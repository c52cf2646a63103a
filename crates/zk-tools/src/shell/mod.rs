mod classify;
pub(crate) mod command_output;
mod credentials;
mod denied;
pub(crate) mod jobs;
mod lost;
pub(crate) mod output;
mod place;
pub(crate) mod recall;
mod tail;
#[cfg(test)]
mod tests;
mod unasked;

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use zk_core::model::{
    Approved, CommandExit, Concurrency, Display, Effect, Effects, ToolError, ToolErrorKind, ToolOutput,
    ToolSpec,
};
use zk_core::service::{
    Attendance, CallPlace, DeniedAct, ExecError, ExecOutcome, ExecRequest, Exit, OutputSink, OutputStream,
    OutsideExec, RunControl, Tool, ToolCx, TurnEnv, attend,
};

use crate::policy::CutOutput;
use crate::shell::jobs::{JobStart, Jobs, Leaving};
use crate::shell::output::OutputPlace;
use crate::text::one_line;
use crate::tool_names::ToolNames;
use crate::{Compression, ToolsOptions, args};
pub use lost::LostSandbox;
use place::{ExecPlace, place_of, staying_place};
use tail::{Printed, Tail};
pub(crate) use unasked::{StayingCalls, UnaskedCalls};

/// Runs a command with bash and returns the end of its output.
///
/// A command that fails is an error result with its output. Both output streams are merged in order, as on a
/// terminal.
///
/// ```
/// use zk_core::model::Concurrency;
/// use zk_core::service::Tool;
/// use zk_tools::{Shell, ToolsOptions};
///
/// let tool = Shell::new(&ToolsOptions::default());
/// assert_eq!(tool.concurrency(&serde_json::json!({ "command": "ls -l src" })), Concurrency::Shared);
/// assert_eq!(tool.concurrency(&serde_json::json!({ "command": "ls > files" })), Concurrency::Exclusive);
/// ```
#[derive(Debug)]
pub struct Shell {
    spec: Arc<ToolSpec>,
    options: ToolsOptions,
    jobs: Option<Arc<Jobs>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    command: String,
    timeout_ms: Option<u64>,
    /// Answer at once with a job id
    background: Option<bool>,
    /// With background: go on after this program ends
    detach: Option<bool>,
}

/// The arguments where commands run in a sandbox.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "for its schema; the call reads the usual arguments")]
struct SandboxArgs {
    command: String,
    timeout_ms: Option<u64>,
    /// Answer at once with a job id
    background: Option<bool>,
    /// Ask the user to run this one command outside of the sandbox, after it was denied something or where it needs the
    /// user's credentials
    outside: Option<Outside>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "for its schema")]
struct Outside {
    reason: String,
}

impl Shell {
    /// Creates the tool with these options.
    #[must_use]
    pub fn new(options: &ToolsOptions) -> Self {
        Self { spec: Self::specify(options, false), options: options.clone(), jobs: None }
    }

    fn specify(options: &ToolsOptions, has_jobs: bool) -> Arc<ToolSpec> {
        let mut about =
            "Run a bash command in the working directory. No input, no terminal; each call starts afresh."
                .to_owned();
        if let Some(bounds) = &options.shell_bounds {
            about = format!("{about} {bounds}");
        }
        let (usual, most) = (options.shell_timeout.as_millis(), options.shell_timeout_max.as_millis());
        let describe = |arguments: &mut Map<String, Value>| {
            args::describe(arguments, "timeout_ms", format!("Default {usual}, at most {most}"));
            if !has_jobs {
                arguments.remove("background");
                arguments.remove("detach");
            }
        };
        if options.outside {
            args::spec_with::<SandboxArgs>("shell", &about, describe)
        } else {
            args::spec_with::<Args>("shell", &about, describe)
        }
    }

    /// Returns the reason of a call to leave the sandbox, if it wants to and there is one.
    fn outside_reason<'a>(&self, args: &'a Value) -> Option<&'a str> {
        let outside = args.get("outside").filter(|outside| self.options.outside && !outside.is_null())?;
        Some(text_or_empty(outside, "reason"))
    }

    /// Reason why a command can only run outside of the sandbox, if there is one.
    fn needs_person(&self, command: &str, place: &CallPlace) -> Option<String> {
        let lost = place.cx.service::<LostSandbox>().filter(|_| self.options.outside);
        if let Some(why) = lost.and_then(|lost| lost.reason()) {
            return Some(format!(
                "the sandbox cannot be set up any more, and it runs as you without one: {why}"
            ));
        }
        let is_held = self.options.outside && self.options.shell_bounds.is_some();
        let is_plain = is_held && self.options.shell_prefix.is_none();
        if is_plain { credentials::needed(command, &place.cwd, &self.options) } else { None }
    }

    /// Lets commands run in the background, as jobs in `jobs`.
    #[must_use]
    pub fn with_jobs(mut self, jobs: Arc<Jobs>) -> Self {
        self.spec = Self::specify(&self.options, true);
        self.jobs = Some(jobs);
        self
    }

    /// Full command for a command of the model, after the host's own line.
    fn prefixed(&self, command: &str) -> String {
        match &self.options.shell_prefix {
            Some(prefix) if !command.is_empty() => format!("{prefix}\n{command}"),
            Some(_) | None => command.to_owned(),
        }
    }

    async fn start_job(&self, args: Args, place: ExecPlace, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let ExecPlace { exec, connections } = place;
        let tool = ToolNames::of(&cx.cx).get("jobs");
        let (Some(jobs), Some(tool)) = (&self.jobs, tool) else {
            return Err(ToolError::failed(
                "commands cannot run in the background here, nothing could look after them; run it without background",
            ));
        };
        let asked = args.timeout_ms.map(Duration::from_millis);
        let limit = self.options.job_timeout_max;
        if limit.is_some() && args.detach == Some(true) {
            return Err(ToolError::failed(
                "commands have a time limit here, which nothing enforces once this program has ended; start it without \
                 detach",
            ));
        }
        let timeout = limit.map(|limit| asked.map_or(limit, |asked| asked.min(limit))).or(asked);
        let request = ExecRequest { timeout, connections, ..exec_request(&self.prefixed(&args.command), cx) };
        let start = JobStart {
            request,
            place: OutputPlace::of(&cx.cx, self.options.output_file_bytes),
            memory: tail::kept_bytes(self.options.shell_bytes),
            detach: args.detach == Some(true),
            command: args.command,
        };
        let job = jobs.start(&*exec, start, cx.cx.service::<dyn RunControl>()).await?;
        let end = match (&job.detached, limit) {
            (Some(_), _) => "it goes on when this program ends".to_owned(),
            (None, Some(limit)) => {
                format!("it ends with this conversation, and is ended after {} s", limit.as_secs())
            }
            (None, None) => "it ends with this conversation".to_owned(),
        };
        Ok(ToolOutput::text(format!(
            "{} started; {end}. `{tool}` reads its output, waits for it and kills it",
            job.id
        )))
    }

    /// Ends the call of a command that the person moved to the background.
    fn move_to_background(&self, leaving: Leaving, text: &str, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let Some(jobs) = &self.jobs else { return Err(ToolError::failed("nothing looks after the command")) };
        let tool = ToolNames::of(&cx.cx).get("jobs").unwrap_or_else(|| "jobs".to_owned());
        let job = jobs.add_foreground_job(leaving, cx.cx.service::<dyn RunControl>());
        let note = format!(
            "(the user put it in the background, where it goes on as {}; `{tool}` reads what it prints from here on, waits \
             for it and kills it)",
            job.id
        );
        let shown = Display::Line { text: format!("goes on in the background as {}", job.id) };
        Ok(ToolOutput::text(append_note(text, &note)).with_display(shown))
    }

    fn timeout(&self, asked: Option<u64>) -> Result<Duration, ToolError> {
        match asked {
            None => Ok(self.options.shell_timeout),
            Some(0) => Err(ToolError::invalid("timeout_ms must be above 0")),
            Some(millis) => Ok(Duration::from_millis(millis).min(self.options.shell_timeout_max)),
        }
    }

    fn footer(&self, outcome: &ExecOutcome, asked: Option<u64>, cx: &ToolCx) -> String {
        let mut notes = Vec::new();
        if self.options.shell_footer
            && let Exit::Code(code) = outcome.exit
        {
            notes.push(format!("exit {code}, {}ms", outcome.elapsed.as_millis()));
        }
        let most = self.options.shell_timeout_max.as_millis();
        if let Some(asked) = asked.filter(|asked| u128::from(*asked) > most) {
            notes.push(format!("timeout_ms was {most} instead of {asked}, no more is allowed"));
        }
        if !outcome.survivors.is_empty() && matches!(outcome.exit, Exit::Code(_) | Exit::Signal(_)) {
            let pids: Vec<String> = outcome.survivors.iter().take(8).map(ToString::to_string).collect();
            notes.push(format!(
                "still running in the background: pid {}; its further output is lost unless it goes to a file",
                pids.join(", ")
            ));
        }
        let mut footer = if notes.is_empty() { String::new() } else { format!("({})", notes.join("; ")) };
        for denial in outcome.denials.iter().filter(|denial| denial.act != DeniedAct::Exceed) {
            footer = append_note(&footer, &denied::for_model(denial, &self.options, &cx.cx));
        }
        footer
    }
}

#[async_trait]
impl Tool for Shell {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let args: Args = call.parse()?;
        if args.command.trim().is_empty() || args.command.contains('\0') {
            return Err(ToolError::invalid("the command is empty or contains a NUL character"));
        }
        let timeout = self.timeout(args.timeout_ms)?;
        let ExecPlace { exec, connections } = match self.outside_reason(call.args()) {
            Some(_) if !call.effects().leaves_context() => {
                return Err(ToolError::failed("nobody was asked to run this outside of the sandbox"));
            }
            None if !call.effects().leaves_context() => place_of(call, cx).await?,
            Some(_) | None => match staying_place(call, cx).await? {
                Some(place) => place,
                None => {
                    let outside = cx.cx.service::<OutsideExec>();
                    let outside = outside.ok_or_else(|| {
                        ToolError::failed("nothing here runs commands outside of the sandbox")
                    })?;
                    ExecPlace { exec: outside.0.clone(), connections: None }
                }
            },
        };
        match (args.background, args.detach) {
            (Some(true), _) => return self.start_job(args, ExecPlace { exec, connections }, cx).await,
            (_, Some(true)) => return Err(ToolError::invalid("detach goes with background: true")),
            (_, None | Some(false)) => {}
        }
        let place = OutputPlace::of(&cx.cx, self.options.output_file_bytes);
        let mut tail = Tail::new(self.options.shell_bytes, place, cx.progress.clone());
        let command = self.prefixed(&args.command);
        let request = ExecRequest { timeout: Some(timeout), connections, ..exec_request(&command, cx) };
        let failed = |error: ExecError| ToolError::failed(error.to_string());
        let began = Instant::now();
        let foreground = self.jobs.as_ref().filter(|_| ToolNames::of(&cx.cx).get("jobs").is_some());
        let foreground = foreground.map(|jobs| (jobs, jobs.register_foreground()));
        let leave = foreground.as_ref().map_or_else(CancellationToken::new, |(_, it)| it.leave.clone());
        let process = exec.spawn(request).await.map_err(failed)?;
        let (deadline, stop) = (began.checked_add(timeout), cx.cx.stop_token());
        let outcome = match attend(process, &mut tail, began, deadline, stop, &leave).await.map_err(failed)? {
            Attendance::Ended(outcome) => outcome,
            Attendance::Left(process) => {
                let (text, output) = tail.output_so_far();
                let (command, limit) = (args.command, self.options.job_timeout_max);
                let leaving = Leaving { command, process, output, began, limit };
                return self.move_to_background(leaving, &text, cx);
            }
        };
        drop(foreground);
        for denial in outcome.denials.iter().filter(|denial| denial.act == DeniedAct::Exceed) {
            // As output, which the person sees as well.
            let note = format!("({denial}; do it in smaller parts, or raise `[limits]` in the settings)\n");
            tail.write(OutputStream::Stderr, note.as_bytes());
        }
        let Printed { text: output, mut lines, mut total_lines, cut } = tail.finish();
        // The person sees the denials; the footer gives the model the next step.
        for denial in outcome.denials.iter().filter(|denial| denial.act != DeniedAct::Exceed) {
            let notes = denied::for_person(denial, &cx.cx);
            total_lines += notes.len() as u64;
            lines.extend(notes);
        }
        let exit = match outcome.exit {
            Exit::Code(code) => CommandExit::Code { code },
            Exit::Signal(signal) => CommandExit::Signal { signal },
            Exit::TimedOut => CommandExit::TimedOut,
            Exit::Stopped => CommandExit::Stopped,
        };
        let display = Display::Command { lines, total_lines, exit };
        let footer = self.footer(&outcome, args.timeout_ms, cx);
        let text = append_note(&output, &footer);
        let note_cut = |text: &str| {
            if let (Some(cut), Some(compression)) = (cut, cx.cx.service::<Compression>()) {
                let footer = text.get(output.len()..).unwrap_or_default().to_owned();
                compression.note_cut(&cx.call_id, CutOutput { footer, ..cut });
            }
        };
        let failed = match outcome.exit {
            Exit::Code(0) => {
                note_cut(&text);
                let text = if text.is_empty() { "(no output)".to_owned() } else { text };
                return Ok(ToolOutput::text(text).with_display(display));
            }
            Exit::Code(code) => {
                let text = match (explain(code), footer.is_empty()) {
                    (Some(why), true) => append_note(&output, &format!("(exit {code}: {why})")),
                    (Some(why), false) => append_note(&text, &format!("({why})")),
                    (None, true) => append_note(&output, &format!("(exit {code})")),
                    (None, false) => text,
                };
                ToolError::failed(text)
            }
            Exit::Signal(_) if outcome.denials.iter().any(|denial| denial.act == DeniedAct::Exceed) => {
                ToolError::failed(append_note(&output, "(killed)"))
            }
            Exit::Signal(signal) => {
                ToolError::failed(append_note(&output, &format!("(killed by signal {signal}, not by zk)")))
            }
            Exit::TimedOut => {
                let most = self.options.shell_timeout_max.as_millis();
                let has_jobs = self.jobs.is_some() && ToolNames::of(&cx.cx).get("jobs").is_some();
                let serves = if has_jobs {
                    ", and what serves on belongs in the background: `background: true`"
                } else {
                    ""
                };
                let note = format!(
                    "(took longer than {}ms and was ended with all it started{}; timeout_ms allows up to {most}{serves})",
                    timeout.as_millis(),
                    survivors_note(&outcome)
                );
                ToolError::new(ToolErrorKind::TimedOut, append_note(&output, &note))
            }
            Exit::Stopped => {
                let note = format!("(stopped with the run{})", survivors_note(&outcome));
                ToolError::new(ToolErrorKind::Aborted, append_note(&output, &note))
            }
        };
        note_cut(&failed.message);
        Err(ToolError { display: Some(display), ..failed })
    }

    fn concurrency(&self, args: &Value) -> Concurrency {
        if self.outside_reason(args).is_some() {
            return Concurrency::Exclusive;
        }
        let command = self.prefixed(args::text(args, "command"));
        let reads = classify::only_reads(&command);
        if reads { Concurrency::Shared } else { Concurrency::Exclusive }
    }

    fn effects(&self, args: &Value, place: &CallPlace) -> Effects {
        let Some(command) = args.get("command").and_then(Value::as_str) else { return Effects::Unknown };
        // The judge of a call sees all that runs.
        let mut effects = vec![Effect::Executes { command: Some(self.prefixed(command)), argv: Vec::new() }];
        if let Some(reason) = self.outside_reason(args) {
            effects.push(Effect::LeavesContext { reason: reason.to_owned() });
        } else if let Some(reason) = self.needs_person(command, place) {
            effects.push(Effect::LeavesContext { reason });
        }
        if is_set(args, "detach") {
            // A command that outlives the program is more than the command alone: approvals of that do not
            // cover this.
            effects.push(Effect::Executes { command: None, argv: Vec::new() });
        }
        Effects::Known { list: effects }
    }

    /// Previews the reason for which the command leaves the sandbox, or the command with the line of `shell_prefix`
    /// that runs before it.
    async fn preview(&self, args: &Value, place: &CallPlace) -> Option<Display> {
        if self.outside_reason(args).is_none()
            && let Some(reason) = self.needs_person(args::text(args, "command"), place)
        {
            return Some(Display::Lines { lines: vec![reason] });
        }
        self.options.shell_prefix.as_ref()?;
        let text = self.prefixed(args::text(args, "command"));
        Some(Display::Lines { lines: text.lines().map(str::to_owned).collect() })
    }

    fn summary(&self, args: &Value) -> String {
        let command = one_line(args::text(args, "command"), 120);
        let place = if self.outside_reason(args).is_some() { " (outside of the sandbox)" } else { "" };
        let how = match (is_set(args, "detach"), is_set(args, "background")) {
            (true, _) => " (detached: goes on after zk ends)",
            (false, true) => " (in the background)",
            (false, false) => "",
        };
        format!("$ {command}{place}{how}")
    }

    fn failure_cancels_siblings(&self) -> bool {
        true
    }
}

/// Explains an exit code of the shell itself, with the next step; `None` for others.
fn explain(code: i32) -> Option<&'static str> {
    match code {
        126 => Some("a program is there but cannot be run; check its permissions, or name its interpreter"),
        127 => Some(
            "a program was not found; check its name, or whether it is installed, before another attempt",
        ),
        _ => None,
    }
}

fn text_or_empty<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A command of a call, in its directory and with the variables of its turn.
fn exec_request(command: &str, cx: &ToolCx) -> ExecRequest {
    let given = cx.cx.service::<TurnEnv>().unwrap_or_default();
    let env = given.0.iter().map(|(name, value)| (name.into(), value.into())).collect();
    ExecRequest { env, ..ExecRequest::shell(command, cx.cwd.clone()) }
}

fn is_set(args: &Value, flag: &str) -> bool {
    args.get(flag).and_then(Value::as_bool) == Some(true)
}

fn survivors_note(outcome: &ExecOutcome) -> String {
    if outcome.survivors.is_empty() {
        return String::new();
    }
    let pids: Vec<String> = outcome.survivors.iter().take(8).map(ToString::to_string).collect();
    format!("; still ending: pid {}", pids.join(", "))
}

fn append_note(output: &str, note: &str) -> String {
    match (output.is_empty(), note.is_empty()) {
        (true, _) => note.to_owned(),
        (_, true) => output.to_owned(),
        _ if output.ends_with('\n') => format!("{output}{note}"),
        _ => format!("{output}\n{note}"),
    }
}
