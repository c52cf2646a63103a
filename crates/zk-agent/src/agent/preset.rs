use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use zk_core::kernel::Plugin;
use zk_core::model::ThinkingRequest;
use zk_core::service::{PresetServer, PresetSkill};

use crate::{Behavior, ToolSet};

/// Reusable options of an agent: all but its provider, session and directory.
#[derive(Clone, Default)]
pub struct Preset {
    /// Name of the preset for display.
    pub name: Option<String>,
    /// System prompt.
    pub system: Option<String>,
    /// Tools that the model is offered.
    pub tools: Option<ToolSet>,
    /// Names that the model sees, by canonical name.
    pub aliases: BTreeMap<String, String>,
    /// Limits and other behaviour of runs.
    pub behavior: Behavior,
    /// Reasoning request; `None` keeps the agent's.
    pub thinking: Option<ThinkingRequest>,
    /// Whether the agent warms up right after the build: see
    /// [`AgentBuilder::eager`](crate::AgentBuilder::eager).
    pub eager: Option<bool>,
    /// Servers with tools, by unique names, for a plugin of the agent that starts servers, such as the `McpPlugin` of
    /// `zk-mcp`. One that such a plugin has under the same name is replaced.
    pub servers: Vec<PresetServer>,
    /// Skills besides those in files, for a plugin of the agent that offers skills, such as the `SkillsPlugin` of
    /// `zk-skills`; `None` keeps those of earlier presets.
    pub skills: Option<Vec<PresetSkill>>,
    /// Plugins with tools, hooks and other registrations.
    pub plugins: Vec<Arc<dyn Plugin>>,
}

impl fmt::Debug for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Preset")
            .field("name", &self.name)
            .field("system", &self.system)
            .field("tools", &self.tools)
            .field("aliases", &self.aliases)
            .field("behavior", &self.behavior)
            .field("thinking", &self.thinking)
            .field("eager", &self.eager)
            .field("servers", &self.servers.iter().map(|server| server.name.clone()).collect::<Vec<_>>())
            .field(
                "skills",
                &self.skills.iter().flatten().map(|skill| skill.name.clone()).collect::<Vec<_>>(),
            )
            .field("plugins", &self.plugins.iter().map(|plugin| plugin.name().to_owned()).collect::<Vec<_>>())
            .finish()
    }
}

impl Preset {
    /// Merges presets. Of names, system prompts, reasoning, eagerness and lists of skills, the last set value
    /// wins. Tool lists are joined. Aliases and behaviour merge field by field, with later values winning.
    /// Servers and plugins are joined in order, and a later one replaces an earlier one of the same name; so the
    /// hooks of plugins with different names all run, in their order.
    #[must_use]
    pub fn compose(presets: impl IntoIterator<Item = Self>) -> Self {
        presets.into_iter().fold(Self::default(), |mut all, next| {
            all.name = next.name.or(all.name);
            all.system = next.system.or(all.system);
            all.thinking = next.thinking.or(all.thinking);
            all.eager = next.eager.or(all.eager);
            all.skills = next.skills.or(all.skills);
            add_servers(&mut all.servers, next.servers);
            all.tools = match (all.tools, next.tools) {
                (Some(ToolSet::Only(mut names)), Some(ToolSet::Only(more))) => {
                    names.extend(more.into_iter().filter(|name| !names.contains(name)).collect::<Vec<_>>());
                    Some(ToolSet::Only(names))
                }
                (before, after) => after.or(before),
            };
            all.aliases.extend(next.aliases);
            let mut budgets = all.behavior.tool_budgets.clone();
            budgets.extend(next.behavior.tool_budgets.clone());
            let mut dedup = all.behavior.dedup_tools.clone();
            dedup.extend(next.behavior.dedup_tools.clone());
            all.behavior = next.behavior.or(&all.behavior);
            all.behavior.tool_budgets = budgets;
            all.behavior.dedup_tools = dedup;
            for plugin in next.plugins {
                match all.plugins.iter_mut().find(|known| known.name() == plugin.name()) {
                    Some(known) => *known = plugin,
                    None => all.plugins.push(plugin),
                }
            }
            all
        })
    }
}

/// Adds servers to a list; each replaces an earlier one of the same name.
pub(super) fn add_servers(servers: &mut Vec<PresetServer>, more: Vec<PresetServer>) {
    for server in more {
        match servers.iter_mut().find(|known| known.name == server.name) {
            Some(known) => *known = server,
            None => servers.push(server),
        }
    }
}
