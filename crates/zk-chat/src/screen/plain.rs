//! Screen of a conversation in plain lines.

use tokio_util::sync::CancellationToken;
use zk_tui::plain::{LineEditor, ReadLine, Waiting};
use zk_tui::{DRAFT_PAUSE, KeptDrafts, ScreenKind, Style};

use super::draft::draft_files::draft_files;
use super::front_end::ConsoleFrontEnd;
use super::host_messages::HostRequest;
use super::pending_input::{PendingInput, join, split_after_leaving_line};
use super::runtime::Runtime;
use super::terminal_session::{ScreenExit, ScreenStart, TerminalSession};
use crate::conversation::chat::{Chat, LineOutcome};
use crate::conversation::effects::Remainder;
use crate::opening::error::ChatError;
use crate::opening::factory::ConversationSource;
use crate::opening::start::ChatEnd;

/// Message after a switch to plain lines.
const BACK: &str = "plain lines from now on; /screen inline goes back";

pub(crate) fn run(session: &mut TerminalSession, start: ScreenStart) -> Result<ScreenExit, ChatError> {
    let TerminalSession { factory, runtime, editor, .. } = session;
    let setup = factory.setup();
    let mut carried = None;
    let (chat, given) = match start {
        ScreenStart::Open(start) => {
            let front_end = ConsoleFrontEnd::for_lines(setup, session.tty.clone());
            let (source, interrupts) = (ConversationSource::Start, session.interrupts.clone());
            let opening = Chat::open(factory, source, front_end, interrupts, None);
            let chat = runtime.block_on(opening)?;
            chat.greet();
            let choice = start.chooses_session.then(|| "/resume".to_owned());
            (Box::new(chat), start.prompt.or(choice))
        }
        ScreenStart::GoOn { chat, pending, said } => {
            let text = pending.text();
            runtime.block_on(async {
                chat.draw_lines(setup.plain_screen());
                let said = said.as_deref().unwrap_or(BACK);
                if !said.is_empty() {
                    chat.screen.line(Style::DIM, said);
                }
                queue_pending(pending, &chat).await;
            });
            carried = Some(text);
            (chat, None)
        }
    };
    let mut drafts = KeptDrafts::new(draft_files(setup), DRAFT_PAUSE);
    // The draft's file is the one that the earlier screen wrote.
    carried.iter().for_each(|text| drafts.noting()(text));
    if let Some(lost) = drafts.take_lost() {
        chat.screen.line(Style::DIM, &lost.note());
        chat.keyboard.set_draft(lost.text);
    }
    chat.keyboard.on_change(Some(drafts.noting()));
    editor.on_change(Some(drafts.noting()));
    let ended = converse(chat, runtime, editor, given);
    editor.on_change(None);
    if let Some(pending) = ended.as_ref().ok().and_then(ScreenExit::pending) {
        // The text stays stored until another screen takes it over.
        drafts.noting()(&pending.text());
    }
    ended
}

