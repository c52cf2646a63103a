use std::fs::{DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::super::client::{self, Door};
use super::super::server::RpcServer;

/// Maximum number of clients at a socket.
const MAX_CLIENTS: usize = 64;

/// Socket at which programs of this user connect.
#[derive(Debug)]
pub struct RpcSocket {
    listener: UnixListener,
    path: PathBuf,
    owner: u32,
}

impl RpcSocket {
    /// Listens at `path`. Its directory must be accessible to this user only; a missing directory is created
    /// so.
    ///
    /// # Errors
    /// When others can enter the directory, another program listens there, or the socket cannot be made.
    pub async fn bind(path: &Path) -> io::Result<Self> {
        let owner = own_uid()?;
        let absolute = std::path::absolute(path)?;
        let dir = absolute.parent().ok_or_else(|| refused_error("it is no path of a file"))?;
        match DirBuilder::new().mode(0o700).create(dir) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let about = dir.metadata()?;
        if about.uid() != owner || about.mode() & 0o077 != 0 {
            let why =
                format!("{} is not yours alone: use a directory of your own with `chmod 700`", dir.display());
            return Err(refused_error(&why));
        }
        remove_stale(&absolute).await?;
        let listener = UnixListener::bind(&absolute)?;
        std::fs::set_permissions(&absolute, Permissions::from_mode(0o600))?;
        Ok(Self { listener, path: absolute, owner })
    }

    /// The path of the socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RpcSocket {
    fn drop(&mut self) {
        // The socket may be gone already.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl RpcServer {
    /// Serves programs of this user at a socket until an error of the socket. The role of an approver needs
    /// the token.
    pub async fn serve_socket(self: &Arc<Self>, socket: &RpcSocket) -> io::Result<()> {
        let room = Arc::new(Semaphore::new(MAX_CLIENTS));
        let mut clients = JoinSet::new();
        loop {
            let Ok(permit) = room.clone().acquire_owned().await else { return Ok(()) };
            let (stream, _) = socket.listener.accept().await?;
            while clients.try_join_next().is_some() {}
            if !belongs_to(&stream, socket.owner) {
                continue;
            }
            let server = self.clone();
            clients.spawn(async move {
                let (from, to) = stream.into_split();
                client::serve(&server, from, to, Door::Peer).await;
                drop(permit);
            });
        }
    }
}

/// Whether the program at the other end belongs to user `owner`; false if its user is unknown.
fn belongs_to(stream: &UnixStream, owner: u32) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == owner)
}

/// Returns the user id of this process, read from a socket pair.
fn own_uid() -> io::Result<u32> {
    let (one, _other) = UnixStream::pair()?;
    Ok(one.peer_cred()?.uid())
}

/// Removes a socket that a killed program left behind.
async fn remove_stale(path: &Path) -> io::Result<()> {
    let about = match path.symlink_metadata() {
        Ok(about) => about,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !about.file_type().is_socket() {
        return Err(refused_error("something else than a socket is there"));
    }
    if UnixStream::connect(path).await.is_ok() {
        return Err(refused_error("another program listens there"));
    }
    std::fs::remove_file(path)
}

fn refused_error(why: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_program_of_another_user_is_told_apart() {
        let (one, _other) = UnixStream::pair().unwrap();
        let own = own_uid().unwrap();
        assert!(belongs_to(&one, own));
        assert!(!belongs_to(&one, own + 1));
    }

    #[tokio::test]
    async fn a_socket_is_for_its_owner_alone_and_never_in_a_place_of_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("own/zk.sock");
        let socket = RpcSocket::bind(&path).await.unwrap();
        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert!(RpcSocket::bind(&path).await.unwrap_err().to_string().contains("another program listens"));
        drop(socket);
        assert!(!path.exists());

        let open = dir.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, Permissions::from_mode(0o755)).unwrap();
        let refused = RpcSocket::bind(&open.join("zk.sock")).await.unwrap_err().to_string();
        assert!(refused.contains("chmod 700"), "{refused}");

        let file = dir.path().join("own/file");
        std::fs::write(&file, "a").unwrap();
        assert!(RpcSocket::bind(&file).await.is_err() && file.exists());
    }
}
