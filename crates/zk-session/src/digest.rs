use serde::{Deserialize, Serialize};
use zk_core::model::Role;
use zk_core::service::{EntryKind, first_line};

/// Maximum number of characters of a title, which is the beginning of the first prompt.
const MAX_TITLE_CHARS: usize = 80;

/// Summary of a session, updated with every append so that a listing reads no entries. Each store keeps one
/// beside a session's entries.
///
/// ```
/// use zk_core::model::Message;
/// use zk_core::service::EntryKind;
///
/// let mut digest = zk_session::Digest::default();
/// digest.add(&EntryKind::Message { message: Message::user_text("fix the test").shared(), usage: None });
/// assert_eq!((digest.messages, digest.title.as_str()), (1, "fix the test"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    /// Number of messages.
    pub messages: u64,
    /// Beginning of the first prompt.
    pub title: String,
    /// Whether a model has answered.
    pub answered: bool,
    /// Whether the last run is unfinished.
    pub running: bool,
}

impl Digest {
    /// Updates the summary with the next entry of the log.
    pub fn add(&mut self, kind: &EntryKind) {
        match kind {
            EntryKind::Message { message, .. } => {
                self.messages += 1;
                self.answered |= message.role == Role::Assistant;
                if self.title.is_empty() && message.role == Role::User && message.injected_by.is_none() {
                    self.title = title(&message.text());
                }
            }
            EntryKind::OpenTurn { .. } => self.answered = true,
            EntryKind::RunStart { .. } => self.running = true,
            EntryKind::RunEnd { .. } | EntryKind::Leaf { .. } => self.running = false,
            EntryKind::Model { .. }
            | EntryKind::Thinking { .. }
            | EntryKind::CallBegin { .. }
            | EntryKind::CallEnd { .. }
            | EntryKind::CallData { .. }
            | EntryKind::Usage { .. }
            | EntryKind::Label { .. }
            | EntryKind::Custom(_) => {}
        }
    }
}

/// Title on one line: the beginning of `text`, with each run of white space or control characters as one
/// space.
///
/// ```
/// assert_eq!(zk_session::title_line("fix\n\tthe test"), "fix the test");
/// ```
#[must_use]
pub fn title(text: &str) -> String {
    first_line(text, MAX_TITLE_CHARS)
}

#[cfg(test)]
mod tests {
    use zk_core::model::Message;
    use zk_core::service::RunStatus;

    use super::*;

    fn message(message: Message) -> EntryKind {
        EntryKind::Message { message: message.shared(), usage: None }
    }

    #[test]
    fn the_title_is_the_first_prompt_on_one_line() {
        let mut digest = Digest::default();
        digest.add(&message(Message::injected("a reminder", "harness")));
        digest.add(&message(Message::user_text("fix\n\tthe \u{1b}[31m test")));
        digest.add(&message(Message::user_text("and another thing")));
        assert_eq!((digest.messages, digest.title.as_str()), (3, "fix the [31m test"));
        assert!(!digest.answered && !digest.running);
    }

    #[test]
    fn a_run_without_an_end_and_without_an_answer_is_told_from_one_with() {
        let mut digest = Digest::default();
        digest.add(&EntryKind::RunStart { run_id: "r".into() });
        assert!(digest.running && !digest.answered);
        digest.add(&message(Message::assistant(Vec::new())));
        digest.add(&EntryKind::RunEnd { run_id: "r".into(), status: RunStatus::Completed });
        assert!(!digest.running && digest.answered);
    }

    #[test]
    fn a_long_prompt_is_cut_at_a_character() {
        assert_eq!(title(&"ß".repeat(200)), format!("{}…", "ß".repeat(79)));
        assert_eq!(title(&"ß".repeat(80)), "ß".repeat(80));
    }
}
