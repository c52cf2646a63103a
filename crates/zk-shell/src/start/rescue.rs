use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use zk_exec::{PersonCommand, PersonTerminal};

use crate::ShellKind;
use crate::pump::{OutputGate, SharedState, edits_line};
use crate::settings::ChordKey;

/// Shell that runs if no other one starts.
const LAST_SHELL: &str = "/bin/sh";

/// Time after which start files without a prompt are reported. An end of the shell within it counts as a failed start.
pub(crate) const START_WAIT: Duration = Duration::from_secs(10);

/// State of the offer to replace a shell that shows no prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Offer {
    #[default]
    None,
    /// The person was told that the start files run without an end.
    Told,
    /// The person was asked whether the shell is to be ended.
    Asked,
}

/// Meaning of the chord at the start of a shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartChord {
    /// Call of the agent.
    Call,
    /// First press: the person is asked whether the shell is to be ended.
    Ask,
    /// Answer to the question: this process is to be ended, so that a plain shell replaces it.
    Replace(u32),
}

/// Fallback for a shell that ends, or shows no prompt, at its start: plain shells without start files.
#[derive(Debug)]
pub(crate) struct Rescue {
    /// Program of the shell.
    program: PathBuf,
    /// Key that calls the agent.
    chord: ChordKey,
    /// Time at which the shell started.
    pub(crate) since: Instant,
    /// Process id of the shell; 0 before its start, after its end, and for a plain shell.
    pid: AtomicU32,
    /// Whether the shell has marks, so that a first prompt is known.
    is_marked: bool,
    /// Whether the person asked for a plain shell.
    is_wanted: AtomicBool,
    offer: Mutex<Offer>,
    /// Plain shells, the preferred one first.
    plain: Vec<PersonCommand>,
}

impl Rescue {
    /// Creates the fallback for the shell of `command`.
    pub(crate) fn of(
        command: &PersonCommand,
        kind: Option<ShellKind>,
        is_marked: bool,
        chord: ChordKey,
    ) -> Self {
        let bare = |program: &Path| {
            let mut plain = PersonCommand::new(program, command.cwd.clone());
            plain.env.clone_from(&command.env);
            // These variables name start files.
            plain.env.retain(|(name, _)| name != "ENV" && name != "BASH_ENV");
            plain
        };
        let own = kind.map(|kind| {
            let plain = bare(&command.program);
            match kind {
                ShellKind::Bash => plain.arg("--noprofile").arg("--norc").arg("-i"),
                ShellKind::Zsh => plain.arg("-f").arg("-i"),
                ShellKind::Fish => plain.arg("--no-config").arg("-i"),
            }
        });
        Self {
            program: command.program.clone(),
            chord,
            since: Instant::now(),
            pid: AtomicU32::new(0),
            is_marked,
            is_wanted: AtomicBool::new(false),
            offer: Mutex::default(),
            plain: own.into_iter().chain([bare(Path::new(LAST_SHELL))]).collect(),
        }
    }

    /// Plain shells, the preferred one first.
    pub(crate) fn plain_shells(&self) -> &[PersonCommand] {
        &self.plain
    }

    /// Sets the process id of the shell that a plain shell may replace.
    pub(crate) fn set_pid(&self, pid: u32) {
        self.pid.store(pid, Ordering::SeqCst);
    }

    /// Waits for the end of the shell, and of plain shells that replace it; returns the exit code. Blocks.
    pub(crate) fn wait_for_shell(
        &self,
        terminal: &mut PersonTerminal,
        gate: &OutputGate,
        shared: &SharedState,
    ) -> u8 {
        shared.set_shell(terminal.id());
        let mut code = terminal.wait().unwrap_or(1);
        self.pid.store(0, Ordering::SeqCst);
        for plain in &self.plain {
            let is_wanted = self.is_wanted.swap(false, Ordering::SeqCst);
            if !is_wanted && (self.since.elapsed() > START_WAIT || !shared.line().is_unused()) {
                break;
            }
            let end = if is_wanted { "was ended".to_owned() } else { format!("ended with code {code}") };
            let notice = format!(
                "\r\nzk: {} {end} before its first prompt; {} without start files runs now, and {} calls the agent\r\n",
                self.program.display(),
                plain.program.display(),
                self.chord,
            );
            if gate.write(notice.as_bytes()).is_err() || terminal.restart(plain).is_err() {
                continue;
            }
            shared.set_shell(terminal.id());
            code = terminal.wait().unwrap_or(1);
        }
        code
    }

