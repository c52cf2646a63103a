use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustix::process::Signal as Sent;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::exit::Exit;

/// Time limit of a stopped run to end before the process ends without it.
const GRACE: Duration = Duration::from_secs(5);

/// Handling of SIGINT and SIGTERM: the first stops what is armed, the second ends the process at once.
///
/// They are watched on a thread of their own, so that they work while the run waits for a slow reader.
#[derive(Clone)]
pub(crate) struct Signals(Arc<State>);

struct State {
    /// The exit code of the first signal since something was armed; 0 without one.
    seen: AtomicU8,
    armed: Mutex<Option<Armed>>,
    on_leave: Box<dyn Fn() + Send + Sync>,
    on_suspend: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Wakes the watcher once there is `on_suspend`.
    draws: Notify,
}

struct Armed {
    stop: CancellationToken,
    forced: bool,
    on_stop: Box<dyn Fn() + Send>,
}

impl Signals {
    /// Watches from now on; `on_leave` is called before a signal ends the process.
    pub(crate) fn watch(on_leave: impl Fn() + Send + Sync + 'static) -> std::io::Result<Self> {
        let signals = Self(Arc::new(State {
            seen: AtomicU8::new(0),
            armed: Mutex::default(),
            on_leave: Box::new(on_leave),
            on_suspend: OnceLock::new(),
            draws: Notify::new(),
        }));
        let (ready, registered) = std::sync::mpsc::sync_channel(1);
        let watcher = signals.clone();
        std::thread::Builder::new().name("signals".to_owned()).stack_size(128 * 1024).spawn(move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(ready.send(Err(error))),
            };
            runtime.block_on(async {
                let both = signal(SignalKind::interrupt())
                    .and_then(|interrupt| Ok((interrupt, signal(SignalKind::terminate())?)));
                let (mut interrupt, mut terminate) = match both {
                    Ok(both) => both,
                    Err(error) => return drop(ready.send(Err(error))),
                };
                // A write beyond the limit of file sizes fails then, and ends no process.
                let _too_large = signal(SignalKind::from_raw(Sent::XFSZ.as_raw()));
                drop(ready.send(Ok(())));
                let mut suspend = None;
                loop {
                    let exit = tokio::select! {
                        Some(()) = interrupt.recv() => Exit::Interrupted,
                        Some(()) = terminate.recv() => Exit::Terminated,
                        () = watcher.0.draws.notified() => {
                            watcher.watch_deadly();
                            suspend = signal(SignalKind::from_raw(Sent::TSTP.as_raw())).ok();
                            continue;
                        }
                        Some(()) = received(suspend.as_mut()) => {
                            if let Some(suspend) = watcher.0.on_suspend.get() {
                                suspend();
                            }
                            continue;
                        }
                        else => return,
                    };
                    watcher.take(exit);
                }
            });
        })?;
        registered.recv().map_err(std::io::Error::other)??;
        Ok(signals)
    }

    /// Has SIGTSTP call `suspend` from now on, and signals that would end the process with the terminal as it is end it
    /// in order: something draws on the whole terminal.
    pub(crate) fn on_suspend(&self, suspend: impl Fn() + Send + Sync + 'static) {
        if self.0.on_suspend.set(Box::new(suspend)).is_ok() {
            self.0.draws.notify_one();
        }
    }

    /// Ends the process in order where one of these signals would end it as it is.
    fn watch_deadly(&self) {
        let kinds = [
            Sent::QUIT,
            Sent::ALARM,
            Sent::USR1,
            Sent::USR2,
            Sent::VTALARM,
            Sent::PROF,
            Sent::XCPU,
            Sent::XFSZ,
            Sent::SYS,
            Sent::TRAP,
            Sent::ABORT,
            #[cfg(target_os = "linux")]
            Sent::IO,
            #[cfg(target_os = "linux")]
            Sent::POWER,
        ];
        for kind in kinds {
            let Ok(mut watched) = signal(SignalKind::from_raw(kind.as_raw())) else { continue };
            let signals = self.clone();
            tokio::spawn(async move {
                if watched.recv().await.is_some() {
                    signals.leave(Exit::Terminated);
                }
            });
        }
    }

    /// The next signal stops `stop` and calls `on_stop`. The process ends soon after, if need be by force.
    pub(crate) fn arm_process(&self, stop: CancellationToken, on_stop: impl Fn() + Send + 'static) {
        self.arm(Armed { stop, forced: true, on_stop: Box::new(on_stop) });
    }

    /// The next signal stops `stop`, and the process goes on.
    pub(crate) fn arm_run(&self, stop: CancellationToken) {
        self.arm(Armed { stop, forced: false, on_stop: Box::new(|| ()) });
    }

    fn arm(&self, armed: Armed) {
        self.0.seen.store(0, Ordering::SeqCst);
        *self.armed() = Some(armed);
    }

    /// From now on SIGINT is left to whoever reads the terminal; SIGTERM ends the process.
    pub(crate) fn disarm(&self) {
        *self.armed() = None;
    }

    /// The signal that came since something was armed.
    pub(crate) fn seen(&self) -> Option<Exit> {
        match self.0.seen.load(Ordering::SeqCst) {
            0 => None,
            143 => Some(Exit::Terminated),
            _ => Some(Exit::Interrupted),
        }
    }

    fn take(&self, exit: Exit) {
        let armed = self.armed();
        let again = self.0.seen.swap(exit.code(), Ordering::SeqCst) != 0;
        match &*armed {
            None if exit == Exit::Interrupted => {}
            Some(armed) if !again => {
                armed.stop.cancel();
                (armed.on_stop)();
                if !armed.forced && exit == Exit::Interrupted {
                    return;
                }
                let signals = self.clone();
                std::thread::spawn(move || {
                    std::thread::sleep(GRACE);
                    if signals.armed().is_some() && signals.seen() == Some(exit) {
                        signals.leave(exit);
                    }
                });
            }
            None | Some(_) => self.leave(exit),
        }
    }

    fn armed(&self) -> std::sync::MutexGuard<'_, Option<Armed>> {
        self.0.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the process at once: for a second signal, or a run that does not end.
    fn leave(&self, exit: Exit) {
        (self.0.on_leave)();
        std::process::exit(exit.code().into());
    }
}

/// The next of these signals; waits for good where none is watched.
async fn received(watched: Option<&mut tokio::signal::unix::Signal>) -> Option<()> {
    match watched {
        Some(watched) => watched.recv().await,
        None => std::future::pending().await,
    }
}
