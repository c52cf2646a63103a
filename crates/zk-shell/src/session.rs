use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;
use zk_chat::{ChatError, ConversationFactory, Interrupts, VisitingConversation};
use zk_exec::{PersonCommand, PersonTerminal, copy_terminal_size};
use zk_tui::Modes;
use zk_tui::term::print_stderr;

use crate::ShellKind;
use crate::error::ShellError;
use crate::factory::{Present, ShellFactory};
use crate::line::{CallKeys, Phase};
use crate::plugin::ShellPlugin;
use crate::pump::{
    Input, OutputGate, PumpEvent, REPORT_WAIT, RawMode, SharedState, run_input, run_output, wait_for,
    write_all,
};
use crate::record::{CaptureState, RecordLimits};
use crate::settings::ShellSettings;
use crate::shell_access::ShellAccess;
use crate::start::{
    INSTANCE_VARIABLE, InstanceDir, Rescue, START_WAIT, StartChord, command_with_marks,
    command_without_marks, random_word,
};

/// Shell that is used without `$SHELL`.
const USUAL_SHELL: &str = "/bin/sh";

/// Exit code after a hang-up of the terminal, as shells have it.
const HUNG_UP: u8 = 129;

/// Exit code after a request to end, as shells have it.
const TERMINATED: u8 = 143;

/// Hidden key that makes bash put its hooks back.
const REVIVE_KEY: &[u8] = b"\x1b[1007180u";

/// Notice at a prompt without marks.
const NO_MARKS: &str = "zk: this shell sends no marks any more, so the agent learns nothing of what runs in it and only \
                        the chord calls it; leave the shell if it runs inside of yours, or start `zk shell` anew\r\n";

/// Stack of a pump's thread, in bytes.
const PUMP_STACK_BYTES: usize = 256 * 1024;

/// Program, environment and settings of a shell at its start.
#[derive(Clone)]
pub struct ShellOptions {
    /// Program of the shell; `None` for `$SHELL`.
    pub program: Option<PathBuf>,
    /// Whether the shell starts as a login shell.
    pub is_login: bool,
    /// Whether the shell may start inside of another shell of zk.
    pub allows_nesting: bool,
    /// Keys, marks and the record.
    pub settings: ShellSettings,
    /// Environment of the person, as a whole.
    pub env: Vec<(OsString, OsString)>,
    /// Directory to start in.
    pub cwd: PathBuf,
    /// Directories for private files, the preferred one first.
    pub state_dirs: Vec<PathBuf>,
}

impl fmt::Debug for ShellOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShellOptions")
            .field("program", &self.program)
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}

impl ShellOptions {
    /// Options for a usual shell with this environment, in the directory `cwd`.
    #[must_use]
    pub fn new(env: Vec<(OsString, OsString)>, cwd: PathBuf) -> Self {
        Self {
            program: None,
            is_login: false,
            allows_nesting: false,
            settings: ShellSettings::default(),
            env,
            cwd,
            state_dirs: Vec::new(),
        }
    }

    fn variable(&self, name: &str) -> Option<&OsStr> {
        let found = self.env.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_os_str()).filter(|value| !value.is_empty())
    }

    fn program(&self) -> PathBuf {
        let usual = || self.variable("SHELL").map_or_else(|| PathBuf::from(USUAL_SHELL), PathBuf::from);
        let program = self.program.clone().unwrap_or_else(usual);
        if program.components().count() > 1 {
            return program;
        }
        // A name is found as a shell finds it.
        let path = self.variable("PATH").unwrap_or_default();
        let found = std::env::split_paths(path).map(|dir| dir.join(&program)).find(|found| found.is_file());
        found.unwrap_or(program)
    }
}

