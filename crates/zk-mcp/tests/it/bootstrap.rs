use std::time::Duration;

use serde_json::json;
use zk_core::kernel::Bus;
use zk_mcp::{McpPlugin, McpServers, ServerConfig, ServerState};
use zk_testkit::{FakeMcpFault, FakeMcpScript};

use crate::support::{Host, LONG, config, exec, fake, is_alive, processes};

fn silent(name: &str, mark: &str) -> ServerConfig {
    let fault = Some(FakeMcpFault::Silent);
    config(name, &FakeMcpScript { fault, instructions: Some(mark.to_owned()), ..FakeMcpScript::default() })
}

#[tokio::test]
async fn installing_servers_that_never_answer_waits_for_none_of_them_and_leaves_no_process() {
    let mark = "mark-never-answers";
    let servers = (0..8).map(|at| silent(&format!("s{at}"), mark));
    let host = Host::of(servers);
    // Nothing of them has run yet: the installation only spawned tasks.
    assert!(host.events("mcp:bootstrap:start").is_empty());
    host.servers.warm_up(Duration::ZERO).await;
    while processes(mark).len() < 8 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let started = processes(mark);
    host.bus.close().await;
    while started.iter().any(|pid| is_alive(*pid)) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(processes(mark).is_empty());
}

#[tokio::test]
async fn a_start_that_takes_too_long_says_which_server_which_stage_and_how_long() {
    let mut definition =
        fake(&FakeMcpScript { fault: Some(FakeMcpFault::Silent), ..FakeMcpScript::default() });
    definition["start_timeout"] = json!(700);
    let host = Host::of([ServerConfig::read("quiet", &definition).unwrap()]);
    host.servers.warm_up(LONG).await;
    let ServerState::Failed { error } = host.state() else { panic!("{:?}", host.state()) };
    assert!(error.contains("MCP server quiet") && error.contains("handshake failed after 0."), "{error}");
    assert!(error.contains("longer than 0.7 s") && error.contains("fake server is up"), "{error}");
    host.bus.close().await;
}

#[tokio::test]
async fn a_start_that_the_end_of_the_conversation_cuts_off_has_an_end_too() {
    let mark = "mark-cut-off";
    let host = Host::of([silent("quiet", mark)]);
    while processes(mark).is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    host.bus.close().await;
    let (starts, ends) = (host.events("mcp:bootstrap:start"), host.events("mcp:bootstrap:end"));
    assert_eq!((starts.len(), ends.len()), (1, 1), "{starts:?} {ends:?}");
    assert_eq!((&ends[0]["ok"], &ends[0]["tools"]), (&json!(false), &json!(0)));
    assert!(ends[0]["error"].as_str().unwrap().contains("ended with the conversation"), "{ends:?}");
}

#[tokio::test]
async fn every_start_has_an_end_and_only_a_good_one_connects() {
    let bad = ServerConfig::read("bad", &json!({"command": "/nonexistent/server"})).unwrap();
    let dead = FakeMcpScript { fault: Some(FakeMcpFault::DiesInFrame), ..FakeMcpScript::default() };
    let host = Host::of([config("good", &FakeMcpScript::default()), bad, config("dead", &dead)]);
    host.servers.warm_up(LONG).await;
    let named = |event: &str, server: &str| {
        host.events(event).into_iter().filter(|data| data["server"] == server).collect::<Vec<_>>()
    };
    for (server, ok) in [("good", true), ("bad", false), ("dead", false)] {
        let (starts, ends) = (named("mcp:bootstrap:start", server), named("mcp:bootstrap:end", server));
        // On a busy machine those that fail may be at their next attempt already.
        let more = starts.len() - ends.len();
        assert!(!ends.is_empty() && more <= usize::from(!ok), "{server}: {starts:?} {ends:?}");
        assert!(ends.iter().all(|end| end["ok"] == ok), "{ends:?}");
        assert_eq!(named("mcp:connect", server).len(), usize::from(ok), "{server}");
        let errors = named("mcp:error", server).len();
        assert!(if ok { errors == 0 } else { errors <= ends.len() && errors > 0 }, "{server}");
    }
    assert_eq!(named("mcp:bootstrap:end", "good")[0]["tools"], 11);
    let bad = named("mcp:error", "bad");
    assert_eq!(bad[0]["stage"], "start", "{bad:?}");
    let dead = named("mcp:error", "dead");
    assert!(dead[0]["error"].as_str().unwrap().contains("exit code 3"), "{dead:?}");
    host.bus.close().await;
}

#[tokio::test]
async fn a_server_that_failed_is_tried_again_by_the_next_warm_up() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("server");
    let mut definition = fake(&FakeMcpScript::default());
    definition["command"] = json!(link);
    let host = Host::of([ServerConfig::read("fake", &definition).unwrap()]);
    host.servers.warm_up(LONG).await;
    assert!(matches!(host.state(), ServerState::Failed { .. }));
    std::os::unix::fs::symlink(std::env::current_exe().unwrap(), &link).unwrap();
    host.servers.warm_up(Duration::ZERO).await;
    host.until(|state| matches!(state, ServerState::Ready { .. })).await;
    host.bus.close().await;
}

#[tokio::test]
async fn an_agent_that_was_warmed_up_has_the_tools_of_its_servers() {
    let host = Host::of([config("fake", &FakeMcpScript::default())]);
    let provider = zk_testkit::ScriptedProvider::new(zk_testkit::Script::new());
    let agent =
        zk_agent::Agent::builder(std::sync::Arc::new(provider)).bus(host.bus.clone()).build().unwrap();
    assert!(host.names().is_empty());
    agent.warm_up().await.unwrap();
    assert!(matches!(host.state(), ServerState::Ready { .. }), "{:?}", host.state());
    assert!(!host.names().is_empty());
    agent.close().await;
    host.bus.close().await;
}

#[tokio::test]
async fn a_disabled_server_is_not_started() {
    let mut definition = fake(&FakeMcpScript::default());
    definition["enabled"] = json!(false);
    let bus = Bus::new();
    let plugin = McpPlugin::new([ServerConfig::read("off", &definition).unwrap()], "/").exec(exec());
    bus.install(&plugin).unwrap();
    assert!(bus.service::<McpServers>().unwrap().status().is_empty());
}
