use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_core::kernel::Scope;
use zk_core::model::{
    Approved, CallKind, Concurrency, Disclosure, Display, Effects, ToolContent, ToolError, ToolErrorKind,
    ToolOutput, ToolSpec,
};
use zk_core::service::{CallPlace, Tool, ToolCx};

use crate::error::ExtensionError;
use crate::extension::Shared;
use crate::protocol::{Preview, ToolCall, ToolRegistration, ToolReply};

/// Longest description and schema of a tool together, in bytes.
const MAX_SPEC_BYTES: usize = 128 << 10;
/// Longest name of a tool.
const MAX_NAME_CHARS: usize = 64;

/// Tool whose calls run in the extension.
pub(crate) struct ExtensionTool {
    shared: Arc<Shared>,
    tool: ToolRegistration,
    spec: Arc<ToolSpec>,
}

impl ExtensionTool {
    pub(crate) fn provide(
        scope: &Scope,
        shared: &Arc<Shared>,
        mut tool: ToolRegistration,
    ) -> Result<(), String> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if tool.name.chars().count() > MAX_NAME_CHARS || !tool.name.chars().all(is_plain) {
            return Err("the name of a tool has at most 64 letters, digits, `_` and `-`".to_owned());
        }
        let schema = tool.schema.take().unwrap_or_else(|| json!({"type": "object", "properties": {}}));
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            return Err("its schema is none of `\"type\": \"object\"`".to_owned());
        }
        if tool.description.len() + schema.to_string().len() > MAX_SPEC_BYTES {
            return Err(format!("its description and schema have more than {MAX_SPEC_BYTES} bytes"));
        }
        let disclosure = if tool.lazy { Disclosure::Lazy } else { Disclosure::Always };
        let (name, description) = (tool.name.clone(), tool.description.clone());
        let spec = Arc::new(ToolSpec { name: name.clone(), description, schema, disclosure });
        let item = Self { shared: shared.clone(), tool, spec };
        scope.provide::<dyn Tool>(&name, Arc::new(item)).map_err(|error| error.to_string())
    }
}

#[async_trait]
impl Tool for ExtensionTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let id = cx.call_id.to_string();
        let params = ToolCall {
            tool: &self.tool.name,
            call: &id,
            run: cx.cx.run_id(),
            cwd: cx.cwd.clone(),
            args: call.args(),
        };
        let _watched = self.shared.watch_call(&id, &cx.progress);
        let limit = self.shared.config.limits.call;
        let result = self.shared.request("tool/call", params, limit, &cx.cx).await;
        let reply = result.and_then(|value| self.shared.read::<ToolReply>("tool/call", value));
        let ToolReply { content, display, details, failed } = reply.map_err(|error| {
            let kind = match error {
                ExtensionError::TimedOut { .. } => ToolErrorKind::TimedOut,
                ExtensionError::Stopped { .. } => ToolErrorKind::Aborted,
                _ => ToolErrorKind::Failed,
            };
            ToolError::new(kind, error.to_string())
        })?;
        match failed {
            false => Ok(ToolOutput { content, display, details }),
            true => Err(ToolError { kind: ToolErrorKind::Failed, message: text_of(&content), display }),
        }
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        if self.tool.concurrent { Concurrency::Shared } else { Concurrency::Exclusive }
    }

    fn effects(&self, args: &Value, _: &CallPlace) -> Effects {
        // An extension of a project must not declare its calls harmless.
        let declared = self.tool.effects.as_ref().filter(|_| !self.shared.config.origin.is_project);
        declared.map_or(Effects::Unknown, |declared| declared.of(args))
    }

    async fn preview(&self, args: &Value, place: &CallPlace) -> Option<Display> {
        if !self.tool.preview {
            return None;
        }
        let params = Preview { tool: &self.tool.name, cwd: place.cwd.clone(), args };
        let limit = self.shared.config.limits.answer;
        let value = self.shared.request("tool/preview", params, limit, &place.cx).await.ok()?;
        serde_json::from_value(value).ok()?
    }

    fn title(&self) -> String {
        self.tool.title.clone().unwrap_or_else(|| self.tool.name.clone())
    }

    fn kind(&self) -> Option<CallKind> {
        self.tool.kind
    }

    fn prompt(&self) -> Option<&str> {
        self.tool.prompt.as_deref()
    }
}

fn text_of(content: &ToolContent) -> String {
    match content {
        ToolContent::Text(text) => text.clone(),
        ToolContent::Blocks(blocks) => {
            blocks.iter().filter_map(|block| block.as_text()).collect::<Vec<_>>().join("\n")
        }
    }
}
