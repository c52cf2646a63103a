use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::types::{Json, Type};
use zk_core::model::RunId;
use zk_core::service::{
    EngineError, EngineName, JOB_FORMAT, LegEnd, LegFailure, RunPhase, Schedule, Take, Wait,
};
use zk_engine::{
    LegId, LegSource, Looked, MAX_LEG_DEATHS, Renewal, Settlement, TakenLeg, count_losses, settle_leg,
};

use super::connection::{Connection, Param, failed};
use super::rows::{column, from_json, queue_of, server_time, to_json, token_of, token_to_sql};

/// Polling interval of the database, which a notification ends early.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Pause before a schedule that cannot be read is looked at again.
const UNREADABLE_PAUSE: Duration = Duration::from_secs(3600);

/// Newest format of jobs as the database stores it.
pub(super) const STORED_FORMAT: i32 = JOB_FORMAT.cast_signed();

/// Legs of a worker in the database.
pub(super) struct PostgresSource {
    pub(super) connection: Connection,
}

/// Length of a claim in Absurd's whole seconds.
fn claim_seconds(lease: Duration) -> i32 {
    let seconds = lease.as_secs() + u64::from(lease.subsec_nanos() > 0);
    i32::try_from(seconds.max(1)).unwrap_or(i32::MAX)
}

fn queue_names(take: &Take) -> Vec<&str> {
    take.queues.iter().map(EngineName::as_str).collect()
}

impl PostgresSource {
    /// Submits a run for each schedule that is due.
    async fn fire_schedules(&self) -> Result<(), EngineError> {
        const DOING: &str = "submit the runs of schedules";
        let statement =
            "SELECT name, plan, due FROM zk_fleet.schedules WHERE due <= clock_timestamp() ORDER BY due";
        let due = self.connection.query(DOING, statement, &[]).await?;
        if due.is_empty() {
            return Ok(());
        }
        let now = server_time(&self.connection).await?;
        for row in &due {
            let (name, text, time): (&str, &str, SystemTime) =
                (column(DOING, row, "name")?, column(DOING, row, "plan")?, column(DOING, row, "due")?);
            let planned = from_json::<Schedule>(DOING, text).and_then(|plan| Ok((plan.job_at(time)?, plan)));
            let next = planned.as_ref().map_or(now + UNREADABLE_PAUSE, |(_, plan)| plan.times.next(now));
            let of_schedule: [Param<'_>; 4] = [
                (&name, Type::TEXT),
                (&text, Type::TEXT),
                (&time, Type::TIMESTAMPTZ),
                (&next, Type::TIMESTAMPTZ),
            ];
            let Ok((job, _)) = &planned else {
                // One schedule of a newer version keeps no other from its runs.
                let statement = "SELECT zk_fleet.pass_schedule($1, $2, $3, $4)";
                self.connection.query(DOING, statement, &of_schedule).await?;
                continue;
            };
            let json = to_json(DOING, job)?;
            let of_run: [Param<'_>; 5] = [
                (&job.run().as_str(), Type::TEXT),
                (&job.session().as_str(), Type::TEXT),
                (&STORED_FORMAT, Type::INT4),
                (&json, Type::TEXT),
                (&queue_of(job), Type::TEXT),
            ];
            // The time of a run that is refused passes, as that of an unreadable schedule does.
            let statement = "SELECT zk_fleet.fire_schedule($1, $2, $3, $4, $5, $6, $7, $8, $9)";
            self.connection.query(DOING, statement, &[&of_schedule[..], &of_run].concat()).await?;
        }
        Ok(())
    }
}

/// Returns the leg of a taken row, or the run and token of one whose job cannot be read.
fn leg_of_row(row: &Row) -> Result<Result<TakenLeg, LegId>, EngineError> {
    const DOING: &str = "take runs";
    let token = token_of(column(DOING, row, "taken_token")?);
    let attempt = token_of(column(DOING, row, "taken_leg")?);
    let run = RunId::from(column::<&str>(DOING, row, "taken_run")?);
    let job = from_json(DOING, column(DOING, row, "taken_job")?);
    Ok(job.map(|job| TakenLeg { job, token, attempt }).map_err(|_| LegId { run, token }))
}

#[async_trait]
impl LegSource for PostgresSource {
    async fn look(&self, take: &Take) -> Result<Looked, EngineError> {
        const DOING: &str = "look for work";
        let row = self
            .connection
            .query_one(
                DOING,
                "SELECT * FROM zk_fleet.look($1, $2, $3)",
                &[
                    (&take.worker.as_str(), Type::TEXT),
                    (&queue_names(take), Type::TEXT_ARRAY),
                    (&STORED_FORMAT, Type::INT4),
                ],
            )
            .await?;
        let runs: Vec<&str> = column(DOING, &row, "cancelled_runs")?;
        let tokens: Vec<i64> = column(DOING, &row, "cancelled_tokens")?;
        let leg = |(run, token)| LegId { run: RunId::from(run), token: token_of(token) };
        Ok(Looked {
            is_draining: column(DOING, &row, "is_draining")?,
            is_due: column(DOING, &row, "is_due")?,
            cancelled: runs.into_iter().zip(tokens).map(leg).collect(),
        })
    }

