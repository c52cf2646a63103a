use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::Child;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize};

use super::spawn;
use super::terminal::{open_pair, open_side};

/// Interactive program of the person, such as a shell, with exactly the environment that it is given.
///
/// ```
/// let command = zk_exec::PersonCommand::new("/bin/sh", "/tmp").arg("-i").env("PATH", "/usr/bin:/bin");
/// assert_eq!(command.args, ["-i"]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct PersonCommand {
    /// Path of the program.
    pub program: PathBuf,
    /// Name under which the program is started; `None` for its path.
    pub arg0: Option<OsString>,
    /// Arguments after the name.
    pub args: Vec<OsString>,
    /// All environment variables.
    pub env: Vec<(OsString, OsString)>,
    /// Working directory.
    pub cwd: PathBuf,
}

impl PersonCommand {
    /// Creates a command without arguments and without environment.
    pub fn new(program: impl Into<PathBuf>, cwd: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), cwd: cwd.into(), ..Self::default() }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        let name = name.into();
        self.env.retain(|(known, _)| *known != name);
        self.env.push((name, value.into()));
        self
    }
}

/// Pseudo-terminal with an interactive program of the person on it.
///
/// Unlike a command of a tool, the program inherits the person's whole environment, umask and limits, carries no mark of
/// zk and is not ended by zk: its terminal hangs up when this is dropped, or when this process dies, and the
/// program and its jobs decide what that means to them.
#[derive(Debug)]
pub struct PersonTerminal {
    terminal: OwnedFd,
    child: Child,
    /// Modes of the terminal at the start.
    modes: Option<Termios>,
}

impl PersonTerminal {
    /// Starts the program on a new terminal with the modes and the size of the terminal `like`. Blocks until
    /// the program runs.
    ///
    /// # Errors
    /// No terminal is available, or the program cannot be started.
    pub fn start(command: &PersonCommand, like: impl AsFd) -> io::Result<Self> {
        let (terminal, side) = open_pair()?;
        let modes = tcgetattr(&like).ok();
        if let Some(modes) = &modes {
            tcsetattr(&side, OptionalActions::Now, modes)?;
        }
        let this_size = tcgetwinsize(&like);
        if let Ok(size) = this_size {
            tcsetwinsize(&terminal, size)?;
        }
        let child = start_on(side, command)?;
        Ok(Self { terminal, child, modes })
    }

    /// Opens the program's side of the terminal, which does not hang up between two programs as long as this is open.
    ///
    /// # Errors
    /// No descriptor is available.
    pub fn open_side(&self) -> io::Result<OwnedFd> {
        open_side(&self.terminal)
    }

    /// Starts another program on the terminal, after the one before has ended, with the modes of the first start.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn restart(&mut self, command: &PersonCommand) -> io::Result<()> {
        let side = self.open_side()?;
        if let Some(modes) = &self.modes {
            tcsetattr(&side, OptionalActions::Now, modes)?;
        }
        self.child = start_on(side, command)?;
        Ok(())
    }

    /// Process id of the program.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns another handle of the program's terminal: reads give its output, and writes are its input.
    ///
    /// # Errors
    /// No descriptor is available.
    pub fn handle(&self) -> io::Result<File> {
        Ok(self.terminal.try_clone()?.into())
    }

    /// Waits until the program exits, and returns its exit code: 128 and the number of a signal that killed it.
    /// Blocks.
    ///
    /// # Errors
    /// The program cannot be watched.
    pub fn wait(&mut self) -> io::Result<u8> {
        let status = self.child.wait()?;
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
        Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
    }
}

/// Starts a program with this side of a terminal as its controlling terminal.
fn start_on(side: OwnedFd, command: &PersonCommand) -> io::Result<Child> {
    let mut started = spawn::person_command(command.program.as_os_str());
    if let Some(name) = &command.arg0 {
        started.arg0(name);
    }
    started.args(&command.args).envs(command.env.iter().map(|(name, value)| (name, value)));
    started.current_dir(&command.cwd);
    started.stdin(side.try_clone()?).stdout(side.try_clone()?).stderr(side);
    started.spawn()
}

/// Copies the size of the terminal `from` to the terminal `to`, pixels included.
///
/// # Errors
/// Either is not a terminal.
pub fn copy_terminal_size(from: impl AsFd, to: impl AsFd) -> io::Result<()> {
    Ok(tcsetwinsize(to, tcgetwinsize(from)?)?)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    fn run(command: &PersonCommand, input: &[u8]) -> (String, u8) {
        let mut started = PersonTerminal::start(command, io::stdin()).unwrap();
        let mut handle = started.handle().unwrap();
        handle.write_all(input).unwrap();
        let mut output = Vec::new();
        let mut buffer = [0; 1024];
        // A terminal whose last user ended reads as an error.
        while let Ok(read @ 1..) = handle.read(&mut buffer) {
            output.extend_from_slice(&buffer[..read]);
        }
        (String::from_utf8_lossy(&output).into_owned(), started.wait().unwrap())
    }

    #[test]
    fn a_program_of_the_person_has_a_terminal_its_environment_and_nothing_of_zk() {
        let sh = PersonCommand::new("/bin/sh", "/").env("PATH", "/usr/bin:/bin").env("MINE", "yes");
        let script =
            "test -t 0 && test -t 1 && echo on-tty; env | grep -c ZK_; echo $MINE; ps -o stat= $$; exit 7";
        let (output, code) = run(&sh.arg("-c").arg(script), b"");
        let lines: Vec<&str> = output.lines().collect();
        assert_eq!((&lines[..3], code), (&["on-tty", "0", "yes"][..], 7), "{output}");
        assert!(
            lines[3].contains('s') && lines[3].contains('+'),
            "a session of its own, in the foreground: {output}"
        );
    }

    #[test]
    fn the_exit_of_a_killed_program_names_the_signal_and_a_missing_program_is_an_error() {
        let sh = PersonCommand::new("/bin/sh", "/").arg("-c").arg("kill -TERM $$");
        assert_eq!(run(&sh, b"").1, 128 + 15);
        assert!(PersonTerminal::start(&PersonCommand::new("/no/such/shell", "/"), io::stdin()).is_err());
    }

    #[test]
    fn another_program_takes_the_place_of_one_that_ended() {
        let sh = |script: &str| PersonCommand::new("/bin/sh", "/").arg("-c").arg(script);
        let mut terminal = PersonTerminal::start(&sh("stty -echo; exit 3"), io::stdin()).unwrap();
        let side = terminal.open_side().unwrap();
        assert_eq!(terminal.wait().unwrap(), 3);
        terminal.restart(&sh("read word </dev/tty; echo got-$word; exit 4")).unwrap();
        let mut handle = terminal.handle().unwrap();
        handle.write_all(b"tea\n").unwrap();
        assert_eq!(terminal.wait().unwrap(), 4, "it has a controlling terminal");
        drop(side);
        let (mut output, mut buffer) = (Vec::new(), [0; 1024]);
        while let Ok(read @ 1..) = handle.read(&mut buffer) {
            output.extend_from_slice(&buffer[..read]);
        }
        assert!(String::from_utf8_lossy(&output).contains("got-tea"), "{output:?}");
    }

    #[test]
    fn its_input_is_what_is_written_to_its_terminal() {
        let cat = PersonCommand::new("/bin/cat", "/");
        let (output, code) = run(&cat, b"hello\n\x04");
        assert!(output.contains("hello\r\nhello") && code == 0, "{output}");
    }
}
