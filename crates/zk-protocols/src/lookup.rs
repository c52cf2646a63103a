//! Protocol `lookup`: core tools with their schemas, and a tool that loads the schemas of others.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use zk_core::events::{Offer, ToolsOffer};
use zk_core::model::{
    Approved, Concurrency, Disclosure, Effects, ToolError, ToolOutput, ToolProtocol, ToolSpec,
};
use zk_core::service::{CallPlace, RunTool, RunTools, Tool, ToolCx};

use crate::ProtocolSettings;
use crate::signature::signature;

/// Name of the tool that loads others.
pub(crate) const LOAD_TOOLS: &str = "load_tools";

/// Returns the offers that the protocol of the model changes.
pub(crate) fn offers(settings: &ProtocolSettings, offer: &ToolsOffer) -> BTreeMap<String, Offer> {
    if !offer.tools.contains_key(LOAD_TOOLS) {
        return BTreeMap::new();
    }
    let is_lookup = settings.protocol_of(&offer.model) == ToolProtocol::Lookup;
    let is_loaded = |(name, own): &(&String, &Offer)| {
        **own == Offer::Always && *name != LOAD_TOOLS && !settings.sends_full_schema(name)
    };
    let mut changed = BTreeMap::new();
    if is_lookup {
        changed.extend(offer.tools.iter().filter(is_loaded).map(|(name, _)| (name.clone(), Offer::Lazy)));
    }
    let has_lazy = offer.tools.values().any(|own| *own == Offer::Lazy);
    if changed.is_empty() && !(is_lookup && has_lazy) {
        changed.insert(LOAD_TOOLS.to_owned(), Offer::Never);
    }
    changed
}

/// Returns the specification of [`LOAD_TOOLS`] with a list of the tools that it loads. The list does not change with
/// what was loaded.
pub(crate) fn list_tools(spec: &ToolSpec, tools: &[RunTool]) -> Arc<ToolSpec> {
    // Lazy tools of other plugins are listed by them.
    let is_listed = |tool: &&RunTool| tool.is_lazy && tool.spec.disclosure == Disclosure::Always;
    let lines = tools.iter().filter(is_listed).map(|tool| format!("\n- {}", signature(&tool.spec)));
    let description = format!("{}{}", spec.description, lines.collect::<String>());
    ToolSpec::new(&*spec.name, description, spec.schema.clone())
}

/// Tool that unlocks tools for the rest of the run.
pub(crate) struct LoadTools {
    spec: Arc<ToolSpec>,
}

#[derive(Deserialize)]
struct Args {
    names: Vec<String>,
}

impl LoadTools {
    pub(crate) fn new() -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "names": {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": "Names of tools"},
            },
            "required": ["names"],
            "additionalProperties": false,
        });
        let about = "Loads tools by name: from the next answer on they can be called, with the arguments that their \
                     schemas ask for. Load all that you need at once. The tools are:";
        Self { spec: ToolSpec::new(LOAD_TOOLS, about, schema) }
    }
}

#[async_trait]
impl Tool for LoadTools {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::none()
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Shared
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let Args { names } = call.parse()?;
        let run = cx.cx.service::<dyn RunTools>();
        let run = run.ok_or_else(|| ToolError::failed("tools can be loaded in a run only"))?;
        let tools = run.tools();
        let (mut loaded, mut unknown) = (Vec::new(), Vec::new());
        for name in names {
            let found = tools.iter().find(|tool| tool.spec.name == name || *tool.name == *name);
            match found.filter(|tool| run.unlock(&tool.name).is_ok()) {
                Some(tool) => loaded.push(tool.spec.name.clone()),
                None => unknown.push(format!("`{name}`")),
            }
        }
        let lazy: Vec<&str> =
            tools.iter().filter(|tool| tool.is_lazy).map(|tool| tool.spec.name.as_str()).collect();
        let missing = format!("there is no tool {}; there are: {}", unknown.join(", "), lazy.join(", "));
        match (loaded.is_empty(), unknown.is_empty()) {
            (true, _) => Err(ToolError::invalid(missing)),
            (false, true) => Ok(ToolOutput::text(format!("Loaded: {}.", loaded.join(", ")))),
            (false, false) => Ok(ToolOutput::text(format!("Loaded: {}; {missing}.", loaded.join(", ")))),
        }
    }
}
