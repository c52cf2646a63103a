use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use zk_core::model::{Approved, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{Tool, ToolCx};

/// Tool that does nothing and answers with an empty text, so that only the cost of a call remains.
///
/// ```
/// use zk_core::service::Tool;
///
/// assert_eq!(&*zk_testkit::IdleTool::new("nothing").spec().name, "nothing");
/// ```
#[derive(Clone, Debug)]
pub struct IdleTool(Arc<ToolSpec>);

impl IdleTool {
    /// Creates the tool with this name and without parameters.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(ToolSpec::new(name, "Does nothing.", json!({"type": "object", "properties": {}})))
    }
}

#[async_trait]
impl Tool for IdleTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    async fn call(&self, _: &Approved, _: &ToolCx) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text(""))
    }
}
