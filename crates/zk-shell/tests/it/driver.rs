//! Terminal with the scripted shell, or the bare one, on it.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a helper of a test that cannot go on fails the test"
)]
#![expect(clippy::disallowed_methods, reason = "programs are found where the tests run")]

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write, stdin};
use std::num::NonZeroU16;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::termios::{Winsize, tcsetwinsize};
use zk_exec::{PersonCommand, PersonTerminal};

/// Time that a program on a busy machine may take.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Prompt of the shells in these tests.
pub(crate) const PROMPT: &str = "ready> ";

/// Size of the terminal.
pub(crate) const ROWS: u16 = 24;
pub(crate) const COLUMNS: u16 = 80;

/// Home of a person, with start files for all shells.
pub(crate) struct Home(pub(crate) tempfile::TempDir);

impl Home {
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let write = |name: &str, text: String| std::fs::write(home.path().join(name), text).unwrap();
        write(".bashrc", format!("PS1='{PROMPT}'\nPS2='more> '\nHISTFILE=\n"));
        write(".zshrc", format!("PROMPT='{PROMPT}'\nPROMPT2='more> '\nunsetopt prompt_sp\n"));
        std::fs::create_dir_all(home.path().join(".config/fish")).unwrap();
        let prompt = format!("function fish_prompt; printf '{PROMPT}'; end\nset -g fish_greeting\n");
        write(".config/fish/config.fish", prompt);
        Self(home)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// The scripted shell, which cargo builds with the tests.
pub(crate) fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().unwrap().parent().unwrap().join("examples/scripted_shell");
    assert!(program.exists(), "{} is missing: cargo build -p zk-harness-shell --examples", program.display());
    program
}

/// Program of this name, if it is installed.
pub(crate) fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .chain(["/usr/sbin".into()])
        .map(|dir| dir.join(name))
        .find(|file| file.is_file());
    if found.is_none() {
        println!("skipped: {name} is not installed");
    }
    found
}

#[derive(Default)]
struct Seen {
    bytes: Mutex<Vec<u8>>,
    more: Condvar,
}

pub(crate) struct Driver {
    terminal: PersonTerminal,
    keys: File,
    seen: Arc<Seen>,
    reading: Option<JoinHandle<()>>,
    /// Bytes that were expected.
    from: usize,
    /// Number of bytes before the terminal got another size, and its columns and rows then.
    resized: Option<(usize, u16, u16)>,
}

impl Drop for Driver {
    fn drop(&mut self) {
        // A test that fails leaves no shell behind; one that ended is gone.
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.terminal.id()).unwrap()).unwrap();
        if self.reading.as_ref().is_some_and(|reading| !reading.is_finished()) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::HUP);
        }
    }
}

impl Driver {
    /// The shell named `shell`, with zk or without.
    pub(crate) fn shell(home: &Home, shell: &str, with_zk: bool) -> Option<Self> {
        let shell = installed(shell)?;
        let command = if with_zk {
            PersonCommand::new(program(), home.path()).arg(shell)
        } else {
            PersonCommand::new(shell, home.path()).arg("-i")
        };
        Some(Self::start(home, command))
    }

