use zk_core::model::ThinkingRequest;

use crate::{Preset, ToolSet};

/// The longest description of a named agent that models are told, in bytes.
const MAX_DESCRIPTION_BYTES: usize = 300;

/// A sub-agent that can be asked for by its name: what differs from its parent.
#[derive(Clone, Debug, Default)]
pub struct AgentDefinition {
    /// Name of the sub-agent.
    pub name: String,
    /// Purpose of the agent, for the model that delegates.
    pub description: String,
    /// System prompt of the sub-agent, in place of the parent's.
    pub prompt: String,
    /// Other settings of its own: behaviour, aliases and plugins, in place of the preset of
    /// [`SpawnOptions`](crate::SpawnOptions). A prompt and tools in it do not count: they stand here.
    pub preset: Option<Preset>,
    /// The only tools it may use; of these only those that its parent may use, too. Without, those of its parent.
    pub tools: Option<Vec<String>>,
    /// Model of the sub-agent at the parent's provider; the parent's unless set.
    pub model: Option<String>,
    /// Reasoning of the sub-agent; the parent's unless set.
    pub thinking: Option<ThinkingRequest>,
    /// Turns after which it is stopped, at most its parent's; those of its preset, else of
    /// [`SpawnOptions`](crate::SpawnOptions), unless set.
    pub max_turns: Option<u32>,
}

impl AgentDefinition {
    /// The line that models are told.
    pub(super) fn line(&self) -> String {
        let about: String = self.description.split_whitespace().collect::<Vec<_>>().join(" ");
        let end = about.floor_char_boundary(MAX_DESCRIPTION_BYTES);
        format!("- {}: {}", self.name, about.get(..end).unwrap_or_default())
    }

    /// The tools it may use under an agent that may use `parent`.
    pub(super) fn tools_under(&self, parent: &ToolSet) -> ToolSet {
        match (&self.tools, parent) {
            (None, parent) => parent.clone(),
            (Some(_), ToolSet::None) => ToolSet::None,
            (Some(_), ToolSet::Except(all, names)) => {
                ToolSet::Except(Box::new(self.tools_under(all)), names.clone())
            }
            (Some(_), ToolSet::Reading(all)) => ToolSet::Reading(Box::new(self.tools_under(all))),
            (Some(own), parent) => {
                ToolSet::Only(own.iter().filter(|name| parent.has(name)).cloned().collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_has_no_tool_that_its_parent_has_not() {
        let only = |names: &[&str]| ToolSet::Only(names.iter().map(ToString::to_string).collect());
        let names = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect());
        let agent = AgentDefinition { tools: names(&["grep", "shell"]), ..AgentDefinition::default() };
        assert_eq!(agent.tools_under(&ToolSet::All), only(&["grep", "shell"]));
        assert_eq!(agent.tools_under(&only(&["grep", "edit"])), only(&["grep"]));
        assert_eq!(agent.tools_under(&only(&["edit"])), only(&[]));
        assert_eq!(agent.tools_under(&ToolSet::None), ToolSet::None);
        let not_shell = ToolSet::Except(Box::new(ToolSet::All), vec!["shell".into()]);
        let all_of_it = AgentDefinition { tools: names(&["sh*"]), ..AgentDefinition::default() };
        assert!(
            !all_of_it.tools_under(&not_shell).has("shell") && !agent.tools_under(&not_shell).has("shell")
        );
        assert_eq!(AgentDefinition::default().tools_under(&only(&["edit"])), only(&["edit"]));
    }
}
