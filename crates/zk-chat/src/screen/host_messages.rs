//! Messages between a screen and the worker of its conversation.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc::UnboundedReceiver;
use zk_view::{Block, Effect, Intent, ViewDriver};

use crate::conversation::attachments::Attachments;
use crate::conversation::effects::EffectHost;
use crate::conversation::wanted_screen::WantedScreen;
use crate::opening::sessions::ConversationSessions;
use crate::visits::terminal_loan::TerminalLoan;

/// Request of the screen to the worker.
pub(crate) enum HostRequest {
    Line(String),
    Effect(Effect),
    Quit,
}

/// Event from the worker, or from a background task, for the screen.
pub(crate) enum HostEvent {
    /// Start or end of a command that does not appear in the view.
    Busy(bool),
    GiveBack(String),
    /// Preview of the session that is being opened.
    Announce(Vec<Arc<Block>>),
    /// Switch between the full and the inline screen.
    Full(bool),
    /// A background lookup of completions finished.
    Names,
    /// Result of reading the clipboard image.
    Image(Result<Vec<u8>, String>),
    /// A text for the clipboard.
    Copy(String),
    /// Switch to another theme.
    Theme(&'static str),
    /// File of the person to open in the editor.
    EditFile(PathBuf),
    /// A session was renamed or removed.
    SessionsChanged,
    /// Error of an operation on a session.
    Failed(String),
    /// Open the session picker.
    ChooseSession,
    /// Output of a command that ran during a run.
    Beside {
        line: String,
        text: String,
    },
    /// Outcome of the first command in the queue of prompt commands.
    Made(Made),
    /// The conversation has nothing left to do, and only visits this terminal.
    Rested,
    /// Another program borrows the terminal.
    Lend(TerminalLoan),
}

/// Outcome of a command typed during a run.
#[derive(Debug, PartialEq)]
pub(crate) enum Made {
    Prompt(Intent),
    Said(String),
    /// The command's request is carried out by this line at the end of the run.
    Later(&'static str),
    /// The command was stopped.
    Stopped,
}

/// Part of an open conversation that is shared by the worker and the screen.
pub(crate) struct OpenConversation {
    pub(crate) agent: zk_agent::Agent,
    pub(crate) conversation: zk_agent::AgentConversation,
    pub(crate) sessions: Arc<dyn ConversationSessions>,
    pub(crate) attachments: Attachments,
    pub(crate) wanted: WantedScreen,
}

impl OpenConversation {
    /// Parts of the conversation on which the effects of `view` are carried out.
    pub(crate) fn effect_host<'a>(&'a self, view: &'a ViewDriver) -> EffectHost<'a> {
        let (conversation, sessions) = (&self.conversation, &*self.sessions);
        EffectHost { view, conversation, sessions, attachments: &self.attachments }
    }
}

/// Requests that were not started when the conversation left its screen.
pub(crate) struct Queued {
    /// Requests typed together with the command that left.
    pub(crate) first: VecDeque<HostRequest>,
    pub(crate) rest: UnboundedReceiver<HostRequest>,
}
