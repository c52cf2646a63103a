use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use zk_core::service::{
    ExecRequest, KillSignal, OutputStream, PathError, ProcessEvent, Resolved, SearchQuery, TerminalSize,
    WalkOptions,
};

#[derive(Serialize, Deserialize)]
pub(crate) enum Question {
    Roots,
    Resolve(PathBuf, String),
    Open(Resolved, Option<Range<u64>>),
    Stat(Resolved),
    List(Resolved),
    Walk(Resolved, WalkOptions),
    Search(Resolved, SearchQuery),
    /// Write a file; its content follows the request.
    Write(Resolved),
    Spawn(ExecRequest),
    /// A request to the running process with this id.
    Order(u64, Order),
}

#[derive(Serialize, Deserialize)]
pub(crate) enum Order {
    /// Write to standard input; the bytes follow.
    Write,
    CloseInput,
    Resize(TerminalSize),
    Kill(KillSignal),
    Members,
    Release,
}

/// News of a command; bytes of an output come behind it.
#[derive(Serialize, Deserialize)]
pub(crate) enum News {
    Printed(OutputStream),
    Other(ProcessEvent),
    Lost(String),
}

pub(crate) type Answer<T> = Result<T, PathError>;

/// A line of JSON that says how many bytes follow, then those.
pub(crate) fn send(to: &mut impl Write, head: &impl Serialize, bytes: &[u8]) -> io::Result<()> {
    let mut text = serde_json::to_vec(&(bytes.len(), head))?;
    text.push(b'\n');
    text.extend_from_slice(bytes);
    to.write_all(&text)
}

/// Nothing at the end of the connection.
pub(crate) fn receive<T: DeserializeOwned>(from: &mut impl io::BufRead) -> io::Result<Option<(T, Vec<u8>)>> {
    let mut line = Vec::new();
    if from.read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    let (length, head): (u64, T) = serde_json::from_slice(&line)?;
    let mut bytes = Vec::new();
    from.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some((head, bytes)))
}
