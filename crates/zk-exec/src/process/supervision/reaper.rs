//! Reaper: the process between the supervisor and one command, below which all of the command's processes
//! stay.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, WaitOptions, set_child_subreaper, wait};

use super::bounds::Bounds;
use super::ends::ChildEnds;
use super::launch::Launch;
use super::{GRACE, signals, spawn, tree};
#[cfg(feature = "sandbox")]
use crate::sandbox::Confinement;

/// Stand-in without values for a build without the sandbox, where no command is restricted.
#[cfg(not(feature = "sandbox"))]
pub(super) type Confinement = std::convert::Infallible;

/// Interval between scans for processes that are being killed.
const KILL_ROUND: Duration = Duration::from_millis(5);

/// Requests from zk to a reaper: one byte each.
pub(super) mod ask {
    /// `TERM` to all processes, `KILL` to the survivors after the grace time.
    pub(in super::super) const END: u8 = b'E';
    /// `KILL` to all processes until none is left.
    pub(in super::super) const KILL: u8 = b'K';
    /// List the running processes.
    pub(in super::super) const LIST: u8 = b'L';
}

/// Messages from a reaper to zk: a byte and a four-byte number; a list is followed by that many numbers.
pub(super) mod say {
    /// The reaper runs, and reads the launch.
    pub(in super::super) const READY: u8 = b'R';
    /// The command runs; the number is its process id.
    pub(in super::super) const STARTED: u8 = b'S';
    /// The command could not be started; the number is the `errno`.
    pub(in super::super) const FAILED: u8 = b'F';
    /// The command ended; the number is its wait status.
    pub(in super::super) const EXITED: u8 = b'X';
    /// No process of the command is left.
    pub(in super::super) const GONE: u8 = b'G';
    /// The command is killed because it exceeded a limit; the number identifies the limit.
    pub(in super::super) const LIMIT: u8 = b'M';
    /// List of running processes; the number is its length.
    pub(in super::super) const LISTED: u8 = b'L';
}

/// Phase of the end of a process tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    /// Sent `TERM`; to be killed at this instant.
    Ending(Instant),
    Killing,
}

impl Phase {
    /// Time to wait for events; `None` while the tree is not ending.
    pub(super) fn patience(self) -> Option<Duration> {
        match self {
            Self::Running => None,
            Self::Ending(kill_at) => Some(kill_at.saturating_duration_since(Instant::now())),
            Self::Killing => Some(KILL_ROUND),
        }
    }

    /// Sends `TERM` to all processes below this one, unless they are ending already.
    pub(super) fn end(&mut self) {
        if *self == Self::Running {
            tree::signal(&tree::descendants(), &[Signal::TERM, Signal::CONT]);
            *self = Self::Ending(Instant::now() + GRACE);
        }
    }

    /// Kills all processes once the grace time is over.
    pub(super) fn enforce(&mut self) {
        if let Self::Ending(kill_at) = *self
            && Instant::now() >= kill_at
        {
            *self = Self::Killing;
        }
        if *self == Self::Killing {
            let members = tree::descendants();
            // Stopped processes cannot fork while the others are killed.
            tree::signal(&members, &[Signal::STOP]);
            tree::signal(&members, &[Signal::KILL]);
        }
    }
}

/// Runs one command and supervises its processes until none is left.
///
/// `life` closes when the supervisor dies; all processes of the command are killed then.
pub(super) fn run(
    socket: OwnedFd,
    of_command: ChildEnds,
    cgroup: Option<OwnedFd>,
    life: &OwnedFd,
    confinement: Option<Confinement>,
) -> io::Result<()> {
    let children = signals::block_all()?;
    set_child_subreaper(rustix::process::Pid::from_raw(1))?;
    let _ = rustix::thread::set_name(c"command-reaper");
    let mut socket = UnixStream::from(socket);
    socket.set_nonblocking(false)?;
    send_message(&mut socket, say::READY, 0)?;
    let (command, mut bounds) = match start(&mut socket, of_command, cgroup, confinement) {
        Ok((pid, bounds)) => {
            // A failed write is ignored: after the end of zk the command is still supervised.
            let _ = send_message(&mut socket, say::STARTED, pid);
            (pid, bounds)
        }
        Err(error) => {
            return send_message(
                &mut socket,
                say::FAILED,
                error.raw_os_error().unwrap_or(libc::EINVAL).cast_unsigned(),
            );
        }
    };
    let mut connected = true;
    let mut phase = Phase::Running;
    loop {
        if !reap(|pid, status| {
            if pid.cast_unsigned() == command {
                let _ = send_message(&mut socket, say::EXITED, status.cast_unsigned());
            }
        }) {
            let _ = send_message(&mut socket, say::GONE, 0);
            return Ok(());
        }
        if phase == Phase::Running
            && let Some(exceeded) = bounds.as_mut().and_then(Bounds::check)
        {
            let _ = send_message(&mut socket, say::LIMIT, exceeded.to_number());
            phase = Phase::Killing;
        }
        phase.enforce();
        let patience = phase.patience().or_else(|| bounds.as_ref().map(Bounds::until_next_scan));
        let Ok(asked) = wait_for(&[&children, life, &socket.as_fd()], connected, patience) else {
            // A tree that can no longer be supervised is killed: the reaper must not end before it.
            phase = Phase::Killing;
            std::thread::sleep(KILL_ROUND);
            continue;
        };
        if asked.first {
            signals::drain(&children);
        }
        if asked.second {
            phase = Phase::Killing;
        }
        if asked.third {
            connected = carry_out_request(&mut socket, &mut phase);
        }
    }
}

