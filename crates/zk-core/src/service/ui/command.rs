use async_trait::async_trait;

use crate::kernel::{BoxError, Cx};

/// A command that a person calls by name, `/name arguments`: a registry item under its name.
///
/// In a conversation, the command's context provides that [`Conversation`](crate::service::Conversation) as a service.
/// Handlers of events do not get it: they would wait for the end of a run that waits for them.
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
    /// Returns the name, without the slash.
    fn name(&self) -> &str;
    /// Returns one line of help.
    fn help(&self) -> &str;
    /// Hint for the arguments, such as `NAME` or `[BASE]`, in a list of commands; `None` for a command
    /// without required arguments, which the list runs at once.
    fn argument_hint(&self) -> Option<&str> {
        None
    }
    /// Completions after the arguments `before`. Runs in the background and may take time.
    async fn complete(&self, before: &str, cx: &Cx) -> Vec<ArgumentChoice> {
        let _ = (before, cx);
        Vec::new()
    }
    /// Runs the command with the trimmed text after its name.
    ///
    /// # Errors
    /// An error whose message is shown to the person.
    async fn run(&self, args: &str, cx: &Cx) -> Result<CommandOutcome, BoxError>;
}

/// Possible argument of a command, for completion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArgumentChoice {
    /// Argument as typed.
    pub value: String,
    /// Remark in a few words; may be empty.
    pub note: String,
}

impl ArgumentChoice {
    /// Creates a possible argument with a remark.
    pub fn new(value: impl Into<String>, note: impl Into<String>) -> Self {
        Self { value: value.into(), note: note.into() }
    }
}

/// Result of a command, for the front-end to act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandOutcome {
    /// Nothing else to do.
    Done,
    /// Text to show.
    Show(String),
    /// A prompt to send to the model.
    Prompt(String),
    /// The conversation is to end.
    Quit,
    /// The conversation is to continue with settings and plugins that are loaded again. The command's context
    /// and services end then, and so does the command itself.
    Reload,
}

/// Maximum number of words in a name, as in `/git commit`.
const MAX_NAME_WORDS: usize = 5;

/// Finds the command with the longest name that `line` begins with: returns the result of `find` and the
/// trimmed rest of the line. A name of several words may be typed with blanks or, as it is listed, with
/// colons: `git commit` and `git:commit`.
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
    for part in line.split_inclusive(char::is_whitespace).take(MAX_NAME_WORDS * 4) {
        at += part.len();
        let word = part.trim_end();
        if words.len() == MAX_NAME_WORDS || (word.is_empty() && words.is_empty()) {
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
