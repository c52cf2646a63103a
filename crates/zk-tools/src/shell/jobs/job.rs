use std::path::PathBuf;
use std::sync::atomic::AtomicU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio::time::{sleep_until, timeout};
use zk_core::service::{Denial, ExecError, Exit, KillSignal, OutputStream, Process, ProcessEvent};

use crate::shell::output::{Output, Since, read_since};

/// Grace period between `TERM` and `KILL`; the process tree is gone within two seconds.
const END_GRACE: Duration = Duration::from_millis(1_750);
/// Time limit for the end of a job after the kill.
const KILL_WAIT: Duration = Duration::from_millis(1_000);
/// Time for which output is still read after the command ended, since another process may hold it open.
const DRAIN_TIME: Duration = Duration::from_millis(200);
/// Maximum interval between checks of a command's background processes.
const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// A command in the background.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) id: String,
    pub(crate) command: String,
    pub(crate) began: Instant,
    /// Output file of a detached job, which outlives this process.
    pub(crate) detached: Option<Detached>,
    state: Mutex<State>,
    kill: mpsc::UnboundedSender<()>,
    phase: watch::Sender<JobPhase>,
    /// Number of calls of the model that wait for its end, or ended it, and will report it.
    pub(super) awaited: AtomicU32,
}

/// Output place of a job that outlives this process.
#[derive(Clone, Debug)]
pub(crate) struct Detached {
    /// Output file; `None` if the output is lost.
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug)]
struct State {
    output: Output,
    /// Number of output bytes that the model has read.
    read: u64,
    last: Option<OutputStream>,
}

/// Phase of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobPhase {
    /// Job that runs.
    Running,
    /// Job that was asked to end and has not ended yet.
    Ending,
    /// All processes of the job have ended, except `survivors`.
    Ended {
        /// Exit of the command, or the cause of the job's end.
        exit: Exit,
        /// Run time of the job.
        elapsed: Duration,
        /// Ids of processes that are still running.
        survivors: Vec<u32>,
        /// Acts that the execution context has probably denied to the command.
        denials: Vec<Denial>,
    },
    /// State of the job is unknown.
    Lost {
        /// Cause of the loss.
        why: String,
    },
}

impl JobPhase {
    /// Whether the job has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        match self {
            Self::Running | Self::Ending => false,
            Self::Ended { .. } | Self::Lost { .. } => true,
        }
    }
}

impl Job {
    /// Creates a job without its process yet, and its kill switch.
    pub(super) fn new(
        id: String,
        command: String,
        output: Output,
        detached: Option<Detached>,
    ) -> (Self, mpsc::UnboundedReceiver<()>) {
        let (kill, killed) = mpsc::unbounded_channel();
        let state = Mutex::new(State { output, read: 0, last: None });
        let phase = watch::Sender::new(JobPhase::Running);
        (
            Self {
                id,
                command,
                began: Instant::now(),
                detached,
                state,
                kill,
                phase,
                awaited: AtomicU32::new(0),
            },
            killed,
        )
    }

    /// Job of a command that was in the foreground, whose output so far the model got.
    pub(super) fn from_foreground(
        id: String,
        command: String,
        output: Output,
        began: Instant,
    ) -> (Self, mpsc::UnboundedReceiver<()>) {
        let read = output.total();
        let (mut job, killed) = Self::new(id, command, output, None);
        job.began = began;
        job.state().read = read;
        (job, killed)
    }

    pub(crate) fn phase(&self) -> JobPhase {
        self.phase.borrow().clone()
    }

    /// Output since the last call, and the path of the full output.
    pub(crate) fn read_new(&self, max: usize) -> (Since, Option<String>) {
        let mut state = self.state();
        if let Some(Detached { file }) = &self.detached {
            let found = file.as_ref().map(|file| read_since(file, state.read, max));
            return match found {
                Some(Ok((read, since))) => {
                    state.read = read;
                    let place = file.as_ref().map(|file| format!("all of it is in {}", file.display()));
                    (since, place)
                }
                Some(Err(error)) => {
                    let why = format!("its output cannot be read: {error}");
                    (Since { cut: 0, text: String::new() }, Some(why))
                }
                None => (Since { cut: 0, text: String::new() }, Some("its output is not kept".to_owned())),
            };
        }
        let since = state.output.since(state.read);
        state.read = state.output.total();
        if since.cut > 0 {
            state.output.flush_file();
        }
        let place = state.output.describe_file();
        (since, place)
    }

    /// End of the output, and the path of the full output; does not count as read.
    pub(crate) fn tail(&self, max: usize) -> String {
        let total = self.printed().0;
        let from = total.saturating_sub(max as u64);
        let state = self.state();
        let (since, place) = match &self.detached {
            Some(Detached { file: Some(file) }) => match read_since(file, from, max) {
                Ok((_, since)) => (since, Some(format!("all of it is in {}", file.display()))),
                Err(error) => return format!("(its output cannot be read: {error})"),
            },
            Some(Detached { file: None }) => return "(its output is not kept)".to_owned(),
            None => (state.output.since(from), state.output.describe_file()),
        };
        match place.filter(|_| from > 0) {
            Some(place) => format!("({place})\n{}", since.text),
            None => since.text,
        }
    }