/// Runs the person's shell on the terminal of this process, with a conversation of `factory` attached, until
/// the shell ends; returns its exit code. `watch` starts the watching of signals; its callback restores the
/// terminal. The working directory of the process follows that of the shell.
///
/// # Errors
/// [`ShellError`] before the shell begins. Later failures leave a working shell, and a message above it.
pub fn run<W>(
    options: &ShellOptions,
    factory: Arc<dyn ConversationFactory>,
    watch: W,
) -> Result<u8, ShellError>
where
    W: FnOnce(Box<dyn Fn() + Send + Sync>) -> io::Result<Arc<dyn Interrupts>>,
{
    if let Some(instance) = options.variable(INSTANCE_VARIABLE).filter(|_| !options.allows_nesting) {
        let instance = instance.to_string_lossy().chars().filter(char::is_ascii_alphanumeric).collect();
        return Err(ShellError::Nested { instance });
    }
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(ShellError::NoTerminal);
    }
    let raw = RawMode::of_stdin().map_err(ShellError::Terminal)?;
    let shared = SharedState::default();
    let (shell, dir) = start_shell(options, &shared)?;
    let dir_path = dir.as_ref().map(|dir| dir.path.clone());
    let handle = shell.terminal.handle().map_err(ShellError::Terminal)?;
    // Non-blocking, so that a write ends in time where the shell does not read.
    rustix::io::ioctl_fionbio(&handle, true).map_err(|error| ShellError::Terminal(error.into()))?;
    let access = ShellAccess {
        terminal: Arc::new(handle),
        gate: Arc::new(OutputGate::new(dir_path.clone())),
        input: Arc::new(Input::new().map_err(ShellError::Terminal)?),
        raw: raw.clone(),
        dir: dir_path.clone(),
    };
    let present = Present::default();
    let loans = zk_chat::TerminalLoans::default();
    let plugin = ShellPlugin { shared: shared.clone(), access: access.clone(), loans: loans.clone() };
    let factory = Arc::new(ShellFactory { inner: factory, plugin, present: present.clone() });
    let restoring = raw.clone();
    let conversation = VisitingConversation::new(factory, loans, |leave| {
        watch(Box::new(move || {
            leave();
            restoring.leave();
            if let Some(dir) = &dir_path {
                // A directory that cannot be removed is removed by a later instance.
                let _ = std::fs::remove_dir_all(dir);
            }
        }))
    })?;
    raw.enter().map_err(ShellError::Terminal)?;
    let mut session = Session {
        conversation,
        access,
        shared,
        present,
        // Without an exit code of the shell, the shell hangs up with its terminal.
        code: Arc::new(AtomicU8::new(HUNG_UP)),
        over: CancellationToken::new(),
    };
    let ended = session.run(shell, options.settings.keys());
    session.access.raw.leave();
    let Session { conversation, code, .. } = session;
    conversation.close();
    drop(dir);
    ended.map_err(ShellError::Terminal)?;
    Ok(code.load(Ordering::SeqCst))
}

/// Started shell with the nonce of its marks.
struct Started {
    terminal: PersonTerminal,
    nonce: String,
    rescue: Arc<Rescue>,
}

/// Starts the shell, with marks if it has any and its private files can be written.
fn start_shell(
    options: &ShellOptions,
    shared: &SharedState,
) -> Result<(Started, Option<InstanceDir>), ShellError> {
    let program = options.program();
    let nonce = random_word().map_err(ShellError::Terminal)?;
    shared.recorder().set_nonce(&nonce);
    let instance = random_word().map_err(ShellError::Terminal)?;
    let instance: String = instance.chars().take(8).collect();
    let mut command = PersonCommand::new(program.clone(), options.cwd.clone());
    command.env.clone_from(&options.env);
    let command = command.env(INSTANCE_VARIABLE, instance);
    let ShellSettings { init, record, max_commands, max_output_bytes, chord, .. } = options.settings;
    shared.recorder().set_limits(RecordLimits::new(max_commands, max_output_bytes));
    if !record {
        shared.recorder().set_state(CaptureState::Off);
    }
    let kind = ShellKind::of_program(&program).filter(|_| init);
    let marked = kind.map(|kind| {
        let dir = InstanceDir::create(&options.state_dirs)?;
        let command = command_with_marks(command.clone(), kind, options.is_login, &nonce, &dir)?;
        Ok::<_, io::Error>((command, dir))
    });
    let (command, dir) = match marked {
        Some(Ok((command, dir))) => (command, Some(dir)),
        Some(Err(error)) => {
            print_stderr(&format!(
                "zk: the shell runs without marks, so that only {chord} calls the agent, which knows nothing of it: {error}"
            ));
            (command_without_marks(command, options.is_login), None)
        }
        None => (command_without_marks(command, options.is_login), None),
    };
    let size = Modes::size();
    let cells = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
    shared.recorder().set_size((cells(size.width), cells(size.height)));
    shared.recorder().set_initial_dir(options.cwd.to_string_lossy().into_owned());
    let rescue = Arc::new(Rescue::of(&command, kind, dir.is_some(), chord));
    let terminal = match PersonTerminal::start(&command, io::stdin()) {
        Ok(terminal) => {
            rescue.set_pid(terminal.id());
            terminal
        }
        Err(source) if options.program.is_none() => start_plain(&program, source, &rescue)?,
        Err(source) => return Err(ShellError::Start { program, source }),
    };
    Ok((Started { terminal, nonce, rescue }, dir))
}

