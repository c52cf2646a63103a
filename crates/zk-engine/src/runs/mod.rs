mod child_runs;
mod tenant;

pub(crate) use child_runs::{LegChildren, tell_parent};

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use zk_core::model::{Budget, Message, Role, RunId, SessionId, StopReason};
use zk_core::service::{
    Durability, Engine, EngineError, EngineName, EngineRun, Entry, EntryKind, Job, Mail, MailKind,
    NewSession, Redactor, RunFilter, RunPhase, Schedule, ScheduleTimes, ScheduledJob, SessionStore,
    StoreError, UiAnswer, Wait, WorkspaceRef,
};
use zk_session::{AnswerRefused, answer_question, redact_entry};

use crate::StoredFiles;
use crate::error::is_refusal;

/// Runs of an engine together with their sessions in a store, with the operations of a person: submit, steer,
/// answer, hand off, schedule.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let dir = tempfile::tempdir().unwrap();
/// # let dir = dir.path().join("engine");
/// use std::sync::Arc;
/// use zk_core::service::{Redactor, RunPhase};
/// use zk_engine::{LocalEngine, Placement, Runs};
/// use zk_exec::LocalStateFiles;
/// use zk_session::MemoryStore;
///
/// let engine = Arc::new(LocalEngine::new(dir, Arc::new(LocalStateFiles::default())));
/// let runs = Runs::new(engine, Arc::new(MemoryStore::new()), Arc::new(Redactor::new()));
/// let job = runs.submit("/project", "Fix the failing test.", Placement::default()).await.unwrap();
/// // The beginning of the id is enough.
/// let found = runs.find(&job.run().as_str()[..12]).await.unwrap();
/// assert_eq!(found.phase, RunPhase::Queued);
/// # });
/// ```
#[derive(Clone)]
pub struct Runs {
    engine: Arc<dyn Engine>,
    store: Arc<dyn SessionStore>,
    redactor: Arc<Redactor>,
}

impl fmt::Debug for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runs").finish_non_exhaustive()
    }
}

/// Placement of a run, by names that its worker resolves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    /// Id of the run; `None` for a fresh id. A run with this id is submitted only once.
    pub run: Option<RunId>,
    /// Name of the preset.
    pub preset: Option<EngineName>,
    /// Name of the workspace; `None` for the directory of the session.
    pub workspace: Option<EngineName>,
    /// Stored files that the run begins with, for the workspace [`KEPT_WORKSPACE`](crate::KEPT_WORKSPACE).
    pub files: Option<WorkspaceRef>,
    /// Name of the queue.
    pub queue: Option<EngineName>,
    /// Priority; runs with a larger one begin first.
    pub priority: i8,
    /// Budget of the run; that of its worker without.
    pub budget: Option<Budget>,
    /// Tenant of the run.
    pub tenant: Option<EngineName>,
}

/// Error of [`Runs`].
#[derive(Debug, thiserror::Error)]
pub enum RunsError {
    /// The engine refused or failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The store of sessions refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No run has an id with this prefix.
    #[error("no run has an id that begins with `{0}`")]
    Unknown(String),
    /// Several runs have ids with this prefix.
    #[error("{count} runs have ids that begin with `{start}`; give more of the id")]
    Ambiguous {
        /// Prefix that was given.
        start: String,
        /// Number of runs with the prefix.
        count: usize,
    },
    /// A prompt is empty.
    #[error("the prompt is empty: say what the run is to do")]
    NoPrompt,
    /// The run waits for no answer of a person.
    #[error("run `{run}` waits for no answer: it is {phase}")]
    NotParked {
        /// Id of the run.
        run: RunId,
        /// Phase of the run.
        phase: RunPhase,
    },
    /// The run did not fail.
    #[error("run `{run}` is {phase}: only a run that failed or was cancelled is tried again")]
    NotFailed {
        /// Id of the run.
        run: RunId,
        /// Phase of the run.
        phase: RunPhase,
    },
    /// The answer was refused.
    #[error(transparent)]
    Answer(#[from] AnswerRefused),
    /// A session has nothing left to do.
    #[error("session `{0}` has nothing left to do: add a prompt for the run")]
    NothingToDo(SessionId),
}

impl Runs {
    /// Creates the runs of an engine, with the store that its workers use. Prompts pass `redactor` before
    /// they are stored.
    #[must_use]
    pub fn new(engine: Arc<dyn Engine>, store: Arc<dyn SessionStore>, redactor: Arc<Redactor>) -> Self {
        Self { engine, store, redactor }
    }

