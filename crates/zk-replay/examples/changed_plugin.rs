//! Records a session, replays it with a plugin that it did not have, and says what differs.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use zk_agent::Agent;
use zk_core::events::{Ruling, ToolGate};
use zk_core::kernel::{BoxError, Cx, Scope, plugin_fn};
use zk_core::service::{NewSession, SessionStore};
use zk_replay::{Recording, Replay, ReplayLog, compare};
use zk_session::{MemoryStore, Recorder};
use zk_testkit::{Script, ScriptedProvider};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let session = MemoryStore::new().create(NewSession { id: None, cwd: "/".into(), parent: None }).await?;
    let script = Script::new().turn(|t| t.call("delete", serde_json::json!({}))).turn(|t| t.text("Done."));
    let agent = Agent::builder(Arc::new(ScriptedProvider::new(script)))
        .plugin(Recorder::new(session.clone()))
        .plugin(ReplayLog::new())
        .session(session.id().clone())
        .build()?;
    agent.run("clean up").map_err(|error| error.to_string())?.wait().await;

    // Ten lines from here: the plugin under test, the recording, the replay, the differences.
    let guard = plugin_fn("guard", |scope: &Scope| {
        scope.on_sync(|_: &ToolGate, _: &Cx| Some(Ruling::refuse("nothing is deleted here")));
        Ok::<(), BoxError>(())
    });
    let recording = Recording::of(&session.entries().await?);
    let run = Replay::new(recording.clone()).plugin(guard).run().await?;
    let differences = compare(&recording, &run);
    differences.iter().for_each(|difference| println!("{difference}"));
    assert_eq!(differences.first().and_then(|first| first.place.turn), Some(1));
    Ok(())
}
