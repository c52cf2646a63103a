use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::ends::ChildEnds;
use super::launch::Launch;

/// Environment variable by which a child's descendants are found.
pub(super) const MARK: &str = "ZK_EXEC";

/// Builds a command that inherits nothing of this process but the parts that the launch grants. All commands
/// of zk are built here.
pub(super) fn command(launch: &Launch, [stdin, stdout, stderr]: ChildEnds) -> Command {
    let session = if launch.terminal { Session::OwnTerminal } else { Session::Inherited };
    let mut command = in_session(&launch.program, Life::OfParent, session, launch.limits.memory);
    command.args(&launch.args).current_dir(&launch.cwd).envs(&launch.env);
    command.stdin(stdin).stdout(stdout).stderr(stderr);
    command
}

/// Variant of [`command`] in its own session, so that the command outlives this process.
pub(super) fn detached(launch: &Launch, [stdin, stdout, stderr]: ChildEnds) -> Command {
    let mut command = in_session(&launch.program, Life::Own, Session::Own, launch.limits.memory);
    command.args(&launch.args).current_dir(&launch.cwd).envs(&launch.env);
    command.stdin(stdin).stdout(stdout).stderr(stderr);
    command
}

/// Builds an interactive program of the person, whose terminal is its standard input. It outlives this process
/// as far as its terminal lets it.
#[cfg(feature = "pty")]
pub(super) fn person_command(program: &OsStr) -> Command {
    in_session(program, Life::Own, Session::OwnTerminal, None)
}

/// Builds a command without environment, standard streams or descriptors, in a process group of its own.
pub(super) fn bare(program: &OsStr, life: Life) -> Command {
    in_session(program, life, Session::Inherited, None)
}

/// Replaces this process by another program of the person, with the same environment, directory and streams. Returns only
/// if that fails.
///
/// ```
/// let error = zk_exec::replace_process("/no/such/program".as_ref(), ["--help".into()]);
/// assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
/// ```
#[expect(clippy::disallowed_methods, reason = "no process is started: this one goes on as another program")]
pub fn replace_process(program: &Path, args: impl IntoIterator<Item = OsString>) -> io::Error {
    Command::new(program).args(args).exec()
}

#[expect(clippy::disallowed_methods, reason = "this is the one spawn function the ban leads to")]
fn in_session(program: &OsStr, life: Life, session: Session, memory: Option<u64>) -> Command {
    let mut command = Command::new(program);
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match session {
        Session::Inherited => {
            command.process_group(0);
        }
        // A new session is also a new process group, and a group leader cannot begin a session.
        Session::Own | Session::OwnTerminal => {}
    }
    confine(&mut command, life, session, memory, inherited_fds());
    command
}

/// Session of a child process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Session {
    /// Session of the parent.
    Inherited,
    /// A new session, without a terminal.
    Own,
    /// A new session, whose terminal is the standard input.
    OwnTerminal,
}

/// Stops the command from starting once `socket` is readable or its other end is closed: before the start is
/// reported, the other end can only cancel. The child checks this itself, as its last step before exec.
#[expect(unsafe_code, reason = "only code between fork and exec can look as late as that")]
pub(super) fn unless_cancelled(command: &mut Command, socket: &UnixStream) {
    let socket = socket.as_raw_fd();
    // SAFETY: the closure runs between fork and exec, where only async-signal-safe calls are allowed. It
    // makes one system call with a descriptor number.
    unsafe {
        command.pre_exec(move || child::check_not_cancelled(socket));
    }
}

/// Lifetime of a child process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// Killed by the kernel when the thread that started it ends.
    OfParent,
    /// Independent: the child may outlive this process.
    Own,
}

#[expect(unsafe_code, reason = "only code between fork and exec can tie a child to the life of its parent")]
fn confine(command: &mut Command, life: Life, session: Session, memory: Option<u64>, inherited: Vec<i32>) {
    let parent = std::process::id();
    // SAFETY: the closure runs between fork and exec, where only async-signal-safe calls are allowed. It
    // makes bare system calls on data made before the fork, and neither allocates nor locks.
    unsafe {
        command.pre_exec(move || {
            if life == Life::OfParent {
                child::die_with(parent)?;
            }
            super::signals::unblock_all()?;
            if session != Session::Inherited {
                rustix::process::setsid()?;
            }
            if session == Session::OwnTerminal {
                rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
            }
            if let Some(memory) = memory {
                child::limit_memory(memory)?;
            }
            for fd in &inherited {
                child::close_at_exec(*fd);
            }
            Ok(())
        });
    }
}

/// Code that runs in the child between fork and exec: system calls only.
mod child {
    use std::io;
    use std::os::fd::BorrowedFd;

    use rustix::event::{PollFd, PollFlags, Timespec};
    use rustix::io::{FdFlags, fcntl_setfd};
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    /// Limits the private writable memory of this process (`RLIMIT_DATA`); reserved address space is free.
    pub(super) fn limit_memory(bytes: u64) -> io::Result<()> {
        // A lower limit cannot be raised.
        let most = getrlimit(Resource::Data).maximum.map_or(bytes, |most| most.min(bytes));
        Ok(setrlimit(Resource::Data, Rlimit { current: Some(most), maximum: Some(most) })?)
    }

    #[cfg(target_os = "linux")]
    pub(super) fn die_with(parent: u32) -> io::Result<()> {
        use rustix::process::{Signal, getppid, set_parent_process_death_signal};

        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the request took effect.
        let now = getppid().map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs());
        if now == parent { Ok(()) } else { Err(io::Error::from(io::ErrorKind::BrokenPipe)) }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn die_with(_: u32) -> io::Result<()> {
        Ok(())
    }

    #[expect(unsafe_code, reason = "a descriptor known by number only")]
    pub(super) fn check_not_cancelled(fd: i32) -> io::Result<()> {
        // SAFETY: the descriptor is open in the parent, which waits for this child to become the command.
        let mut fds = [PollFd::from_borrowed_fd(unsafe { BorrowedFd::borrow_raw(fd) }, PollFlags::IN)];
        match rustix::event::poll(&mut fds, Some(&Timespec::default()))? {
            0 => Ok(()),
            _ => Err(rustix::io::Errno::CANCELED.into()),
        }
    }

    #[expect(unsafe_code, reason = "a descriptor known by number only")]
    pub(super) fn close_at_exec(fd: i32) {
        // SAFETY: the number is not negative and is used for this call only; a descriptor closed concurrently
        // causes an error, as intended.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        let _ = fcntl_setfd(fd, FdFlags::CLOEXEC);
    }
}

/// Descriptors that a child would inherit. This process opens none without close-on-exec, but may have been
/// started with some.
pub(super) fn inherited_fds() -> Vec<i32> {
    static FOUND: std::sync::OnceLock<Vec<i32>> = std::sync::OnceLock::new();
    FOUND.get_or_init(|| find_inherited().unwrap_or_default()).clone()
}

fn find_inherited() -> io::Result<Vec<i32>> {
    const CLOSE_AT_EXEC: u64 = 0o2_000_000;
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fdinfo")? {
        let entry = entry?;
        let Some(fd) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let Ok(info) = std::fs::read_to_string(entry.path()) else { continue };
        let flags = info
            .lines()
            .find_map(|line| line.strip_prefix("flags:"))
            .and_then(|flags| u64::from_str_radix(flags.trim(), 8).ok());
        if fd > 2 && flags.is_some_and(|flags| flags & CLOSE_AT_EXEC == 0) {
            found.push(fd);
        }
    }
    Ok(found)
}
