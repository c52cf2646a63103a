//! Running commands and reaching files for zk's tools: the one spawn function and the one file service.
//!
//! | part | purpose |
//! |---|---|
//! | [`ProcessExec`] | the `dyn Exec` of this machine: cleared environment, own process group, no process left behind |
//! | [`PersonTerminal`] | the person's own shell on a terminal of its own, which is no tool's: whole environment, no mark |
//! | [`Supervision`] | the process that ends all commands when the program dies, however it dies |
//! | [`SandboxExec`] | the `dyn Exec` of this machine inside namespaces, Landlock and seccomp |
//! | [`ReadSandbox`] | the sandbox of read-only calls that run without approval |
//! | [`DockerExec`] | the `dyn Exec` of a container, over the engine's HTTP interface |
//! | [`ExecServer`], [`Remote`] | server and client of commands and files over a socket |
//! | [`SshTunnel`] | connection to the exec-server of another host |
//! | [`ContextName`] | name of an execution context, as a person writes it |
//! | [`ExecutionTarget`] | place of commands and files: this machine, a container or another machine |
//! | [`OverlaidFiles`] | remote files, with one directory of this machine among them |
//! | [`Limits`] | memory, processes and output that a command may use |
//! | [`Environment`] | variables that a child process gets |
//! | [`ProgramEnv`] | variables of the program itself, with the secrets apart |
//! | [`git_read_variables`] | variables that keep a read-only git from starting programs of the repository |
//! | [`WorkspaceFiles`] | the `dyn Files` of this machine: resolved, contained, safe against swapped links |
//! | [`LocalStateFiles`] | the `dyn StateFiles` of this machine: zk's own state, private, written atomically, locked with a deadline |
//! | [`state_flaws`] | files of state that others can use, or that nobody can, and their repair |
//! | [`LocalHostFiles`] | the `dyn HostFiles` of this machine: files that zk reads for itself, never blocking, size and owner checked |
//! | [`own_files`], [`LogFile`] | zk's own files that the program opens itself; a log without secrets and of bounded size |
//! | [`LocalPlugin`] | provides these services, and ends every command when it is closed |
//!
//! # Example
//!
//! `cargo run -p zk-harness-exec --example run`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/run.rs")]
#![doc = "```"]
//!
//! # What this crate must never know
//!
//! No tool but by the name `shell`, no model, no permission and no setting. It reads no environment (the host hands it in) and prints
//! nothing. No other crate of zk starts a process or writes to the workspace.

mod context;
#[cfg(feature = "docker")]
mod docker;
mod environment;
mod files;
mod host_files;
mod limits;
mod overlay;
mod plugin;
mod process;
mod reads;
#[cfg(feature = "remote")]
mod remote;
mod sandbox;
#[cfg(feature = "settings")]
pub mod settings;
mod state_files;
mod wire;

#[cfg(all(feature = "docker", feature = "remote"))]
pub use context::ExecutionTarget;
pub use context::{ContextName, ContextNameError, SshTarget, socket_path};
#[cfg(feature = "docker")]
pub use docker::{DockerExec, DockerOptions};
pub use environment::{Environment, ProgramEnv};
pub use files::WorkspaceFiles;
pub use host_files::{LocalHostFiles, LogFile, own_files};
pub use limits::{BoundedExec, Limits};
pub use overlay::OverlaidFiles;
pub use plugin::{LocalExec, LocalPlugin};
#[cfg(feature = "pty")]
pub use process::{PersonCommand, PersonTerminal, copy_terminal_size};
pub use process::{ProcessExec, Supervision, replace_process, run_supervisor};
pub use reads::{ReadSandbox, ReadSandboxNotice, git_read_variables};
#[cfg(feature = "remote")]
pub use remote::{
    ExecServer, Remote, RemoteError, RemoteExec, RemoteFiles, SocketDir, SshError, SshTunnel, open_tunnel,
    serve_tunnel,
};
pub use sandbox::{
    HostRuleError, HostRules, Layer, LayerState, Network, SandboxError, SandboxExec, SandboxPolicy,
    SandboxReport, SelfTest,
};
pub use state_files::{LocalStateFiles, StateFlaw, StateFlawKind, state_flaws};
