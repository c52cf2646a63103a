use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::timeout;
use zk_core::model::{
    Approved, CallKind, Concurrency, Display, Effects, ToolError, ToolErrorKind, ToolOutput, ToolSpec,
};
use zk_core::service::{CallPlace, DeniedAct, Exit, Tool, ToolCx};

use super::{Job, JobInfo, JobPhase, Jobs, read_new};
use crate::text::{count, one_line, size};
use crate::tool_names::ToolNames;
use crate::tool_support::stopped;
use crate::{Compression, ToolsOptions, args};

/// Default time limit of a wait.
const DEFAULT_WAIT: Duration = Duration::from_secs(30);

/// Tool `jobs`: lists background commands, reads their output, waits for them and ends them.
///
/// ```
/// use std::sync::Arc;
/// use zk_core::service::Tool;
/// use zk_tools::{Jobs, JobsTool, ToolsOptions};
///
/// let tool = JobsTool::new(&ToolsOptions::default(), Arc::new(Jobs::default()));
/// assert_eq!(tool.spec().name, "jobs");
/// ```
#[derive(Debug)]
pub struct JobsTool {
    spec: Arc<ToolSpec>,
    options: ToolsOptions,
    jobs: Arc<Jobs>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Action {
    List,
    Tail,
    Wait,
    Kill,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    action: Action,
    /// Of the job, as `shell` gave it
    id: Option<String>,
    /// Milliseconds to wait, default 30000
    timeout_ms: Option<u64>,
}

impl JobsTool {
    /// The tool for these jobs.
    #[must_use]
    pub fn new(options: &ToolsOptions, jobs: Arc<Jobs>) -> Self {
        let about =
            "Background commands: list them, read their new output (tail), wait for one to end, kill one.";
        Self { spec: args::spec::<Args>("jobs", about), options: options.clone(), jobs }
    }

    fn find(&self, id: Option<&str>) -> Result<Arc<Job>, ToolError> {
        let Some(id) = id else { return Err(ToolError::invalid("name a job with `id`; `list` shows them")) };
        self.jobs.find(id).ok_or_else(|| {
            let known = self.jobs.list().into_iter().map(|job| job.id).collect::<Vec<_>>();
            let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
            ToolError::new(ToolErrorKind::NotFound, format!("there is no job `{id}`; known: {known}"))
        })
    }

    /// Output of the job since the last report, and its state.
    fn report(&self, job: &Job, cx: &ToolCx) -> String {
        if let Some(compression) = cx.cx.service::<Compression>() {
            compression.note_command(&cx.call_id, &job.command);
        }
        let max = match self.options.shell_bytes {
            0 => crate::limits::RESULT_BYTES,
            max => max,
        };
        let text = read_new(job, max);
        let text = if text.is_empty() { "(nothing new)\n".to_owned() } else { text };
        let end = if text.ends_with('\n') { "" } else { "\n" };
        format!("{text}{end}({}: {})", job.id, describe(&job.phase()))
    }
}

#[async_trait]
impl Tool for JobsTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let args: Args = call.parse()?;
        let text = match args.action {
            Action::List => {
                let jobs = self.jobs.list();
                return Ok(ToolOutput::text(list(&jobs, &ToolNames::of(&cx.cx))).with_display(table(&jobs)));
            }
            Action::Tail => self.report(&*self.find(args.id.as_deref())?, cx),
            Action::Wait => {
                let job = self.find(args.id.as_deref())?;
                let _awaited = Awaited::new(&job);
                let patience = args.timeout_ms.map_or(DEFAULT_WAIT, Duration::from_millis);
                tokio::select! {
                    _ = timeout(patience.min(self.options.shell_timeout_max), job.wait_until_over()) => {}
                    () = cx.cx.stop_token().cancelled() => return Err(stopped()),
                }
                self.report(&job, cx)
            }
            Action::Kill => {
                let job = self.find(args.id.as_deref())?;
                let _awaited = Awaited::new(&job);
                job.kill();
                // A job that is deaf to the first signal takes a while to end, with or without this call.
                tokio::select! {
                    _ = job.wait_until_over() => {}
                    () = cx.cx.stop_token().cancelled() => return Err(stopped()),
                }
                self.report(&job, cx)
            }
        };
        let display = Display::Lines { lines: text.lines().map(str::to_owned).collect() };
        Ok(ToolOutput::text(text).with_display(display))
    }

    fn kind(&self) -> Option<CallKind> {
        Some(CallKind::Execute)
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Shared
    }

    fn effects(&self, args: &Value, _: &CallPlace) -> Effects {
        // A job was approved when it was started; managing it has no further effects.
        if args.get("action").is_some() { Effects::none() } else { Effects::Unknown }
    }

    fn summary(&self, args: &Value) -> String {
        let id = args.get("id").and_then(Value::as_str).unwrap_or_default();
        format!("{} {id}", args::text(args, "action")).trim_end().to_owned()
    }
}

/// Guard of a call that waits for a job's end and will report it.
struct Awaited<'a>(&'a Job);

impl<'a> Awaited<'a> {
    fn new(job: &'a Job) -> Self {
        job.awaited.fetch_add(1, Ordering::Relaxed);
        Self(job)
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        // The call that saw the end has reported it.
        if !self.0.phase().is_over() {
            self.0.awaited.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Table of the jobs for a person.
fn table(jobs: &[JobInfo]) -> Display {
    if jobs.is_empty() {
        return Display::Line { text: "no jobs".to_owned() };
    }
    let row = |job: &JobInfo| {
        vec![job.id.clone(), describe(&job.phase), size(job.printed), one_line(&job.command, 120)]
    };
    let head = ["job", "state", "printed", "command"].map(str::to_owned).to_vec();
    Display::Table { head, rows: jobs.iter().map(row).collect() }
}

fn list(jobs: &[JobInfo], tools: &ToolNames) -> String {
    if jobs.is_empty() {
        let next = tools.advise("shell", |shell| format!("; `{shell}` with background starts one"));
        return format!("(no jobs{next})");
    }
    let line = |job: &JobInfo| {
        let detached = if job.detached { ", detached" } else { "" };
        format!(
            "{}  {}{detached}; {} printed, {} unread; started {}s ago: {}",
            job.id,
            describe(&job.phase),
            size(job.printed),
            size(job.unread),
            job.age.as_secs(),
            one_line(&job.command, 120)
        )
    };
    jobs.iter().map(line).collect::<Vec<_>>().join("\n")
}

pub(super) fn describe(phase: &JobPhase) -> String {
    let (exit, elapsed, survivors, denials) = match phase {
        JobPhase::Running => return "running".to_owned(),
        JobPhase::Ending => return "asked to end, still running".to_owned(),
        JobPhase::Lost { why } => return format!("lost: {why}"),
        JobPhase::Ended { exit, elapsed, survivors, denials } => (exit, elapsed, survivors, denials),
    };
    let how = match exit {
        Exit::Code(code) => format!("exit {code}"),
        Exit::Signal(_) if denials.iter().any(|denial| denial.act == DeniedAct::Exceed) => {
            "killed".to_owned()
        }
        Exit::Signal(signal) => format!("killed by signal {signal}, not by zk"),
        Exit::TimedOut => "took too long and was ended".to_owned(),
        Exit::Stopped => "killed".to_owned(),
    };
    let mut text = format!("{how} after {}ms", elapsed.as_millis());
    if !survivors.is_empty() {
        text.push_str(&format!("; {} of it still there: {survivors:?}", count(survivors.len(), "process")));
    }
    for denial in denials {
        text.push_str(&format!("; {denial}"));
    }
    text
}
