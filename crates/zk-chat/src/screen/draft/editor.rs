use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use zk_core::service::{
    Exec, ExecRequest, Exit, HostFiles, HostRead, Input as ExecInput, OutsideExec, Process, ProcessEvent,
    TerminalSize, make_private_dir,
};
use zk_tui::term::{Restored, TerminalGuard, Tty};
use zk_tui::{Input, Modes, Typed};

use crate::opening::setup::ChatSetup;
use crate::screen::host_messages::OpenConversation;
use crate::screen::runtime::Runtime;

/// Interval of checks whether this process is in the foreground, while another program has the terminal.
const FOREGROUND_POLL: Duration = Duration::from_millis(250);

/// Environment variables for an editor besides the standard ones: display and configuration.
const EDITOR_VARIABLES: [&str; 13] = [
    "TERM",
    "COLORTERM",
    "TERMINFO",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XDG_RUNTIME_DIR",
    "XAUTHORITY",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "VIMINIT",
    "NVIM_APPNAME",
    "EMACS_SERVER_FILE",
    "TMUX",
];

/// Variables of [`GRANTED`] by which a program finds the display.
const DISPLAY_VARIABLES: [&str; 4] = ["DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "XAUTHORITY"];

/// Size limit of drafts and edited prompts, in bytes.
pub(crate) const MAX_DRAFT_BYTES: usize = 64 << 20;

/// Editor command and its environment.
#[derive(Clone, Debug)]
pub struct EditorEnv {
    command: String,
    granted: Vec<(&'static str, OsString)>,
}

impl EditorEnv {
    /// Reads the variables through `find`; an empty value counts as unset.
    pub fn new(find: impl Fn(&str) -> Option<OsString>) -> Self {
        let found = |name: &str| find(name).filter(|value| !value.is_empty());
        let command = ["VISUAL", "EDITOR"].into_iter().find_map(|name| found(name)?.into_string().ok());
        let granted = EDITOR_VARIABLES.iter().filter_map(|name| Some((*name, found(name)?)));
        Self { command: command.unwrap_or_else(|| "vi".to_owned()), granted: granted.collect() }
    }

    /// Variables for programs that use the display.
    pub(crate) fn display_variables(&self) -> Vec<(&'static str, OsString)> {
        let is_of_display = |name: &str| DISPLAY_VARIABLES.contains(&name);
        self.granted.iter().filter(|(name, _)| is_of_display(name)).cloned().collect()
    }
}

/// External editor that runs on this terminal.
pub(crate) struct Editing {
    process: Box<dyn Process>,
    input: Input,
    file: PathBuf,
    /// Whether the file is the person's and is not deleted.
    is_kept: bool,
    host_files: Arc<dyn HostFiles>,
}

impl Editing {
    /// Opens `text` in `$VISUAL`, `$EDITOR` or `vi`. The terminal must be in raw mode without another reader.
    pub(crate) async fn begin(
        setup: &ChatSetup,
        opened: &OpenConversation,
        text: &str,
    ) -> Result<Self, String> {
        let state = setup.state_dir.as_ref().ok_or("there is no home directory to keep the draft in")?;
        let file = state.join(format!("draft-{}.md", std::process::id()));
        let cannot = |error: io::Error| format!("cannot write {}: {error}", file.display());
        make_private_dir(state).map_err(cannot)?;
        write_private(&file, text).map_err(cannot)?;
        Self::open_file(setup, opened, file, false).await
    }

    /// Opens a file of the person. Creates its directory.
    pub(crate) async fn of_file(
        setup: &ChatSetup,
        opened: &OpenConversation,
        file: PathBuf,
    ) -> Result<Self, String> {
        if let Some(dir) = file.parent() {
            make_private_dir(dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
        }
        Self::open_file(setup, opened, file, true).await
    }

    async fn open_file(
        setup: &ChatSetup,
        opened: &OpenConversation,
        file: PathBuf,
        is_kept: bool,
    ) -> Result<Self, String> {
        let bus = opened.agent.bus();
        let outside = bus.service::<OutsideExec>().map(|outside| outside.0.clone());
        let exec = outside.or_else(|| bus.service::<dyn Exec>()).ok_or("nothing here can run an editor")?;
        let host_files = setup.host_files.clone();
        Self::start_editor(&setup.editor, &*exec, host_files, (&setup.cwd, file), is_kept).await
    }

    async fn start_editor(
        env: &EditorEnv,
        exec: &dyn Exec,
        host_files: Arc<dyn HostFiles>,
        (cwd, file): (&Path, PathBuf),
        is_kept: bool,
    ) -> Result<Self, String> {
        let editor = &env.command;
        let size = Modes::size();
        let cells = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
        let request = ExecRequest {
            args: vec!["-c".into(), format!("{editor} \"$1\"").into(), "zk".into(), file.clone().into()],
            input: ExecInput::Piped,
            terminal: Some(TerminalSize { rows: cells(size.height), columns: cells(size.width) }),
            env: env.granted.iter().map(|(name, value)| (name.into(), value.clone())).collect(),
            ..ExecRequest::new("bash", cwd)
        };
        let process = exec.spawn(request).await.map_err(|error| format!("cannot run {editor}: {error}"))?;
        let input = Input::read_bytes().map_err(|error| format!("cannot read the terminal: {error}"))?;
        Ok(Self { process, input, file, is_kept, host_files })
    }

    /// Relays output and input until the editor exits. Returns the edited text; `Err` if the editor failed.
    pub(crate) async fn finish(mut self) -> Result<String, String> {
        let mut resized = signal(SignalKind::window_change()).map_err(|error| error.to_string())?;
        let (mut exit, mut is_away) = (None, false);
        loop {
            tokio::select! {
                event = self.process.next() => match event.map_err(|error| error.to_string())? {
                    Some(ProcessEvent::Output(_, bytes)) => Modes::write_output(&bytes).map_err(|error| error.to_string())?,
                    Some(ProcessEvent::Exited(how)) => exit = Some(how),
                    Some(ProcessEvent::Closed(_)) => {}
                    None => break,
                },
                typed = self.input.next() => match typed {
                    // An editor that does not read its input is about to exit.
                    Typed::Bytes(bytes) => drop(self.process.write(&bytes).await),
                    Typed::Keys(_) => {}
                    Typed::Away => is_away = true,
                    Typed::Gone => return Err("nobody is at the terminal any more".to_owned()),
                },
                () = tokio::time::sleep(FOREGROUND_POLL), if is_away => {
                    is_away = false;
                    self.input.resume();
                }
                _ = resized.recv() => {
                    let size = Modes::size();
                    let cells = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
                    let size = TerminalSize { rows: cells(size.height), columns: cells(size.width) };
                    let _ = self.process.resize(size).await;
                }
            }
        }
        let text = match exit {
            Some(Exit::Code(0)) if self.is_kept => return Ok(String::new()),
            _ if self.is_kept => {
                return Err("the editor failed; look whether the file is as you want it".to_owned());
            }
            // After a failure, the file with the only copy of the text stays, and the message names its path.
            Some(Exit::Code(0)) => Ok(read(&*self.host_files, &self.file)?),
            Some(Exit::Code(code)) => Err(format!("the editor ended with {code}; the draft is as it was")),
            Some(Exit::Signal(_) | Exit::TimedOut | Exit::Stopped) | None => {
                Err("the editor was stopped; the draft is as it was".to_owned())
            }
        };
        // A kept file lies in a directory of the person.
        let _ = std::fs::remove_file(&self.file);
        text
    }
}

/// Opens a file in the person's editor on the terminal of this process, outside of a conversation, and waits for its end.
///
/// # Errors
/// No terminal, an editor that cannot be started or that failed, in words for the person.
pub fn edit_file(
    env: &EditorEnv,
    exec: &dyn Exec,
    host_files: Arc<dyn HostFiles>,
    file: &Path,
) -> Result<(), String> {
    let cannot = |error: io::Error| format!("cannot use the terminal: {error}");
    let tty = Tty::of_stdin(true).map_err(cannot)?;
    let guard = TerminalGuard::of_stdin(tty).map_err(cannot)?;
    let _restored = Restored(guard.clone());
    guard.modes().enter_raw().map_err(cannot)?;
    let runtime = Runtime::new().map_err(|error| error.to_string())?;
    let cwd = file.parent().unwrap_or_else(|| Path::new("/"));
    let edited = runtime.block_on(async {
        Editing::start_editor(env, exec, host_files, (cwd, file.to_path_buf()), true).await?.finish().await
    });
    guard.modes().leave();
    edited.map(drop)
}

fn read(files: &dyn HostFiles, file: &Path) -> Result<String, String> {
    let read = files.read(file, &HostRead::whole(MAX_DRAFT_BYTES));
    let bytes = read.map_err(|error| format!("cannot read {}: {error}", file.display()))?.bytes;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    // Editors append a line end.
    Ok(text.strip_suffix('\n').map_or(text.clone(), str::to_owned))
}

/// Writes a file with mode 0600.
pub(crate) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}
