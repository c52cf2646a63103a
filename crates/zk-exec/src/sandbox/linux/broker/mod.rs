//! A thread beside each command that makes the names which the command asks the kernel for, but for the guarded ones.

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

/// The step in which a filter of this is laid on a thread, in messages.
const INSTALL: &str =
    "have a filter ask before a name is made (seccomp user notification, Linux 5.14 or later)";
/// Calls that are done at a time. Those that wait for the other end of a pipe are not counted.
const MAX_WORKERS: usize = 64;
/// Threads that stay for the next calls.
const MAX_IDLE_WORKERS: usize = 4;
const STACK_BYTES: usize = 256 << 10;

/// Whether this machine can have a broker: fails with the reason, in a thread that is of no other use afterwards.
pub(super) fn check() -> io::Result<()> {
    const ALLOW: sock_filter = sock_filter { code: 0x06, jt: 0, jf: 0, k: 0x7fff_0000 };
    // A machine without this setting has nothing against it.
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    if scope.trim() == "3" {
        return Err(io::Error::other("the setting kernel.yama.ptrace_scope is 3, which allows it to nobody"))
            .step("read the paths of commands in their memory");
    }
    install(&[ALLOW]).and_then(|listener| listener.check()).step(INSTALL)
}

/// A broker that waits for the filter whose calls it answers.
pub(super) struct Broker {
    listener: mpsc::Sender<Listener>,
}

struct Shared {
    guard: Guard,
    reports: Reports,
    listener: Listener,
    /// Threads there are, and those of them that wait for a call.
    workers: AtomicUsize,
    idle: AtomicUsize,
}

impl Broker {
    /// Starts a thread with the rights of this one, which keep to it whatever this thread gives up later.
    pub(super) fn start(guarded: &[PathBuf], reports: Reports) -> io::Result<Self> {
        let guard = Guard::of(guarded);
        let (listener, comes) = mpsc::channel();
        let (ready, is_ready) = mpsc::channel();
        spawn(move || {
            let separated = separate();
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

    /// Installs the filter on this thread: from now on the broker answers those of its system calls that
    /// create names in directories.
    pub(super) fn answer(self, filter: &[sock_filter]) -> io::Result<()> {
        let listener = install(filter).step(INSTALL)?;
        self.listener.send(listener).map_err(|_| io::Error::other("the thread that makes names is gone"))
    }
}

fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name("names".into()).stack_size(STACK_BYTES).spawn(work).map(drop)
}

/// Gives this thread a directory and a mask of its own, which it changes to those of a caller.
fn separate() -> io::Result<()> {
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

/// A thread that waits for the other end of a pipe, and another one that does its work meanwhile.
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

/// Adds a thread that takes the next call. Without one, it waits until this thread has answered.
fn add_worker(shared: &Arc<Shared>) {
    shared.workers.fetch_add(1, Ordering::AcqRel);
    shared.idle.fetch_add(1, Ordering::AcqRel);
    let worker = shared.clone();
    let added = spawn(move || {
        if separate().is_ok() {
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
