use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use sha2::{Digest, Sha256};
use zk_core::model::{CallId, Message, Role, RunId, SessionId, Spent, TurnId};
use zk_core::service::{
    ChildRun, ChildRuns, ChildRunsError, ChildState, Durability, EngineError, EngineRun, EntryKind, Job,
    JobParent, LegEnd, LegFailure, MAX_WAITED_CHILDREN, Mail, MailKind, NewSession, RunBudget, RunFilter,
    RunPhase, RunStatus, StoreError, spent_in,
};

use super::Runs;

/// Number of bytes of the digest that names a child run.
const ID_BYTES: usize = 12;

/// Maximum size of a child's answer in the message to its parent, in bytes.
const MAX_RESULT_BYTES: usize = 16 << 10;

/// Starter of runs on behalf of the run of a leg.
pub(crate) struct LegChildren {
    runs: Runs,
    parent: Job,
    /// Children whose results this leg has posted.
    told: Mutex<BTreeSet<RunId>>,
    /// Lock that is held from the count of the children until one more is submitted: a turn may start several at once.
    starting: tokio::sync::Mutex<()>,
}

impl LegChildren {
    pub(crate) fn new(runs: Runs, parent: Job) -> Self {
        Self { runs, parent, told: Mutex::default(), starting: tokio::sync::Mutex::default() }
    }

    /// Checks that a child would not be deeper below the first run than `most`.
    async fn check_depth(&self, most: u32) -> Result<(), ChildRunsError> {
        let (mut depth, mut above) = (1, self.parent.parent().cloned());
        while depth <= most {
            let Some(parent) = above else { return Ok(()) };
            depth += 1;
            let listed = self
                .runs
                .engine()
                .list(&RunFilter::run(parent.run))
                .await
                .map_err(|error| engine_failed(&error))?;
            above = listed.into_iter().next().and_then(|run| run.job.parent().cloned());
        }
        Err(ChildRunsError::TooDeep { most })
    }

    async fn children(&self) -> Result<Vec<EngineRun>, ChildRunsError> {
        let filter = RunFilter { parent: Some(self.parent.run().clone()), ..RunFilter::default() };
        self.runs.engine().list(&filter).await.map_err(|error| engine_failed(&error))
    }

    /// Stores the session of a child with its prompt and budget, unless an earlier leg did.
    async fn store_session(&self, id: &SessionId, run: &RunId, child: &ChildRun) -> Result<(), StoreError> {
        let store = self.runs.store();
        let nothing = Box::new(|_, _| ControlFlow::Break(()));
        match store.scan(id, nothing).await {
            Ok(_) => {}
            Err(StoreError::NotFound { .. }) => {
                let new = NewSession { id: Some(id.clone()), cwd: child.cwd.clone(), parent: None };
                let task = Message::user_text(child.task.clone()).shared();
                let messages = child.begins_with.iter().cloned().chain([task]);
                let entry = |message| self.runs.redact_entry(EntryKind::Message { message, usage: None });
                let entries = messages.map(entry).collect();
                let open = store.create(new).await?;
                let stored = open.append(entries, Durability::Disk).await.map(drop);
                let closed = open.close().await;
                stored.and(closed)?;
            }
            Err(error) => return Err(error),
        }
        self.runs.assign_session(id, self.parent.tenant()).await?;
        if child.allotment.is_unlimited() {
            return Ok(());
        }
        let kind = MailKind::Budget { budget: child.allotment };
        let mail = Mail { id: format!("budget:{run}").into(), kind };
        self.runs.post_once(id, &mail).await
    }

    fn job(&self, run: RunId, session: SessionId, call: CallId) -> Result<Job, EngineError> {
        let parent = JobParent { run: self.parent.run().clone(), call };
        let mut job = Job::new(run, session)?.with_parent(parent)?.with_priority(self.parent.priority());
        if let Some(tenant) = self.parent.tenant() {
            job = job.with_tenant(tenant.clone());
        }
        if let Some(preset) = self.parent.preset() {
            job = job.with_preset(preset.clone());
        }
        if let Some(workspace) = self.parent.workspace() {
            job = job.with_workspace(workspace.clone());
        }
        if let Some(queue) = self.parent.queue() {
            job = job.with_queue(queue.clone());
        }
        Ok(job)
    }
}

#[async_trait]
impl ChildRuns for LegChildren {
    fn run_of(&self, turn: &TurnId, call: &CallId) -> RunId {
        RunId::from(format!("r_{}", self.digest(turn, call)))
    }

    async fn start(&self, child: ChildRun) -> Result<RunId, ChildRunsError> {
        let run = self.run_of(&child.turn, &child.call);
        let _starting = self.starting.lock().await;
        let children = self.children().await?;
        if children.iter().any(|known| *known.job.run() == run) {
            return Ok(run);
        }
        let most = usize::try_from(child.max_children).unwrap_or(usize::MAX).min(MAX_WAITED_CHILDREN);
        if children.len() >= most {
            return Err(ChildRunsError::TooMany { most });
        }
        self.check_depth(child.max_depth).await?;
        let session = SessionId::from(format!("s_{}", self.digest(&child.turn, &child.call)));
        // The ids are checked before anything is stored.
        let job = self
            .job(run.clone(), session.clone(), child.call.clone())
            .map_err(|error| engine_failed(&error))?;
        let stored = self.store_session(&session, &run, &child).await;
        stored.map_err(|error| ChildRunsError::Failed(error.to_string()))?;
        self.runs.engine().submit(job).await.map_err(|error| engine_failed(&error))?;
        Ok(run)
    }

