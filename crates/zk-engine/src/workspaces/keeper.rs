//! Plugin that stores the files of a run after each turn that may have changed them.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use zk_core::events::{SessionBeforeEnd, ToolBegin, ToolResultsAfter};
use zk_core::kernel::{Answer, BoxError, Cx, Handler, HookOptions, Plugin, Reach, Scope, Stage};
use zk_core::model::RunId;
use zk_core::service::{Checkpoint, CheckpointOf, NewEntry, SessionLog, WorkspaceError, WorkspaceRef};

use super::FILES_SOURCE;
use super::kept::FilesPlace;
use super::log::{StoredFiles, told_entry};

/// Longest time of one checkpoint.
const CHECKPOINT_LIMIT: Duration = Duration::from_secs(150);

/// Longest time of a handler, which ends by itself before.
const HANDLER_LIMIT: Duration = Duration::from_secs(180);

/// Maximum number of descriptions of files that are not carried, in one message.
const MAX_LEFT_OUT: usize = 20;

/// Plugin of a leg that stores the files of its run: after each turn with a call that is not read-only, in the write that
/// stores the results, and at the end of the leg.
///
/// A checkpoint that fails is told to the person, and the next turn or the end of the leg tries again; the run goes on.
#[derive(Clone)]
pub struct KeepFiles(Arc<Keeper>);

pub(super) struct Keeper {
    files: Arc<FilesPlace>,
    run: RunId,
    /// Whether calls may have changed files since the last checkpoint.
    is_changed: AtomicBool,
    state: Mutex<State>,
    scope: OnceLock<Scope>,
    log: Box<dyn Fn(&str) + Send + Sync>,
}

struct State {
    last: WorkspaceRef,
    /// Descriptions of files that are not carried, as the person was told.
    told: Vec<String>,
}

impl fmt::Debug for KeepFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeepFiles").field("run", &self.0.run).finish_non_exhaustive()
    }
}

impl KeepFiles {
    pub(super) fn new(
        files: Arc<FilesPlace>,
        run: RunId,
        is_changed: bool,
        log: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        let state = State { last: files.reference.clone(), told: Vec::new() };
        Self(Arc::new(Keeper {
            files,
            run,
            is_changed: AtomicBool::new(is_changed),
            state: Mutex::new(state),
            scope: OnceLock::new(),
            log: Box::new(log),
        }))
    }

    /// Whether all changes of the leg are stored.
    pub(super) fn is_kept(&self) -> bool {
        !self.0.is_changed.load(Ordering::Acquire)
    }
}

impl Plugin for KeepFiles {
    fn name(&self) -> &'static str {
        FILES_SOURCE
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let _ = self.0.scope.set(scope.clone());
        let changed = self.0.clone();
        scope.on_sync_at(Reach::Descendants, move |event: &ToolBegin, _: &Cx| {
            if !event.read_only {
                changed.is_changed.store(true, Ordering::Release);
            }
        });
        let early =
            HookOptions { stage: Stage::Early, reach: Some(Reach::Own), time_limit: Some(HANDLER_LIMIT) };
        scope.handle_at::<ToolResultsAfter, _>(early, self.0.clone());
        let last = HookOptions {
            reach: Some(Reach::Own),
            time_limit: Some(HANDLER_LIMIT),
            ..HookOptions::default()
        };
        scope.handle_at::<SessionBeforeEnd, _>(last, self.0.clone());
        Ok(())
    }
}

impl Handler<ToolResultsAfter> for Keeper {
    async fn call(&self, event: &ToolResultsAfter, cx: &Cx) -> Answer<ToolResultsAfter> {
        if cx.origin().depth > 0 {
            return Ok(None);
        }
        let entry = self.keep(event.turn_id.as_str()).await;
        let (Some(entry), Some(scope)) = (entry, self.scope.get()) else { return Ok(None) };
        let Some(log) = cx.service::<dyn SessionLog>() else { return Ok(None) };
        if !log.join_results(scope, entry.clone()) && log.append(scope, entry).await.is_err() {
            // The reference is in no session, so the files are stored for nobody.
            self.is_changed.store(true, Ordering::Release);
        }
        Ok(None)
    }
}

impl Handler<SessionBeforeEnd> for Keeper {
    async fn call(&self, _: &SessionBeforeEnd, cx: &Cx) -> Answer<SessionBeforeEnd> {
        if cx.origin().depth > 0 {
            return Ok(None);
        }
        Ok(self.keep("end").await)
    }
}

impl Keeper {
    /// Stores the files if calls may have changed them. Returns the entry with the reference, or that about the failure.
    async fn keep(&self, moment: &str) -> Option<NewEntry> {
        if !self.is_changed.swap(false, Ordering::AcqRel) {
            return None;
        }
        let base = self.state().last.clone();
        let of = CheckpointOf { run: self.run.clone(), moment: moment.to_owned(), base: Some(base) };
        let made = tokio::time::timeout(CHECKPOINT_LIMIT, self.files.checkpoint(&of)).await;
        let made = made.unwrap_or_else(|_| {
            let why = format!("it took longer than {} s", CHECKPOINT_LIMIT.as_secs());
            Err(WorkspaceError::io("keep the files of", &self.files.directory, why))
        });
        match made {
            Ok(Checkpoint { reference, left_out }) => {
                self.tell_left_out(left_out);
                self.state().last = reference.clone();
                // Also for unchanged files: calls before this entry have lost nothing.
                Some(StoredFiles { reference, copy: Some(self.files.copy.clone()) }.new_entry())
            }
            Err(error) => {
                self.is_changed.store(true, Ordering::Release);
                let text = format!(
                    "the files are not kept after this turn: {error}; if the worker is lost before they are, these changes are gone"
                );
                (self.log)(&format!("{}: {text}", self.run));
                Some(told_entry(&text))
            }
        }
    }

    fn tell_left_out(&self, left_out: Vec<String>) {
        let mut state = self.state();
        if left_out.is_empty() || state.told == left_out {
            return;
        }
        (self.log)(&format!("{}: not carried to other workers: {}", self.run, left_out_line(&left_out)));
        state.told = left_out;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Descriptions of files that are not carried, in one line.
pub(super) fn left_out_line(left_out: &[String]) -> String {
    let named: Vec<&str> = left_out.iter().take(MAX_LEFT_OUT).map(String::as_str).collect();
    match left_out.len().saturating_sub(MAX_LEFT_OUT) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").field("run", &self.run).finish_non_exhaustive()
    }
}
