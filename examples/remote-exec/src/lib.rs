//! An `Exec` and a `Files` whose work is done by another process, behind a Unix socket.
//!
//! Every request has a connection of its own: a frame goes out, and one comes back; a process has frames both ways
//! for as long as it lives. A frame is JSON with bytes behind it.

mod client;
mod frame;
mod server;

use std::ops::Range;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use zk_core::service::{
    ExecRequest, KillSignal, PathError, ProcessEvent, Resolved, SearchQuery, TerminalSize, WalkOptions,
};

pub use client::{RemoteExec, RemoteFiles};
pub use server::serve;

/// The first frame of a connection.
#[derive(Debug, Serialize, Deserialize)]
enum Ask {
    Roots,
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
    Walk {
        from: Resolved,
        options: WalkOptions,
    },
    Search {
        from: Resolved,
        query: SearchQuery,
    },
    /// The bytes are behind the frame.
    Write {
        at: Resolved,
    },
    Spawn {
        request: ExecRequest,
    },
}

/// What is asked of a process that runs.
#[derive(Debug, Serialize, Deserialize)]
enum Order {
    /// The bytes are behind the frame.
    Write,
    CloseInput,
    Resize(TerminalSize),
    Kill(KillSignal),
    Members,
    Release,
}

/// What is told of it.
#[derive(Debug, Serialize, Deserialize)]
enum Told {
    Started,
    /// It could not be started, for this reason.
    Failed(String),
    Event(ProcessEvent),
    /// Nothing more happens.
    Over,
    Members(Vec<u32>),
    /// Whether an order was carried out, and why not.
    Done(Result<(), String>),
}

type Answer<T> = Result<T, PathError>;