    async fn collect(&self) -> Result<Vec<ChildState>, ChildRunsError> {
        let mut states = Vec::new();
        for child in self.children().await? {
            let run = child.job.run().clone();
            if !child.phase.is_finished() {
                states.push(ChildState { run, ended: None });
                continue;
            }
            let is_told = self.told.lock().unwrap_or_else(PoisonError::into_inner).contains(&run);
            if is_told {
                continue;
            }
            let described = describe(&self.runs, &child.job, child.phase, child.failure.as_ref()).await;
            let (text, spent) = described.map_err(|error| ChildRunsError::Failed(error.to_string()))?;
            post_result(&self.runs, self.parent.session(), &child.job, text).await?;
            self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(run.clone());
            states.push(ChildState { run, ended: Some(spent) });
        }
        Ok(states)
    }
}

impl LegChildren {
    /// Returns the digest of a call of this run.
    fn digest(&self, turn: &TurnId, call: &CallId) -> String {
        let mut hash = Sha256::new();
        for part in [self.parent.run().as_str(), turn.as_str(), call.as_str()] {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
        hash.finalize().iter().take(ID_BYTES).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Posts the result of a child whose leg ended, so that a parent that runs meanwhile reads it before its next turn. The
/// parent posts what could not be posted here.
pub(crate) async fn tell_parent(runs: &Runs, job: &Job, end: &LegEnd) {
    let (phase, failure) = match end {
        LegEnd::Done(RunStatus::Completed) => (RunPhase::Done, None),
        LegEnd::Done(RunStatus::Aborted) => (RunPhase::Cancelled, None),
        LegEnd::Done(RunStatus::Error) => (RunPhase::Failed, Some(LegFailure::Agent)),
        LegEnd::Failed(failure) => (RunPhase::Failed, Some(failure.clone())),
        LegEnd::Parked(_) | LegEnd::Handover(_) => return,
    };
    let Some(parent) = job.parent() else { return };
    let listed = runs.engine().list(&RunFilter::run(parent.run.clone())).await;
    let Some(parent) = listed.ok().and_then(|listed| listed.into_iter().next()) else { return };
    let Ok((text, _)) = describe(runs, job, phase, failure.as_ref()).await else { return };
    let _ = post_result(runs, parent.job.session(), job, text).await;
}

async fn post_result(
    runs: &Runs,
    session: &SessionId,
    child: &Job,
    text: String,
) -> Result<(), ChildRunsError> {
    let Some(parent) = child.parent() else { return Ok(()) };
    let (run, call) = (child.run().clone(), parent.call.clone());
    let mail = Mail::new(MailKind::Result { run, call, text });
    let posted = runs.post_once(session, &mail).await;
    posted.map_err(|error| ChildRunsError::Failed(error.to_string()))
}

/// Whether a session stays unreadable. A parent is told so once; after another error the session is read again later.
fn is_unreadable(error: &StoreError) -> bool {
    match error {
        StoreError::NotFound { .. } | StoreError::Damaged { .. } | StoreError::TooNew { .. } => true,
        StoreError::InUse { .. }
        | StoreError::Fenced { .. }
        | StoreError::PostedBefore { .. }
        | StoreError::NoEntry { .. }
        | StoreError::Io { .. }
        | StoreError::Refused(_)
        | StoreError::Failed(_) => false,
    }
}

/// Describes the end of a child for its parent, and returns the amount that it has spent.
///
/// # Errors
/// The error of a session that cannot be read now.
async fn describe(
    runs: &Runs,
    job: &Job,
    phase: RunPhase,
    failure: Option<&LegFailure>,
) -> Result<(String, Spent), StoreError> {
    let (run, call) = (job.run(), job.parent().map(|parent| parent.call.to_string()).unwrap_or_default());
    let who = format!("Run {run}, which call {call} started,");
    let read = runs.store().read(job.session()).await;
    let (answer, spent) = match read {
        Ok(read) => (last_answer(&read.entries), spent_of(run, &read.entries)),
        Err(error) if is_unreadable(&error) => {
            return Ok((format!("{who} is {phase}; its session cannot be read: {error}"), Spent::default()));
        }
        Err(error) => return Err(error),
    };
    let said = match &answer {
        Some(answer) => format!("It had said:\n{}", shorten(answer, run)),
        None => "It had said nothing.".to_owned(),
    };
    let text = match (phase, failure) {
        (RunPhase::Done, _) => match &answer {
            Some(answer) => format!("{who} is done. Its answer:\n{}", shorten(answer, run)),
            None => format!("{who} is done, without an answer."),
        },
        (RunPhase::Cancelled, _) => format!("{who} was cancelled. {said}"),
        (_, Some(failure)) => format!("{who} failed: {failure}. {said}"),
        (_, None) => format!("{who} is {phase}. {said}"),
    };
    Ok((text, spent))
}

fn shorten(answer: &str, run: &RunId) -> String {
    let end = answer.floor_char_boundary(MAX_RESULT_BYTES);
    let kept = answer.get(..end).unwrap_or_default();
    match answer.len() - kept.len() {
        0 => kept.to_owned(),
        left => format!("{kept}\n({left} bytes more are in the session of {run})"),
    }
}

fn last_answer(entries: &[zk_core::service::Entry]) -> Option<String> {
    entries.iter().rev().find_map(|entry| match &entry.kind {
        EntryKind::Message { message, .. } if message.role == Role::Assistant => {
            Some(message.text()).filter(|text| !text.trim().is_empty())
        }
        _ => None,
    })
}

/// Returns the amount that a run has spent, with what its own children have spent or kept.
fn spent_of(run: &RunId, entries: &[zk_core::service::Entry]) -> Spent {
    let budget = RunBudget::last_of(run, entries).unwrap_or_default();
    spent_in(entries) + budget.of_children()
}

fn engine_failed(error: &EngineError) -> ChildRunsError {
    ChildRunsError::Failed(error.to_string())
}
