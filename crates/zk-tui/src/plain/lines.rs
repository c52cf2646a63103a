//! Lines of a view, for a person.

use zk_view::{Activity, Block, Body, Call, CallState, Content, Form, NoteLevel, PluginBlock, Status, Text};

use crate::markdown::Markdown;
use crate::row::{Ground, Row, Style};
use crate::term::Modes;
pub use crate::view::status_line as status;
use crate::view::{MARGIN, attached, counted, describe_silence, short_diff, short_exit};

/// Maximum length of a shown result line, in characters.
const MAX_LINE_CHARS: usize = 120;

/// Maximum number of shown lines of a diff, of a successful output, and of a failed one.
const MAX_DIFF_ROWS: usize = 20;
const MAX_OUTPUT_ROWS: usize = 5;
const MAX_FAILED_OUTPUT_ROWS: usize = 15;

/// Indentation of a sub-agent's lines, under its name.
pub(crate) fn indent(block: &Block) -> String {
    match &block.agent {
        None => String::new(),
        Some(agent) => format!("{}[{}] ", "  ".repeat(agent.depth as usize), agent.name),
    }
}

/// Lines of a closed block of a past conversation, without transient parts such as reasoning and the cost of
/// runs.
pub fn block(block: &Block) -> Vec<(Style, String)> {
    let mut lines = content_lines(&block.content);
    let indent = indent(block);
    lines.iter_mut().for_each(|(_, line)| line.insert_str(0, &indent));
    lines
}

fn content_lines(content: &Content) -> Vec<(Style, String)> {
    let plain = |text: &str| text.lines().map(|line| (Style::PLAIN, line.to_owned())).collect();
    match content {
        Content::User { text, attachments, .. } => {
            let mut lines: Vec<_> = plain(&format!("› {}", text.as_str().trim_end()));
            lines.extend(attached::attachment_row(text, *attachments).map(|line| (Style::DIM, line)));
            lines
        }
        Content::Injected { by, text } if attached::folded_row(by, text).is_some() => {
            vec![(Style::DIM, attached::folded_row(by, text).unwrap_or_default())]
        }
        Content::Injected { by, text } if attached::is_notice(by) => {
            let text = format!("◦ {by}: {}", text.as_str().trim_end());
            text.lines().map(|line| (Style::DIM, line.to_owned())).collect()
        }
        Content::Injected { by, text } => plain(&format!("› ({by}) {}", text.as_str().trim_end())),
        Content::Answer { text, end } => {
            let mut lines: Vec<_> = plain(text.as_str().trim_end());
            lines.extend(end.remark().map(|end| (Style::YELLOW, format!("({end})"))));
            lines
        }
        Content::Call(shown) => {
            let mut lines = vec![(Style::CYAN, shorten(&format!("● {}", shown.headline())))];
            lines.extend(call(shown));
            lines
        }
        Content::Provider { text } if text.is_empty() => Vec::new(),
        Content::Provider { text } => vec![(Style::DIM, shorten(&format!("◦ {text}")))],
        Content::Summary { text } => plain(&format!("(summary) {text}")),
        Content::Plugin(plugin) => {
            let PluginBlock { source, title, body, .. } = &**plugin;
            let rows = body.lines.iter().map(Text::as_str);
            if title.is_empty() {
                plain(&format!("◦ {source}: {}", rows.collect::<Vec<_>>().join("\n")))
            } else {
                let rows = rows.map(|row| (Style::PLAIN, row.to_owned()));
                std::iter::once((Style::BOLD, title.as_str().to_owned())).chain(rows).collect()
            }
        }
        Content::Note { level, text } => {
            let style = match level {
                NoteLevel::Info => Style::DIM,
                NoteLevel::Warning => Style::YELLOW,
            };
            vec![(style, text.as_str().to_owned())]
        }
        Content::Thinking { .. } | Content::End(_) => Vec::new(),
    }
}

/// Lines of a call: the outcome, then the end of its output or its changes.
pub fn call(call: &Call) -> Vec<(Style, String)> {
    let reason = call.reason.as_ref().map(|reason| reason.as_str());
    let not_run = |what: &str| {
        let why = reason.map_or(String::new(), |reason| format!(": {reason}"));
        vec![(Style::YELLOW, format!("  ✗ {what}{why}").replace('\n', " "))]
    };
    let mut lines = match (call.state, &call.body) {
        (CallState::Refused, _) => not_run("was refused"),
        (CallState::Parked, _) => not_run("waits for approval"),
        (CallState::Skipped | CallState::NotRun, _) => not_run("was not run"),
        (CallState::OutcomeUnknown, _) => not_run("was cut off: its effects are unknown"),
        (CallState::Invalid, _) => not_run("was called with invalid arguments"),
        (CallState::Unknown, _) => not_run("is no tool"),
        (CallState::Writing | CallState::Waiting | CallState::Running, _) | (_, None) => Vec::new(),
        (CallState::Done, Some(body)) => result_lines(body, call.elapsed_ms, false),
        (CallState::Failed, Some(body)) => result_lines(body, call.elapsed_ms, true),
    };
    lines.extend(call.remarks.iter().map(|text| (Style::DIM, format!("  ↳ {text}").replace('\n', " "))));
    lines
}

