use std::sync::Arc;

use zk_core::model::{Message, ModelRef, Role, RunId, ThinkingLevel};
use zk_core::service::{Entry, EntryKind};

/// What a resumed run starts from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// The conversation, as it was stored. Whatever cannot be sent is mended at the wire, not here.
    pub messages: Vec<Arc<Message>>,
    /// The model last chosen, or else the one that answered last.
    pub model: Option<ModelRef>,
    /// The thinking level last chosen.
    pub thinking: Option<ThinkingLevel>,
    /// The run that was cut off: it began and no end of it is recorded.
    pub unfinished: Option<RunId>,
}

/// The resume view of a log: pure, and nothing is run again.
///
/// ```
/// use zk_core::model::{Message, ModelRef};
/// use zk_core::service::{Entry, EntryKind};
/// use zk_session::load_history;
///
/// let kinds = [
///     EntryKind::Message { message: Message::user_text("hello").shared(), usage: None },
///     EntryKind::Model { model: ModelRef::new("anthropic", "m") },
/// ];
/// let entries: Vec<Entry> = kinds
///     .into_iter()
///     .map(|kind| Entry { id: "e".into(), parent: None, time_ms: 0, kind })
///     .collect();
/// let loaded = load_history(&entries);
/// assert_eq!(loaded.messages[0].text(), "hello");
/// assert_eq!(loaded.model, Some(ModelRef::new("anthropic", "m")));
/// ```
#[must_use]
pub fn load_history(entries: &[Entry]) -> Loaded {
    let mut loaded = Loaded::default();
    for entry in entries {
        match &entry.kind {
            EntryKind::Message { message, .. } => {
                if let (Role::Assistant, Some(origin)) = (message.role, &message.origin) {
                    loaded.model = Some(origin.clone());
                }
                loaded.messages.push(message.clone());
            }
            EntryKind::Model { model } => loaded.model = Some(model.clone()),
            EntryKind::Thinking { level } => loaded.thinking = Some(*level),
            EntryKind::RunStart { run_id } => loaded.unfinished = Some(run_id.clone()),
            EntryKind::RunEnd { .. } => loaded.unfinished = None,
            EntryKind::Custom { .. } => {}
        }
    }
    loaded
}

#[cfg(test)]
mod tests {
    use zk_core::service::RunStatus;

    use super::*;

    fn load(kinds: Vec<EntryKind>) -> Loaded {
        let entry = |kind| Entry { id: "e".into(), parent: None, time_ms: 0, kind };
        load_history(&kinds.into_iter().map(entry).collect::<Vec<_>>())
    }

    fn answer(model: &str) -> EntryKind {
        let message = Message { origin: Some(ModelRef::new("p", model)), ..Message::assistant(Vec::new()) };
        EntryKind::Message { message: message.shared(), usage: None }
    }

    #[test]
    fn the_last_of_choice_and_answer_is_the_model() {
        let chosen = EntryKind::Model { model: ModelRef::new("p", "b") };
        assert_eq!(load(vec![answer("a"), chosen.clone()]).model, Some(ModelRef::new("p", "b")));
        assert_eq!(load(vec![chosen, answer("a")]).model, Some(ModelRef::new("p", "a")));
        assert_eq!(load(vec![]).model, None);
    }

    #[test]
    fn the_last_thinking_level_holds() {
        let level = |level| EntryKind::Thinking { level };
        let loaded = load(vec![level(ThinkingLevel::High), level(ThinkingLevel::Low)]);
        assert_eq!(loaded.thinking, Some(ThinkingLevel::Low));
    }

    #[test]
    fn a_run_without_an_end_is_unfinished() {
        let start = EntryKind::RunStart { run_id: "r_1".into() };
        let end = EntryKind::RunEnd { run_id: "r_1".into(), status: RunStatus::Completed };
        assert_eq!(load(vec![start.clone()]).unfinished, Some("r_1".into()));
        assert_eq!(load(vec![start, end]).unfinished, None);
    }
}
