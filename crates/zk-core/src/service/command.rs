use async_trait::async_trait;

use crate::kernel::{BoxError, Cx};

/// Something a person can ask the program for by name: `/name arguments`. A registry item under its name.
#[async_trait]
pub trait Command: Send + Sync {
    /// The name, without the slash.
    fn name(&self) -> &str;
    /// One line of help.
    fn help(&self) -> &str;
    /// Runs it with what follows the name, trimmed.
    ///
    /// # Errors
    /// What to tell the person.
    async fn run(&self, args: &str, cx: &Cx) -> Result<CommandOutcome, BoxError>;
}

/// What a command leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandOutcome {
    /// Nothing more.
    Done,
    /// Text to show.
    Show(String),
    /// A prompt to send to the model.
    Prompt(String),
    /// The end of the conversation.
    Quit,
}
