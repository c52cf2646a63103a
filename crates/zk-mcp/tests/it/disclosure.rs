use std::sync::{Arc, Mutex};

use serde_json::json;
use zk_agent::Agent;
use zk_mcp::{McpPlugin, ServerConfig};
use zk_testkit::{Asked, FakeMcpScript, Script, ScriptedProvider, Turn};

use crate::support::{Host, LONG, fake};

/// What a model with a lazy server was asked, as it went through `turns`.
async fn asked(turns: fn(usize) -> Turn) -> Vec<Asked> {
    let mut definition = fake(&FakeMcpScript::default());
    definition["disclosure"] = json!("lazy");
    let server = ServerConfig::read("fake", &definition).unwrap();
    let host = Host::new(McpPlugin::new([server], "/").waiting(LONG));
    let seen: Arc<Mutex<Vec<Asked>>> = Arc::default();
    let sink = seen.clone();
    let script = Script::answering(move |asked: &Asked| {
        sink.lock().unwrap().push(asked.clone());
        turns(asked.number)
    });
    let agent =
        Agent::builder(Arc::new(ScriptedProvider::new(script))).bus(host.bus.clone()).build().unwrap();
    agent.run("Echo x.").unwrap().wait().await.result.unwrap();
    host.bus.close().await;
    let seen = seen.lock().unwrap();
    seen.clone()
}

#[tokio::test]
async fn a_lazy_tool_is_named_in_the_prompt_found_by_a_search_and_then_called() {
    let asked = asked(|number| match number {
        1 => Turn::new().call("tool_search", json!({"query": "gives text"})),
        2 => Turn::new().call("mcp_fake_echo", json!({"text": "found"})),
        _ => Turn::new().text("Done."),
    })
    .await;
    let [first, second, third] = &asked[..] else { panic!("{}", asked.len()) };
    assert!(
        first.system.contains("mcp_fake_echo") && !first.system.contains("Gives back"),
        "{}",
        first.system
    );
    assert!(first.tools.contains(&"tool_search".to_owned()), "{:?}", first.tools);
    assert!(!first.tools.contains(&"mcp_fake_echo".to_owned()), "{:?}", first.tools);
    let found = &second.results()[0].text;
    assert!(found.contains("mcp_fake_echo") && found.contains("schema"), "{found}");
    assert_eq!(second.tools.last().map(String::as_str), Some("mcp_fake_echo"));
    assert_eq!(second.tools[..first.tools.len()], first.tools[..]);
    assert_eq!(second.system, first.system);
    assert_eq!(third.results()[0].text, "found");
}

#[tokio::test]
async fn a_lazy_tool_that_was_not_searched_for_is_refused() {
    let asked = asked(|number| match number {
        1 => Turn::new().call("mcp_fake_echo", json!({"text": "guessed"})),
        _ => Turn::new().text("Done."),
    })
    .await;
    let result = &asked[1].results()[0];
    assert!(result.is_error && result.text.contains("search for it first"), "{result:?}");
}
