//! Ways of a conversation from one screen to another.

use zk_tui::ScreenKind;
use zk_tui::plain::LineEditor;
use zk_tui::term::{TerminalGuard, Tty};

use super::chat::Chat;
use super::pending_input::PendingInput;
use crate::app::{AppContext, Runtime};
use crate::args::Prompt;
use crate::exit::Exit;
use crate::signals::Signals;

/// State that stays while a conversation goes from one screen to another.
pub(super) struct TerminalSession {
    pub(super) app: AppContext,
    pub(super) tty: Tty,
    pub(super) guard: TerminalGuard,
    pub(super) signals: Signals,
    pub(super) runtime: Runtime,
    pub(super) editor: LineEditor,
}

/// Beginning of a screen.
pub(super) enum ScreenStart {
    /// With a new conversation.
    Open(Prompt),
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
    Exit(Exit),
    /// Another one goes on.
    Screen {
        next: ScreenKind,
        chat: Box<Chat>,
        pending: PendingInput,
    },
    /// The conversation is opened anew, with these settings.
    Reload {
        app: Box<AppContext>,
        chat: Box<Chat>,
        pending: PendingInput,
        /// The screen that it was drawn on.
        kind: ScreenKind,
    },
}
