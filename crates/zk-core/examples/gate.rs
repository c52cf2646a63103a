//! Uses a bus without an agent: one plugin refuses a tool call, and an observer sees every event.

use std::error::Error;
use std::io::{Write, stdout};
use std::sync::Arc;

use serde_json::json;
use zk_core::events::{CallRef, Ruling, ToolGate};
use zk_core::kernel::{Bus, plugin_fn};
use zk_core::service::CallPlace;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let bus = Bus::new();
    bus.install(&plugin_fn("no-force-push", |scope| {
        scope.observe(|ev, _| drop(writeln!(stdout(), "saw {}", ev.name())));
        scope.on_sync(|ev: &ToolGate, _| {
            let command = ev.input_str("command").unwrap_or_default();
            command.contains("push --force").then(|| Ruling::refuse("never with force"))
        });
        Ok(())
    }))?;
    let (turn_id, call_id) = ("t_1".into(), "call_1".into());
    let call = Arc::new(CallRef { turn_id, call_id, name: "shell".into(), display_name: "shell".into() });
    let args = json!({ "command": "git push --force" });
    let place = CallPlace { cx: bus.cx(), cwd: ".".into() };
    let gate = ToolGate::new(call, args, None, place);
    let gate = bus.cx().emit(gate).await?;
    writeln!(stdout(), "{:?} by {:?}", gate.decision, gate.decided_by)?;
    Ok(())
}
