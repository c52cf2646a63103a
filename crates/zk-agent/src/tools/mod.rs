//! The path of a tool call, from the model's request to its result.

mod alias;
mod call;
mod dispatch;
mod execute;
mod preflight;
mod repeats;
mod validate;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use zk_core::kernel::Bus;
use zk_core::model::{AgentError, Message, ToolSpec};
use zk_core::service::{Tool, ToolChoice};

use crate::ToolSet;
use crate::output::{OUTPUT_TOOL, OutputTool};

pub(crate) use alias::Aliases;
pub(crate) use dispatch::Batch;
pub(crate) use repeats::RepeatedFailures;
pub use validate::{Validated, validate};

/// What all providers take as the name of a tool.
fn is_legal(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Whether a model can be offered the tools that are registered now.
///
/// # Errors
/// [`AgentError::Usage`] that names the tool, and what is wrong with its name or its schema.
pub(crate) fn check_tools(bus: &Bus, set: &ToolSet, aliases: &Aliases) -> Result<(), AgentError> {
    for item in bus.items::<dyn Tool>().into_iter().filter(|item| set.has(&item.name)) {
        let spec = aliases.spec(&item.name, item.value.spec());
        check_name(&spec.name)?;
        let is_object = spec.schema.is_object()
            && spec.schema.get("type").is_none_or(|kind| kind.as_str() == Some("object"));
        if !is_object {
            return Err(AgentError::Usage(format!(
                "the schema of tool `{}` does not describe an object: give it `\"type\": \"object\"` and its arguments as `properties`",
                item.name
            )));
        }
    }
    Ok(())
}

/// One name that a provider refuses makes it refuse every request.
fn check_name(name: &str) -> Result<(), AgentError> {
    if is_legal(name) {
        return Ok(());
    }
    Err(AgentError::Usage(format!(
        "no provider takes `{name}` as the name of a tool: give it an alias of 1 to 64 letters, digits, `_` and `-`"
    )))
}

/// The tools of one run: fixed when it begins, in the order of their names, so that every request of the run
/// carries the same bytes.
#[derive(Default)]
pub(crate) struct Toolbox {
    tools: BTreeMap<String, Arc<dyn Tool>>,
    specs: Arc<[Arc<ToolSpec>]>,
    aliases: Aliases,
    renamed: alias::Renamed,
}

impl Toolbox {
    pub(crate) fn new(bus: &Bus, set: &ToolSet, aliases: &Aliases) -> Result<Self, AgentError> {
        let tools: BTreeMap<String, Arc<dyn Tool>> = bus
            .items::<dyn Tool>()
            .into_iter()
            .filter(|item| set.has(&item.name))
            .map(|item| (item.name.to_string(), item.value))
            .collect();
        if let ToolSet::Only(wanted) = set
            && let Some(missing) = wanted.iter().find(|name| !tools.contains_key(*name))
        {
            return Err(AgentError::Usage(format!("tool `{missing}` is not registered")));
        }
        let mut toolbox = Self { tools, aliases: aliases.clone(), ..Self::default() };
        toolbox.specify()?;
        Ok(toolbox)
    }

    /// Offers the tool that takes the structured output.
    pub(crate) fn add_output(&mut self, output: Arc<OutputTool>) -> Result<(), AgentError> {
        self.tools.insert(OUTPUT_TOOL.to_owned(), output);
        self.specify()
    }

    fn specify(&mut self) -> Result<(), AgentError> {
        self.aliases.check(self.tools.keys())?;
        self.specs = self.tools.iter().map(|(name, tool)| self.aliases.spec(name, tool.spec())).collect();
        self.specs.iter().try_for_each(|spec| check_name(&spec.name))
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.tools.keys().cloned().collect()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name)
    }

    /// The specifications under the names the model sees.
    pub(crate) fn specs(&self) -> Arc<[Arc<ToolSpec>]> {
        self.specs.clone()
    }

    pub(crate) fn wire_name(&self, name: &str) -> String {
        self.aliases.wire(name)
    }

    pub(crate) fn choice_to_wire(&self, choice: ToolChoice) -> ToolChoice {
        match choice {
            ToolChoice::Tool(name) => ToolChoice::Tool(self.aliases.wire(&name)),
            other @ (ToolChoice::Auto | ToolChoice::None | ToolChoice::Required) => other,
        }
    }

    /// A history with the names the model sees.
    pub(crate) fn in_wire_names<'a>(&mut self, messages: &'a [Arc<Message>]) -> Cow<'a, [Arc<Message>]> {
        if self.aliases.is_empty() {
            return messages.into();
        }
        messages.iter().map(|message| self.renamed.of(message.clone(), &self.aliases)).collect()
    }
}
