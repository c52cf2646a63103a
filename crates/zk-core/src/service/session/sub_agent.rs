mod rows;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{Audience, CustomEntry, Entry, EntryKind};
use crate::model::CallId;

pub(crate) use rows::SubAgentRows;

/// Source and kind of the entries about sub-agents, and version of their data.
const SOURCE: &str = "spawn";
const KIND: &str = "sub-agent";
const VERSION: u32 = 1;

/// Step of a sub-agent, stored in its parent's session as it happens.
///
/// ```
/// use zk_core::service::{SubAgentEntry, SubAgentStep};
///
/// let step = SubAgentStep::Said { text: "The lock is missing.".into() };
/// let entry = SubAgentEntry { agent: "main.1".into(), step };
/// assert_eq!(SubAgentEntry::of(&entry.stored()), Some(entry));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubAgentEntry {
    /// Name of the sub-agent, unique in its tree.
    pub agent: String,
    /// Step that it took.
    #[serde(flatten)]
    pub step: SubAgentStep,
}

/// Content of a [`SubAgentEntry`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum SubAgentStep {
    /// Beginning of the sub-agent.
    Began {
        /// Name of the agent that started it.
        parent: String,
        /// Call that started it.
        call_id: CallId,
        /// First line of its task.
        task: String,
    },
    /// More text of the answer that is arriving.
    Grew {
        /// Text to append.
        text: String,
        /// Whether the answer begins with it: the pieces before are of an answer that broke off.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_first: bool,
    },
    /// Text of a complete answer, which replaces its pieces.
    Said {
        /// The whole text.
        text: String,
    },
}

impl SubAgentEntry {
    /// Returns the step in an entry; `None` for other entries and other versions.
    #[must_use]
    pub fn of(entry: &CustomEntry) -> Option<Self> {
        let is_ours = entry.source == SOURCE && entry.kind == KIND && entry.version == VERSION;
        if is_ours { entry.data.read().ok() } else { None }
    }

    /// Returns the entry of a session for this step.
    #[must_use]
    pub fn stored(&self) -> CustomEntry {
        CustomEntry {
            source: SOURCE.to_owned(),
            kind: KIND.to_owned(),
            version: VERSION,
            data: serde_json::json!(self).into(),
            audience: Audience::Hidden,
        }
    }
}

/// Last texts of the sub-agents of a stored conversation.
///
/// ```
/// use zk_core::service::SubAgentTexts;
///
/// assert_eq!(SubAgentTexts::read(&[]).of_call(&"c_1".into()), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubAgentTexts {
    agents: HashMap<String, Texts>,
    /// Last sub-agent of each call.
    calls: HashMap<CallId, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Texts {
    said: String,
    /// Beginning of an answer that has not ended.
    arriving: String,
}

impl SubAgentTexts {
    /// Reads the entries of a branch, from the root to the leaf.
    #[must_use]
    pub fn read(entries: &[Entry]) -> Self {
        let mut all = Self::default();
        for entry in entries {
            if let EntryKind::Custom(custom) = &entry.kind
                && let Some(entry) = SubAgentEntry::of(custom)
            {
                all.add_step(entry);
            }
        }
        all
    }

    fn add_step(&mut self, SubAgentEntry { agent, step }: SubAgentEntry) {
        match step {
            SubAgentStep::Began { call_id, .. } => {
                self.calls.insert(call_id, agent.clone());
                // A later process may assign the name to another sub-agent.
                self.agents.insert(agent, Texts::default());
            }
            SubAgentStep::Grew { text, is_first } => {
                let texts = self.agents.entry(agent).or_default();
                if is_first {
                    texts.arriving.clear();
                }
                texts.arriving.push_str(&text);
            }
            SubAgentStep::Said { text } => {
                let said = Texts { said: text, arriving: String::new() };
                self.agents.insert(agent, said);
            }
        }
    }

    /// Iterates over the names of all sub-agents, in no particular order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.agents.keys().map(String::as_str)
    }

    /// Returns the last text of a sub-agent: its last complete answer, and what had arrived of the next one.
    /// `None` if it said nothing.
    #[must_use]
    pub fn of_agent(&self, name: &str) -> Option<String> {
        let Texts { said, arriving } = self.agents.get(name)?;
        let texts = [said.trim(), arriving.trim()];
        let texts: Vec<&str> = texts.into_iter().filter(|text| !text.is_empty()).collect();
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }

    /// Returns name and last text of the sub-agent that a call started; `None` if it said nothing.
    #[must_use]
    pub fn of_call(&self, call: &CallId) -> Option<(&str, String)> {
        let name = self.calls.get(call)?;
        Some((name, self.of_agent(name)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries_of(steps: &[(&str, SubAgentStep)]) -> Vec<Entry> {
        let entry = |(agent, step): &(&str, SubAgentStep)| {
            let stored = SubAgentEntry { agent: (*agent).to_owned(), step: step.clone() }.stored();
            Entry { id: "e".into(), parent: None, time_ms: 0, kind: EntryKind::Custom(stored) }
        };
        steps.iter().map(entry).collect()
    }

    fn began_step(call: &str) -> SubAgentStep {
        SubAgentStep::Began { parent: "main".into(), call_id: call.into(), task: "look".into() }
    }

    fn grew_step(text: &str, is_first: bool) -> SubAgentStep {
        SubAgentStep::Grew { text: text.into(), is_first }
    }

    fn said_step(text: &str) -> SubAgentStep {
        SubAgentStep::Said { text: text.into() }
    }

    #[test]
    fn the_last_text_joins_the_last_answer_and_the_partial_next_one() {
        for (steps, last) in [
            (vec![], None),
            (vec![began_step("c")], None),
            (vec![began_step("c"), grew_step("a ", true), grew_step("b", false)], Some("a b")),
            (vec![began_step("c"), grew_step("a", true), said_step("a b")], Some("a b")),
            (
                vec![began_step("c"), said_step("a"), grew_step("b ", true), grew_step("c", false)],
                Some("a\n\nb c"),
            ),
            // The first answer broke off, and was asked for again.
            (vec![began_step("c"), grew_step("a", true), grew_step("b", true)], Some("b")),
            // A later process assigns the name to another sub-agent.
            (vec![began_step("b"), said_step("a"), began_step("c")], None),
        ] {
            let steps: Vec<_> = steps.into_iter().map(|step| ("main.1", step)).collect();
            let texts = SubAgentTexts::read(&entries_of(&steps));
            let found = texts.of_call(&"c".into());
            assert_eq!(found, last.map(|last| ("main.1", last.to_owned())), "{steps:?}");
        }
    }

    #[test]
    fn sub_agents_at_work_at_once_are_told_apart() {
        let steps = [
            ("main.1", began_step("c")),
            ("main.2", began_step("d")),
            ("main.1", grew_step("one", true)),
            ("main.2", grew_step("two", true)),
        ];
        let texts = SubAgentTexts::read(&entries_of(&steps));
        assert_eq!(texts.of_call(&"c".into()), Some(("main.1", "one".to_owned())));
        assert_eq!(texts.of_call(&"d".into()), Some(("main.2", "two".to_owned())));
    }
}
