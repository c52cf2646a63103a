use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::modes::{Modes, Queries};
use super::safe::{SafeText, StdStream};
use super::suspend::stop_process;
use super::tty::Tty;

/// Time limit of a screen to give the terminal back when a signal ends the process.
const LEAVE_WAIT: Duration = Duration::from_millis(500);

/// The terminal of a conversation, given back however the program ends. Clones are the same terminal.
#[derive(Clone, Debug)]
pub struct TerminalGuard(Arc<State>);

#[derive(Debug)]
struct State {
    modes: Modes,
    tty: Tty,
    is_drawn: AtomicBool,
    /// The screen shall leave: a signal ends the process.
    leaves: Notify,
    /// The screen shall stop the process.
    suspends: Notify,
    has_left: Mutex<bool>,
    left: Condvar,
    /// Message of a panic while the screen was drawn.
    panic: Mutex<String>,
}

impl TerminalGuard {
    /// The terminal on standard input.
    pub fn of_stdin(tty: Tty) -> io::Result<Self> {
        Ok(Self(Arc::new(State {
            modes: Modes::of_stdin()?,
            tty,
            is_drawn: AtomicBool::new(false),
            leaves: Notify::new(),
            suspends: Notify::new(),
            has_left: Mutex::new(false),
            left: Condvar::new(),
            panic: Mutex::default(),
        })))
    }

    /// Modes of the terminal.
    pub fn modes(&self) -> &Modes {
        &self.0.modes
    }

    /// A screen draws from now on, until [`end_drawing`](Self::end_drawing).
    pub fn begin_drawing(&self, queries: Queries) -> io::Result<()> {
        self.0.modes.enter(queries)?;
        // A screen before this one may have given the terminal back.
        *self.0.has_left.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.is_drawn.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// The screen has given the terminal back.
    pub fn end_drawing(&self) {
        self.0.modes.leave();
        self.0.is_drawn.store(false, Ordering::SeqCst);
        *self.0.has_left.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.left.notify_all();
    }

    /// Keeps the message of a panic off the screen, until [`Restored`] can write it.
    pub fn hold_panics(&self) {
        let (guard, usual) = (self.clone(), std::panic::take_hook());
        std::panic::set_hook(Box::new(move |info| {
            if guard.0.is_drawn.load(Ordering::SeqCst) {
                let mut panic = guard.0.panic.lock().unwrap_or_else(PoisonError::into_inner);
                *panic = info.to_string();
            } else {
                usual(info);
            }
        }));
    }

    /// A signal ends the process: the screen may show the rest, then the terminal is as it was.
    pub fn leave(&self) {
        if self.0.is_drawn.load(Ordering::SeqCst) {
            self.0.leaves.notify_one();
            let has_left = self.0.has_left.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = self.0.left.wait_timeout_while(has_left, LEAVE_WAIT, |has_left| !*has_left);
        }
        self.0.modes.leave_for_good();
        self.0.tty.leave();
    }

    /// A signal stops the process: a screen gives the terminal back first.
    pub fn suspend(&self) {
        if self.0.is_drawn.load(Ordering::SeqCst) {
            self.0.suspends.notify_one();
        } else {
            stop_process(false);
        }
    }

    /// Waits until the screen has to leave.
    pub async fn leaves(&self) {
        self.0.leaves.notified().await;
    }

    /// Waits until the screen has to stop the process.
    pub async fn suspends(&self) {
        self.0.suspends.notified().await;
    }
}

/// Gives the terminal back when it is dropped, and says then why the program broke off.
#[derive(Debug)]
pub struct Restored(pub TerminalGuard);

impl Drop for Restored {
    fn drop(&mut self) {
        let State { modes, is_drawn, panic, .. } = &*self.0.0;
        modes.leave_for_good();
        is_drawn.store(false, Ordering::SeqCst);
        if std::thread::panicking() {
            let why = panic.lock().unwrap_or_else(PoisonError::into_inner);
            let text = SafeText::exact(&format!("\n{why}\n"), StdStream::Stderr.reader());
            // Nobody is left to tell.
            let _ = StdStream::Stderr.write(&text);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Breaks off while it draws, as the child of the test below.
    fn break_off() {
        let tty = Tty::of_stdin(true).unwrap();
        let guard = TerminalGuard::of_stdin(tty).unwrap();
        let _restored = Restored(guard.clone());
        guard.hold_panics();
        guard.begin_drawing(Queries::default()).unwrap();
        panic!("broken on purpose");
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test runs itself on a terminal")]
    fn a_panic_gives_the_terminal_back_and_is_told_afterwards() {
        const CHILD: &str = "ZK_TEST_BREAKS_OFF";
        if std::env::var_os(CHILD).is_some() {
            break_off();
        }
        let script = Path::new("/usr/bin/script");
        if !script.exists() {
            println!("skipped: there is no {}", script.display());
            return;
        }
        let module = module_path!().split_once("::").map(|(_, path)| path).unwrap();
        let test = std::env::current_exe().unwrap();
        let name = format!("{module}::a_panic_gives_the_terminal_back_and_is_told_afterwards");
        let command = format!("{} --exact {name} --nocapture; stty -a", test.display());
        let mut run = std::process::Command::new(script);
        run.args(["-qfec", &command, "/dev/null"]).env(CHILD, "1");
        let output = run.output().unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        let (before, after) = shown.split_once("broken on purpose").unwrap_or_else(|| panic!("{shown}"));
        assert!(before.contains("\u{1b}[?2004h") && before.contains("\u{1b}[?2004l"), "{shown}");
        assert!(before.contains("\u{1b}[<u") && before.contains("\u{1b}[?25h"), "{shown}");
        let is_on = |name: &str| after.split_whitespace().any(|mode| mode == name);
        assert!(["icanon", "echo", "isig", "icrnl"].into_iter().all(is_on), "{shown}");
    }
}
