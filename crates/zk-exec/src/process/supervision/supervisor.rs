//! Supervisor: a process that outlives its program for a moment and ends all of its commands.

use std::ffi::{OsStr, OsString};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::set_child_subreaper;

use super::reaper::{self, Phase, reap, wait_for};
use super::{signals, spawn};

/// Argument with which a program starts itself as the supervisor.
const ARGUMENT: &str = "__supervise-commands";

/// Request for a reaper: this byte with four descriptors, and a fifth for a cgroup.
pub(super) const SPAWN: u8 = b'S';
/// Request to end all commands.
pub(super) const END: u8 = b'E';
/// Request to hide the paths that follow, from the next command on.
#[cfg(feature = "sandbox")]
pub(super) const HIDE: u8 = b'H';
/// First byte of the connection if commands run in a sandbox; its plan follows.
#[cfg(feature = "sandbox")]
pub(super) const SANDBOX: u8 = b'B';

/// Command line by which a program starts itself again as the supervisor of its commands.
///
/// The supervisor is one process, started with the first command. It is the subreaper of all commands, so
/// that no descendant escapes from it: not with `setsid`, a double fork or a cleared environment. It ends
/// with the program, however the program ends, `kill -9` included, and kills all commands first.
///
/// The program must call [`run_supervisor`] at the beginning of `main`, while it has one thread:
///
/// ```no_run
/// use std::process::ExitCode;
/// use zk_exec::Supervision;
///
/// fn main() -> ExitCode {
///     if Supervision::is_requested(std::env::args_os()) {
///         return ExitCode::from(u8::from(zk_exec::run_supervisor().is_err()));
///     }
///     // ProcessExec::supervised(environment, Supervision::of_this_program()) …
///     ExitCode::SUCCESS
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Supervision {
    program: PathBuf,
    args: Vec<OsString>,
}

impl Supervision {
    /// Supervisor by this program's own executable, which also works after its file was replaced.
    #[must_use]
    pub fn of_this_program() -> Self {
        let own = Path::new("/proc/self/exe");
        let program = if own.exists() { own.to_owned() } else { std::env::current_exe().unwrap_or_default() };
        Self { program, args: vec![ARGUMENT.into()] }
    }

    /// Supervisor by another program, or by this one with other arguments; it has to call [`run_supervisor`].
    pub fn with(program: impl Into<PathBuf>, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self { program: program.into(), args: args.into_iter().map(Into::into).collect() }
    }

    /// Whether a program with these arguments was started as the supervisor.
    pub fn is_requested(args: impl IntoIterator<Item = OsString>) -> bool {
        args.into_iter().nth(1).is_some_and(|arg| arg == ARGUMENT)
    }

    pub(crate) fn program(&self) -> &OsStr {
        self.program.as_os_str()
    }

    pub(crate) fn args(&self) -> &[OsString] {
        &self.args
    }
}

/// Supervises commands until the program that started this process has ended and all its commands are killed.
///
/// The standard input is the connection to that program.
///
/// # Errors
/// The system's error when this process cannot become a supervisor.
pub fn run_supervisor() -> io::Result<()> {
    let children = signals::block_all()?;
    // Detached from the terminal, so that its keys, its hang-up and prompts of commands do not reach this
    // process.
    let _ = rustix::process::setsid();
    let program = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    #[cfg(feature = "sandbox")]
    let mut sandbox = match first_byte(&program) {
        Ok(Some(SANDBOX)) => Some(crate::sandbox::Inside::enter(&program)?),
        // The input is a pipe: this process is the probe of the sandbox's self-test.
        Err(rustix::io::Errno::NOTSOCK) => return crate::sandbox::run_probe(program),
        Ok(_) | Err(_) => None,
    };
    set_child_subreaper(rustix::process::Pid::from_raw(1))?;
    let _ = rustix::thread::set_name(c"cmd-supervisor");
    let (life, life_of_this) = io::pipe()?;
    let (life, life_of_this) = (OwnedFd::from(life), OwnedFd::from(life_of_this));
    // Cached here for all reapers.
    spawn::inherited_fds();
    let mut connected = true;
    let mut phase = Phase::Running;
    loop {
        let any = reap(|_, _| ());
        if !any && phase != Phase::Running {
            return Ok(());
        }
        phase.enforce();
        // `life` never becomes readable here, since this process holds its other end.
        let ready = wait_for(&[&children, &life, &program], connected, phase.patience())?;
        if ready.first {
            signals::drain(&children);
        }
        if ready.third {
            match receive(&program) {
                Some((SPAWN, fds)) if phase == Phase::Running => {
                    #[cfg(feature = "sandbox")]
                    if let Some(inside) = &mut sandbox
                        && inside.refresh().is_err()
                    {
                        continue;
                    }
                    // Without a reaper the descriptors are closed, which the program notices.
                    let mut fds = fds.into_iter();
                    if let [Some(socket), Some(stdin), Some(stdout), Some(stderr)] =
                        std::array::from_fn(|_| fds.next())
                        && matches!(fork(), Ok(Side::Child))
                    {
                        drop((program, children, life_of_this));
                        #[cfg(feature = "sandbox")]
                        let confinement = sandbox.as_mut().and_then(crate::sandbox::Inside::take_confinement);
                        #[cfg(not(feature = "sandbox"))]
                        let confinement = None;
                        let ends = [stdin, stdout, stderr];
                        let code =
                            i32::from(reaper::run(socket, ends, fds.next(), &life, confinement).is_err());
                        leave(code);
                    }
                }
                #[cfg(feature = "sandbox")]
                Some((HIDE, _)) => match &mut sandbox {
                    Some(inside) => inside.hide_more(&program)?,
                    None => return Err(io::ErrorKind::InvalidData.into()),
                },
                Some((END, _)) => phase.end(),
                Some(_) => {}
                None => {
                    connected = false;
                    phase = Phase::Killing;
                }
            }
        }
    }
}

/// Peeks at the next byte without consuming it.
#[cfg(feature = "sandbox")]
fn first_byte(socket: impl AsFd) -> rustix::io::Result<Option<u8>> {
    let mut byte = [0_u8];
    loop {
        match rustix::net::recv(&socket, &mut byte, RecvFlags::PEEK) {
            Err(rustix::io::Errno::INTR) => {}
            received => return received.map(|(read, _)| byte.first().copied().filter(|_| read > 0)),
        }
    }
}

/// Receives one byte and its descriptors; `None` after the end of the program.
fn receive(socket: impl AsFd) -> Option<(u8, Vec<OwnedFd>)> {
    let mut byte = [0_u8];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(5))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        match recvmsg(&socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            done => break done.ok()?,
        }
    };
    let [byte] = byte;
    let fds = control.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => fds.collect(),
        _ => Vec::new(),
    });
    let fds = fds.collect();
    (received.bytes > 0).then_some((byte, fds))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The parent, with the child's process id.
    Parent(rustix::process::Pid),
    Child,
}

#[expect(unsafe_code, reason = "fork is not in rustix")]
pub(crate) fn fork() -> io::Result<Side> {
    // SAFETY: this process has one thread, so the child has a consistent copy of its memory.
    match unsafe { libc::fork() } {
        0 => Ok(Side::Child),
        pid => {
            rustix::process::Pid::from_raw(pid.max(0)).map(Side::Parent).ok_or_else(io::Error::last_os_error)
        }
    }
}

#[expect(unsafe_code, reason = "a forked copy must not run what its original does at the end")]
pub(crate) fn leave(code: i32) -> ! {
    // SAFETY: ends this process and touches no memory.
    unsafe { libc::_exit(code) }
}
