use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use zk_agent::RunOptions;
use zk_core::events::ToolBefore;
use zk_core::kernel::Cx;
use zk_core::model::{ToolError, ToolOutput};
use zk_core::service::Progress;

use crate::app::AppContext;
use crate::args::Resume;
use crate::compose::HostOptions;
use crate::exit::Failure;
use crate::mode::unattended;
use crate::sessions::{self, Session};

/// Performs one run like `zk -p`, with its own session and bus.
pub(super) async fn run(
    app: &AppContext,
    args: &Value,
    progress: &Progress,
    stop: &CancellationToken,
) -> Result<ToolOutput, ToolError> {
    let text = |name: &str| args.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let Some(prompt) = text("prompt") else { return Err(ToolError::failed("`prompt` is required")) };
    let resume = text("session").map(|id| Resume::Id(id.to_owned()));
    let failed = |failure: Failure| ToolError::failed(failure.message);
    let session = sessions::begin(&app.work, &app.settings, resume.as_ref()).await.map_err(failed)?;
    let id = session.open.as_ref().map(|open| open.id().to_string());
    let ran = run_prompt(app, &session, prompt, progress, stop).await;
    let closed = session.close().await;
    let answer = ran?;
    closed.map_err(|error| ToolError::failed(format!("session not saved: {error}")))?;
    let mut details = json!({ "answer": answer });
    if let (Some(id), Value::Object(details)) = (id, &mut details) {
        details.insert("session".to_owned(), id.into());
    }
    Ok(ToolOutput { details: Some(details), ..ToolOutput::text(answer) })
}

async fn run_prompt(
    app: &AppContext,
    session: &Session,
    prompt: &str,
    progress: &Progress,
    stop: &CancellationToken,
) -> Result<String, ToolError> {
    let failed = |failure: Failure| ToolError::failed(failure.message);
    let host = HostOptions::unattended(&app.settings);
    if let Some(entries) = session.restored() {
        host.view.begin(&entries);
    }
    let (agent, bus) = Box::pin(unattended::open(app, session, host)).await.map_err(failed)?;
    let shown = progress.clone();
    bus.scope("served-run").on_sync(move |event: &ToolBefore, _: &Cx| shown.show(&event.summary));
    let outcome = async {
        let run =
            agent.run(RunOptions::from(prompt)).map_err(|error| ToolError::failed(error.to_string()))?;
        let handle = run.handle();
        let mut wait = std::pin::pin!(run.wait());
        let outcome = tokio::select! {
            outcome = &mut wait => outcome,
            () = stop.cancelled() => {
                handle.abort_because("the client gave it up");
                wait.await
            }
        };
        outcome
            .result
            .map_err(|error| ToolError::failed(app.work.machine.redactor.redact(&error.to_string())))?;
        Ok(app.work.machine.redactor.redact(&outcome.text).into_owned())
    }
    .await;
    agent.close().await;
    bus.close().await;
    outcome
}
