//! A plugin that stores state in the session and steers its run: it asks about a goal until the goal is
//! reached.
//!
//! `cargo run -p zk-harness-agent --example plugin_with_state`
#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use zk_agent::Agent;
use zk_core::events::{SessionBeforeEnd, SessionEnd, SessionLoaded, TurnAfter};
use zk_core::kernel::{BoxError, Cx, Plugin, Scope};
use zk_core::model::Message;
use zk_core::service::{EntryKind, NewEntry, RunControl};
use zk_testkit::{Script, ScriptedProvider, Turn};

/// Continues until the model says that the goal is reached.
struct Goal {
    reached: Arc<Mutex<bool>>,
}

impl Plugin for Goal {
    fn name(&self) -> &'static str {
        "goal"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let state = self.reached.clone();
        // Restores the state that an earlier process appended, when a stored conversation is resumed.
        scope.on_sync(move |loaded: &SessionLoaded, _: &Cx| {
            let mut own = loaded.entries.iter().rev().filter_map(|entry| match &entry.kind {
                EntryKind::Custom(own) if own.source == "goal" => {
                    own.data.value().get("reached").and_then(Value::as_bool)
                }
                _ => None,
            });
            if let (Some(last), Ok(mut reached)) = (own.next(), state.lock()) {
                *reached = last;
            }
        });
        let state = self.reached.clone();
        scope.on_sync(move |turn: &TurnAfter, cx: &Cx| {
            let (Some(run), Ok(mut reached)) = (cx.service::<dyn RunControl>(), state.lock()) else { return };
            *reached |= turn.message.as_ref().is_some_and(|message| message.text().contains("reached"));
            if !*reached && turn.turn < 5 {
                // A finished run returns the message, which is not needed any more.
                let _ = run.follow_up(Message::injected("Is the goal reached?", "goal"));
            }
        });
        let state = self.reached.clone();
        // Appends an entry that is stored before the end of the run.
        scope.on_sync(move |_: &SessionBeforeEnd, _: &Cx| {
            let reached = state.lock().is_ok_and(|reached| *reached);
            Some(NewEntry::hidden("goal", 1, json!({ "reached": reached })))
        });
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let script = Script::answering(|asked| match asked.number {
        1 => Turn::new().text("I began."),
        2 => Turn::new().text("Not yet."),
        _ => Turn::new().text("The goal is reached."),
    });
    let agent = Agent::builder(Arc::new(ScriptedProvider::new(script)))
        .plugin(Goal { reached: Arc::default() })
        .build()?;
    agent.bus().scope("example").on_sync(|end: &SessionEnd, _: &Cx| {
        for entry in &end.entries {
            println!("{} appended `{}`: {}", entry.source, entry.kind, entry.data.as_json());
        }
    });
    let outcome = agent.run("Reach the goal.")?.wait().await;
    outcome.result?;
    println!("after {} turns: {}", outcome.stats.turns, outcome.text);
    agent.close().await;
    Ok(())
}
