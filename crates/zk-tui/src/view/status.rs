use zk_view::{Activity, Queued, Status};

use super::counted;
use crate::row::Row;
use crate::style::Style;

/// Texts of the queue that are shown.
const QUEUE: usize = 3;

/// What goes on now. Its hint comes first, so that a narrow terminal cuts it last.
pub(crate) fn status_row(status: &Status) -> Option<Row> {
    let seconds = status.activity_ms / 1000;
    let what = match &status.activity {
        Activity::Idle => return None,
        Activity::Stopping => return Some(Row::of(Style::DIM, "stopping …")),
        Activity::Asking => "waiting for you".to_owned(),
        Activity::Starting => "starting".to_owned(),
        Activity::Answering => format!("answering, {seconds} s"),
        Activity::Waiting { model } => format!("waiting for {model}, {seconds} s"),
        Activity::Silent { model, idle_ms, limit_ms, keep_alives } => {
            let what = if *keep_alives { ", only keep-alives" } else { "" };
            format!("waiting for {model}, {} s{what} (limit {})", idle_ms / 1000, rounded(*limit_ms))
        }
        Activity::Retrying { left_ms: 0, .. } => "trying now".to_owned(),
        Activity::Retrying { attempt, left_ms, why, .. } => {
            let verb = if *attempt == 0 { "trying" } else { "trying again" };
            format!("{verb} in {} s · Enter tries now · {why}", left_ms / 1000)
        }
        Activity::Thinking => format!("thinking, {seconds} s"),
        Activity::Writing { tool } => format!("writing a call of {tool}, {seconds} s"),
        Activity::Running { calls } => {
            let first = calls.first().map_or("", |call| call.as_str());
            let more = match calls.len() {
                0 | 1 => String::new(),
                calls => format!(" and {} more", calls - 1),
            };
            format!("{seconds} s · {first}{more}")
        }
    };
    let mut text = format!("Esc stops · {what}");
    if status.tokens_written > 0 {
        text += &format!(" · {} tokens", status.tokens_written);
    }
    if let Some(tokens) = status.context_tokens {
        text += &format!(" · context {}", thousands(tokens));
    }
    if let Some(cost) = status.cost.filter(|cost| *cost > 0.0) {
        text += &format!(" · ${cost:.4}");
    }
    Some(Row::of(Style::DIM, &text))
}

/// The texts that wait: those that interrupt the run, and those that wait for its end.
pub(crate) fn queue_rows(queue: &[Queued]) -> Vec<Row> {
    let mut rows: Vec<Row> = queue
        .iter()
        .take(QUEUE)
        .map(|queued| {
            let mark = if queued.steers { "↳ steers: " } else { "⏎ next: " };
            Row::of(Style::YELLOW, mark).with(Style::DIM, queued.text.as_str())
        })
        .collect();
    if queue.len() > QUEUE {
        let hidden = counted((queue.len() - QUEUE) as u64, "more text");
        rows.push(Row::of(Style::DIM, &format!("  … {hidden} waits · Alt-Up takes back the last one")));
    }
    rows
}

fn thousands(tokens: u64) -> String {
    if tokens < 1000 { tokens.to_string() } else { format!("{:.1}k", tokens as f64 / 1e3) }
}

/// A duration in the larger of the units that say it well.
fn rounded(ms: u64) -> String {
    match (ms + 500) / 1000 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds => format!("{} min", (seconds + 30) / 60),
    }
}
