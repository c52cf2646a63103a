mod completion;
mod line_splitter;
mod word;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

pub use completion::{Attendance, attend};
pub use line_splitter::{LineSplitter, LineTooLong};
pub use word::shell_word;

/// Execution context of commands: this machine, a container, a remote sandbox.
///
/// Every implementation guarantees: the environment is cleared and allow-listed unless the request says
/// otherwise; the command gets a process group of its own, and a closed standard input unless it asks for
/// one; all its processes are gone 2 s after a stop, a time-out or the death of this process.
#[async_trait]
pub trait Exec: Send + Sync {
    /// Starts a command. Dropping the returned process ends everything the command started.
    ///
    /// # Errors
    /// [`ExecError`] when it could not be started.
    async fn spawn(&self, request: ExecRequest) -> Result<Box<dyn Process>, ExecError>;

    /// Starts a detached command, which outlives this program: both outputs are appended to the file
    /// `output`, and dropping the returned process does not end it. Only [`Process::kill`] does.
    ///
    /// # Errors
    /// [`ExecError`], also if this execution context ends all of its commands with itself.
    async fn spawn_detached(
        &self,
        request: ExecRequest,
        output: &Path,
    ) -> Result<Box<dyn Process>, ExecError> {
        let _ = output;
        let program = request.program.to_string_lossy().into_owned();
        let why = "commands here end with the program; run it in the background without detaching it";
        let source = std::io::Error::new(std::io::ErrorKind::Unsupported, why);
        Err(ExecError::Spawn { program, cwd: request.cwd, source })
    }

    /// Runs a command to its end and passes its output to `sink` as it arrives.
    ///
    /// # Errors
    /// [`ExecError`] when it could not be started or watched. A command that ran and failed is a result, no
    /// error.
    async fn run(
        &self,
        request: ExecRequest,
        sink: &mut dyn OutputSink,
        stop: &CancellationToken,
    ) -> Result<ExecOutcome, ExecError> {
        let began = Instant::now();
        let deadline = request.timeout.and_then(|timeout| began.checked_add(timeout));
        let process = self.spawn(request).await?;
        completion::run_to_completion(process, sink, began, deadline, stop).await
    }
}

/// Execution context for commands that a person allowed to run outside of the sandbox or container:
/// `cx.service::<OutsideExec>()`. Absent if commands are not confined.
#[derive(Clone)]
pub struct OutsideExec(pub Arc<dyn Exec>);

impl std::fmt::Debug for OutsideExec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutsideExec").finish_non_exhaustive()
    }
}

/// Execution context for calls that need no permission because they only read: `cx.service::<ReadExec>()`. If
/// all commands are confined, this is their context, with a git that starts fewer helper programs. Absent if
/// a person chose no confinement.
#[derive(Clone)]
pub struct ReadExec(pub Arc<dyn Exec>);

impl std::fmt::Debug for ReadExec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadExec").finish_non_exhaustive()
    }
}

