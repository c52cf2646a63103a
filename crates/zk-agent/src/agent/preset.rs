use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use zk_core::kernel::Plugin;
use zk_core::model::ThinkingRequest;

use crate::{Behavior, ToolSet};

/// A reusable slice of an agent: everything but the provider, the session and where it runs.
#[derive(Clone, Default)]
pub struct Preset {
    /// A name to show.
    pub name: Option<String>,
    /// The system prompt.
    pub system: Option<String>,
    /// The tools offered.
    pub tools: Option<ToolSet>,
    /// Canonical names to the names the model sees.
    pub aliases: BTreeMap<String, String>,
    /// The behaviour.
    pub behavior: Behavior,
    /// The level and budget of reasoning; without it that of the agent.
    pub thinking: Option<ThinkingRequest>,
    /// Whether the agent is warmed up as soon as it is built: see [`AgentBuilder::eager`](crate::AgentBuilder::eager).
    pub eager: Option<bool>,
    /// Plugins: tools, hooks and everything else that registers.
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
            .field("plugins", &self.plugins.iter().map(|plugin| plugin.name().to_owned()).collect::<Vec<_>>())
            .finish()
    }
}

impl Preset {
    /// Puts presets together: of names, system prompts, reasoning and warming up the last one set wins; listed tools add up;
    /// aliases and behaviour merge field by field, later fields winning; plugins add up in order, a later one replacing
    /// an earlier one of its name.
    #[must_use]
    pub fn compose(presets: impl IntoIterator<Item = Self>) -> Self {
        presets.into_iter().fold(Self::default(), |mut all, next| {
            all.name = next.name.or(all.name);
            all.system = next.system.or(all.system);
            all.thinking = next.thinking.or(all.thinking);
            all.eager = next.eager.or(all.eager);
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
