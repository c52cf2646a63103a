//! Legs of agents whose sessions are in PostgreSQL, too: a store that breaks off, and workers that are killed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use zk_agent::Agent;
use zk_core::service::{
    Engine, EngineName, Job, Lease, LegEnd, Legs, Redactor, RunPhase, SessionStore, StoreError, Take,
};
use zk_engine::{AgentLegs, LegAgent, LegOpener, LegSessionError, Placement, Runs};
use zk_session::resume_leg;
use zk_stores::PostgresStore;
use zk_testkit::{LinkProxy, ScriptedProvider, TracedWork};

use super::Server;

/// Opener of agents that do traced work.
struct Opener {
    store: Arc<dyn SessionStore>,
    work: TracedWork,
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
        let stored = resume_leg(opened, job.run()).await.map_err(end)?;
        let agent = Agent::builder(Arc::new(ScriptedProvider::new(self.work.script())))
            .model_id("scripted")
            .tool(self.work.tool())
            .unguarded()
            .resume(stored);
        Ok(Box::new(Opened(agent.build().unwrap())))
    }
}

/// Returns the runs of an engine with their sessions at an address, and the legs that do traced work in `dir`.
pub(super) fn agents(engine: Arc<dyn Engine>, address: &str, dir: &Path) -> (Runs, Arc<dyn Legs>) {
    let store: Arc<dyn SessionStore> = Arc::new(PostgresStore::new(address).unwrap());
    let runs = Runs::new(engine, store.clone(), Arc::new(Redactor::new()));
    let opener = Opener { store, work: traced_work(dir) };
    (runs.clone(), Arc::new(AgentLegs::new(Arc::new(opener)).with_runs(runs)))
}

pub(super) fn traced_work(dir: &Path) -> TracedWork {
    TracedWork::new(dir, || Duration::from_millis(fastrand::u64(5..20)))
}

/// The engine works on, and the connection to the sessions breaks in the middle of a run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_goes_on_though_its_store_breaks_off() {
    let Some(server) = Server::start() else { return };
    server.prepare("runs").await;
    server.create_database("sessions").unwrap();
    let link = LinkProxy::start(([127, 0, 0, 1], server.port()).into()).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let behind = format!("postgres://zk@{}/sessions", link.address());
    let (behind, legs) = agents(Arc::new(server.engine("runs")), &behind, dir.path());
    let (runs, _) = agents(Arc::new(server.engine("runs")), &server.address("sessions"), dir.path());
    let stop = CancellationToken::new();
    let (take, stopped) = (Take::new(EngineName::new("w").unwrap()), stop.clone());
    let serving =
        tokio::spawn(async move { behind.engine().serve(take, legs, stopped).await.map(|()| drop(behind)) });
    for round in 0..4 {
        let name = format!("r_{round}");
        let placement = Placement { run: Some(name.as_str().into()), ..Placement::default() };
        let job = runs.submit("/project", &name, placement).await.unwrap();
        // Some calls were made.
        super::wait_for(async || {
            let traces = std::fs::read_to_string(dir.path().join(&name)).unwrap_or_default();
            traces.matches("effect").count() > round
        })
        .await;
        link.cut();
        let found = async || runs.find(&name).await.unwrap();
        super::wait_for(async || found().await.phase == RunPhase::Parked).await;
        link.restore();
        super::wait_for(async || found().await.phase.is_finished()).await;
        let over = found().await;
        assert_eq!(over.phase, RunPhase::Done, "{over:?}");
        assert!(over.legs > 1, "{over:?}");
        let entries = runs.store().read(job.session()).await.unwrap().entries;
        traced_work(dir.path()).check(&name, &entries).unwrap();
    }
    stop.cancel();
    serving.await.unwrap().unwrap();
}

/// An entry of a newer kind would be passed over, and what it tells of repeated.
#[tokio::test]
async fn a_newer_log_is_refused_to_a_leg_and_shown_to_others() {
    let Some(server) = Server::start() else { return };
    server.prepare("newer").await;
    let dir = tempfile::tempdir().unwrap();
    let (runs, legs) = agents(Arc::new(server.engine("newer")), &server.address("newer"), dir.path());
    let job = runs.submit("/project", "r_1", Placement::default()).await.unwrap();
    let newer = "UPDATE zk_entries SET kind = '{\"entry\":\"moon_phase\",\"of\":3}'";
    server.sql("newer", newer).unwrap();
    let opened = runs.store().open_leased(job.session(), &Lease::new(1)).await.unwrap();
    assert!(matches!(opened.live().await, Err(StoreError::TooNew { .. })));
    opened.close().await.unwrap();
    let end = legs.leg(&job, Lease::new(2)).await;
    assert_eq!(end, LegEnd::Handover(zk_core::service::HandoverCause::TooNew));
    assert_eq!(runs.store().read(job.session()).await.unwrap().notices.len(), 1);
}
