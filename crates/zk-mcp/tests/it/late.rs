//! Events after the first moments: late servers, failures that are told, starts that are shared.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use zk_core::events::SessionStart;
use zk_core::model::RunId;
use zk_core::service::Redactor;
use zk_mcp::{McpPlugin, ServerConfig, ServerState};
use zk_testkit::FakeMcpScript;

use crate::support::{Host, LONG, config, fake};

/// Waits until a condition holds.
async fn until(what: &str, is: impl Fn() -> bool) {
    let poll = async {
        while !is() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, poll).await.unwrap_or_else(|_| panic!("{what} does not come"));
}

/// A run begins.
async fn begin(host: &Host) {
    let start = SessionStart { session_id: None, run_id: RunId::fresh(), messages: 0 };
    host.bus.cx().emit(start).await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_ready_only_after_a_run_began_is_announced() {
    let script = FakeMcpScript { delay_ms: 300, ..FakeMcpScript::default() };
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let sink = told.clone();
    let plugin = McpPlugin::new([config("fake", &script)], "/");
    let host = Host::new(plugin.on_notice(move |text| sink.lock().unwrap().push(text.to_owned())));
    begin(&host).await;
    assert!(told.lock().unwrap().is_empty(), "the run did not wait for it");
    until("the announcement", || !told.lock().unwrap().is_empty()).await;
    assert_eq!(*told.lock().unwrap(), ["MCP server fake is ready with 11 tools"]);
    assert_eq!(host.text("mcp_fake_echo", json!({"text": "x"})).await, "x");
    host.bus.close().await;
}

/// A server whose program is at a link that a test makes later.
fn linked(dir: &std::path::Path) -> (ServerConfig, impl Fn()) {
    let link = dir.join("server");
    let mut definition = fake(&FakeMcpScript::default());
    definition["command"] = json!(link);
    let config = ServerConfig::read("fake", &definition).unwrap();
    (config, move || std::os::unix::fs::symlink(std::env::current_exe().unwrap(), &link).unwrap())
}

#[tokio::test]
async fn a_server_that_never_worked_is_tried_again_by_itself_and_told_of_once() {
    let dir = tempfile::tempdir().unwrap();
    let (config, make) = linked(dir.path());
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let sink = told.clone();
    let plugin = McpPlugin::new([config], "/");
    let host = Host::new(plugin.on_notice(move |text| sink.lock().unwrap().push(text.to_owned())));
    host.servers.warm_up(LONG).await;
    assert!(matches!(host.state(), ServerState::Failed { .. }), "nobody waits for the next attempt");
    begin(&host).await;
    until("the second failure", || host.events("mcp:error").len() > 1).await;
    make();
    host.until(|state| matches!(state, ServerState::Ready { .. })).await;
    until("the announcement", || told.lock().unwrap().len() > 1).await;
    let told = told.lock().unwrap().clone();
    assert!(
        told[0].contains("did not start") && told[0].ends_with(". zk starts it again by itself"),
        "{told:?}"
    );
    assert!(told[1].contains("is ready"), "{told:?}");
    host.bus.close().await;
}

#[tokio::test]
async fn a_conversation_is_told_of_a_server_that_fails_before_its_first_run_and_once() {
    let dir = tempfile::tempdir().unwrap();
    let (config, make) = linked(dir.path());
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let sink = told.clone();
    let plugin = McpPlugin::new([config], "/").telling_at_once(true);
    let host = Host::new(plugin.on_notice(move |text| sink.lock().unwrap().push(text.to_owned())));
    until("the failure is told", || !told.lock().unwrap().is_empty()).await;
    begin(&host).await;
    make();
    host.until(|state| matches!(state, ServerState::Ready { .. })).await;
    until("the announcement", || told.lock().unwrap().len() > 1).await;
    let told = told.lock().unwrap().clone();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("did not start") && told[1].contains("is ready"), "{told:?}");
    host.bus.close().await;
}

#[tokio::test]
async fn whoever_waits_for_a_start_at_the_same_time_waits_for_one_start() {
    let dir = tempfile::tempdir().unwrap();
    let (config, make) = linked(dir.path());
    let host = Host::of([config]);
    host.servers.warm_up(LONG).await;
    make();
    let waits = (0..3).map(|_| host.servers.warm_up(LONG));
    futures_util::future::join_all(waits).await;
    assert!(matches!(host.state(), ServerState::Ready { .. }), "{:?}", host.state());
    let attempts: Vec<Value> = host.events("mcp:bootstrap:start");
    assert_eq!(attempts.len(), 2, "{attempts:?}");
    host.servers.warm_up(LONG).await;
    assert_eq!(host.events("mcp:bootstrap:start").len(), 2, "one that is ready is left alone");
    host.bus.close().await;
}

#[tokio::test]
async fn what_a_failed_server_printed_is_told_without_secrets() {
    let script = "echo the key is hunter2-and-more >&2; exit 4";
    let server = ServerConfig::read("sh", &json!({"command": "sh", "args": ["-c", script]})).unwrap();
    let host = Host::of([server]);
    let redactor = Redactor::default();
    redactor.learn("hunter2-and-more");
    host.bus.scope("secrets").provide_service(Arc::new(redactor));
    host.servers.warm_up(LONG).await;
    let ServerState::Failed { error } = host.state() else { panic!("{:?}", host.state()) };
    assert!(error.contains("the key is") && error.contains("exit code 4"), "{error}");
    assert!(!error.contains("hunter2"), "{error}");
    let events = host.events("mcp:error");
    assert!(!events.is_empty() && !json!(events).to_string().contains("hunter2"), "{events:?}");
    host.bus.close().await;
}
