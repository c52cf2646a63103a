use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use zk_agent::RateLimits;
use zk_core::kernel::Cx;
use zk_core::model::ThinkingLevel;
use zk_core::service::{HostFiles, TurnCwd};
use zk_tui::plain::{Notices, Screen};
use zk_tui::{Abilities, ScreenKind, TerminalEnv, term};

use super::editor::EditorEnv;

/// Machine that runs the commands of a conversation and has its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExecutionPlace {
    /// This machine, in a sandbox or without one.
    ThisMachine,
    /// A container, in which directories of this machine are mounted at their own paths.
    Container,
    /// Another machine.
    OtherMachine,
}

/// Phrases of the program for what only it offers: its flags and its commands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProgramPhrases {
    /// Advice on an answer that its output limit cut.
    pub(crate) raise_output_limit: &'static str,
    /// Origin of the wish that nothing is asked.
    pub(crate) allow_all: &'static str,
    /// Command that goes on with the session whose id stands behind it.
    pub(crate) resume: &'static str,
    /// Advice on a directory that tools may not work in.
    pub(crate) add_directory: &'static str,
}

/// Place, settings and environment of a conversation: plain values, which hold until it is opened anew.
#[derive(Clone)]
pub(crate) struct ChatSetup {
    /// Environment of the terminal.
    pub(crate) terminal: TerminalEnv,
    /// Name of the colours that are wanted.
    pub(crate) theme: Option<&'static str>,
    /// Screen that is wanted.
    pub(crate) screen: Option<ScreenKind>,
    /// Editor of the person, and the variables that it sees.
    pub(crate) editor: EditorEnv,
    /// Directories of programs, as `PATH` lists them.
    pub(crate) program_path: Option<OsString>,
    /// Directory worked in, canonical.
    pub(crate) cwd: PathBuf,
    /// Machine of commands and files.
    pub(crate) execution_place: ExecutionPlace,
    /// Directory of the person's for drafts; nothing where none can be kept.
    pub(crate) state_dir: Option<PathBuf>,
    /// File of the lines that were typed before.
    pub(crate) line_history: Option<PathBuf>,
    /// Whether every tool runs without asking.
    pub(crate) allow_all: bool,
    /// Reasoning that is set; another level was chosen by the person.
    pub(crate) thinking: ThinkingLevel,
    /// Most bytes of a command's output that are kept in a file.
    pub(crate) output_file_bytes: u64,
    /// Rate limits that the providers of the process share.
    pub(crate) limits: RateLimits,
    /// Door of notices beside a run.
    pub(crate) notices: Notices,
    /// Reader of the person's own files, such as images and drafts.
    pub(crate) host_files: Arc<dyn HostFiles>,
    /// Phrases that name what only the program offers.
    pub(crate) phrases: ProgramPhrases,
}

impl std::fmt::Debug for ChatSetup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatSetup")
            .field("cwd", &self.cwd)
            .field("screen", &self.screen)
            .finish_non_exhaustive()
    }
}

impl ChatSetup {
    /// The directory of this machine that a conversation works in by now.
    pub(super) fn cwd_now(&self, cx: &Cx) -> PathBuf {
        let moved = match self.execution_place {
            ExecutionPlace::OtherMachine => None,
            ExecutionPlace::ThisMachine | ExecutionPlace::Container => TurnCwd::of(cx),
        };
        moved.unwrap_or_else(|| self.cwd.clone())
    }

    /// The screen of a conversation in plain lines.
    pub(super) fn plain_screen(&self) -> Screen {
        Screen::stdout(&self.terminal).with_theme(term::theme(&self.terminal, self.theme))
    }

    /// The screen that is wanted, as far as the terminal can draw it.
    pub(super) fn screen_kind(&self) -> ScreenKind {
        ScreenKind::chosen(self.screen, &self.terminal)
    }

    /// Returns the abilities of the terminal for a drawn screen.
    pub(super) fn drawn_abilities(&self) -> Abilities {
        // Files of another machine cannot be opened on this one.
        let workspace = (self.execution_place == ExecutionPlace::ThisMachine)
            .then(|| self.cwd.display().to_string().into());
        term::abilities(&self.terminal, self.theme, workspace)
    }
}
