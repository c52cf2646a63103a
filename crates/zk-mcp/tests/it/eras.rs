//! The era of a server: kept once it is known, and found anew where what is kept is wrong.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use zk_mcp::{EraStore, McpPlugin, MemoryEras, ServerConfig, ServerEra, ServerState};
use zk_testkit::{FakeMcpEra, FakeMcpScript};

use crate::rpc::count;
use crate::support::{Host, LONG, config};
use crate::web::{Said, Web};

async fn started(era: FakeMcpEra, eras: &Arc<MemoryEras>) -> Host {
    let script = FakeMcpScript { era, ..FakeMcpScript::default() };
    let server = config("fake", &script);
    let host = Host::new(McpPlugin::new([server], std::env::temp_dir()).eras(eras.clone()));
    host.servers.warm_up(LONG).await;
    assert!(matches!(host.state(), ServerState::Ready { .. }), "{era:?}: {:?}", host.state());
    assert_eq!(host.text("mcp_fake_echo", json!({"text": "x"})).await, "x", "{era:?}");
    host
}

#[tokio::test]
async fn a_server_whose_era_is_known_is_not_probed_and_a_wrong_guess_is_corrected() {
    for (era, known) in [
        (FakeMcpEra::Legacy, ServerEra::Handshake),
        (FakeMcpEra::Careless, ServerEra::Handshake),
        (FakeMcpEra::Modern, ServerEra::Modern),
    ] {
        let identity = config("fake", &FakeMcpScript { era, ..FakeMcpScript::default() });
        for guess in [None, Some(known), Some(ServerEra::Modern), Some(ServerEra::Handshake)] {
            let eras = Arc::new(MemoryEras::default());
            guess.into_iter().for_each(|guess| eras.save(identity.identity(), guess));
            started(era, &eras).await.bus.close().await;
            assert_eq!(eras.load(identity.identity()), Some(known), "{era:?} {guess:?}");
        }
    }
}

#[tokio::test]
async fn what_a_host_has_against_a_server_keeps_it_from_starting() {
    let plugin = McpPlugin::new([config("fake", &FakeMcpScript::default())], std::env::temp_dir());
    let host = Host::new(plugin.check_starts(|server| Err(format!("{} changed", server.name))));
    host.servers.warm_up(LONG).await;
    let ServerState::Failed { error } = host.state() else { panic!("{:?}", host.state()) };
    assert!(error.contains("did not start") && error.contains("fake changed"), "{error}");
    host.bus.close().await;
}

#[tokio::test]
async fn a_server_by_http_that_never_answers_the_question_for_revisions_still_gets_a_handshake() {
    let web = Web::start(|asked, _| {
        let message: Value = serde_json::from_str(&asked.body).unwrap_or_default();
        let result = match message["method"].as_str() {
            Some("server/discover") => return Said::never(),
            Some("initialize") => json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "old", "version": "1"},
            }),
            Some("tools/list") => json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}),
            Some(_) => return Said::status(202),
            None => return Said::status(405),
        };
        Said::json(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
    })
    .await;
    let definition = json!({"url": format!("{}/mcp", web.url), "start_timeout": 30_000});
    let host = Host::of([ServerConfig::read("old", &definition).unwrap()]);
    let asked = async {
        while count(&web, "server/discover") == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, asked).await.unwrap();
    // More than a third of the time that the start has.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11)).await;
    tokio::time::resume();
    let state = host.until(|state| *state != ServerState::Starting).await;
    assert_eq!(state, ServerState::Ready { protocol: "2025-06-18".to_owned() });
    assert_eq!(host.servers.status().remove(0).tools, ["mcp_old_t"]);
    host.bus.close().await;
}
