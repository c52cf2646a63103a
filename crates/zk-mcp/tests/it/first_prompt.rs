//! The first prompt of a conversation: it waits for no server.

use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::net::TcpListener;
use zk_core::kernel::{AnyEvent, Cx};
use zk_mcp::ServerConfig;
use zk_testkit::{FakeMcpFault, FakeMcpScript, Script, ScriptedProvider};

use crate::support::{Host, config};

const COUNT: usize = 50;

/// HTTP server that accepts connections and never answers.
async fn silent_by_http(at: usize) -> ServerConfig {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            open.push(stream);
        }
    });
    ServerConfig::read(&format!("s{at}"), &json!({"url": url})).unwrap()
}

fn silent_by_stdio(at: usize) -> ServerConfig {
    let script = FakeMcpScript { fault: Some(FakeMcpFault::Silent), ..FakeMcpScript::default() };
    config(&format!("s{at}"), &script)
}

#[tokio::test]
async fn the_first_prompt_is_sent_before_all_silent_servers_are_even_begun() {
    let mut by_http = Vec::new();
    for at in 0..COUNT {
        by_http.push(silent_by_http(at).await);
    }
    for (transport, servers) in
        [("http", by_http), ("stdio", (0..COUNT).map(silent_by_stdio).collect::<Vec<_>>())]
    {
        let host = Host::of(servers);
        let order: Arc<Mutex<Vec<&'static str>>> = Arc::default();
        let seen = order.clone();
        host.bus.scope("order").observe(move |event: &dyn AnyEvent, _: &Cx| {
            seen.lock().unwrap().push(event.name());
        });
        let provider = ScriptedProvider::new(Script::new().turn(|turn| turn.text("hello")));
        let agent = zk_agent::Agent::builder(Arc::new(provider)).bus(host.bus.clone()).build().unwrap();
        let ended = agent.run("hi").unwrap().wait().await;
        assert!(ended.result.is_ok(), "{ended:?}");
        let order: Vec<&str> = order.lock().unwrap().clone();
        let sent = order.iter().position(|name| *name == "provider:request").expect("no request is sent");
        let before = |name: &str| order[..sent].iter().filter(|one| **one == name).count();
        assert_eq!((before("mcp:bootstrap:end"), before("mcp:error")), (0, 0), "{transport}: {order:?}");
        assert!(before("mcp:bootstrap:start") < COUNT, "{transport}: {order:?}");
        agent.close().await;
        host.bus.close().await;
    }
}
