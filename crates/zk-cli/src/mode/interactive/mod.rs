//! A conversation on a terminal.

mod actions;
mod attachments;
mod bash;
mod builtins;
mod carried;
mod chat;
mod commands_during_run;
mod completions;
mod directory;
mod draft_files;
mod editor;
mod front_end;
mod host_messages;
mod inline;
mod job_commands;
mod key_file;
mod line;
mod models;
mod pending_input;
mod plain;
mod reload;
mod session_commands;
mod terminal;
mod terminal_session;
mod trust_question;
mod wanted_screen;
mod worker;

use std::ops::ControlFlow;
use std::path::PathBuf;

use zk_exec::LocalStateFiles;
use zk_tui::ScreenKind;
use zk_tui::plain::{LineEditor, Screen};
use zk_tui::term::{Restored, TerminalGuard, Tty};

use self::terminal_session::{ScreenExit, ScreenStart, TerminalSession};
use crate::app::{AppContext, runtime};
use crate::args::Prompt;
use crate::exit::{Exit, Failure, Outcome};
use crate::signals::Signals;

/// A conversation: on the inline screen, or in lines where those are asked for or the terminal can do no more.
pub(crate) fn run(app: &AppContext, prompt: Prompt) -> Outcome<Exit> {
    let cannot = |error: std::io::Error| Failure::failed(format!("cannot use the terminal: {error}"));
    let tty = Tty::of_stdin(Screen::stdout(&app.env.terminal()).is_capable()).map_err(cannot)?;
    let guard = TerminalGuard::of_stdin(tty.clone()).map_err(cannot)?;
    let _restored = Restored(guard.clone());
    let leaving = guard.clone();
    let signals = Signals::watch(move || leaving.leave()).map_err(cannot)?;
    signals.disarm();
    let editor = LineEditor::new(line_history(app))?;
    let mut session = TerminalSession { app: app.clone(), tty, guard, signals, runtime: runtime()?, editor };
    let mut kind = terminal::screen_kind(app);
    let mut start = ScreenStart::Open(prompt);
    loop {
        let ended = match kind {
            ScreenKind::Plain => plain::run(&mut session, start)?,
            ScreenKind::Inline | ScreenKind::Full => inline::run(&mut session, start, kind)?,
        };
        match ended {
            ScreenExit::Exit(exit) => return Ok(exit),
            ScreenExit::Screen { next, chat, pending } => {
                kind = next;
                start = ScreenStart::GoOn { chat, pending, said: None };
            }
            ScreenExit::Reload { app, chat, pending, kind: shown } => {
                let before = session.app.clone();
                start = match reload::open(&mut session, *app, *chat, pending)? {
                    ControlFlow::Continue(start) => start,
                    ControlFlow::Break(exit) => return Ok(exit),
                };
                kind = reload::kind(shown, &before, &session.app);
            }
        }
    }
}

/// The file of the lines that were typed before, in a directory that is made where it is absent.
fn line_history(app: &AppContext) -> Option<PathBuf> {
    let can_keep =
        |path: &PathBuf| path.parent().is_some_and(|dir| LocalStateFiles::make_private_dir(dir).is_ok());
    app.dirs.line_history().filter(can_keep)
}
