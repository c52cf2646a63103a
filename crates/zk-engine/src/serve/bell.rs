use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram as StdUnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::net::UnixDatagram;
use tokio::time::Instant;
use zk_core::service::EngineName;

/// Polling interval of the engine's file, in which a ring ends the wait early.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Shortest time between two polls because of rings: further rings until then count as the same.
const RING_DEBOUNCE: Duration = Duration::from_millis(50);

/// Maximum number of queued rings that are discarded after the first.
const MAX_DISCARDED_RINGS: usize = 64;

/// File extension of the workers' sockets.
const SOCKET_EXTENSION: &str = "sock";

/// Wake-up socket of a worker, which other processes ring when the engine's file has work. Without a socket,
/// as on a path that is too long for one, the worker polls the file once a second.
pub(crate) struct Bell {
    socket: Option<UnixDatagram>,
    path: PathBuf,
    last_ring: Mutex<Option<Instant>>,
}

impl Bell {
    /// Creates the wake-up socket of a worker in `dir`. The caller holds the lock on the worker's name.
    pub(crate) fn open(dir: &Path, worker: &EngineName) -> Self {
        let path = dir.join(format!("{worker}.{SOCKET_EXTENSION}"));
        let _ = std::fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).ok();
        if socket.is_some() {
            // An error has no effect, because the directory is private too.
            let _ = std::fs::set_permissions(&path, Permissions::from_mode(0o600));
        }
        Self { socket, path, last_ring: Mutex::default() }
    }

    /// Waits until another process rings, or until the next poll of the file is due.
    pub(crate) async fn wait(&self) {
        let ring = async {
            match &self.socket {
                Some(socket) => {
                    if socket.recv(&mut [0; 8]).await.is_err() {
                        std::future::pending::<()>().await;
                    }
                    // The worker polls the file after this ring, so that further ones add nothing. Endless rings
                    // must not keep the worker here.
                    let last = *self.last_ring.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some(last) = last {
                        tokio::time::sleep_until(last + RING_DEBOUNCE).await;
                    }
                    *self.last_ring.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
                    for _ in 0..MAX_DISCARDED_RINGS {
                        if socket.try_recv(&mut [0; 8]).is_err() {
                            break;
                        }
                    }
                }
                None => std::future::pending().await,
            }
        };
        let _ = tokio::time::timeout(POLL_INTERVAL, ring).await;
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Rings the socket of every worker in `dir`, without waiting. A worker that misses the ring polls the file.
pub(crate) fn ring(dir: &Path) {
    let (Ok(found), Ok(socket)) = (std::fs::read_dir(dir), StdUnixDatagram::unbound()) else { return };
    if socket.set_nonblocking(true).is_err() {
        return;
    }
    for entry in found.flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|suffix| suffix == SOCKET_EXTENSION) {
            let _ = socket.send_to(&[1], &path);
        }
    }
}
