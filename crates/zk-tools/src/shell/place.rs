use std::path::Path;
use std::sync::Arc;

use zk_core::model::{Approved, Effects, ToolError};
use zk_core::service::{CallJudge, Connections, Exec, ReadExec, ToolCx};

use super::{StayingCalls, UnaskedCalls};
use crate::tool_support::exec;

/// Place of a command, and the connections that it may make there.
pub(super) struct ExecPlace {
    pub(super) exec: Arc<dyn Exec>,
    pub(super) connections: Option<Connections>,
}

/// Executor of a call that stays in the context: the one for reads if the call is only permitted as a read.
pub(super) async fn place_of(call: &Approved, cx: &ToolCx) -> Result<ExecPlace, ToolError> {
    let usual = exec(&cx.cx)?;
    let Some(judge) = cx.cx.service::<dyn CallJudge>() else {
        return Ok(ExecPlace { exec: usual, connections: None });
    };
    let was_unasked = cx.cx.service::<UnaskedCalls>().is_some_and(|calls| calls.contains(call.call()));
    let (effects, cwd) = (call.effects().clone(), cx.cwd.clone());
    let judging = tokio::task::spawn_blocking(move || judged_place(&*judge, was_unasked, &effects, &cwd));
    let judged = match judging.await {
        Ok(judged) => judged?,
        // A judge that fails is no proof that a person allowed the call.
        Err(_) => JudgedPlace::Reads,
    };
    // After the judge: a read that is allowed because of a confinement runs in it.
    Ok(match (judged, cx.cx.service::<ReadExec>()) {
        (JudgedPlace::Usual(connections), _) => ExecPlace { exec: usual, connections },
        (JudgedPlace::Reads | JudgedPlace::UnheldReads, Some(reads)) => {
            ExecPlace { exec: reads.0.clone(), connections: None }
        }
        (JudgedPlace::UnheldReads, None) => ExecPlace { exec: usual, connections: None },
        (JudgedPlace::Reads, None) if !was_unasked => ExecPlace { exec: usual, connections: None },
        (JudgedPlace::Reads, None) => return Err(ToolError::failed(LOST_SANDBOX_ERROR)),
    })
}

/// Executor of a call that requested to leave the sandbox and that a person kept inside, with the connections
/// shown to them; `None` for one that leaves.
pub(super) async fn staying_place(call: &Approved, cx: &ToolCx) -> Result<Option<ExecPlace>, ToolError> {
    if !cx.cx.service::<StayingCalls>().is_some_and(|calls| calls.contains(call.call())) {
        return Ok(None);
    }
    let Some(judge) = cx.cx.service::<dyn CallJudge>() else { return Err(ToolError::failed(CHANGED_ERROR)) };
    let (effects, cwd) = (call.effects().without_leaving(), cx.cwd.clone());
    let judging = tokio::task::spawn_blocking(move || judge.connections("shell", &effects, &cwd));
    let connections = judging.await.ok().flatten().ok_or_else(|| ToolError::failed(CHANGED_ERROR))?;
    Ok(Some(ExecPlace { exec: exec(&cx.cx)?, connections: Some(connections) }))
}

/// Executor of a call according to its judge at its start.
enum JudgedPlace {
    Usual(Option<Connections>),
    /// Only the executor for reads, for a call that was not asked about.
    Reads,
    /// Executor for reads; without one, the usual executor.
    UnheldReads,
}

/// Error of a read whose sandbox is lost.
const LOST_SANDBOX_ERROR: &str = "the sandbox of commands that only read was lost before this one started, so it did not run; call it again";

/// Error of a command that no longer counts as a read.
const CHANGED_ERROR: &str =
    "the files changed while it was judged, or the mode did, so it did not run: call it again";

/// Judges a call again at its start. A call that was allowed without a question as a read never runs as
/// anything else.
fn judged_place(
    judge: &dyn CallJudge,
    was_unasked: bool,
    effects: &Effects,
    cwd: &Path,
) -> Result<JudgedPlace, ToolError> {
    if judge.allows_as_read("shell", effects, cwd) {
        let is_unheld = judge.allows_unheld_read("shell", effects, cwd);
        return Ok(if is_unheld { JudgedPlace::UnheldReads } else { JudgedPlace::Reads });
    }
    if was_unasked && !judge.allows_beyond_read("shell", effects, cwd) {
        let is_lost = judge.would_allow_as_read("shell", effects, cwd);
        return Err(ToolError::failed(if is_lost { LOST_SANDBOX_ERROR } else { CHANGED_ERROR }));
    }
    // The call was approved with its connections shown, or allowed without a question.
    Ok(JudgedPlace::Usual(judge.connections("shell", effects, cwd)))
}
