use zk_view::{Activity, JobRow, JobState, Status, Text};

use super::{counted, rounded};
use crate::row::{Row, Style};

/// Maximum number of shown background commands.
const MAX_JOB_ROWS: usize = 3;

/// Rows of the background commands.
pub(crate) fn job_rows(jobs: &[JobRow]) -> Vec<Row> {
    let running = || jobs.iter().filter(|job| !matches!(job.state, JobState::Ended { .. }));
    let row = |job: &JobRow| {
        let ending = if job.state == JobState::Ending { " · is asked to end" } else { "" };
        Row::of(Style::CYAN, "⚙ ").with(Style::DIM, &format!("{} · {}{ending}", job.id, job.command))
    };
    let mut rows: Vec<Row> = running().take(MAX_JOB_ROWS).map(row).collect();
    let hidden = running().count().saturating_sub(MAX_JOB_ROWS) as u64;
    if hidden > 0 {
        rows.push(Row::of(Style::DIM, &format!("  … {} · /jobs", counted(hidden, "more job"))));
    }
    rows
}

/// Status of a run that is being stopped.
const STOPPING: &str = "stopping …";

/// Texts about the present activity.
struct ActivityWords {
    /// Activity with its duration.
    doing: String,
    /// Details of the activity, after the count of tokens if there is one.
    detail: String,
}

impl ActivityWords {
    /// Describes an activity that has lasted `ms`. If `can_hurry` is set, Enter triggers a retry.
    fn of(activity: &Activity, ms: u64, can_hurry: bool) -> Self {
        let seconds = ms / 1000;
        let doing = match activity {
            Activity::Idle => String::new(),
            Activity::Stopping => STOPPING.to_owned(),
            Activity::Asking => "waiting for you".to_owned(),
            Activity::Starting => "starting".to_owned(),
            Activity::Compacting { before } => format!("making room: {before} tokens, {seconds} s"),
            Activity::Answering => format!("answering, {seconds} s"),
            Activity::Waiting { model } => format!("waiting for {model}, {seconds} s"),
            Activity::Silent { model, idle_ms, limit_ms, keep_alives } => {
                describe_silence(model, *idle_ms, *limit_ms, *keep_alives)
            }
            Activity::Retrying { left_ms: 0, .. } => "trying now".to_owned(),
            Activity::Retrying { attempt, left_ms, .. } => {
                let verb = if *attempt == 0 { "trying" } else { "trying again" };
                let hurry = if can_hurry { " · Enter tries now" } else { "" };
                let why = activity.failed_attempt().unwrap_or_default();
                format!("{verb} in {} s{hurry} · {why}", left_ms / 1000)
            }
            Activity::Thinking => format!("thinking, {seconds} s"),
            Activity::Writing { tool } => format!("writing a call of {tool}, {seconds} s"),
            Activity::Running { calls, batch } => {
                let first = calls.first().map_or("", |call| call.as_str());
                let more = match calls.len() {
                    0 | 1 => String::new(),
                    calls => format!(" and {} more", calls - 1),
                };
                let batch = batch.describe().map(|batch| format!(" · {batch}")).unwrap_or_default();
                return Self { doing: format!("{seconds} s"), detail: format!("{batch} · {first}{more}") };
            }
        };
        Self { doing, detail: String::new() }
    }
}

/// Describes the silence of a server.
pub(crate) fn describe_silence(model: &Text, idle_ms: u64, limit_ms: u64, keep_alives: bool) -> String {
    let what = if keep_alives { ", only keep-alives" } else { "" };
    format!("waiting for {model}, {} s{what} (limit {})", idle_ms / 1000, rounded(limit_ms))
}

/// Suffix with the number of written tokens.
fn written_suffix(tokens: u64) -> String {
    if tokens == 0 { String::new() } else { format!(" · {tokens} tokens") }
}

/// Status in one line; the hint comes first, so that a narrow terminal cuts it last. `None` if the activity
/// is visible elsewhere.
#[must_use]
pub fn status_line(status: &Status, stops: &str, has_keys: bool) -> Option<String> {
    let tokens = match &status.activity {
        Activity::Idle | Activity::Answering | Activity::Asking | Activity::Retrying { left_ms: 0, .. } => {
            return None;
        }
        Activity::Stopping => return Some(STOPPING.to_owned()),
        // Their texts already say that no tokens arrive.
        Activity::Starting | Activity::Silent { .. } | Activity::Retrying { .. } => String::new(),
        Activity::Compacting { .. }
        | Activity::Waiting { .. }
        | Activity::Thinking
        | Activity::Writing { .. }
        | Activity::Running { .. } => written_suffix(status.tokens_written),
    };
    let words = ActivityWords::of(&status.activity, status.activity_ms, has_keys);
    Some(format!("{stops} stops · {}{tokens}{}", words.doing, words.detail))
}