    /// Returns the engine of the runs.
    #[must_use]
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// Returns the store of the runs' sessions.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn SessionStore> {
        &self.store
    }

    /// Stores a new session with the prompt, and submits its run.
    ///
    /// # Errors
    /// [`RunsError`]; no session is left behind then, unless the engine cannot say whether it has the run.
    pub async fn submit(
        &self,
        cwd: impl Into<PathBuf>,
        prompt: &str,
        placement: Placement,
    ) -> Result<Job, RunsError> {
        if let Some(known) = self.known_job(&placement).await? {
            return Ok(known);
        }
        let session = self.store_prompt(cwd.into(), prompt, placement.files.clone()).await?;
        let prepared = async {
            self.assign_session(&session, placement.tenant.as_ref()).await?;
            self.prepare_job(session.clone(), placement).await
        };
        let job = match prepared.await {
            Ok(job) => job,
            Err(error) => {
                // The first error is returned, not that of the clean-up.
                let _ = self.store.delete(&session).await;
                return Err(error);
            }
        };
        if let Err(error) = self.engine.submit(job.clone()).await {
            let known = async {
                let listed = self.engine.list(&RunFilter::run(job.run().clone())).await?;
                Ok(listed.iter().any(|known| known.job == job))
            };
            self.settle_failed(error, &session, known).await?;
        }
        Ok(job)
    }

    /// Settles a submission that failed with `error`: one that `is_known` to the engine passed, though its answer was lost, and
    /// the session of one that is not is deleted. A session stays where the engine cannot say which.
    async fn settle_failed(
        &self,
        error: EngineError,
        session: &SessionId,
        is_known: impl Future<Output = Result<bool, EngineError>>,
    ) -> Result<(), RunsError> {
        let is_known = if is_refusal(&error) { Ok(false) } else { is_known.await };
        match is_known {
            Ok(true) => return Ok(()),
            Ok(false) => _ = self.store.delete(session).await,
            Err(_) => {}
        }
        Err(error.into())
    }

    /// Submits a run that goes on with a stored session; `prompt` is added to it first.
    ///
    /// # Errors
    /// [`RunsError::NothingToDo`] for a session that ends with an answer and gets no prompt; [`EngineError::SessionTaken`] for
    /// one that an unfinished run has; the store's errors, also for a session that is in use.
    pub async fn hand_off(
        &self,
        session: &SessionId,
        prompt: Option<&str>,
        placement: Placement,
    ) -> Result<Job, RunsError> {
        if let Some(known) = self.known_job(&placement).await? {
            let is_same = known.session() == session;
            return if is_same { Ok(known) } else { Err(EngineError::OtherJob(known.run().clone()).into()) };
        }
        self.check_free(session).await?;
        let open = self.store.open(session).await?;
        // Of two that come at the same moment, the second may open the session once the first has its run.
        let is_free = self.check_free(session).await;
        let files = placement.files.clone().map(|files| StoredFiles::at_start(files).to_entry());
        let add = async |entries: Vec<EntryKind>| {
            if entries.is_empty() {
                return Ok(());
            }
            open.append(entries, Durability::Disk).await.map(drop).map_err(RunsError::from)
        };
        let ready = match prompt {
            _ if is_free.is_err() => is_free,
            Some(prompt) => match self.prompt_entry(prompt) {
                Ok(entry) => add(files.into_iter().chain([entry]).collect()).await,
                Err(error) => Err(error),
            },
            None => match open.entries().await {
                Ok(entries) if has_unanswered_work(&entries) => add(files.into_iter().collect()).await,
                Ok(_) => Err(RunsError::NothingToDo(session.clone())),
                Err(error) => Err(error.into()),
            },
        };
        let closed = open.close().await;
        drop(open);
        ready?;
        closed?;
        let job = self.prepare_job(session.clone(), placement).await?;
        self.engine.submit(job.clone()).await?;
        Ok(job)
    }

