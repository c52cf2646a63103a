//! Queries and changes of runs, each within a transaction of the caller.

use std::collections::BTreeMap;
use std::time::SystemTime;

use rusqlite::{Connection, OptionalExtension, Row, ToSql, named_params, params};
use zk_core::model::{RunId, SessionId};
use zk_core::service::{
    EngineError, EngineName, EngineRun, JOB_FORMAT, Job, LegEnd, LegFailure, RunFilter, RunPhase, Take,
    UnreadableEntry, UnreadableKind, Wait,
};

use crate::clock::{date_ms, date_of, duration_ms, lease_now_ms};
use crate::worker::{LegId, MAX_LEG_DEATHS, Renewal, Settlement, TakenLeg, count_losses, settle_leg};

/// Retention time of finished runs in the list, in milliseconds.
const FINISHED_KEPT_MS: i64 = 30 * 24 * 3600 * 1000;

type Changed<T> = rusqlite::Result<Result<T, EngineError>>;

fn now_ms() -> i64 {
    date_ms(SystemTime::now())
}

/// Converts a value to JSON text. None of the stored types can fail to be JSON.
fn to_json<T: serde::Serialize>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

fn from_json<T: serde::de::DeserializeOwned>(column: usize, text: &str) -> rusqlite::Result<T> {
    serde_json::from_str(text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, error.into())
    })
}

fn parse_phase(column: usize, text: &str) -> rusqlite::Result<RunPhase> {
    from_json(column, &format!("\"{text}\""))
}

pub(crate) fn submit_run(conn: &Connection, job: &Job) -> Changed<()> {
    let text = to_json(job)?;
    let known: Option<String> = conn
        .query_row("SELECT job FROM runs WHERE run = ?1", [job.run().as_str()], |row| row.get(0))
        .optional()?;
    match known {
        Some(known) if known == text => return Ok(Ok(())),
        Some(_) => return Ok(Err(EngineError::OtherJob(job.run().clone()))),
        None => {}
    }
    if let Some((run, phase)) = unfinished_run_of(conn, job.session())? {
        return Ok(Err(EngineError::SessionTaken { session: job.session().clone(), run, phase }));
    }
    let parent = job.parent().map(|parent| parent.run.as_str());
    let is_orphan: bool = match parent {
        None => false,
        Some(parent) => conn
            .query_row(
                "SELECT phase = 'cancelled' OR is_cancelled FROM runs WHERE run = ?1",
                [parent],
                |row| row.get(0),
            )
            .optional()?
            .unwrap_or(false),
    };
    let phase = if is_orphan { RunPhase::Cancelled } else { RunPhase::Queued };
    let queue = job.queue().map_or(Take::DEFAULT_QUEUE, EngineName::as_str);
    conn.execute(
        "INSERT INTO runs(run, format, job, queue, tenant, parent, priority, phase, submitted_ms, changed_ms)
         VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9)",
        params![
            job.run().as_str(),
            JOB_FORMAT,
            text,
            queue,
            job.tenant().map(EngineName::as_str),
            parent,
            job.priority(),
            phase.as_str(),
            now_ms()
        ],
    )?;
    Ok(Ok(()))
}

/// Returns the unfinished run of a session, also one whose job this version cannot read.
fn unfinished_run_of(conn: &Connection, session: &SessionId) -> rusqlite::Result<Option<(RunId, RunPhase)>> {
    conn.prepare_cached(
        "SELECT run, phase FROM runs WHERE session = ?1 AND phase IN ('queued', 'running', 'parked')",
    )?
    .query_row([session.as_str()], |row| {
        Ok((RunId::from(row.get::<_, String>(0)?), parse_phase(1, &row.get::<_, String>(1)?)?))
    })
    .optional()
}

pub(crate) fn wake_run(conn: &Connection, run: &RunId) -> Changed<()> {
    let Some(phase) = phase_of_run(conn, run)? else { return Ok(Err(EngineError::UnknownRun(run.clone()))) };
    match phase {
        RunPhase::Done | RunPhase::Failed | RunPhase::Cancelled => {
            return Ok(Err(EngineError::Finished { run: run.clone(), phase }));
        }
        RunPhase::Queued => {}
        RunPhase::Parked => queue_run(conn, run)?,
        RunPhase::Running => {
            conn.execute("UPDATE runs SET is_woken = 1 WHERE run = ?1", [run.as_str()])?;
        }
    }
    Ok(Ok(()))
}

