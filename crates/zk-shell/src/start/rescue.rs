use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use zk_exec::{PersonCommand, PersonTerminal};

use crate::ShellKind;
use crate::pump::{OutputGate, SharedState};
use crate::settings::ChordKey;

/// Shell that runs if no other one starts.
const LAST_SHELL: &str = "/bin/sh";

/// Time after which start files without a prompt are reported. An end of the shell within it counts as a failed start.
pub(crate) const START_WAIT: Duration = Duration::from_secs(10);

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
    /// Whether the person was told that the start files run without an end.
    is_offered: AtomicBool,
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
            is_offered: AtomicBool::new(false),
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
            code = terminal.wait().unwrap_or(1);
        }
        code
    }

    /// Tells the person that the start files run without an end, unless a prompt came or somebody uses the shell.
    pub(crate) fn offer_plain_shell(&self, gate: &OutputGate, shared: &SharedState) {
        let pid = self.pid.load(Ordering::SeqCst);
        if pid == 0
            || !self.is_marked
            || !shared.line().is_unused()
            || shared.modes().is_alternate
            || self.runs_another_program(pid)
        {
            return;
        }
        self.is_offered.store(true, Ordering::SeqCst);
        let notice = format!(
            "\r\nzk: {} has shown no prompt for {} s: its start files go on; Ctrl-C may end them, and {} starts a shell without them\r\n",
            self.program.display(),
            START_WAIT.as_secs(),
            self.chord,
        );
        // A terminal that is gone ends the session.
        let _ = gate.write(notice.as_bytes());
    }

    /// Id of the process that the chord ends now, so that a plain shell replaces it; `None` if the chord calls the
    /// agent.
    pub(crate) fn process_to_replace(&self, shared: &SharedState) -> Option<u32> {
        let pid = self.pid.load(Ordering::SeqCst);
        let is_stuck = self.is_offered.swap(false, Ordering::SeqCst)
            && pid != 0
            && shared.line().is_unused()
            && !self.runs_another_program(pid);
        self.is_wanted.store(is_stuck, Ordering::SeqCst);
        is_stuck.then_some(pid)
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
    fn the_chord_ends_no_process_that_is_gone() {
        let rescue = Rescue::of(
            &PersonCommand::new("/no/such/shell", "/"),
            Some(ShellKind::Bash),
            true,
            ChordKey::default(),
        );
        let shared = SharedState::default();
        for (pid, expected) in [(1, Some(1)), (0, None)] {
            rescue.set_pid(pid);
            rescue.is_offered.store(true, Ordering::SeqCst);
            assert_eq!(rescue.process_to_replace(&shared), expected);
            assert_eq!(rescue.is_wanted.load(Ordering::SeqCst), expected.is_some());
        }
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
