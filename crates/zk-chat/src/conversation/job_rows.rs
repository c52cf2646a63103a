//! Rows of background commands in the view.

use std::sync::Arc;

use zk_core::kernel::{BoxError, Plugin, Scope};
use zk_core::service::Exit;
use zk_tools::{JobInfo, JobPhase, Jobs};
use zk_view::{JobRow, JobState, Text, ViewDriver};

/// Updates the view's list of background commands.
#[derive(Debug)]
pub struct JobRows(pub ViewDriver);

impl Plugin for JobRows {
    fn name(&self) -> &'static str {
        "job-rows"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let Some(jobs) = scope.bus().and_then(|bus| bus.service::<Jobs>()) else { return Ok(()) };
        scope.spawn(follow_jobs(jobs, self.0.clone()));
        Ok(())
    }
}

async fn follow_jobs(jobs: Arc<Jobs>, view: ViewDriver) {
    let mut changes = jobs.changes();
    // Some commands may have been moved to the background before.
    if !jobs.list().is_empty() {
        changes.mark_changed();
    }
    while changes.changed().await.is_ok() {
        let rows: Vec<JobRow> = jobs.list().iter().map(job_row).collect();
        view.set_jobs(&rows);
    }
}

fn job_row(job: &JobInfo) -> JobRow {
    let state = match &job.phase {
        JobPhase::Running => JobState::Running,
        JobPhase::Ending => JobState::Ending,
        JobPhase::Lost { why } => JobState::Ended { how: Text::line(&format!("lost: {why}")), failed: true },
        JobPhase::Ended { exit, elapsed, .. } => {
            let how = match exit {
                Exit::Code(code) => format!("exit code {code}"),
                Exit::Signal(signal) => format!("killed by signal {signal}"),
                Exit::TimedOut => "timed out".to_owned(),
                Exit::Stopped => "killed".to_owned(),
            };
            let how = Text::line(&format!("{how} after {:.1} s", elapsed.as_secs_f64()));
            JobState::Ended { how, failed: *exit != Exit::Code(0) }
        }
    };
    JobRow { id: Text::line(&job.id), command: Text::line(&job.command), state, detached: job.detached }
}
