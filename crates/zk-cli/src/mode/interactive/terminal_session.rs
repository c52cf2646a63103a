//! Ways of a conversation from one screen to another.

use std::sync::Arc;

use zk_tui::ScreenKind;
use zk_tui::plain::LineEditor;
use zk_tui::term::{TerminalGuard, Tty};

use super::chat::Chat;
use super::factory::ConversationFactory;
use super::interrupts::Interrupts;
use super::pending_input::PendingInput;
use super::runtime::Runtime;
use super::start::{ChatEnd, ChatStart};

/// State that stays while a conversation goes from one screen to another.
pub(super) struct TerminalSession {
    pub(super) factory: Arc<dyn ConversationFactory>,
    pub(super) tty: Tty,
    pub(super) guard: TerminalGuard,
    pub(super) interrupts: Arc<dyn Interrupts>,
    pub(super) runtime: Runtime,
    pub(super) editor: LineEditor,
}

/// Beginning of a screen.
pub(super) enum ScreenStart {
    /// With a new conversation.
    Open(ChatStart),
    /// With one that another screen drew, and what was being typed there.
    GoOn {
        chat: Box<Chat>,
        pending: PendingInput,
        /// Message about the conversation.
        said: Option<String>,
    },
}

/// End of a screen.
pub(super) enum ScreenExit {
    End(ChatEnd),
    /// Another one goes on.
    Screen {
        next: ScreenKind,
        chat: Box<Chat>,
        pending: PendingInput,
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
