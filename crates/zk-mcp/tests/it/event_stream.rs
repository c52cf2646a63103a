//! Servers of revision 2024-11-05: a stream of events, and an address for messages beside it.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use zk_mcp::{EraStore, McpPlugin, MemoryEras, ServerConfig, ServerEra, ServerState};

use crate::support::{Host, LONG};
use crate::web::{Asked, Said, Web, read};

/// Request such as `GET /sse`, with its token.
type OldRequest = (String, Option<String>);

/// The server: `/sse` is the stream, `/messages` takes messages.
#[derive(Clone)]
struct Old {
    url: String,
    /// Address for messages that the stream names.
    endpoint: &'static str,
    asked: Arc<Mutex<Vec<OldRequest>>>,
    stream: Arc<Mutex<Option<mpsc::UnboundedSender<String>>>>,
}

impl Old {
    async fn start(endpoint: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/sse", listener.local_addr().unwrap());
        let old = Self { url, endpoint, asked: Arc::default(), stream: Arc::default() };
        let serving = old.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().serve(stream));
            }
        });
        old
    }

    async fn serve(self, mut stream: TcpStream) {
        let Some(asked) = read(&mut stream).await else { return };
        let line = format!("{} {}", asked.method, asked.path.split('?').next().unwrap());
        let token = asked.headers.get("authorization").cloned();
        self.asked.lock().unwrap().push((line.clone(), token));
        let head = |status: &str| format!("HTTP/1.1 {status}\r\nconnection: close\r\n");
        match line.as_str() {
            "GET /sse" => {
                let head = format!("{}content-type: text/event-stream\r\n\r\n", head("200 OK"));
                let _ = stream.write_all(head.as_bytes()).await;
                let (sender, mut events) = mpsc::unbounded_channel();
                sender.send(format!("event: endpoint\ndata: {}\n\n", self.endpoint)).unwrap();
                *self.stream.lock().unwrap() = Some(sender);
                while let Some(event) = events.recv().await {
                    if stream.write_all(event.as_bytes()).await.is_err() {
                        return;
                    }
                }
            }
            "POST /messages" => {
                if let Some(answer) = answer(&asked) {
                    let event = format!(": alive\n\nevent: message\ndata: {answer}\n\n");
                    let stream = self.stream.lock().unwrap();
                    let _ = stream.as_ref().unwrap().send(event);
                }
                let accepted = format!("{}content-length: 8\r\n\r\nAccepted", head("202 Accepted"));
                let _ = stream.write_all(accepted.as_bytes()).await;
            }
            _ => {
                let text = format!("{}content-length: 0\r\n\r\n", head("404 Not Found"));
                let _ = stream.write_all(text.as_bytes()).await;
            }
        }
    }

    fn asked(&self, line: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|(one, _)| one == line).count()
    }

    async fn host(&self, more: Value, eras: &Arc<MemoryEras>) -> Host {
        let mut definition = json!({"url": self.url, "headers": {"Authorization": "Bearer mine"}});
        definition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let server = ServerConfig::read("old", &definition).unwrap();
        let host = Host::new(McpPlugin::new([server], "/").eras(eras.clone()));
        host.servers.warm_up(LONG).await;
        host
    }
}

fn answer(asked: &Asked) -> Option<Value> {
    let message: Value = serde_json::from_str(&asked.body).unwrap();
    let id = message.get("id")?;
    let result = match message["method"].as_str()? {
        "initialize" => json!({"protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
                               "serverInfo": {"name": "old", "version": "1"}}),
        "tools/list" => json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
        "tools/call" => {
            let text = &message["params"]["arguments"]["text"];
            json!({"content": [{"type": "text", "text": text}]})
        }
        method => {
            let error = json!({"code": -32601, "message": format!("no such method: {method}")});
            return Some(json!({"jsonrpc": "2.0", "id": id, "error": error}));
        }
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

#[tokio::test]
async fn a_server_of_the_first_revision_is_found_by_its_refusal_and_known_from_then_on() {
    let (old, eras) = (Old::start("/messages?session=1").await, Arc::default());
    let host = old.host(json!({}), &eras).await;
    assert_eq!(host.state(), ServerState::Ready { protocol: "2024-11-05".to_owned() });
    assert_eq!(host.text("mcp_old_echo", json!({"text": "hällo"})).await, "hällo");
    let refused = old.asked("POST /sse");
    assert!(refused > 0);
    host.bus.close().await;
    let again = old.host(json!({}), &eras).await;
    assert_eq!(again.text("mcp_old_echo", json!({"text": "x"})).await, "x");
    assert_eq!(old.asked("POST /sse"), refused, "it was not tried again");
    let tokens: Vec<_> = old.asked.lock().unwrap().iter().map(|(_, token)| token.clone()).collect();
    assert!(tokens.iter().all(|token| token.as_deref() == Some("Bearer mine")), "{tokens:?}");
    again.bus.close().await;
}

#[tokio::test]
async fn a_definition_that_says_sse_is_taken_at_its_word() {
    let old = Old::start("messages").await;
    let host = old.host(json!({"type": "sse"}), &Arc::default()).await;
    assert_eq!(host.text("mcp_old_echo", json!({"text": "x"})).await, "x");
    assert_eq!(old.asked("POST /sse"), 0);
    host.bus.close().await;
}

#[tokio::test]
async fn a_stream_that_ends_is_opened_again() {
    let old = Old::start("/messages").await;
    let host = old.host(json!({"type": "sse"}), &Arc::default()).await;
    *old.stream.lock().unwrap() = None;
    host.until(|state| matches!(state, ServerState::Starting)).await;
    host.until(|state| matches!(state, ServerState::Ready { .. })).await;
    assert_eq!(host.text("mcp_old_echo", json!({"text": "x"})).await, "x");
    host.bus.close().await;
}

#[tokio::test]
async fn messages_and_the_token_go_to_no_other_host() {
    let old = Old::start("http://127.0.0.1:1/messages").await;
    let host = old.host(json!({"type": "sse"}), &Arc::default()).await;
    let ServerState::Failed { error } = host.state() else { panic!("{:?}", host.state()) };
    assert!(error.contains("elsewhere"), "{error}");
    host.bus.close().await;
}

#[tokio::test]
async fn a_server_whose_era_is_known_is_not_probed() {
    let web = Web::start(|asked, _| match (asked.method.as_str(), answer_of(asked)) {
        ("POST", Some(answer)) => Said::json(&answer),
        ("POST", None) => Said::status(202),
        _ => Said::status(405),
    })
    .await;
    let server = ServerConfig::read("s", &json!({"url": format!("{}/mcp", web.url)})).unwrap();
    let eras = Arc::new(MemoryEras::default());
    let probes = || web.asked("/mcp").iter().filter(|one| one.body.contains("server/discover")).count();
    for count in [1, 1] {
        let host = Host::new(McpPlugin::new([server.clone()], "/").eras(eras.clone()));
        host.servers.warm_up(LONG).await;
        assert!(matches!(host.state(), ServerState::Ready { .. }), "{:?}", host.state());
        assert_eq!(probes(), count);
        host.bus.close().await;
    }
    assert_eq!(eras.load(server.identity()), Some(ServerEra::Handshake));
}

fn answer_of(asked: &Asked) -> Option<Value> {
    (asked.method == "POST").then(|| answer(asked)).flatten()
}
