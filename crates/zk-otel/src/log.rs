use tracing::Level;
use zk_core::kernel::{AnyEvent, BoxError, Cx, Plugin, Reach, Scope};

use crate::record::redactor;

/// Events logged at the level `info`, which together describe the course of a run.
const STORY: [&str; 16] = [
    "agent:start",
    "agent:done",
    "budget:exceeded",
    "context:compaction",
    "part:left-out",
    "permission:decided",
    "provider:retry",
    "run-budget:reached",
    "session:start",
    "spawn:before",
    "spawn:complete",
    "spawn:error",
    "tool:begin",
    "tool:blocked",
    "tool:end",
    "turn:before",
];

/// Events with pieces of a text. A secret may be split between two of them, and a later event has the whole
/// text.
const PIECES: [&str; 4] = ["stream:text", "stream:thinking", "stream:tool-args", "stream:transform"];

/// Plugin that logs the events of an agent and its sub-agents with the crate `tracing`: steps at `info`,
/// every event at `debug`, and its data without secrets at `trace`.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventLog;

impl Plugin for EventLog {
    fn name(&self) -> &str {
        "event-log"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        scope.observe_at(Reach::Descendants, |event, cx| {
            let name = event.name();
            let (agent, run, turn) = (&*cx.origin().agent, cx.run_id(), cx.turn_id());
            if tracing::enabled!(target: "zk", Level::TRACE) {
                let data = if PIECES.contains(&name) { String::new() } else { clean_data(event, cx) };
                tracing::trace!(target: "zk", agent, run, turn, data, "{name}");
            } else if STORY.contains(&name) {
                tracing::info!(target: "zk", agent, run, turn, "{name}");
            } else {
                tracing::debug!(target: "zk", agent, run, turn, "{name}");
            }
        });
        Ok(())
    }
}

/// Returns the data of an event as JSON. Secrets are redacted before serialising, since escapes would hide
/// them.
fn clean_data(event: &dyn AnyEvent, cx: &Cx) -> String {
    let Ok(mut data) = event.to_json() else { return String::new() };
    redactor(cx).redact_value(&mut data);
    data.to_string()
}