fn start(
    socket: &mut UnixStream,
    of_command: ChildEnds,
    cgroup: Option<OwnedFd>,
    confinement: Option<Confinement>,
) -> io::Result<(u32, Option<Bounds>)> {
    let mut len = [0_u8; 8];
    socket.read_exact(&mut len)?;
    let len = u64::from_le_bytes(len);
    let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0).min(64 << 10));
    Read::by_ref(socket).take(len).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != len {
        // The caller ended, or cancelled before the launch was complete.
        return Err(rustix::io::Errno::CANCELED.into());
    }
    let launch = Launch::decode(&bytes).ok_or(io::ErrorKind::InvalidData)?;
    if let Some(cgroup) = cgroup {
        // The reaper moves into the group, and its children inherit that.
        rustix::io::write(&cgroup, b"0")?;
    }
    let mut command = spawn::command(&launch, of_command);
    spawn::unless_cancelled(&mut command, socket);
    let pid = match confinement {
        #[cfg(feature = "sandbox")]
        Some(confinement) => start_confined(command, confinement, &launch)?,
        #[cfg(not(feature = "sandbox"))]
        Some(never) => match never {},
        None => command.spawn()?.id(),
    };
    Ok((pid, Bounds::new(launch.limits)))
}

/// Starts a command from a new thread with the command's restrictions; the reaper's own thread keeps the
/// right to signal it.
///
/// The thread stays until this process ends, because the kernel ties the command to it.
#[cfg(feature = "sandbox")]
fn start_confined(
    mut command: std::process::Command,
    confinement: Confinement,
    launch: &Launch,
) -> io::Result<u32> {
    let (connects, makes_repository) = (launch.connects, launch.makes_repository);
    let (reply, started) = std::sync::mpsc::channel();
    std::thread::Builder::new().stack_size(256 << 10).spawn(move || {
        let done = confinement.apply(connects, makes_repository).and_then(|()| Ok(command.spawn()?.id()));
        // Closes this side's copies of the command's streams.
        drop(command);
        let _ = reply.send(done);
        loop {
            std::thread::park();
        }
    })?;
    started.recv().map_err(io::Error::other)?
}

/// Carries out one request; returns whether the connection to zk is still open.
fn carry_out_request(socket: &mut UnixStream, phase: &mut Phase) -> bool {
    let mut byte = [0_u8];
    match socket.read(&mut byte) {
        Ok(0) | Err(_) => return false,
        Ok(_) => {}
    }
    match byte {
        [ask::END] => phase.end(),
        [ask::KILL] => *phase = Phase::Killing,
        [ask::LIST] => {
            let members = tree::descendants();
            let mut out = frame(say::LISTED, u32::try_from(members.len()).unwrap_or(u32::MAX));
            out.extend(members.iter().flat_map(|member| member.pid.to_le_bytes()));
            return socket.write_all(&out).is_ok();
        }
        _ => {}
    }
    true
}

fn send_message(socket: &mut UnixStream, what: u8, number: u32) -> io::Result<()> {
    socket.write_all(&frame(what, number))
}

fn frame(what: u8, number: u32) -> Vec<u8> {
    let mut frame = vec![what];
    frame.extend_from_slice(&number.to_le_bytes());
    frame
}

/// Reaps every child that has ended; returns whether any child is left.
pub(super) fn reap(mut ended: impl FnMut(i32, i32)) -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => ended(pid.as_raw_nonzero().get(), status.as_raw()),
            Ok(None) => return true,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// Readiness of three descriptors.
pub(super) struct Ready {
    pub(super) first: bool,
    pub(super) second: bool,
    pub(super) third: bool,
}

/// Waits until one of three descriptors is readable; the third only counts while it is `connected`.
pub(super) fn wait_for(
    [first, second, third]: &[&dyn AsFd; 3],
    connected: bool,
    patience: Option<Duration>,
) -> io::Result<Ready> {
    let mut fds = vec![PollFd::from_borrowed_fd(first.as_fd(), PollFlags::IN)];
    fds.push(PollFd::from_borrowed_fd(second.as_fd(), PollFlags::IN));
    if connected {
        fds.push(PollFd::from_borrowed_fd(third.as_fd(), PollFlags::IN));
    }
    let timeout = patience.and_then(|patience| Timespec::try_from(patience).ok());
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let is_ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
    Ok(Ready { first: is_ready(0), second: is_ready(1), third: is_ready(2) })
}
