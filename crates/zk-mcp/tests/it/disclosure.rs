use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::json;
use zk_agent::{Agent, Preset, SpawnOptions};
use zk_core::events::SystemSections;
use zk_core::kernel::{Bus, Cx};
use zk_core::model::{Approved, Disclosure, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{PresetServer, PromptSection, Tool, ToolCx};
use zk_mcp::{McpPlugin, McpServers, ServerConfig, ServerDisclosure};
use zk_testkit::{Asked, FakeMcpScript, Script, ScriptedProvider, Turn};

use crate::support::{Host, LONG, exec, fake};

/// Returns the requests to a model with a lazy server, as it went through `turns`.
async fn asked(turns: fn(usize) -> Turn) -> Vec<Asked> {
    asked_as(&[], turns).await
}

/// Requests like those of `asked`, with other wire names for tools.
async fn asked_as(aliases: &[(&str, &str)], turns: fn(usize) -> Turn) -> Vec<Asked> {
    let mut definition = fake(&FakeMcpScript::default());
    definition["disclosure"] = json!("lazy");
    let server = ServerConfig::read("fake", &definition).unwrap();
    let host = Host::new(McpPlugin::new([server], "/").wait_for_servers(LONG));
    let seen: Arc<Mutex<Vec<Asked>>> = Arc::default();
    let sink = seen.clone();
    let script = Script::answering(move |asked: &Asked| {
        sink.lock().unwrap().push(asked.clone());
        turns(asked.number)
    });
    let provider = Arc::new(ScriptedProvider::new(script));
    let mut agent = Agent::builder(provider).unguarded().bus(host.bus.clone()).spawn(SpawnOptions::default());
    for (name, wire) in aliases {
        agent = agent.alias(*name, *wire);
    }
    let agent = agent.build().unwrap();
    let sections: Arc<Mutex<Vec<String>>> = Arc::default();
    let sink = sections.clone();
    host.bus.scope("test").on_sync(move |event: &SystemSections, _: &Cx| {
        sink.lock().unwrap().extend(event.sections.iter().map(|one| format!("{} of {}", one.id, one.source)));
    });
    agent.run("Echo x.").unwrap().wait().await.result.unwrap();
    assert!(sections.lock().unwrap().contains(&"mcp-tools of mcp".to_owned()), "it is a section");
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
    assert!(first.system.contains("\nmcp_fake_echo: Gives back a text\n"), "{}", first.system);
    assert!(!first.system.contains("properties"), "no schema: {}", first.system);
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
async fn servers_of_presets_start_with_the_agent_and_replace_the_plugins_of_one_name() {
    let preset = |name: &str, definition| Preset {
        servers: vec![PresetServer::new(name, definition)],
        ..Preset::default()
    };
    let broken = json!({"command": "/no/such/program"});
    let all = Preset::compose([
        preset("docs", broken.clone()),
        preset("docs", fake(&FakeMcpScript::default())),
        preset("more", fake(&FakeMcpScript::default())),
    ]);
    let own = ServerConfig::read("more", &broken).unwrap();
    let agent = Agent::builder(Arc::new(ScriptedProvider::new(Script::new())))
        .unguarded()
        .plugin(McpPlugin::new([own], "/").exec(exec()))
        .preset(all)
        .build()
        .unwrap();
    let servers = agent.bus().service::<McpServers>().unwrap();
    servers.warm_up(LONG).await;
    let states: Vec<String> =
        servers.status().iter().map(|one| format!("{}: {:?}", one.server, one.state)).collect();
    let tools: Vec<String> =
        agent.bus().items::<dyn Tool>().iter().map(|tool| tool.name.to_string()).collect();
    for name in ["mcp_docs_echo", "mcp_more_echo"] {
        assert!(tools.iter().any(|tool| tool == name), "{name}: {tools:?} {states:?}");
    }
    agent.close().await;
    let wrong = Agent::builder(Arc::new(ScriptedProvider::new(Script::new())))
        .plugin(McpPlugin::new([], "/"))
        .preset(preset("docs", json!({})))
        .build();
    let error = wrong.map(drop).unwrap_err().to_string();
    assert!(error.contains("docs"), "{error}");
}

#[tokio::test]
async fn a_search_in_one_server_finds_nothing_of_another_whose_name_begins_so() {
    let server = |name: &str| {
        let mut definition = fake(&FakeMcpScript::default());
        definition["disclosure"] = json!("lazy");
        ServerConfig::read(name, &definition).unwrap()
    };
    let host = Host::new(McpPlugin::new([server("a"), server("a_b")], "/").wait_for_servers(LONG));
    let seen: Arc<Mutex<Vec<Asked>>> = Arc::default();
    let sink = seen.clone();
    let script = Script::answering(move |asked: &Asked| {
        sink.lock().unwrap().push(asked.clone());
        match asked.number {
            1 => Turn::new().call("tool_search", json!({"server": "a", "query": "gives text"})),
            2 => Turn::new().call("tool_search", json!({"server": "a_b", "query": "gives text"})),
            3 => Turn::new().call("tool_search", json!({"server": "b"})),
            _ => Turn::new().text("Done."),
        }
    });
    let agent = Agent::builder(Arc::new(ScriptedProvider::new(script)))
        .unguarded()
        .bus(host.bus.clone())
        .build()
        .unwrap();
    agent.run("Echo x.").unwrap().wait().await.result.unwrap();
    host.bus.close().await;
    let result = |asked: usize| seen.lock().unwrap()[asked].results()[0].clone();
    assert!(
        result(1).text.contains("\"mcp_a_echo\"") && !result(1).text.contains("mcp_a_b_echo"),
        "{:?}",
        result(1)
    );
    assert!(
        result(2).text.contains("\"mcp_a_b_echo\"") && !result(2).text.contains("mcp_a_echo"),
        "{:?}",
        result(2)
    );
    let unknown = result(3);
    assert!(
        unknown.is_error && unknown.text.contains("there is no MCP server `b`; there are: a, a_b"),
        "{unknown:?}"
    );
}

#[tokio::test]
async fn a_lazy_tool_that_was_not_searched_for_is_refused() {
    let asked = asked(|number| match number {
        1 => Turn::new().call("mcp_fake_echo", json!({"text": "guessed"})),
        _ => Turn::new().text("Done."),
    })
    .await;
    let result = &asked[1].results()[0];
    assert!(result.is_error && result.text.contains("search for it first with `tool_search`"), "{result:?}");
}

#[tokio::test]
async fn the_refusal_of_a_lazy_tool_names_it_and_the_search_as_the_model_knows_them() {
    let aliases = [("mcp_fake_echo", "say_back"), ("tool_search", "find_tools")];
    let asked = asked_as(&aliases, |number| match number {
        1 => Turn::new().call("say_back", json!({"text": "guessed"})),
        2 => Turn::new().call("find_tools", json!({"names": ["mcp_fake_echo"]})),
        3 => Turn::new().call("say_back", json!({"text": "found"})),
        _ => Turn::new().text("Done."),
    })
    .await;
    let refused = &asked[1].results()[0];
    assert!(refused.is_error && refused.text.contains("`say_back` is not among the tools"), "{refused:?}");
    assert!(refused.text.contains("search for it first with `find_tools`"), "{refused:?}");
    assert!(!asked[0].tools.contains(&"say_back".to_owned()), "{:?}", asked[0].tools);
    assert!(asked[2].tools.contains(&"say_back".to_owned()), "{:?}", asked[2].tools);
    assert_eq!(asked[3].results()[0].text, "found");
}

#[tokio::test]
async fn a_server_that_says_always_load_is_told_of_at_once_where_others_are_lazy() {
    let server = |name: &str, always: bool| {
        let mut definition = fake(&FakeMcpScript::default());
        definition["alwaysLoad"] = json!(always);
        ServerConfig::read(name, &definition).unwrap()
    };
    let plugin = McpPlugin::new([server("one", true), server("two", false)], "/");
    let host = Host::new(plugin.disclosure(ServerDisclosure::Lazy));
    host.servers.warm_up(LONG).await;
    let disclosed = |name: &str| host.bus.item::<dyn Tool>(name).unwrap().spec().disclosure;
    assert_eq!(disclosed("mcp_one_echo"), Disclosure::Always);
    assert_eq!(disclosed("mcp_two_echo"), Disclosure::Lazy);
    host.bus.close().await;
}

#[tokio::test]
async fn a_sub_agent_is_told_of_the_lazy_tools_too() {
    let asked = asked(|number| match number {
        1 => Turn::new().call("spawn", json!({"task": "Echo it."})),
        2 => Turn::new().call("tool_search", json!({"names": ["mcp_fake_echo"]})),
        3 => Turn::new().call("mcp_fake_echo", json!({"text": "from below"})),
        _ => Turn::new().text("Done."),
    })
    .await;
    let child = &asked[1];
    assert_eq!(child.messages.len(), 1, "it is the sub-agent");
    assert!(child.system.contains("\nmcp_fake_echo: Gives back a text\n"), "{}", child.system);
    assert_eq!(asked[3].results()[0].text, "from below");
}

/// Four servers with 50 tools each: one fits into the budget of eager tools, all four do not.
fn large() -> Vec<ServerConfig> {
    let tools = |server: usize| {
        let tool = |at| {
            let about =
                format!("Does the {at}th of many things of server {server}: {}", "and so on ".repeat(20));
            json!({"name": format!("t{at}"), "description": about, "inputSchema": {"type": "object"}})
        };
        (0..50).map(tool).collect()
    };
    let script = |server| FakeMcpScript { tools: Some(tools(server)), ..FakeMcpScript::default() };
    let config = |server: usize| ServerConfig::read(&format!("s{server}"), &fake(&script(server))).unwrap();
    (0..4).map(config).collect()
}

fn lazy(bus: &Bus) -> usize {
    let all = bus.items::<dyn Tool>();
    all.iter().filter(|tool| tool.value.spec().disclosure == Disclosure::Lazy).count()
}

#[tokio::test]
async fn tools_of_all_servers_together_become_lazy_above_a_budget_whichever_is_ready_first() {
    for (tokens, count) in [(None, 200), (Some(100_000), 0)] {
        let plugin = McpPlugin::new(large(), "/");
        let host = Host::new(match tokens {
            Some(tokens) => plugin.eager_tokens(tokens),
            None => plugin,
        });
        host.servers.warm_up(LONG).await;
        assert_eq!(lazy(&host.bus), count, "{tokens:?}");
        assert_eq!(host.names().contains(&"tool_search".to_owned()), count > 0);
        assert_eq!(host.names().iter().filter(|name| name.starts_with("mcp_s")).count(), 200);
        host.bus.close().await;
    }
}

/// A search of the host's own.
struct OwnSearch(Arc<ToolSpec>);

#[async_trait]
impl Tool for OwnSearch {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    async fn call(&self, _: &Approved, _: &ToolCx) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text("nothing"))
    }
}

