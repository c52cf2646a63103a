//! Trust in a server, and the filter of its tools.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_core::service::{Command, Exec, ExecError, ExecRequest, Process, Questions, UiAnswer};
use zk_mcp::{McpPlugin, ServerConfig, ServerState};
use zk_testkit::FakeMcpScript;

use crate::support::{Host, LONG, exec, fake};

fn server(name: &str, more: &Value) -> ServerConfig {
    let mut definition = fake(&FakeMcpScript::default());
    definition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    ServerConfig::read(name, &definition).unwrap()
}

async fn ready(more: Value) -> Host {
    let host = Host::of([server("fake", &more)]);
    host.servers.warm_up(LONG).await;
    assert!(matches!(host.state(), ServerState::Ready { .. }), "{:?}", host.state());
    host
}

#[tokio::test]
async fn tools_that_are_denied_or_not_among_the_allowed_ones_are_not_there() {
    let host = ready(json!({"allow_tools": ["e*", "add"], "deny_tools": ["env"]})).await;
    let mut names = host.names();
    names.retain(|name| name.starts_with("mcp_fake_"));
    names.sort_unstable();
    assert_eq!(names, ["mcp_fake_add", "mcp_fake_echo"]);
    assert_eq!(host.servers.status().remove(0).tools, names);
    assert_eq!(host.text("mcp_fake_echo", json!({"text": "x"})).await, "x");
    host.bus.close().await;
}

#[tokio::test]
async fn a_tool_that_comes_later_is_held_to_the_same_lists() {
    let tool = |name: &str| json!({"name": name, "description": "Does", "inputSchema": {"type": "object"}});
    let script = FakeMcpScript {
        tools: Some(vec![tool("mutate")]),
        then: Some(vec![tool("mutate"), tool("rm")]),
        ..FakeMcpScript::default()
    };
    let mut definition = fake(&script);
    (definition["deny_tools"], definition["pin"]) = (json!(["rm"]), json!(false));
    let host = Host::of([ServerConfig::read("fake", &definition).unwrap()]);
    host.servers.warm_up(LONG).await;
    host.call("mcp_fake_mutate", json!({})).await.unwrap();
    // The list is brought up to date before the next call.
    host.call("mcp_fake_mutate", json!({})).await.unwrap();
    assert!(!host.names().contains(&"mcp_fake_rm".to_owned()), "{:?}", host.names());
    host.bus.close().await;
}

#[tokio::test]
async fn an_untrusted_server_has_nothing_but_the_tools_that_are_allowed_by_name() {
    let host = ready(json!({"trust": "untrusted"})).await;
    host.servers.prompts_ready().await;
    assert_eq!(host.names(), Vec::<String>::new());
    assert!(host.bus.items::<dyn Command>().iter().all(|one| !one.name.starts_with("mcp_fake")));
    host.bus.close().await;
    let host = ready(json!({"trust": "untrusted", "allow_tools": ["echo"]})).await;
    assert_eq!(host.names(), ["mcp_fake_echo"]);
    host.bus.close().await;
}

#[tokio::test]
async fn the_resources_of_an_untrusted_server_are_not_among_those_of_the_others() {
    let servers = [server("fake", &json!({})), server("shady", &json!({"trust": "untrusted"}))];
    let host = Host::of(servers);
    host.servers.warm_up(LONG).await;
    let listed = host.text("mcp_list_resources", json!({})).await;
    assert!(listed.contains("fake: fake://readme") && !listed.contains("shady"), "{listed}");
    let read = json!({"server": "shady", "uri": "fake://readme"});
    assert!(host.call("mcp_read_resource", read).await.is_err());
    host.bus.close().await;
}

/// Counts the programs it starts.
struct Counted(Arc<dyn Exec>, AtomicUsize);

#[async_trait]
impl Exec for Counted {
    async fn spawn(&self, request: ExecRequest) -> Result<Box<dyn Process>, ExecError> {
        self.1.fetch_add(1, Ordering::AcqRel);
        self.0.spawn(request).await
    }
}

#[tokio::test]
async fn a_sandboxed_program_runs_in_the_sandbox_and_its_questions_are_declined() {
    let sandbox = Arc::new(Counted(exec(), AtomicUsize::new(0)));
    let servers = [server("fake", &json!({"trust": "sandboxed"})), server("other", &json!({}))];
    let host = Host::new(McpPlugin::new(servers, "/").sandbox(sandbox.clone()));
    host.servers.warm_up(LONG).await;
    assert!(matches!(host.state(), ServerState::Ready { .. }), "{:?}", host.state());
    assert!(sandbox.1.load(Ordering::Acquire) > 0);
    let started = sandbox.1.load(Ordering::Acquire);
    let questions = Arc::new(Questions::new());
    host.bus.scope("person").provide_service(questions.clone());
    let person = questions.attach();
    assert!(host.text("mcp_fake_ask", json!({})).await.contains("decline"), "without asking the person");
    let is_gone = async {
        let asked = person.next().await;
        person.answer(asked.id, asked.digest, UiAnswer::Absent).unwrap();
    };
    let (answer, ()) = tokio::join!(host.text("mcp_other_ask", json!({})), is_gone);
    assert!(answer.contains("cancel"), "{answer}");
    let sampled = host.text("mcp_fake_sample", json!({})).await;
    assert!(sampled.contains("zk asks no model for servers here"), "{sampled}");
    assert_eq!(sandbox.1.load(Ordering::Acquire), started, "the other one runs outside");
    host.bus.close().await;
}

#[tokio::test]
async fn a_sandboxed_program_does_not_start_where_there_is_no_sandbox() {
    let host = Host::of([server("fake", &json!({"trust": "sandboxed"}))]);
    let failed = host.until(|state| matches!(state, ServerState::Failed { .. })).await;
    let ServerState::Failed { error } = failed else { panic!("{failed:?}") };
    assert!(error.contains("there is no sandbox here"), "{error}");
    host.bus.close().await;
}
