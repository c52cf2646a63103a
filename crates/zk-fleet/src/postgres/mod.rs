//! Runs in PostgreSQL, on Absurd's stored procedures.

mod connection;
mod health;
mod install;
mod rows;
mod source;
mod tenant;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use tokio_postgres::types::Type;
use tokio_util::sync::CancellationToken;
use zk_core::model::RunId;
use zk_core::service::{
    Engine, EngineError, EngineHealth, EngineName, EngineRun, Job, Legs, RunFilter, Schedule, Take,
    UnreadableEntry,
};
use zk_engine::{EngineKind, serve_legs};

pub use self::install::Installed;

use self::connection::{Connection, failed};
use self::rows::{column, phase_of, queue_of, to_json};
use self::source::{PostgresSource, STORED_FORMAT};
use self::tenant::TenantEngine;

/// Engine of durable runs in a PostgreSQL database, for workers on several machines.
///
/// Absurd's stored procedures hold leases, parked runs and retries; a schema beside them has what a list shows, children,
/// schedules and the names of workers. Each change is one statement. Leases are whole seconds of the server's clock, and the
/// token of a leg is greater than all before it. [`PostgresEngine::install`] prepares a database once.
///
/// ```no_run
/// # async fn submit() -> Result<(), zk_core::service::EngineError> {
/// use zk_core::model::{RunId, SessionId};
/// use zk_core::service::{Engine, Job};
/// use zk_fleet::PostgresEngine;
///
/// PostgresEngine::install("postgres:///zk?host=/run/postgresql").await?;
/// let engine = PostgresEngine::new("postgres:///zk?host=/run/postgresql")?;
/// engine.submit(Job::new(RunId::fresh(), SessionId::fresh())?).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PostgresEngine(Arc<Connection>);

impl fmt::Debug for PostgresEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresEngine").finish_non_exhaustive()
    }
}

impl PostgresEngine {
    /// Creates the engine in the database at `address`. Nothing is connected yet.
    ///
    /// # Errors
    /// For an address that cannot be used: one of another machine needs `sslmode=disable`, since zk speaks no TLS with
    /// PostgreSQL.
    pub fn new(address: &str) -> Result<Self, EngineError> {
        Ok(Self(Arc::new(Connection::new(address)?)))
    }

    /// Installs Absurd and zk's schema in the database at `address`, where they are missing.
    ///
    /// # Errors
    /// When the database cannot be used, or has another version of either.
    pub async fn install(address: &str) -> Result<Installed, EngineError> {
        install::install(address).await
    }
}

#[async_trait]
impl Engine for PostgresEngine {
    async fn submit(&self, job: Job) -> Result<(), EngineError> {
        const DOING: &str = "submit the run";
        let parent = job.parent().map(|parent| parent.run.as_str());
        let row = self
            .0
            .query_one(
                DOING,
                "SELECT * FROM zk_fleet.submit_run($1, $2, $3, $4, $5, $6, $7, $8)",
                &[
                    (&job.run().as_str(), Type::TEXT),
                    (&job.session().as_str(), Type::TEXT),
                    (&STORED_FORMAT, Type::INT4),
                    (&to_json(DOING, &job)?, Type::TEXT),
                    (&queue_of(&job), Type::TEXT),
                    (&job.tenant().map(EngineName::as_str), Type::TEXT),
                    (&parent, Type::TEXT),
                    (&i32::from(job.priority()), Type::INT4),
                ],
            )
            .await?;
        match column::<&str>(DOING, &row, "outcome")? {
            "new" | "same" => Ok(()),
            "other" => Err(EngineError::OtherJob(job.run().clone())),
            "taken" => Err(EngineError::SessionTaken {
                session: job.session().clone(),
                run: RunId::from(column::<&str>(DOING, &row, "holder")?),
                phase: phase_of(DOING, column(DOING, &row, "holder_phase")?)?,
            }),
            other => Err(failed(DOING, format!("`{other}` is no outcome of a submission"))),
        }
    }

    async fn wake(&self, run: &RunId) -> Result<(), EngineError> {
        const DOING: &str = "wake the run";
        let statement = "SELECT zk_fleet.wake_run($1) AS phase";
        let row = self.0.query_one(DOING, statement, &[(&run.as_str(), Type::TEXT)]).await?;
        let Some(phase) = column::<Option<&str>>(DOING, &row, "phase")? else {
            return Err(EngineError::UnknownRun(run.clone()));
        };
        let phase = phase_of(DOING, phase)?;
        if phase.is_finished() {
            return Err(EngineError::Finished { run: run.clone(), phase });
        }
        Ok(())
    }

