use std::io::{self, Read as _};
use std::net::Shutdown;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;
use zk_core::service::{Files, PathError, WalkEntry};

use super::{Answer, Ask, VERSION, Walked, Welcome, frame, order};
use crate::BoundedExec;

/// Maximum number of walk entries in one frame.
const FRAME_ENTRIES: usize = 256;
/// Longest delay of an entry while a frame is filled.
const MAX_ENTRY_DELAY: Duration = Duration::from_millis(20);

/// Server of commands and files for programs of the same user, at a Unix socket.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use zk_exec::{Environment, ExecServer, ProcessExec, WorkspaceFiles};
///
/// let exec = ProcessExec::new(Environment::filtered(std::env::vars_os()));
/// let server = ExecServer::bind("/run/user/1000/zk.sock")?;
/// server.serve(Arc::new(exec), Arc::new(WorkspaceFiles::new(["."])?)).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ExecServer {
    listener: UnixListener,
    socket: PathBuf,
}

impl ExecServer {
    /// Listens at a socket that only this user can connect to. The socket of a dead server is replaced.
    ///
    /// # Errors
    /// The system's error; [`io::ErrorKind::AddrInUse`] when another server answers there, or the path is no
    /// socket.
    pub fn bind(socket: impl Into<PathBuf>) -> io::Result<Self> {
        let socket = socket.into();
        remove_stale(&socket)?;
        // Until the mode is set, other users may connect; each peer's user is checked.
        let listener = UnixListener::bind(&socket)?;
        std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o600))?;
        Ok(Self { listener, socket })
    }

    /// Serves requests with `exec` and `files`, until the future is dropped.
    ///
    /// # Errors
    /// The system's error when the socket accepts no more connections.
    pub async fn serve(&self, exec: Arc<dyn BoundedExec>, files: Arc<dyn Files>) -> io::Result<()> {
        loop {
            let (stream, _) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                // Too many connections: accepting resumes after some of them end.
                Err(error) if is_temporary(&error) => {
                    tokio::time::sleep(MAX_ENTRY_DELAY).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let is_own =
                stream.peer_cred().is_ok_and(|peer| peer.uid() == rustix::process::geteuid().as_raw());
            if is_own {
                // A failed connection has no peer left to report to.
                tokio::spawn(answer(stream, exec.clone(), files.clone()));
            }
        }
    }
}

impl Drop for ExecServer {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
    }
}

fn is_temporary(error: &io::Error) -> bool {
    let errno = error.raw_os_error();
    error.kind() == io::ErrorKind::ConnectionAborted
        || [libc::EMFILE, libc::ENFILE].map(Some).contains(&errno)
}

/// Removes the socket of a server that has ended.
fn remove_stale(socket: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    let in_use = |what: &str| Err(io::Error::new(io::ErrorKind::AddrInUse, what.to_owned()));
    match std::fs::symlink_metadata(socket) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if !found.file_type().is_socket() => in_use("there is a file of another kind"),
        Ok(_) if frame::connect(socket).is_ok() => in_use("another server answers there"),
        Ok(_) => std::fs::remove_file(socket),
    }
}

/// Serves one connection. Boxed, so that this crate compiles the future and not each crate that runs a
/// server.
fn answer(
    mut stream: UnixStream,
    exec: Arc<dyn BoundedExec>,
    files: Arc<dyn Files>,
) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send>> {
    Box::pin(async move {
        let (ask, bytes) = frame::receive_from::<Ask>(&mut stream).await?;
        match ask {
            Ask::Spawn { request, limits } => order::run(&*exec, request, limits, stream).await,
            ask => {
                let stream = stream.into_std()?;
                stream.set_nonblocking(false)?;
                let work = move || answer_file_request(&*files, ask, &bytes, stream);
                tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
            }
        }
    })
}

