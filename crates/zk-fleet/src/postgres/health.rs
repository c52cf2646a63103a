use tokio_postgres::Row;
use zk_core::service::{EngineError, EngineHealth, EngineName, WorkerHealth};

use super::connection::Connection;
use super::install::ABSURD_VERSION;
use super::rows::{column, token_of};

const DOING: &str = "read the state of the engine";

/// Reads the state of the engine.
pub(super) async fn read_health(connection: &Connection) -> Result<EngineHealth, EngineError> {
    let statement = "SELECT current_setting('server_version') AS version, clock_timestamp() AS now, \
        zk_fleet.count_expired() AS expired";
    let server = connection.query_one(DOING, statement, &[]).await?;
    let workers = connection.query(DOING, "SELECT * FROM zk_fleet.list_workers()", &[]).await?;
    let version: &str = column(DOING, &server, "version")?;
    Ok(EngineHealth {
        version: format!("PostgreSQL {version} with Absurd {ABSURD_VERSION}"),
        place: connection.place(),
        clock: Some(column(DOING, &server, "now")?),
        workers: workers.iter().map(worker_of_row).collect::<Result<_, _>>()?,
        expired_leases: token_of(column(DOING, &server, "expired")?),
    })
}

fn worker_of_row(row: &Row) -> Result<WorkerHealth, EngineError> {
    Ok(WorkerHealth {
        name: EngineName::new(column(DOING, row, "worker_name")?)?,
        is_alive: column(DOING, row, "is_alive")?,
        is_draining: column(DOING, row, "is_asked")?,
        legs: token_of(column(DOING, row, "legs")?),
    })
}
