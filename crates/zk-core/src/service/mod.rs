//! The object-safe traits behind which the crates of zk meet.
//!
//! Tools, providers and commands are registry items ([`Scope::provide`](crate::kernel::Scope::provide));
//! the rest are services ([`Scope::serve`](crate::kernel::Scope::serve)), one of each.

mod clock;
mod command;
mod exec;
mod host_files;
mod paths;
mod provider;
mod store;
mod tool;
mod ui;

pub use clock::{Clock, SystemClock};
pub use command::{Command, CommandOutcome};
pub use exec::{Exec, ExecError, ExecOutcome, ExecRequest, Exit, OutputSink, OutputStream};
pub use host_files::{FileOwner, HostFile, HostFileError, HostFiles, HostRead, Overflow};
pub use paths::{FileKind, FileStat, PathError, Paths, Resolved, WriteReceipt};
pub use provider::{EventStream, OutputFormat, Provider, Request, RetryNotice, StreamEvent, ToolChoice};
pub use store::{
    Entry, EntryKind, Lock, NewSession, OpenSession, RunStatus, SessionFilter, SessionInfo, SessionStore,
    StoreError,
};
pub use tool::{Progress, Tool, ToolCx};
pub use ui::{Answer as UiAnswer, NoUi, Question, Ui};
