//! Queries and changes of schedules and workers, each within a transaction of the caller.

use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OptionalExtension, params};
use zk_core::service::{EngineError, EngineName, Schedule, UnreadableEntry, UnreadableKind};

use crate::clock::date_ms;
use crate::error::is_refusal;
use crate::rows;

/// Pause before a worker tries again to read a schedule that it cannot read.
const UNREADABLE_PAUSE: Duration = Duration::from_secs(60);

fn conversion_error<E: Into<Box<dyn std::error::Error + Send + Sync>>>(error: E) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error.into())
}

pub(crate) fn put_schedule(conn: &Connection, plan: &Schedule) -> rusqlite::Result<Result<(), EngineError>> {
    let now = SystemTime::now();
    // A schedule whose name leaves no room for ids is refused here, not when a run is due.
    if let Err(error) = plan.job_at(now) {
        return Ok(Err(error));
    }
    let text = serde_json::to_string(plan).map_err(conversion_error)?;
    conn.execute(
        "INSERT INTO schedules(name, plan, next_ms) VALUES(?1, ?2, ?3)
         ON CONFLICT(name) DO UPDATE SET plan = ?2, next_ms = ?3",
        params![plan.name.as_str(), text, date_ms(plan.times.next(now))],
    )?;
    Ok(Ok(()))
}

pub(crate) fn remove_schedule(conn: &Connection, name: &EngineName) -> rusqlite::Result<bool> {
    Ok(conn.execute("DELETE FROM schedules WHERE name = ?1", [name.as_str()])? > 0)
}

pub(crate) fn list_schedules(conn: &Connection) -> rusqlite::Result<Vec<Schedule>> {
    let mut select = conn.prepare("SELECT plan FROM schedules ORDER BY name")?;
    let plans = select.query_map([], |row| row.get::<_, String>(0))?;
    let texts = plans.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(texts.iter().filter_map(|text| parse_schedule(text).ok()).collect())
}

/// Lists the schedules that [`list_schedules`] leaves out, because this version cannot read them.
pub(crate) fn list_unreadable(conn: &Connection) -> rusqlite::Result<Vec<UnreadableEntry>> {
    let mut select = conn.prepare("SELECT name, plan FROM schedules ORDER BY name")?;
    let rows = select.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
    let rows = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    let entry = |(id, plan): (String, String)| {
        let why = parse_schedule(&plan).err()?.to_string();
        Some(UnreadableEntry { kind: UnreadableKind::Schedule, id, why })
    };
    Ok(rows.into_iter().filter_map(entry).collect())
}

fn parse_schedule(text: &str) -> rusqlite::Result<Schedule> {
    serde_json::from_str(text).map_err(conversion_error)
}

/// Submits a run for each schedule that is due.
pub(crate) fn submit_due(conn: &Connection) -> rusqlite::Result<Result<(), EngineError>> {
    let now = SystemTime::now();
    let mut select = conn.prepare_cached("SELECT name, plan, next_ms FROM schedules WHERE next_ms <= ?1")?;
    let due = select.query_map([date_ms(now)], |row| {
        Ok((row.get::<_, String>(0)?, parse_schedule(&row.get::<_, String>(1)?), row.get::<_, i64>(2)?))
    })?;
    for row in due.collect::<rusqlite::Result<Vec<_>>>()? {
        let (name, plan, time) = row;
        let Ok(plan) = plan else {
            // One schedule of a newer version keeps no other from its runs.
            conn.execute(
                "UPDATE schedules SET next_ms = ?2 WHERE name = ?1",
                params![name, date_ms(now + UNREADABLE_PAUSE)],
            )?;
            continue;
        };
        conn.execute(
            "UPDATE schedules SET next_ms = ?2 WHERE name = ?1",
            params![plan.name.as_str(), date_ms(plan.times.next(now))],
        )?;
        let submitted = match plan.job_at(crate::clock::date_of(time)) {
            Ok(job) => rows::submit_run(conn, &job)?,
            Err(error) => Err(error),
        };
        match submitted {
            // The time of a run that is refused passes, as that of an unreadable schedule does.
            Err(error) if !is_refusal(&error) => return Ok(Err(error)),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(Ok(()))
}

pub(crate) fn begin_worker(conn: &Connection, name: &EngineName) -> rusqlite::Result<()> {
    conn.execute(
        "INSERT INTO workers(name, is_draining) VALUES(?1, 0) ON CONFLICT(name) DO UPDATE SET is_draining = 0",
        [name.as_str()],
    )?;
    rows::expire_left_leases(conn, name)
}

pub(crate) fn end_worker(conn: &Connection, name: &EngineName) -> rusqlite::Result<()> {
    conn.execute("DELETE FROM workers WHERE name = ?1", [name.as_str()])?;
    Ok(())
}

pub(crate) fn list_workers(conn: &Connection) -> rusqlite::Result<Vec<EngineName>> {
    let mut select = conn.prepare("SELECT name FROM workers ORDER BY name")?;
    let names = select.query_map([], |row| row.get::<_, String>(0))?;
    names.map(|name| EngineName::new(&name?).map_err(conversion_error)).collect()
}

pub(crate) fn ask_to_drain(conn: &Connection, name: &EngineName) -> rusqlite::Result<()> {
    conn.execute("UPDATE workers SET is_draining = 1 WHERE name = ?1", [name.as_str()])?;
    Ok(())
}

pub(crate) fn is_draining(conn: &Connection, name: &EngineName) -> rusqlite::Result<bool> {
    let mut select = conn.prepare_cached("SELECT is_draining FROM workers WHERE name = ?1")?;
    Ok(select.query_row([name.as_str()], |row| row.get(0)).optional()?.unwrap_or(false))
}