    /// Receiver of the job's phase.
    pub(super) fn phases(&self) -> watch::Receiver<JobPhase> {
        self.phase.subscribe()
    }

    /// Number of printed bytes, and of the unread ones.
    pub(crate) fn printed(&self) -> (u64, u64) {
        let state = self.state();
        let file = self.detached.as_ref().and_then(|detached| detached.file.as_ref());
        let total = match file {
            Some(file) => std::fs::metadata(file).map_or(state.read, |found| found.len()),
            None => state.output.total(),
        };
        (total, total.saturating_sub(state.read))
    }

    /// Ends all processes of the job: `TERM`, then `KILL` for the rest.
    pub(crate) fn kill(&self) {
        let _ = self.kill.send(());
    }

    /// Waits until the job is over, and returns its last phase.
    pub(crate) async fn wait_until_over(&self) -> JobPhase {
        let mut phase = self.phase.subscribe();
        match phase.wait_for(JobPhase::is_over).await {
            Ok(phase) => phase.clone(),
            Err(_) => self.phase(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows the job's process to its end.
    pub(super) async fn follow(
        &self,
        process: Box<dyn Process>,
        killed: mpsc::UnboundedReceiver<()>,
        deadline: Option<Instant>,
    ) {
        let over = match self.watch(process, killed, deadline).await {
            Ok(over) => over,
            Err(error) => JobPhase::Lost { why: error.to_string() },
        };
        self.state().output.flush();
        self.phase.send_replace(over);
    }

    async fn watch(
        &self,
        mut process: Box<dyn Process>,
        mut killed: mpsc::UnboundedReceiver<()>,
        deadline: Option<Instant>,
    ) -> Result<JobPhase, ExecError> {
        let mut late = std::pin::pin!(async {
            match deadline {
                Some(deadline) => sleep_until(deadline.into()).await,
                None => std::future::pending().await,
            }
        });
        let mut exit = loop {
            let event = tokio::select! {
                event = process.next() => event?,
                _ = killed.recv() => break Exit::Stopped,
                () = &mut late => break Exit::TimedOut,
            };
            match event {
                Some(ProcessEvent::Exited(exit)) => break exit,
                Some(event) => self.record_output(event),
                None => break Exit::Code(-1),
            }
        };
        match exit {
            Exit::Stopped | Exit::TimedOut => {
                self.phase.send_replace(JobPhase::Ending);
                process.kill(KillSignal::Terminate).await?;
                if !self.gone_within(&mut *process, END_GRACE).await?.is_empty() {
                    process.kill(KillSignal::Kill).await?;
                }
            }
            Exit::Code(_) | Exit::Signal(_) => {
                self.drain(&mut *process, DRAIN_TIME).await?;
                // Processes that the command left in the background belong to the job, which lasts until they
                // have ended.
                let mut left = process.members().await?;
                let mut pause = DRAIN_TIME;
                while !left.is_empty() {
                    // There is no event for the last process's end: it is polled with growing intervals.
                    let is_to_end = tokio::select! {
                        done = async {
                            self.drain(&mut *process, pause).await?;
                            tokio::time::sleep(pause).await;
                            Ok::<_, ExecError>(())
                        } => { done?; false }
                        _ = killed.recv() => true,
                        () = &mut late => { exit = Exit::TimedOut; true }
                    };
                    if is_to_end {
                        process.kill(KillSignal::Terminate).await?;
                        if !self.gone_within(&mut *process, END_GRACE).await?.is_empty() {
                            process.kill(KillSignal::Kill).await?;
                        }
                        break;
                    }
                    left = process.members().await?;
                    pause = (pause * 2).min(MAX_CHECK_INTERVAL);
                }
            }
        }
        let survivors = self.gone_within(&mut *process, KILL_WAIT).await?;
        let (elapsed, denials) = (self.began.elapsed(), process.denials());
        Ok(JobPhase::Ended { exit, elapsed, survivors, denials })
    }

    /// Reads output for `patience`, or until its end.
    async fn drain(&self, process: &mut dyn Process, patience: Duration) -> Result<(), ExecError> {
        let reading = async {
            while let Some(event) = process.next().await? {
                self.record_output(event);
            }
            Ok(())
        };
        timeout(patience, reading).await.unwrap_or(Ok(()))
    }

    /// Reads until all processes have ended; returns those left after `patience`.
    async fn gone_within(
        &self,
        process: &mut dyn Process,
        patience: Duration,
    ) -> Result<Vec<u32>, ExecError> {
        let until = Instant::now() + patience;
        let mut pause = Duration::from_millis(2);
        loop {
            self.drain(process, pause).await?;
            let left = process.members().await?;
            if left.is_empty() || Instant::now() >= until {
                return Ok(left);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }

    fn record_output(&self, event: ProcessEvent) {
        if let ProcessEvent::Output(stream, bytes) = event {
            let mut state = self.state();
            // Two streams share the text; one must not continue in the middle of the other's line.
            if state.last.is_some_and(|last| last != stream) && !state.output.ends_in_line() {
                state.output.write(b"\n");
            }
            state.last = Some(stream);
            state.output.write(&bytes);
        }
    }
}
