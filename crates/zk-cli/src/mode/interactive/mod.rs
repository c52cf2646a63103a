//! A conversation on a terminal.

mod actions;
mod attachments;
mod bash;
mod beside;
mod builtins;
mod carried;
mod chat;
mod completions;
mod desk;
mod directory;
mod draft_files;
mod editor;
mod inline;
mod job_commands;
mod key_file;
mod line;
mod models;
mod plain;
mod reload;
mod seat;
mod session_commands;
mod terminal;
mod trust_question;
mod unfinished;
mod wanted_screen;
mod work;
mod worker;

use std::ops::ControlFlow;
use std::path::PathBuf;

use zk_exec::LocalStateFiles;
use zk_tui::ScreenKind;
use zk_tui::plain::{LineEditor, Screen};
use zk_tui::term::{Restored, TerminalGuard, Tty};

use self::seat::{Ended, Seat, Start};
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
    let mut seat = Seat { app: app.clone(), tty, guard, signals, runtime: runtime()?, editor };
    let mut kind = terminal::screen_kind(app);
    let mut start = Start::Open(prompt);
    loop {
        let ended = match kind {
            ScreenKind::Plain => plain::run(&mut seat, start)?,
            ScreenKind::Inline | ScreenKind::Full => inline::run(&mut seat, start, kind)?,
        };
        match ended {
            Ended::Exit(exit) => return Ok(exit),
            Ended::Screen { next, chat, unfinished } => {
                kind = next;
                start = Start::GoOn { chat, unfinished, said: None };
            }
            Ended::Reload { app, chat, unfinished, kind: shown } => {
                let before = seat.app.clone();
                start = match reload::open(&mut seat, *app, *chat, unfinished)? {
                    ControlFlow::Continue(start) => start,
                    ControlFlow::Break(exit) => return Ok(exit),
                };
                kind = reload::kind(shown, &before, &seat.app);
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
