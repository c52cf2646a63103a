use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use zk_core::events::{
    AgentBeforeStart, AgentStart, SessionLoaded, SessionSwitch, ToolBegin, ToolEnd, ToolRemark,
};
use zk_core::kernel::{Answer, BoxError, Cx, Handler, HookOptions, Plugin, Reach, Scope};
use zk_core::model::{CallId, Effect, Effects, RunId};
use zk_core::service::{
    CallJudge, Command, ContextMode, ContextProducer, CustomEntry, Files, NewEntry, ReadExec, SessionLog,
    TurnCwd, Ui,
};

use crate::command::{FilesOffer, RedoCommand, UndoCommand};
use crate::journal::{CallScope, TurnLabel, TurnsOfMove};
use crate::step::StepKind;
use crate::{Journal, UndoError};

/// Name of the plugin, and the source of its entries.
const NAME: &str = "undo";

/// Kind of the entries in a session that name the steps of its journal.
const KIND: &str = "undo";

/// Version of the data in these entries.
const VERSION: u32 = 1;

/// Time that an operation of the journal may take beside the scan of the workspace.
const EXTRA_TIME: Duration = Duration::from_secs(3);

/// Maximum number of paths in the note for the model.
const MAX_TOLD_PATHS: usize = 50;

/// Plugin that keeps the files of the workspace before calls change them, and provides `/undo` and `/redo`.
///
/// ```
/// use std::sync::Arc;
/// use zk_core::kernel::Bus;
/// use zk_exec::LocalStateFiles;
/// use zk_undo::{Journal, Undo, UndoSettings};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let (private, project) = (dir.path().join("session/undo"), dir.path().to_owned());
/// let files = Arc::new(LocalStateFiles::default());
/// let journal = Journal::new(private, &[project], UndoSettings::default(), files);
/// let bus = Bus::new();
/// bus.install(&Undo::new(journal))?;
/// assert!(bus.item::<dyn zk_core::service::Command>("undo").is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Undo(Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) journal: Arc<Journal>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    run: String,
    prompt: String,
    /// Whether a scan of the workspace took too long, so that only file tools are covered from then on.
    is_too_slow: bool,
    scope: Option<Scope>,
}

impl State {
    /// Id of the run that the person's prompt began, to which `run` belongs.
    fn run_of(&self, run: &RunId) -> String {
        if self.run.is_empty() { run.to_string() } else { self.run.clone() }
    }
}

/// Entry of a session that names a step of its journal.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StepEntry {
    step: u64,
    /// Run of the step, by which an entry that names a step of another journal is recognised: copies of sessions have
    /// such entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<String>,
}

impl Undo {
    /// Plugin that keeps files in `journal`.
    #[must_use]
    pub fn new(journal: Journal) -> Self {
        Self(Arc::new(Shared { journal: Arc::new(journal), state: Mutex::default() }))
    }

    /// Journal in which the plugin keeps files.
    #[must_use]
    pub fn journal(&self) -> Arc<Journal> {
        self.0.journal.clone()
    }
}

impl Plugin for Undo {
    fn name(&self) -> &'static str {
        NAME
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let shared = &self.0;
        shared.lock_state().scope = Some(scope.clone());
        let everywhere = || HookOptions {
            reach: Some(Reach::Descendants),
            time_limit: Some(Duration::from_secs(60)),
            ..HookOptions::default()
        };
        scope.handle_at::<ToolBegin, _>(everywhere(), shared.clone());
        scope.handle_at::<ToolEnd, _>(everywhere(), shared.clone());
        scope.handle_at::<SessionLoaded, _>(Reach::Own, shared.clone());
        scope.on_async_with_at(Reach::Own, shared.clone(), offer_files_after_move);
        let prompts = shared.clone();
        scope.on_sync_at(Reach::Own, move |event: &AgentBeforeStart, _: &Cx| {
            let text = event.prompt.as_ref().map(|prompt| prompt.text()).unwrap_or_default();
            prompts.lock_state().prompt = text.lines().next().unwrap_or_default().to_owned();
            None
        });
        let runs = shared.clone();
        scope.on_sync_at(Reach::Own, move |event: &AgentStart, _: &Cx| {
            runs.lock_state().run = event.run_id.to_string();
        });
        let closing = shared.clone();
        scope.on_close(async move || closing.lock_state().scope = None);
        scope.provide_service(shared.journal.clone());
        scope.provide::<dyn Command>("undo", Arc::new(UndoCommand(shared.clone())))?;
        scope.provide::<dyn Command>("redo", Arc::new(RedoCommand(shared.clone())))?;
        scope.provide::<dyn ContextProducer>("undo", Arc::new(UndoNote(shared.clone())))?;
        Ok(())
    }
}

