//! Exec-server on another host, reached through `ssh`: all connections share the pipes of one `ssh` process.

use std::fs::DirBuilder;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::UnixListener;
use tokio::sync::oneshot;
use zk_core::service::{Exec, ExecRequest, Input, OutputStream, Process, ProcessEvent};

use super::{Remote, RemoteError, open_tunnel};
use crate::context::SshTarget;
use crate::environment::Environment;
use crate::process::{ProcessExec, Supervision};

/// Maximum kept size of the remote program's standard error, in bytes.
const MAX_STDERR_BYTES: usize = 2000;

/// Longest wait for `ssh` to exit after the tunnel broke.
const EXIT_WAIT: Duration = Duration::from_secs(2);

impl SshTarget {
    fn command(&self) -> ExecRequest {
        let mut words = vec!["-T", "-o", "BatchMode=yes", &self.host, "zk"];
        if let Some(dir) = &self.dir {
            words.extend(["--cwd", dir]);
        }
        words.extend(["exec-server", "--stdio"]);
        let mut request = ExecRequest::new("ssh", "/");
        request.args = words.into_iter().map(Into::into).collect();
        request.input = Input::Piped;
        request
    }
}

/// Tunnel to an exec-server that `ssh` starts on another host, open until it is dropped.
#[derive(Debug)]
pub struct SshTunnel {
    dir: SocketDir,
    stderr: Arc<Mutex<String>>,
    /// Stops the tunnel's thread when it is dropped.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Failure to reach the exec-server of another host through `ssh`.
#[derive(Debug, thiserror::Error)]
#[error("cannot reach zk on {host} with ssh: {why}")]
pub struct SshError {
    host: SshTarget,
    why: String,
}

impl SshTunnel {
    /// Connects to the exec-server of a host, through the one tunnel in `shared`, which is opened as [`Self::open`] does if
    /// there is none. Blocks.
    ///
    /// # Errors
    /// [`SshError`], with the standard error of `ssh` if that says more.
    pub fn connect(
        shared: &OnceLock<Self>,
        target: &SshTarget,
        environment: Environment,
        runtime_dir: &Path,
    ) -> Result<Remote, SshError> {
        let fail = |why: String| SshError { host: target.clone(), why };
        if shared.get().is_none() {
            let tunnel =
                Self::open(target, environment, runtime_dir).map_err(|error| fail(error.to_string()))?;
            // If another conversation set a tunnel meanwhile, that one is used.
            let _ = shared.set(tunnel);
        }
        let Some(tunnel) = shared.get() else { return Err(fail("there is no tunnel".into())) };
        Remote::connect(tunnel.socket()).map_err(|error| match (tunnel.stderr_tail(), error) {
            (said, RemoteError::Unreachable { source, .. }) if said.is_empty() => fail(source.to_string()),
            (said, RemoteError::Unreachable { .. }) => fail(said),
            (_, error) => fail(error.to_string()),
        })
    }

    /// Starts `ssh`, with `environment`, and listens at a socket in a new directory of `runtime_dir`, whose
    /// connections lead to the exec-server.
    ///
    /// # Errors
    /// The system's error when the directory cannot be made or `ssh` does not start.
    pub fn open(target: &SshTarget, environment: Environment, runtime_dir: &Path) -> io::Result<Self> {
        let dir = SocketDir::make(runtime_dir)?;
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = mpsc::channel();
        let stderr = Arc::<Mutex<String>>::default();
        let (request, socket, kept) = (target.command(), dir.socket(), stderr.clone());
        let thread = std::thread::Builder::new().name("zk-tunnel".into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let done = runtime.and_then(|runtime| {
                runtime.block_on(async {
                    let listener = UnixListener::bind(&socket)?;
                    let exec = ProcessExec::supervised(environment, Supervision::of_this_program());
                    let process = exec.spawn(request).await.map_err(io::Error::other)?;
                    let _ = ready.send(Ok(()));
                    tokio::select! {
                        done = forward_connections(listener, process, &kept) => done,
                        _ = stopped => Ok(()),
                    }
                })
            });
            // Removed first, so that no client waits for a connection through a dead tunnel.
            let _ = std::fs::remove_file(&socket);
            if let Err(error) = done {
                append_stderr(&kept, error.to_string().as_bytes());
                let _ = ready.send(Err(error));
            }
        })?;
        is_ready.recv().map_err(io::Error::other)??;
        Ok(Self { dir, stderr, stop: Some(stop), thread: Some(thread) })
    }

