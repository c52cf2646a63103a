use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustix::process::Signal as Sent;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::interrupts::{Interruption, Interrupts};

/// Time limit of a stopped run to end before the process ends without it.
const GRACE: Duration = Duration::from_secs(5);

/// Watcher of SIGINT and SIGTERM: the first signal cancels the armed token, the second ends the process at once.
///
/// Runs on its own thread, so that signals work while the run waits for a slow reader. The host ends the process: see
/// [`Signals::watch`].
#[derive(Clone)]
pub struct Signals(Arc<State>);

struct State {
    /// First signal since the last `arm`, by [`number`]; 0 without one.
    seen: AtomicU8,
    armed: Mutex<Option<Armed>>,
    on_leave: Box<dyn Fn(Interruption) + Send + Sync>,
    on_suspend: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Wakes the watching thread once `on_suspend` is set.
    draws: Notify,
    /// Wakes the watching thread once the process runs without a screen, which would end it in order at a hang-up.
    is_unattended: Notify,
}

struct Armed {
    stop: CancellationToken,
    forced: bool,
    on_stop: Box<dyn Fn() + Send>,
}

impl Signals {
    /// Starts watching. `on_leave` is called when a signal has to end the process, and ends it.
    ///
    /// # Errors
    /// When no thread or handler can be created.
    pub fn watch(on_leave: impl Fn(Interruption) + Send + Sync + 'static) -> std::io::Result<Self> {
        let signals = Self(Arc::new(State {
            seen: AtomicU8::new(0),
            armed: Mutex::default(),
            on_leave: Box::new(on_leave),
            on_suspend: OnceLock::new(),
            draws: Notify::new(),
            is_unattended: Notify::new(),
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
                // A write beyond the file size limit fails then, instead of ending the process.
                let _too_large = signal(SignalKind::from_raw(Sent::XFSZ.as_raw()));
                drop(ready.send(Ok(())));
                let (mut suspend, mut hangup) = (None, None);
                loop {
                    let received_signal = tokio::select! {
                        Some(()) = interrupt.recv() => Interruption::Interrupted,
                        Some(()) = terminate.recv() => Interruption::Terminated,
                        () = watcher.0.draws.notified() => {
                            watcher.watch_fatal_signals();
                            suspend = signal(SignalKind::from_raw(Sent::TSTP.as_raw())).ok();
                            continue;
                        }
                        () = watcher.0.is_unattended.notified() => {
                            // `nohup` has it ignored, and it stays so.
                            if !is_hangup_ignored() {
                                hangup = signal(SignalKind::hangup()).ok();
                            }
                            continue;
                        }
                        Some(()) = next_signal(hangup.as_mut()) => Interruption::Terminated,
                        Some(()) = next_signal(suspend.as_mut()) => {
                            if let Some(suspend) = watcher.0.on_suspend.get() {
                                suspend();
                            }
                            continue;
                        }
                        else => return,
                    };
                    watcher.handle_signal(received_signal);
                }
            });
        })?;
        registered.recv().map_err(std::io::Error::other)??;
        Ok(signals)
    }

    /// Watches the signals that would end the process without restoring the terminal, and ends it in order.
    fn watch_fatal_signals(&self) {
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
                    signals.end_process(Interruption::Terminated);
                }
            });
        }
    }

    /// Makes the next signal cancel `stop` and call `on_stop`. The process ends soon after, by force after a time limit.
    /// A hang-up (SIGHUP) then counts as a termination request.
    pub fn arm_process(&self, stop: CancellationToken, on_stop: impl Fn() + Send + 'static) {
        self.0.is_unattended.notify_one();
        self.set_armed(Armed { stop, forced: true, on_stop: Box::new(on_stop) });
    }

    fn set_armed(&self, armed: Armed) {
        self.0.seen.store(0, Ordering::SeqCst);
        *self.lock_armed() = Some(armed);
    }

    fn handle_signal(&self, signal: Interruption) {
        let armed = self.lock_armed();
        let again = self.0.seen.swap(code_of(signal), Ordering::SeqCst) != 0;
        match &*armed {
            None if signal == Interruption::Interrupted => {}
            Some(armed) if !again => {
                armed.stop.cancel();
                (armed.on_stop)();
                if !armed.forced && signal == Interruption::Interrupted {
                    return;
                }
                let signals = self.clone();
                std::thread::spawn(move || {
                    std::thread::sleep(GRACE);
                    if signals.lock_armed().is_some() && signals.seen() == Some(signal) {
                        signals.end_process(signal);
                    }
                });
            }
            None | Some(_) => self.end_process(signal),
        }
    }

    fn lock_armed(&self) -> std::sync::MutexGuard<'_, Option<Armed>> {
        self.0.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the process at once: for a second signal, or a run that does not end.
    fn end_process(&self, signal: Interruption) {
        (self.0.on_leave)(signal);
    }
}

impl fmt::Debug for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signals").field("seen", &self.seen()).finish_non_exhaustive()
    }
}

impl Interrupts for Signals {
    fn arm(&self, stop: CancellationToken) {
        self.set_armed(Armed { stop, forced: false, on_stop: Box::new(|| ()) });
    }

    fn disarm(&self) {
        *self.lock_armed() = None;
    }

    fn seen(&self) -> Option<Interruption> {
        match self.0.seen.load(Ordering::SeqCst) {
            0 => None,
            TERMINATED => Some(Interruption::Terminated),
            _ => Some(Interruption::Interrupted),
        }
    }

    fn on_suspend(&self, suspend: Box<dyn Fn() + Send + Sync>) {
        if self.0.on_suspend.set(suspend).is_ok() {
            self.0.draws.notify_one();
        }
    }
}

/// Code of a termination request in [`State::seen`].
const TERMINATED: u8 = 2;

fn code_of(signal: Interruption) -> u8 {
    match signal {
        Interruption::Interrupted => 1,
        Interruption::Terminated => TERMINATED,
    }
}

/// Whether the process was started with an ignored SIGHUP; true where the system does not tell.
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // The lowest bit is that of signal 1.
    ignored.is_none_or(|mask| mask & 1 == 1)
}

/// Waits for the next signal; never returns if the signal is not watched.
async fn next_signal(watched: Option<&mut tokio::signal::unix::Signal>) -> Option<()> {
    match watched {
        Some(watched) => watched.recv().await,
        None => std::future::pending().await,
    }
}
