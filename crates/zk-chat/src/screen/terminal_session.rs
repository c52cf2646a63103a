//! Ways of a conversation from one screen to another.

use std::sync::Arc;

use zk_tui::ScreenKind;
use zk_tui::plain::LineEditor;
use zk_tui::term::{TerminalGuard, Tty};

use super::pending_input::PendingInput;
use super::runtime::Runtime;
use crate::conversation::chat::Chat;
use crate::conversation::wanted_screen::WantedSignIn;
use crate::opening::factory::ConversationFactory;
use crate::opening::interrupts::Interrupts;
use crate::opening::start::{ChatEnd, ChatStart};
use crate::visits::Visit;

/// State that persists across screens of a conversation.
pub(crate) struct TerminalSession {
    pub(crate) factory: Arc<dyn ConversationFactory>,
    pub(crate) tty: Tty,
    pub(crate) guard: TerminalGuard,
    pub(crate) interrupts: Arc<dyn Interrupts>,
    pub(crate) runtime: Runtime,
    pub(crate) editor: LineEditor,
    /// Present visit, for a conversation on another program's terminal; `None` if the terminal is its own.
    pub(crate) visit: Option<Visit>,
}

/// Conversation that a screen begins with.
pub(crate) enum ScreenStart {
    /// Opens a new conversation.
    Open(ChatStart),
    /// Continues a conversation of another screen, with its draft.
    GoOn {
        chat: Box<Chat>,
        pending: PendingInput,
        /// Message to show first.
        said: Option<String>,
    },
}

/// Reason for a screen's end, with the state for the next one.
pub(crate) enum ScreenExit {
    End(ChatEnd),
    /// Switch to another kind of screen.
    Screen {
        next: ScreenKind,
        chat: Box<Chat>,
        pending: PendingInput,
    },
    /// Provider dialog on the terminal; the same screen continues afterwards.
    SignIn {
        wanted: WantedSignIn,
        chat: Box<Chat>,
        pending: PendingInput,
        /// Kind of the screen before the sign-in.
        kind: ScreenKind,
    },
    /// The conversation is opened anew, by this factory.
    Reload {
        factory: Arc<dyn ConversationFactory>,
        chat: Box<Chat>,
        pending: PendingInput,
        /// Kind of the screen before the reload.
        kind: ScreenKind,
    },
}

impl ScreenExit {
    /// Pending input for the next screen; `None` if the conversation ended.
    pub(crate) fn pending(&self) -> Option<&PendingInput> {
        match self {
            Self::End(_) => None,
            Self::Screen { pending, .. } | Self::SignIn { pending, .. } | Self::Reload { pending, .. } => {
                Some(pending)
            }
        }
    }
}
