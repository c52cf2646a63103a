//! Runs and schedules as rows.

use std::time::SystemTime;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use tokio_postgres::types::{Json, Type};
use zk_core::model::{RunId, SessionId};
use zk_core::service::{
    EngineError, EngineName, EngineRun, Job, RunFilter, RunPhase, Schedule, Take, UnreadableEntry,
    UnreadableKind,
};

use super::connection::{Connection, database_error, failed};

/// Parses a value in a row, which another program may have changed.
pub(super) fn from_json<T: DeserializeOwned>(doing: &'static str, text: &str) -> Result<T, EngineError> {
    serde_json::from_str(text).map_err(|error| failed(doing, format!("a row is damaged: {error}")))
}

pub(super) fn to_json<T: Serialize>(doing: &'static str, value: &T) -> Result<String, EngineError> {
    serde_json::to_string(value).map_err(|error| failed(doing, error.to_string()))
}

/// Returns a column of a row.
pub(super) fn column<'a, T: tokio_postgres::types::FromSql<'a>>(
    doing: &'static str,
    row: &'a Row,
    name: &str,
) -> Result<T, EngineError> {
    row.try_get(name).map_err(|error| database_error(doing, &error))
}

pub(super) fn token_of(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or_default()
}

pub(super) fn token_to_sql(token: u64) -> i64 {
    i64::try_from(token).unwrap_or(i64::MAX)
}

/// Returns the queue of a job.
pub(super) fn queue_of(job: &Job) -> &str {
    job.queue().map_or(Take::DEFAULT_QUEUE, EngineName::as_str)
}

pub(super) async fn list_runs(
    connection: &Connection,
    filter: &RunFilter,
    format: i32,
) -> Result<Vec<EngineRun>, EngineError> {
    let phases: Vec<&str> = filter.phases.iter().map(|phase| phase.as_str()).collect();
    let rows = connection
        .query(
            "list the runs",
            "SELECT r.* FROM zk_fleet.runs r JOIN zk_fleet.queues q ON q.number = r.queue
             WHERE ($1::text IS NULL OR r.run = $1) AND ($2::text IS NULL OR starts_with(r.run, $2))
                 AND ($3::text IS NULL OR q.name = $3) AND ($4::text IS NULL OR r.tenant = $4)
                 AND ($5::text IS NULL OR r.parent = $5) AND (cardinality($6::text[]) = 0 OR r.phase = ANY ($6))
                 AND q.format <= $7 AND ($8::text IS NULL OR r.session = $8)
             ORDER BY r.seq DESC LIMIT $9",
            &[
                (&filter.run.as_ref().map(RunId::as_str), Type::TEXT),
                (&filter.run_prefix, Type::TEXT),
                (&filter.queue.as_ref().map(EngineName::as_str), Type::TEXT),
                (&filter.tenant.as_ref().map(EngineName::as_str), Type::TEXT),
                (&filter.parent.as_ref().map(RunId::as_str), Type::TEXT),
                (&phases, Type::TEXT_ARRAY),
                (&format, Type::INT4),
                (&filter.session.as_ref().map(SessionId::as_str), Type::TEXT),
                (&filter.limit.map(|limit| i64::try_from(limit).unwrap_or(i64::MAX)), Type::INT8),
            ],
        )
        .await?;
    // Rows that cannot be read are listed apart.
    Ok(rows.iter().rev().filter_map(|row| run_of_row(row).ok()).collect())
}