    /// Checks that no unfinished run has the session, so that a refused hand-off adds no prompt to it. The engine checks it
    /// again when the run is submitted.
    async fn check_free(&self, session: &SessionId) -> Result<(), RunsError> {
        let of_session = RunFilter { session: Some(session.clone()), ..RunFilter::unfinished() };
        let Some(taken) = self.engine.list(&of_session).await?.into_iter().next() else { return Ok(()) };
        let (session, run) = (session.clone(), taken.job.run().clone());
        Err(EngineError::SessionTaken { session, run, phase: taken.phase }.into())
    }

    /// Returns the job of the run that the placement names, in whichever phase it is: a run is submitted only once.
    async fn known_job(&self, placement: &Placement) -> Result<Option<Job>, EngineError> {
        let Some(run) = &placement.run else { return Ok(None) };
        let known = self.engine.list(&RunFilter::run(run.clone())).await?.into_iter().next();
        Ok(known.map(|known| known.job))
    }

    /// Returns the job of a session, whose budget is stored by then.
    async fn prepare_job(&self, session: SessionId, placement: Placement) -> Result<Job, RunsError> {
        let Placement { run, preset, workspace, files: _, queue, priority, budget, tenant } = placement;
        let mut job = Job::new(run.unwrap_or_else(RunId::fresh), session)?.with_priority(priority);
        if let Some(tenant) = tenant {
            job = job.with_tenant(tenant);
        }
        if let Some(preset) = preset {
            job = job.with_preset(preset);
        }
        if let Some(workspace) = workspace {
            job = job.with_workspace(workspace);
        }
        if let Some(queue) = queue {
            job = job.with_queue(queue);
        }
        if let Some(budget) = budget {
            // The first leg takes it before it asks a model.
            let mail = Mail { id: format!("budget:{}", job.run()).into(), kind: MailKind::Budget { budget } };
            self.post_once(job.session(), &mail).await?;
        }
        Ok(job)
    }

    /// Stores a prompt, and schedules runs that begin with a copy of it at each of these times.
    ///
    /// # Errors
    /// [`RunsError`]; no session is left behind then, unless the engine cannot say whether it has the schedule.
    pub async fn schedule(
        &self,
        name: EngineName,
        times: ScheduleTimes,
        (cwd, prompt): (PathBuf, &str),
        placement: Placement,
    ) -> Result<Schedule, RunsError> {
        let template = self.store_prompt(cwd, prompt, placement.files.clone()).await?;
        let Placement { preset, workspace, queue, .. } = placement;
        let job = ScheduledJob { template: template.clone(), preset, workspace, queue };
        let plan = Schedule { name, times, job };
        if let Err(error) = self.engine.schedule(plan.clone()).await {
            let known = async { Ok(self.engine.schedules().await?.contains(&plan)) };
            self.settle_failed(error, &template, known).await?;
        }
        Ok(plan)
    }