fn phase_of_run(conn: &Connection, run: &RunId) -> rusqlite::Result<Option<RunPhase>> {
    conn.query_row("SELECT phase FROM runs WHERE run = ?1", [run.as_str()], |row| {
        parse_phase(0, &row.get::<_, String>(0)?)
    })
    .optional()
}

fn queue_run(conn: &Connection, run: &RunId) -> rusqlite::Result<()> {
    conn.execute(
        "UPDATE runs SET phase = 'queued', wait = NULL, until_ms = NULL, changed_ms = ?2 WHERE run = ?1",
        params![run.as_str(), now_ms()],
    )?;
    Ok(())
}

pub(crate) fn cancel_run(conn: &Connection, run: &RunId) -> Changed<()> {
    if phase_of_run(conn, run)?.is_none() {
        return Ok(Err(EngineError::UnknownRun(run.clone())));
    }
    let mut select = conn.prepare_cached(
        "WITH RECURSIVE tree(run) AS (
             SELECT ?1 UNION SELECT runs.run FROM runs JOIN tree ON runs.parent = tree.run
         ) SELECT run, phase FROM runs WHERE run IN tree",
    )?;
    let rows = select.query_map([run.as_str()], |row| {
        let run: String = row.get(0)?;
        Ok((RunId::from(run), parse_phase(1, &row.get::<_, String>(1)?)?))
    })?;
    for row in rows.collect::<rusqlite::Result<Vec<_>>>()? {
        let (run, phase) = row;
        match phase {
            RunPhase::Queued | RunPhase::Parked => end_run(conn, &run, RunPhase::Cancelled, None)?,
            RunPhase::Running => {
                conn.execute(
                    "UPDATE runs SET is_cancelled = 1, changed_ms = ?2 WHERE run = ?1",
                    params![run.as_str(), now_ms()],
                )?;
            }
            RunPhase::Done | RunPhase::Failed | RunPhase::Cancelled => {}
        }
    }
    Ok(Ok(()))
}

/// Ends a run, and queues its parent if that waited for this end.
fn end_run(
    conn: &Connection,
    run: &RunId,
    phase: RunPhase,
    failure: Option<&LegFailure>,
) -> rusqlite::Result<()> {
    let failure = failure.map(to_json).transpose()?;
    conn.execute(
        "UPDATE runs SET phase = ?2, failure = ?3, wait = NULL, until_ms = NULL, lease_until = NULL,
             is_woken = 0, is_cancelled = 0, changed_ms = ?4 WHERE run = ?1",
        params![run.as_str(), phase.as_str(), failure, now_ms()],
    )?;
    let parent: Option<String> =
        conn.query_row("SELECT parent FROM runs WHERE run = ?1", [run.as_str()], |row| row.get(0))?;
    let Some(parent) = parent.map(RunId::from) else { return Ok(()) };
    let wait: Option<Option<String>> = conn
        .query_row("SELECT wait FROM runs WHERE run = ?1 AND phase = 'parked'", [parent.as_str()], |row| {
            row.get(0)
        })
        .optional()?;
    let Some(wait) = wait.flatten() else { return Ok(()) };
    match from_json::<Wait>(0, &wait) {
        Ok(Wait::Children(children)) if are_finished(conn, &children)? => queue_run(conn, &parent),
        Ok(Wait::Children(_) | Wait::Answer(_) | Wait::Mail | Wait::Until(_) | Wait::Budget) => Ok(()),
        // A newer version wrote the wait: the parent looks for itself.
        Err(_) => queue_run(conn, &parent),
    }
}

/// Whether all runs of the list have ended. Unknown runs count as ended.
fn are_finished(conn: &Connection, runs: &[RunId]) -> rusqlite::Result<bool> {
    conn.query_row(
        "SELECT COUNT(*) = 0 FROM runs WHERE run IN (SELECT value FROM json_each(?1))
         AND phase IN ('queued', 'running', 'parked')",
        [to_json(&runs)?],
        |row| row.get(0),
    )
}

/// Condition of a run that this worker takes, of the queues in `?2`.
macro_rules! is_ready {
    () => {
        "phase = 'queued' AND format <= ?1 AND (?2 = '[]' OR queue IN (SELECT value FROM json_each(?2)))"
    };
}

fn queues_of(take: &Take) -> rusqlite::Result<String> {
    to_json(&take.queues.iter().map(EngineName::as_str).collect::<Vec<_>>())
}

