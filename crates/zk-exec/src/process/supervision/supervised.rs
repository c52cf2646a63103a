#[cfg(feature = "sandbox")]
mod hidden;

use std::io::{self, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use super::cgroup::{Cgroup, Cgroups};
use super::ends::ChildEnds;
use super::group::Ask;
use super::launch::Launch;
use super::reaper::{ask, say};
use super::started::{Started, Tree, Waiter};
use super::supervisor::{self, Supervision};
use super::{GRACE, spawn};
use crate::Limits;
use crate::limits::Exceeded;
use crate::wire::put_len;

/// Maximum wait for the supervisor to end after a kill request.
const SUPERVISOR_END_WAIT: Duration = Duration::from_secs(2);

/// Client of the supervisor process: starts it with the first command, and again after its death.
#[derive(Debug)]
pub(in super::super) struct Supervisor {
    how: Supervision,
    /// Encoded plan of the sandbox that the supervisor sets up.
    #[cfg(feature = "sandbox")]
    plan: Option<Vec<u8>>,
    /// Proxy behind the sandbox's listener.
    #[cfg(feature = "sandbox")]
    proxy: Option<crate::sandbox::Proxy>,
    /// Reader of the names that commands create, if the plan guards some.
    #[cfg(feature = "sandbox")]
    reports: Option<crate::sandbox::ReportReader>,
    #[cfg(feature = "sandbox")]
    hidden: hidden::Hidden,
    running: Mutex<Option<Running>>,
    cgroups: Arc<Cgroups>,
}

/// Running supervisor. Dropping this ends the supervisor and all commands below it.
#[derive(Debug)]
struct Running {
    process: Child,
    socket: Option<UnixStream>,
    #[cfg(feature = "sandbox")]
    report: Option<crate::sandbox::SandboxReport>,
    #[cfg(feature = "sandbox")]
    listener: Option<std::net::TcpListener>,
}

impl Supervisor {
    pub(in super::super) fn new(how: Supervision) -> Self {
        Self {
            how,
            #[cfg(feature = "sandbox")]
            plan: None,
            #[cfg(feature = "sandbox")]
            proxy: None,
            #[cfg(feature = "sandbox")]
            reports: None,
            #[cfg(feature = "sandbox")]
            hidden: hidden::Hidden::default(),
            running: Mutex::new(None),
            cgroups: Arc::default(),
        }
    }

    /// Makes commands run in a sandbox.
    #[cfg(feature = "sandbox")]
    pub(in super::super) fn sandboxed(
        how: Supervision,
        plan: Vec<u8>,
        proxy: Option<crate::sandbox::Proxy>,
        reports: Option<crate::sandbox::ReportReader>,
    ) -> Self {
        Self {
            how,
            plan: Some(plan),
            proxy,
            reports,
            hidden: hidden::Hidden::default(),
            running: Mutex::new(None),
            cgroups: Arc::default(),
        }
    }

    /// Hides more paths from the next command on, and from running commands too.
    #[cfg(feature = "sandbox")]
    pub(in super::super) fn hide(&self, paths: &[std::path::PathBuf]) -> io::Result<()> {
        let mut running = self.lock();
        self.hidden.add(paths);
        let told = running.as_ref().and_then(|running| running.socket.as_ref());
        let told = told.map_or(Ok(()), |socket| hidden::hide(socket, paths));
        if told.is_err() {
            // The next supervisor learns of them at its start.
            *running = None;
        }
        told
    }

    #[cfg(feature = "sandbox")]
    pub(in super::super) fn is_sandboxed(&self) -> bool {
        self.plan.is_some()
    }

    /// Starts the sandbox unless it runs, and reports its layers.
    #[cfg(feature = "sandbox")]
    pub(in super::super) fn start_sandbox(&self) -> io::Result<crate::sandbox::SandboxReport> {
        let mut running = self.lock();
        if running.is_none() {
            *running = Some(Running::start(self)?);
        }
        Ok(running.as_ref().and_then(|running| running.report.clone()).unwrap_or_default())
    }

    /// Starts a command below the supervisor. Dropping the future or the returned tree ends the command.
    pub(in super::super) async fn spawn(
        &self,
        launch: &mut Launch,
        limits: Limits,
        of_command: ChildEnds,
    ) -> io::Result<Started> {
        let (group, door) = match self.cgroups.make(limits) {
            Some((group, door)) => {
                (Some(Grouped { group: Some(group), groups: self.cgroups.clone() }), Some(door))
            }
            None => (None, None),
        };
        launch.limits = limits.without(group.as_ref().map_or(Limits::default(), Grouped::limits));
        let bytes = launch.encode();
        let mut order = Vec::with_capacity(bytes.len() + 8);
        put_len(&mut order, bytes.len());
        order.extend_from_slice(&bytes);
        let (mut reaper, Link { mut stream, progress, lists }) =
            self.reaper(of_command, door, &order).await?;
        reaper.group = group;
        match frame(&mut stream).await.map_err(|_| lost_error())? {
            (say::STARTED, _) => {}
            (say::FAILED, errno) => return Err(io::Error::from_raw_os_error(errno.cast_signed())),
            _ => return Err(io::Error::from(io::ErrorKind::InvalidData)),
        }
        let reader = tokio::spawn(async move {
            apply_messages(&mut stream, &progress, &lists).await;
            progress.send_modify(|progress| progress.over = true);
        });
        reaper.reader = Some(reader.abort_handle());
        Ok(Started { waiter: Waiter::Supervised(reaper.seen.clone()), tree: Tree::Supervised(reaper) })
    }

    /// Ends all commands: `TERM`, and `KILL` to the survivors after the grace time.
    pub(in super::super) async fn close(&self) {
        let Some(mut running) = self.lock().take() else { return };
        if Handle::try_current().is_err() {
            // A caller outside of a runtime cannot wait: the drop kills all commands at once.
            return;
        }
        if running.send_message(supervisor::END, &[]).is_ok() {
            let until = Instant::now() + GRACE + SUPERVISOR_END_WAIT;
            let mut pause = Duration::from_millis(2);
            while matches!(running.process.try_wait(), Ok(None)) && Instant::now() < until {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_millis(50));
            }
        }
    }

    /// Gets a reaper for one command, with the launch in its socket. A reaper reports that it is ready before
    /// it reads the launch, so that a dying supervisor can be replaced by another one.
    async fn reaper(
        &self,
        of_command: ChildEnds,
        cgroup: Option<OwnedFd>,
        order: &[u8],
    ) -> io::Result<(Reaper, Link)> {
        let [stdin, stdout, stderr] = &of_command;
        let mut again = true;
        loop {
            let (socket, of_reaper) = UnixStream::pair()?;
            let mut fds = vec![of_reaper.as_fd(), stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
            fds.extend(cgroup.as_ref().map(AsFd::as_fd));
            self.request_reaper(&fds)?;
            // Closes this side's copy, so that the end of the other side is noticed.
            drop(of_reaper);
            socket.set_nonblocking(true)?;
            let mut stream = tokio::net::UnixStream::from_std(socket.try_clone()?)?;
            let (progress, seen) = watch::channel(Progress::default());
            let (lists, listed) = mpsc::unbounded_channel();
            let listed = tokio::sync::Mutex::new(listed);
            // From here on the command may run, so its guard must exist.
            let reaper = Reaper { socket, seen, listed, reader: None, armed: true, group: None };
            // Writes as much of the launch as the socket accepts, before the reaper reads it.
            let sent = (&reaper.socket).write(order).unwrap_or_default();
            match frame(&mut stream).await {
                Ok((say::READY, _)) => {
                    stream.write_all(order.get(sent..).unwrap_or_default()).await?;
                    return Ok((reaper, Link { stream, progress, lists }));
                }
                Ok(_) => return Err(io::Error::from(io::ErrorKind::InvalidData)),
                Err(_) if std::mem::take(&mut again) => self.forget_ended().await,
                Err(_) => return Err(lost_error()),
            }
        }
    }

    /// Waits for the supervisor's end and forgets it.
    async fn forget_ended(&self) {
        let until = Instant::now() + SUPERVISOR_END_WAIT;
        while Instant::now() < until {
            {
                let mut running = self.lock();
                match running.as_mut().map(|running| running.process.try_wait()) {
                    None => return,
                    Some(Ok(None)) => {}
                    Some(_) => {
                        *running = None;
                        return;
                    }
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn request_reaper(&self, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut running = self.lock();
        if let Some(supervisor) = &*running {
            match supervisor.send_message(supervisor::SPAWN, fds) {
                // The supervisor was killed; another one is started.
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                }
                done => return done,
            }
        }
        *running = None;
        let supervisor = running.insert(Running::start(self)?);
        supervisor.send_message(supervisor::SPAWN, fds)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    fn start(supervisor: &Supervisor) -> io::Result<Self> {
        let how = &supervisor.how;
        let fail = |error: io::Error| {
            let what = "cannot start the process that watches over commands";
            io::Error::other(format!("{what} ({}): {error}", how.program().display()))
        };
        let (socket, of_supervisor) = UnixStream::pair()?;
        let mut command = spawn::bare(how.program(), spawn::Life::Own);
        // The supervisor's name differs from the program's, so that `killall` of the program spares it.
        std::os::unix::process::CommandExt::arg0(&mut command, "cmd-supervisor");
        command.args(how.args()).current_dir("/").stdin(Stdio::from(OwnedFd::from(of_supervisor)));
        let process = command.spawn().map_err(fail)?;
        // Closes this side's copy of its socket, so that its death is noticed.
        drop(command);
        #[cfg(feature = "sandbox")]
        let report = match &supervisor.plan {
            Some(plan) => Some(hidden::set_up(&socket, plan)?),
            None => None,
        };
        #[cfg(feature = "sandbox")]
        let listener = match &supervisor.proxy {
            Some(proxy) => {
                let listener = std::net::TcpListener::from(crate::sandbox::receive_file(&socket)?);
                proxy.serve(listener.try_clone()?)?;
                Some(listener)
            }
            None => None,
        };
        #[cfg(feature = "sandbox")]
        if let Some(reports) = &supervisor.reports {
            reports.add(crate::sandbox::receive_file(&socket)?);
        }
        let running = Self {
            process,
            socket: Some(socket),
            #[cfg(feature = "sandbox")]
            report,
            #[cfg(feature = "sandbox")]
            listener,
        };
        #[cfg(feature = "sandbox")]
        if let Some(socket) = &running.socket {
            supervisor.hidden.send_to(socket)?;
        }
        Ok(running)
    }

    fn send_message(&self, what: u8, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let Some(socket) = &self.socket else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(5))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(fds));
        }
        sendmsg(socket, &[IoSlice::new(&[what])], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The end of the connection makes the supervisor kill all commands. This waits a few milliseconds for
        // that, so that it is over before this process ends.
        drop(self.socket.take());
        #[cfg(feature = "sandbox")]
        if let Some(listener) = &self.listener {
            // Ends the proxy's thread, which blocks in `accept`.
            let _ = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
        }
        let until = Instant::now() + SUPERVISOR_END_WAIT;
        while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Known state of a command.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Progress {
    status: Option<i32>,
    /// Limit for which the command is killed.
    exceeded: Option<Exceeded>,
    /// Whether the state is final: all processes have ended, or the reaper was killed.
    over: bool,
}

/// Control group of a command; the drop removes it.
#[derive(Debug)]
struct Grouped {
    group: Option<Cgroup>,
    groups: Arc<Cgroups>,
}

impl Grouped {
    fn limits(&self) -> Limits {
        self.group.as_ref().map_or(Limits::default(), |group| group.limits)
    }
}

impl Drop for Grouped {
    fn drop(&mut self) {
        if let Some(group) = self.group.take() {
            self.groups.remove(group);
        }
    }
}

/// Stream from the reaper of one command, and the receivers of its messages.
struct Link {
    stream: tokio::net::UnixStream,
    progress: watch::Sender<Progress>,
    lists: mpsc::UnboundedSender<Vec<u32>>,
}

/// Connection to the reaper of one command. Dropping it ends the command, unless it was released.
#[derive(Debug)]
pub(in super::super) struct Reaper {
    socket: UnixStream,
    seen: watch::Receiver<Progress>,
    listed: tokio::sync::Mutex<mpsc::UnboundedReceiver<Vec<u32>>>,
    reader: Option<AbortHandle>,
    armed: bool,
    group: Option<Grouped>,
}

impl Reaper {
    /// Limit that the command exceeded, if any.
    pub(in super::super) fn exceeded(&self) -> Option<Exceeded> {
        let of_group = || self.group.as_ref()?.group.as_ref()?.exceeded();
        self.seen.borrow().exceeded.or_else(of_group)
    }

    /// Whether processes may remain. Cheap.
    pub(in super::super) fn may_live(&self) -> bool {
        !self.seen.borrow().over
    }

    /// Ids of the running processes.
    pub(in super::super) async fn members(&self) -> Vec<u32> {
        let mut listed = self.listed.lock().await;
        while listed.try_recv().is_ok() {}
        if !self.may_live() || self.send_request(ask::LIST).is_err() {
            return Vec::new();
        }
        let mut seen = self.seen.clone();
        tokio::select! {
            biased;
            list = listed.recv() => list.unwrap_or_default(),
            _ = seen.wait_for(|progress| progress.over) => Vec::new(),
        }
    }

    /// Connection that closes when no process of the command is left.
    #[cfg(feature = "sandbox")]
    pub(in super::super) fn life(&self) -> Option<OwnedFd> {
        self.socket.try_clone().ok().map(OwnedFd::from)
    }

    pub(in super::super) fn signal(&self, ask: Ask) {
        let _ = self.send_request(match ask {
            Ask::End => ask::END,
            Ask::Kill => ask::KILL,
        });
    }

    /// Gives up the guard after the command's end; background processes continue.
    pub(in super::super) fn release(mut self) {
        self.armed = false;
    }

    fn send_request(&self, what: u8) -> io::Result<()> {
        (&self.socket).write_all(&[what])
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        if self.armed {
            self.signal(Ask::End);
        }
        if let Some(reader) = &self.reader {
            reader.abort();
        }
    }
}

/// Waits for the end of a command.
pub(in super::super) async fn wait(seen: &mut watch::Receiver<Progress>) -> io::Result<ExitStatus> {
    let progress = *seen
        .wait_for(|progress| progress.status.is_some() || progress.over)
        .await
        .map_err(io::Error::other)?;
    let status = progress.status.ok_or_else(lost_error)?;
    Ok(ExitStatus::from_raw(status))
}

fn lost_error() -> io::Error {
    io::Error::other("the process that watched it was killed")
}

/// Applies the reaper's messages until its connection ends.
async fn apply_messages(
    stream: &mut tokio::net::UnixStream,
    progress: &watch::Sender<Progress>,
    lists: &mpsc::UnboundedSender<Vec<u32>>,
) {
    while let Ok((what, number)) = frame(stream).await {
        match what {
            say::EXITED => progress.send_modify(|progress| progress.status = Some(number.cast_signed())),
            say::LIMIT => {
                progress.send_modify(|progress| progress.exceeded = Exceeded::from_number(number));
            }
            say::LISTED => {
                let mut pids = Vec::new();
                for _ in 0..number {
                    let Ok(pid) = stream.read_u32_le().await else { return };
                    pids.push(pid);
                }
                let _ = lists.send(pids);
            }
            _ => return,
        }
    }
}

async fn frame(stream: &mut tokio::net::UnixStream) -> io::Result<(u8, u32)> {
    Ok((stream.read_u8().await?, stream.read_u32_le().await?))
}

#[cfg(test)]
mod tests;
