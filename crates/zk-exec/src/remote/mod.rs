//! Commands and files of another process, over a Unix socket.
//!
//! Every request has its own connection: the client sends a frame and receives one or more; a process
//! exchanges frames both ways while it runs. A frame is JSON followed by raw bytes. Closing the connection
//! ends its process, walk, search or watch.

mod exec;
mod files;
mod frame;
mod order;
mod server;
mod ssh;
mod tunnel;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use zk_core::service::{
    Denial, ExecRequest, KillSignal, PathError, ProcessEvent, Resolved, SearchQuery, TerminalSize, WalkEntry,
    WalkOptions, WalkReport,
};

use crate::Limits;
pub use exec::RemoteExec;
pub use files::RemoteFiles;
pub use server::ExecServer;
pub use ssh::{SocketDir, SshError, SshTunnel};
pub use tunnel::{open_tunnel, serve_tunnel};

/// Version of the protocol; both sides must have the same.
const VERSION: u32 = 2;

/// Bytes of output that the server may send ahead of the reader.
const WINDOW: u64 = 1 << 20;

/// Connected server of commands and files.
///
/// ```no_run
/// use zk_exec::{Remote, RemoteError};
///
/// let remote = Remote::connect("/run/user/1000/zk.sock")?;
/// println!("files of {}", remote.roots()[0].display());
/// # Ok::<(), RemoteError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Remote {
    socket: Arc<Path>,
    roots: Vec<PathBuf>,
}

impl Remote {
    /// Connects to the server at a socket and asks for its roots. Blocks, for a moment on this machine.
    ///
    /// # Errors
    /// [`RemoteError`] when no server answers, or the server has another protocol version.
    pub fn connect(socket: impl Into<PathBuf>) -> Result<Self, RemoteError> {
        let socket: Arc<Path> = socket.into().into();
        let failed = |source| RemoteError::Unreachable { socket: socket.to_path_buf(), source };
        let mut stream = frame::connect(&socket).map_err(failed)?;
        frame::send(&mut stream, &Ask::Hello { version: VERSION }, &[]).map_err(failed)?;
        let (Welcome { version, roots }, _) = frame::receive(&mut stream).map_err(failed)?;
        if version != VERSION {
            return Err(RemoteError::Version {
                socket: socket.to_path_buf(),
                theirs: version,
                ours: VERSION,
            });
        }
        Ok(Self { socket, roots })
    }

    /// Root directories that the server serves, the main root first.
    #[must_use]
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// Executor of commands on the server.
    #[must_use]
    pub fn exec(&self) -> RemoteExec {
        RemoteExec::new(self.socket.clone())
    }

    /// File service of the server.
    #[must_use]
    pub fn files(&self) -> RemoteFiles {
        RemoteFiles::new(self.socket.clone(), self.roots.clone())
    }
}

/// Reason why a server of commands and files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// No server answers, or the answer is no valid one.
    #[error("cannot reach the exec-server at {socket}: {source}; is it running, and is this its socket?")]
    Unreachable {
        /// Path of the socket.
        socket: PathBuf,
        /// Cause of the failure.
        source: std::io::Error,
    },
    /// The server has another protocol version.
    #[error(
        "the exec-server at {socket} speaks version {theirs}, this program {ours}; use the same zk on both sides"
    )]
    Version {
        /// Path of the socket.
        socket: PathBuf,
        /// Version of the server.
        theirs: u32,
        /// Version of this program.
        ours: u32,
    },
}

/// First frame of a connection, sent by the client.
#[derive(Debug, Serialize, Deserialize)]
enum Ask {
    /// Answered with a [`Welcome`], also to a client of another version.
    Hello {
        version: u32,
    },
    Resolve {
        cwd: PathBuf,
        path: String,
    },
    /// Answered with the file's bytes behind the frame.
    Open {
        at: Resolved,
        range: Range<u64>,
    },
    Stat {
        at: Resolved,
    },
    List {
        at: Resolved,
    },
    /// Answered with any number of [`Walked`] frames.
    Walk {
        from: Resolved,
        options: WalkOptions,
    },
    Search {
        from: Resolved,
        query: SearchQuery,
    },
    /// Answered once the watch is active, then with one [`Resolved`] for each change.
    Watch {
        at: Resolved,
    },
    /// The file's bytes follow the frame.
    Write {
        at: Resolved,
    },
    /// Limits on top of the server's own.
    Spawn {
        request: ExecRequest,
        limits: Limits,
    },
}

#[derive(Debug, Serialize, Deserialize)]
struct Welcome {
    version: u32,
    roots: Vec<PathBuf>,
}

/// Part of the answer to a walk.
#[derive(Debug, Serialize, Deserialize)]
enum Walked {
    Entries(Vec<WalkEntry>),
    /// End of the walk.
    Over(Result<WalkReport, PathError>),
}

/// Order to a running process. Each has a number, which its answer repeats.
#[derive(Debug, Serialize, Deserialize)]
enum Order {
    /// The input bytes follow the frame.
    Write,
    CloseInput,
    Resize(TerminalSize),
    Kill(KillSignal),
    Members,
    /// Number of output bytes that the client has read. Has no answer.
    Taken(u64),
    /// Releases the process from its connection. Has no answer.
    Release,
}

/// Message of the server about a process.
#[derive(Debug, Serialize, Deserialize)]
enum Told {
    Started,
    /// The process could not be started, for this reason.
    Failed(String),
    /// Event of the process; bytes of output follow the frame.
    Event(ProcessEvent),
    /// Denied acts that its execution context has probably caused.
    Denials(Vec<Denial>),
    /// No more events follow.
    Over,
    Members(u64, Vec<u32>),
    /// Result of the order with this number, with the reason for a failure.
    Done(u64, Result<(), String>),
}

type Answer<T> = Result<T, PathError>;
