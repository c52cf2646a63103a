use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::name::check_name;
use super::{CronLine, EngineError, EngineName, Job, unix_ms};
use crate::model::{RunId, SessionId};

/// Shortest time between two runs of a schedule.
pub const MIN_SCHEDULE_INTERVAL: Duration = Duration::from_secs(1);

/// Length of a year without a leap day.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// Number of minutes in a day.
const DAY_MINUTES: u64 = 24 * 60;

/// Schedule by which an engine submits runs. If several times passed while no worker was serving, one run
/// makes up for all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// Name of the schedule.
    pub name: EngineName,
    /// Times of the runs.
    pub times: ScheduleTimes,
    /// Job of each run.
    pub job: ScheduledJob,
}

/// Times of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleTimes {
    /// At a regular interval of this length, at least [`MIN_SCHEDULE_INTERVAL`], serialised in milliseconds.
    #[serde(rename = "every_ms", alias = "every")]
    Every(#[serde(with = "unix_ms::length")] Duration),
    /// Daily, at this minute after midnight, UTC.
    DailyAt(u16),
    /// At the times of a cron line, in its time zone; UTC without one.
    Cron(CronLine),
}

/// Job of each run of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduledJob {
    /// Session that each run begins with a copy of.
    pub template: SessionId,
    /// Name of the preset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<EngineName>,
    /// Name of the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<EngineName>,
    /// Name of the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<EngineName>,
}

impl ScheduleTimes {
    /// Returns the first scheduled time after `now`.
    ///
    /// ```
    /// use std::time::{Duration, UNIX_EPOCH};
    /// use zk_core::service::ScheduleTimes;
    ///
    /// let (noon, evening) = (UNIX_EPOCH + Duration::from_secs(43_200), ScheduleTimes::DailyAt(18 * 60));
    /// assert_eq!(evening.next(noon), UNIX_EPOCH + Duration::from_secs(64_800));
    /// assert_eq!(ScheduleTimes::DailyAt(720).next(noon), noon + Duration::from_secs(86_400));
    /// ```
    #[must_use]
    pub fn next(&self, now: SystemTime) -> SystemTime {
        match self {
            Self::Every(pause) => now.checked_add((*pause).max(MIN_SCHEDULE_INTERVAL)).unwrap_or(now),
            // A line whose last time has passed is looked at again in a year, and submits nothing until then.
            Self::Cron(line) => line.next(now).unwrap_or(now + YEAR),
            Self::DailyAt(minute) => {
                let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
                let minute = u64::from(*minute) % DAY_MINUTES;
                let midnight = seconds - seconds % (DAY_MINUTES * 60);
                let today = midnight + minute * 60;
                let next = if today > seconds { today } else { today + DAY_MINUTES * 60 };
                UNIX_EPOCH + Duration::from_secs(next)
            }
        }
    }
}

impl Schedule {
    /// Creates the job of the run at `time`. Equal times give equal jobs, so that a run is submitted only
    /// once.
    ///
    /// # Errors
    /// [`EngineError::InvalidName`] when the name of the schedule leaves no room.
    pub fn job_at(&self, time: SystemTime) -> Result<Job, EngineError> {
        self.job_named(&time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis().to_string())
    }

    /// Creates the job of the run with this key, which is part of its ids. Equal keys give equal jobs.
    ///
    /// # Errors
    /// [`EngineError::InvalidName`] when the key is no name, or leaves no room.
    pub fn job_named(&self, key: &str) -> Result<Job, EngineError> {
        let run = RunId::from(format!("r_{}:{key}", self.name));
        let session = SessionId::from(format!("s_{}_{key}", self.name));
        check_name(self.job.template.as_str())?;
        let mut job = Job::new(run, session)?.with_template(self.job.template.clone())?;
        if let Some(preset) = &self.job.preset {
            job = job.with_preset(preset.clone());
        }
        if let Some(workspace) = &self.job.workspace {
            job = job.with_workspace(workspace.clone());
        }
        if let Some(queue) = &self.job.queue {
            job = job.with_queue(queue.clone());
        }
        Ok(job)
    }
}
