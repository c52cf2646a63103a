//! One conversation with the built-in agent and with an agent of another program, drawn on the same screen.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_agent::Agent;
use zk_core::kernel::{Bus, plugin_fn};
use zk_core::model::{
    Approved, CallKind, CheckItem, CheckState, Display, Effects, ToolError, ToolErrorKind, ToolOutput,
    ToolSpec,
};
use zk_core::service::{ApprovalCard, CallPlace, Questions, Tool, ToolCx, UiAnswer};
use zk_permission::{Mode, PermissionGate};
use zk_testkit::{Script, ScriptedProvider};
use zk_view::ViewDriver;

use crate::support::{PATIENCE, approval, drawn, patches_of, project, rig};

/// Tools of the built-in agent in this conversation.
struct Own {
    spec: Arc<ToolSpec>,
    kind: CallKind,
    path: PathBuf,
}

fn own(name: &str, kind: CallKind, path: &Path) -> Arc<dyn Tool> {
    let spec = ToolSpec::new(name, "A tool.", json!({ "type": "object" }));
    Arc::new(Own { spec, kind, path: path.to_owned() })
}

impl Own {
    fn diff(&self) -> Display {
        let path = self.path.display().to_string();
        let diff = format!("--- {path}\n+++ {path}\n@@ -1,3 +1,3 @@\n a = 1\n-b = 2\n+b = 3\n c = 3\n");
        Display::Diff { path, diff }
    }
}

#[async_trait]
impl Tool for Own {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn kind(&self) -> Option<CallKind> {
        Some(self.kind)
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        match self.kind {
            CallKind::Edit => Effects::writes([self.path.clone()]),
            _ => Effects::none(),
        }
    }

    async fn preview(&self, _: &Value, _: &CallPlace) -> Option<Display> {
        (self.kind == CallKind::Edit).then(|| self.diff())
    }

    fn summary(&self, _: &Value) -> String {
        match self.kind {
            CallKind::Edit => "edit cart.py",
            CallKind::Plan => "plan",
            _ => "wait for you",
        }
        .to_owned()
    }

    async fn call(&self, _: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        match self.kind {
            CallKind::Edit => Ok(ToolOutput::text("done").with_display(self.diff())),
            CallKind::Plan => {
                let item = |text: &str, state| CheckItem { text: text.to_owned(), state };
                let items =
                    vec![item("change the cart", CheckState::Current), item("run it", CheckState::Open)];
                Ok(ToolOutput::text("done").with_display(Display::Checklist { items, reshaped: true }))
            }
            _ => {
                cx.cx.stop_token().cancelled().await;
                Err(ToolError::new(ToolErrorKind::Aborted, "stopped"))
            }
        }
    }
}

/// Rows without the figures in them, which are times.
fn without_times(rows: Vec<String>) -> Vec<String> {
    let plain = |row: String| {
        let is_end =
            row.contains(" ms") || row.contains(" s ") || row.ends_with(" s") || row.ends_with(" s)");
        if is_end { row.chars().filter(|c| !c.is_ascii_digit() && *c != '.').collect() } else { row }
    };
    rows.into_iter().map(plain).collect()
}

/// The card without the line that names the agent.
fn plain(mut card: ApprovalCard) -> ApprovalCard {
    card.parts.retain(|part| part.heading != "agent");
    card
}

#[tokio::test(flavor = "multi_thread")]
async fn a_screen_does_not_know_which_agent_answers() {
    let rig = rig(&[]).await;
    let (_, asked) = rig.run_answering("do the whole thing", UiAnswer::Once).await;
    let run = rig.start("wait for it");
    rig.shows("wait for you").await;
    run.abort();
    tokio::time::timeout(PATIENCE, run.wait()).await.unwrap();
    let foreign = rig.drawn().await;
    let path = rig.dir.path().join("cart.py");

    let dir = project();
    let questions = Questions::new();
    let view = ViewDriver::answering(&questions);
    let patches = patches_of(&view);
    let bus = Bus::new();
    bus.install(&view).unwrap();
    bus.install(&PermissionGate::new(Mode::Ask)).unwrap();
    let asking = questions.clone();
    bus.install(&plugin_fn("person", move |scope| {
        scope.provide_service(Arc::new(asking.clone()));
        Ok(())
    }))
    .unwrap();
    let script = Script::new()
        .turn(|turn| turn.thinking("I look at the cart.").call("plan", json!({})))
        .turn(|turn| turn.text("I change it.").call("edit", json!({})))
        .turn(|turn| turn.text("It is changed."))
        .turn(|turn| turn.call("wait", json!({})));
    let agent = Agent::builder(Arc::new(ScriptedProvider::new(script)))
        .bus(bus.clone())
        .cwd(dir.path())
        .tool(own("plan", CallKind::Plan, &path))
        .tool(own("edit", CallKind::Edit, &path))
        .tool(own("wait", CallKind::Other, &path))
        .build()
        .unwrap();
    let front_end = questions.attach();
    let run = agent.run("do the whole thing").unwrap().wait();
    let answering = async {
        let asked = front_end.next().await;
        front_end.answer(asked.id, asked.digest, UiAnswer::Once).unwrap();
        asked
    };
    let (outcome, own_asked) = tokio::join!(run, answering);
    outcome.result.unwrap();
    let mut run = agent.run("wait for it").unwrap();
    run.start();
    let mut reader = view.reader();
    while !format!("{:?}", view.view().blocks).contains("wait for you") {
        tokio::time::timeout(PATIENCE, reader.next()).await.unwrap();
    }
    run.abort();
    run.wait().await;
    let built_in = drawn(&view, &patches).await;

    assert_eq!(without_times(foreign), without_times(built_in));
    assert_eq!(plain(approval(&asked)), plain(approval(&own_asked)));
    rig.close().await;
    agent.close().await;
    bus.close().await;
}
