//! Servers by streamable HTTP: zk itself as the server.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use zk_core::model::{Block, Image, ToolContent, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{Progress, ToolCx};
use zk_mcp::{McpServer, ServeToken, ServedCall, ServedTool, ServedTools, ServerConfig, ServerState};

use crate::rpc;
use crate::support::{Host, LONG};

/// `echo` returns its text, `image` an image, `sum` data, `wait` ends when stopped.
#[derive(Default)]
struct Tools {
    stopped: CancellationToken,
}

#[async_trait]
impl ServedTools for Tools {
    fn list(&self) -> Vec<ServedTool> {
        let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
        let tool = |name: &str, output_schema| ServedTool {
            spec: Arc::new(ToolSpec::clone(&ToolSpec::new(name, "A tool", schema.clone()))),
            is_read_only: name == "echo",
            output_schema,
        };
        vec![
            tool("echo", None),
            tool("image", None),
            tool("sum", Some(json!({"type": "object"}))),
            tool("wait", None),
        ]
    }

    async fn call(&self, call: ServedCall) -> Result<ToolOutput, ToolError> {
        match call.name.as_str() {
            "echo" => match call.args["text"].as_str() {
                Some(text) => Ok(ToolOutput::text(text)),
                None => Err(ToolError::failed("no text")),
            },
            "image" => {
                let image = Block::Image(Image::new("image/png", "aGk="));
                Ok(ToolOutput { content: ToolContent::Blocks(vec![image]), ..ToolOutput::text("") })
            }
            "sum" => Ok(ToolOutput { details: Some(json!({"sum": 3})), ..ToolOutput::text("three") }),
            _ => {
                call.progress.show("first line\nit waits\n");
                call.stop.cancelled().await;
                self.stopped.cancel();
                Err(ToolError::failed("stopped"))
            }
        }
    }
}

/// A server and a client of it.
async fn serving(tools: &Arc<Tools>, stop: &CancellationToken) -> Host {
    let token = ServeToken::generate().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let header = format!("Bearer {}", token.reveal());
    let server = McpServer::new(tools.clone()).instructions("Use with care.");
    let stop = stop.clone();
    tokio::spawn(async move { server.http(listener, token, stop).await.unwrap() });
    let definition = json!({"url": url, "headers": {"Authorization": header}});
    let host = Host::of([ServerConfig::read("far", &definition).unwrap()]);
    host.servers.warm_up(LONG).await;
    host
}

#[tokio::test]
async fn tools_of_a_server_are_listed_and_called_by_http() {
    let (tools, stop) = (Arc::new(Tools::default()), CancellationToken::new());
    let host = serving(&tools, &stop).await;
    assert_eq!(host.state(), ServerState::Ready { protocol: "2026-07-28".to_owned() });
    assert_eq!(host.text("mcp_far_echo", json!({"text": "hällo"})).await, "hällo");
    assert_eq!(host.call("mcp_far_echo", json!({})).await.unwrap_err().message, "no text");
    let image = host.call("mcp_far_image", json!({})).await.unwrap();
    assert!(matches!(&image.content, ToolContent::Blocks(blocks) if matches!(blocks[0], Block::Image(_))));
    let sum = host.call("mcp_far_sum", json!({})).await.unwrap();
    assert_eq!(sum.details, Some(json!({"sum": 3})));
    stop.cancel();
    host.bus.close().await;
}

#[tokio::test]
async fn a_call_that_is_given_up_is_stopped_at_the_server_and_its_progress_was_seen() {
    let (tools, stop) = (Arc::new(Tools::default()), CancellationToken::new());
    let host = serving(&tools, &stop).await;
    let cancel = CancellationToken::new();
    let mut cx = ToolCx::new(host.bus.cx().with_stop(cancel.clone()), "/");
    cx.progress = Progress::new(move |text| {
        assert!(text.contains("it waits"), "{text}");
        cancel.cancel();
    });
    assert!(host.call_with("mcp_far_wait", json!({}), &cx).await.is_err());
    tokio::time::timeout(LONG, tools.stopped.cancelled()).await.unwrap();
    stop.cancel();
    host.bus.close().await;
}

#[tokio::test]
async fn a_server_that_wants_another_token_is_not_used() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let stop = CancellationToken::new();
    let (server, stopping) = (McpServer::new(Arc::new(Tools::default())), stop.clone());
    let serving = tokio::spawn(async move {
        server.http(listener, ServeToken::generate().unwrap(), stopping).await.unwrap();
    });
    let definition = json!({"url": url, "headers": {"Authorization": "Bearer another"}});
    let host = Host::of([ServerConfig::read("far", &definition).unwrap()]);
    host.servers.warm_up(LONG).await;
    assert!(matches!(host.state(), ServerState::Failed { .. }), "{:?}", host.state());
    host.bus.close().await;
    stop.cancel();
    serving.await.unwrap();
}

#[tokio::test]
async fn streams_serve_one_client_until_its_input_ends() {
    let (client, server) = tokio::io::duplex(64 << 10);
    let (input, output) = tokio::io::split(server);
    let tools = McpServer::new(Arc::new(Tools::default()));
    let serving = tokio::spawn(async move { tools.streams(input, output, CancellationToken::new()).await });
    drop(client);
    tokio::time::timeout(LONG, serving).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn a_json_answer_of_too_many_values_is_an_error_of_its_call() {
    let web = rpc::serve(|method, params, _| {
        let count = params["arguments"]["count"].as_u64()?;
        let zeros = vec![0; usize::try_from(count).unwrap()];
        (method == "tools/call").then(|| Ok(json!({"content": [], "structuredContent": {"zeros": zeros}})))
    })
    .await;
    let host = Host::of([ServerConfig::read("s", &json!({"url": format!("{}/mcp", web.url)})).unwrap()]);
    host.servers.warm_up(LONG).await;
    assert!(host.call("mcp_s_t", json!({"count": 1000})).await.is_ok());
    let error = host.call("mcp_s_t", json!({"count": 300_000})).await.unwrap_err();
    assert!(error.message.contains("more than 250000 values"), "{}", error.message);
    // The connection continues.
    assert!(host.call("mcp_s_t", json!({"count": 1000})).await.is_ok());
    host.bus.close().await;
}
