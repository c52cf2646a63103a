//! A goal that is followed up until it is met: when the model stops before that, it is told to go on. How far it
//! came is kept in the session, so that a process that goes on with the session goes on with the goal.
//!
//! Everything used here is public: a tool, `RunControl::follow_up`, `SessionLog` and `session:loaded`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use serde_json::json;
use zk_agent::{Agent, Behavior};
use zk_core::events::{SessionLoaded, TurnAfter};
use zk_core::kernel::{BoxError, Cx, Plugin, Scope};
use zk_core::model::{AgentError, Approved, Effects, Message, SessionId, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{
    CallPlace, EntryKind, NewEntry, NewSession, RunControl, SessionFilter, SessionLog, SessionStore, Tool,
    ToolCx,
};
use zk_session::{SqliteStore, resume_conversation};
use zk_testkit::{Script, ScriptedProvider, Turn};

/// The plugin: so many steps have to be reported before the model may stop.
struct Goal {
    steps: u64,
    done: Arc<Mutex<u64>>,
}

fn lock(done: &Mutex<u64>) -> MutexGuard<'_, u64> {
    done.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Plugin for Goal {
    fn name(&self) -> &str {
        "goal"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let report = Report {
            spec: ToolSpec::new("report_step", "Reports a finished step.", json!({"type": "object"})),
            done: self.done.clone(),
            scope: scope.clone(),
        };
        scope.provide::<dyn Tool>("report_step", Arc::new(report))?;

        // Progress that an earlier process reported; another conversation has a goal of its own.
        let done = self.done.clone();
        scope.on_sync(move |loaded: &SessionLoaded, _: &Cx| {
            let progress = loaded.entries.iter().rev().find_map(|entry| match &entry.kind {
                EntryKind::Custom(entry) if entry.source == "goal" => entry.data.value()["done"].as_u64(),
                _ => None,
            });
            *lock(&done) = progress.unwrap_or_default();
        });

        // The model is done with its answer, and not with the goal.
        let (done, steps) = (self.done.clone(), self.steps);
        scope.on_sync(move |turn: &TurnAfter, cx: &Cx| {
            let is_answer = turn.message.as_ref().is_some_and(|message| message.calls().next().is_none());
            let done = *lock(&done);
            if let Some(run) = cx.service::<dyn RunControl>().filter(|_| is_answer && done < steps) {
                let text = format!("{done} of {steps} steps are done. Go on.");
                // A run that is over answers with the message; the next one finds the goal where it is.
                let _ = run.follow_up(Message::injected(text, "goal"));
            }
        });
        Ok(())
    }
}

struct Report {
    spec: Arc<ToolSpec>,
    done: Arc<Mutex<u64>>,
    scope: Scope,
}

#[async_trait]
impl Tool for Report {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn effects(&self, _: &serde_json::Value, _: &CallPlace) -> Effects {
        Effects::none()
    }

    async fn call(&self, _: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let done = *lock(&self.done) + 1;
        if let Some(log) = cx.cx.service::<dyn SessionLog>() {
            let entry = NewEntry::hidden("progress", 1, json!({"done": done}));
            log.append(&self.scope, entry).await.map_err(|error| ToolError::failed(error.to_string()))?;
        }
        *lock(&self.done) = done;
        Ok(ToolOutput::text(format!("Step {done} noted.")))
    }
}

/// A model that does one step and then believes it is done, again and again.
fn lazy_model() -> Script {
    Script::answering(|asked| {
        let reported = asked.results().iter().any(|result| result.tool == "report_step");
        if reported {
            Turn::new().text("I think that is all.")
        } else {
            Turn::new().call("report_step", json!({}))
        }
    })
}

/// One life of the process: begins the session in `folder` or goes on with it, and runs `prompt`. Gives the
/// session, how the run ended, and how many messages the model was sent at last.
async fn live(
    folder: &Path,
    session: Option<&SessionId>,
    prompt: &str,
    max_turns: Option<u32>,
) -> Result<(SessionId, Result<(), AgentError>, Vec<String>), BoxError> {
    let store = SqliteStore::new(folder.to_path_buf());
    let open = match session {
        Some(id) => store.open(id).await?,
        None => store.create(NewSession { id: None, cwd: folder.to_path_buf(), parent: None }).await?,
    };
    let agent = Agent::builder(Arc::new(ScriptedProvider::new(lazy_model())))
        .resume(resume_conversation(open.clone()).await?)
        .plugin(Goal { steps: 4, done: Arc::default() })
        .behavior(Behavior { max_turns, ..Behavior::default() })
        .build()?;
    let outcome = agent.run(prompt)?.wait().await;
    let history = agent.history();
    let follow_ups = history.iter().filter(|message| message.injected_by.as_deref() == Some("goal"));
    let follow_ups = follow_ups.map(|message| message.text()).collect();
    agent.close().await;
    open.close().await?;
    Ok((open.id().clone(), outcome.result, follow_ups))
}

/// A process that is cut off after four turns, with two steps done.
async fn begin(folder: &Path) -> Result<SessionId, BoxError> {
    let (session, ended, follow_ups) = live(folder, None, "Do the four steps.", Some(4)).await?;
    println!("first process: {:?}, {follow_ups:?}", ended.err().map(|error| error.to_string()));
    assert_eq!(follow_ups, ["1 of 4 steps are done. Go on.", "2 of 4 steps are done. Go on."]);
    Ok(session)
}

/// A later one, which knows of them and does the other two.
async fn go_on(folder: &Path, session: &SessionId) -> Result<(), BoxError> {
    let (_, ended, follow_ups) = live(folder, Some(session), "Continue.", None).await?;
    ended?;
    println!("second process: {:?}", follow_ups.last());
    assert_eq!(follow_ups.last().map(String::as_str), Some("3 of 4 steps are done. Go on."));
    assert_eq!(follow_ups.len(), 3, "once for each step but the last");
    Ok(())
}

/// With a folder it is one of the two processes: the second if the folder has a session. Else it is both.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        let folder = tempfile::tempdir()?;
        let session = begin(folder.path()).await?;
        return go_on(folder.path(), &session).await;
    };
    let known = SqliteStore::new(folder.clone()).list(&SessionFilter::default()).await?;
    match known.first() {
        Some(session) => go_on(&folder, &session.id).await,
        None => begin(&folder).await.map(drop),
    }
}