/// Starts a plain shell in place of the one that the environment names.
fn start_plain(program: &Path, source: io::Error, rescue: &Rescue) -> Result<PersonTerminal, ShellError> {
    // Other plain shells are of the same program.
    if let Some(plain) = rescue.plain_shells().last()
        && let Ok(terminal) = PersonTerminal::start(plain, io::stdin())
    {
        print_stderr(&format!(
            "zk: cannot start {}, which $SHELL names: {source}; {} runs instead",
            program.display(),
            plain.program.display()
        ));
        return Ok(terminal);
    }
    Err(ShellError::Start { program: program.to_owned(), source })
}

/// End of the thread that reads the shell's output, also by a panic: without it nobody would see that the shell ends.
struct OutputEnd {
    events: UnboundedSender<PumpEvent>,
    over: CancellationToken,
}

impl Drop for OutputEnd {
    fn drop(&mut self) {
        // The receiver is gone if the session has ended.
        let _ = self.events.send(PumpEvent::Ended);
        self.over.cancel();
    }
}

/// Running shell and its conversation.
struct Session {
    conversation: VisitingConversation,
    access: ShellAccess,
    shared: SharedState,
    present: Present,
    /// Exit code of the shell.
    code: Arc<AtomicU8>,
    /// Cancelled when the shell has ended.
    over: CancellationToken,
}

