use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram as StdUnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use tokio::net::UnixDatagram;
use tokio::sync::mpsc::channel;
use tokio::task::AbortHandle;
use zk_core::model::SessionId;
use zk_core::service::{Relay, RelayListener, RelaySide, RelaySignal, StoreError, make_private_dir};

use crate::find::is_valid_id;

/// File extension of the listeners' sockets.
const SOCKET_EXTENSION: &str = "sock";

/// Live signals between the processes of one user on one machine, by a private folder of sockets: one for each listener.
#[derive(Clone, Debug)]
pub struct SocketRelay {
    dir: PathBuf,
}

impl SocketRelay {
    /// Creates a relay over the sockets in `dir`, which need not exist yet.
    #[must_use]
    pub fn new(dir: PathBuf) -> Self {
        Self { dir }
    }
}

/// Socket file of a listener and the task that reads it, both ended on drop.
struct Socket {
    path: PathBuf,
    reading: AbortHandle,
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.reading.abort();
        let _ = fs::remove_file(&self.path);
    }
}

/// Beginning of the names of the sockets for one side of a session. An id has no `.`.
fn name_start(session: &SessionId, side: RelaySide) -> String {
    let side = match side {
        RelaySide::Run => "run",
        RelaySide::Watchers => "watch",
    };
    format!("{session}.{side}.")
}

#[async_trait]
impl Relay for SocketRelay {
    async fn send(&self, session: &SessionId, signal: &RelaySignal) -> Result<(), StoreError> {
        let (json, start) = (signal.to_json()?, name_start(session, signal.side()));
        let dir = self.dir.clone();
        let sent = tokio::task::spawn_blocking(move || send_to_all(&dir, &start, json.as_bytes()));
        match sent.await {
            Ok(Err(source)) => {
                Err(StoreError::Io { doing: "send a live signal to", path: self.dir.clone(), source })
            }
            Ok(Ok(())) | Err(_) => Ok(()),
        }
    }

    async fn listen(&self, session: &SessionId, side: RelaySide) -> Result<RelayListener, StoreError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        if !is_valid_id(session) {
            return Err(StoreError::NotFound { id: session.to_string(), hint: String::new() });
        }
        let failed = |source| StoreError::Io { doing: "listen in", path: self.dir.clone(), source };
        make_private_dir(&self.dir).map_err(failed)?;
        let (pid, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = self.dir.join(format!("{}{pid}-{count}.{SOCKET_EXTENSION}", name_start(session, side)));
        // A process with this id may have died earlier.
        let _ = fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).map_err(failed)?;
        // An error has no effect, because the folder is private too.
        let _ = fs::set_permissions(&path, Permissions::from_mode(0o600));
        let (sender, signals) = channel(RelayListener::MAX_WAITING);
        let reading = tokio::spawn(async move {
            let mut buffer = vec![0; RelaySignal::MAX_BYTES];
            while let Ok(read) = socket.recv(&mut buffer).await {
                // A signal of another version is ignored. A listener that does not keep up loses the signal.
                if let Some(signal) = buffer.get(..read).and_then(RelaySignal::from_json) {
                    let _ = sender.try_send(signal);
                }
            }
        });
        Ok(RelayListener::new(signals, Socket { path, reading: reading.abort_handle() }))
    }
}

/// Sends a datagram to every socket whose name begins with `start`.
fn send_to_all(dir: &Path, start: &str, bytes: &[u8]) -> io::Result<()> {
    let found = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    let socket = StdUnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    for entry in found.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(start) {
            continue;
        }
        match socket.send_to(bytes, entry.path()) {
            // The process of this socket died.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let _ = fs::remove_file(entry.path());
            }
            // A listener that does not keep up loses the signal.
            Ok(_) | Err(_) => {}
        }
    }
    Ok(())
}
