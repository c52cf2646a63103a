//! The contract of engines, kept by the one in PostgreSQL.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zk_core::service::Engine;
use zk_testkit::{EngineOptions, check_engine};

use super::Server;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_engine_in_postgres_keeps_the_contract() {
    let Some(server) = Server::start() else { return };
    let server = Arc::new(server);
    let stored = server.clone();
    let options = EngineOptions {
        // Absurd counts leases in whole seconds.
        lease: Duration::from_secs(1),
        stored: Some(Arc::new(move |place| stored.dump(&format!("place_{place}")).unwrap().into_bytes())),
    };
    let prepared = Mutex::new(HashSet::new());
    let make = |place: u32| {
        let (is_new, server) = (prepared.lock().unwrap().insert(place), server.clone());
        async move {
            let database = format!("place_{place}");
            if is_new {
                server.prepare(&database).await;
            }
            Arc::new(server.engine(&database)) as Arc<dyn Engine>
        }
    };
    let conformance = check_engine(make, &options).await;
    assert!(conformance.is_met(), "{conformance}");
    assert_eq!(conformance.passed.len(), 30, "{conformance}");
}
