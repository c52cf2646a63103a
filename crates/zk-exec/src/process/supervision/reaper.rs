//! The process between the supervisor and one command: whatever the command starts stays below it.

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

/// Nothing restricts a command in a build without the sandbox.
#[cfg(not(feature = "sandbox"))]
pub(super) type Confinement = std::convert::Infallible;

/// Interval between looks for processes that are being killed.
const KILL_ROUND: Duration = Duration::from_millis(5);

/// Requests of zk to a reaper: one byte each.
pub(super) mod ask {
    /// `TERM` to everything, `KILL` to what is left after the grace.
    pub(in super::super) const END: u8 = b'E';
    /// `KILL` to everything until nothing is left.
    pub(in super::super) const KILL: u8 = b'K';
    /// The processes that run.
    pub(in super::super) const LIST: u8 = b'L';
}

/// Messages of a reaper: a byte and a number of four bytes; a list is followed by that many numbers.
pub(super) mod say {
    /// The reaper is there, and reads what to run.
    pub(in super::super) const READY: u8 = b'R';
    /// The command runs under this process id.
    pub(in super::super) const STARTED: u8 = b'S';
    /// The command could not be started, for this reason of the system.
    pub(in super::super) const FAILED: u8 = b'F';
    /// The command ended with this status.
    pub(in super::super) const EXITED: u8 = b'X';
    /// Nothing it started is left.
    pub(in super::super) const GONE: u8 = b'G';
    /// The command is killed because it exceeded the limit with this number.
    pub(in super::super) const LIMIT: u8 = b'M';
    /// This many processes run.
    pub(in super::super) const LISTED: u8 = b'L';
}

/// Progress of the end of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    /// Asked to end; killed at this moment.
    Ending(Instant),
    Killing,
}

impl Phase {
    /// Time to wait for something to happen; `None` while the tree is not asked to end.
    pub(super) fn patience(self) -> Option<Duration> {
        match self {
            Self::Running => None,
            Self::Ending(kill_at) => Some(kill_at.saturating_duration_since(Instant::now())),
            Self::Killing => Some(KILL_ROUND),
        }
    }

    /// Asks everything below this process to end, unless that was done.
    pub(super) fn end(&mut self) {
        if *self == Self::Running {
            tree::signal(&tree::descendants(), &[Signal::TERM, Signal::CONT]);
            *self = Self::Ending(Instant::now() + GRACE);
        }
    }

    /// Kills what should be gone by now.
    pub(super) fn enforce(&mut self) {
        if let Self::Ending(kill_at) = *self
            && Instant::now() >= kill_at
        {
            *self = Self::Killing;
        }
        if *self == Self::Killing {
            let members = tree::descendants();
            // Stopped processes make no more of them while the others are killed.
            tree::signal(&members, &[Signal::STOP]);
            tree::signal(&members, &[Signal::KILL]);
        }
    }
}

/// Runs one command and watches over everything it starts, until nothing of it is left.
///
/// `life` ends with the supervisor; what is here is killed then.
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
    tell(&mut socket, say::READY, 0)?;
    let (command, mut bounds) = match start(&mut socket, of_command, cgroup, confinement) {
        Ok((pid, bounds)) => {
            // Nobody may listen any more: the command runs, and has to be ended all the same.
            let _ = tell(&mut socket, say::STARTED, pid);
            (pid, bounds)
        }
        Err(error) => {
            return tell(
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
                let _ = tell(&mut socket, say::EXITED, status.cast_unsigned());
            }
        }) {
            let _ = tell(&mut socket, say::GONE, 0);
            return Ok(());
        }
        if phase == Phase::Running
            && let Some(exceeded) = bounds.as_mut().and_then(Bounds::look)
        {
            let _ = tell(&mut socket, say::LIMIT, exceeded.to_number());
            phase = Phase::Killing;
        }
        phase.enforce();
        let patience = phase.patience().or_else(|| bounds.as_ref().map(Bounds::patience));
        let Ok(asked) = wait_for(&[&children, life, &socket.as_fd()], connected, patience) else {
            // A tree that cannot be watched any more is ended: this process must not leave before it.
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
            connected = obey(&mut socket, &mut phase);
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
        // Whoever ordered it is gone, or asked for its end in the middle of the order.
        return Err(rustix::io::Errno::CANCELED.into());
    }
    let launch = Launch::decode(&bytes).ok_or(io::ErrorKind::InvalidData)?;
    if let Some(cgroup) = cgroup {
        // This process moves, and all it starts is where it is.
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

/// Starts a command from a thread that is restricted as the command is to be; this one keeps its rights over it.
///
/// The thread stays for as long as this process: the kernel ties the command to it.
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

/// Carries out what was asked, and returns whether somebody may still ask.
fn obey(socket: &mut UnixStream, phase: &mut Phase) -> bool {
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

fn tell(socket: &mut UnixStream, what: u8, number: u32) -> io::Result<()> {
    socket.write_all(&frame(what, number))
}

fn frame(what: u8, number: u32) -> Vec<u8> {
    let mut frame = vec![what];
    frame.extend_from_slice(&number.to_le_bytes());
    frame
}

/// Waits for every child that has ended; whether any child is left.
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

/// Set of those of three descriptors that have something to say.
pub(super) struct Ready {
    pub(super) first: bool,
    pub(super) second: bool,
    pub(super) third: bool,
}

/// Waits for one of them, the last only if it is `connected`.
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
