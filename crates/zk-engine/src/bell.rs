use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram as StdUnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixDatagram;
use zk_core::service::EngineName;

/// Pause between two looks at the file, when nothing rings.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// Pause after a ring, in which further ones count as the same.
const RING_PAUSE: Duration = Duration::from_millis(50);

/// Rings that are dropped after one.
const MAX_DRAINED: usize = 64;

/// Ending of the names of the sockets.
const SOCKET_SUFFIX: &str = "sock";

/// Socket of a worker, at which other processes tell that there is something to do. Without one, as on a path that is too
/// long for a socket, the worker looks once a second.
pub(crate) struct Bell {
    socket: Option<UnixDatagram>,
    path: PathBuf,
}

impl Bell {
    /// Makes the socket of a worker in `dir`. The caller has the lock of the name.
    pub(crate) fn open(dir: &Path, worker: &EngineName) -> Self {
        let path = dir.join(format!("{worker}.{SOCKET_SUFFIX}"));
        let _ = std::fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).ok();
        if socket.is_some() {
            // The directory is private, too.
            let _ = std::fs::set_permissions(&path, Permissions::from_mode(0o600));
        }
        Self { socket, path }
    }

    /// Waits until another process rings, at most a second.
    pub(crate) async fn wait(&self) {
        let ring = async {
            match &self.socket {
                Some(socket) => {
                    if socket.recv(&mut [0; 8]).await.is_err() {
                        std::future::pending::<()>().await;
                    }
                    // Further rings tell nothing new. A bell that never stops must not keep the worker here.
                    tokio::time::sleep(RING_PAUSE).await;
                    for _ in 0..MAX_DRAINED {
                        if socket.try_recv(&mut [0; 8]).is_err() {
                            break;
                        }
                    }
                }
                None => std::future::pending().await,
            }
        };
        let _ = tokio::time::timeout(LOOK_PAUSE, ring).await;
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Rings at all workers with a socket in `dir`. Never waits: a worker that does not listen looks by itself.
pub(crate) fn ring(dir: &Path) {
    let (Ok(found), Ok(socket)) = (std::fs::read_dir(dir), StdUnixDatagram::unbound()) else { return };
    if socket.set_nonblocking(true).is_err() {
        return;
    }
    for entry in found.flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|suffix| suffix == SOCKET_SUFFIX) {
            let _ = socket.send_to(&[1], &path);
        }
    }
}