/// Answers a request about files. Blocks.
fn answer_file_request(
    files: &dyn Files,
    ask: Ask,
    bytes: &[u8],
    mut stream: BlockingStream,
) -> io::Result<()> {
    fn send_answer<T: Serialize>(stream: &mut BlockingStream, answer: &Answer<T>) -> io::Result<()> {
        frame::send(stream, answer, &[])
    }
    match ask {
        Ask::Hello { .. } => {
            frame::send(&mut stream, &Welcome { version: VERSION, roots: files.roots() }, &[])
        }
        Ask::Resolve { cwd, path } => send_answer(&mut stream, &files.resolve(&cwd, &path)),
        Ask::Stat { at } => send_answer(&mut stream, &files.stat(&at)),
        Ask::List { at } => send_answer(&mut stream, &files.list(&at)),
        Ask::Write { at } => send_answer(&mut stream, &files.write(&at, bytes)),
        Ask::Search { from, query } => {
            let stop = CancellationToken::new();
            let gone = stop.clone();
            let watching = call_when_closed(&stream, move || gone.cancel())?;
            let found = files.search(&from, &query, &stop);
            let said = send_answer(&mut stream, &found);
            drop(stream.shutdown(Shutdown::Both));
            let _ = watching.join();
            said
        }
        Ask::Walk { from, options } => {
            let mut batch = Batch { entries: Vec::new(), since: Instant::now(), stream: &mut stream };
            let report = files.walk(&from, &options, &mut |entry| batch.push(entry));
            batch.send_batch()?;
            frame::send(&mut stream, &Walked::Over(report), &[])
        }
        Ask::Watch { at } => {
            let sender = Arc::new(Mutex::new(stream.try_clone()?));
            let told = sender.clone();
            let begun = files.watch(
                &at,
                Arc::new(move |at| {
                    let mut to = told.lock().unwrap_or_else(PoisonError::into_inner);
                    let _ = frame::send(&mut *to, at, &[]);
                }),
            );
            let (answer, watch) = match begun {
                Ok(watch) => (Ok(()), Some(watch)),
                Err(error) => (Err(error), None),
            };
            send_answer(&mut sender.lock().unwrap_or_else(PoisonError::into_inner), &answer)?;
            if watch.is_some() {
                // The client sends no more bytes: this read returns when it closes the connection.
                let _ = stream.read(&mut [0]);
            }
            Ok(())
        }
        Ask::Open { at, range } => {
            let mut bytes = Vec::new();
            let read = files.open(&at, Some(range)).and_then(|mut file| {
                let failed = |source| PathError::Io { doing: "read".into(), path: at.shown.clone(), source };
                file.read_to_end(&mut bytes).map(|_| ()).map_err(failed)
            });
            frame::send(&mut stream, &read, &bytes)
        }
        Ask::Spawn { .. } => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Calls `gone` once either side has closed the connection.
fn call_when_closed(
    stream: &BlockingStream,
    gone: impl FnOnce() + Send + 'static,
) -> io::Result<std::thread::JoinHandle<()>> {
    let mut stream = stream.try_clone()?;
    std::thread::Builder::new().spawn(move || {
        let _ = stream.read(&mut [0]);
        gone();
    })
}

/// Entries of a walk that wait to be sent.
struct Batch<'a> {
    entries: Vec<WalkEntry>,
    since: Instant,
    stream: &'a mut BlockingStream,
}

impl Batch<'_> {
    fn push(&mut self, entry: WalkEntry) -> ControlFlow<()> {
        if self.entries.is_empty() {
            self.since = Instant::now();
        }
        self.entries.push(entry);
        let is_due = self.entries.len() >= FRAME_ENTRIES || self.since.elapsed() >= MAX_ENTRY_DELAY;
        match if is_due { self.send_batch() } else { Ok(()) } {
            Ok(()) => ControlFlow::Continue(()),
            // The client has closed the connection.
            Err(_) => ControlFlow::Break(()),
        }
    }

    fn send_batch(&mut self) -> io::Result<()> {
        match std::mem::take(&mut self.entries) {
            entries if entries.is_empty() => Ok(()),
            entries => frame::send(self.stream, &Walked::Entries(entries), &[]),
        }
    }
}
