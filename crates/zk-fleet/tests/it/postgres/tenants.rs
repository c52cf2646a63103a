//! Tenants that share a database: row-level security keeps them apart, whatever a statement asks for.

use std::sync::Arc;

use zk_core::service::{
    EngineError, EngineName, Redactor, RunFilter, RunPhase, ScheduleTimes, SessionFilter, StoreError,
};
use zk_engine::{Placement, Runs, RunsError};
use zk_fleet::PostgresEngine;
use zk_stores::PostgresStore;

use super::Server;

/// Database role of the service: owner of its database, without SUPERUSER.
const ROLE: &str = "app";

impl Server {
    /// Creates a database that the role of the service owns, and returns its address.
    fn create_owned(&self, database: &str) -> String {
        // The role is the server's, and may be there from another database.
        let _ = self.sql("postgres", &format!("CREATE ROLE {ROLE} LOGIN"));
        self.sql("postgres", &format!("CREATE DATABASE {database} OWNER {ROLE}")).unwrap();
        self.address(database).replacen("zk@", &format!("{ROLE}@"), 1)
    }

    /// Runs an SQL statement with the setting `zk.tenant`, and returns its output.
    fn seen_by(&self, database: &str, tenant: &str, sql: &str) -> String {
        let sql = format!("SET ROLE {ROLE}; SET zk.tenant = '{tenant}'; {sql}");
        self.sql(database, &sql).unwrap().trim().to_owned()
    }
}

fn name(text: &str) -> EngineName {
    EngineName::new(text).unwrap()
}

fn runs_at(address: &str) -> Runs {
    let engine = Arc::new(PostgresEngine::new(address).unwrap());
    let store = Arc::new(PostgresStore::new(address).unwrap());
    Runs::new(engine, store, Arc::new(Redactor::new()))
}

