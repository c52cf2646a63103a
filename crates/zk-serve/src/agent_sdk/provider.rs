//! Providers whose models know the tools of the Agent SDK.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use serde_json::Value;
use zk_core::kernel::Cx;
use zk_core::model::{Block, Model, ProviderError, WireRules};
use zk_core::service::{EventStream, Provider, Request, StreamEvent, ToolChoice};

use super::names::Names;

/// Decorator that translates tool names: the model sees the SDK's names, and zk sees its own.
pub(super) struct SdkProvider {
    pub(super) inner: Arc<dyn Provider>,
    pub(super) names: Arc<Names>,
}

impl SdkProvider {
    fn translated(&self, mut request: Request) -> Request {
        request.tools = self.names.offered(&request.tools);
        request.history = request.history.with_calls(|call| self.names.give_call(call));
        request.system = self.names.with_sdk_names(&request.system).into();
        if let ToolChoice::Tool(name) = &request.tool_choice {
            request.tool_choice = ToolChoice::Tool(self.names.to_sdk_name(name));
        }
        request
    }
}

#[async_trait]
impl Provider for SdkProvider {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn inner(&self) -> Option<&dyn Provider> {
        Some(&*self.inner)
    }

    fn model(&self, id: &str) -> Model {
        self.inner.model(id)
    }

    fn rules(&self, model: &Model) -> WireRules {
        self.inner.rules(model)
    }

    /// Always false: in this protocol a structured answer is a call of a tool.
    fn native_output(&self, _: &Model, _: &Value, _: bool) -> bool {
        false
    }

    fn stream(&self, request: Request, cx: &Cx) -> EventStream {
        let names = self.names.clone();
        let events = self.inner.stream(self.translated(request), cx);
        Box::pin(events.map(move |event| {
            Ok(match event? {
                StreamEvent::ToolCall { block, id, name } => {
                    StreamEvent::ToolCall { block, id, name: names.to_zk_name(&name) }
                }
                StreamEvent::Block { block, content: Block::ToolCall(call) } => {
                    StreamEvent::Block { block, content: Block::ToolCall(names.take_call(call)) }
                }
                event => event,
            })
        }))
    }

    async fn count_tokens(&self, request: Request, cx: &Cx) -> Result<Option<u64>, ProviderError> {
        self.inner.count_tokens(self.translated(request), cx).await
    }
}
