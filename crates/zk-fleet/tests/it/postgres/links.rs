//! Links that stall and break, and databases that are not as they should be.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use zk_core::service::{
    Engine, EngineError, EngineName, HandoverCause, Job, Lease, LegEnd, Legs, RunFilter, RunPhase, RunStatus,
    Schedule, ScheduleTimes, ScheduledJob, Take,
};
use zk_fleet::{Installed, PostgresEngine};
use zk_testkit::LinkProxy;

use super::Server;

const LEASE: Duration = Duration::from_secs(1);

fn take(worker: &str) -> Take {
    Take { lease: LEASE, ..Take::new(EngineName::new(worker).unwrap()) }
}

/// Legs that end when their lease is lost or their run cancelled, and keep the token of the lost lease.
#[derive(Default)]
struct UntilLost {
    begun: AtomicU64,
    lost: AtomicU64,
}

#[async_trait]
impl Legs for UntilLost {
    async fn leg(&self, _: &Job, lease: Lease) -> LegEnd {
        self.begun.store(lease.token(), Ordering::SeqCst);
        tokio::select! {
            () = lease.lost().cancelled() => self.lost.store(lease.token(), Ordering::SeqCst),
            () = lease.cancelled().cancelled() => return LegEnd::Done(RunStatus::Aborted),
        }
        LegEnd::Handover(HandoverCause::Fenced)
    }
}

/// Legs that end when their worker drains.
struct UntilDrained;

#[async_trait]
impl Legs for UntilDrained {
    async fn leg(&self, _: &Job, lease: Lease) -> LegEnd {
        lease.draining().cancelled().await;
        LegEnd::Done(RunStatus::Completed)
    }
}

/// A worker behind a link that stalls loses its lease by its own clock, its successor keeps the run, and the worker serves again
/// once the link is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_behind_a_broken_link_loses_its_leg_to_the_next() {
    let Some(server) = Server::start() else { return };
    server.prepare("links").await;
    let link = LinkProxy::start(([127, 0, 0, 1], server.port()).into()).await.unwrap();
    let address = format!("postgres://zk@{}/links", link.address());
    let (engine, behind) = (server.engine("links"), PostgresEngine::new(&address).unwrap());
    let stop = CancellationToken::new();
    let (first, second) = (Arc::new(UntilLost::default()), Arc::new(UntilDrained));
    let (legs, stopped) = (first.clone(), stop.clone());
    let cut_off = tokio::spawn(async move { behind.serve(take("cut-off"), legs, stopped).await });
    for stalls in [true, false] {
        let job = super::job(if stalls { "r_stalled" } else { "r_cut" });
        engine.submit(job.clone()).await.unwrap();
        let state = async || engine.list(&RunFilter::run(job.run().clone())).await.unwrap().remove(0);
        super::wait_for(async || state().await.phase == RunPhase::Running).await;
        let token = state().await.token;
        // The worker knows of its leg.
        super::wait_for(async || first.begun.load(Ordering::SeqCst) == token).await;
        if stalls {
            link.stall();
        } else {
            link.cut();
        }
        let (successor, legs, drained) = (engine.clone(), second.clone(), stop.child_token());
        let drain = drained.clone();
        let serving = tokio::spawn(async move { successor.serve(take("successor"), legs, drained).await });
        super::wait_for(async || first.lost.load(Ordering::SeqCst) == token).await;
        super::wait_for(async || state().await.token > token).await;
        let held = state().await;
        link.restore();
        let now = state().await;
        assert_eq!((now.phase, now.token, now.worker), (RunPhase::Running, held.token, held.worker));
        drain.cancel();
        serving.await.unwrap().unwrap();
        assert_eq!(state().await.phase, RunPhase::Done);
        // The worker is back, and has forgotten nothing but its leg.
        let other = super::job(if stalls { "r_other_1" } else { "r_other_2" });
        engine.submit(other.clone()).await.unwrap();
        let state = async || engine.list(&RunFilter::run(other.run().clone())).await.unwrap().remove(0);
        super::wait_for(async || state().await.phase == RunPhase::Running).await;
        engine.cancel(other.run()).await.unwrap();
        super::wait_for(async || state().await.phase == RunPhase::Cancelled).await;
    }
    let alive = engine.health().await.unwrap();
    assert!(alive.workers.iter().any(|worker| worker.name.as_str() == "cut-off" && worker.is_alive));
    assert!(alive.version.starts_with("PostgreSQL") && !alive.place.contains("zk@"), "{alive:?}");
    stop.cancel();
    cut_off.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_database_that_is_not_prepared_or_of_another_version_is_a_clear_error() {
    let Some(server) = Server::start() else { return };
    server.create_database("bad").unwrap();
    let (address, engine) = (server.address("bad"), server.engine("bad"));
    let said = async || engine.list(&RunFilter::default()).await.unwrap_err().to_string();
    assert!(said().await.contains("`zk fleet setup`"), "{}", said().await);
    assert_eq!(PostgresEngine::install(&address).await.unwrap(), Installed::Anew);
    assert_eq!(PostgresEngine::install(&address).await.unwrap(), Installed::Before);
    engine.submit(super::job("r_1")).await.unwrap();

    server.sql("bad", "UPDATE zk_fleet.installed SET version = 99").unwrap();
    let newer = server.engine("bad").list(&RunFilter::default()).await;
    assert!(matches!(newer, Err(EngineError::TooNew { found: 99, known: 1 })), "{newer:?}");
    server.sql("bad", "UPDATE zk_fleet.installed SET version = 1").unwrap();

    let version = "CREATE OR REPLACE FUNCTION absurd.get_schema_version() RETURNS text LANGUAGE sql AS $$SELECT '0.4.0'::text$$";
    server.sql("bad", version).unwrap();
    for error in [
        server.engine("bad").list(&RunFilter::default()).await.unwrap_err().to_string(),
        PostgresEngine::install(&address).await.unwrap_err().to_string(),
    ] {
        assert!(error.contains("0.4.0") && error.contains("absurdctl migrate"), "{error}");
    }
    let gone = PostgresEngine::new("postgres:///zk?host=/no/such/directory").unwrap();
    let error = gone.list(&RunFilter::default()).await.unwrap_err().to_string();
    assert!(error.starts_with("cannot list the runs: error connecting to server"), "{error}");
    let far = PostgresEngine::new("postgres://zk:secret@db.example/zk").unwrap_err().to_string();
    assert!(far.contains("TLS") && !far.contains("secret"), "{far}");
}

