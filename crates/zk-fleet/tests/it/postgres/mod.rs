//! The engine in a PostgreSQL server that each test starts.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on fails the test, and a skipped test says so"
)]

mod agents;
mod canary;
mod conform;
mod kills;
mod links;
mod sizes;
mod tenants;

use std::time::Duration;

use async_trait::async_trait;
use zk_core::service::{Job, Lease, LegEnd, Legs, RunStatus};
use zk_fleet::PostgresEngine;
use zk_testkit::PostgresServer;

/// Server of one test with its directory.
pub(crate) struct Server {
    server: PostgresServer,
    _dir: tempfile::TempDir,
}

impl Server {
    /// Starts a server; `None` where PostgreSQL is not installed.
    pub(crate) fn start() -> Option<Self> {
        let dir = tempfile::tempdir_in("/tmp").unwrap();
        let Some(server) = PostgresServer::start(dir.path()).unwrap() else {
            println!("skipped: PostgreSQL is not installed (apt-get install postgresql)");
            return None;
        };
        Some(Self { server, _dir: dir })
    }

    /// Creates a database for runs.
    pub(crate) async fn prepare(&self, database: &str) {
        self.server.create_database(database).unwrap();
        PostgresEngine::install(&self.server.address(database)).await.unwrap();
    }

    pub(crate) fn engine(&self, database: &str) -> PostgresEngine {
        PostgresEngine::new(&self.server.address(database)).unwrap()
    }
}

impl std::ops::Deref for Server {
    type Target = PostgresServer;

    fn deref(&self) -> &PostgresServer {
        &self.server
    }
}

/// Legs that complete at once.
pub(crate) struct Completing;

#[async_trait]
impl Legs for Completing {
    async fn leg(&self, _: &Job, _: Lease) -> LegEnd {
        LegEnd::Done(RunStatus::Completed)
    }
}

/// Job of a run with a session of its own.
pub(crate) fn job(run: &str) -> Job {
    Job::new(run.into(), format!("s_{run}").as_str().into()).unwrap()
}

/// Waits until `holds`.
pub(crate) async fn wait_for(holds: impl AsyncFn() -> bool) {
    let waited = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waited).await.expect("nothing came of it within a minute");
}
