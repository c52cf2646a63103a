//! Engine, store and legs of agents with a scripted model.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use zk_agent::{Agent, SpawnOptions};
use zk_core::service::{
    Engine, EngineName, HandoverCause, Job, Lease, LegEnd, LegFailure, Redactor, RunFilter, RunPhase,
    SessionStore, StoreError, Take,
};
use zk_engine::{AgentLegs, LegAgent, LegOpener, LocalEngine, Runs};
use zk_exec::LocalStateFiles;
use zk_session::MemoryStore;
use zk_testkit::{Asked, Script, ScriptedProvider, Turn};

/// Opener of agents with a scripted model, whose only tools are those of sub-agents.
pub(crate) struct Opener {
    store: Arc<MemoryStore>,
    script: Script,
    spawn: SpawnOptions,
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
        let opened = match self.store.open_leased(job.session(), lease).await {
            Ok(opened) => opened,
            Err(StoreError::Fenced { .. }) => return Err(LegEnd::Handover(HandoverCause::Fenced)),
            Err(_) => return Err(LegEnd::Failed(LegFailure::NoSession)),
        };
        let stored = zk_session::resume_leg(opened, job.run()).await.unwrap();
        let agent = Agent::builder(Arc::new(ScriptedProvider::new(self.script.clone())))
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

    /// Creates a desk whose agents have these limits of sub-agents.
    pub(crate) fn with_spawn(
        spawn: SpawnOptions,
        answer: impl Fn(&Asked) -> Turn + Send + Sync + 'static,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let engine = LocalEngine::new(dir.path().join("engine"), Arc::new(LocalStateFiles::default()));
        let (store, asks) = (Arc::new(MemoryStore::new()), Arc::new(AtomicUsize::new(0)));
        let counted = asks.clone();
        let script = Script::answering(move |asked: &Asked| {
            counted.fetch_add(1, Ordering::SeqCst);
            answer(asked)
        });
        let opener = Arc::new(Opener { store: store.clone(), script, spawn });
        let runs = Runs::new(Arc::new(engine), store, Arc::new(Redactor::new()));
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

    pub(crate) async fn phase_of(&self, job: &Job) -> RunPhase {
        self.runs.engine().list(&RunFilter::run(job.run().clone())).await.unwrap().remove(0).phase
    }

    /// Returns the entries of a run's session as JSON.
    pub(crate) async fn stored(&self, job: &Job) -> String {
        serde_json::to_string(&self.runs.store().read(job.session()).await.unwrap().entries).unwrap()
    }
}
