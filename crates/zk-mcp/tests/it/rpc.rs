//! A server of the newest revision by HTTP that answers each method as a test says.

use serde_json::{Value, json};
use zk_mcp::{McpPlugin, ServerConfig, ServerState};

use crate::support::{Host, LONG};
use crate::web::{Asked, Said, Web};

/// The result of a request, or the code and the message of its error; with the code 0 there is no answer.
pub(crate) type Answer = Result<Value, (i64, &'static str)>;

/// Server with these tools and resources; `answer` handles the other methods.
pub(crate) async fn serve(
    answer: impl Fn(&str, &Value, &Asked) -> Option<Answer> + Send + Sync + 'static,
) -> Web {
    Web::start(move |asked, _| {
        if asked.method != "POST" {
            return Said::status(405);
        }
        let message: Value = serde_json::from_str(&asked.body).unwrap();
        let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) else {
            return Said::status(202);
        };
        let capabilities = json!({"tools": {}, "resources": {}});
        if method == "subscriptions/listen"
            && let Some(Ok(filter)) = answer(method, &message["params"], asked)
        {
            return acknowledged(id, &filter);
        }
        let answered = answer(method, &message["params"], asked).unwrap_or_else(|| match method {
            "server/discover" => {
                Ok(json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities}))
            }
            "tools/list" => Ok(json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]})),
            "resources/list" => Ok(json!({"resources": []})),
            _ => Err((-32601, "no such method")),
        });
        match answered {
            Ok(mut result) => {
                let usual = json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private"});
                for (key, value) in usual.as_object().unwrap() {
                    result.as_object_mut().unwrap().entry(key).or_insert_with(|| value.clone());
                }
                Said::json(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
            }
            // The server is away.
            Err((0, _)) => Said::status(0),
            Err((code, message)) => {
                let error = json!({"code": code, "message": message});
                let said = Said::json(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
                Said { status: if code == -32601 { 404 } else { 400 }, ..said }
            }
        }
    })
    .await
}

/// A stream of notifications that the server acknowledges and that breaks at once.
fn acknowledged(id: &Value, filter: &Value) -> Said {
    let params = json!({"_meta": {"io.modelcontextprotocol/subscriptionId": id}, "notifications": filter});
    let method = "notifications/subscriptions/acknowledged";
    let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
    Said { body: format!("data: {message}\n\n"), ..Said::status(200) }
        .with("content-type", "text/event-stream")
}

/// A host with that server, ready.
pub(crate) async fn host(web: &Web, more: Value) -> Host {
    let host = host_of(web, more).await;
    assert!(matches!(host.state(), ServerState::Ready { .. }), "{:?}", host.state());
    host
}

/// A host with that server, ready or not.
pub(crate) async fn host_of(web: &Web, more: Value) -> Host {
    let mut definition = json!({"url": format!("{}/mcp", web.url)});
    definition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let config = ServerConfig::read("far", &definition).unwrap();
    let host = Host::new(McpPlugin::new([config], "/"));
    host.servers.warm_up(LONG).await;
    host
}

/// Counts the requests for a method.
pub(crate) fn count(web: &Web, method: &str) -> usize {
    let named = |asked: &Asked| {
        serde_json::from_str::<Value>(&asked.body).is_ok_and(|message| message["method"] == method)
    };
    web.asked("/mcp").iter().filter(|asked| named(asked)).count()
}

pub(crate) fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}
