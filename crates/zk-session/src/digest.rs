use zk_core::model::Role;
use zk_core::service::EntryKind;

/// Maximum number of characters of a title, which is the beginning of the first prompt.
const TITLE: usize = 80;

/// Summary of a session, updated with every append so that a listing reads no entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digest {
    pub(crate) messages: u64,
    pub(crate) title: String,
    /// Whether a model has answered.
    pub(crate) answered: bool,
    /// Whether the last run is unfinished.
    pub(crate) running: bool,
}

impl Digest {
    pub(crate) fn add(&mut self, kind: &EntryKind) {
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

/// First line of a title: the beginning of `text`, with each run of white space or control characters as one
/// space.
pub(crate) fn title(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let mut line = String::new();
    for word in words {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > TITLE * 4 {
            break;
        }
    }
    match line.char_indices().nth(TITLE) {
        None => line,
        Some(_) => line.chars().take(TITLE - 1).chain(['…']).collect(),
    }
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