impl Session {
    fn run(&mut self, shell: Started, keys: CallKeys) -> io::Result<()> {
        let (sender, mut events) = unbounded_channel();
        let Started { mut terminal, nonce, rescue } = shell;
        // Without a program on it, the terminal would hang up between two shells, before its output is read.
        let held = terminal.open_side();
        let (exited, ended) = UnixStream::pair()?;
        let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.to_owned()).stack_size(PUMP_STACK_BYTES).spawn(body)
        };
        let (access, shared, events_out) = (self.access.clone(), self.shared.clone(), sender.clone());
        let over = self.over.clone();
        spawn(
            "shell-output",
            Box::new(move || {
                let _end = OutputEnd { events: events_out, over };
                run_output(&access.terminal, &ended, &nonce, &access.gate, &shared);
            }),
        )?;
        let (access, shared) = (self.access.clone(), self.shared.clone());
        spawn(
            "shell-input",
            Box::new(move || run_input(&access.input, &access.terminal, &shared, keys, &sender)),
        )?;
        let code = self.code.clone();
        let (access, shared, waiting) = (self.access.clone(), self.shared.clone(), rescue.clone());
        spawn(
            "shell-wait",
            Box::new(move || {
                code.store(waiting.wait_for_shell(&mut terminal, &access.gate, &shared), Ordering::SeqCst);
                drop(held);
                // The reader of the output may have ended first.
                let _ = (&exited).write(&[0]);
                drop(exited);
            }),
        )?;
        self.follow_size()?;
        let ended = self.serve_calls(&mut events, &rescue);
        self.access.input.close();
        ended
    }

    /// Copies each new size of the terminal to the shell, while the runtime runs.
    fn follow_size(&self) -> io::Result<()> {
        let (terminal, shared) = (self.access.terminal.clone(), self.shared.clone());
        self.conversation.block_on(async move {
            let mut resized = signal(SignalKind::window_change())?;
            // The size may have changed before the signal was watched.
            let _ = copy_terminal_size(io::stdin(), &*terminal);
            tokio::spawn(async move {
                while resized.recv().await.is_some() {
                    let _ = copy_terminal_size(io::stdin(), &*terminal);
                    let size = Modes::size();
                    let cells = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
                    shared.recorder().set_size((cells(size.width), cells(size.height)));
                }
            });
            Ok(())
        })
    }

    /// Serves calls of the agent until the shell ends.
    fn serve_calls(&mut self, events: &mut UnboundedReceiver<PumpEvent>, rescue: &Rescue) -> io::Result<()> {
        let mut hung_up = self.conversation.block_on(async { signal(SignalKind::hangup()) })?;
        let mut is_beginning = true;
        let until = tokio::time::Instant::from_std(rescue.since + START_WAIT);
        loop {
            let shared = self.shared.clone();
            let next = self.conversation.block_on(async {
                tokio::select! {
                    event = events.recv() => event,
                    _ = hung_up.recv() => Some(PumpEvent::Gone),
                    () = until_without_prompt(&shared, until), if is_beginning => Some(PumpEvent::NoPrompt),
                }
            });
            match next {
                Some(PumpEvent::NoPrompt) => {
                    is_beginning = false;
                    rescue.offer_plain_shell(&self.access.terminal, &self.access.gate, &self.shared);
                }
                Some(PumpEvent::Called) => {
                    match rescue.press_chord(&self.access.terminal, &self.access.gate, &self.shared) {
                        StartChord::Ask => self.access.input.give_to_shell(),
                        StartChord::Replace(pid) => {
                            kill_process_and_group(pid);
                            self.access.input.give_to_shell();
                        }
                        StartChord::Call => {
                            if self.show_conversation()?.is_break() {
                                let is_hang_up = self.conversation.block_on(async {
                                    tokio::time::timeout(Duration::ZERO, hung_up.recv()).await.is_ok()
                                });
                                let code = if is_hang_up { HUNG_UP } else { TERMINATED };
                                self.code.store(code, Ordering::SeqCst);
                                return Ok(());
                            }
                        }
                    }
                }
                Some(PumpEvent::Gone) => {
                    self.code.store(HUNG_UP, Ordering::SeqCst);
                    return Ok(());
                }
                Some(PumpEvent::Ended) | None => return Ok(()),
            }
        }
    }

    /// Draws the conversation below the prompt; then gives the terminal back, and has the prompt redrawn. Breaks when a signal
    /// ends zk.
    fn show_conversation(&mut self) -> io::Result<ControlFlow<()>> {
        let is_unmarked = self.shared.line().phase == Phase::Busy && !self.revive_marks()?;
        self.access.gate.close();
        write_all(io::stdout(), b"\r\n")?;
        if is_unmarked {
            write_all(io::stdout(), NO_MARKS.as_bytes())?;
        }
        let dir = self.shared.recorder().dir().map(str::to_owned);
        self.conversation.block_on(self.present.set_working_dir(dir));
        match self.conversation.call(self.over.clone()) {
            Ok(()) => {}
            Err(ChatError::Terminated) => return Ok(ControlFlow::Break(())),
            Err(error) => {
                self.access.raw.leave();
                print_stderr(&format!("zk: {error}"));
            }
        }
        self.access.raw.enter()?;
        write_all(io::stdout(), self.shared.modes().restore().as_bytes())?;
        let has_keys = self.shared.line().can_redraw();
        self.access.gate.open()?;
        if has_keys && !self.over.is_cancelled() {
            self.access.redraw()?;
        }
        self.access.input.give_to_shell();
        Ok(ControlFlow::Continue(()))
    }

    /// Makes the shell put its hooks back, where it still has the key for it; false if it sends no marks afterwards.
    fn revive_marks(&self) -> io::Result<bool> {
        if !self.access.has_start_files(self.shared.shell()) {
            return Ok(false);
        }
        self.access.send(REVIVE_KEY)?;
        let is_ready = || matches!(self.shared.line().phase, Phase::Ready { .. });
        Ok(self.conversation.block_on(wait_for(&self.shared, REPORT_WAIT, is_ready)))
    }
}

/// Ends at `until` if no prompt has come by then, and otherwise never.
async fn until_without_prompt(shared: &SharedState, until: tokio::time::Instant) {
    let left = until.saturating_duration_since(tokio::time::Instant::now());
    if wait_for(shared, left, || shared.line().prompts > 0).await {
        std::future::pending::<()>().await;
    }
}

/// Kills a shell that does not become ready, with its group.
fn kill_process_and_group(pid: u32) {
    let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) else { return };
    // A process that ended by itself is gone.
    let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}