fn of(tenant: &str) -> Placement {
    Placement { tenant: Some(name(tenant)), ..Placement::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_statement_of_a_tenants_connection_sees_the_rows_of_another() {
    let Some(server) = Server::start() else { return };
    let address = server.create_owned("shared");
    PostgresEngine::install(&address).await.unwrap();
    let all = runs_at(&address);
    let (acme, other) = (all.of_tenant(&name("acme")), all.of_tenant(&name("other")));
    // Runs submitted through a tenant's connection and through one without a tenant.
    let own = acme.submit("/a", "Mine.", of("acme")).await.unwrap();
    let foreign = all.submit("/b", "Theirs.", of("other")).await.unwrap();
    let nobodys = all.submit("/c", "Nobody's.", Placement::default()).await.unwrap();
    let times = ScheduleTimes::DailyAt(0);
    all.schedule(name("nightly"), times, ("/c".into(), "Look."), Placement::default()).await.unwrap();

    // Listing without a filter, and access by the ids of other tenants' runs.
    let ids = async |runs: &Runs| -> Vec<String> {
        let listed = runs.engine().list(&RunFilter::default()).await.unwrap();
        listed.iter().map(|run| run.job.run().to_string()).collect()
    };
    assert_eq!(ids(&acme).await, [own.run().as_str()]);
    assert_eq!(ids(&other).await, [foreign.run().as_str()]);
    assert_eq!(ids(&all).await.len(), 3);
    for job in [&foreign, &nobodys] {
        let unknown = acme.find(job.run().as_str()).await;
        assert!(matches!(unknown, Err(RunsError::Unknown(_))), "{unknown:?}");
        for done in [acme.engine().wake(job.run()).await, acme.engine().cancel(job.run()).await] {
            assert!(matches!(done, Err(EngineError::UnknownRun(_))), "{done:?}");
        }
        let read = acme.store().read(job.session()).await;
        assert!(matches!(read, Err(StoreError::NotFound { .. })), "{:?}", read.map(|read| read.info));
        assert!(
            acme.store().open(job.session()).await.is_err()
                && acme.store().delete(job.session()).await.is_err()
        );
        let known = all.find(job.run().as_str()).await.unwrap();
        assert_eq!(known.phase, RunPhase::Queued);
        assert!(acme.steer(&known, "hi").await.is_err());
    }
    let every = SessionFilter { unanswered: true, ..SessionFilter::default() };
    let listed = acme.store().list(&every).await.unwrap();
    assert_eq!(listed.iter().map(|info| &info.id).collect::<Vec<_>>(), [own.session()]);
    assert_eq!(acme.engine().schedules().await.unwrap(), []);
    assert!(acme.engine().unschedule(&name("nightly")).await.is_err());
    assert!(acme.engine().submit(foreign.clone()).await.is_err(), "a run of another tenant");

    // SQL statements of a tenant's connection: SELECT, UPDATE and DELETE.
    for (table, column) in [("zk_fleet.runs", "run"), ("zk_sessions", "id"), ("zk_entries", "session")] {
        let select = format!("SELECT string_agg(DISTINCT {column}, ' ') FROM {table}");
        let expected = if table == "zk_fleet.runs" { own.run().as_str() } else { own.session().as_str() };
        assert_eq!(server.seen_by("shared", "acme", &select), expected, "{table}");
        let count = format!("SELECT count(DISTINCT {column}) > 2 FROM {table}");
        assert_eq!(
            server.seen_by("shared", "", &count),
            "t",
            "{table}: a connection without a tenant sees all"
        );
        assert_eq!(
            server.seen_by("shared", "nobody", &format!("SELECT count(*) FROM {table}")),
            "0",
            "{table}"
        );
    }
    assert_eq!(server.seen_by("shared", "acme", "SELECT count(*) FROM zk_fleet.schedules"), "0");
    server.seen_by(
        "shared",
        "acme",
        "UPDATE zk_sessions SET cwd = '/taken'; DELETE FROM zk_entries; DELETE FROM zk_fleet.runs",
    );
    let theirs = all.store().read(foreign.session()).await.unwrap();
    assert!(theirs.info.cwd == std::path::Path::new("/b") && !theirs.entries.is_empty());
    assert_eq!(ids(&all).await.len(), 2, "only its own run is gone");
    let steal = format!("UPDATE zk_sessions SET tenant = 'other' WHERE id = '{}'", own.session());
    let sql = format!("SET ROLE {ROLE}; SET zk.tenant = 'acme'; {steal}");
    let refused = server.sql("shared", &sql).unwrap_err().to_string();
    assert!(refused.contains("row-level security"), "{refused}");
}

/// A tenant's own run goes its whole way on the connection of the tenant; its mail is kept from others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_uses_its_own_runs() {
    let Some(server) = Server::start() else { return };
    let address = server.create_owned("own");
    PostgresEngine::install(&address).await.unwrap();
    let all = runs_at(&address);
    let (acme, other) = (all.of_tenant(&name("acme")), all.of_tenant(&name("other")));
    let job = acme.submit("/a", "Mine.", of("acme")).await.unwrap();
    let again = Placement { run: Some(job.run().clone()), ..of("acme") };
    assert_eq!(acme.submit("/a", "Mine.", again).await.unwrap(), job);
    let stolen = Placement { run: Some(job.run().clone()), ..of("other") };
    let refused = other.submit("/a", "Theirs.", stolen).await;
    assert!(matches!(refused, Err(RunsError::Engine(EngineError::OtherJob(_)))), "{refused:?}");
    let found = acme.find(job.run().as_str()).await.unwrap();
    acme.steer(&found, "Faster.").await.unwrap();
    assert_eq!(server.seen_by("own", "acme", "SELECT count(*) FROM zk_mail"), "1");
    assert_eq!(server.seen_by("own", "other", "SELECT count(*) FROM zk_mail"), "0");
    acme.cancel(&found).await.unwrap();
    assert_eq!(all.find(job.run().as_str()).await.unwrap().phase, RunPhase::Cancelled);
}

/// Row-level security holds for no superuser, and not before the setup: both refuse instead of showing all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_is_refused_where_nothing_keeps_tenants_apart() {
    let Some(server) = Server::start() else { return };
    server.prepare("super").await;
    let acme = runs_at(&server.address("super")).of_tenant(&name("acme"));
    let engine = acme.engine().list(&RunFilter::default()).await.unwrap_err().to_string();
    let store = acme.store().list(&SessionFilter::default()).await.unwrap_err().to_string();
    assert!(engine.contains("SUPERUSER") && store.contains("SUPERUSER"), "{engine} {store}");

    let address = server.create_owned("earlier");
    PostgresEngine::install(&address).await.unwrap();
    server.sql("earlier", "ALTER TABLE zk_fleet.runs NO FORCE ROW LEVEL SECURITY").unwrap();
    let all = runs_at(&address);
    let job = all.submit("/a", "Mine.", of("acme")).await.unwrap();
    let refused =
        all.of_tenant(&name("acme")).engine().list(&RunFilter::default()).await.unwrap_err().to_string();
    assert!(refused.contains("zk fleet setup"), "{refused}");
    PostgresEngine::install(&address).await.unwrap();
    let found = all.of_tenant(&name("acme")).find(job.run().as_str()).await.unwrap();
    assert_eq!(found.job, job);
}
