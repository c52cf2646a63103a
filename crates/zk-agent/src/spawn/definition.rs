use zk_core::model::ThinkingRequest;

use super::IsolationKind;
use crate::{Preset, ToolSet};

/// Length limit of a named agent's description for models, in bytes.
const MAX_DESCRIPTION_BYTES: usize = 300;

/// A named sub-agent: its differences from its parent.
#[derive(Clone, Debug, Default)]
pub struct AgentDefinition {
    /// Name of the sub-agent.
    pub name: String,
    /// Description of the agent's purpose, for the model that delegates.
    pub description: String,
    /// System prompt of the sub-agent, in place of the parent's.
    pub prompt: String,
    /// Preset with behaviour, aliases and plugins, instead of that of [`SpawnOptions`](crate::SpawnOptions).
    /// Its prompt and tools are ignored in favour of the fields here.
    pub preset: Option<Preset>,
    /// Tools of the agent, limited to those of its parent; `None` for all of the parent's.
    pub tools: Option<Vec<String>>,
    /// Id of the model, at the provider that the parent began with; `None` for the parent's model, which is
    /// also used while the parent asks another provider.
    pub model: Option<String>,
    /// Reasoning request; `None` for the parent's.
    pub thinking: Option<ThinkingRequest>,
    /// Maximum number of turns, limited by the parent's; `None` for the limit of its preset, or else of
    /// [`SpawnOptions`](crate::SpawnOptions).
    pub max_turns: Option<u32>,
    /// Place in which the agent writes, unless its call names one; `None` for the workspace itself.
    pub isolation: Option<IsolationKind>,
}

impl AgentDefinition {
    /// Creates a sub-agent with its own system prompt, and everything else of its parent.
    #[must_use]
    pub fn new(name: impl Into<String>, description: impl Into<String>, prompt: impl Into<String>) -> Self {
        Self { name: name.into(), description: description.into(), prompt: prompt.into(), ..Self::default() }
    }

    /// Returns the line that describes the agent to models.
    pub(super) fn line(&self) -> String {
        let about: String = self.description.split_whitespace().collect::<Vec<_>>().join(" ");
        let end = about.floor_char_boundary(MAX_DESCRIPTION_BYTES);
        format!("- {}: {}", self.name, about.get(..end).unwrap_or_default())
    }

    /// Returns the tools of the agent under a parent with the tools `parent`.
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