fn result_lines(body: &Body, elapsed_ms: Option<u64>, failed: bool) -> Vec<(Style, String)> {
    let (style, sign) = if failed { (Style::RED, "✗") } else { (Style::DIM, "✓") };
    let first = |text: &str| (style, format!("  {sign} {}", shorten(text)));
    let long = elapsed_ms.filter(|ms| *ms >= 1000);
    let took = long.map_or(String::new(), |ms| format!(" · {:.1} s", ms as f64 / 1e3));
    let total = body.total_lines;
    let shown = if failed { MAX_FAILED_OUTPUT_ROWS } else { MAX_OUTPUT_ROWS };
    match (&body.form, &body.lines[..]) {
        (Form::Line, [line]) | (Form::Lines, [line]) => vec![first(line.as_str())],
        (Form::Diff { added, removed, .. }, _) if !failed => {
            let mut lines = vec![first(&format!("+{added} −{removed}"))];
            lines.extend(diff_lines(body));
            lines
        }
        (Form::Table, _) if !failed => vec![first(&format!("{}{took}", counted(total, "row")))],
        (Form::Command { exit }, _) => {
            let ended = if failed { format!("{} · ", short_exit(exit)) } else { String::new() };
            let printed = if total == 0 { "no output".to_owned() } else { counted(total, "line") };
            let mut lines = vec![first(&format!("{ended}{printed}{took}"))];
            lines.extend(last_lines(body, shown));
            lines
        }
        // The list shows which items changed their state.
        (Form::Checklist { reshaped: false }, _) if !failed => Vec::new(),
        (Form::Checklist { .. }, _) if !failed => {
            body.lines.iter().map(|line| (Style::PLAIN, format!("  {line}"))).collect()
        }
        (Form::Markdown { outcome }, _) if !failed => {
            let text: String = body.lines.iter().map(|line| format!("{line}\n")).collect();
            let rows = Markdown::rows_of(&text, Modes::size().width.saturating_sub(MARGIN.len()).max(1));
            let lines = rows.iter().map(|row| (style_of(row), format!("{MARGIN}{}", row.text())));
            let outcome = (!outcome.is_empty()).then(|| (Style::DIM, format!("  → {outcome}")));
            lines.chain(outcome).collect()
        }
        (
            Form::Lines
            | Form::Line
            | Form::Diff { .. }
            | Form::Table
            | Form::Markdown { .. }
            | Form::Checklist { .. },
            _,
        ) => {
            let mut lines = vec![first(&format!("{}{took}", counted(total, "line")))];
            // The beginning of an error names the failure, so it is shown instead of the end.
            let kept = body.lines.len().min(shown);
            lines.extend(
                body.lines.iter().take(if failed { kept } else { 0 }).map(|line| output_line(line.as_str())),
            );
            if failed && total > kept as u64 {
                lines.push(omitted_line(total - kept as u64, "below"));
            }
            lines
        }
    }
}

/// Style of a row that has one throughout; plain otherwise.
fn style_of(row: &Row) -> Style {
    if row.spans().len() == 1 { row.style() } else { Style::PLAIN }
}

fn output_line(line: &str) -> (Style, String) {
    (Style::DIM, format!("    {}", shorten(line)))
}

fn omitted_line(hidden: u64, place: &str) -> (Style, String) {
    (Style::DIM, format!("    … {} {place} · /show", counted(hidden, "more line")))
}

/// Last lines of an output, after the number of lines before them.
fn last_lines(body: &Body, shown: usize) -> Vec<(Style, String)> {
    let hidden = body.lines.len().saturating_sub(shown);
    let rows = body.lines.iter().skip(hidden).map(|line| output_line(line.as_str()));
    let before = body.total_lines.saturating_sub((body.lines.len() - hidden) as u64);
    (before > 0).then(|| omitted_line(before, "above")).into_iter().chain(rows).collect()
}

/// The lines of a diff, with their numbers and signs.
fn diff_lines(body: &Body) -> Vec<(Style, String)> {
    let Form::Diff { added, removed, .. } = &body.form else { return Vec::new() };
    let (rows, changes) = short_diff(body.lines.iter().map(Text::as_str), "    ", MAX_DIFF_ROWS, 0);
    let style = |row: &Row| match row.style().ground {
        Ground::Added => Style::GREEN,
        Ground::Removed => Style::RED,
        Ground::None => Style::DIM,
    };
    let mut rows: Vec<(Style, String)> = rows.iter().map(|row| (style(row), shorten(&row.text()))).collect();
    let hidden = (added + removed).saturating_sub(changes);
    if hidden > 0 {
        rows.push(omitted_line(hidden, "below"));
    }
    rows
}

/// Minimum duration of a server's silence in milliseconds, from which it is reported.
const TOLD_SILENCE_MS: u64 = 15_000;

/// Waits already reported by permanent lines, on a screen that cannot erase.
#[derive(Debug, Default)]
pub struct ToldWaits {
    /// Failed attempt before the present wait.
    attempt: Option<u32>,
    /// Silence at which the next line is due, in milliseconds; `None` before the first one.
    next_silence_ms: Option<u64>,
}

