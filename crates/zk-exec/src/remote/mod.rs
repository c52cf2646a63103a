//! Commands and files of another process, behind a Unix socket.
//!
//! Every request has a connection of its own: a frame goes out, and one or more come back; a process has frames both ways
//! for as long as it lives. A frame is JSON with bytes behind it. The end of a connection ends what it was for: the
//! process, the walk, the search or the watch.

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
pub use ssh::{SocketDir, SshTunnel};
pub use tunnel::{open_tunnel, serve_tunnel};

/// The version of what is sent; both sides must have the same.
const VERSION: u32 = 2;

/// Bytes of a command's output that may be on their way before its reader has taken any of it.
const WINDOW: u64 = 1 << 20;

/// A server of commands and files that was reached.
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
    /// Reaches the server at a socket and finds out what it serves. Blocks, for a moment on this machine.
    ///
    /// # Errors
    /// [`RemoteError`] when nobody answers there, or a program that speaks another version.
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

    /// The directories that are served, the main one first.
    #[must_use]
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// The commands behind the socket.
    #[must_use]
    pub fn exec(&self) -> RemoteExec {
        RemoteExec::new(self.socket.clone())
    }

    /// The files behind the socket.
    #[must_use]
    pub fn files(&self) -> RemoteFiles {
        RemoteFiles::new(self.socket.clone(), self.roots.clone())
    }
}

/// Reason why a server of commands and files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// Nobody answers, or not as such a server does.
    #[error("cannot reach the exec-server at {socket}: {source}; is it running, and is this its socket?")]
    Unreachable {
        /// The socket.
        socket: PathBuf,
        /// Cause of the failure.
        source: std::io::Error,
    },
    /// Server of another version.
    #[error(
        "the exec-server at {socket} speaks version {theirs}, this program {ours}; use the same zk on both sides"
    )]
    Version {
        /// The socket.
        socket: PathBuf,
        /// Version of the server.
        theirs: u32,
        /// The version of this program.
        ours: u32,
    },
}

/// The first frame of a connection.
#[derive(Debug, Serialize, Deserialize)]
enum Ask {
    /// Answered with a [`Welcome`], whatever the version.
    Hello {
        version: u32,
    },
    Resolve {
        cwd: PathBuf,
        path: String,
    },
    /// Answered with the bytes behind the frame.
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
    /// Answered with any number of [`Walked`].
    Walk {
        from: Resolved,
        options: WalkOptions,
    },
    Search {
        from: Resolved,
        query: SearchQuery,
    },
    /// Answered when the watch stands, then with the changes, one [`Resolved`] each.
    Watch {
        at: Resolved,
    },
    /// The bytes are behind the frame.
    Write {
        at: Resolved,
    },
    /// The limits come on top of the server's.
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

/// A part of a walk.
#[derive(Debug, Serialize, Deserialize)]
enum Walked {
    Entries(Vec<WalkEntry>),
    /// Nothing more comes.
    Over(Result<WalkReport, PathError>),
}

/// Order to a process that runs. Each has a number, which its answer has too.
#[derive(Debug, Serialize, Deserialize)]
enum Order {
    /// The bytes are behind the frame.
    Write,
    CloseInput,
    Resize(TerminalSize),
    Kill(KillSignal),
    Members,
    /// This many bytes of output were taken. Not answered.
    Taken(u64),
    /// Not answered.
    Release,
}

/// Message about a process that runs.
#[derive(Debug, Serialize, Deserialize)]
enum Told {
    Started,
    /// The process could not be started, for this reason.
    Failed(String),
    /// The bytes of an output are behind the frame.
    Event(ProcessEvent),
    /// Acts that the context of the process has probably denied it.
    Denials(Vec<Denial>),
    /// Nothing more happens.
    Over,
    Members(u64, Vec<u32>),
    /// Whether an order was carried out, and why not.
    Done(u64, Result<(), String>),
}

type Answer<T> = Result<T, PathError>;