    async fn cancel(&self, run: &RunId) -> Result<(), EngineError> {
        const DOING: &str = "cancel the run";
        let statement = "SELECT zk_fleet.cancel_run($1) AS is_known";
        let row = self.0.query_one(DOING, statement, &[(&run.as_str(), Type::TEXT)]).await?;
        if column(DOING, &row, "is_known")? { Ok(()) } else { Err(EngineError::UnknownRun(run.clone())) }
    }

    async fn list(&self, filter: &RunFilter) -> Result<Vec<EngineRun>, EngineError> {
        rows::list_runs(&self.0, filter, STORED_FORMAT).await
    }

    fn of_tenant(&self, tenant: &EngineName) -> Option<Arc<dyn Engine>> {
        Some(Arc::new(TenantEngine::new(self.clone(), tenant.clone())))
    }

    async fn unreadable(&self) -> Result<Vec<UnreadableEntry>, EngineError> {
        rows::list_unreadable(&self.0, STORED_FORMAT).await
    }

    async fn health(&self) -> Result<EngineHealth, EngineError> {
        health::read_health(&self.0).await
    }

    async fn schedule(&self, plan: Schedule) -> Result<(), EngineError> {
        rows::put_schedule(&self.0, &plan).await
    }

    async fn unschedule(&self, name: &EngineName) -> Result<bool, EngineError> {
        let statement = "DELETE FROM zk_fleet.schedules WHERE name = $1 RETURNING name";
        let removed = self.0.query("remove the schedule", statement, &[(&name.as_str(), Type::TEXT)]).await?;
        Ok(!removed.is_empty())
    }

    async fn schedules(&self) -> Result<Vec<Schedule>, EngineError> {
        rows::list_schedules(&self.0).await
    }

    async fn drain(&self, worker: Option<&EngineName>) -> Result<Vec<EngineName>, EngineError> {
        const DOING: &str = "drain the workers";
        let statement = "SELECT name FROM zk_fleet.drain_workers($1) AS name ORDER BY name";
        let worker = worker.map(EngineName::as_str);
        let rows = self.0.query(DOING, statement, &[(&worker, Type::TEXT)]).await?;
        rows.iter().map(|row| EngineName::new(column(DOING, row, "name")?)).collect()
    }

    async fn serve(
        &self,
        take: Take,
        legs: Arc<dyn Legs>,
        stop: CancellationToken,
    ) -> Result<(), EngineError> {
        let worker = take.worker.clone();
        let name: &[connection::Param<'_>] = &[(&worker.as_str(), Type::TEXT)];
        // The name belongs to a connection of its own, which ends with this worker.
        let connection = self.0.of_worker(worker.clone());
        if !connection.begin_worker(&worker).await? {
            return Err(EngineError::NameTaken(worker.clone()));
        }
        // A list of runs that ended long ago is no reason not to serve.
        let _ = connection.query("delete old runs", "SELECT zk_fleet.clean_up()", &[]).await;
        let source = Arc::new(PostgresSource { connection });
        let served = serve_legs(source.clone(), take, legs, stop).await;
        let ended = source.connection.query("end serving", "SELECT zk_fleet.end_worker($1)", name).await;
        served.and(ended.map(drop))
    }
}

/// Kind of engine with addresses that begin with `postgres:` or `postgresql:`.
#[derive(Clone, Copy, Debug, Default)]
pub struct PostgresKind;

#[async_trait]
impl EngineKind for PostgresKind {
    fn schemes(&self) -> &'static [&'static str] {
        &["postgres", "postgresql"]
    }

    fn open(&self, address: &str) -> Result<Arc<dyn Engine>, EngineError> {
        Ok(Arc::new(PostgresEngine::new(address)?))
    }

    async fn set_up(&self, address: &str) -> Result<String, EngineError> {
        let done = match PostgresEngine::install(address).await? {
            Installed::Anew => {
                "the database is prepared for runs: it has the schemas absurd and zk_fleet now"
            }
            Installed::BesideAbsurd => {
                "the database is prepared for runs: it has the schema zk_fleet beside absurd now"
            }
            Installed::Before => "the database was prepared for runs already",
        };
        Ok(done.to_owned())
    }
}
