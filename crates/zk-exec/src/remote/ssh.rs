//! An exec-server on another host, reached through `ssh`: all of its connections go over the pipes of that one program.

use std::fs::DirBuilder;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::UnixListener;
use tokio::sync::oneshot;
use zk_core::service::{Exec, ExecRequest, Input, OutputStream, Process, ProcessEvent};
use zk_exec::{Environment, ProcessExec, Supervision, open_tunnel};

use crate::env::Env;

/// Bytes of complaints of the program on the other side after which no more are kept.
const COMPLAINT: usize = 2000;

/// Longest wait for the end of a tunnel that broke.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A host and, if it is not the home directory, a directory there: `build.example.org:/srv/project`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FarHost {
    host: String,
    dir: Option<String>,
}

impl FarHost {
    /// Reads `HOST` or `HOST:/DIR`. Both reach a shell on the other side, so that only plain letters may be in them.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (host, dir) = text.split_once(':').map_or((text, None), |(host, dir)| (host, Some(dir)));
        let plain = |text: &str, more: &[u8]| {
            text.bytes().all(|byte| byte.is_ascii_alphanumeric() || more.contains(&byte))
        };
        let is_host = host.starts_with(|first: char| first.is_ascii_alphanumeric()) && plain(host, b"._-@");
        let is_dir = dir.is_none_or(|dir| dir.starts_with('/') && plain(dir, b"._-/+=@"));
        if is_host && is_dir {
            return Ok(Self { host: host.to_owned(), dir: dir.map(str::to_owned) });
        }
        Err(format!(
            "`{text}` is no host; write remote:ssh:HOST or remote:ssh:HOST:/DIRECTORY, in plain letters"
        ))
    }

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

impl std::fmt::Display for FarHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.host)
    }
}