/// Whether [`take_runs`] would change anything for this worker. Needs no write lock.
pub(crate) fn is_work_due(conn: &Connection, take: &Take) -> rusqlite::Result<bool> {
    conn.prepare_cached(concat!(
        "SELECT EXISTS(SELECT 1 FROM runs WHERE ",
        is_ready!(),
        ")
             OR EXISTS(SELECT 1 FROM runs WHERE phase = 'parked' AND until_ms <= ?3)
             OR EXISTS(SELECT 1 FROM runs WHERE phase = 'running'
                 AND (lease_until <= ?4 OR lease_until > ?4 + lease_ms))
             OR EXISTS(SELECT 1 FROM schedules WHERE next_ms <= ?3)"
    ))?
    .query_row(params![JOB_FORMAT, queues_of(take)?, now_ms(), lease_now_ms()], |row| row.get(0))
}

/// Takes up to `most` runs for legs of this worker.
pub(crate) fn take_runs(conn: &Connection, take: &Take, most: usize) -> Changed<Vec<TakenLeg>> {
    let (date, lease_now) = (now_ms(), lease_now_ms());
    conn.execute(
        "UPDATE runs SET phase = 'queued', wait = NULL, until_ms = NULL WHERE phase = 'parked' AND until_ms <= ?1",
        [date],
    )?;
    // The clock of leases restarts with the machine, so that a lease that seems too long has expired.
    let mut expired = conn.prepare_cached(
        "SELECT run, deaths, is_cancelled FROM runs WHERE phase = 'running'
         AND (lease_until <= ?1 OR lease_until > ?1 + lease_ms)",
    )?;
    let expired = expired.query_map([lease_now], |row| {
        Ok((RunId::from(row.get::<_, String>(0)?), row.get::<_, u32>(1)?, row.get::<_, bool>(2)?))
    })?;
    for row in expired.collect::<rusqlite::Result<Vec<_>>>()? {
        match row {
            (run, _, true) => end_run(conn, &run, RunPhase::Cancelled, None)?,
            (run, deaths, false) if deaths + 1 >= MAX_LEG_DEATHS => {
                end_run(conn, &run, RunPhase::Failed, Some(&LegFailure::Deaths(deaths + 1)))?;
            }
            (run, _, false) => {
                conn.execute(
                    "UPDATE runs SET phase = 'queued', deaths = deaths + 1 WHERE run = ?1",
                    [run.as_str()],
                )?;
            }
        }
    }
    let mut ready = conn.prepare_cached(concat!(
        "SELECT run, job FROM runs WHERE ",
        is_ready!(),
        " ORDER BY priority DESC, seq LIMIT ?3"
    ))?;
    let found = ready
        .query_map(params![JOB_FORMAT, queues_of(take)?, i64::try_from(most).unwrap_or(i64::MAX)], |row| {
            Ok((row.get::<_, String>(0)?, from_json::<Job>(1, &row.get::<_, String>(1)?)))
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let mut ready = Vec::with_capacity(found.len());
    for (run, job) in found {
        match job {
            Ok(job) => ready.push((run, job)),
            // One damaged entry keeps no other run from its leg.
            Err(_) => end_run(conn, &run.into(), RunPhase::Failed, Some(&LegFailure::Unreadable))?,
        }
    }
    if ready.is_empty() {
        return Ok(Ok(Vec::new()));
    }
    let lease = duration_ms(take.lease);
    // Tokens grow over all runs, because a store compares them per session, and a session may have several
    // runs. None is before the date, so that those of a new file exceed those of a lost file.
    let last: i64 = conn.query_row("SELECT COALESCE(MAX(token), 0) FROM runs", [], |row| row.get(0))?;
    let mut last = last.max(date);
    let mut taken = Vec::with_capacity(ready.len());
    for (run, job) in ready {
        last += 1;
        let attempt: i64 = conn.prepare_cached(
            "UPDATE runs SET phase = 'running', token = ?6, legs = legs + 1, worker = ?2, lease_until = ?3, lease_ms = ?4,
                 is_woken = 0, wait = NULL, until_ms = NULL, changed_ms = ?5 WHERE run = ?1
             RETURNING legs",
        )?
        .query_row(
            params![run, take.worker.as_str(), lease_now.saturating_add(lease), lease, date, last],
            |row| row.get(0),
        )?;
        let (token, attempt) =
            (u64::try_from(last).unwrap_or_default(), u64::try_from(attempt).unwrap_or_default());
        taken.push(TakenLeg { job, token, attempt });
    }
    Ok(Ok(taken))
}

/// Counts the running legs of each worker, and those whose lease has expired.
pub(crate) fn count_legs(conn: &Connection) -> rusqlite::Result<(BTreeMap<String, u64>, u64)> {
    let mut select = conn.prepare(
        "SELECT worker, lease_until <= ?1 OR lease_until > ?1 + lease_ms FROM runs WHERE phase = 'running'",
    )?;
    let rows = select.query_map([lease_now_ms()], |row| {
        Ok((
            row.get::<_, Option<String>>(0)?.unwrap_or_default(),
            row.get::<_, Option<bool>>(1)?.unwrap_or(true),
        ))
    })?;
    let (mut legs, mut expired) = (BTreeMap::new(), 0);
    for row in rows.collect::<rusqlite::Result<Vec<_>>>()? {
        let (worker, is_expired) = row;
        *legs.entry(worker).or_default() += 1;
        expired += u64::from(is_expired);
    }
    Ok((legs, expired))
}

/// Renews the lease of a leg.
pub(crate) fn renew_lease(conn: &Connection, leg: &LegId, lease: i64) -> rusqlite::Result<Renewal> {
    let is_cancelled: Option<bool> = conn
        .prepare_cached(
            "UPDATE runs SET lease_until = ?3 WHERE run = ?1 AND token = ?2 AND phase = 'running' RETURNING is_cancelled",
        )?
        .query_row(
            params![leg.run.as_str(), token_to_sql(leg.token), lease_now_ms().saturating_add(lease)],
            |row| row.get(0),
        )
        .optional()?;
    Ok(match is_cancelled {
        None => Renewal::Lost,
        Some(false) => Renewal::Held,
        Some(true) => Renewal::Cancelled,
    })
}

/// Returns the running legs of a worker whose runs are being cancelled.
pub(crate) fn cancelled_legs(conn: &Connection, worker: &EngineName) -> rusqlite::Result<Vec<LegId>> {
    let mut select = conn.prepare_cached(
        "SELECT run, token FROM runs WHERE phase = 'running' AND is_cancelled AND worker = ?1",
    )?;
    let rows = select.query_map([worker.as_str()], |row| {
        let token = u64::try_from(row.get::<_, i64>(1)?).unwrap_or_default();
        Ok(LegId { run: RunId::from(row.get::<_, String>(0)?), token })
    })?;
    rows.collect()
}

/// Expires the leases that an earlier process of this worker left, and deletes finished runs after their
/// retention time.
pub(crate) fn expire_left_leases(conn: &Connection, worker: &EngineName) -> rusqlite::Result<()> {
    conn.execute(
        "UPDATE runs SET lease_until = 0 WHERE phase = 'running' AND worker = ?1",
        [worker.as_str()],
    )?;
    conn.execute(
        "DELETE FROM runs WHERE phase IN ('done', 'failed', 'cancelled') AND changed_ms < ?1
         AND token < (SELECT MAX(token) FROM runs)",
        [now_ms() - FINISHED_KEPT_MS],
    )?;
    Ok(())
}

/// Records the end of a leg; returns false if another worker had the run by then.
pub(crate) fn end_leg(conn: &Connection, leg: &LegId, end: &LegEnd) -> Changed<bool> {
    let run = &leg.run;
    let row: Option<(bool, bool, u32)> = conn
        .query_row(
            "SELECT is_woken, is_cancelled, deaths FROM runs WHERE run = ?1 AND token = ?2 AND phase = 'running'",
            params![run.as_str(), token_to_sql(leg.token)],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .optional()?;
    let Some((is_woken, is_cancelled, losses)) = row else { return Ok(Ok(false)) };
    let losses = count_losses(end, losses);
    conn.execute(
        "UPDATE runs SET deaths = ?2, lease_until = NULL WHERE run = ?1",
        params![run.as_str(), losses],
    )?;
    match settle_leg(end, losses) {
        // A wake of a run that was about to end is for one more leg.
        Settlement::End(RunPhase::Done, _) if is_woken && !is_cancelled => queue_run(conn, run)?,
        Settlement::End(phase, failure) => end_run(conn, run, phase, failure.as_ref())?,
        Settlement::Queue | Settlement::Pause(_) | Settlement::Park(_) if is_cancelled => {
            end_run(conn, run, RunPhase::Cancelled, None)?;
        }
        Settlement::Queue => queue_run(conn, run)?,
        Settlement::Pause(pause) => park_run(conn, run, &Wait::Until(SystemTime::now() + pause))?,
        Settlement::Park(_) if is_woken => queue_run(conn, run)?,
        Settlement::Park(wait) => park_run(conn, run, &wait)?,
    }
    Ok(Ok(true))
}

fn park_run(conn: &Connection, run: &RunId, wait: &Wait) -> rusqlite::Result<()> {
    let until = match wait {
        Wait::Until(time) => Some(date_ms(*time)),
        Wait::Children(runs) if are_finished(conn, runs)? => return queue_run(conn, run),
        Wait::Answer(_) | Wait::Mail | Wait::Children(_) | Wait::Budget => None,
    };
    conn.execute(
        "UPDATE runs SET phase = 'parked', wait = ?2, until_ms = ?3, changed_ms = ?4 WHERE run = ?1",
        params![run.as_str(), to_json(wait)?, until, now_ms()],
    )?;
    Ok(())
}

fn token_to_sql(token: u64) -> i64 {
    i64::try_from(token).unwrap_or(i64::MAX)
}

pub(crate) fn list_runs(conn: &Connection, filter: &RunFilter) -> rusqlite::Result<Vec<EngineRun>> {
    let phases: Vec<&str> = filter.phases.iter().map(|phase| phase.as_str()).collect();
    let phases = to_json(&phases)?;
    let limit = filter.limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
    let named: &[(&str, &dyn ToSql)] = named_params! {
        ":run": filter.run.as_ref().map(RunId::as_str),
        ":prefix": filter.run_prefix,
        ":queue": filter.queue.as_ref().map(EngineName::as_str),
        ":tenant": filter.tenant.as_ref().map(EngineName::as_str),
        ":session": filter.session.as_ref().map(SessionId::as_str),
        ":parent": filter.parent.as_ref().map(RunId::as_str),
        ":phases": phases,
        ":limit": limit,
        ":format": JOB_FORMAT,
    };
    let mut select = conn.prepare_cached(
        "SELECT job, phase, wait, worker, token, legs, failure, is_cancelled, submitted_ms, changed_ms FROM runs
         WHERE (:run IS NULL OR run = :run) AND (:prefix IS NULL OR substr(run, 1, length(:prefix)) = :prefix)
             AND (:queue IS NULL OR queue = :queue) AND (:tenant IS NULL OR tenant = :tenant)
             AND (:parent IS NULL OR parent = :parent) AND (:session IS NULL OR session = :session)
             AND (:phases = '[]' OR phase IN (SELECT value FROM json_each(:phases)))
             AND format <= :format
         ORDER BY seq DESC LIMIT :limit",
    )?;
    let rows = select.query_map(named, |row| Ok(run_of_row(row)))?;
    let rows = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    let mut runs: Vec<EngineRun> = rows.into_iter().filter_map(Result::ok).collect();
    runs.reverse();
    Ok(runs)
}

/// Lists the runs that [`list_runs`] leaves out, because this version cannot read them.
pub(crate) fn list_unreadable(conn: &Connection) -> rusqlite::Result<Vec<UnreadableEntry>> {
    let columns = "job, phase, wait, worker, token, legs, failure, is_cancelled, submitted_ms, changed_ms";
    let mut select = conn.prepare(&format!("SELECT {columns}, run, format FROM runs ORDER BY seq"))?;
    let rows = select.query_map([], |row| {
        let (id, format): (String, i64) = (row.get(10)?, row.get(11)?);
        let why = match run_of_row(row) {
            _ if format > i64::from(JOB_FORMAT) => {
                format!("a newer zk wrote it (format {format}, this zk reads up to {JOB_FORMAT})")
            }
            Ok(_) => return Ok(None),
            Err(error) => error.to_string(),
        };
        Ok(Some(UnreadableEntry { kind: UnreadableKind::Run, id, why }))
    })?;
    rows.filter_map(Result::transpose).collect()
}

fn run_of_row(row: &Row<'_>) -> rusqlite::Result<EngineRun> {
    let text = |column| row.get::<_, Option<String>>(column);
    let count = |column| row.get::<_, i64>(column).map(|count| u64::try_from(count).unwrap_or_default());
    Ok(EngineRun {
        job: from_json(0, &row.get::<_, String>(0)?)?,
        phase: parse_phase(1, &row.get::<_, String>(1)?)?,
        wait: text(2)?.map(|wait| from_json(2, &wait)).transpose()?,
        worker: text(3)?.map(|worker| from_json(3, &to_json(&worker)?)).transpose()?,
        token: count(4)?,
        legs: count(5)?,
        failure: text(6)?.map(|failure| from_json(6, &failure)).transpose()?,
        is_cancelling: row.get(7)?,
        submitted: date_of(row.get(8)?),
        changed: date_of(row.get(9)?),
    })
}