    /// Submits a run of a schedule now, beside those of its times. Equal keys give one run; without a key, each call gives
    /// one.
    ///
    /// # Errors
    /// [`RunsError`], also for a key that is no name.
    pub async fn submit_scheduled(&self, plan: &Schedule, key: Option<&str>) -> Result<Job, RunsError> {
        let key = match key {
            Some(key) => EngineName::new(key)?,
            None => EngineName::new(RunId::fresh().as_str())?,
        };
        let job = plan.job_named(&format!("hook-{key}"))?;
        self.engine.submit(job.clone()).await?;
        Ok(job)
    }

    /// Finds the run whose id has the prefix `start`.
    ///
    /// # Errors
    /// [`RunsError::Unknown`], [`RunsError::Ambiguous`], and those of the engine.
    pub async fn find(&self, start: &str) -> Result<EngineRun, RunsError> {
        let start = start.trim();
        let unknown = || RunsError::Unknown(start.to_owned());
        if start.is_empty() {
            return Err(unknown());
        }
        let filter = RunFilter { run_prefix: Some(start.to_owned()), ..RunFilter::default() };
        let mut found = self.engine.list(&filter).await?;
        if let Some(exact) = found.iter().position(|run| run.job.run().as_str() == start) {
            return Ok(found.swap_remove(exact));
        }
        match found.len() {
            0 | 1 => found.pop().ok_or_else(unknown),
            count => Err(RunsError::Ambiguous { start: start.to_owned(), count }),
        }
    }

    /// Leaves a message for a run, which receives it before its next turn.
    ///
    /// # Errors
    /// [`EngineError::Finished`] for a run that is over; the store's errors, such as for a message over 1 MB.
    pub async fn steer(&self, run: &EngineRun, text: &str) -> Result<(), RunsError> {
        if run.phase.is_finished() {
            return Err(finished_error(run).into());
        }
        if text.trim().is_empty() {
            return Err(RunsError::NoPrompt);
        }
        let text = self.redactor.redact(text).into_owned();
        self.store.post_mail(run.job.session(), &Mail::new(MailKind::Steer { text })).await?;
        self.wake_for_mail(run).await
    }

    /// Answers the question on which a run is parked, and wakes the run. An answer after the first wakes it too: the one who
    /// gave the first may not have reached the engine.
    ///
    /// # Errors
    /// [`RunsError::NotParked`]; [`RunsError::Answer`], also when the question was answered before.
    pub async fn answer(&self, run: &EngineRun, answer: UiAnswer) -> Result<(), RunsError> {
        let Some(Wait::Answer(question)) = &run.wait else {
            return Err(RunsError::NotParked { run: run.job.run().clone(), phase: run.phase });
        };
        let answer = match answer {
            UiAnswer::No { message: Some(message) } => {
                UiAnswer::No { message: Some(self.redactor.redact(&message).into_owned()) }
            }
            UiAnswer::Text { text } => UiAnswer::Text { text: self.redactor.redact(&text).into_owned() },
            other => other,
        };
        let answered = answer_question(&*self.store, run.job.session(), question, answer).await;
        if let Ok(()) | Err(AnswerRefused::Answered { .. }) = answered {
            self.wake_for_mail(run).await?;
        }
        Ok(answered?)
    }

    /// Sets the budget of a run, in place of the one that it has, and wakes the run if it is parked.
    ///
    /// # Errors
    /// [`EngineError::Finished`] for a run that is over; the store's errors.
    pub async fn set_budget(&self, run: &EngineRun, budget: Budget) -> Result<(), RunsError> {
        if run.phase.is_finished() {
            return Err(finished_error(run).into());
        }
        self.store.post_mail(run.job.session(), &Mail::new(MailKind::Budget { budget })).await?;
        self.wake_for_mail(run).await
    }

