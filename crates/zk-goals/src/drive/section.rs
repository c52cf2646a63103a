use std::sync::Arc;

use async_trait::async_trait;
use zk_core::kernel::{BoxError, Cx};
use zk_core::service::{PromptSection, section_order};

use super::shared::Shared;

/// Section of the system prompt with the goal that a person set, and the phrase that declares it reached.
pub(super) struct GoalSection(pub(super) Arc<Shared>);

#[async_trait]
impl PromptSection for GoalSection {
    fn order(&self) -> i32 {
        section_order::AT_END - 1
    }

    async fn text(&self, cx: &Cx) -> Result<String, BoxError> {
        // A sub-agent has its own task instead of the goal.
        if cx.origin().depth > 0 {
            return Ok(String::new());
        }
        Ok(self.0.state().machine.section().unwrap_or_default())
    }
}