/// Lists runs and schedules that cannot be read.
pub(super) async fn list_unreadable(
    connection: &Connection,
    format: i32,
) -> Result<Vec<UnreadableEntry>, EngineError> {
    const DOING: &str = "list what cannot be read";
    let mut found = Vec::new();
    let statement = "SELECT r.*, q.format FROM zk_fleet.runs r JOIN zk_fleet.queues q ON q.number = r.queue ORDER BY r.seq";
    for row in &connection.query(DOING, statement, &[]).await? {
        let stored: i32 = column(DOING, row, "format")?;
        let why = match run_of_row(row) {
            _ if stored > format => {
                format!("a newer zk wrote it (format {stored}, this zk reads up to {format})")
            }
            Ok(_) => continue,
            Err(error) => error.to_string(),
        };
        found.push(UnreadableEntry { kind: UnreadableKind::Run, id: column(DOING, row, "run")?, why });
    }
    for row in
        &connection.query(DOING, "SELECT name, plan FROM zk_fleet.schedules ORDER BY name", &[]).await?
    {
        if let Err(error) = from_json::<Schedule>(DOING, column(DOING, row, "plan")?) {
            let id = column(DOING, row, "name")?;
            found.push(UnreadableEntry { kind: UnreadableKind::Schedule, id, why: error.to_string() });
        }
    }
    Ok(found)
}

fn run_of_row(row: &Row) -> Result<EngineRun, EngineError> {
    const DOING: &str = "read a run";
    let json = |name| column::<Option<Json<serde_json::Value>>>(DOING, row, name);
    let damaged = |error: serde_json::Error| failed(DOING, format!("a row is damaged: {error}"));
    let worker: Option<&str> = column(DOING, row, "worker")?;
    Ok(EngineRun {
        job: from_json(DOING, column(DOING, row, "job")?)?,
        phase: phase_of(DOING, column(DOING, row, "phase")?)?,
        wait: json("wait")?.map(|Json(wait)| serde_json::from_value(wait)).transpose().map_err(damaged)?,
        worker: worker.map(EngineName::new).transpose()?,
        token: token_of(column(DOING, row, "token")?),
        legs: token_of(column(DOING, row, "legs")?),
        failure: json("failure")?
            .map(|Json(why)| serde_json::from_value(why))
            .transpose()
            .map_err(damaged)?,
        is_cancelling: column(DOING, row, "is_cancelled")?,
        submitted: column(DOING, row, "submitted")?,
        changed: column(DOING, row, "changed")?,
    })
}

pub(super) fn phase_of(doing: &'static str, text: &str) -> Result<RunPhase, EngineError> {
    from_json(doing, &format!("\"{text}\""))
}

/// Returns the time of the database.
pub(super) async fn server_time(connection: &Connection) -> Result<SystemTime, EngineError> {
    const DOING: &str = "read the clock of PostgreSQL";
    column(DOING, &connection.query_one(DOING, "SELECT clock_timestamp() AS now", &[]).await?, "now")
}

pub(super) async fn put_schedule(connection: &Connection, plan: &Schedule) -> Result<(), EngineError> {
    const DOING: &str = "store the schedule";
    let now = server_time(connection).await?;
    // A schedule whose name leaves no room for ids is refused here, not when a run is due.
    plan.job_at(now)?;
    connection
        .query(
            DOING,
            "INSERT INTO zk_fleet.schedules (name, plan, due) VALUES ($1, $2, $3)
             ON CONFLICT (name) DO UPDATE SET plan = $2, due = $3",
            &[
                (&plan.name.as_str(), Type::TEXT),
                (&to_json(DOING, plan)?, Type::TEXT),
                (&plan.times.next(now), Type::TIMESTAMPTZ),
            ],
        )
        .await
        .map(drop)
}

pub(super) async fn list_schedules(connection: &Connection) -> Result<Vec<Schedule>, EngineError> {
    const DOING: &str = "list the schedules";
    let rows = connection.query(DOING, "SELECT plan FROM zk_fleet.schedules ORDER BY name", &[]).await?;
    // Rows that cannot be read are listed apart.
    rows.iter()
        .map(|row| column(DOING, row, "plan"))
        .filter_map(|plan| match plan {
            Ok(text) => from_json(DOING, text).ok().map(Ok),
            Err(error) => Some(Err(error)),
        })
        .collect()
}