    /// Submits the session of a failed or cancelled run as a new run in its place. Its children and its budget are not
    /// those of the new run.
    ///
    /// # Errors
    /// [`RunsError::NotFailed`]; those of [`Runs::hand_off`].
    pub async fn retry(&self, run: &EngineRun) -> Result<Job, RunsError> {
        match run.phase {
            RunPhase::Failed | RunPhase::Cancelled => {}
            phase @ (RunPhase::Queued | RunPhase::Running | RunPhase::Parked | RunPhase::Done) => {
                return Err(RunsError::NotFailed { run: run.job.run().clone(), phase });
            }
        }
        let placement = Placement {
            run: None,
            preset: run.job.preset().cloned(),
            workspace: run.job.workspace().cloned(),
            files: None,
            queue: run.job.queue().cloned(),
            priority: run.job.priority(),
            budget: None,
            tenant: run.job.tenant().cloned(),
        };
        self.hand_off(run.job.session(), None, placement).await
    }

    /// Posts mail whose id is that of its cause. Mail that was posted before is there, or was taken.
    pub(crate) async fn post_once(&self, session: &SessionId, mail: &Mail) -> Result<(), StoreError> {
        match self.store.post_mail(session, mail).await {
            Err(StoreError::PostedBefore { .. }) => Ok(()),
            other => other,
        }
    }

    pub(crate) fn redactor(&self) -> &Arc<Redactor> {
        &self.redactor
    }

    pub(crate) fn redact_entry(&self, entry: EntryKind) -> EntryKind {
        redact_entry(entry, &self.redactor)
    }

    /// Wakes a run for its mail. One that was queued when it was looked up may be about to end by now.
    async fn wake_for_mail(&self, run: &EngineRun) -> Result<(), RunsError> {
        if run.phase.is_finished() {
            return Err(finished_error(run).into());
        }
        Ok(self.engine.wake(run.job.run()).await?)
    }

    fn prompt_entry(&self, prompt: &str) -> Result<EntryKind, RunsError> {
        if prompt.trim().is_empty() {
            return Err(RunsError::NoPrompt);
        }
        let message = Message::user_text(self.redactor.redact(prompt).into_owned());
        Ok(EntryKind::Message { message: message.shared(), usage: None })
    }

    /// Stores a new session with an unanswered prompt, and the files that its runs begin with.
    async fn store_prompt(
        &self,
        cwd: PathBuf,
        prompt: &str,
        files: Option<WorkspaceRef>,
    ) -> Result<SessionId, RunsError> {
        let prompt = self.prompt_entry(prompt)?;
        let files = files.map(|files| StoredFiles::at_start(files).to_entry());
        let open = self.store.create(NewSession { id: None, cwd, parent: None }).await?;
        let entries = files.into_iter().chain([prompt]).collect();
        let stored = open.append(entries, Durability::Disk).await;
        let (id, closed) = (open.id().clone(), open.close().await);
        drop(open);
        if let Err(error) = stored.map(drop).and(closed) {
            let _ = self.store.delete(&id).await;
            return Err(error.into());
        }
        Ok(id)
    }
}

fn finished_error(run: &EngineRun) -> EngineError {
    EngineError::Finished { run: run.job.run().clone(), phase: run.phase }
}

/// Whether a session ends with an unanswered message, an answer that broke off or an open turn.
fn has_unanswered_work(entries: &[Entry]) -> bool {
    let is_broken_off = |message: &Message| message.stop.as_ref().is_some_and(StopReason::is_broken_off);
    let state = |entry: &Entry| match &entry.kind {
        EntryKind::Message { message, .. } => Some(message.role == Role::User || is_broken_off(message)),
        EntryKind::OpenTurn { .. } => Some(true),
        EntryKind::Model { .. }
        | EntryKind::Thinking { .. }
        | EntryKind::RunStart { .. }
        | EntryKind::RunEnd { .. }
        | EntryKind::CallBegin { .. }
        | EntryKind::CallEnd { .. }
        | EntryKind::CallData { .. }
        | EntryKind::Usage { .. }
        | EntryKind::Leaf { .. }
        | EntryKind::Label { .. }
        | EntryKind::Custom(_) => None,
    };
    entries.iter().rev().find_map(state).unwrap_or(false)
}
