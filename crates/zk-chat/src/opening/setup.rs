use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use zk_agent::RateLimits;
use zk_core::kernel::Cx;
use zk_core::model::ThinkingLevel;
use zk_core::service::{HostFiles, TurnCwd};
use zk_tools::ToolsOptions;
use zk_tui::plain::{Notices, Screen};
use zk_tui::{Abilities, Palette, ScreenKind, TerminalEnv, Theme, term};

use crate::screen::draft::editor::EditorEnv;

/// Theme of a file of the person's own, with a few words.
pub(crate) const OWN_THEME: (&str, &str) = ("own", "the colours of the file that your settings name");

/// Machine that runs the commands of a conversation and has its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutionPlace {
    /// This machine, in a sandbox or without one.
    ThisMachine,
    /// A container, in which directories of this machine are mounted at their own paths.
    Container,
    /// Another machine.
    OtherMachine,
}

/// Phrases of the program for what only it offers: its flags and its commands.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProgramPhrases {
    /// Advice on an answer that its output limit cut.
    pub raise_output_limit: &'static str,
    /// Origin of the wish that nothing is asked.
    pub allow_all: &'static str,
    /// Command that goes on with the session whose id stands behind it.
    pub resume: &'static str,
    /// Advice on a directory that tools may not work in.
    pub add_directory: &'static str,
}

/// Place, settings and environment of a conversation: plain values, which hold until it is opened anew.
#[derive(Clone)]
pub struct ChatSetup {
    /// Environment of the terminal.
    pub terminal: TerminalEnv,
    /// Name of the colours that are wanted.
    pub theme: Option<&'static str>,
    /// Colours of the person's own, in the place of those.
    pub palette: Option<Palette>,
    /// Screen that is wanted.
    pub screen: Option<ScreenKind>,
    /// Editor of the person, and the variables that it sees.
    pub editor: EditorEnv,
    /// Directories of programs, as `PATH` lists them.
    pub program_path: Option<OsString>,
    /// Directory worked in, canonical.
    pub cwd: PathBuf,
    /// Directory of the person, from which on theirs are told in short.
    pub home: Option<PathBuf>,
    /// Whether the title of the terminal says what goes on.
    pub sets_title: bool,
    /// Machine of commands and files.
    pub execution_place: ExecutionPlace,
    /// Directory of the person's for drafts; nothing where none can be kept.
    pub state_dir: Option<PathBuf>,
    /// File of the lines that were typed before.
    pub line_history: Option<PathBuf>,
    /// Whether every tool runs without asking.
    pub allow_all: bool,
    /// Reasoning that is set; another level was chosen by the person.
    pub thinking: ThinkingLevel,
    /// Most bytes of a command's output that are kept in a file.
    pub output_file_bytes: u64,
    /// Rate limits that the providers of the process share.
    pub limits: RateLimits,
    /// Door of notices beside a run.
    pub notices: Notices,
    /// Reader of the person's own files, such as images and drafts.
    pub host_files: Arc<dyn HostFiles>,
    /// Phrases that name what only the program offers.
    pub phrases: ProgramPhrases,
}

impl fmt::Debug for ChatSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatSetup")
            .field("cwd", &self.cwd)
            .field("screen", &self.screen)
            .finish_non_exhaustive()
    }
}

impl ChatSetup {
    /// A conversation in `cwd`, canonical, which says nothing of the rest: no files for drafts and lines, the usual screen.
    #[must_use]
    pub fn new(cwd: PathBuf, host_files: Arc<dyn HostFiles>) -> Self {
        Self {
            terminal: TerminalEnv::default(),
            theme: None,
            palette: None,
            screen: None,
            editor: EditorEnv::new(|_| None),
            program_path: None,
            cwd,
            home: None,
            sets_title: true,
            execution_place: ExecutionPlace::ThisMachine,
            state_dir: None,
            line_history: None,
            allow_all: false,
            thinking: ThinkingLevel::Adaptive,
            output_file_bytes: ToolsOptions::default().output_file_bytes,
            limits: RateLimits::default(),
            notices: Notices::default(),
            host_files,
            phrases: ProgramPhrases::default(),
        }
    }

    /// The directory of this machine that a conversation works in by now.
    pub(crate) fn cwd_now(&self, cx: &Cx) -> PathBuf {
        let moved = match self.execution_place {
            ExecutionPlace::OtherMachine => None,
            ExecutionPlace::ThisMachine | ExecutionPlace::Container => TurnCwd::of(cx),
        };
        moved.unwrap_or_else(|| self.cwd.clone())
    }

    /// The screen of a conversation in plain lines.
    pub(crate) fn plain_screen(&self) -> Screen {
        let theme = term::theme(&self.terminal, self.theme);
        Screen::stdout(&self.terminal).with_theme(self.own_colours(theme).unwrap_or(theme))
    }

    /// The screen that is wanted, as far as the terminal can draw it.
    pub(crate) fn screen_kind(&self) -> ScreenKind {
        ScreenKind::chosen(self.screen, &self.terminal)
    }

    /// Returns the abilities of the terminal for a drawn screen.
    pub(crate) fn drawn_abilities(&self) -> Abilities {
        // Files of another machine cannot be opened on this one.
        let workspace = (self.execution_place == ExecutionPlace::ThisMachine)
            .then(|| self.cwd.display().to_string().into());
        let mut abilities = term::abilities(&self.terminal, self.theme, workspace);
        if let Some(own) = self.own_colours(abilities.looks.theme) {
            abilities.looks.theme = own;
            abilities.follows_ground = false;
        }
        abilities
    }

    /// The theme of a name that the person chose.
    pub(crate) fn chosen_theme(&self, name: &'static str) -> Theme {
        let theme = term::theme(&self.terminal, Some(name));
        let own = self.own_colours(theme).filter(|_| name == OWN_THEME.0);
        own.unwrap_or(theme)
    }

    /// The colours of the person's own in the place of a theme, unless the terminal is to have none.
    fn own_colours(&self, theme: Theme) -> Option<Theme> {
        self.palette.filter(|_| theme != Theme::Mono).map(Theme::Own)
    }
}
