//! First process inside a sandbox: it makes the mounts and prepares the restrictions of commands.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use super::broker::{self, Reports};
use super::confine::{Confinement, landlock_version};
use super::mounts::{self, Sockets};
use super::namespaces;
use super::plan::Plan;
use super::policy::Network;
use super::proxy::PORT;
use super::report::{Layer, SandboxReport};
use super::seccomp;
use crate::wire::{put, put_len, take, take_len, take_paths};

/// Largest accepted frame, in bytes.
const MAX_FRAME_BYTES: usize = 64 << 20;

/// State of the sandbox's first process.
pub(crate) struct Inside {
    plan: Plan,
    /// `None` if no mount can cover the sockets.
    sockets: Option<Sockets>,
    confinement: Option<Confinement>,
}

impl Inside {
    /// Reads a plan from zk, carries it out, and sends a report to zk. Returns in a new process inside the
    /// namespaces.
    pub(crate) fn enter(zk: &OwnedFd) -> io::Result<Self> {
        let mut zk = UnixStream::from(zk.try_clone()?);
        zk.read_exact(&mut [0_u8])?;
        let mut plan = read_frame(&mut zk)
            .and_then(|bytes| Plan::decode(&bytes).ok_or(io::ErrorKind::InvalidData.into()))?;
        // Commands of an earlier process with this plan may have made some.
        plan.protect_new_repositories();
        let made = Sockets::of_machine().and_then(|sockets| {
            if plan.landlock_only {
                let (confinement, report) = without_namespaces(&plan)?;
                return Ok((None, confinement, Vec::new(), report));
            }
            namespaces::enter(&plan)?;
            // A listener made here belongs to the sandbox's network namespace, even when another process
            // accepts its connections. The address to which a command connects identifies the command.
            let listener = match plan.connects {
                true => Some(TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT))?),
                false => None,
            };
            // Brokers write to the pipe, and zk reads it.
            let (reports, reported) = match plan.guarded.is_empty() {
                false => broker::channel().map(|(reports, end)| (Some(reports), Some(end)))?,
                true => (None, None),
            };
            let (confinement, report) = set_up_layers(&plan, reports)?;
            sockets.hide()?;
            let handed = listener.map(OwnedFd::from).into_iter().chain(reported).collect();
            Ok((Some(sockets), confinement, handed, report))
        });
        let mut answer = Vec::new();
        match &made {
            Ok((.., report)) => {
                put_len(&mut answer, 1);
                encode(report, &mut answer);
            }
            Err(error) => {
                put_len(&mut answer, 0);
                put(&mut answer, error.to_string());
            }
        }
        write_frame(&mut zk, &answer)?;
        let (sockets, confinement, handed, _) = made?;
        for fd in handed {
            hand_out(&zk, &fd)?;
        }
        Ok(Self { plan, sockets, confinement: Some(confinement) })
    }

    /// Reads paths from zk and hides them from the next command on, if they exist by then.
    pub(crate) fn hide_more(&mut self, zk: &OwnedFd) -> io::Result<()> {
        let bytes = read_frame(&mut UnixStream::from(zk.try_clone()?))?;
        let paths = take_paths(&mut bytes.as_slice());
        self.plan.hidden.extend(paths.ok_or(io::ErrorKind::InvalidData)?);
        Ok(())
    }

    /// Restores missing protection; called before each command.
    pub(crate) fn refresh(&mut self) -> io::Result<()> {
        self.protect_new_repositories();
        let Some(sockets) = &self.sockets else { return Ok(()) };
        mounts::protect(&self.plan)?;
        sockets.hide()
    }

    /// Protects repositories that commands have made, by mounts and in the guarded names of the next command.
    fn protect_new_repositories(&mut self) {
        if self.plan.protect_new_repositories()
            && let Some(confinement) = &mut self.confinement
        {
            confinement.guard(&self.plan.guarded);
        }
    }

    /// Takes the restrictions for one command; each fork of this process has them once.
    pub(crate) fn take_confinement(&mut self) -> Option<Confinement> {
        self.confinement.take()
    }
}