/// A command that was started. Dropping it ends everything the command started.
///
/// ```
/// # async fn example(exec: &dyn zk_core::service::Exec) -> Result<(), zk_core::service::ExecError> {
/// use zk_core::service::{ExecRequest, Input, ProcessEvent};
///
/// let request = ExecRequest { input: Input::Piped, ..ExecRequest::shell("sort", "/") };
/// let mut process = exec.spawn(request).await?;
/// process.write(b"b\na\n").await?;
/// process.close_input().await?;
/// while let Some(event) = process.next().await? {
///     if let ProcessEvent::Output(_, bytes) = event {
///         println!("{}", String::from_utf8_lossy(&bytes));
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait Process: Send {
    /// Returns the next event; `None` once the command has ended and its outputs are closed. Cancel-safe.
    ///
    /// # Errors
    /// [`ExecError::Watch`] when the process can no longer be observed.
    async fn next(&mut self) -> Result<Option<ProcessEvent>, ExecError>;

    /// Writes all of `bytes` to the command's standard input or terminal.
    ///
    /// # Errors
    /// [`ExecError::Input`] when the command has no input, or closed it.
    async fn write(&mut self, bytes: &[u8]) -> Result<(), ExecError>;

    /// Closes the standard input; a terminal gets an end of file instead.
    ///
    /// # Errors
    /// [`ExecError::Input`] when the command has no open input.
    async fn close_input(&mut self) -> Result<(), ExecError>;

    /// Changes the size of the command's terminal.
    ///
    /// # Errors
    /// [`ExecError::Input`] when the command has no terminal.
    async fn resize(&mut self, size: TerminalSize) -> Result<(), ExecError>;

    /// Signals all living processes that the command started.
    ///
    /// # Errors
    /// [`ExecError::Watch`] when the signal cannot be sent.
    async fn kill(&mut self, signal: KillSignal) -> Result<(), ExecError>;

    /// Returns the ids of all living processes of the command, its own included.
    ///
    /// # Errors
    /// [`ExecError::Watch`] when the processes cannot be listed.
    async fn members(&mut self) -> Result<Vec<u32>, ExecError>;

    /// Returns the accesses that the execution context probably denied to a failed command. Empty for a
    /// context without confinement.
    fn denials(&self) -> Vec<Denial> {
        Vec::new()
    }

    /// Detaches from the background processes of the command: they continue, and their output is discarded.
    fn release(self: Box<Self>);

    /// Returns the exit, if it happens within `limit`, and all standard error until then, including output
    /// that arrives behind the exit. Standard output is discarded.
    async fn exit_within(&mut self, limit: Duration) -> (Option<Exit>, Vec<u8>) {
        let (mut ended, mut said) = (None, Vec::new());
        let listening = async {
            while let Ok(Some(event)) = self.next().await {
                match event {
                    ProcessEvent::Exited(exit) => ended = Some(exit),
                    ProcessEvent::Output(OutputStream::Stderr, bytes) => said.extend_from_slice(&bytes),
                    ProcessEvent::Output(OutputStream::Stdout, _) | ProcessEvent::Closed(_) => {}
                }
            }
        };
        let _ = tokio::time::timeout(limit, listening).await;
        (ended, said)
    }

    /// Waits for the exit and discards the output.
    ///
    /// # Errors
    /// [`ExecError::Watch`] when the process can no longer be observed.
    async fn wait(&mut self) -> Result<Exit, ExecError> {
        while let Some(event) = self.next().await? {
            if let ProcessEvent::Exited(exit) = event {
                return Ok(exit);
            }
        }
        let source = std::io::Error::other("its end was taken note of already");
        Err(ExecError::Watch { program: String::new(), source })
    }
}

/// Event of a process: output, the end of an output stream, or the exit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessEvent {
    /// The process printed these bytes; a piece may end inside a UTF-8 sequence. All output of a terminal is
    /// standard output.
    Output(OutputStream, Vec<u8>),
    /// An output stream was closed.
    Closed(OutputStream),
    /// The process exited. Its last output may arrive after that.
    Exited(Exit),
}

/// Signal to all processes of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KillSignal {
    /// Asks the processes to end; wakes suspended ones too.
    Terminate,
    /// Kills the processes at once.
    Kill,
}

/// Command to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExecRequest {
    /// The program: a name looked up in `PATH`, or an absolute path.
    pub program: OsString,
    /// Arguments of the program.
    pub args: Vec<OsString>,
    /// Working directory.
    pub cwd: PathBuf,
    /// Environment variables of this command besides the allow-listed ones.
    pub env: BTreeMap<OsString, OsString>,
    /// Variables of the host's environment that the command sees.
    pub environment: EnvPolicy,
    /// Standard input of the command.
    pub input: Input,
    /// Size of the terminal that replaces the pipes; `None` for pipes.
    pub terminal: Option<TerminalSize>,
    /// Time limit of a [run](Exec::run); `None` for no limit.
    pub timeout: Option<Duration>,
    /// Network connections that this one command may make in an execution context that denies connections. A
    /// context that does not deny them, or cannot allow some, ignores this.
    #[serde(default)]
    pub connections: Option<Connections>,
}

/// Network connections that one command may make.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Connections {
    /// Hosts as `name`, for its ports 80 and 443, or as `name:port`. Only these may lead to this machine or a
    /// private network.
    pub hosts: Vec<String>,
    /// Whether every public address is allowed too, because the hosts that the command needs are not known in
    /// advance.
    pub any_public: bool,
}

impl std::fmt::Display for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let hosts = self.hosts.join(", ");
        match (self.any_public, self.hosts.is_empty()) {
            (false, _) => f.write_str(&hosts),
            (true, true) => f.write_str("any public host"),
            (true, false) => write!(f, "{hosts} and any public host"),
        }
    }
}

/// Variables of the host's environment that a command sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnvPolicy {
    /// Only the allow-listed variables.
    #[default]
    Cleared,
    /// All variables: for the person's own shell only. An execution context may have none to pass on.
    Inherit,
}

/// Standard input of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// Closed from the beginning.
    #[default]
    Closed,
    /// A pipe, for bytes of [`Process::write`].
    Piped,
}