#[tokio::test]
async fn a_host_keeps_its_own_search_or_does_without_one() {
    let mut definition = fake(&FakeMcpScript::default());
    definition["disclosure"] = json!("lazy");
    let server = || ServerConfig::read("fake", &definition).unwrap();
    let bus = Bus::new();
    let spec = ToolSpec::new("tool_search", "Mine", json!({"type": "object"}));
    bus.scope("host").provide::<dyn Tool>("tool_search", Arc::new(OwnSearch(spec))).unwrap();
    bus.install(&McpPlugin::new([server()], "/").exec(exec())).unwrap();
    bus.service::<McpServers>().unwrap().warm_up(LONG).await;
    assert_eq!(bus.item::<dyn Tool>("tool_search").unwrap().spec().description, "Mine");
    bus.close().await;

    let host = Host::new(McpPlugin::new([server()], "/").without_search());
    host.servers.warm_up(LONG).await;
    assert!(!host.names().contains(&"tool_search".to_owned()), "{:?}", host.names());
    let section = host.bus.item::<dyn PromptSection>("mcp-tools").unwrap();
    let text = section.text(&host.bus.cx()).await.unwrap();
    assert!(text.contains("\nmcp_fake_echo: ") && !text.contains("tool_search"), "{text}");
    host.bus.close().await;
}
