//! Hides notes in an answer from display, even if they are cut between two pieces; the history keeps them.
#![expect(clippy::print_stdout, reason = "an example shows its answer")]
use std::sync::{Arc, Mutex, PoisonError};

use zk_agent::Agent;
use zk_core::events::{StreamText, StreamTransform};
use zk_core::kernel::plugin_fn;
use zk_core::model::AgentError;
use zk_testkit::{Script, ScriptedProvider};

/// Returns the text that can be shown, and holds the rest back until more arrives.
fn without_notes(held: &mut String, last: bool) -> String {
    let mut shown = String::new();
    while let Some((before, rest)) = held.split_once("<note>")
        && let Some((_, after)) = rest.split_once("</note>")
    {
        shown.push_str(before);
        *held = after.to_owned();
    }
    let may_begin_one = |at: &usize| {
        let (_, rest) = held.split_at(*at);
        rest.starts_with("<note>") || "<note>".starts_with(rest)
    };
    let holds = held.match_indices('<').map(|(at, _)| at).find(may_begin_one).filter(|_| !last);
    let rest = held.split_off(holds.unwrap_or(held.len()));
    shown + &std::mem::replace(held, rest)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), AgentError> {
    let hide = plugin_fn("hide-notes", |scope| {
        let held = Mutex::new(String::new());
        scope.on_sync(move |ev: &StreamTransform, _| {
            let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
            held.push_str(&ev.delta);
            Some(without_notes(&mut held, ev.last))
        });
        scope.on_sync(|ev: &StreamText, _| print!("{}", ev.delta));
        Ok(())
    });
    let model = Script::new().turn(|t| t.chunks(["4 < 5.<no", "te>I am s", "ure.</note> Anything else?\n"]));
    let agent = Agent::builder(Arc::new(ScriptedProvider::new(model))).plugin(hide).build()?;
    println!("{}", agent.run("Is 4 less than 5?")?.wait().await.text);
    Ok(())
}
