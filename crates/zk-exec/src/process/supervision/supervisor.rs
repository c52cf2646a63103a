//! The process that outlives its program by a moment and ends all of its commands.

use std::ffi::{OsStr, OsString};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::set_child_subreaper;

use super::reaper::{self, Phase, reap, wait_for};
use super::{signals, spawn};

/// The argument a program starts itself with to be the supervisor.
const ARGUMENT: &str = "__supervise-commands";

/// Asks the supervisor for a reaper: this byte, with four descriptors, or a fifth that is the door to a cgroup.
pub(super) const SPAWN: u8 = b'S';
/// Asks the supervisor to end everything.
pub(super) const END: u8 = b'E';
/// Order to hide the paths that follow, from the next command on.
#[cfg(feature = "sandbox")]
pub(super) const HIDE: u8 = b'H';
/// The very first byte: commands run in a sandbox, whose plan follows.
#[cfg(feature = "sandbox")]
pub(super) const SANDBOX: u8 = b'B';

/// Command line by which a program starts itself again as the supervisor of its commands.
///
/// The supervisor is one process, started with the first command. It is the subreaper of all commands, so that
/// nothing can leave it: not with `setsid`, a double fork or a cleared environment. It ends with the program,
/// however that ends, `kill -9` included, and kills everything below it first.
///
/// The program must hand over to [`run_supervisor`] at the beginning of `main`, while it has one thread:
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
    /// Starts this program again, the very file that runs, also after it was replaced.
    #[must_use]
    pub fn of_this_program() -> Self {
        let own = Path::new("/proc/self/exe");
        let program = if own.exists() { own.to_owned() } else { std::env::current_exe().unwrap_or_default() };
        Self { program, args: vec![ARGUMENT.into()] }
    }

    /// Starts another program, or this one with other arguments; it has to call [`run_supervisor`].
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

/// Supervises commands until the program that started this process is gone, and everything it left is killed.
///
/// The standard input is the connection to that program.
///
/// # Errors
/// The system's, when this process cannot be made a supervisor.
pub fn run_supervisor() -> io::Result<()> {
    let children = signals::block_all()?;
    // Out of the reach of the terminal: its keys, its end, and questions that commands would ask there.
    let _ = rustix::process::setsid();
    let program = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    #[cfg(feature = "sandbox")]
    let mut sandbox = match first_byte(&program) {
        Ok(Some(SANDBOX)) => Some(crate::sandbox::Inside::enter(&program)?),
        // A pipe: this is a command in a sandbox, which tries what it can do.
        Err(rustix::io::Errno::NOTSOCK) => return crate::sandbox::run_probe(program),
        Ok(_) | Err(_) => None,
    };
    set_child_subreaper(rustix::process::Pid::from_raw(1))?;
    let _ = rustix::thread::set_name(c"cmd-supervisor");
    let (life, life_of_this) = io::pipe()?;
    let (life, life_of_this) = (OwnedFd::from(life), OwnedFd::from(life_of_this));
    // Looked up once, for all reapers.
    spawn::inherited_fds();
    let mut connected = true;
    let mut phase = Phase::Running;
    loop {
        let any = reap(|_, _| ());
        if !any && phase != Phase::Running {
            return Ok(());
        }
        phase.enforce();
        // `life` never has anything to say here: this process holds its other end.
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
                    // Without a reaper the descriptors are closed, which tells the program.
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

/// The byte that is read next, as it stays to be read.
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

/// One byte and the descriptors that came with it; nothing when the program is gone.
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
    /// The original, with the number of the copy.
    Parent(rustix::process::Pid),
    Child,
}

#[expect(unsafe_code, reason = "fork is not in rustix")]
pub(crate) fn fork() -> io::Result<Side> {
    // SAFETY: this process has one thread, so that the child has a consistent copy of everything.
    match unsafe { libc::fork() } {
        0 => Ok(Side::Child),
        pid => {
            rustix::process::Pid::from_raw(pid.max(0)).map(Side::Parent).ok_or_else(io::Error::last_os_error)
        }
    }
}

#[expect(unsafe_code, reason = "a forked copy must not run what its original does at the end")]
pub(crate) fn leave(code: i32) -> ! {
    // SAFETY: ends this process and touches nothing.
    unsafe { libc::_exit(code) }
}
