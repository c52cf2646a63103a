//! A conversation on a terminal.

mod actions;
mod approval;
mod attachments;
mod bash;
mod builtins;
mod carried;
mod chat;
mod commands_during_run;
mod completions;
mod context_lines;
mod directory;
mod draft_files;
mod editor;
mod error;
mod factory;
mod front_end;
mod host_messages;
mod inline;
mod interrupts;
mod job_commands;
mod job_rows;
mod line;
mod mode_choice;
mod models;
mod own_commands;
mod pending_input;
mod person_exec;
mod plain;
mod reload;
mod runtime;
mod session_commands;
mod session_lines;
mod sessions;
mod setup;
mod start;
mod summary;
mod terminal_session;
mod wanted_screen;
mod window_commands;
mod worker;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use zk_exec::LocalStateFiles;
use zk_tui::ScreenKind;
use zk_tui::plain::{LineEditor, Screen};
use zk_tui::term::{Restored, TerminalGuard, Tty};

pub(crate) use self::carried::{Carried, CarriedSession};
pub(crate) use self::context_lines::context_lines;
pub(crate) use self::editor::EditorEnv;
pub(crate) use self::error::ChatError;
pub(crate) use self::factory::{
    ConversationFactory, ConversationHost, ConversationSource, NamedModel, OpenedConversation, Reread,
    UnapprovedProject,
};
pub(crate) use self::interrupts::{Interruption, Interrupts};
pub(crate) use self::job_rows::JobRows;
pub(crate) use self::mode_choice::ModeChoice;
pub(crate) use self::own_commands::OWN_COMMANDS;
pub(crate) use self::person_exec::PersonExec;
use self::runtime::Runtime;
pub(crate) use self::session_lines::{parent_remark, session_lines};
pub(crate) use self::sessions::{ConversationSessions, LeftSession, UnsavedSession};
pub(crate) use self::setup::{ChatSetup, ExecutionPlace, ProgramPhrases};
pub(crate) use self::start::{ChatEnd, ChatStart};
pub(crate) use self::summary::{choices, incomplete, is_empty, totals};
use self::terminal_session::{ScreenExit, ScreenStart, TerminalSession};

/// A conversation on the terminal: on the inline screen, or in lines where those are asked for or the terminal can do no
/// more. `watch` begins to watch for signals; what it is given puts the terminal back as it was.
///
/// # Errors
/// [`ChatError`] when the conversation cannot be opened, or the terminal cannot be used.
pub(crate) fn run<W>(
    factory: Arc<dyn ConversationFactory>,
    start: ChatStart,
    watch: W,
) -> Result<ChatEnd, ChatError>
where
    W: FnOnce(Box<dyn Fn() + Send + Sync>) -> std::io::Result<Arc<dyn Interrupts>>,
{
    let setup = factory.setup();
    let tty = Tty::of_stdin(Screen::stdout(&setup.terminal).is_capable()).map_err(ChatError::Terminal)?;
    let guard = TerminalGuard::of_stdin(tty.clone()).map_err(ChatError::Terminal)?;
    let _restored = Restored(guard.clone());
    let leaving = guard.clone();
    let interrupts = watch(Box::new(move || leaving.leave())).map_err(ChatError::Terminal)?;
    interrupts.disarm();
    let editor = LineEditor::new(line_history(setup))?;
    let mut kind = setup.screen_kind();
    let mut session = TerminalSession { factory, tty, guard, interrupts, runtime: Runtime::new()?, editor };
    let mut start = ScreenStart::Open(start);
    loop {
        let ended = match kind {
            ScreenKind::Plain => plain::run(&mut session, start)?,
            ScreenKind::Inline | ScreenKind::Full => inline::run(&mut session, start, kind)?,
        };
        match ended {
            ScreenExit::End(end) => return Ok(end),
            ScreenExit::Screen { next, chat, pending } => {
                kind = next;
                start = ScreenStart::GoOn { chat, pending, said: None };
            }
            ScreenExit::Reload { factory, chat, pending, kind: shown } => {
                let before = session.factory.clone();
                start = match reload::open(&mut session, factory, *chat, pending)? {
                    ControlFlow::Continue(start) => start,
                    ControlFlow::Break(end) => return Ok(end),
                };
                kind = reload::kind(shown, before.setup(), session.factory.setup());
            }
        }
    }
}

/// The file of the lines that were typed before, in a directory that is made where it is absent.
fn line_history(setup: &ChatSetup) -> Option<PathBuf> {
    let can_keep =
        |path: &PathBuf| path.parent().is_some_and(|dir| LocalStateFiles::make_private_dir(dir).is_ok());
    setup.line_history.clone().filter(can_keep)
}
