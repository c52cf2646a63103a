/// Start of a conversation: the part that does not depend on the opened session.
#[derive(Clone, Debug, Default)]
pub struct ChatStart {
    /// Initial prompt.
    pub prompt: Option<String>,
    /// Whether the person chooses a session after the opening.
    pub chooses_session: bool,
}

/// Reason for the end of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChatEnd {
    /// Ended by the person.
    Done,
    /// The terminal can no longer be read.
    Failed,
    /// Replaced by the demo, which the person chose before the start.
    Demo,
    /// A signal, or the terminal is gone.
    Terminated,
}
