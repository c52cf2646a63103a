//! Commands that run in the background of a conversation.

mod foreground;
mod handover;
mod job;
mod running;
mod tool;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use zk_core::model::{Message, ToolError};
use zk_core::service::{Exec, ExecError, ExecRequest, Process, RunControl};

pub(crate) use foreground::Leaving;
pub use handover::JobHandover;
use job::Detached;
pub(crate) use job::Job;
pub use job::JobPhase;
pub(crate) use running::RunningJobs;
pub use tool::JobsTool;

use crate::shell::output::{Output, OutputPlace};
use crate::text::{one_line, size};

/// Maximum number of jobs that may run at a time.
const MAX_RUNNING_JOBS: usize = 16;
/// Maximum kept size of the output of a person's own job, in bytes.
const OWN_OUTPUT_BYTES: usize = 256 << 10;
/// Maximum number of ended jobs that are remembered.
const MAX_ENDED_JOBS: usize = 32;

/// The background commands of a conversation: `cx.service::<Jobs>()`.
///
/// A job is started by the tool `shell` with `background`, and managed with the tool `jobs`. Its output is
/// kept in memory up to a fixed size, and in a file beyond it. All jobs end with the conversation, except
/// those that a person allowed to be detached.
#[derive(Debug, Default)]
pub struct Jobs {
    /// Number of changes of jobs, which observers watch.
    changes: watch::Sender<u64>,
    jobs: Mutex<Vec<Arc<Job>>>,
    next: AtomicU32,
    /// Ends of jobs to report to the model with the next prompt, since no run was active.
    ends: Arc<Mutex<Vec<String>>>,
    /// Commands in the foreground that can be put in the background, by their numbers.
    foreground: Arc<Mutex<BTreeMap<u64, CancellationToken>>>,
}

/// Information about a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobInfo {
    /// Id by which the model names it.
    pub id: String,
    /// Command of the job.
    pub command: String,
    /// Whether it outlives this process.
    pub detached: bool,
    /// Time since it was started.
    pub age: Duration,
    /// Phase of the job.
    pub phase: JobPhase,
    /// Bytes that it printed.
    pub printed: u64,
    /// Printed bytes that the model has not read.
    pub unread: u64,
}

/// Parameters for the start of a job.
#[derive(Debug)]
pub(crate) struct JobStart {
    pub(crate) command: String,
    pub(crate) request: ExecRequest,
    pub(crate) place: Option<OutputPlace>,
    /// Size of its output kept in memory, in bytes.
    pub(crate) memory: usize,
    pub(crate) detach: bool,
}

impl Jobs {
    /// All jobs, the oldest first.
    #[must_use]
    pub fn list(&self) -> Vec<JobInfo> {
        let info = |job: &Arc<Job>| {
            let (printed, unread) = job.printed();
            JobInfo {
                id: job.id.clone(),
                command: job.command.clone(),
                detached: job.detached.is_some(),
                age: job.began.elapsed(),
                phase: job.phase(),
                printed,
                unread,
            }
        };
        self.jobs().iter().map(info).collect()
    }

    /// End of a job's output since the model last read it. Counts as read.
    #[must_use]
    pub fn read_new(&self, id: &str, max_bytes: usize) -> Option<String> {
        self.find(id).map(|job| read_new(&job, max_bytes))
    }

    /// End of a job's output, and the path of the full output, for a person: does not count as read by the
    /// model.
    #[must_use]
    pub fn tail(&self, id: &str, max_bytes: usize) -> Option<String> {
        self.find(id).map(|job| job.tail(max_bytes))
    }

    /// Receiver of a change whenever a job begins, is asked to end, or ends.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn count_change(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Ends a job with everything it started: `TERM`, and `KILL` 1.75 s later. Whether there is such a job.
    pub fn kill(&self, id: &str) -> bool {
        self.find(id).is_some_and(|job| {
            job.kill();
            true
        })
    }

    /// Ends all jobs but the detached ones, and waits for the end of their processes.
    pub async fn close(&self) {
        let jobs = std::mem::take(&mut *self.jobs());
        jobs.iter().for_each(|job| _ = job.awaited.fetch_add(1, Ordering::Relaxed));
        self.count_change();
        let own: Vec<_> = jobs.iter().filter(|job| job.detached.is_none()).collect();
        own.iter().for_each(|job| job.kill());
        for job in own {
            job.wait_until_over().await;
        }
    }

    /// Ends all jobs but the detached ones, in the background.
    pub(crate) fn forget(&self) {
        let jobs = std::mem::take(&mut *self.jobs());
        jobs.iter().for_each(|job| _ = job.awaited.fetch_add(1, Ordering::Relaxed));
        jobs.iter().filter(|job| job.detached.is_none()).for_each(|job| job.kill());
        self.take_ends();
        self.count_change();
    }