fn set_up_layers(plan: &Plan, reports: Option<Reports>) -> io::Result<(Confinement, SandboxReport)> {
    seccomp::check(!plan.guarded.is_empty())?;
    mounts::build(plan)?;
    std::env::set_current_dir("/")?;
    let confinement = Confinement::prepare(plan, reports)?;
    let mut report = SandboxReport::default();
    report.add(Layer::UserNamespace, true, "");
    report.add(Layer::Mounts, true, "");
    report.add(Layer::Processes, true, "");
    match plan.network {
        Network::All => report.add(Layer::NetworkNamespace, false, "by the policy"),
        Network::None | Network::Loopback | Network::Hosts => {
            report.add(Layer::NetworkNamespace, true, plan.network.as_str())
        }
    }
    match landlock_version() {
        Some(version) => report.add(Layer::Landlock, true, version),
        None => report.add(Layer::Landlock, false, "the kernel has none"),
    }
    report.add(Layer::Seccomp, true, "");
    let bound = std::fs::read_to_string("/proc/sys/kernel/pid_max").unwrap_or_default();
    let is_bound = bound.trim() == plan.processes.to_string();
    let is_superuser = rustix::process::getuid().is_root();
    report.add(
        Layer::ProcessLimit,
        is_bound || !is_superuser,
        if is_bound { bound.trim() } else { "per user" },
    );
    Ok((confinement, report))
}

/// Sets up the layers that need no namespaces.
fn without_namespaces(plan: &Plan) -> io::Result<(Confinement, SandboxReport)> {
    let version = landlock_version();
    let can_enforce =
        version.as_deref().and_then(|version| version.strip_prefix("version ")?.parse::<u32>().ok());
    // Before Landlock version 3, a read-only file could be truncated.
    if can_enforce.is_none_or(|version| version < 3) {
        return Err(io::Error::other(
            "namespaces are refused, and the kernel has no Landlock of version 3 or later",
        ));
    }
    seccomp::check(false)?;
    std::env::set_current_dir("/")?;
    let confinement = Confinement::prepare(plan, None)?;
    let mut report = SandboxReport::default();
    report.add(Layer::Mounts, false, "refused by the machine");
    report.add(Layer::Processes, false, "");
    report.add(Layer::Landlock, true, version.unwrap_or_default());
    report.add(Layer::Seccomp, true, "");
    Ok((confinement, report))
}

fn encode(report: &SandboxReport, out: &mut Vec<u8>) {
    put_len(out, report.layers.len());
    for state in &report.layers {
        put_len(out, Layer::ALL.iter().position(|layer| *layer == state.layer).unwrap_or_default());
        put_len(out, usize::from(state.present));
        put(out, &state.detail);
    }
}

/// Reads the report that [`Inside::enter`] sends.
pub(crate) fn read_answer(from: &mut impl Read) -> io::Result<SandboxReport> {
    let bytes = read_frame(from)?;
    let from = &mut bytes.as_slice();
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    if take_len(from).ok_or_else(invalid)? == 0 {
        return Err(io::Error::other(take(from).ok_or_else(invalid)?.to_string_lossy().into_owned()));
    }
    let mut report = SandboxReport::default();
    for _ in 0..take_len(from).ok_or_else(invalid)? {
        let layer = take_len(from).and_then(|at| Layer::ALL.get(at)).ok_or_else(invalid)?;
        let present = take_len(from).ok_or_else(invalid)? != 0;
        report.add(*layer, present, take(from).ok_or_else(invalid)?.to_string_lossy());
    }
    Ok(report)
}

/// Sends an open file to zk: the proxy's listener, or the read end of a pipe.
fn hand_out(zk: &UnixStream, file: &OwnedFd) -> io::Result<()> {
    let fds = [file.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(zk, &[IoSlice::new(b"L")], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives the file that [`hand_out`] sent.
pub(crate) fn receive_file(from: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(from, &mut [IoSliceMut::new(&mut [0])], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let fd = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    fd.ok_or_else(|| io::Error::other("the sandbox handed out no open file"))
}

pub(crate) fn write_frame(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(&(bytes.len() as u64).to_le_bytes())?;
    to.write_all(bytes)
}

fn read_frame(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut len = [0_u8; 8];
    from.read_exact(&mut len)?;
    let len = usize::try_from(u64::from_le_bytes(len)).ok().filter(|len| *len <= MAX_FRAME_BYTES);
    let mut bytes = vec![0; len.ok_or(io::ErrorKind::InvalidData)?];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}
