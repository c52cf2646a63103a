use std::sync::Arc;

use zk_core::events::{
    AgentDone, AgentStart, ContextCompaction, ContextTransform, PermissionDecided, PermissionRequest,
    ProviderRequest, ProviderResponse, ProviderRetry, RunBudgetReached, SessionStart, SideCallEnd,
    SpawnBefore, StreamStart, SystemTransform, ToolBatchEnd, ToolBegin, ToolBlocked, ToolEnd, ToolErrored,
    ToolGate, ToolParked, ToolSkipped, TurnAfter, TurnBefore, ValidationReject,
};
use zk_core::kernel::{BoxError, Cx, HookOptions, Plugin, Reach, Scope, Stage};
use zk_core::service::{Tool, TraceContext};

use crate::Telemetry;
use crate::export::FLUSH_TIMEOUT;
use crate::propagation::{Headers, InTrace};
use crate::record::Recorder;

/// Plugin that records spans and metrics of an agent and its sub-agents.
#[derive(Debug)]
pub struct OtelPlugin {
    telemetry: Telemetry,
}

impl OtelPlugin {
    /// Creates the plugin of one conversation.
    #[must_use]
    pub fn new(telemetry: &Telemetry) -> Self {
        Self { telemetry: telemetry.clone() }
    }
}

/// Registers methods of the recorder as handlers that answer nothing.
macro_rules! listen {
    ($scope:expr, $recorder:expr, $stage:expr, $($event:ty => $method:ident,)*) => {
        $({
            let recorder = $recorder.clone();
            $scope.on_sync_at(for_all_agents($stage), move |event: &$event, cx: &Cx| {
                recorder.$method(event, cx);
            });
        })*
    };
}

fn for_all_agents(stage: Stage) -> HookOptions {
    HookOptions { stage, reach: Some(Reach::Descendants), ..HookOptions::default() }
}

/// Decorates all tools so that they run within the span of their call.
fn decorate(scope: &Scope, recorder: &Arc<Recorder>) {
    let recorder = recorder.clone();
    scope.decorate_all::<dyn Tool>(move |inner| Arc::new(InTrace { inner, recorder: recorder.clone() }));
}

impl Plugin for OtelPlugin {
    fn name(&self) -> &str {
        "otel"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let recorder = Arc::new(self.telemetry.recorder());
        // Begin events are handled before other plugins, end events after them.
        listen!(scope, recorder, Stage::Early,
            SessionStart => run_begins,
            TurnBefore => turn_begins,
            ToolGate => call_is_judged,
            ValidationReject => call_is_invalid,
            ToolBegin => call_begins,
            PermissionRequest => person_is_asked,
            SpawnBefore => child_begins,
        );
        listen!(scope, recorder, Stage::Late,
            AgentStart => run_is_ready,
            ProviderRequest => request_is_made,
            ProviderResponse => response_arrives,
            ProviderRetry => request_waits,
            StreamStart => answer_begins,
            TurnAfter => answer_ends,
            SideCallEnd => side_call_ends,
            ToolErrored => call_fails,
            ToolEnd => call_ends,
            ToolBlocked => call_is_refused,
            ToolParked => call_is_parked,
            ToolSkipped => call_is_skipped,
            ToolBatchEnd => batch_ends,
            PermissionDecided => permission_is_decided,
            ContextCompaction => compaction_moves,
            RunBudgetReached => budget_is_reached,
            AgentDone => run_ends,
        );
        if recorder.sends_content() {
            listen!(scope, recorder, Stage::Late,
                ContextTransform => messages_are_ready,
                SystemTransform => system_is_ready,
            );
        }
        decorate(scope, &recorder);
        let of_children = recorder.clone();
        scope.on_sync_at(for_all_agents(Stage::Early), move |_: &SessionStart, cx: &Cx| {
            // A sub-agent has tools of its own in addition to inherited ones.
            if cx.origin().depth > 0 && of_children.is_new_agent(cx) {
                decorate(&cx.bus().scope("otel"), &of_children);
            }
        });
        scope.provide_service::<dyn TraceContext>(Arc::new(Headers(recorder)));
        let telemetry = self.telemetry.clone();
        scope.on_close(async move || {
            telemetry.flush(FLUSH_TIMEOUT).await;
        });
        Ok(())
    }
}
