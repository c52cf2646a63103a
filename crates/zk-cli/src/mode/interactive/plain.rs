//! A conversation in plain lines.

use super::chat::{Chat, LineOutcome, Opens};
use super::desk::Desk;
use super::drafts::{DRAFT, KeptDrafts};
use super::line_editor::{LineEditor, ReadLine};
use super::screen_kind::ScreenKind;
use super::{Ended, Seat, Start, abilities};
use crate::app::{AppContext, Runtime};
use crate::args::Resume;
use crate::exit::{Exit, Outcome};
use crate::term::{Screen, Style};

/// How to get away from plain lines.
const BACK: &str = "plain lines from now on; /screen inline goes back";

pub(super) fn run(seat: &mut Seat, start: Start) -> Outcome<Ended> {
    let Seat { app, runtime, editor, .. } = seat;
    let (chat, given) = match start {
        Start::Open(prompt) => {
            let desk = Desk::of_lines(app, seat.tty.clone());
            let opening = Chat::open(app, Opens::Prompt(&prompt), desk, seat.signals.clone());
            let chat = runtime.block_on(opening)?;
            chat.greet();
            let choice = (prompt.resume == Some(Resume::Choose)).then(|| "/resume".to_owned());
            (Box::new(chat), prompt.text.or(choice))
        }
        Start::GoOn { chat, draft, said } => {
            runtime.block_on(async { chat.draw_lines(plain_screen(app)) });
            chat.screen.line(Style::Dim, said.as_deref().unwrap_or(BACK));
            chat.keyboard.set_draft(draft);
            (chat, None)
        }
    };
    let mut drafts = KeptDrafts::new(app, DRAFT);
    if let Some(lost) = drafts.take_lost() {
        chat.keyboard.set_draft(lost);
    }
    chat.keyboard.on_change(Some(drafts.noting()));
    editor.on_change(Some(drafts.noting()));
    let ended = converse(chat, runtime, editor, given);
    // What is typed goes with the conversation to another screen, which keeps it then.
    editor.on_change(None);
    ended
}

/// Reads lines and does what they ask for until the conversation ends, or goes on elsewhere.
fn converse(
    chat: Box<Chat>,
    runtime: &Runtime,
    editor: &mut LineEditor,
    mut given: Option<String>,
) -> Outcome<Ended> {
    let mut interrupted = false;
    let exit = loop {
        let text = match given.take().or_else(|| chat.next_queued(editor)) {
            Some(text) => {
                chat.echo(&text);
                text
            }
            None => match editor.read(&chat.keyboard.take_draft()) {
                ReadLine::Line(text) => text,
                ReadLine::BackTab(typed) => {
                    chat.cycle_mode();
                    chat.keyboard.set_draft(typed);
                    continue;
                }
                ReadLine::Interrupt if interrupted => break Exit::Done,
                ReadLine::Interrupt => {
                    interrupted = true;
                    chat.screen.line(Style::Dim, "Ctrl-C again, or Ctrl-D, ends the conversation");
                    continue;
                }
                ReadLine::End => break Exit::Done,
                ReadLine::Failed(why) => {
                    chat.screen.line(Style::Red, &format!("cannot read the terminal: {why}"));
                    break Exit::Failed;
                }
            },
        };
        interrupted = false;
        match runtime.block_on(chat.handle_line(text.trim())) {
            LineOutcome::Done => {}
            LineOutcome::Failed => chat.keyboard.queue_to_draft(),
            LineOutcome::Quit(exit) => break exit,
            LineOutcome::Reload(app) => {
                let draft = queued(&chat);
                return Ok(Ended::Reload { app, chat, draft });
            }
        }
        if chat.wanted.take_copy().is_some() {
            chat.screen.line(Style::Yellow, "plain lines cannot use the clipboard; /screen inline can");
        }
        if let Some(next) = chat.wanted.take().filter(|kind| *kind != ScreenKind::Plain) {
            let draft = queued(&chat);
            return Ok(Ended::Screen { next, chat, draft });
        }
    };
    chat.keyboard.on_change(None);
    runtime.block_on(chat.close());
    Ok(Ended::Exit(exit))
}

/// All that was typed and not sent, which goes on elsewhere.
fn queued(chat: &Chat) -> String {
    chat.keyboard.queue_to_draft();
    let draft = chat.keyboard.take_draft();
    chat.keyboard.on_change(None);
    draft
}

/// The screen of a conversation in plain lines.
pub(super) fn plain_screen(app: &AppContext) -> Screen {
    Screen::new(&app.env).with_theme(abilities::wanted_theme(app))
}