    async fn take_legs(&self, take: &Take, most: usize) -> Result<Vec<TakenLeg>, EngineError> {
        const DOING: &str = "take runs";
        self.fire_schedules().await?;
        let rows = self
            .connection
            .query(
                DOING,
                "SELECT * FROM zk_fleet.take_runs($1, $2, $3, $4, $5, $6)",
                &[
                    (&take.worker.as_str(), Type::TEXT),
                    (&claim_seconds(take.lease), Type::INT4),
                    (&queue_names(take), Type::TEXT_ARRAY),
                    (&STORED_FORMAT, Type::INT4),
                    (&i32::try_from(most).unwrap_or(i32::MAX), Type::INT4),
                    (&MAX_LEG_DEATHS.cast_signed(), Type::INT4),
                ],
            )
            .await?;
        let (mut taken, mut damaged) = (Vec::with_capacity(rows.len()), Vec::new());
        for row in &rows {
            match leg_of_row(row)? {
                Ok(leg) => taken.push(leg),
                Err(leg) => damaged.push(leg),
            }
        }
        // One damaged row keeps no other run from its leg: its own run fails, if not now, then with the next claim.
        for leg in &damaged {
            let _ = self.end_leg(leg, &LegEnd::Failed(LegFailure::Unreadable)).await;
        }
        Ok(taken)
    }

    async fn renew_leases(
        &self,
        legs: Vec<LegId>,
        lease: Duration,
    ) -> Result<Vec<(LegId, Renewal)>, EngineError> {
        const DOING: &str = "renew leases";
        let runs: Vec<&str> = legs.iter().map(|leg| leg.run.as_str()).collect();
        let tokens: Vec<i64> = legs.iter().map(|leg| token_to_sql(leg.token)).collect();
        let rows = self
            .connection
            .query(
                DOING,
                "SELECT * FROM zk_fleet.renew_leases($1, $2, $3)",
                &[
                    (&runs, Type::TEXT_ARRAY),
                    (&tokens, Type::INT8_ARRAY),
                    (&claim_seconds(lease), Type::INT4),
                ],
            )
            .await?;
        let renewed = |row| {
            let run: &str = column(DOING, row, "renewed_run")?;
            let leg = LegId { run: RunId::from(run), token: token_of(column(DOING, row, "renewed_token")?) };
            let renewal = match column::<&str>(DOING, row, "outcome")? {
                "held" => Renewal::Held,
                "cancelled" => Renewal::Cancelled,
                "lost" => Renewal::Lost,
                other => return Err(failed(DOING, format!("`{other}` is no outcome of a renewal"))),
            };
            Ok((leg, renewal))
        };
        rows.iter().map(renewed).collect()
    }

    async fn end_leg(&self, leg: &LegId, end: &LegEnd) -> Result<(), EngineError> {
        const DOING: &str = "record the end of a leg";
        let of_leg: [Param<'_>; 2] =
            [(&leg.run.as_str(), Type::TEXT), (&token_to_sql(leg.token), Type::INT8)];
        let statement = "SELECT deaths FROM zk_fleet.runs WHERE run = $1 AND token = $2";
        let Some(row) = self.connection.query(DOING, statement, &of_leg).await?.into_iter().next() else {
            // Another worker has the run.
            return Ok(());
        };
        let losses: i32 = column(DOING, &row, "deaths")?;
        let losses = count_losses(end, u32::try_from(losses).unwrap_or_default());
        let change = LegChange::from(settle_leg(end, losses));
        self.connection
            .query(
                DOING,
                "SELECT zk_fleet.end_leg($1, $2, $3, $4, $5, $6, $7, $8)",
                &[
                    (&leg.run.as_str(), Type::TEXT),
                    (&token_to_sql(leg.token), Type::INT8),
                    (&change.kind, Type::TEXT),
                    (&change.phase.map(RunPhase::as_str), Type::TEXT),
                    (&change.failure.map(Json), Type::JSONB),
                    (&change.wait.map(Json), Type::JSONB),
                    (&change.seconds, Type::FLOAT8),
                    (&i32::try_from(losses).unwrap_or(i32::MAX), Type::INT4),
                ],
            )
            .await
            .map(drop)
    }

    async fn wait(&self) {
        let _ = tokio::time::timeout(POLL_INTERVAL, self.connection.wait_for_news()).await;
    }
}

/// Effect of a leg's end as the arguments of `zk_fleet.end_leg`.
#[derive(Default)]
struct LegChange {
    kind: &'static str,
    phase: Option<RunPhase>,
    failure: Option<LegFailure>,
    wait: Option<Wait>,
    /// Longest wait from now, since this machine and the server have two clocks.
    seconds: Option<f64>,
}

impl From<Settlement> for LegChange {
    fn from(settlement: Settlement) -> Self {
        let change = Self::default();
        match settlement {
            Settlement::End(phase, failure) => Self { kind: "end", phase: Some(phase), failure, ..change },
            Settlement::Queue => Self { kind: "queue", ..change },
            Settlement::Pause(pause) => Self {
                kind: "pause",
                wait: Some(Wait::Until(SystemTime::now() + pause)),
                seconds: Some(pause.as_secs_f64()),
                ..change
            },
            Settlement::Park(wait) => {
                let seconds = match &wait {
                    Wait::Until(time) => {
                        Some(time.duration_since(SystemTime::now()).unwrap_or_default().as_secs_f64())
                    }
                    Wait::Answer(_) | Wait::Mail | Wait::Children(_) | Wait::Budget => None,
                };
                Self { kind: "park", wait: Some(wait), seconds, ..change }
            }
        }
    }
}
