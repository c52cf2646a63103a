//! The eight abilities of a plugin, with a scripted model: `cargo run -p zk-harness --example plugin`

#![expect(
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "shows results; JSON values have no bounds"
)]

use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Mutex;
use zk::prelude::*;
use zk_testkit::{Script, ScriptedProvider};

#[derive(Deserialize, JsonSchema)]
struct Roll {
    /// Number of dice
    dice: u32,
}

/// `/goal TEXT` keeps a goal, of which the model is told.
#[derive(Clone, Default)]
struct Goal(Arc<Mutex<String>>);

#[async_trait]
impl Command for Goal {
    fn name(&self) -> &str {
        "goal"
    }

    fn help(&self) -> &str {
        "keeps a goal"
    }

    async fn run(&self, args: &str, _: &Cx) -> Result<CommandOutcome, BoxError> {
        args.clone_into(&mut *self.0.lock().await);
        Ok(CommandOutcome::Show(format!("the goal is: {args}")))
    }
}

#[async_trait]
impl ContextProducer for Goal {
    fn mode(&self) -> ContextMode {
        ContextMode::PerQuery
    }

    async fn text(&self, _: &Cx) -> Result<Option<String>, BoxError> {
        let goal = self.0.lock().await.clone();
        Ok(Some(goal).filter(|goal| !goal.is_empty()))
    }
}

fn abilities(scope: &Scope) -> Result<(), BoxError> {
    // 1. Refuse a call.
    scope.on_sync(|gate: &ToolGate, _| {
        let command = gate.input_str("command").unwrap_or_default();
        command.contains("push --force").then(|| Ruling::refuse("no force push here"))
    });
    // 2. Correct the arguments of a call, before anybody judges it.
    scope.on_sync(|call: &ToolPrepare, _| {
        let path = call.args.get("path")?.as_str()?.strip_prefix("file://")?;
        let mut args = call.args.clone();
        args["path"] = path.into();
        Some(args)
    });
    // 3. A tool.
    let roll = FnTool::new("roll", "Rolls dice.", |roll: Roll, _: ToolCx| async move {
        Ok(format!("{} dice: all ones", roll.dice))
    });
    scope.provide::<dyn Tool>("roll", Arc::new(roll.reads_only()))?;
    // 4. Change a result before the model sees it.
    scope.on_sync(|result: &ToolTransform, _| {
        let shorter = ResultPatch { content: Some("ones".into()), ..ResultPatch::default() };
        (result.call.name == "roll").then_some(shorter)
    });
    // 5. A command, and what it keeps in the session.
    let goal = Goal::default();
    scope.provide::<dyn Command>("goal", Arc::new(goal.clone()))?;
    scope.on_async_with(goal.clone(), async |goal: &Goal, _: &SessionBeforeEnd, _: &Cx| {
        Some(NewEntry::hidden("goal", 1, json!(*goal.0.lock().await)))
    });
    // 6. Tell the model something: in the system prompt, and about what holds now.
    let rules = FixedSection::new(section_order::PROJECT, "Write tests first.");
    scope.provide::<dyn PromptSection>("house-rules", Arc::new(rules))?;
    scope.provide::<dyn ContextProducer>("goal", Arc::new(goal))?;
    // 7. Watch what happens, and show it.
    scope.on_async(async |done: &ToolAfter, cx: &Cx| {
        let (source, body) =
            ("abilities".into(), Display::Line { text: format!("{} is done", done.call.name) });
        let block = ViewBlock {
            source,
            key: "calls".into(),
            kind: "calls".into(),
            title: "Calls".into(),
            body,
            last: false,
        };
        cx.emit(block).await.map(drop)
    });
    // 8. Work in the background, as long as the plugin is installed.
    scope.spawn(async {
        loop {
            tokio::time::sleep(Duration::from_secs(30)).await;
        }
    });
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let script = Script::new()
        .turn(|turn| turn.call("roll", json!({ "dice": 3 })))
        .turn(|turn| turn.text("All ones."));
    let model = Arc::new(ScriptedProvider::new(script));
    let agent = Agent::builder(model.clone()).plugin(plugin_fn("abilities", abilities)).build()?;
    let outcome = agent.run("Roll three dice.")?.wait().await;
    outcome.result?;
    anyhow::ensure!(model.asked()[0].system.contains("Write tests first."));
    println!("{}", outcome.text);
    agent.close().await;
    Ok(())
}