impl ToldWaits {
    /// Line that is due now: one for each wait before a retry; for a silent server one after 15 seconds, then
    /// each time the silence has doubled.
    pub fn line(&mut self, status: &Status) -> Option<String> {
        let (attempt, next_silence_ms) = (self.attempt.take(), self.next_silence_ms.take());
        match &status.activity {
            Activity::Retrying { attempt: failed, left_ms, .. } => {
                self.attempt = if *left_ms == 0 { attempt } else { Some(*failed) };
                if *left_ms == 0 || attempt == Some(*failed) {
                    return None;
                }
                let why = status.activity.failed_attempt().unwrap_or_default();
                let verb = if *failed == 0 { "trying" } else { "trying again" };
                Some(format!("{why}; {verb} in {} s", left_ms / 1000))
            }
            Activity::Silent { model, idle_ms, limit_ms, keep_alives } => {
                let due = next_silence_ms.unwrap_or(TOLD_SILENCE_MS);
                self.next_silence_ms = Some(if *idle_ms < due { due } else { idle_ms.saturating_mul(2) });
                (*idle_ms >= due).then(|| describe_silence(model, *idle_ms, *limit_ms, *keep_alives))
            }
            _ => None,
        }
    }
}

/// Beginning of a text in one line.
#[must_use]
pub fn shorten(text: &str) -> String {
    match text.char_indices().nth(MAX_LINE_CHARS) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or(text)),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use zk_core::model::CommandExit;
    use zk_view::{BatchCounts, Text};

    use super::*;

    fn command_body(lines: usize, total_lines: u64, code: i32) -> Vec<String> {
        let body = Body {
            form: Form::Command { exit: CommandExit::Code { code } },
            lines: (0..lines).map(|n| Text::from(format!("line {n}"))).collect(),
            total_lines,
            expandable: false,
        };
        result_lines(&body, Some(10), code != 0).into_iter().map(|(_, line)| line).collect()
    }

    #[test]
    fn a_command_shows_its_last_lines_and_how_many_there_were() {
        assert_eq!(command_body(0, 0, 0), ["  ✓ no output"]);
        assert_eq!(command_body(1, 1, 0), ["  ✓ 1 line", "    line 0"]);
        let long = command_body(40, 100_000, 0);
        assert_eq!(long[..2], ["  ✓ 100000 lines", "    … 99995 more lines above · /show"]);
        assert_eq!(long.last().unwrap(), "    line 39");
    }

    #[test]
    fn long_lines_are_cut_between_characters() {
        assert_eq!(shorten(&"é".repeat(500)).chars().count(), MAX_LINE_CHARS + 1);
    }

    #[test]
    fn a_failed_command_shows_its_exit_code_first() {
        assert_eq!(command_body(2, 2, 3), ["  ✗ exit 3 · 2 lines", "    line 0", "    line 1"]);
    }

    #[test]
    fn the_status_line_begins_with_the_key_to_stop() {
        let running = |batch| Status {
            activity: Activity::Running { calls: vec![Text::new("$ sleep 25")], batch },
            activity_ms: 12_000,
            ..Status::default()
        };
        let one = BatchCounts { total: 1, ..BatchCounts::default() };
        assert_eq!(status(&running(one), "Esc", true).unwrap(), "Esc stops · 12 s · $ sleep 25");
        let several = BatchCounts { over: 3, total: 4, failed: 1, refused: 1, skipped: 0 };
        let line = status(&running(several), "Esc", true).unwrap();
        assert_eq!(line, "Esc stops · 12 s · 3 of 4 done, 1 failed, 1 refused · $ sleep 25");
        let model = Text::new("anthropic/claude-opus-5");
        let silent = Activity::Silent { model, idle_ms: 3400, limit_ms: 3_600_000, keep_alives: false };
        let silent = Status { activity: silent, ..Status::default() };
        let line = status(&silent, "Esc", true).unwrap();
        assert_eq!(line, "Esc stops · waiting for anthropic/claude-opus-5, 3 s (limit 60 min)");
    }
    fn silent_status(idle_ms: u64) -> Status {
        let model = Text::new("llama.cpp/qwen");
        let activity = Activity::Silent { model, idle_ms, limit_ms: 3_600_000, keep_alives: false };
        Status { activity, ..Status::default() }
    }

    #[test]
    fn a_silent_server_is_told_of_after_15_seconds_and_each_time_the_silence_has_doubled() {
        let mut told = ToldWaits::default();
        let seconds: Vec<u64> =
            (3..=400).filter(|seconds| told.line(&silent_status(seconds * 1000)).is_some()).collect();
        assert_eq!(seconds, [15, 30, 60, 120, 240]);
        assert_eq!(told.line(&Status::default()), None);
        assert_eq!(told.line(&silent_status(3000)), None, "another silence");
        let line = told.line(&silent_status(16_200)).unwrap();
        assert_eq!(line, "waiting for llama.cpp/qwen, 16 s (limit 60 min)");
    }
}
