use zk_view::{Activity, JobRow, JobState, Status, Text};

use super::{counted, rounded};
use crate::row::{Row, Style};

/// Commands in the background that are shown.
const MAX_JOB_ROWS: usize = 3;

/// The commands that run in the background.
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

/// Line of a run that is being stopped.
const STOPPING: &str = "stopping …";

/// Words for what goes on now.
struct ActivityWords {
    /// Activity, and for how long it has gone on.
    doing: String,
    /// Details of the activity, behind a count of tokens where lines have one.
    detail: String,
}

impl ActivityWords {
    /// Words for an activity that has gone on for `ms`; Enter ends the wait for another attempt if somebody `can_hurry`.
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
                silence(model, *idle_ms, *limit_ms, *keep_alives)
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

/// The silence of a server in words.
pub(crate) fn silence(model: &Text, idle_ms: u64, limit_ms: u64, keep_alives: bool) -> String {
    let what = if keep_alives { ", only keep-alives" } else { "" };
    format!("waiting for {model}, {} s{what} (limit {})", idle_ms / 1000, rounded(limit_ms))
}

/// The tokens that the model wrote, behind something else.
fn written(tokens: u64) -> String {
    if tokens == 0 { String::new() } else { format!(" · {tokens} tokens") }
}

/// Describes what goes on now in a line of its own, whose hint comes first, so that a narrow terminal cuts it last; nothing
/// where what happens is in sight.
#[must_use]
pub fn status_line(status: &Status, stops: &str, has_keys: bool) -> Option<String> {
    let tokens = match &status.activity {
        Activity::Idle | Activity::Answering | Activity::Asking | Activity::Retrying { left_ms: 0, .. } => {
            return None;
        }
        Activity::Stopping => return Some(STOPPING.to_owned()),
        // They are about a server that writes nothing.
        Activity::Starting | Activity::Silent { .. } | Activity::Retrying { .. } => String::new(),
        Activity::Compacting { .. }
        | Activity::Waiting { .. }
        | Activity::Thinking
        | Activity::Writing { .. }
        | Activity::Running { .. } => written(status.tokens_written),
    };
    let words = ActivityWords::of(&status.activity, status.activity_ms, has_keys);
    Some(format!("{stops} stops · {}{tokens}{}", words.doing, words.detail))
}
