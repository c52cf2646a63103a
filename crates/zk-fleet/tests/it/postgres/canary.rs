//! A canary that the database of an engine never holds.

use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use zk_core::service::{
    Engine, EngineName, Job, Lease, LegEnd, Legs, Redactor, RunPhase, ScheduleTimes, Take, Wait,
};
use zk_engine::{Placement, Runs};
use zk_stores::PostgresStore;

use super::Server;

const CANARY: &str = "xq7canary41z";

/// Legs that park until mail comes.
struct Parking;

#[async_trait]
impl Legs for Parking {
    async fn leg(&self, _: &Job, _: Lease) -> LegEnd {
        LegEnd::Parked(Wait::Mail)
    }
}

/// Database dump of an engine: ids, without any prompt, message, path or plan.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_table_of_the_engine_holds_what_was_said() {
    let Some(server) = Server::start() else { return };
    server.prepare("engine").await;
    server.create_database("sessions").unwrap();
    let store = Arc::new(PostgresStore::new(&server.address("sessions")).unwrap());
    let engine = Arc::new(server.engine("engine"));
    let runs = Runs::new(engine.clone(), store, Arc::new(Redactor::new()));
    let cwd = format!("/srv/{CANARY}");
    let prompt = format!("Look for {CANARY}.");
    let job = runs.submit(&cwd, &prompt, Placement::default()).await.unwrap();
    let plan = (cwd.into(), prompt.as_str());
    let name = EngineName::new("often").unwrap();
    runs.schedule(name, ScheduleTimes::DailyAt(0), plan, Placement::default()).await.unwrap();
    let take = Take { once: true, ..Take::new(EngineName::new("w").unwrap()) };
    engine.serve(take, Arc::new(Parking), CancellationToken::new()).await.unwrap();
    let parked = runs.find(job.run().as_str()).await.unwrap();
    assert_eq!(parked.phase, RunPhase::Parked);
    runs.steer(&parked, CANARY).await.unwrap();
    let dump = server.dump("engine").unwrap();
    assert!(dump.contains(job.run().as_str()), "the dump has the run");
    assert!(!dump.contains(CANARY), "the engine holds what was said");
    assert!(server.dump("sessions").unwrap().contains(CANARY), "the sessions hold it");
}
