use tracing::Level;
use zk_core::kernel::{BoxError, Cx, Plugin, Reach, Scope};
use zk_core::service::Redactor;

/// Events by which somebody follows what happens, at the level `info`.
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

/// Plugin that writes what an agent and its sub-agents do to the log of the program, which the crate `tracing` has: steps at
/// `info`, every event at `debug`, and its data without secrets at `trace`.
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
                let data = event.to_json().map(|data| redacted(cx, &data.to_string())).unwrap_or_default();
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

fn redacted(cx: &Cx, text: &str) -> String {
    match cx.service::<Redactor>() {
        Some(redactor) => redactor.redact(text).into_owned(),
        None => Redactor::new().redact(text).into_owned(),
    }
}