    /// Local socket that leads to the exec-server.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.dir.socket()
    }

    /// Standard error of `ssh` and the remote program, in one line. After a failure this waits a moment for
    /// the rest.
    #[must_use]
    pub fn stderr_tail(&self) -> String {
        let until = Instant::now() + EXIT_WAIT;
        while self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        let text = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

impl Drop for SshTunnel {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn append_stderr(stderr: &Mutex<String>, bytes: &[u8]) {
    let mut text = stderr.lock().unwrap_or_else(PoisonError::into_inner);
    if text.len() < MAX_STDERR_BYTES {
        text.push_str(&String::from_utf8_lossy(bytes));
    }
}

fn is_silent(stderr: &Mutex<String>) -> bool {
    stderr.lock().unwrap_or_else(PoisonError::into_inner).trim().is_empty()
}

/// Carries connections over a process's pipes until it ends.
async fn forward_connections(
    listener: UnixListener,
    process: Box<dyn Process>,
    stderr: &Mutex<String>,
) -> io::Result<()> {
    let (from, of_process) = tokio::io::duplex(64 << 10);
    let (to, for_process) = tokio::io::duplex(64 << 10);
    tokio::select! {
        done = open_tunnel(listener, from, to) => done,
        done = pump(process, of_process, for_process, stderr) => done,
    }
}

async fn pump(
    mut process: Box<dyn Process>,
    mut printed: DuplexStream,
    mut typed: DuplexStream,
    stderr: &Mutex<String>,
) -> io::Result<()> {
    let mut bytes = vec![0; 64 << 10];
    let mut broken: Option<io::Error> = None;
    loop {
        tokio::select! {
            event = process.next() => match event.map_err(io::Error::other)? {
                Some(ProcessEvent::Output(OutputStream::Stdout, bytes)) => printed.write_all(&bytes).await?,
                Some(ProcessEvent::Output(OutputStream::Stderr, bytes)) => append_stderr(stderr, &bytes),
                // Reads on to the end: error messages may arrive after the exit.
                Some(ProcessEvent::Closed(_) | ProcessEvent::Exited(_)) => {}
                // An error message of the program is better than "broken pipe".
                None => return broken.filter(|_| is_silent(stderr)).map_or(Ok(()), Err),
            },
            read = typed.read(&mut bytes), if broken.is_none() => match read? {
                0 => return Ok(()),
                length => {
                    let piece = bytes.get(..length).unwrap_or_default();
                    broken = process.write(piece).await.map_err(io::Error::other).err();
                }
            },
            // The program stopped reading because it is ending; its error message may arrive before this
            // time-out.
            () = tokio::time::sleep(EXIT_WAIT / 2), if broken.is_some() => return broken.map_or(Ok(()), Err),
        }
    }
}

/// Directory for one socket, closed to other users; the drop removes it.
#[derive(Debug)]
pub struct SocketDir(PathBuf);

impl SocketDir {
    /// Makes a new directory in `runtime_dir`.
    ///
    /// # Errors
    /// The system's error when the directory cannot be made.
    pub fn make(runtime_dir: &Path) -> io::Result<Self> {
        let dir = runtime_dir.join(format!("zk-{:016x}", RandomState::new().build_hasher().finish()));
        DirBuilder::new().mode(0o700).create(&dir)?;
        Ok(Self(dir))
    }

    /// Path for the socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.0.join("zk.sock")
    }

    #[cfg(test)]
    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SocketDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_plain_and_nothing_in_them_reaches_a_shell_or_an_option() {
        let target = "me@build-1.example.org:/srv/a_b".parse::<SshTarget>().unwrap();
        let words: Vec<_> =
            target.command().args.iter().map(|word| word.to_str().unwrap().to_owned()).collect();
        let expected =
            "-T -o BatchMode=yes me@build-1.example.org zk --cwd /srv/a_b exec-server --stdio".split(' ');
        assert_eq!(words, expected.collect::<Vec<_>>());
        for wrong in ["", "-oProxyCommand=x", "a b", "a;b", "a:b", "a:/x y", "a:/$(id)", "a:/x'", "ü"] {
            assert!(wrong.parse::<SshTarget>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_private_directory_is_gone_with_its_owner() {
        let dir = SocketDir::make(&std::env::temp_dir()).unwrap();
        let path = dir.path().to_owned();
        assert!(path.is_dir());
        drop(dir);
        assert!(!path.exists());
    }
}