/// One damaged or refused row keeps no other run from its leg, and is listed apart if it is damaged.
#[tokio::test]
async fn damaged_and_refused_rows_keep_no_other_from_its_leg() {
    let Some(server) = Server::start() else { return };
    server.prepare("damaged").await;
    let engine = server.engine("damaged");
    for run in ["r_0", "r_1", "r_2"] {
        engine.submit(super::job(run)).await.unwrap();
    }
    server.sql("damaged", "UPDATE zk_fleet.runs SET job = '{' WHERE run IN ('r_0', 'r_1')").unwrap();
    // The end of the first one cannot be recorded.
    let refusal = "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'no'; END$$;
        CREATE TRIGGER refuse BEFORE UPDATE ON zk_fleet.runs FOR EACH ROW
            WHEN (NEW.run = 'r_0' AND NEW.phase = 'failed') EXECUTE FUNCTION public.refuse()";
    server.sql("damaged", refusal).unwrap();
    // Another job has the run of one schedule.
    engine.submit(Job::new("r_known:1".into(), "s_known".into()).unwrap()).await.unwrap();
    for name in ["known", "plain"] {
        let job = ScheduledJob { template: "s_t".into(), preset: None, workspace: None, queue: None };
        let times = ScheduleTimes::Every(Duration::from_secs(3600));
        engine.schedule(Schedule { name: EngineName::new(name).unwrap(), times, job }).await.unwrap();
    }
    server.sql("damaged", "UPDATE zk_fleet.schedules SET due = to_timestamp(0.001)").unwrap();
    server.sql("damaged", "INSERT INTO zk_fleet.schedules VALUES ('odd', '{}', clock_timestamp())").unwrap();
    let unreadable: Vec<String> =
        engine.unreadable().await.unwrap().into_iter().map(|entry| entry.id).collect();
    assert_eq!(unreadable, ["r_0", "r_1", "odd"]);
    let legs = Arc::new(super::Completing);
    engine.serve(Take { once: true, ..take("w") }, legs, CancellationToken::new()).await.unwrap();
    let listed = engine.list(&RunFilter::default()).await.unwrap();
    let done: Vec<_> = listed.iter().map(|run| (run.job.run().as_str(), run.phase, run.legs)).collect();
    assert_eq!(done, ["r_2", "r_known:1", "r_plain:1"].map(|run| (run, RunPhase::Done, 1)));
    let failure =
        server.sql("damaged", "SELECT phase, failure FROM zk_fleet.runs WHERE run = 'r_1'").unwrap();
    assert!(failure.starts_with("failed|") && failure.contains("unreadable"), "{failure}");
}

/// One leg that ends while leases are renewed keeps no other from its renewal.
#[tokio::test]
async fn a_leg_whose_claim_has_ended_is_lost_alone() {
    let Some(server) = Server::start() else { return };
    server.prepare("renewed").await;
    let engine = server.engine("renewed");
    for run in ["r_1", "r_2"] {
        engine.submit(super::job(run)).await.unwrap();
    }
    let sql = |sql| server.sql("renewed", sql).unwrap();
    sql("SELECT * FROM zk_fleet.take_runs('w', 60, '{}', 1, 5, 50)");
    sql("SELECT absurd.complete_run('zk_1', claim) FROM zk_fleet.runs WHERE run = 'r_1'");
    let renewed = sql("SELECT r.renewed_run, r.outcome FROM
         (SELECT array_agg(run) AS runs, array_agg(token) AS tokens FROM zk_fleet.runs) l,
         zk_fleet.renew_leases(l.runs, l.tokens, 60) r ORDER BY 1");
    assert_eq!(renewed.trim(), "r_1|lost\nr_2|held");
}
