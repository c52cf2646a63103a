//! Messages between a screen and the conversation beside it.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc::UnboundedReceiver;
use zk_view::{Block, Effect, Intent, ViewDriver};

use crate::conversation::attachments::Attachments;
use crate::conversation::effects::EffectHost;
use crate::conversation::wanted_screen::WantedScreen;
use crate::opening::sessions::ConversationSessions;

/// Work of the conversation.
pub(crate) enum HostRequest {
    Line(String),
    Effect(Effect),
    Quit,
}

/// Note of the conversation to the screen.
pub(crate) enum HostEvent {
    /// The conversation runs a command, of which the view knows nothing.
    Busy(bool),
    GiveBack(String),
    /// The end of a session that is being opened.
    Announce(Vec<Arc<Block>>),
    /// Draw on all of the terminal, or below what it shows.
    Full(bool),
    /// Names were found that may be typed.
    Names,
    /// An image of the clipboard, or why there is none.
    Image(Result<Vec<u8>, String>),
    /// A text for the clipboard.
    Copy(String),
    /// Other colours.
    Theme(&'static str),
    /// A file of the person's to open in their editor.
    EditFile(PathBuf),
    /// A session got another title, or is gone.
    SessionsChanged,
    /// Somebody could not do with a session what was asked.
    Failed(String),
    /// The person is to choose the session to go on with.
    ChooseSession,
    /// Output of a command that was done beside a run.
    Beside {
        line: String,
        text: String,
    },
    /// The next command that makes prompts is done.
    Made(Made),
}

/// Outcome of a command that was typed during a run.
#[derive(Debug, PartialEq)]
pub(crate) enum Made {
    Prompt(Intent),
    Said(String),
    /// The line that does at the end of the run what the command wants.
    Later(&'static str),
    /// The command did not come to its end.
    Stopped,
}

/// The part of a conversation that both sides use.
pub(crate) struct OpenConversation {
    pub(crate) agent: zk_agent::Agent,
    pub(crate) conversation: zk_agent::AgentConversation,
    pub(crate) sessions: Arc<dyn ConversationSessions>,
    pub(crate) attachments: Attachments,
    pub(crate) wanted: WantedScreen,
}

impl OpenConversation {
    /// Parts that effects of `view` are carried out on.
    pub(crate) fn effects<'a>(&'a self, view: &'a ViewDriver) -> EffectHost<'a> {
        let (conversation, sessions) = (&self.conversation, &*self.sessions);
        EffectHost { view, conversation, sessions, attachments: &self.attachments }
    }
}

/// The work that was not begun when a conversation left its screen.
pub(crate) struct Queued {
    /// Work that was typed with the command that had the conversation leave.
    pub(crate) first: VecDeque<HostRequest>,
    pub(crate) rest: UnboundedReceiver<HostRequest>,
}
