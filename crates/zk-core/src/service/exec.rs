use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

/// Where commands run: this machine, a container, a remote sandbox.
///
/// Every implementation keeps these promises: the environment is cleared and allow-listed, the command gets
/// a process group of its own and a closed standard input, and the whole group is gone 2 s after a stop, a
/// time-out or the death of this process.
#[async_trait]
pub trait Exec: Send + Sync {
    /// Runs a command to its end, handing its output to `sink` as it comes.
    ///
    /// # Errors
    /// [`ExecError`] when it could not be started or watched. A command that ran and failed is an outcome.
    async fn run(
        &self,
        request: ExecRequest,
        sink: &mut dyn OutputSink,
        stop: &CancellationToken,
    ) -> Result<ExecOutcome, ExecError>;
}

/// What to run.
#[derive(Clone, Debug)]
pub struct ExecRequest {
    /// The program: a name looked up in `PATH`, or an absolute path.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Where.
    pub cwd: PathBuf,
    /// Variables granted to this command beside the allow-listed ones.
    pub env: BTreeMap<OsString, OsString>,
    /// How long it may take; without limit if nothing.
    pub timeout: Option<Duration>,
}

impl ExecRequest {
    /// `bash -c command` in `cwd`.
    pub fn shell(command: &str, cwd: impl Into<PathBuf>) -> Self {
        Self {
            program: "bash".into(),
            args: vec!["-c".into(), command.into()],
            cwd: cwd.into(),
            env: BTreeMap::new(),
            timeout: None,
        }
    }
}

/// Takes the output of a command as it comes.
pub trait OutputSink: Send {
    /// A piece of output; it may end inside a UTF-8 sequence.
    fn write(&mut self, stream: OutputStream, bytes: &[u8]);
}

impl<F: FnMut(OutputStream, &[u8]) + Send> OutputSink for F {
    fn write(&mut self, stream: OutputStream, bytes: &[u8]) {
        self(stream, bytes);
    }
}

/// Which output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// How a command ended.
#[derive(Clone, Debug)]
pub struct ExecOutcome {
    /// Why it ended.
    pub exit: Exit,
    /// How long it took.
    pub elapsed: Duration,
    /// Processes it started that are still there: left in the background by a command that ended by itself,
    /// or not to be ended by one that was killed, so "stopped" is never claimed wrongly.
    pub survivors: Vec<u32>,
    /// Whether something still held its output open when the result was returned.
    pub output_still_open: bool,
}

/// Why a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// With this code.
    Code(i32),
    /// By this signal, not sent by zk.
    Signal(i32),
    /// It took too long and was killed.
    TimedOut,
    /// The run was stopped and it was killed.
    Stopped,
}

/// Why a command could not be run.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// It could not be started.
    #[error("cannot run `{program}` in {cwd}: {source}")]
    Spawn {
        /// The program.
        program: String,
        /// The directory.
        cwd: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It could not be watched.
    #[error("lost track of `{program}`: {source}")]
    Watch {
        /// The program.
        program: String,
        /// Why.
        source: std::io::Error,
    },
}
