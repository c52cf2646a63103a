//! Many servers by HTTP that misbehave, all at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zk_core::events::SessionStart;
use zk_core::model::RunId;
use zk_core::service::Tool;
use zk_mcp::{ServerConfig, ServerState};

use crate::chaos::{MEMORY, resident, servers};
use crate::rpc::text;
use crate::support::{Host, LONG};
use crate::web::read;

/// Fault of a server.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// Accepts requests and answers none.
    Silent,
    /// Closes the connection in mid-frame of its first response.
    DiesInFrame,
    /// Sends 2000 empty progress notes before each answer.
    Floods,
    /// Announces 200 changes of its tools before each answer.
    Storms,
    /// Answers with unknown ids, then with the right one.
    WrongIds,
    /// Answers a call with 100 MB.
    Huge,
    /// Sends lines that are no messages.
    Chatty,
}

const FAULTS: [Fault; 7] = [
    Fault::Silent,
    Fault::DiesInFrame,
    Fault::Floods,
    Fault::Storms,
    Fault::WrongIds,
    Fault::Huge,
    Fault::Chatty,
];

/// A server of either era.
#[derive(Clone)]
struct Hostile {
    fault: Fault,
    is_modern: bool,
    /// Open connections.
    open: Arc<AtomicUsize>,
}

impl Hostile {
    async fn start(self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = self.clone();
                tokio::spawn(async move {
                    server.open.fetch_add(1, Ordering::SeqCst);
                    let mut stream = stream;
                    // An answer that cannot be sent has no reader.
                    let _ = server.serve(&mut stream).await;
                    server.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        url
    }

    async fn serve(&self, stream: &mut TcpStream) -> std::io::Result<()> {
        let Some(asked) = read(stream).await else { return Ok(()) };
        if asked.method != "POST" {
            return stream
                .write_all(b"HTTP/1.1 405 X\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
                .await;
        }
        if self.fault == Fault::Silent {
            // Until the client has enough of it.
            let mut rest = [0; 64];
            while stream.read(&mut rest).await? > 0 {}
            return Ok(());
        }
        let message: Value = serde_json::from_str(&asked.body).unwrap();
        let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) else {
            return stream
                .write_all(b"HTTP/1.1 202 X\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
                .await;
        };
        if self.fault == Fault::DiesInFrame {
            let cut = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"resu");
            let head = "HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: 5000\r\n\r\n";
            return stream.write_all(format!("{head}{cut}").as_bytes()).await;
        }
        if self.fault == Fault::Huge && method == "tools/call" {
            let head = "HTTP/1.1 200 X\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n";
            let begin =
                format!("{head}{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[{{\"text\":\"");
            stream.write_all(begin.as_bytes()).await?;
            let piece = vec![b'x'; 1 << 20];
            for _ in 0..100 {
                stream.write_all(&piece).await?;
            }
            return stream.write_all(b"\"}]}}").await;
        }
        let mut events = self.noise(method);
        events.push_str(&format!("data: {}\n\n", self.answer(id, method)));
        let head = "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        stream.write_all(format!("{head}{events}").as_bytes()).await
    }

    /// Returns the noise before an answer.
    fn noise(&self, method: &str) -> String {
        let told = |method: &str, params: &Value| {
            format!("data: {}\n\n", json!({"jsonrpc": "2.0", "method": method, "params": params}))
        };
        match self.fault {
            Fault::Floods => {
                told("notifications/progress", &json!({"progressToken": "nobody", "progress": 1}))
                    .repeat(2000)
            }
            Fault::Storms if method != "initialize" && method != "server/discover" => {
                told("notifications/tools/list_changed", &json!({})).repeat(200)
            }
            Fault::WrongIds => [json!(4242), json!("x"), Value::Null]
                .iter()
                .map(|wrong| format!("data: {}\n\n", json!({"jsonrpc": "2.0", "id": wrong, "result": {}})))
                .collect(),
            Fault::Chatty => ": hello\n\nevent: news\ndata: Starting up...\n\ndata: [1, 2]\n\n".to_owned(),
            _ => String::new(),
        }
    }

    fn answer(&self, id: &Value, method: &str) -> Value {
        let mut result = match method {
            "server/discover" if self.is_modern => {
                json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
            }
            "initialize" if !self.is_modern => json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "hostile", "version": "1"},
            }),
            "tools/list" => json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
            "tools/call" => text("echoed"),
            _ => {
                let error = json!({"code": -32601, "message": "no such method"});
                return json!({"jsonrpc": "2.0", "id": id, "error": error});
            }
        };
        if self.is_modern {
            result["resultType"] = json!("complete");
            result["ttlMs"] = json!(0);
            result["cacheScope"] = json!("private");
        }
        json!({"jsonrpc": "2.0", "id": id, "result": result})
    }
}

/// Measures the time from the installation of servers to a ready prompt.
async fn first_prompt(servers: Vec<ServerConfig>) -> (Duration, Host) {
    let began = Instant::now();
    let host = Host::of(servers);
    let start = SessionStart { session_id: None, run_id: RunId::fresh(), messages: 0 };
    host.bus.cx().emit(start).await.unwrap();
    (began.elapsed(), host)
}

#[tokio::test]
async fn servers_by_http_that_misbehave_in_every_way_hang_nothing_leave_nothing_and_fill_no_memory() {
    let (count, open) = (servers(), Arc::new(AtomicUsize::new(0)));
    let mut configs = Vec::new();
    for at in 0..count {
        // Every fault in both eras.
        let is_modern = (at / FAULTS.len()).is_multiple_of(2);
        let server = Hostile { fault: FAULTS[at % FAULTS.len()], is_modern, open: open.clone() };
        let definition = json!({"url": server.start().await, "timeout": 300_000, "start_timeout": 300_000});
        configs.push(ServerConfig::read(&format!("s{at}"), &definition).unwrap());
    }
    let (none, empty) = first_prompt(Vec::new()).await;
    empty.bus.close().await;
    let before = resident();
    let (all, host) = first_prompt(configs).await;
    // The silent ones are never ready; the others settle.
    let settled = |state: &ServerState| !matches!(state, ServerState::Starting);
    let ready = async {
        while host.servers.status().iter().filter(|one| settled(&one.state)).count()
            < count - count.div_ceil(FAULTS.len())
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let ready = tokio::time::timeout(5 * LONG, ready).await;
    assert!(ready.is_ok(), "{:?}", host.servers.status());
    let echoes = host.names().into_iter().filter(|name| name.ends_with("_echo"));
    let calls = echoes.map(|name| {
        let host = &host;
        async move {
            let tool = host.bus.item::<dyn Tool>(&name);
            tool.is_some() && host.call(&name, json!({})).await.is_ok()
        }
    });
    let answered = futures_util::future::join_all(calls).await.into_iter().filter(|is| *is).count();
    // Servers that flood, storm, chatter and answer with wrong ids still answer.
    assert!(answered >= count / FAULTS.len() * 4, "{answered} of {count}: {:?}", host.servers.status());
    let memory = resident().saturating_sub(before);
    assert!(memory < MEMORY, "{} MB", memory >> 20);
    tokio::time::timeout(LONG, host.bus.close()).await.unwrap();
    let gone = async {
        while open.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, gone).await.unwrap_or_else(|_| panic!("{open:?} connections are left"));
    eprintln!(
        "{count} servers by HTTP: first prompt after {all:.2?}, with none {none:.2?}; {} MB more memory; {answered} answered",
        memory >> 20
    );
}
