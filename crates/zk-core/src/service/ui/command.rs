use async_trait::async_trait;

use crate::kernel::{BoxError, Cx};

/// Something a person can ask the program for by name: `/name arguments`. A registry item under its name.
///
/// In a conversation it finds that as a service of its context, which handlers of events do not: they would wait for
/// the end of a run that waits for them.
///
/// ```
/// use async_trait::async_trait;
/// use zk_core::kernel::{BoxError, Cx};
/// use zk_core::model::Block;
/// use zk_core::service::{Command, CommandOutcome, Conversation, SwitchTarget};
///
/// /// Begins a new session that reviews what was done in this one.
/// struct Review;
///
/// #[async_trait]
/// impl Command for Review {
///     fn name(&self) -> &str {
///         "review"
///     }
///
///     fn help(&self) -> &str {
///         "have a new session look at the changes"
///     }
///
///     async fn run(&self, args: &str, cx: &Cx) -> Result<CommandOutcome, BoxError> {
///         let conversation = cx.service::<dyn Conversation>().ok_or("this needs a conversation")?;
///         conversation.idle().await;
///         conversation.switch(SwitchTarget::New).await?;
///         conversation.submit(vec![Block::text(format!("Review the changes in git. {args}"))]).await?;
///         Ok(CommandOutcome::Done)
///     }
/// }
/// ```
#[async_trait]
pub trait Command: Send + Sync {
    /// The name, without the slash.
    fn name(&self) -> &str;
    /// One line of help.
    fn help(&self) -> &str;
    /// The arguments in words, such as `NAME` or `[BASE]`, for a list of commands; nothing for a command that works without
    /// any, which such a list runs at once.
    fn argument_hint(&self) -> Option<&str> {
        None
    }
    /// The texts that may follow `before`, the arguments that are typed already, for whoever completes a line. It is asked
    /// beside everything else, and may take its time.
    async fn complete(&self, before: &str, cx: &Cx) -> Vec<ArgumentChoice> {
        let _ = (before, cx);
        Vec::new()
    }
    /// Runs it with what follows the name, trimmed.
    ///
    /// # Errors
    /// What to tell the person.
    async fn run(&self, args: &str, cx: &Cx) -> Result<CommandOutcome, BoxError>;
}

/// Argument that a command may be given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArgumentChoice {
    /// The argument, as it is typed.
    pub value: String,
    /// Remark on it in a few words; may be empty.
    pub note: String,
}

impl ArgumentChoice {
    /// An argument with a remark.
    pub fn new(value: impl Into<String>, note: impl Into<String>) -> Self {
        Self { value: value.into(), note: note.into() }
    }
}

/// Outcome of a command.
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
    /// The conversation goes on with settings and plugins that are read anew. What the command knew of it is over then:
    /// its context, its services and itself.
    Reload,
}

/// The longest words that a name may have, such as those of `/git commit`.
const WORDS: usize = 5;

/// Returns the result of `find` for the longest name that `line` begins with, and what follows it, trimmed. A
/// name of several words may be typed with blanks between them, or with colons as it is listed: `git commit`
/// and `git:commit`.
///
/// ```
/// use zk_core::service::match_command;
///
/// let known = |name: &str| ["git", "git:commit"].contains(&name).then(|| name.to_owned());
/// assert_eq!(match_command("git commit -m x", known), Some(("git:commit".to_owned(), "-m x")));
/// assert_eq!(match_command("git committed", known), Some(("git".to_owned(), "committed")));
/// assert_eq!(match_command("gitcommit", known), None);
/// ```
pub fn match_command<T>(line: &str, find: impl Fn(&str) -> Option<T>) -> Option<(T, &str)> {
    let mut ends = Vec::new();
    let mut words = Vec::new();
    let mut at = 0;
    for part in line.split_inclusive(char::is_whitespace).take(WORDS * 4) {
        at += part.len();
        let word = part.trim_end();
        if words.len() == WORDS || (word.is_empty() && words.is_empty()) {
            break;
        }
        if !word.is_empty() {
            words.push(word);
            ends.push(at);
        }
    }
    (1..=words.len()).rev().find_map(|count| {
        let name = words.get(..count)?;
        let found = find(&name.join(" ")).or_else(|| find(&name.join(":")))?;
        Some((found, line.get(*ends.get(count - 1)?..)?.trim()))
    })
}