    pub(crate) fn find(&self, id: &str) -> Option<Arc<Job>> {
        self.jobs().iter().find(|job| job.id == id).cloned()
    }

    /// Starts a command in the background.
    ///
    /// The job's end is reported to the model: in the `run` that started it, or with the next prompt.
    pub(crate) async fn start(
        &self,
        exec: &dyn Exec,
        start: JobStart,
        run: Option<Arc<dyn RunControl>>,
    ) -> Result<Arc<Job>, ToolError> {
        let JobStart { command, request, place, memory, detach } = start;
        let running = self.jobs().iter().filter(|job| !job.phase().is_over()).count();
        if running >= MAX_RUNNING_JOBS {
            return Err(ToolError::failed(format!(
                "{running} jobs run already, which is as many as there may be; end one with `jobs`"
            )));
        }
        let deadline = request.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let (process, detached) = if detach {
            let file = place.as_ref().and_then(|place| place.create().ok()).map(|(_, path)| path);
            let target = file.as_deref().unwrap_or(Path::new("/dev/null"));
            (exec.spawn_detached(request, target).await, Some(Detached { file }))
        } else {
            (exec.spawn(request).await, None)
        };
        let process = process.map_err(|error: ExecError| ToolError::failed(error.to_string()))?;
        let (job, killed) = Job::new(self.next_id(), command, Output::new(memory, place), detached);
        Ok(self.watch(job, process, killed, deadline, run))
    }

    fn next_id(&self) -> String {
        format!("job-{}", self.next.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Watches a job until its end, and reports the end to the model.
    fn watch(
        &self,
        job: Job,
        process: Box<dyn Process>,
        killed: mpsc::UnboundedReceiver<()>,
        deadline: Option<Instant>,
        run: Option<Arc<dyn RunControl>>,
    ) -> Arc<Job> {
        let job = Arc::new(job);
        self.add(job.clone());
        let (followed, ends) = (job.clone(), self.ends.clone());
        let changes = self.changes.clone();
        self.count_change();
        tokio::spawn(async move {
            let mut phase = followed.phases();
            let announcing = async {
                while phase.changed().await.is_ok() {
                    changes.send_modify(|count| *count += 1);
                }
            };
            tokio::select! {
                () = followed.follow(process, killed, deadline) => {}
                () = announcing => {}
            }
            changes.send_modify(|count| *count += 1);
            if let Some(text) = end_message(&followed) {
                let late = match run {
                    Some(run) => run.steer(Message::injected(text.clone(), "jobs")).is_err(),
                    None => true,
                };
                if late {
                    ends.lock().unwrap_or_else(PoisonError::into_inner).push(text);
                }
            }
        });
        job
    }

    /// Starts a command of the person in the background and returns the id of its job. The model learns of
    /// its end with the next prompt.
    ///
    /// # Errors
    /// [`ToolError`] when it cannot be started.
    pub async fn start_command(
        &self,
        exec: &dyn Exec,
        command: &str,
        cwd: PathBuf,
    ) -> Result<String, ToolError> {
        let start = JobStart {
            command: command.to_owned(),
            request: ExecRequest::shell(command, cwd),
            place: None,
            memory: OWN_OUTPUT_BYTES,
            detach: false,
        };
        self.start(exec, start, None).await.map(|job| job.id.clone())
    }

    /// Ends of jobs that were not reported in a run.
    pub(crate) fn take_ends(&self) -> Vec<String> {
        std::mem::take(&mut *self.ends.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, job: Arc<Job>) {
        let mut jobs = self.jobs();
        jobs.push(job);
        while jobs.iter().filter(|job| job.phase().is_over()).count() > MAX_ENDED_JOBS {
            let Some(oldest) = jobs.iter().position(|job| job.phase().is_over()) else { break };
            jobs.remove(oldest);
        }
    }

    fn jobs(&self) -> MutexGuard<'_, Vec<Arc<Job>>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Message to the model about the end of a job; `None` if a call reports it.
fn end_message(job: &Job) -> Option<String> {
    let unheard = job.awaited.load(Ordering::Relaxed) == 0;
    let (_, unread) = job.printed();
    unheard.then(|| {
        let output = if unread > 0 { "; `jobs` reads what it printed" } else { "" };
        let command = one_line(&job.command, 120);
        format!("{} has ended: {}{output} ($ {command})", job.id, tool::describe(&job.phase()))
    })
}

/// New output of a job for the model, with a note on the omission.
fn read_new(job: &Job, max: usize) -> String {
    let (since, place) = job.read_new(max);
    let text = since.text;
    match (since.cut, place) {
        (0, Some(place)) if text.is_empty() => format!("({place})"),
        (0, _) => text,
        (cut, Some(place)) => format!("…({} before this left out; {place})…\n{text}", size(cut)),
        (cut, None) => format!("…({} before this are lost)…\n{text}", size(cut)),
    }
}
