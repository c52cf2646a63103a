use std::io::{self, Read};
use std::net::Shutdown;
use std::ops::{ControlFlow, Range};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use zk_core::service::{
    FileStat, FileWatch, Files, OnChange, PathError, Resolved, SearchFound, SearchQuery, WalkEntry,
    WalkOptions, WalkReport, WriteReceipt,
};

use super::{Answer, Ask, Walked, frame};

/// Bytes of a file that one request fetches.
const PIECE_BYTES: u64 = 1 << 20;
/// Interval at which a search checks for cancellation.
const CANCEL_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// File service behind a socket.
#[derive(Clone, Debug)]
pub struct RemoteFiles {
    socket: Arc<Path>,
    roots: Vec<PathBuf>,
}

impl RemoteFiles {
    pub(super) fn new(socket: Arc<Path>, roots: Vec<PathBuf>) -> Self {
        Self { socket, roots }
    }

    fn failed(&self, source: &io::Error) -> PathError {
        let why = "the exec-server does not answer, and what it did for this conversation has ended";
        let source = io::Error::new(source.kind(), format!("{source}; {why}"));
        PathError::Io { doing: "reach".into(), path: self.socket.display().to_string(), source }
    }

    fn send_request(&self, ask: &Ask, bytes: &[u8]) -> Answer<UnixStream> {
        let mut stream = frame::connect(&self.socket).map_err(|error| self.failed(&error))?;
        frame::send(&mut stream, ask, bytes).map_err(|error| self.failed(&error))?;
        Ok(stream)
    }

    fn receive<T: DeserializeOwned>(&self, stream: &mut UnixStream) -> Answer<(T, Vec<u8>)> {
        frame::receive(stream).map_err(|error| self.failed(&error))
    }

    fn ask<T: DeserializeOwned>(&self, ask: &Ask, bytes: &[u8]) -> Answer<(T, Vec<u8>)> {
        let mut stream = self.send_request(ask, bytes)?;
        let (answer, bytes) = self.receive::<Answer<T>>(&mut stream)?;
        Ok((answer?, bytes))
    }

    fn get<T: DeserializeOwned>(&self, ask: &Ask) -> Answer<T> {
        self.ask(ask, &[]).map(|(answer, _)| answer)
    }
}

impl Files for RemoteFiles {
    fn roots(&self) -> Vec<PathBuf> {
        self.roots.clone()
    }

    fn resolve(&self, cwd: &Path, path: &str) -> Answer<Resolved> {
        self.get(&Ask::Resolve { cwd: cwd.into(), path: path.into() })
    }

    fn open(&self, at: &Resolved, range: Option<Range<u64>>) -> Answer<Box<dyn Read + Send>> {
        let Range { start, end } = range.unwrap_or(0..u64::MAX);
        let mut reader =
            Reader { files: self.clone(), at: at.clone(), next: start, end, piece: io::Cursor::default() };
        // Reports a file that cannot be opened now, not at the first read.
        reader.fetch()?;
        Ok(Box::new(reader))
    }

    fn stat(&self, at: &Resolved) -> Answer<FileStat> {
        self.get(&Ask::Stat { at: at.clone() })
    }

    fn list(&self, at: &Resolved) -> Answer<Vec<(String, FileStat)>> {
        self.get(&Ask::List { at: at.clone() })
    }

    fn walk(
        &self,
        from: &Resolved,
        options: &WalkOptions,
        visit: &mut dyn FnMut(WalkEntry) -> ControlFlow<()>,
    ) -> Answer<WalkReport> {
        let ask = Ask::Walk { from: from.clone(), options: options.clone() };
        let mut stream = self.send_request(&ask, &[])?;
        loop {
            match self.receive(&mut stream)?.0 {
                // Closing the connection ends the walk on the server.
                Walked::Entries(entries) => {
                    if entries.into_iter().try_for_each(&mut *visit).is_break() {
                        return Ok(WalkReport::default());
                    }
                }
                Walked::Over(report) => return report,
            }
        }
    }

    fn search(&self, from: &Resolved, query: &SearchQuery, stop: &CancellationToken) -> Answer<SearchFound> {
        let mut stream = self.send_request(&Ask::Search { from: from.clone(), query: query.clone() }, &[])?;
        let looked = stream.set_read_timeout(Some(CANCEL_CHECK_INTERVAL));
        looked.map_err(|error| self.failed(&error))?;
        let mut patient = Patient { stream: &mut stream, stop };
        match frame::receive::<Answer<SearchFound>>(&mut patient) {
            Ok((found, _)) => found,
            Err(_) if stop.is_cancelled() => Ok(SearchFound::default()),
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn watch(&self, at: &Resolved, changed: OnChange) -> Answer<Box<dyn FileWatch>> {
        let mut stream = self.send_request(&Ask::Watch { at: at.clone() }, &[])?;
        self.receive::<Answer<()>>(&mut stream)?.0?;
        let watch = Watch(stream.try_clone().map_err(|error| self.failed(&error))?);
        let read = move || {
            while let Ok((at, _)) = frame::receive::<Resolved>(&mut stream) {
                changed(&at);
            }
        };
        std::thread::Builder::new()
            .name("remote-watch".into())
            .spawn(read)
            .map_err(|error| self.failed(&error))?;
        Ok(Box::new(watch))
    }

    fn write(&self, at: &Resolved, bytes: &[u8]) -> Answer<WriteReceipt> {
        self.ask(&Ask::Write { at: at.clone() }, bytes).map(|(receipt, _)| receipt)
    }
}

/// Watch on the server, which ends with its connection.
struct Watch(UnixStream);

impl FileWatch for Watch {}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// Reader that fails once the run is cancelled.
struct Patient<'a> {
    stream: &'a mut UnixStream,
    stop: &'a CancellationToken,
}

impl Read for Patient<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.stream.read(buffer) {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    if self.stop.is_cancelled() {
                        return Err(io::ErrorKind::ConnectionAborted.into());
                    }
                }
                done => return done,
            }
        }
    }
}

/// Reader that fetches a file piece by piece.
struct Reader {
    files: RemoteFiles,
    at: Resolved,
    next: u64,
    end: u64,
    piece: io::Cursor<Vec<u8>>,
}

impl Reader {
    fn fetch(&mut self) -> Answer<()> {
        let range = self.next..self.end.min(self.next.saturating_add(PIECE_BYTES));
        let ((), bytes) = self.files.ask(&Ask::Open { at: self.at.clone(), range }, &[])?;
        self.next += bytes.len() as u64;
        self.piece = io::Cursor::new(bytes);
        Ok(())
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let whole = self.piece.get_ref().len() as u64;
        if self.piece.position() == whole && whole > 0 && self.next < self.end {
            self.fetch().map_err(io::Error::other)?;
        }
        self.piece.read(buffer)
    }
}
