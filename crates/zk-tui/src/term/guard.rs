use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::modes::{Modes, Queries};
use super::safe::{SafeText, StdStream};
use super::suspend::stop_process;
use super::tty::Tty;

/// Time limit for a screen to restore the terminal when a signal ends the process.
const LEAVE_WAIT: Duration = Duration::from_millis(500);

/// Terminal of a conversation, restored however the program ends. Clones share the terminal.
#[derive(Clone, Debug)]
pub struct TerminalGuard(Arc<State>);

#[derive(Debug)]
struct State {
    modes: Modes,
    tty: Tty,
    is_drawn: AtomicBool,
    /// Signal that the screen has to restore the terminal, since the process ends.
    leaves: Notify,
    /// Signal that the screen has to stop the process.
    suspends: Notify,
    has_left: Mutex<bool>,
    left: Condvar,
    /// Message of a panic, held back while a screen is drawn.
    panic: Mutex<String>,
}

impl TerminalGuard {
    /// Creates the guard of the terminal on standard input.
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

    /// Starts drawing on the terminal, until [`end_drawing`](Self::end_drawing).
    pub fn begin_drawing(&self, queries: Queries) -> io::Result<()> {
        self.0.modes.enter(queries)?;
        // An earlier screen may have restored the terminal.
        *self.0.has_left.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.is_drawn.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Confirms that the screen has restored the terminal.
    pub fn end_drawing(&self) {
        self.0.modes.leave();
        self.0.is_drawn.store(false, Ordering::SeqCst);
        *self.0.has_left.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.left.notify_all();
    }

    /// Holds back the messages of panics, until [`Restored`] writes them.
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

    /// Restores the terminal before a signal ends the process; the screen may draw the rest first.
    pub fn restore_before_exit(&self) {
        if self.0.is_drawn.load(Ordering::SeqCst) {
            self.0.leaves.notify_one();
            let has_left = self.0.has_left.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = self.0.left.wait_timeout_while(has_left, LEAVE_WAIT, |has_left| !*has_left);
        }
        self.0.modes.leave_for_good();
        self.0.tty.restore_for_good();
    }

    /// Restores the terminal before a signal stops the process.
    pub fn restore_before_stop(&self) {
        if self.0.is_drawn.load(Ordering::SeqCst) {
            self.0.suspends.notify_one();
        } else {
            stop_process(false);
        }
    }

    /// Waits until the screen has to leave.
    pub async fn wait_for_leave(&self) {
        self.0.leaves.notified().await;
    }

    /// Waits until the screen has to stop the process.
    pub async fn wait_for_suspend(&self) {
        self.0.suspends.notified().await;
    }
}

/// Guard that restores the terminal on drop and then prints the reason for a crash.
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
            // There is no other place to report an error.
            let _ = StdStream::Stderr.write(&text);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Panics while drawing, in the child process of the test below.
    fn panic_while_drawing() {
        let tty = Tty::of_stdin(true).unwrap();
        let guard = TerminalGuard::of_stdin(tty).unwrap();
        let _restored = Restored(guard.clone());
        guard.hold_panics();
        guard.begin_drawing(Queries::default()).unwrap();
        panic!("broken on purpose");
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test runs itself on a terminal")]
    fn a_panic_restores_the_terminal_and_is_reported_afterwards() {
        const CHILD: &str = "ZK_TEST_BREAKS_OFF";
        if std::env::var_os(CHILD).is_some() {
            panic_while_drawing();
        }
        let script = Path::new("/usr/bin/script");
        if !script.exists() {
            println!("skipped: there is no {}", script.display());
            return;
        }
        let module = module_path!().split_once("::").map(|(_, path)| path).unwrap();
        let test = std::env::current_exe().unwrap();
        let name = format!("{module}::a_panic_restores_the_terminal_and_is_reported_afterwards");
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
