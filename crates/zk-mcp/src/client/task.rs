//! Calls that a server answers with a task, which is polled until it is complete.

use std::collections::BTreeSet;
use std::time::Duration;

use rmcp::model::{
    CallToolResult, CancelTaskParams, ClientRequest, GetTaskParams, Request, ServerResult, Task, TaskPayload,
    UpdateTaskParams,
};
use rmcp::service::{Peer, RoleClient};
use serde_json::Value;
use tokio::time::{Instant, sleep};
use zk_core::kernel::Cx;

use super::call::{CallEnd, MAX_CALL_TIME};
use super::connect::Connection;
use super::result::CallResult;
use super::waiting::OnProgress;

/// Pauses between two polls of a task: the default, and the limits of the server's own value.
const DEFAULT_POLL_PAUSE: Duration = Duration::from_secs(1);
const MIN_POLL_PAUSE: Duration = Duration::from_millis(50);
const MAX_POLL_PAUSE: Duration = Duration::from_secs(30);

impl Connection {
    /// Polls a task until it has a result. A task without news for `idle` is given up and cancelled.
    pub(super) async fn poll_task(
        &self,
        mut task: Task,
        idle: Duration,
        progress: &OnProgress,
        cx: &Cx,
    ) -> Result<CallResult, CallEnd> {
        let stop = cx.stop_token();
        let mut cancel = CancelTask { peer: Some(self.peer().clone()), id: task.task_id.clone() };
        let mut give_up = Instant::now() + MAX_CALL_TIME.max(idle);
        let (mut heard, mut answered) = (Instant::now(), BTreeSet::new());
        loop {
            if let Some(message) = &task.status_message {
                progress(&format!("{message}\n"));
            }
            let pause = task.poll_interval_ms.map_or(DEFAULT_POLL_PAUSE, Duration::from_millis);
            tokio::select! {
                () = sleep(pause.clamp(MIN_POLL_PAUSE, MAX_POLL_PAUSE)) => {}
                () = self.ended.cancelled() => return Err(CallEnd::Closed(self.fault())),
                () = stop.cancelled() => return Err(CallEnd::Stopped),
            }
            let params = GetTaskParams::new(cancel.id.clone());
            let request = ClientRequest::GetTaskRequest(Request::new(params));
            let ServerResult::GetTaskResult(got) = self.request(request, idle, None, stop).await? else {
                return Err(CallEnd::Strange("no state of a task".to_owned()));
            };
            let told = |task: &Task| (task.status, task.status_message.clone(), task.last_updated_at.clone());
            if told(&got.task.task) != told(&task) {
                heard = Instant::now();
            }
            task = got.task.task;
            match got.task.payload {
                TaskPayload::Completed { result } => {
                    cancel.peer = None;
                    let result: Result<CallToolResult, _> = serde_json::from_value(Value::Object(result));
                    return result
                        .map(CallResult::of)
                        .map_err(|error| CallEnd::Strange(format!("the result of a task: {error}")));
                }
                TaskPayload::Failed { error } => {
                    cancel.peer = None;
                    let why = error.get("message").and_then(Value::as_str).unwrap_or("its task failed");
                    return Err(CallEnd::Refused(why.to_owned()));
                }
                TaskPayload::Cancelled => {
                    cancel.peer = None;
                    return Err(CallEnd::Refused("it cancelled the task of this call".to_owned()));
                }
                TaskPayload::InputRequired { mut input_requests } => {
                    // An answer may take effect late, so a request that was answered is not answered again.
                    input_requests.retain(|key, _| answered.insert(key.clone()));
                    if !input_requests.is_empty() {
                        let asked = Instant::now();
                        let responses = self.responses(input_requests, cx).await?;
                        // The time for answering a task's requests does not count as idle.
                        give_up += asked.elapsed();
                        let params = UpdateTaskParams::new(cancel.id.clone(), responses);
                        let request = ClientRequest::UpdateTaskRequest(Request::new(params));
                        self.request(request, idle, None, stop).await?;
                        heard = Instant::now();
                    }
                }
                // The task is working, or in a state of a later revision.
                _ => {}
            }
            if heard.elapsed() >= idle || Instant::now() >= give_up {
                return Err(CallEnd::TimedOut(idle));
            }
        }
    }
}

/// Guard that cancels a task at the server when its caller stops waiting.
struct CancelTask {
    peer: Option<Peer<RoleClient>>,
    id: String,
}

impl Drop for CancelTask {
    fn drop(&mut self) {
        let (Some(peer), Ok(runtime)) = (self.peer.take(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        let params = CancelTaskParams::new(self.id.clone());
        runtime.spawn(async move {
            let _ = peer.cancel_task(params).await;
        });
    }
}
