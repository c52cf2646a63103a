//! Conformance checks for engines of durable runs, also for those of other authors.

mod kills;
mod legs;
mod runs;
mod traced;
mod waits;
mod workers;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use zk_core::model::{RunId, SessionId};
use zk_core::service::{Engine, EngineError, EngineName, EngineRun, Job, Legs, RunFilter, RunPhase, Take};

pub use kills::{Killed, StepLegs, check_kills, kill_workers};
pub use traced::{Traced, TracedWork};

use crate::report::Conformance;
use legs::FnLegs;

/// Longest time for one check.
const LIMIT: Duration = Duration::from_secs(60);

/// Pause between two checks of a condition.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// Reader of all bytes that an engine stores at a place.
pub type StoredBytes = Arc<dyn Fn(u32) -> Vec<u8> + Send + Sync>;

/// Options of [`check_engine`].
#[derive(Clone)]
pub struct EngineOptions {
    /// Length of the leases in the checks; shorter leases make the checks faster.
    pub lease: Duration,
    /// Reads all stored bytes of the engine, to search them for texts that it must not have.
    pub stored: Option<StoredBytes>,
}

impl fmt::Debug for EngineOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineOptions").field("lease", &self.lease).finish_non_exhaustive()
    }
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self { lease: Duration::from_millis(600), stored: None }
    }
}

/// Checks the contract of [`Engine`]: submission, order, leases and their tokens, dead and thawed workers, parking, waking,
/// cancellation, children, schedules, draining, and what an engine must not store.
///
/// `make` makes the engine of a place, which is named by a number: an empty one for a new number, and another engine over
/// the same runs for a number that was given before, as another process would.
///
/// ```no_run
/// # use std::future::Future;
/// # use std::sync::Arc;
/// # use zk_core::service::Engine;
/// # async fn check<F: Future<Output = Arc<dyn Engine>>>(make: impl Fn(u32) -> F) {
/// use zk_testkit::{EngineOptions, check_engine};
///
/// let conformance = check_engine(make, &EngineOptions::default()).await;
/// assert!(conformance.is_met(), "{conformance}");
/// # }
/// ```
pub async fn check_engine<F>(make: impl Fn(u32) -> F, options: &EngineOptions) -> Conformance
where
    F: Future<Output = Arc<dyn Engine>>,
{
    let mut suite = EngineSuite { make, options, place: 0, found: Conformance::default() };
    suite.check("a run is submitted once", runs::check_single_submission).await;
    suite.check("a session has one unfinished run", runs::check_one_run_of_session).await;
    suite.check("runs begin by priority, then in order", runs::check_start_order).await;
    suite.check("a filter lists the runs that it describes", runs::check_filters).await;
    suite.check("an unknown run is an error", runs::check_unknown_run).await;
    suite.check("a finished run is not woken, and stays as it is", runs::check_finished_run).await;
    suite.check("a failure stays listed with its reason", runs::check_failed_run).await;
    suite.check("a leg that panics fails its run alone", runs::check_panicking_leg).await;
    suite.check("a job holds ids alone, and no other text is stored", runs::check_stored_texts).await;
    suite.check("a worker takes the runs of its queues", workers::check_queues).await;
    suite.check("a worker runs as many legs as it may", workers::check_parallel_legs).await;
    suite.check("two workers have two names", workers::check_worker_names).await;
    suite.check("a lease that is renewed holds", workers::check_lease_renewal).await;
    suite.check("a dead worker's run goes on with a larger token", workers::check_dead_worker).await;
    suite.check("tokens grow over the runs of a session", workers::check_tokens_of_session).await;
    suite.check("a thawed worker loses its leg and changes nothing", workers::check_thawed_worker).await;
    suite.check("a stopped worker hands its legs over", workers::check_stopped_worker).await;
    suite.check("a drained worker stops", workers::check_drained_worker).await;
    suite.check("a parked run goes on when it is woken", waits::check_waking).await;
    suite.check("a parked run begins no leg while its queue works", waits::check_parked_beside).await;
    suite.check("a run that is woken twice has one more leg", waits::check_double_wake).await;
    suite.check("a run that is woken while it runs does not stay parked", waits::check_early_wake).await;
    suite.check("a run that is woken while it ends has one more leg", waits::check_late_wake).await;
    suite.check("a run that loses its store goes on, and fails at last", waits::check_lost_store).await;
    suite.check("a run parked until a time goes on then", waits::check_parking_until_time).await;
    suite.check("a parked run is cancelled at once", waits::check_cancelled_parked_run).await;
    suite.check("a running leg is told of the cancellation", waits::check_cancelled_leg).await;
    suite.check("a parent goes on when its children have ended", waits::check_wait_for_children).await;
    suite.check("a cancellation reaches all descendants", waits::check_cancelled_descendants).await;
    suite.check("a schedule submits runs until it is removed", waits::check_schedule).await;
    suite.found
}

