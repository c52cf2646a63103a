//! The conversation beside the screen: it runs prompts and commands, one after the other.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use zk_tui::{ScreenKind, Style};
use zk_view::Effect;

use super::chat::{Chat, LineOutcome, Opens};
use super::desk::Desk;
use super::unfinished::{Unfinished, split_line};
use super::work::{Note, Opened, Queued, Work};
use crate::app::AppContext;
use crate::args::{Prompt, Resume};
use crate::exit::{Exit, Outcome};
use crate::sessions;
use crate::signals::Signals;

/// Beginning of the conversation.
pub(super) enum Begin {
    Open(Box<Opening>),
    GoOn(Box<Chat>),
}

/// Parts that a new conversation begins with.
pub(super) struct Opening {
    pub(super) app: AppContext,
    pub(super) prompt: Prompt,
    pub(super) desk: Desk,
    pub(super) signals: Signals,
}

/// End of the conversation for this screen: for good, with another one that was asked for, or to be opened
/// anew.
pub(super) enum WorkEnd {
    Exit(Exit),
    Screen(ScreenKind, Box<Chat>, Queued),
    /// The conversation goes on with what was read anew.
    Reload(Box<AppContext>, Box<Chat>, Queued),
}

/// Runs prompts and commands, one after the other.
pub(super) struct Worker {
    pub(super) work: UnboundedReceiver<Work>,
    pub(super) notes: UnboundedSender<Note>,
    pub(super) opened: Arc<OnceLock<Opened>>,
    /// Commands that keys run.
    pub(super) shortcuts: Vec<String>,
}

impl Worker {
    pub(super) async fn run(mut self, begin: Begin) -> Outcome<WorkEnd> {
        let mut chooses = false;
        let (chat, mut given) = match begin {
            Begin::Open(opening) => {
                let Opening { app, prompt, desk, signals } = *opening;
                if let Some(resume) = &prompt.resume {
                    self.tell(Note::Announce(sessions::end_of(&app, resume).await));
                }
                let chat = Chat::open(&app, Opens::Prompt(&prompt), desk, signals).await?;
                chat.greet();
                chooses = prompt.resume == Some(Resume::Choose);
                (Box::new(chat), prompt.text.map(Work::Line).into_iter().collect())
            }
            Begin::GoOn(chat) => (chat, VecDeque::new()),
        };
        let opened = Opened {
            agent: chat.agent.clone(),
            conversation: chat.conversation.clone(),
            sessions: chat.sessions.clone(),
            attachments: chat.attachments.clone(),
            wanted: chat.wanted.clone(),
        };
        let _ = self.opened.set(opened);
        let notes = self.notes.clone();
        chat.on_busy(move |is_busy| {
            // The screen may have ended.
            let _ = notes.send(Note::Busy(is_busy));
        });
        // Choices and names that were asked for meanwhile are known from now on.
        self.tell(if chooses { Note::ChooseSession } else { Note::Names });
        for name in chat.unknown_commands(&self.shortcuts).await {
            let text = format!("keys.toml: there is no command {name} to give a key to");
            chat.screen.line(Style::YELLOW, &text);
        }
        let exit = loop {
            let work = match given.pop_front() {
                Some(work) => Some(work),
                None => self.work.recv().await,
            };
            let work = match work {
                Some(Work::Line(line)) => {
                    let (line, behind) = split_line(&line);
                    if let Some(behind) = behind {
                        given.push_front(Work::Line(behind.to_owned()));
                    }
                    Some(Work::Line(line.to_owned()))
                }
                work => work,
            };
            let outcome = match work {
                None | Some(Work::Quit) => break Exit::Done,
                Some(Work::Line(line)) => self.line(&chat, line.trim()).await,
                Some(Work::Effect(Effect::Run { text })) => chat.run_waiting(&text).await,
                Some(Work::Effect(effect)) => {
                    if let Some(Effect::GiveBack { text }) =
                        chat.view.carry_out(&chat.conversation, effect).await
                    {
                        self.tell(Note::GiveBack(text));
                    }
                    LineOutcome::Done
                }
            };
            while let Some(waiting) = chat.keyboard.next_queued() {
                self.tell(Note::GiveBack(waiting.text));
            }
            let draft = chat.keyboard.take_draft();
            if !draft.is_empty() {
                self.tell(Note::GiveBack(draft));
            }
            match outcome {
                LineOutcome::Done | LineOutcome::Failed => {}
                LineOutcome::Stays => {
                    let waiting = std::iter::from_fn(|| self.work.try_recv().ok());
                    let work = std::mem::take(&mut given).into_iter().chain(waiting).collect();
                    let mut unfinished = Unfinished { work, ..Unfinished::default() };
                    if unfinished.give_back(usize::MAX) {
                        self.tell(Note::GiveBack(unfinished.draft));
                    }
                    given.extend(unfinished.work);
                }
                LineOutcome::Quit(exit) => break exit,
                LineOutcome::Reload(app) => {
                    return Ok(WorkEnd::Reload(app, chat, Queued { first: given, rest: self.work }));
                }
            }
            if let Some(text) = chat.wanted.take_copy() {
                self.tell(Note::Copy(text));
            }
            match chat.wanted.take() {
                Some(ScreenKind::Plain) => {
                    let queued = Queued { first: given, rest: self.work };
                    return Ok(WorkEnd::Screen(ScreenKind::Plain, chat, queued));
                }
                Some(kind) => self.tell(Note::Full(kind == ScreenKind::Full)),
                None => {}
            }
        };
        chat.close().await;
        Ok(WorkEnd::Exit(exit))
    }

    async fn line(&self, chat: &Chat, line: &str) -> LineOutcome {
        let is_command = line.starts_with(['/', '!']);
        if is_command {
            chat.screen.line(Style::BOLD, &format!("› {line}"));
            self.tell(Note::Busy(true));
        }
        let outcome = chat.handle_line(line).await;
        if is_command {
            self.tell(Note::Busy(false));
        }
        outcome
    }

    fn tell(&self, note: Note) {
        // The screen may have ended.
        let _ = self.notes.send(note);
    }
}