    pub(crate) fn start(home: &Home, command: PersonCommand) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let env: [(&str, OsString); 6] = [
            ("HOME", home.path().into()),
            ("PATH", path),
            ("TERM", "xterm-256color".into()),
            ("LC_ALL", "C.UTF-8".into()),
            ("SHELL", "/bin/bash".into()),
            ("ESCDELAY", "25".into()),
        ];
        let command = env.into_iter().fold(command, |command, (name, value)| {
            if command.env.iter().any(|(known, _)| known == name) {
                command
            } else {
                command.env(name, value)
            }
        });
        let terminal = PersonTerminal::start(&command, stdin()).unwrap();
        let (mut reader, keys) = (terminal.handle().unwrap(), terminal.handle().unwrap());
        let size = Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&keys, size).unwrap();
        let seen = Arc::new(Seen::default());
        let (shared, mut answers) = (seen.clone(), keys.try_clone().unwrap());
        let reading = std::thread::spawn(move || {
            let mut buffer = vec![0; 65_536];
            let mut emulator = emulator();
            while let Ok(read @ 1..) = reader.read(&mut buffer) {
                let bytes = &buffer[..read];
                emulator.process(bytes);
                for (asked, answer) in
                    [("\x1b[c", "\x1b[?62;22c"), ("\x1b[>c", "\x1b[>1;1;0c"), ("\x1b[5n", "\x1b[0n")]
                {
                    if contains(bytes, asked.as_bytes()) {
                        answers.write_all(answer.as_bytes()).unwrap();
                    }
                }
                if contains(bytes, b"\x1b[6n") {
                    let (row, column) = emulator.screen().cursor_position();
                    write!(answers, "\x1b[{};{}R", row + 1, column + 1).unwrap();
                }
                shared.bytes.lock().unwrap().extend_from_slice(bytes);
                shared.more.notify_all();
            }
            shared.more.notify_all();
        });
        Self { terminal, keys, seen, reading: Some(reading), from: 0, resized: None }
    }

    /// Gives the terminal another size.
    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.keys, size).unwrap();
        self.resized = Some((self.bytes().len(), columns, rows));
    }

    pub(crate) fn keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// All bytes so far.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.seen.bytes.lock().unwrap().clone()
    }

    /// Waits until `is_so` holds for the bytes that were not expected yet; returns them.
    pub(crate) fn wait(&self, what: &str, is_so: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let end = Instant::now() + LONG;
        let mut bytes = self.seen.bytes.lock().unwrap();
        loop {
            if is_so(&bytes[self.from..]) {
                return bytes[self.from..].to_vec();
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "`{what}` does not come: {:?}",
                String::from_utf8_lossy(&bytes[self.from..])
            );
            bytes = self.seen.more.wait_timeout(bytes, left).unwrap().0;
        }
    }

    /// Waits for a text, and forgets everything up to it; returns what came before it.
    pub(crate) fn expect(&mut self, text: &str) -> String {
        let came = self.wait(text, |bytes| contains(bytes, text.as_bytes()));
        let at = position(&came, text.as_bytes()).unwrap();
        self.from += at + text.len();
        String::from_utf8_lossy(&came[..at]).into_owned()
    }

    /// Whether a text that was not expected yet comes within two seconds.
    pub(crate) fn has_soon(&self, text: &str) -> bool {
        let begun = Instant::now();
        loop {
            let has_come = contains(&self.bytes()[self.from..], text.as_bytes());
            if has_come || begun.elapsed() > Duration::from_secs(2) {
                return has_come;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Screen as it stands.
    pub(crate) fn screen(&self) -> String {
        let (mut emulator, bytes, mut from, mut width) = (emulator(), self.bytes(), 0, COLUMNS);
        if let Some((before, columns, rows)) = self.resized {
            emulator.process(&bytes[..before]);
            emulator.set_size(NonZeroU16::new(rows).unwrap(), NonZeroU16::new(columns).unwrap());
            (from, width) = (before, columns);
        }
        emulator.process(&bytes[from..]);
        let rows: Vec<String> =
            emulator.screen().rows(0, width).map(|row| row.trim_end().to_owned()).collect();
        rows.join("\n").trim_end().to_owned()
    }

    /// Waits until the screen is as told.
    pub(crate) fn wait_screen(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if is_so(&screen) {
                return;
            }
            assert!(begun.elapsed() < LONG, "the screen does not become\n{what}\nbut is\n{screen}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for the end, and returns the exit code.
    pub(crate) fn code(&mut self) -> u8 {
        let code = self.terminal.wait().unwrap();
        self.reading.take().unwrap().join().unwrap();
        code
    }

    pub(crate) fn pid(&self) -> u32 {
        self.terminal.id()
    }

    /// Ends the shell by Ctrl-D at its empty line.
    pub(crate) fn leave(&mut self) {
        self.keys("\u{4}");
        self.code();
    }
}

fn emulator() -> vt100::Parser {
    vt100::Parser::new(NonZeroU16::new(ROWS).unwrap(), NonZeroU16::new(COLUMNS).unwrap(), 0)
}

fn position(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

pub(crate) fn contains(bytes: &[u8], part: &[u8]) -> bool {
    position(bytes, part).is_some()
}

/// Writes an executable script.
pub(crate) fn script(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}