impl Shared {
    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` with the journal on a thread that may block.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Journal) -> Result<T, UndoError> + Send + 'static,
    ) -> Result<T, BoxError> {
        let journal = self.journal.clone();
        let time = journal.scan_limit() + EXTRA_TIME;
        let done = tokio::time::timeout(time, tokio::task::spawn_blocking(move || work(&journal))).await;
        match done {
            Ok(done) => Ok(done??),
            Err(_) => Err(format!("the undo journal gave no answer within {} s", time.as_secs()).into()),
        }
    }

    /// Files that a call may change; `None` if it only reads.
    fn call_scope(&self, event: &ToolBegin, cx: &Cx) -> Option<CallScope> {
        if event.read_only {
            return None;
        }
        let Effects::Known { list } = &event.effects else { return Some(CallScope::Workspace) };
        let cwd = TurnCwd::of(cx)?;
        let mut paths: Vec<PathBuf> = Vec::new();
        for effect in list {
            match effect {
                Effect::Executes { .. } | Effect::LeavesContext { .. } => {
                    return (!is_sandboxed_read(event, &cwd, cx)).then_some(CallScope::Workspace);
                }
                Effect::Writes { paths: written } if written.is_empty() => return Some(CallScope::Workspace),
                Effect::Writes { paths: written } => paths.extend(written.iter().cloned()),
                Effect::Reads { .. } | Effect::Network { .. } => {}
            }
        }
        let files = cx.service::<dyn Files>();
        let resolve = |path: PathBuf| match &files {
            Some(files) => Some(files.resolve(&cwd, path.to_str()?).ok()?.path),
            None => Some(cwd.join(path)),
        };
        let paths: Vec<PathBuf> = paths.into_iter().filter_map(resolve).collect();
        (!paths.is_empty()).then_some(CallScope::Paths(paths))
    }

    async fn begin_call(&self, event: &ToolBegin, cx: &Cx) -> Result<Option<String>, BoxError> {
        let Some(scope) = self.call_scope(event, cx) else { return Ok(None) };
        let turn = {
            let state = self.lock_state();
            if state.is_too_slow && scope == CallScope::Workspace {
                return Ok(None);
            }
            TurnLabel {
                run: state.run_of(&event.run_id),
                turn: event.call.turn_id.to_string(),
                prompt: state.prompt.clone(),
            }
        };
        let call = call_key(&event.call.turn_id.to_string(), &event.call.call_id);
        let is_anywhere = scope == CallScope::Workspace;
        let is_late = Arc::new(AtomicBool::new(false));
        let late = is_late.clone();
        let begun = self.blocking(move |journal| journal.begin_unless(&late, &turn, &call, &scope)).await;
        if begun.is_err() {
            is_late.store(true, Ordering::Release);
        }
        if begun.is_err() && is_anywhere {
            // From now on, commands are not covered, instead of the same wait before each.
            self.lock_state().is_too_slow = true;
        }
        begun
    }
}

/// Whether the judge allows a command as a read, and a sandbox keeps it from writing.
fn is_sandboxed_read(event: &ToolBegin, cwd: &Path, cx: &Cx) -> bool {
    let judge = cx.service::<dyn CallJudge>();
    let reads = judge.is_some_and(|judge| judge.allows_as_read(&event.call.name, &event.effects, cwd));
    reads && cx.service::<ReadExec>().is_some() && !event.effects.leaves_context()
}

fn call_key(turn: &str, call: &CallId) -> String {
    format!("{turn}/{call}")
}

impl Handler<ToolBegin> for Shared {
    async fn call(&self, event: &ToolBegin, cx: &Cx) -> Answer<ToolBegin> {
        // A call that cannot be covered runs nevertheless, and the person is told so.
        let line = match self.begin_call(event, cx).await {
            Ok(line) => line,
            Err(error) => Some(format!("undo does not cover this call, nor later commands: {error}")),
        };
        if let Some(text) = line {
            let _ = cx.emit(ToolRemark { call: event.call.clone(), text }).await;
        }
        Ok(None)
    }
}

impl Handler<ToolEnd> for Shared {
    async fn call(&self, event: &ToolEnd, cx: &Cx) -> Answer<ToolEnd> {
        if event.read_only {
            return Ok(None);
        }
        let call = call_key(&event.call.turn_id.to_string(), &event.call.call_id);
        let ended = self.blocking(move |journal| journal.end(&call)).await;
        match ended {
            Ok(Some(step)) => {
                let (scope, run) = {
                    let state = self.lock_state();
                    (state.scope.clone(), state.run_of(&event.run_id))
                };
                if let (Some(log), Some(scope)) = (cx.service::<dyn SessionLog>(), scope) {
                    let data = serde_json::to_value(StepEntry { step, run: Some(run) })?;
                    // Without the entry, /undo works as well, and only /undo here knows less.
                    let _ = log.append(&scope, NewEntry::hidden(KIND, VERSION, data)).await;
                }
            }
            Ok(None) => {}
            Err(error) => {
                let text = format!("undo does not cover what this call changed: {error}");
                let _ = cx.emit(ToolRemark { call: event.call.clone(), text }).await;
            }
        }
        Ok(None)
    }
}

impl Handler<SessionLoaded> for Shared {
    async fn call(&self, _: &SessionLoaded, cx: &Cx) -> Answer<SessionLoaded> {
        let lines = match self.blocking(Journal::recover).await {
            Ok(lines) => lines,
            Err(error) => vec![format!("warning: an undo that was cut off is not finished: {error}")],
        };
        if let Some(ui) = cx.service::<dyn Ui>() {
            lines.iter().for_each(|line| ui.notify(line));
        }
        Ok(None)
    }
}

/// Offers the files of the point to which the conversation moved within its session.
async fn offer_files_after_move(
    shared: &Arc<Shared>,
    event: &SessionSwitch,
    cx: &Cx,
) -> Result<(), BoxError> {
    let Some(ui) = cx.service::<dyn Ui>().filter(|_| event.is_same_session()) else { return Ok(()) };
    let Some(scope) = shared.lock_state().scope.clone() else { return Ok(()) };
    // The event has only the last entries of each plugin.
    let Ok(own) = step_entries_of_branch(shared, cx).await else { return Ok(()) };
    let count = move |journal: &Journal| journal.count_turns_of_move(&named_steps(journal, &own)?);
    let Some(note) = note_of_move(shared.blocking(count).await?) else { return Ok(()) };
    let (shared, cx) = (shared.clone(), cx.bus().cx());
    // The move itself does not wait for the person.
    scope.spawn(async move {
        let told = match shared.offer_files(&note, &cx).await {
            FilesOffer::Nothing => return,
            FilesOffer::Unanswered => {
                format!("{note}; /undo here shows them and brings the files of this point back")
            }
            FilesOffer::Told(text) => text,
        };
        ui.notify(&told);
    });
    Ok(())
}

/// Words about the turns that stand between the files and a point of the conversation; `None` without any.
fn note_of_move(turns: TurnsOfMove) -> Option<String> {
    let of_turns = |count: usize| if count == 1 { "1 turn".to_owned() } else { format!("{count} turns") };
    let beyond = format!("still have the changes of {} after this point", of_turns(turns.beyond));
    let missing = format!("are without the changes of {} before this point", of_turns(turns.missing));
    match (turns.beyond, turns.missing) {
        (0, 0) => None,
        (_, 0) => Some(format!("files {beyond}")),
        (0, _) => Some(format!("files {missing}")),
        (_, _) => Some(format!("files {beyond}, and {missing}")),
    }
}

/// Note for the model about files that the person brought back, with the next prompt.
#[derive(Debug)]
struct UndoNote(Arc<Shared>);

#[async_trait]
impl ContextProducer for UndoNote {
    fn mode(&self) -> ContextMode {
        ContextMode::PerQuery
    }

    async fn text(&self, cx: &Cx) -> Result<Option<String>, BoxError> {
        if cx.origin().depth > 0 {
            return Ok(None);
        }
        let cwd = TurnCwd::of(cx).unwrap_or_default();
        let told = self.0.blocking(|journal| journal.take_untold_undos()).await?;
        let paths: BTreeSet<PathBuf> =
            told.iter().flat_map(|step| &step.changes).map(|change| change.path.clone()).collect();
        if paths.is_empty() {
            return Ok(None);
        }
        let verb = match told.last().map(|step| &step.kind) {
            Some(StepKind::Redo { .. }) => "did changes of yours again that had been undone",
            Some(StepKind::Turn | StepKind::Undo { .. } | StepKind::Move { .. }) | None => {
                "took back changes of yours with /undo"
            }
        };
        let named: Vec<String> = paths
            .iter()
            .take(MAX_TOLD_PATHS)
            .map(|path| path.strip_prefix(&cwd).unwrap_or(path).display().to_string())
            .collect();
        let rest = paths.len().saturating_sub(named.len());
        let more = if rest == 0 { String::new() } else { format!(" and {rest} more") };
        Ok(Some(format!(
            "The person {verb}. These files are not as you left them, so read them again before you rely on them: \
             {}{more}",
            named.join(", ")
        )))
    }
}

/// Entries of the present branch that name steps of the journal.
pub(crate) async fn step_entries_of_branch(shared: &Shared, cx: &Cx) -> Result<Vec<StepEntry>, BoxError> {
    let scope = shared.lock_state().scope.clone();
    let (Some(log), Some(scope)) = (cx.service::<dyn SessionLog>(), scope) else {
        return Err("this conversation is not saved, so it has no points to go back to".into());
    };
    let entries = log.entries(&scope).await?;
    Ok(entries.iter().filter_map(step_of).collect())
}

/// Changed paths since a point of the conversation, at which the branch of these entries ends: those that `/undo here`
/// would bring back, as far as the journal knows.
///
/// # Errors
/// [`UndoError`] when the journal cannot be read.
pub fn paths_changed_since(
    journal: &Journal,
    branch: &[CustomEntry],
) -> Result<BTreeSet<PathBuf>, UndoError> {
    let own: Vec<StepEntry> =
        branch.iter().filter(|entry| entry.source == NAME).filter_map(step_of).collect();
    journal.paths_of_move(&named_steps(journal, &own)?)
}

/// Numbers of the steps of a journal that are named by entries of a session.
pub(crate) fn named_steps(journal: &Journal, entries: &[StepEntry]) -> Result<BTreeSet<u64>, UndoError> {
    let mut steps = journal.steps.all()?;
    steps.retain(|step| {
        let is_named = |entry: &StepEntry| {
            entry.step == step.number && entry.run.as_ref().is_none_or(|run| *run == step.run)
        };
        entries.iter().any(is_named)
    });
    Ok(steps.into_iter().map(|step| step.number).collect())
}

/// Data of a session entry, if it is one of this plugin.
fn step_of(entry: &CustomEntry) -> Option<StepEntry> {
    let is_own = entry.kind == KIND && entry.version == VERSION;
    entry.data.read::<StepEntry>().ok().filter(|_| is_own)
}
