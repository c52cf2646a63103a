use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};
use tokio::time::{sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::{ExecError, ExecOutcome, Exit, KillSignal, OutputSink, OutputStream, Process, ProcessEvent};

/// Grace period between `TERM` and `KILL`, short enough for the process tree to be gone within two seconds.
const GRACE: Duration = Duration::from_millis(1_750);
/// Time without output after the exit, after which a pipe that a process still holds open is no longer read.
const OUTPUT_IDLE: Duration = Duration::from_millis(200);
/// Maximum time for reading output after the exit.
const DRAIN: Duration = Duration::from_millis(1_500);
/// Maximum wait of a stopped run for its command to end.
const STOP_REPORT_WAIT: Duration = Duration::from_millis(60);
/// Maximum wait for the exit of a killed command.
const KILL_WAIT: Duration = Duration::from_millis(200);

/// Runs a command until it ends, is stopped or times out, and passes its output on.
pub(super) async fn run_to_completion(
    process: Box<dyn Process>,
    sink: &mut dyn OutputSink,
    began: Instant,
    deadline: Option<Instant>,
    stop: &CancellationToken,
) -> Result<ExecOutcome, ExecError> {
    let (leave, mut process) = (CancellationToken::new(), process);
    loop {
        match attend(process, sink, began, deadline, stop, &leave).await? {
            Attendance::Ended(outcome) => return Ok(outcome),
            Attendance::Left(again) => process = again,
        }
    }
}

/// Outcome of watching a command.
pub enum Attendance {
    /// The command is over.
    Ended(ExecOutcome),
    /// The command continues, and the caller owns its process from now on.
    Left(Box<dyn Process>),
}

impl std::fmt::Debug for Attendance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ended(outcome) => f.debug_tuple("Ended").field(outcome).finish(),
            Self::Left(_) => f.write_str("Left"),
        }
    }
}

/// Watches a command as [`Exec::run`](super::Exec::run) does, until it is over or `leave` is cancelled.
///
/// # Errors
/// [`ExecError`] when it could not be watched.
pub async fn attend(
    process: Box<dyn Process>,
    sink: &mut dyn OutputSink,
    began: Instant,
    deadline: Option<Instant>,
    stop: &CancellationToken,
    leave: &CancellationToken,
) -> Result<Attendance, ExecError> {
    let mut attended = Attended { process, sink, exit: None, open: [true; 2], is_over: false };
    let Some(exit) = attended.wait_for_end(deadline, stop, leave).await? else {
        return Ok(Attendance::Left(attended.process));
    };
    let survivors = match exit {
        Exit::Code(_) | Exit::Signal(_) => {
            attended.drain_pipes(stop).await?;
            attended.process.members().await?
        }
        Exit::Stopped => {
            attended.process.kill(KillSignal::Terminate).await?;
            // Processes that outlive this wait are killed in the background when the process handle is
            // dropped.
            attended.wait_until_gone(STOP_REPORT_WAIT).await?
        }
        Exit::TimedOut => {
            attended.process.kill(KillSignal::Terminate).await?;
            if !attended.wait_until_gone(GRACE).await?.is_empty() {
                attended.process.kill(KillSignal::Kill).await?;
            }
            attended.wait_until_gone(KILL_WAIT).await?
        }
    };
    let output_still_open = attended.has_open_output();
    let denials = attended.process.denials();
    if survivors.is_empty() || matches!(exit, Exit::Code(_) | Exit::Signal(_)) {
        attended.process.release();
    }
    let elapsed = began.elapsed();
    Ok(Attendance::Ended(ExecOutcome { exit, elapsed, survivors, output_still_open, denials }))
}

struct Attended<'a> {
    process: Box<dyn Process>,
    sink: &'a mut dyn OutputSink,
    exit: Option<Exit>,
    /// Whether standard output and standard error are still open.
    open: [bool; 2],
    is_over: bool,
}

