//! Engine, store and legs of agents with a scripted model.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use zk_agent::{Agent, SpawnOptions};
use zk_core::service::{
    Engine, EngineName, Job, Lease, LegEnd, Redactor, RunFilter, RunPhase, SessionStore, Take, Tool,
};
use zk_engine::{AgentLegs, LegAgent, LegOpener, LegSessionError, LocalEngine, Runs};
use zk_exec::LocalStateFiles;
use zk_session::MemoryStore;
use zk_testkit::{Asked, Script, ScriptedProvider, TracedWork, Turn};

/// Opener of agents with a scripted model, whose tools are these and those of sub-agents.
pub(crate) struct Opener {
    pub(crate) store: Arc<dyn SessionStore>,
    pub(crate) script: Script,
    pub(crate) spawn: SpawnOptions,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
}

struct Opened(Agent);

#[async_trait]
impl LegAgent for Opened {
    fn agent(&self) -> &Agent {
        &self.0
    }

    async fn close(self: Box<Self>) {
        self.0.close().await;
    }
}

#[async_trait]
impl LegOpener for Opener {
    async fn open(&self, job: &Job, lease: &Lease) -> Result<Box<dyn LegAgent>, LegEnd> {
        let end = |error| LegSessionError::from(error).end();
        let opened = self.store.open_leased(job.session(), lease).await.map_err(end)?;
        let stored = zk_session::resume_leg(opened, job.run()).await.map_err(end)?;
        let builder = Agent::builder(Arc::new(ScriptedProvider::new(self.script.clone())));
        let agent = self
            .tools
            .iter()
            .fold(builder, |builder, tool| builder.tool(tool.clone()))
            .model_id("scripted")
            .unguarded()
            .spawn(SpawnOptions { background: true, ..self.spawn.clone() })
            .resume(stored)
            .build()
            .unwrap();
        Ok(Box::new(Opened(agent)))
    }
}

/// Runs with a scripted model, on an engine and a store of their own.
pub(crate) struct Desk {
    pub(crate) runs: Runs,
    pub(crate) legs: Arc<AgentLegs>,
    pub(crate) asks: Arc<AtomicUsize>,
    pub(crate) dir: tempfile::TempDir,
    opener: Arc<Opener>,
}

impl Desk {
    /// Creates a desk whose model answers with `answer`.
    pub(crate) fn answering(answer: impl Fn(&Asked) -> Turn + Send + Sync + 'static) -> Self {
        Self::with_spawn(SpawnOptions::default(), answer)
    }

    /// Creates a desk whose agents do this work, with sessions in `store`.
    pub(crate) fn tracing(work: &TracedWork, store: Arc<dyn SessionStore>) -> Self {
        let (spawn, tools) = (SpawnOptions::default(), vec![work.tool()]);
        Self::of(Opener { store, script: work.script(), spawn, tools }, Arc::default())
    }

    /// Creates a desk whose agents have these limits of sub-agents.
    pub(crate) fn with_spawn(
        spawn: SpawnOptions,
        answer: impl Fn(&Asked) -> Turn + Send + Sync + 'static,
    ) -> Self {
        let asks = Arc::new(AtomicUsize::new(0));
        let counted = asks.clone();
        let script = Script::answering(move |asked: &Asked| {
            counted.fetch_add(1, Ordering::SeqCst);
            answer(asked)
        });
        let store = Arc::new(MemoryStore::new());
        Self::of(Opener { store, script, spawn, tools: Vec::new() }, asks)
    }

    fn of(opener: Opener, asks: Arc<AtomicUsize>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let engine = LocalEngine::new(dir.path().join("engine"), Arc::new(LocalStateFiles::default()));
        let runs = Runs::new(Arc::new(engine), opener.store.clone(), Arc::new(Redactor::new()));
        let opener = Arc::new(opener);
        let legs = Arc::new(AgentLegs::new(opener.clone()).with_runs(runs.clone()));
        Self { runs, legs, asks, dir, opener }
    }

    /// Moves to another engine over the store of the sessions.
    pub(crate) fn move_to(&mut self, engine: impl Engine + 'static) {
        self.use_runs(Arc::new(engine), self.opener.store.clone());
    }

    /// Keeps the runs in `engine`, with sessions that are reached through `store`.
    pub(crate) fn use_runs(&mut self, engine: Arc<dyn Engine>, store: Arc<dyn SessionStore>) {
        self.runs = Runs::new(engine, store, Arc::new(Redactor::new()));
        self.legs = Arc::new(AgentLegs::new(self.opener.clone()).with_runs(self.runs.clone()));
    }

    pub(crate) async fn serve_once(&self) {
        let take = Take { once: true, ..Take::new(EngineName::new("w").unwrap()) };
        self.runs.engine().serve(take, self.legs.clone(), CancellationToken::new()).await.unwrap();
    }

    /// Starts a worker.
    pub(crate) fn serve(&self) -> Serving {
        let (engine, legs, stop) = (self.runs.engine().clone(), self.legs.clone(), CancellationToken::new());
        let (take, stopped) = (Take::new(EngineName::new("w").unwrap()), stop.clone());
        Serving { stop, task: tokio::spawn(async move { engine.serve(take, legs, stopped).await.unwrap() }) }
    }

    /// Waits until a run is in a phase.
    pub(crate) async fn wait_for(&self, job: &Job, phase: RunPhase) {
        while self.phase_of(job).await != phase {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) async fn phase_of(&self, job: &Job) -> RunPhase {
        self.runs.engine().list(&RunFilter::run(job.run().clone())).await.unwrap().remove(0).phase
    }

    /// Returns the entries of a run's session as JSON.
    pub(crate) async fn stored(&self, job: &Job) -> String {
        serde_json::to_string(&self.runs.store().read(job.session()).await.unwrap().entries).unwrap()
    }
}

/// Running worker.
pub(crate) struct Serving {
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Serving {
    /// Stops the worker, and waits for its end.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}