/// A tunnel to a host, open until it is dropped.
#[derive(Debug)]
pub(crate) struct Tunnel {
    dir: PrivateDir,
    complaint: Arc<Mutex<String>>,
    /// Dropped, it ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Tunnel {
    /// Starts the program that leads to the host.
    pub(crate) fn open(host: &FarHost, env: &Env) -> io::Result<Self> {
        let dir = PrivateDir::make(env)?;
        let mut environment = Environment::filtered(env.without_secrets());
        if let Some(agent) = env.get("SSH_AUTH_SOCK") {
            environment = environment.grant("SSH_AUTH_SOCK", agent);
        }
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = mpsc::channel();
        let complaint = Arc::<Mutex<String>>::default();
        let (request, socket, kept) = (host.command(), dir.socket(), complaint.clone());
        let thread = std::thread::Builder::new().name("zk-tunnel".into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let done = runtime.and_then(|runtime| {
                runtime.block_on(async {
                    let listener = UnixListener::bind(&socket)?;
                    let exec = ProcessExec::supervised(environment, Supervision::of_this_program());
                    let process = exec.spawn(request).await.map_err(io::Error::other)?;
                    let _ = ready.send(Ok(()));
                    tokio::select! {
                        done = carry(listener, process, &kept) => done,
                        _ = stopped => Ok(()),
                    }
                })
            });
            // Nobody is to wait for a connection that leads nowhere.
            let _ = std::fs::remove_file(&socket);
            if let Err(error) = done {
                note(&kept, error.to_string().as_bytes());
                let _ = ready.send(Err(error));
            }
        })?;
        is_ready.recv().map_err(io::Error::other)??;
        Ok(Self { dir, complaint, stop: Some(stop), thread: Some(thread) })
    }

    /// The socket that leads to the other side.
    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.socket()
    }

    /// Returns the complaint of the program that led there, in one line. A tunnel that failed is waited for,
    /// for a moment.
    pub(crate) fn complaint(&self) -> String {
        let until = Instant::now() + LAST_WORDS;
        while self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        let text = self.complaint.lock().unwrap_or_else(PoisonError::into_inner);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn note(complaint: &Mutex<String>, bytes: &[u8]) {
    let mut text = complaint.lock().unwrap_or_else(PoisonError::into_inner);
    if text.len() < COMPLAINT {
        text.push_str(&String::from_utf8_lossy(bytes));
    }
}

fn is_silent(complaint: &Mutex<String>) -> bool {
    complaint.lock().unwrap_or_else(PoisonError::into_inner).trim().is_empty()
}

/// Carries connections over a process's pipes until it ends.
async fn carry(
    listener: UnixListener,
    process: Box<dyn Process>,
    complaint: &Mutex<String>,
) -> io::Result<()> {
    let (from, of_process) = tokio::io::duplex(64 << 10);
    let (to, for_process) = tokio::io::duplex(64 << 10);
    tokio::select! {
        done = open_tunnel(listener, from, to) => done,
        done = pump(process, of_process, for_process, complaint) => done,
    }
}

async fn pump(
    mut process: Box<dyn Process>,
    mut printed: DuplexStream,
    mut typed: DuplexStream,
    complaint: &Mutex<String>,
) -> io::Result<()> {
    let mut bytes = vec![0; 64 << 10];
    let mut broken: Option<io::Error> = None;
    loop {
        tokio::select! {
            event = process.next() => match event.map_err(io::Error::other)? {
                Some(ProcessEvent::Output(OutputStream::Stdout, bytes)) => printed.write_all(&bytes).await?,
                Some(ProcessEvent::Output(OutputStream::Stderr, bytes)) => note(complaint, &bytes),
                // Until the very end: what it complains of may come behind its exit.
                Some(ProcessEvent::Closed(_) | ProcessEvent::Exited(_)) => {}
                // A complaint says more than a broken pipe.
                None => return broken.filter(|_| is_silent(complaint)).map_or(Ok(()), Err),
            },
            read = typed.read(&mut bytes), if broken.is_none() => match read? {
                0 => return Ok(()),
                length => {
                    let piece = bytes.get(..length).unwrap_or_default();
                    broken = process.write(piece).await.map_err(io::Error::other).err();
                }
            },
            // The program takes no more because it is ending: its reason for that comes before this counts.
            () = tokio::time::sleep(LAST_WORDS / 2), if broken.is_some() => return broken.map_or(Ok(()), Err),
        }
    }
}

/// A directory that nobody else may enter, removed when dropped.
#[derive(Debug)]
pub(crate) struct PrivateDir(PathBuf);

impl PrivateDir {
    pub(crate) fn make(env: &Env) -> io::Result<Self> {
        let base = env.path("XDG_RUNTIME_DIR").filter(|dir| dir.is_dir()).unwrap_or_else(|| "/tmp".into());
        let dir = base.join(format!("zk-{:016x}", RandomState::new().build_hasher().finish()));
        DirBuilder::new().mode(0o700).create(&dir)?;
        Ok(Self(dir))
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.0.join("zk.sock")
    }

    #[cfg(test)]
    pub(crate) fn path(&self) -> &std::path::Path {
        &self.0
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_plain_and_nothing_in_them_reaches_a_shell_or_an_option() {
        let host = FarHost::parse("me@build-1.example.org:/srv/a_b").unwrap();
        let words: Vec<_> =
            host.command().args.iter().map(|word| word.to_str().unwrap().to_owned()).collect();
        let expected =
            "-T -o BatchMode=yes me@build-1.example.org zk --cwd /srv/a_b exec-server --stdio".split(' ');
        assert_eq!(words, expected.collect::<Vec<_>>());
        for wrong in ["", "-oProxyCommand=x", "a b", "a;b", "a:b", "a:/x y", "a:/$(id)", "a:/x'", "ü"] {
            assert!(FarHost::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_private_directory_is_gone_with_its_owner() {
        let dir = PrivateDir::make(&Env::from_iter([("HOME", "/")])).unwrap();
        let path = dir.path().to_owned();
        assert!(path.is_dir());
        drop(dir);
        assert!(!path.exists());
    }
}
