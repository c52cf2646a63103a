//! The era of a server: kept once it is known, and found anew where what is kept is wrong.

use std::sync::Arc;

use serde_json::json;
use zk_mcp::{EraStore, McpPlugin, MemoryEras, ServerEra, ServerState};
use zk_testkit::{FakeMcpEra, FakeMcpScript};

use crate::support::{Host, LONG, config};

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
    let host = Host::new(plugin.checking(|server| Err(format!("{} changed", server.name))));
    host.servers.warm_up(LONG).await;
    let ServerState::Failed { error } = host.state() else { panic!("{:?}", host.state()) };
    assert!(error.contains("start failed") && error.contains("fake changed"), "{error}");
    host.bus.close().await;
}