struct EngineSuite<'a, M> {
    make: M,
    options: &'a EngineOptions,
    place: u32,
    found: Conformance,
}

impl<M, F> EngineSuite<'_, M>
where
    M: Fn(u32) -> F,
    F: Future<Output = Arc<dyn Engine>>,
{
    async fn check(&mut self, name: &'static str, check: impl AsyncFnOnce(EngineCase) -> Outcome) {
        self.place += 1;
        let case = EngineCase {
            engine: (self.make)(self.place).await,
            other: (self.make)(self.place).await,
            options: self.options.clone(),
            place: self.place,
        };
        let outcome = tokio::time::timeout(LIMIT, check(case)).await;
        let outcome = outcome.unwrap_or_else(|_| Err(format!("no end within {} s", LIMIT.as_secs())));
        self.found.add_result(name, outcome);
    }
}

type Outcome = Result<(), String>;

/// Two engines over the same stored runs, as in two processes.
struct EngineCase {
    engine: Arc<dyn Engine>,
    other: Arc<dyn Engine>,
    options: EngineOptions,
    place: u32,
}

impl EngineCase {
    /// Options of a worker with this name and the lease of the checks.
    fn take(&self, worker: &str) -> Result<Take, String> {
        let take = Take::new(EngineName::new(worker).map_err(failed("name a worker"))?);
        Ok(Take { lease: self.options.lease, ..take })
    }

    /// Submits the run `run`, which has its own session.
    async fn submit(&self, run: &str) -> Result<Job, String> {
        let job = job(run)?;
        self.engine.submit(job.clone()).await.map_err(failed("submit a run"))?;
        Ok(job)
    }

    /// Returns the state of a run, as the other engine lists it.
    async fn listed_run(&self, run: &RunId) -> Result<EngineRun, String> {
        let listed = self.other.list(&RunFilter::run(run.clone())).await.map_err(failed("list a run"))?;
        listed.into_iter().next().ok_or_else(|| format!("run {run} is not listed"))
    }

    /// Waits until a run is in a phase.
    async fn wait_for_phase(&self, run: &RunId, phase: RunPhase) -> Result<EngineRun, String> {
        loop {
            let found = self.listed_run(run).await?;
            if found.phase == phase {
                return Ok(found);
            }
            if found.phase.is_finished() {
                return Err(format!("run {run} is {} instead of {phase}: {found:?}", found.phase));
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }

    /// Serves on this engine until no run is ready.
    async fn serve_once(&self, worker: &str, legs: Arc<FnLegs>) -> Outcome {
        let take = Take { once: true, ..self.take(worker)? };
        self.engine.serve(take, legs, CancellationToken::new()).await.map_err(failed("serve"))
    }

    /// Starts a worker on this engine.
    fn start(&self, take: Take, legs: Arc<FnLegs>) -> Serving {
        Serving::start(self.engine.clone(), take, legs)
    }

    /// Starts a worker on the other engine.
    fn start_other(&self, take: Take, legs: Arc<FnLegs>) -> Serving {
        Serving::start(self.other.clone(), take, legs)
    }
}

/// Worker in a task. Dropping it aborts the task, as when a process is killed.
struct Serving {
    stop: CancellationToken,
    task: Option<JoinHandle<Result<(), EngineError>>>,
}

impl Serving {
    fn start(engine: Arc<dyn Engine>, take: Take, legs: Arc<dyn Legs>) -> Self {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move { engine.serve(take, legs, stopped).await });
        Self { stop, task: Some(task) }
    }

    /// Stops the worker, as a signal would, and waits for its end.
    async fn stop(self) -> Outcome {
        self.stop.cancel();
        self.wait_for_end().await
    }

    /// Waits for the end of the worker.
    async fn wait_for_end(mut self) -> Outcome {
        let Some(task) = self.task.take() else { return Ok(()) };
        task.await.map_err(|error| format!("the worker broke off: {error}"))?.map_err(failed("serve"))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.iter().for_each(JoinHandle::abort);
    }
}

fn job(run: &str) -> Result<Job, String> {
    Job::new(RunId::from(run), SessionId::from(format!("s_{run}"))).map_err(failed("make a job"))
}

fn name(text: &str) -> Result<EngineName, String> {
    EngineName::new(text).map_err(failed("make a name"))
}

/// Waits until `holds`.
async fn wait_until(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

/// Returns an error with the broken rule, unless `holds`.
fn ensure(holds: bool, rule: impl fmt::Display) -> Outcome {
    if holds { Ok(()) } else { Err(rule.to_string()) }
}

/// Returns an error with both values, unless they are equal.
fn ensure_equal<T: PartialEq + fmt::Debug>(rule: &str, found: &T, expected: &T) -> Outcome {
    ensure(found == expected, format_args!("{rule}: {found:?} instead of {expected:?}"))
}

/// Converts an error to the text of a failed check.
fn failed(doing: &str) -> impl Fn(EngineError) -> String {
    move |error| format!("cannot {doing}: {error}")
}
