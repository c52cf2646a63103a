mod completion;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

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

/// Execution context of commands that a person lets out of the confinement of all others:
/// `cx.service::<OutsideExec>()`. Absent if commands are not confined.
#[derive(Clone)]
pub struct OutsideExec(pub Arc<dyn Exec>);

impl std::fmt::Debug for OutsideExec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutsideExec").finish_non_exhaustive()
    }
}

/// Execution context of calls that need no permission because they only read: `cx.service::<ReadExec>()`. If
/// that call is confined like all commands, it uses the same context, with a git that starts fewer helpers.
/// Absent if a person chose no confinement.
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

    /// Writes all of `bytes` to its standard input, or types them at its terminal.
    ///
    /// # Errors
    /// [`ExecError::Input`] when it has none, or reads no more of it.
    async fn write(&mut self, bytes: &[u8]) -> Result<(), ExecError>;

    /// Ends its standard input. A terminal is told the end of a file.
    ///
    /// # Errors
    /// [`ExecError::Input`].
    async fn close_input(&mut self) -> Result<(), ExecError>;

    /// Tells its terminal another size.
    ///
    /// # Errors
    /// [`ExecError::Input`] when it has no terminal.
    async fn resize(&mut self, size: TerminalSize) -> Result<(), ExecError>;

    /// Signals everything it started that still runs.
    ///
    /// # Errors
    /// [`ExecError::Watch`].
    async fn kill(&mut self, signal: KillSignal) -> Result<(), ExecError>;

    /// The processes it started that still run, itself included.
    ///
    /// # Errors
    /// [`ExecError::Watch`].
    async fn members(&mut self) -> Result<Vec<u32>, ExecError>;

    /// Returns the acts that its context has probably denied it, once it has failed. A context that denies
    /// nothing knows of none.
    fn denials(&self) -> Vec<Denial> {
        Vec::new()
    }

    /// Lets what it left in the background go on; what that prints is read into nothing.
    fn release(self: Box<Self>);

    /// Returns its end, if that is there or comes within `limit`, with what it wrote to standard error until
    /// then: its last words may come behind its end. What it wrote to standard output is read into nothing.
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

    /// Waits for its end, reading its output into nothing.
    ///
    /// # Errors
    /// [`ExecError::Watch`].
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

/// Output of a process, the end of an output, or the end of the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessEvent {
    /// The process printed something; a piece may end inside a UTF-8 sequence. Everything a terminal shows is
    /// standard output.
    Output(OutputStream, Vec<u8>),
    /// An output is at its end.
    Closed(OutputStream),
    /// The process ended. What it printed last may come after that.
    Exited(Exit),
}

/// Signal to everything a process started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KillSignal {
    /// The request to end; also wakes what is suspended.
    Terminate,
    /// The kill that nothing survives.
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
    /// Variables granted to this command beside the allow-listed ones.
    pub env: BTreeMap<OsString, OsString>,
    /// Variables of the host that it sees beside those.
    pub environment: EnvPolicy,
    /// Input of the command.
    pub input: Input,
    /// A terminal of this size for its input and both outputs, in the place of pipes.
    pub terminal: Option<TerminalSize>,
    /// Time limit of a [run](Exec::run); none if nothing.
    pub timeout: Option<Duration>,
    /// Connections that somebody let this one command make, where its context makes none by itself. A context that does not
    /// hold connections back, or has no way to let some through, ignores them.
    #[serde(default)]
    pub connections: Option<Connections>,
}

/// Connections of one command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// Hosts as `name`, which is its ports 80 and 443, or `name:port`. Only what is named here leads to this machine or to
    /// a private network.
    pub hosts: Vec<String>,
    /// Whether every host with a public address can be reached as well: nobody could tell which ones the command needs.
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

/// Variables of its host that a command sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnvPolicy {
    /// The allow-listed ones.
    #[default]
    Cleared,
    /// All of them: for the person's own shell only. A context may have none to give.
    Inherit,
}

/// Input of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// Nothing.
    #[default]
    Closed,
    /// Bytes that are [written](Process::write) to it.
    Piped,
}

/// The size of a terminal in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    /// Rows.
    pub rows: u16,
    /// Columns.
    pub columns: u16,
}

impl ExecRequest {
    /// A program without arguments in `cwd`.
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

    /// `bash -c command` in `cwd`.
    pub fn shell(command: &str, cwd: impl Into<PathBuf>) -> Self {
        Self { args: vec!["-c".into(), command.into()], ..Self::new("bash", cwd) }
    }
}

/// Takes the output of a command as it comes.
#[async_trait]
pub trait OutputSink: Send {
    /// A piece of output; it may end inside a UTF-8 sequence.
    fn write(&mut self, stream: OutputStream, bytes: &[u8]);

    /// Waits until more may come. A command whose output is not read waits in its turn, and can be stopped meanwhile. What
    /// it printed before its end comes without that.
    async fn ready(&mut self) {}
}

impl<F: FnMut(OutputStream, &[u8]) + Send> OutputSink for F {
    fn write(&mut self, stream: OutputStream, bytes: &[u8]) {
        self(stream, bytes);
    }
}

/// Stream of a command's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Outcome of a command.
#[derive(Clone, Debug)]
pub struct ExecOutcome {
    /// Reason for which it ended.
    pub exit: Exit,
    /// Time that it took.
    pub elapsed: Duration,
    /// Processes it started that are still there: left in the background by a command that ended by itself,
    /// or not to be ended by one that was killed, so "stopped" is never claimed wrongly.
    pub survivors: Vec<u32>,
    /// Whether something still held its output open when the result was returned.
    pub output_still_open: bool,
    /// Acts that its context has probably denied it.
    pub denials: Vec<Denial>,
}

/// Something that a command was probably denied by the context it runs in.
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
    /// Act that the command tried.
    pub act: DeniedAct,
    /// A path, a host, or an amount.
    pub target: String,
    /// Reason for the denial.
    pub reason: String,
}

/// An act that a context can deny.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeniedAct {
    /// To read a file.
    Read,
    /// To write, create, rename or remove a file.
    Write,
    /// To connect to a host.
    Connect,
    /// To exceed a limit of one command: memory, processes or output. It was ended for that, or refused more.
    Exceed,
    /// To leave behind a file from which programs are started outside: it has another name now.
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
    /// With this code.
    Code(i32),
    /// By this signal, not sent by zk.
    Signal(i32),
    /// The command took too long and was killed.
    TimedOut,
    /// The run was stopped and it was killed.
    Stopped,
}

/// Reason for which a command could not be run.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The command could not be started.
    #[error("cannot run `{program}` in {cwd}: {source}")]
    Spawn {
        /// The program.
        program: String,
        /// The directory.
        cwd: PathBuf,
        /// Cause of the failure.
        source: std::io::Error,
    },
    /// The command reads nothing, or no more.
    #[error("cannot write to `{program}`: {source}")]
    Input {
        /// The program.
        program: String,
        /// Cause of the failure.
        source: std::io::Error,
    },
    /// The command could not be watched.
    #[error("lost track of `{program}`: {source}")]
    Watch {
        /// The program.
        program: String,
        /// Cause of the failure.
        source: std::io::Error,
    },
}