    /// Tells the person that the start files run without an end, unless a prompt came or somebody uses the shell.
    pub(crate) fn offer_plain_shell(&self, terminal: &File, gate: &OutputGate, shared: &SharedState) {
        if !self.is_marked || shared.modes().is_alternate || self.stuck_process(terminal, shared).is_none() {
            return;
        }
        *self.offer() = Offer::Told;
        let notice = format!(
            "\r\nzk: {} has shown no prompt for {} s: its start files go on; Ctrl-C may end them, and {} starts a shell without them\r\n",
            self.program.display(),
            START_WAIT.as_secs(),
            self.chord,
        );
        // A terminal that is gone ends the session.
        let _ = gate.write(notice.as_bytes());
    }

    /// Decides what the chord means now. The first press after the offer asks, and only a second one, with no other key
    /// between both, ends the shell.
    pub(crate) fn press_chord(&self, terminal: &File, gate: &OutputGate, shared: &SharedState) -> StartChord {
        let mut offer = self.offer();
        let stuck = self.stuck_process(terminal, shared);
        let (next, chord) = match (*offer, stuck) {
            (Offer::Told, Some(_)) => (Offer::Asked, StartChord::Ask),
            (Offer::Asked, Some(pid)) => (Offer::None, StartChord::Replace(pid)),
            (Offer::None, _) | (Offer::Told | Offer::Asked, None) => (Offer::None, StartChord::Call),
        };
        *offer = next;
        self.is_wanted.store(matches!(chord, StartChord::Replace(_)), Ordering::SeqCst);
        if chord == StartChord::Ask {
            let question = format!(
                "\r\nzk: end {} and start it without its start files? {} again ends it; with any other key it goes on\r\n",
                self.program.display(),
                self.chord,
            );
            // A terminal that is gone ends the session.
            let _ = gate.write(question.as_bytes());
        }
        chord
    }

    /// Id of the shell's process, if its start files go on. A shell that edits a line is at a prompt that no mark tells.
    fn stuck_process(&self, terminal: &File, shared: &SharedState) -> Option<u32> {
        let pid = self.pid.load(Ordering::SeqCst);
        let is_stuck = pid != 0
            && shared.line().is_unused()
            && !self.runs_another_program(pid)
            && !edits_line(terminal, pid);
        is_stuck.then_some(pid)
    }

    fn offer(&self) -> MutexGuard<'_, Offer> {
        self.offer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the process runs another program by now, such as a terminal multiplexer.
    fn runs_another_program(&self, pid: u32) -> bool {
        let Ok(now) = std::fs::read_link(format!("/proc/{pid}/exe")) else { return false };
        self.program.canonicalize().is_ok_and(|program| program != now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chord_ends_a_process_that_is_there_and_only_after_a_question() {
        let rescue = Rescue::of(
            &PersonCommand::new("/no/such/shell", "/"),
            Some(ShellKind::Bash),
            true,
            ChordKey::default(),
        );
        let (shared, gate, terminal) =
            (SharedState::default(), OutputGate::new(None), File::open("/dev/null").unwrap());
        gate.close();
        let press = || rescue.press_chord(&terminal, &gate, &shared);
        rescue.set_pid(1);
        assert_eq!(press(), StartChord::Call, "nothing was offered");
        *rescue.offer() = Offer::Told;
        assert_eq!((press(), rescue.is_wanted.load(Ordering::SeqCst)), (StartChord::Ask, false));
        assert_eq!((press(), rescue.is_wanted.load(Ordering::SeqCst)), (StartChord::Replace(1), true));
        *rescue.offer() = Offer::Asked;
        rescue.set_pid(0);
        assert_eq!((press(), rescue.is_wanted.load(Ordering::SeqCst)), (StartChord::Call, false));
        rescue.set_pid(1);
        *rescue.offer() = Offer::Asked;
        shared.line().record_typed(b"n");
        assert_eq!(press(), StartChord::Call, "another key was an answer");
    }

    #[test]
    fn a_plain_shell_reads_no_start_files() {
        let command = PersonCommand::new("/usr/bin/zsh", "/").env("ENV", "/evil").env("HOME", "/home/me");
        let rescue = Rescue::of(&command, Some(ShellKind::Zsh), true, ChordKey::default());
        let [own, last] = rescue.plain_shells() else { panic!("{rescue:?}") };
        assert_eq!(
            (own.program.as_path(), &own.args[..]),
            (Path::new("/usr/bin/zsh"), &["-f".into(), "-i".into()][..])
        );
        assert_eq!(last.program, Path::new(LAST_SHELL));
        assert!([own, last].iter().all(|plain| plain.env == [("HOME".into(), "/home/me".into())]));
        assert_eq!(Rescue::of(&command, None, false, ChordKey::default()).plain_shells().len(), 1);
    }
}
