//! Broker: a thread beside each command that carries out the command's system calls which create names, and
//! refuses guarded names.

mod calls;
mod guard;
mod notice;
mod reports;
mod resolve;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use rustix::thread::UnshareFlags;
use seccompiler::sock_filter;

use super::sys::{Step, unshare};
use calls::Caller;
use guard::Guard;
use notice::{Listener, install};
pub(crate) use reports::ReportReader;
pub(super) use reports::{Reported, Reports, channel};

/// Name of the set-up step in error messages.
const INSTALL: &str =
    "have a filter ask before a name is made (seccomp user notification, Linux 5.14 or later)";
/// Maximum number of calls that are carried out at a time. Calls that wait for the other end of a pipe do not
/// count.
const MAX_WORKERS: usize = 64;
/// Idle threads that are kept for further calls.
const MAX_IDLE_WORKERS: usize = 4;
const STACK_BYTES: usize = 256 << 10;

/// Checks that this machine supports a broker. Uses up its thread, which is filtered afterwards.
pub(super) fn check() -> io::Result<()> {
    const ALLOW: sock_filter = sock_filter { code: 0x06, jt: 0, jf: 0, k: 0x7fff_0000 };
    // A kernel without Yama has no such restriction.
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    if scope.trim() == "3" {
        return Err(io::Error::other("the setting kernel.yama.ptrace_scope is 3, which allows it to nobody"))
            .step("read the paths of commands in their memory");
    }
    install(&[ALLOW]).and_then(|listener| listener.check()).step(INSTALL)
}

/// Broker that waits for the filter of its command.
pub(super) struct Broker {
    listener: mpsc::Sender<Listener>,
}

struct Shared {
    guard: Guard,
    reports: Reports,
    listener: Listener,
    /// Number of worker threads, and of the idle workers among them.
    workers: AtomicUsize,
    idle: AtomicUsize,
}

impl Broker {
    /// Starts a thread that keeps this thread's rights, even if this thread drops them later.
    pub(super) fn start(guarded: &[PathBuf], reports: Reports) -> io::Result<Self> {
        let guard = Guard::of(guarded);
        let (listener, comes) = mpsc::channel();
        let (ready, is_ready) = mpsc::channel();
        spawn(move || {
            let separated = unshare_fs();
            let failed = separated.is_err();
            let told = ready.send(separated);
            if failed || told.is_err() {
                return;
            }
            let Ok(listener) = comes.recv() else { return };
            let (workers, idle) = (AtomicUsize::new(1), AtomicUsize::new(1));
            serve(&Arc::new(Shared { guard, reports, listener, workers, idle }));
        })?;
        is_ready.recv().map_err(io::Error::other)??;
        Ok(Self { listener })
    }

    /// Installs the filter on this thread: from now on the broker answers its system calls that create names
    /// in directories.
    pub(super) fn answer(self, filter: &[sock_filter]) -> io::Result<()> {
        let listener = install(filter).step(INSTALL)?;
        self.listener.send(listener).map_err(|_| io::Error::other("the thread that makes names is gone"))
    }
}

fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name("names".into()).stack_size(STACK_BYTES).spawn(work).map(drop)
}

/// Gives this thread its own working directory and umask, which are later set to a caller's.
fn unshare_fs() -> io::Result<()> {
    unshare(UnshareFlags::FS)
}

fn serve(shared: &Arc<Shared>) {
    while let Ok(notice) = shared.listener.next() {
        let was_last_idle = shared.idle.fetch_sub(1, Ordering::AcqRel) == 1;
        if was_last_idle && shared.workers.load(Ordering::Acquire) < MAX_WORKERS {
            add_worker(shared);
        }
        let waiting = || Waiting::begin(shared);
        let Shared { guard, reports, listener, .. } = &**shared;
        Caller { notice, listener, guard, reports, waiting: &waiting }.answer();
        shared.idle.fetch_add(1, Ordering::AcqRel);
        let fewer = |idle: usize| idle.checked_sub(1).filter(|left| *left >= MAX_IDLE_WORKERS);
        if shared.idle.fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer).is_ok() {
            break;
        }
    }
    shared.workers.fetch_sub(1, Ordering::AcqRel);
}

/// Blocked worker: another worker takes calls that arrive in the meantime.
pub(super) struct Waiting<'a>(&'a Shared);

impl<'a> Waiting<'a> {
    fn begin(shared: &'a Arc<Shared>) -> Self {
        shared.workers.fetch_sub(1, Ordering::AcqRel);
        if shared.idle.load(Ordering::Acquire) == 0 {
            add_worker(shared);
        }
        Self(shared)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.workers.fetch_add(1, Ordering::AcqRel);
    }
}

/// Adds a worker for the next call. If that fails, the next call waits until this thread is done.
fn add_worker(shared: &Arc<Shared>) {
    shared.workers.fetch_add(1, Ordering::AcqRel);
    shared.idle.fetch_add(1, Ordering::AcqRel);
    let worker = shared.clone();
    let added = spawn(move || {
        if unshare_fs().is_ok() {
            return serve(&worker);
        }
        worker.workers.fetch_sub(1, Ordering::AcqRel);
        worker.idle.fetch_sub(1, Ordering::AcqRel);
    });
    if added.is_err() {
        shared.workers.fetch_sub(1, Ordering::AcqRel);
        shared.idle.fetch_sub(1, Ordering::AcqRel);
    }
}