impl Attended<'_> {
    async fn wait_for_end(
        &mut self,
        deadline: Option<Instant>,
        stop: &CancellationToken,
        leave: &CancellationToken,
    ) -> Result<Option<Exit>, ExecError> {
        loop {
            let (stopped, late) = (pin!(stop.cancelled()), pin!(sleep_until_deadline(deadline)));
            let left = pin!(leave.cancelled());
            match select(select(select(stopped, late), left), pin!(self.ready_step())).await {
                Either::Left((Either::Left((Either::Left(_), _)), _)) => return Ok(Some(Exit::Stopped)),
                Either::Left((Either::Left((Either::Right(_), _)), _)) => return Ok(Some(Exit::TimedOut)),
                Either::Left((Either::Right(_), _)) => return Ok(None),
                Either::Right((done, _)) => done?,
            }
            match self.exit {
                Some(exit) => return Ok(Some(exit)),
                // The streams are closed without an exit status.
                None if self.is_over => return Ok(Some(Exit::Code(-1))),
                None => {}
            }
        }
    }

    /// Waits for room in the sink, then performs one [`Attended::step`].
    async fn ready_step(&mut self) -> Result<(), ExecError> {
        self.sink.ready().await;
        self.handle_event().await
    }

    /// Handles one event: a piece of output, the end of a stream, or the exit.
    async fn handle_event(&mut self) -> Result<(), ExecError> {
        if self.is_over {
            return std::future::pending().await;
        }
        match self.process.next().await? {
            Some(ProcessEvent::Output(stream, bytes)) => self.sink.write(stream, &bytes),
            Some(ProcessEvent::Closed(stream)) => self.mark_closed(stream),
            Some(ProcessEvent::Exited(exit)) => self.exit = Some(exit),
            None => {
                self.is_over = true;
                self.open = [false; 2];
            }
        }
        Ok(())
    }

    fn mark_closed(&mut self, stream: OutputStream) {
        let [stdout, stderr] = &mut self.open;
        match stream {
            OutputStream::Stdout => *stdout = false,
            OutputStream::Stderr => *stderr = false,
        }
    }

    fn has_open_output(&self) -> bool {
        self.open.contains(&true)
    }

    /// Reads the remaining output from the pipes after the exit.
    async fn drain_pipes(&mut self, stop: &CancellationToken) -> Result<(), ExecError> {
        let end = Instant::now() + DRAIN;
        while self.has_open_output() && !stop.is_cancelled() {
            let patience = OUTPUT_IDLE.min(end.saturating_duration_since(Instant::now()));
            match timeout(patience, self.handle_event()).await {
                Ok(done) => done?,
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Reads output until all processes of the command have ended. Returns the ids of processes left after
    /// `patience`.
    async fn wait_until_gone(&mut self, patience: Duration) -> Result<Vec<u32>, ExecError> {
        let end = Instant::now() + patience;
        let mut pause = Duration::from_millis(2);
        loop {
            self.read_output_for(pause.min(end.saturating_duration_since(Instant::now()))).await?;
            let left = self.process.members().await?;
            if left.is_empty() {
                // The last output may still be in the pipes.
                self.read_output_for(Duration::from_millis(20)).await?;
                return Ok(left);
            }
            if Instant::now() >= end {
                return Ok(left);
            }
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }

    /// Reads output for up to `time`, or until the command is over and its streams are closed.
    async fn read_output_for(&mut self, time: Duration) -> Result<(), ExecError> {
        let end = Instant::now() + time;
        while self.has_open_output() || self.exit.is_none() {
            let done = {
                match select(pin!(sleep_until_deadline(Some(end))), pin!(self.handle_event())).await {
                    Either::Left(_) => return Ok(()),
                    Either::Right((done, _)) => done,
                }
            };
            done?;
        }
        Ok(())
    }
}

async fn sleep_until_deadline(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}
