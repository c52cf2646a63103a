//! The engine in a PostgreSQL server that each test starts.

mod conform;

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
