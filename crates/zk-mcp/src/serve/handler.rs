//! Handles requests of clients.

use std::sync::Arc;
use std::time::Duration;

use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation,
    ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, ProgressToken, ResourceContents,
    ServerCapabilities, ServerConfig, Tool, ToolAnnotations, ToolsCapability,
};
use rmcp::service::{Peer, RequestContext, RoleServer};
use serde_json::{Map, Value};
use tokio::sync::watch;
use zk_core::model::{Block, ToolContent, ToolError, ToolOutput};
use zk_core::service::Progress;

use super::{ServedCall, ServedTool, ServedTools};

/// Shortest time between two progress messages of one call.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum length in characters of a progress message, which contains the last line of output.
const MAX_QUOTED_CHARS: usize = 200;

/// Server-side handler of one client.
#[derive(Clone)]
pub(super) struct Handler {
    pub(super) tools: Arc<dyn ServedTools>,
    pub(super) instructions: Option<String>,
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = Some(ToolsCapability::default());
        let mut info = ServerConfig::new(capabilities);
        info.server_info = Implementation::new("zk", env!("CARGO_PKG_VERSION"));
        info.instructions.clone_from(&self.instructions);
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.list().into_iter().map(tool_for_client).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let known = self.tools.list().into_iter().find(|tool| tool.spec.name == *request.name);
        let Some(tool) = known else {
            return Err(ErrorData::invalid_params(format!("there is no tool {}", request.name), None));
        };
        let (shown, latest) = watch::channel(String::new());
        let token = context.meta.get_progress_token();
        let progress = match token {
            Some(_) => Progress::new(move |text: &str| {
                shown.send_replace(last_line(text));
            }),
            None => Progress::default(),
        };
        let call = ServedCall {
            name: request.name.to_string(),
            args: Value::Object(request.arguments.unwrap_or_default()),
            progress,
            stop: context.ct.clone(),
        };
        let telling = async {
            if let Some(token) = token {
                send_progress(&context.peer, &token, latest).await;
            }
            std::future::pending::<()>().await;
        };
        let result = tokio::select! {
            result = self.tools.call(call) => result,
            () = telling => return Err(ErrorData::internal_error("progress ended", None)),
        };
        Ok(CallToolResponse::Complete(to_call_result(result, tool.output_schema.is_some())))
    }
}

fn last_line(text: &str) -> String {
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().filter(|c| !c.is_control()).take(MAX_QUOTED_CHARS).collect()
}

/// Sends progress messages, at a rate that a person can read.
async fn send_progress(peer: &Peer<RoleServer>, token: &ProgressToken, mut latest: watch::Receiver<String>) {
    let mut count = 0.0;
    while latest.changed().await.is_ok() {
        count += 1.0;
        let message = latest.borrow_and_update().clone();
        let progress = ProgressNotificationParam::new(token.clone(), count).with_message(message);
        if peer.notify_progress(progress).await.is_err() {
            return;
        }
        tokio::time::sleep(PROGRESS_INTERVAL).await;
    }
}

fn tool_for_client(tool: ServedTool) -> Tool {
    let schema = match &tool.spec.schema {
        Value::Object(schema) => schema.clone(),
        _ => Map::new(),
    };
    let hints = ToolAnnotations::new().read_only(tool.is_read_only);
    let offered = Tool::new(tool.spec.name.clone(), tool.spec.description.clone(), Arc::new(schema));
    let offered = offered.with_annotations(hints);
    match tool.output_schema {
        Some(Value::Object(schema)) => offered.with_raw_output_schema(Arc::new(schema)),
        Some(_) | None => offered,
    }
}

fn to_call_result(result: Result<ToolOutput, ToolError>, is_structured: bool) -> CallToolResult {
    match result {
        Ok(output) => {
            let mut result = CallToolResult::success(to_content_blocks(output.content));
            result.structured_content = output.details.filter(|_| is_structured);
            result
        }
        Err(error) => CallToolResult::error(vec![ContentBlock::text(error.message)]),
    }
}

fn to_content_blocks(content: ToolContent) -> Vec<ContentBlock> {
    match content {
        ToolContent::Text(text) => vec![ContentBlock::text(text)],
        ToolContent::Blocks(blocks) => blocks.into_iter().map(to_content_block).collect(),
    }
}

fn to_content_block(block: Block) -> ContentBlock {
    match block {
        Block::Text(text) => ContentBlock::text(text.text),
        Block::Image(image) => ContentBlock::image(image.data, image.media_type),
        Block::Document(document) => {
            let name = document.name.unwrap_or_else(|| "document".to_owned());
            let contents = ResourceContents::blob(document.data, format!("zk://{name}"));
            ContentBlock::resource(contents.with_mime_type(document.media_type))
        }
        Block::ToolCall(_)
        | Block::ToolResult(_)
        | Block::Thinking(_)
        | Block::Compaction(_)
        | Block::Provider(_) => ContentBlock::text("[content that is not for other programs]"),
    }
}
