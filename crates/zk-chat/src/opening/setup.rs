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

/// Name and description of the person's own theme.
pub(crate) const OWN_THEME: (&str, &str) = ("own", "the colours of the file that your settings name");

/// Machine that runs the commands of a conversation and has its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutionPlace {
    /// This machine, with or without a sandbox.
    ThisMachine,
    /// Container with directories of this machine mounted at the same paths.
    Container,
    /// Remote machine.
    OtherMachine,
}

/// Phrases that name flags and commands of the program.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProgramPhrases {
    /// Advice on an answer that its output limit cut.
    pub raise_output_limit: &'static str,
    /// Flag or setting that allows everything without questions.
    pub allow_all: &'static str,
    /// Command that resumes a session; the id follows.
    pub resume: &'static str,
    /// Advice on a directory that tools may not work in.
    pub add_directory: &'static str,
    /// Flag that raises the limit of turns.
    pub turn_limit: &'static str,
    /// Flag that raises the budget in money.
    pub money_budget: &'static str,
    /// Flag that raises the budget in tokens.
    pub token_budget: &'static str,
    /// Command that signs in to a provider; the name follows.
    pub sign_in: &'static str,
    /// Command that lists models.
    pub list_models: &'static str,
}

/// Directory, settings and environment of a conversation, as plain values fixed until a reload.
#[derive(Clone)]
pub struct ChatSetup {
    /// Environment of the terminal.
    pub terminal: TerminalEnv,
    /// Name of the configured theme.
    pub theme: Option<&'static str>,
    /// Custom colours, in place of the theme.
    pub palette: Option<Palette>,
    /// Configured screen.
    pub screen: Option<ScreenKind>,
    /// Editor command and its environment.
    pub editor: EditorEnv,
    /// Directories of programs, as `PATH` lists them.
    pub program_path: Option<OsString>,
    /// Directory worked in, canonical.
    pub cwd: PathBuf,
    /// Home directory, shown as `~` in paths.
    pub home: Option<PathBuf>,
    /// Whether to set the terminal's title.
    pub sets_title: bool,
    /// Machine of commands and files.
    pub execution_place: ExecutionPlace,
    /// Directory for drafts; `None` if they are not stored.
    pub state_dir: Option<PathBuf>,
    /// File of the line editor's history.
    pub line_history: Option<PathBuf>,
    /// Whether every tool runs without asking.
    pub allow_all: bool,
    /// Configured reasoning level; any other was chosen by the person.
    pub thinking: ThinkingLevel,
    /// Maximum size of a command's output file, in bytes.
    pub output_file_bytes: u64,
    /// Rate limits that the providers of the process share.
    pub limits: RateLimits,
    /// Printer of notices beside a run.
    pub notices: Notices,
    /// Reader of files outside of the tools' limits, such as images and drafts.
    pub host_files: Arc<dyn HostFiles>,
    /// Phrases that name flags and commands of the program.
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
    /// Set-up for the canonical directory `cwd` with defaults: no files for drafts and history, the usual
    /// screen.
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

    /// Present working directory on this machine.
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

    /// Screen to use: the configured one if the terminal supports it.
    pub(crate) fn screen_kind(&self) -> ScreenKind {
        ScreenKind::chosen(self.screen, &self.terminal)
    }

    /// Returns the abilities of the terminal for a drawn screen.
    pub(crate) fn drawn_abilities(&self) -> Abilities {
        // Files of a remote machine cannot be opened here.
        let workspace = (self.execution_place == ExecutionPlace::ThisMachine)
            .then(|| self.cwd.display().to_string().into());
        let mut abilities = term::abilities(&self.terminal, self.theme, workspace);
        if let Some(own) = self.own_colours(abilities.looks.theme) {
            abilities.looks.theme = own;
            abilities.follows_ground = false;
        }
        abilities
    }

    /// Theme with the name that the person chose.
    pub(crate) fn chosen_theme(&self, name: &'static str) -> Theme {
        let theme = term::theme(&self.terminal, Some(name));
        let own = self.own_colours(theme).filter(|_| name == OWN_THEME.0);
        own.unwrap_or(theme)
    }

    /// Theme with the person's own colours, unless colours are off.
    fn own_colours(&self, theme: Theme) -> Option<Theme> {
        self.palette.filter(|_| theme != Theme::Mono).map(Theme::Own)
    }
}
