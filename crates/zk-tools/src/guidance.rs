use std::collections::BTreeSet;

use async_trait::async_trait;
use zk_core::kernel::{BoxError, Cx};
use zk_core::model::Disclosure;
use zk_core::service::{PromptSection, RunTools, Tool, section_order};

/// Section `tools` of the system prompt: guidance on the tools that a run offers.
///
/// Lazy tools have theirs in their description, so that unlocking a tool does not change the prompt.
pub(crate) struct ToolGuidance;

#[async_trait]
impl PromptSection for ToolGuidance {
    fn order(&self) -> i32 {
        section_order::PLACE - 50
    }

    async fn text(&self, cx: &Cx) -> Result<String, BoxError> {
        let offered = cx
            .service::<dyn RunTools>()
            .map(|run| run.tools().into_iter().map(|tool| tool.name).collect::<BTreeSet<_>>());
        let items = cx.items::<dyn Tool>();
        let active = items
            .iter()
            .filter(|item| item.value.spec().disclosure == Disclosure::Always)
            .filter(|item| offered.as_ref().is_none_or(|names| names.contains(&item.name)));
        let texts = active.filter_map(|item| item.value.prompt()).map(|text| format!("- {}", text.trim()));
        Ok(texts.collect::<Vec<_>>().join("\n"))
    }
}
