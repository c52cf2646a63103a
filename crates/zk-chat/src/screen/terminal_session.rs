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

/// State that stays while a conversation goes from one screen to another.
pub(crate) struct TerminalSession {
    pub(crate) factory: Arc<dyn ConversationFactory>,
    pub(crate) tty: Tty,
    pub(crate) guard: TerminalGuard,
    pub(crate) interrupts: Arc<dyn Interrupts>,
    pub(crate) runtime: Runtime,
    pub(crate) editor: LineEditor,
}

/// Conversation that a screen begins with.
pub(crate) enum ScreenStart {
    /// Opens a new conversation.
    Open(ChatStart),
    /// Goes on with a conversation that another screen drew, and with what was being typed there.
    GoOn {
        chat: Box<Chat>,
        pending: PendingInput,
        /// Message about the conversation.
        said: Option<String>,
    },
}

/// Reason why a screen ends, with the parts that go on.
pub(crate) enum ScreenExit {
    End(ChatEnd),
    /// Another kind of screen takes the conversation over.
    Screen {
        next: ScreenKind,
        chat: Box<Chat>,
        pending: PendingInput,
    },
    /// The person is asked for a provider on the terminal itself; then the same screen goes on.
    SignIn {
        wanted: WantedSignIn,
        chat: Box<Chat>,
        pending: PendingInput,
        /// The screen that it was drawn on.
        kind: ScreenKind,
    },
    /// The conversation is opened anew, by this factory.
    Reload {
        factory: Arc<dyn ConversationFactory>,
        chat: Box<Chat>,
        pending: PendingInput,
        /// The screen that it was drawn on.
        kind: ScreenKind,
    },
}

impl ScreenExit {
    /// Returns what goes on with the conversation; nothing where it ended.
    pub(crate) fn pending(&self) -> Option<&PendingInput> {
        match self {
            Self::End(_) => None,
            Self::Screen { pending, .. } | Self::SignIn { pending, .. } | Self::Reload { pending, .. } => {
                Some(pending)
            }
        }
    }
}
