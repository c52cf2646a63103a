//! A conversation on a terminal that belongs to another program between its answers.

pub(crate) mod terminal_loan;

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use zk_tui::ScreenKind;
use zk_tui::plain::{LineEditor, Screen};
use zk_tui::term::{Restored, TerminalGuard, Tty};

use crate::conversation::chat::Chat;
use crate::opening::error::ChatError;
use crate::opening::factory::ConversationFactory;
use crate::opening::interrupts::Interrupts;
use crate::opening::start::{ChatEnd, ChatStart};
use crate::screen::first_start::{self, SignedIn};
use crate::screen::inline;
use crate::screen::pending_input::PendingInput;
use crate::screen::runtime::Runtime;
use crate::screen::terminal_session::{ScreenExit, ScreenStart, TerminalSession};
use terminal_loan::TerminalLoans;

/// Inline screen on a terminal that another program owns (`zk shell`).
#[derive(Clone, Debug, Default)]
pub(crate) struct Visit {
    /// Cancelled when the terminal is needed back.
    pub(crate) over: CancellationToken,
    pub(crate) loans: TerminalLoans,
}

/// Conversation that is drawn only when it is called, below the output of another program, such as a shell.
/// It is opened by the first call, and goes on between calls while [`block_on`](Self::block_on) runs.
pub struct VisitingConversation {
    session: TerminalSession,
    chat: Option<(Box<Chat>, PendingInput)>,
    loans: TerminalLoans,
    _restored: Restored,
}

impl fmt::Debug for VisitingConversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VisitingConversation").field("is_open", &self.chat.is_some()).finish_non_exhaustive()
    }
}

impl VisitingConversation {
    /// Prepares a conversation on the terminal of this process, whose modes are those to go back to. `loans`
    /// lends the terminal while it is drawn. `watch` starts the watching of signals; its callback restores the
    /// terminal.
    ///
    /// # Errors
    /// [`ChatError`] when the terminal or the signals cannot be used.
    pub fn new<W>(
        factory: Arc<dyn ConversationFactory>,
        loans: TerminalLoans,
        watch: W,
    ) -> Result<Self, ChatError>
    where
        W: FnOnce(Box<dyn Fn() + Send + Sync>) -> std::io::Result<Arc<dyn Interrupts>>,
    {
        let setup = factory.setup();
        let tty = Tty::of_stdin(Screen::stdout(&setup.terminal).is_capable()).map_err(ChatError::Terminal)?;
        let guard = TerminalGuard::of_stdin(tty.clone()).map_err(ChatError::Terminal)?;
        let restored = Restored(guard.clone());
        let leaving = guard.clone();
        let interrupts =
            watch(Box::new(move || leaving.restore_before_exit())).map_err(ChatError::Terminal)?;
        interrupts.disarm();
        let editor = LineEditor::new(crate::line_history(setup))?;
        let runtime = Runtime::new()?;
        let session = TerminalSession { factory, tty, guard, interrupts, runtime, editor, visit: None };
        Ok(Self { session, chat: None, loans, _restored: restored })
    }

    /// Runs `future` to completion, and the conversation's background work beside it.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.session.runtime.block_on(future)
    }

    /// Draws the conversation at the beginning of an empty row, until an answer is complete, the person leaves,
    /// or `over` is cancelled. Returns with the cursor on an empty row and the terminal's modes as they were
    /// first. Unsent text is the draft of the next call.
    ///
    /// # Errors
    /// [`ChatError`] when the conversation cannot be opened, or the terminal cannot be used. The next call
    /// opens it anew.
    pub fn call(&mut self, over: CancellationToken) -> Result<(), ChatError> {
        let mut start = match self.chat.take() {
            Some((chat, pending)) => ScreenStart::GoOn { chat, pending, said: None },
            None => {
                if let ControlFlow::Break(_) = first_start::run_if_needed(&mut self.session)? {
                    return Ok(());
                }
                ScreenStart::Open(ChatStart::default())
            }
        };
        self.session.visit = Some(Visit { over, loans: self.loans.clone() });
        let kind = ScreenKind::Inline;
        loop {
            let reloaded = match inline::run(&mut self.session, start, kind)? {
                ScreenExit::End(ChatEnd::Done | ChatEnd::Demo) => return Ok(()),
                ScreenExit::End(ChatEnd::Failed | ChatEnd::Terminated) => return Err(ChatError::Terminated),
                ScreenExit::Screen { chat, pending, .. } => {
                    self.chat = Some((chat, pending));
                    return Ok(());
                }
                ScreenExit::SignIn { wanted, chat, pending, kind } => {
                    match first_start::log_in(&mut self.session, wanted, chat, pending, kind)? {
                        SignedIn::GoOn(next) => {
                            start = next;
                            continue;
                        }
                        SignedIn::Reload { factory, chat, pending } => {
                            crate::reload(&mut self.session, factory, *chat, pending, kind)?
                        }
                    }
                }
                ScreenExit::Reload { factory, chat, pending, kind } => {
                    crate::reload(&mut self.session, factory, *chat, pending, kind)?
                }
            };
            match reloaded {
                ControlFlow::Continue((next, _)) => start = next,
                ControlFlow::Break(_) => return Ok(()),
            }
        }
    }

    /// Closes the conversation, if it was opened, and prints how to go on with it.
    pub fn close(mut self) {
        if let Some((chat, _)) = self.chat.take() {
            let screen = self.session.factory.setup().plain_screen();
            self.session.runtime.block_on(async {
                chat.draw_lines(screen);
                chat.close().await;
                chat.flush().await;
            });
        }
    }
}