/// Size of a terminal in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    /// Number of rows.
    pub rows: u16,
    /// Number of columns.
    pub columns: u16,
}

impl ExecRequest {
    /// Creates a request to run a program without arguments in `cwd`.
    pub fn new(program: impl Into<OsString>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            cwd: cwd.into(),
            env: BTreeMap::new(),
            environment: EnvPolicy::Cleared,
            input: Input::Closed,
            terminal: None,
            timeout: None,
            connections: None,
        }
    }

    /// Creates a request to run `bash -c command` in `cwd`.
    pub fn shell(command: &str, cwd: impl Into<PathBuf>) -> Self {
        Self { args: vec!["-c".into(), command.into()], ..Self::new("bash", cwd) }
    }
}

/// Receives the output of a command as it arrives.
#[async_trait]
pub trait OutputSink: Send {
    /// Receives a piece of output, which may end inside a UTF-8 sequence.
    fn write(&mut self, stream: OutputStream, bytes: &[u8]);

    /// Waits until the sink has room for more output. Meanwhile the command blocks when its pipe is full, and
    /// can be stopped. Output of a command that has exited is written without this wait.
    async fn ready(&mut self) {}
}

impl<F: FnMut(OutputStream, &[u8]) + Send> OutputSink for F {
    fn write(&mut self, stream: OutputStream, bytes: &[u8]) {
        self(stream, bytes);
    }
}

/// Output stream of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Result of a command.
#[derive(Clone, Debug)]
pub struct ExecOutcome {
    /// Reason for which it ended.
    pub exit: Exit,
    /// Time that the command ran.
    pub elapsed: Duration,
    /// Ids of processes of the command that are still alive: left in the background by a command that exited,
    /// or not killable after a stop. So a caller never reports a false "stopped".
    pub survivors: Vec<u32>,
    /// Whether a process still held the output open when the result was returned.
    pub output_still_open: bool,
    /// Accesses that the execution context probably denied.
    pub denials: Vec<Denial>,
}

/// An access that the execution context probably denied to a command.
///
/// ```
/// use zk_core::service::{Denial, DeniedAct};
///
/// let denial = Denial { act: DeniedAct::Write, target: "/usr/x".into(), reason: "it may only be read".into() };
/// let told = "possibly denied by the sandbox: write /usr/x (it may only be read)";
/// assert_eq!(denial.to_string(), told);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// Kind of access that the command tried.
    pub act: DeniedAct,
    /// Path, host or amount that the command tried to use.
    pub target: String,
    /// Reason for the denial.
    pub reason: String,
}

/// Kind of access that an execution context can deny.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeniedAct {
    /// Reading a file.
    Read,
    /// Writing, creating, renaming or removing a file.
    Write,
    /// Connecting to a host.
    Connect,
    /// Exceeding a limit of one command: memory, processes or output. The command was ended or refused more.
    Exceed,
    /// Left behind a file that would start programs outside of the sandbox. The file was renamed.
    SetAside,
}

impl std::fmt::Display for Denial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { act, target, reason } = self;
        let act = match act {
            DeniedAct::Read => "read",
            DeniedAct::Write => "write",
            DeniedAct::Connect => "connect to",
            DeniedAct::Exceed => return write!(f, "stopped by a limit: {target} ({reason})"),
            DeniedAct::SetAside => return write!(f, "set aside by the sandbox: {target} ({reason})"),
        };
        write!(f, "possibly denied by the sandbox: {act} {target} ({reason})")
    }
}

/// Reason for which a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// The command exited with this code.
    Code(i32),
    /// The command was ended by this signal, not sent by zk.
    Signal(i32),
    /// The command exceeded its time limit and was killed.
    TimedOut,
    /// The run was stopped, and the command was killed.
    Stopped,
}

/// Reason for which a command could not be run.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The command could not be started.
    #[error("cannot run `{program}` in {cwd}: {source}")]
    Spawn {
        /// Name or path of the program.
        program: String,
        /// Working directory of the command.
        cwd: PathBuf,
        /// Cause of the failure.
        source: std::io::Error,
    },
    /// The command has no input, or closed it.
    #[error("cannot write to `{program}`: {source}")]
    Input {
        /// Name or path of the program.
        program: String,
        /// Cause of the failure.
        source: std::io::Error,
    },
    /// The command could not be observed.
    #[error("lost track of `{program}`: {source}")]
    Watch {
        /// Name or path of the program.
        program: String,
        /// Cause of the failure.
        source: std::io::Error,
    },
}
