/// Beginning of a conversation, as far as it does not depend on what is opened.
#[derive(Clone, Debug, Default)]
pub struct ChatStart {
    /// Prompt to begin with.
    pub prompt: Option<String>,
    /// Whether the person chooses the session once the conversation is open.
    pub chooses_session: bool,
}

/// End of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChatEnd {
    /// The person ended it.
    Done,
    /// The terminal can no longer be read.
    Failed,
    /// Demo in its place: the person chose it before the conversation began.
    Demo,
    /// A signal ended it, or the terminal is gone.
    Terminated,
}