/// Reads and handles lines until the conversation ends or moves to another screen.
fn converse(
    chat: Box<Chat>,
    runtime: &Runtime,
    editor: &mut LineEditor,
    mut given: Option<String>,
) -> Result<ScreenExit, ChatError> {
    let mut interrupted = false;
    // Dropped at the end: no questions are asked while the conversation closes.
    let mut turn = None;
    let end = loop {
        drop(turn.take());
        turn = match runtime.block_on(chat.wait_for_questions()) {
            Ok(turn) => Some(turn),
            Err(LineOutcome::Quit(end)) => break end,
            Err(_) => continue,
        };
        let waiting = given.take().map(Waiting::from).or_else(|| chat.next_queued(editor));
        let Waiting { text, is_prompt } = match waiting {
            Some(waiting) => {
                chat.echo_text(&waiting.text);
                waiting
            }
            None => match read_line(&chat, runtime, editor) {
                ReadLine::Line(text) => text.into(),
                ReadLine::BackTab(typed) => {
                    chat.switch_mode();
                    chat.keyboard.set_draft(typed);
                    continue;
                }
                ReadLine::Interrupt if interrupted => break ChatEnd::Done,
                ReadLine::Interrupt => {
                    interrupted = true;
                    chat.screen.line(Style::DIM, "Ctrl-C again, or Ctrl-D, ends the conversation");
                    continue;
                }
                ReadLine::End => break ChatEnd::Done,
                ReadLine::Failed(why) => {
                    chat.screen.line(Style::RED, &format!("cannot read the terminal: {why}"));
                    break ChatEnd::Failed;
                }
            },
        };
        interrupted = false;
        drop(turn.take());
        let (line, behind) = if is_prompt { (&*text, None) } else { split_after_leaving_line(&text) };
        given = behind.map(str::to_owned);
        let outcome = runtime.block_on(async {
            if is_prompt {
                chat.run_queued_text_and_effects(line).await
            } else {
                chat.handle_line(line).await
            }
        });
        match outcome {
            LineOutcome::Done => {}
            LineOutcome::Failed | LineOutcome::ReloadRejected => {
                given.take().iter().for_each(|behind| chat.keyboard.give_back(behind));
                chat.keyboard.queue_to_draft();
            }
            LineOutcome::Quit(end) => break end,
            LineOutcome::Reload(factory) => {
                let pending = take_pending(&chat, given);
                return Ok(ScreenExit::Reload { factory, chat, pending, kind: ScreenKind::Plain });
            }
        }
        if chat.wanted.take_copy().is_some() {
            chat.screen.line(Style::YELLOW, "plain lines cannot use the clipboard; /screen inline can");
        }
        if let Some(wanted) = chat.wanted.take_sign_in() {
            let pending = take_pending(&chat, given);
            return Ok(ScreenExit::SignIn { wanted, chat, pending, kind: ScreenKind::Plain });
        }
        if let Some(next) = chat.wanted.take_screen().filter(|kind| *kind != ScreenKind::Plain) {
            let pending = take_pending(&chat, given);
            return Ok(ScreenExit::Screen { next, chat, pending });
        }
    };
    chat.keyboard.on_change(None);
    runtime.block_on(chat.close());
    Ok(ScreenExit::End(end))
}

/// Reads a line while another thread runs the tasks of the conversation. Output and questions wait for the
/// line's end.
fn read_line(chat: &Chat, runtime: &Runtime, editor: &mut LineEditor) -> ReadLine {
    let draft = chat.keyboard.take_draft();
    let over = CancellationToken::new();
    chat.screen.lock().hold();
    let read = std::thread::scope(|scope| {
        let _end = over.clone().drop_guard();
        let tasks = std::thread::Builder::new().name("tasks".to_owned());
        // If no thread can be started, the tasks wait until the line is read.
        let _ = tasks.spawn_scoped(scope, || runtime.block_on(over.cancelled()));
        editor.read(&draft)
    });
    chat.screen.lock().release();
    read
}

/// Takes all unsent text and queued requests, for the next screen.
fn take_pending(chat: &Chat, given: Option<String>) -> PendingInput {
    chat.keyboard.on_change(None);
    let work = given.into_iter().map(HostRequest::Line).collect();
    let mut pending = PendingInput { work, ..PendingInput::default() };
    pending.take_from(&chat.keyboard);
    pending
}

/// Queues the requests of another screen, and starts the next line with its draft. A prompt is never taken for
/// a command.
async fn queue_pending(pending: PendingInput, chat: &Chat) {
    let mut draft = pending.draft;
    for work in pending.work {
        match work {
            HostRequest::Line(text) => chat.keyboard.queue(text.into()),
            HostRequest::Quit => chat.keyboard.queue("/quit".to_owned().into()),
            HostRequest::Effect(effect) => match chat.effect_host().carry_out(effect).await {
                // A shell command of the person is run as one.
                Some(Remainder::Run(text)) => {
                    chat.keyboard.queue(Waiting { is_prompt: !text.starts_with('!'), text });
                }
                Some(Remainder::GiveBack(text)) => draft = join([text, draft]),
                None => {}
            },
        }
    }
    chat.keyboard.set_draft(draft);
}
