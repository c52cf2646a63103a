//! Worker of a drawn screen: runs prompts and commands, one after the other.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use zk_tui::{ScreenKind, Style};

use super::front_end::ConsoleFrontEnd;
use super::host_messages::{HostEvent, HostRequest, OpenConversation, Queued};
use super::pending_input::{PendingInput, split_after_leaving_line};
use crate::conversation::chat::{Chat, LineOutcome};
use crate::conversation::effects::Remainder;
use crate::conversation::wanted_screen::WantedSignIn;
use crate::opening::error::ChatError;
use crate::opening::factory::{ConversationFactory, ConversationSource};
use crate::opening::interrupts::Interrupts;
use crate::opening::start::{ChatEnd, ChatStart};

/// Beginning of the conversation.
pub(crate) enum Begin {
    Open(Box<Opening>),
    GoOn(Box<Chat>),
}

/// Parts with which a new conversation is opened.
pub(crate) struct Opening {
    pub(crate) factory: Arc<dyn ConversationFactory>,
    pub(crate) start: ChatStart,
    pub(crate) front_end: ConsoleFrontEnd,
    pub(crate) interrupts: Arc<dyn Interrupts>,
}

/// Reason for the end of a worker: quit, sign-in or reload.
pub(crate) enum WorkEnd {
    End(ChatEnd),
    Screen(ScreenKind, Box<Chat>, Queued),
    /// A sign-in was requested.
    SignIn(WantedSignIn, Box<Chat>, Queued),
    /// The conversation continues with new settings.
    Reload(Arc<dyn ConversationFactory>, Box<Chat>, Queued),
}

/// Runs prompts and commands in order.
pub(crate) struct Worker {
    pub(crate) work: UnboundedReceiver<HostRequest>,
    pub(crate) notes: UnboundedSender<HostEvent>,
    pub(crate) opened: Arc<OnceLock<OpenConversation>>,
    /// Commands that are bound to keys.
    pub(crate) shortcuts: Vec<String>,
    /// Whether the conversation only visits the terminal.
    pub(crate) is_visit: bool,
}

impl Worker {
    pub(crate) async fn run(mut self, begin: Begin) -> Result<WorkEnd, ChatError> {
        let mut chooses = false;
        let (chat, mut given) = match begin {
            Begin::Open(opening) => {
                let Opening { factory, start, front_end, interrupts } = *opening;
                if let Some(blocks) = factory.last_run().await {
                    self.send_event(HostEvent::Announce(blocks));
                }
                let source = ConversationSource::Start;
                let chat = Chat::open(&factory, source, front_end, interrupts, None).await?;
                if !self.is_visit {
                    chat.greet();
                }
                chooses = start.chooses_session;
                (Box::new(chat), start.prompt.map(HostRequest::Line).into_iter().collect())
            }
            Begin::GoOn(chat) => (chat, VecDeque::new()),
        };
        let opened = OpenConversation {
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
            let _ = notes.send(HostEvent::Busy(is_busy));
        });
        // Names and choices that were requested meanwhile are current from here on.
        self.send_event(if chooses { HostEvent::ChooseSession } else { HostEvent::Names });
        for name in chat.unknown_commands(&self.shortcuts).await {
            let text = format!("keys.toml: there is no command {name} to give a key to");
            chat.screen.line(Style::YELLOW, &text);
        }
        let end = loop {
            let work = match given.pop_front() {
                Some(work) => Some(work),
                None => self.work.recv().await,
            };
            let work = match work {
                Some(HostRequest::Line(line)) => {
                    let (line, behind) = split_after_leaving_line(&line);
                    if let Some(behind) = behind {
                        given.push_front(HostRequest::Line(behind.to_owned()));
                    }
                    Some(HostRequest::Line(line.to_owned()))
                }
                work => work,
            };
            let outcome = match work {
                Some(HostRequest::Quit) if self.is_visit => {
                    let queued = Queued { first: given, rest: self.work };
                    return Ok(WorkEnd::Screen(ScreenKind::Inline, chat, queued));
                }
                None | Some(HostRequest::Quit) => break ChatEnd::Done,
                Some(HostRequest::Line(line)) => self.handle_line(&chat, line.trim()).await,
                Some(HostRequest::Effect(effect)) => match chat.effect_host().carry_out(effect).await {
                    Some(Remainder::Run(text)) => chat.run_queued_text_and_effects(&text).await,
                    Some(Remainder::GiveBack(text)) => {
                        self.send_event(HostEvent::GiveBack(text));
                        LineOutcome::Done
                    }
                    None => LineOutcome::Done,
                },
            };
            while let Some(waiting) = chat.keyboard.next_queued() {
                self.send_event(HostEvent::GiveBack(waiting.text));
            }
            let draft = chat.keyboard.take_draft();
            if !draft.is_empty() {
                self.send_event(HostEvent::GiveBack(draft));
            }
            match outcome {
                LineOutcome::Done | LineOutcome::Failed => {}
                LineOutcome::ReloadRejected => {
                    let waiting = std::iter::from_fn(|| self.work.try_recv().ok());
                    let work = std::mem::take(&mut given).into_iter().chain(waiting).collect();
                    let mut pending = PendingInput { work, ..PendingInput::default() };
                    if pending.return_to_draft(usize::MAX) {
                        self.send_event(HostEvent::GiveBack(pending.draft));
                    }
                    given.extend(pending.work);
                }
                LineOutcome::Quit(end) => break end,
                LineOutcome::Reload(read) => {
                    return Ok(WorkEnd::Reload(read, chat, Queued { first: given, rest: self.work }));
                }
            }
            if let Some(text) = chat.wanted.take_copy() {
                self.send_event(HostEvent::Copy(text));
            }
            if let Some(theme) = chat.wanted.theme() {
                self.send_event(HostEvent::Theme(theme));
            }
            if let Some(file) = chat.wanted.take_edit() {
                self.send_event(HostEvent::EditFile(file));
            }
            if let Some(wanted) = chat.wanted.take_sign_in() {
                return Ok(WorkEnd::SignIn(wanted, chat, Queued { first: given, rest: self.work }));
            }
            match chat.wanted.take_screen() {
                Some(ScreenKind::Plain) => {
                    let queued = Queued { first: given, rest: self.work };
                    return Ok(WorkEnd::Screen(ScreenKind::Plain, chat, queued));
                }
                Some(kind) => self.send_event(HostEvent::Full(kind == ScreenKind::Full)),
                None => {}
            }
            if self.is_visit && given.is_empty() && self.work.is_empty() {
                self.send_event(HostEvent::Rested);
            }
        };
        chat.close().await;
        Ok(WorkEnd::End(end))
    }

    async fn handle_line(&self, chat: &Chat, line: &str) -> LineOutcome {
        let is_command = line.starts_with(['/', '!']);
        if is_command {
            if !chat.is_prompt_line(line).await {
                chat.screen.echo(line);
            }
            self.send_event(HostEvent::Busy(true));
        }
        let outcome = chat.handle_line(line).await;
        if is_command {
            self.send_event(HostEvent::Busy(false));
        }
        outcome
    }

    fn send_event(&self, note: HostEvent) {
        // The screen may have ended.
        let _ = self.notes.send(note);
    }
}
