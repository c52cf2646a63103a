//! A tool whose result is known.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use zk_core::model::{Approved, Effects, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{CallPlace, Tool, ToolCx};

pub(crate) struct Fixed(pub(crate) Arc<ToolSpec>, pub(crate) ToolOutput);

#[async_trait]
impl Tool for Fixed {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::none()
    }

    async fn call(&self, _: &Approved, _: &ToolCx) -> Result<ToolOutput, ToolError> {
        Ok(self.1.clone())
    }
}
