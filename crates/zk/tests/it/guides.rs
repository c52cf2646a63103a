//! Code of the guides that no example has: `cargo xtask tidy` finds each block of docs/*.md here or in an example.

use async_trait::async_trait;
use serde_json::{Value, json};
use zk::prelude::*;
use zk_testkit::{Script, ScriptedProvider};

/// A tool under a name, which counts nothing and reads nothing.
struct Named(Arc<zk::core::model::ToolSpec>);

impl Named {
    fn new(name: &str) -> Self {
        Self(zk::core::model::ToolSpec::new(name, "Does it.", json!({ "type": "object" })))
    }
}

#[async_trait]
impl Tool for Named {
    fn spec(&self) -> &Arc<zk::core::model::ToolSpec> {
        &self.0
    }

    async fn call(
        &self,
        _: &zk::core::model::Approved,
        _: &ToolCx,
    ) -> Result<zk::core::model::ToolOutput, ToolError> {
        Ok(zk::core::model::ToolOutput::text("done"))
    }
}

#[expect(clippy::let_and_return, reason = "the guide shows the binding")]
fn guard() -> impl Plugin {
    let guard = plugin_fn("no-force-push", |scope| {
        scope.on_sync(|gate: &ToolGate, _| {
            let command = gate.input_str("command").unwrap_or_default();
            command.contains("push --force").then(|| Ruling::refuse("no force push here"))
        });
        Ok(())
    });
    guard
}

#[tokio::test(flavor = "current_thread")]
async fn the_shortest_plugin_of_the_guide_refuses_what_it_says_and_is_tested_as_the_guide_says() {
    let test = async || {
        let guard = guard();
        let shell = Arc::new(Named::new("shell"));
        let model = Arc::new(ScriptedProvider::new(
            Script::new()
                .turn(|turn| turn.call("shell", json!({ "command": "git push --force" })))
                .turn(|turn| turn.text("All right.")),
        ));
        let agent = Agent::builder(model.clone()).tool(shell).plugin(guard).unguarded().build()?;
        agent.run("push it")?.wait().await.result?;
        assert!(model.last_results()[0].text.contains("no force push here"));
        anyhow::Ok(())
    };
    test().await.unwrap();
}

#[tokio::test(flavor = "current_thread")]
async fn items_are_provided_decorated_and_watched_as_the_guide_says() {
    let bus = Bus::new();
    let scope = bus.scope("guide");
    let (seen, closed) =
        (Arc::new(std::sync::Mutex::new(Vec::new())), Arc::new(std::sync::Mutex::new(false)));
    let (log, mark) = (seen.clone(), closed.clone());
    let weather = || Arc::new(Named::new("weather"));
    let register = move || {
        scope.on_items::<dyn Tool>(move |change| log.lock().unwrap().push(change.name.to_string()));
        scope.provide::<dyn Tool>("weather", weather())?;
        scope.decorate::<dyn Tool>("weather", |inner| inner);
        scope.on_close(async move || *mark.lock().unwrap() = true);
        anyhow::Ok(())
    };
    register().unwrap();
    assert!(bus.items::<dyn Tool>().iter().any(|item| &*item.name == "weather"));
    bus.close().await;
    assert!(seen.lock().unwrap().contains(&"weather".to_owned()) && *closed.lock().unwrap());
}

/// The index was rebuilt.
#[derive(Debug, serde::Serialize)]
struct IndexRebuilt {
    files: usize,
}

impl zk::kernel::Event for IndexRebuilt {
    const NAME: &'static str = "index:rebuilt";
    type Reply = ();
    type Mode = zk::kernel::Notify;
}

#[tokio::test(flavor = "current_thread")]
async fn an_event_of_a_plugin_is_heard_by_another() {
    let bus = Bus::new();
    let heard = Arc::new(std::sync::Mutex::new(0));
    let count = heard.clone();
    bus.scope("listener").on_sync(move |ev: &IndexRebuilt, _: &Cx| *count.lock().unwrap() = ev.files);
    bus.cx().emit(IndexRebuilt { files: 7 }).await.unwrap();
    assert_eq!(*heard.lock().unwrap(), 7);
}

#[test]
fn an_agent_has_somebody_who_decides_or_says_that_nobody_does() {
    let build = || {
        let provider = Arc::new(ScriptedProvider::new(Script::new()));
        let remove: Arc<dyn Tool> = Arc::new(Named::new("remove"));
        let asks = PermissionGate::new(Mode::Ask);
        let asks = Agent::builder(provider.clone()).tool(remove.clone()).plugin(asks).build()?;
        let asks_a_function = allow_if(|call| async move { call.args["path"] == "target" });
        let asks_a_function =
            Agent::builder(provider.clone()).tool(remove.clone()).plugin(asks_a_function).build()?;
        let asks_nobody = Agent::builder(provider.clone()).tool(remove.clone()).unguarded().build()?;
        drop((asks, asks_a_function, asks_nobody));
        let refused = Agent::builder(provider).tool(remove).build();
        assert!(matches!(refused, Err(AgentError::Unguarded { tool }) if tool == "remove"));
        anyhow::Ok::<Value>(Value::Null)
    };
    build().unwrap();
}
