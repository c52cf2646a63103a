//! `/jobs`: the commands that run in the background, for the person.

use std::sync::Arc;

use async_trait::async_trait;
use zk_core::kernel::{BoxError, Cx};
use zk_core::service::{Command, CommandOutcome, Exec, TurnCwd};
use zk_tools::{JobInfo, JobPhase, Jobs};

use crate::opening::person_exec::PersonExec;

/// Maximum size of the shown end of a job's output, in bytes.
const MAX_TAIL_BYTES: usize = 8 * 1024;

/// Creates the commands.
pub(crate) fn commands() -> [Arc<dyn Command>; 2] {
    [Arc::new(JobsCommand), Arc::new(BackgroundCommand)]
}

struct BackgroundCommand;

#[async_trait]
impl Command for BackgroundCommand {
    fn name(&self) -> &'static str {
        "background"
    }

    fn help(&self) -> &'static str {
        "put the command that runs in the background; Ctrl-B on an empty line does it too"
    }

    async fn run(&self, _: &str, cx: &Cx) -> Result<CommandOutcome, BoxError> {
        let jobs = cx.service::<Jobs>().ok_or("this conversation runs no commands in the background")?;
        put_in_background(&jobs)?;
        Ok(CommandOutcome::Done)
    }
}

/// Moves foreground commands to the background; their calls end with the job ids.
pub(crate) fn put_in_background(jobs: &Jobs) -> Result<(), String> {
    match jobs.put_in_background() {
        0 => Err("no command runs that could go on in the background".to_owned()),
        _ => Ok(()),
    }
}

struct JobsCommand;

#[async_trait]
impl Command for JobsCommand {
    fn name(&self) -> &'static str {
        "jobs"
    }

    fn help(&self) -> &'static str {
        "commands in the background: list, start COMMAND, tail ID, kill ID"
    }

    async fn run(&self, args: &str, cx: &Cx) -> Result<CommandOutcome, BoxError> {
        let jobs = cx.service::<Jobs>().ok_or("this conversation runs no commands in the background")?;
        let (verb, rest) = args.split_once(char::is_whitespace).unwrap_or((args, ""));
        let rest = rest.trim();
        let text = match (verb, rest) {
            ("" | "list", "") => job_lines(&jobs.list()),
            ("start", "") => return Err("/jobs start takes a command".into()),
            ("start", command) => {
                // Limits on the model's commands do not apply to the person's own commands.
                let outside = cx.service::<PersonExec>().map(|outside| outside.0.clone());
                let exec = outside.or_else(|| cx.service::<dyn Exec>());
                let exec = exec.ok_or("nothing here can run commands")?;
                let cwd = TurnCwd::of(cx).ok_or("this conversation has no directory to run it in")?;
                let id = jobs.start_command(&*exec, command, cwd).await?;
                format!("{id} started; it ends with this conversation")
            }
            ("tail", id) => job_tail(&jobs, id)?,
            ("kill", id) => kill_job(&jobs, id)?,
            (verb, _) => {
                return Err(format!("/jobs knows no `{verb}`: it is list, start, tail or kill").into());
            }
        };
        Ok(CommandOutcome::Show(text))
    }
}

/// Tail of a job's output.
pub(crate) fn job_tail(jobs: &Jobs, id: &str) -> Result<String, String> {
    let text = jobs.tail(id, MAX_TAIL_BYTES).ok_or_else(|| no_such_job(jobs, id))?;
    Ok(if text.trim().is_empty() {
        format!("{id} has printed nothing yet")
    } else {
        text.trim_end().to_owned()
    })
}

/// Kills a job.
pub(crate) fn kill_job(jobs: &Jobs, id: &str) -> Result<String, String> {
    if jobs.kill(id) { Ok(format!("{id} is asked to end")) } else { Err(no_such_job(jobs, id)) }
}

fn no_such_job(jobs: &Jobs, id: &str) -> String {
    let known: Vec<String> = jobs.list().into_iter().map(|job| job.id).collect();
    match known.as_slice() {
        [] => "no command runs in the background".to_owned(),
        known => format!("there is no job `{id}`; there are {}", known.join(", ")),
    }
}

fn job_lines(jobs: &[JobInfo]) -> String {
    let line = |job: &JobInfo| {
        let state = match &job.phase {
            JobPhase::Running => format!("runs for {} s", job.age.as_secs()),
            JobPhase::Ending => "is asked to end".to_owned(),
            JobPhase::Ended { .. } => "has ended".to_owned(),
            JobPhase::Lost { why } => format!("is lost: {why}"),
        };
        let detached = if job.detached { ", detached" } else { "" };
        let command = job.command.lines().next().unwrap_or_default();
        format!("{:<7} {state}{detached}, {} bytes printed: {command}", job.id, job.printed)
    };
    match jobs {
        [] => "no command runs in the background".to_owned(),
        jobs => jobs.iter().map(line).collect::<Vec<_>>().join("\n"),
    }
}
