use std::fmt::Write as _;

use zk_core::model::CommandExit;
use zk_core::service::RunStatus;
use zk_view::{AnswerEnd, Body, Call, CallState, Content, Form, RunEnd, Text, WholeBlock};

use super::diff::push_diff;
use super::escape::{cut_text, dollars, duration, group_digits, push_text};
use super::image::Images;
use super::markdown::{push_code, push_markdown};
use crate::Limits;

/// Maximum number of lines of a diff that is shown unfolded.
const OPEN_DIFF_LINES: usize = 40;

/// Appends the content of a block.
pub(super) fn push_content(out: &mut String, whole: &WholeBlock, images: &mut Images, limits: &Limits) {
    match &whole.block.content {
        Content::User { text, attachments, .. } => {
            out.push_str("<div class=\"said\">");
            push_plain_text(out, text, limits);
            out.push_str("</div>");
            push_images(out, whole, images, limits);
            let missing = (*attachments as usize).saturating_sub(whole.images.len());
            if missing > 0 {
                let _ = write!(out, "<p class=\"left-out\">{missing} attached, not shown.</p>");
            }
        }
        Content::Injected { by, text } => {
            out.push_str("<details class=\"side\"><summary><span class=\"mark\">◦</span> ");
            push_text(out, by.as_str());
            let _ = write!(out, " <small>{}</small></summary><div class=\"said\">", first_line(text));
            push_plain_text(out, text, limits);
            out.push_str("</div></details>");
        }
        Content::Thinking { text, thought_ms } => {
            out.push_str("<details class=\"side think\"><summary><span class=\"mark\">✻</span> Thought");
            if let Some(millis) = thought_ms {
                let _ = write!(out, " for {}", duration(*millis));
            }
            if text.is_empty() {
                out.push_str(" <small>not shown by the provider</small>");
            }
            out.push_str("</summary><div class=\"md\">");
            push_markdown_text(out, text, limits);
            out.push_str("</div></details>");
        }
        Content::Answer { text, end } => {
            if !text.is_empty() {
                out.push_str("<div class=\"md\">");
                push_markdown_text(out, text, limits);
                out.push_str("</div>");
            }
            if let Some(remark) = end.remark().filter(|_| *end != AnswerEnd::Whole) {
                out.push_str("<p class=\"left-out\">");
                push_text(out, &remark);
                out.push_str("</p>");
            }
        }
        Content::Call(call) => push_call(out, whole, call, images, limits),
        Content::Provider { text } => {
            out.push_str("<p class=\"left-out\">");
            push_text(out, text.as_str());
            out.push_str("</p>");
        }
        Content::Summary { text } => {
            out.push_str(
                "<details class=\"side summary\"><summary><span class=\"mark\">≡</span> The conversation up to here was summed up\
                 </summary><div class=\"md\">",
            );
            push_markdown_text(out, text, limits);
            out.push_str("</div></details>");
        }
        Content::Plugin(plugin) => {
            out.push_str("<section class=\"card\"><h2>");
            let title = if plugin.title.is_empty() { &plugin.source } else { &plugin.title };
            push_text(out, title.as_str());
            out.push_str("</h2>");
            push_body(out, whole, &plugin.body, limits);
            out.push_str("</section>");
        }
        Content::End(end) => push_end(out, end),
        Content::Note { text, .. } => {
            out.push_str("<p class=\"left-out\">");
            push_text(out, text.as_str());
            out.push_str("</p>");
        }
    }
}

fn first_line(text: &Text) -> String {
    let line = text.as_str().trim().lines().next().unwrap_or_default();
    let line: String = line.chars().take(100).collect();
    super::escape::escaped(&line)
}

fn push_plain_text(out: &mut String, text: &Text, limits: &Limits) {
    let (text, rest) = cut_text(text.as_str().trim_end(), limits.text_bytes);
    push_text(out, text);
    push_omission(out, rest);
}

fn push_markdown_text(out: &mut String, text: &Text, limits: &Limits) {
    let (text, rest) = cut_text(text.as_str(), limits.text_bytes);
    push_markdown(out, text);
    push_omission(out, rest);
}

fn push_omission(out: &mut String, rest: Option<String>) {
    if let Some(rest) = rest {
        let _ = write!(out, "<p class=\"left-out\">… {rest}</p>");
    }
}

fn push_images(out: &mut String, whole: &WholeBlock, images: &mut Images, limits: &Limits) {
    if whole.images.is_empty() {
        return;
    }
    out.push_str("<div class=\"images\">");
    whole.images.iter().for_each(|image| images.push(out, image, limits));
    out.push_str("</div>");
}

fn push_call(out: &mut String, whole: &WholeBlock, call: &Call, images: &mut Images, limits: &Limits) {
    let (class, sign, state) = state_label(call.state);
    let lines = whole.lines.as_deref().or(call.body.as_ref().map(|body| body.lines.as_slice()));
    let count = lines.map_or(0, <[Text]>::len);
    let is_open = match call.body.as_ref().map(|body| &body.form) {
        Some(Form::Diff { .. }) => count <= OPEN_DIFF_LINES && class == "done",
        Some(Form::Checklist { .. } | Form::Markdown { .. }) => true,
        Some(Form::Line | Form::Lines | Form::Command { .. } | Form::Table) | None => false,
    } || !whole.images.is_empty();
    let open = if is_open { " open" } else { "" };
    let _ = write!(
        out,
        "<details class=\"call {class}\"{open}><summary><span class=\"mark\">{sign}</span> <code>"
    );
    push_text(out, &call.headline());
    out.push_str("</code><span class=\"facts\">");
    let mut facts: Vec<String> = Vec::new();
    facts.extend(state.map(str::to_owned));
    match call.body.as_ref().map(|body| &body.form) {
        Some(Form::Diff { added, removed, .. }) => {
            facts.push(format!("<ins>+{added}</ins> <del>−{removed}</del>"));
        }
        Some(Form::Command { exit }) => facts.extend(describe_exit(*exit)),
        Some(Form::Lines | Form::Line | Form::Table | Form::Markdown { .. } | Form::Checklist { .. })
        | None => {}
    }
    facts.extend(call.elapsed_ms.filter(|millis| *millis >= 100).map(duration));
    out.push_str(&facts.join(" · "));
    out.push_str("</span></summary>");
    let argument = call.argument.as_ref().filter(|argument| argument.as_str().contains('\n'));
    if let Some(argument) = argument {
        out.push_str("<pre class=\"code\"><code>");
        let is_shell = call.summary.as_str().starts_with('$');
        push_code(out, if is_shell { "sh" } else { "" }, argument.as_str());
        out.push_str("</code></pre>");
    }
    if let Some(reason) = &call.reason {
        out.push_str("<p class=\"left-out\">");
        push_text(out, reason.as_str());
        out.push_str("</p>");
    }
    match &call.body {
        Some(body) => push_body(out, whole, body, limits),
        None if call.progress.is_empty() => out.push_str("<p class=\"left-out\">No output.</p>"),
        None => push_lines(out, std::slice::from_ref(&call.progress), 0, limits),
    }
    push_images(out, whole, images, limits);
    for remark in &call.remarks {
        out.push_str("<p class=\"left-out\">");
        push_text(out, remark.as_str());
        out.push_str("</p>");
    }
    out.push_str("</details>");
}

fn state_label(state: CallState) -> (&'static str, &'static str, Option<&'static str>) {
    match state {
        CallState::Done => ("done", "✓", None),
        CallState::Failed => ("failed", "✗", Some("failed")),
        CallState::Refused => ("refused", "⊘", Some("refused")),
        CallState::Skipped => ("refused", "⊘", Some("skipped")),
        CallState::Parked => ("refused", "⊘", Some("parked")),
        CallState::Invalid => ("failed", "✗", Some("invalid arguments")),
        CallState::Unknown => ("failed", "✗", Some("no such tool")),
        CallState::OutcomeUnknown => ("failed", "?", Some("outcome unknown")),
        CallState::NotRun => ("refused", "⊘", Some("not run")),
        CallState::Writing | CallState::Waiting | CallState::Running => ("open", "…", Some("running")),
    }
}

fn describe_exit(exit: CommandExit) -> Option<String> {
    match exit {
        CommandExit::Code { code: 0 } => None,
        CommandExit::Code { code } => Some(format!("exit {code}")),
        CommandExit::Signal { signal } => Some(format!("signal {signal}")),
        CommandExit::TimedOut => Some("time-out".to_owned()),
        CommandExit::Stopped => Some("stopped".to_owned()),
    }
}

fn push_body(out: &mut String, whole: &WholeBlock, body: &Body, limits: &Limits) {
    let lines = whole.lines.as_deref().unwrap_or(&body.lines);
    let texts = || lines.iter().map(Text::as_str);
    let joined = || texts().collect::<Vec<_>>().join("\n");
    match &body.form {
        Form::Diff { .. } => {
            let (shown, rest) = lines_within(lines, limits);
            push_diff(out, shown.iter().map(Text::as_str));
            push_omission(out, rest);
        }
        Form::Markdown { outcome } => {
            if !outcome.is_empty() {
                out.push_str("<p class=\"left-out\">");
                push_text(out, outcome.as_str());
                out.push_str("</p>");
            }
            out.push_str("<div class=\"md\">");
            push_markdown_text(out, &Text::new(&joined()), limits);
            out.push_str("</div>");
        }
        Form::Checklist { .. } => {
            out.push_str("<ul class=\"todo\">");
            for line in texts() {
                let class = match line.chars().next() {
                    Some('☑') => "done",
                    Some('▸') => "now",
                    _ => "open",
                };
                let _ = write!(out, "<li class=\"{class}\">");
                push_text(out, line);
                out.push_str("</li>");
            }
            out.push_str("</ul>");
        }
        Form::Table => {
            out.push_str("<div class=\"table\"><table>");
            let (shown, rest) = lines_within(lines, limits);
            for (at, line) in shown.iter().enumerate() {
                let tag = if at == 0 { "th" } else { "td" };
                out.push_str("<tr>");
                for cell in line.as_str().split(" | ") {
                    let _ = write!(out, "<{tag}>");
                    push_text(out, cell);
                    let _ = write!(out, "</{tag}>");
                }
                out.push_str("</tr>");
            }
            out.push_str("</table></div>");
            push_omission(out, rest);
        }
        Form::Line | Form::Lines | Form::Command { .. } => {
            let discarded = body.total_lines.saturating_sub(lines.len() as u64);
            push_lines(out, lines, discarded, limits);
        }
    }
}

fn push_lines(out: &mut String, lines: &[Text], discarded: u64, limits: &Limits) {
    if lines.is_empty() && discarded == 0 {
        out.push_str("<p class=\"left-out\">No output.</p>");
        return;
    }
    if discarded > 0 {
        let _ =
            write!(out, "<p class=\"left-out\">{} earlier lines were not kept</p>", group_digits(discarded));
    }
    let (shown, rest) = lines_within(lines, limits);
    out.push_str("<pre>");
    for line in shown {
        let (text, rest) = cut_text(line.as_str(), limits.result_bytes);
        push_text(out, text);
        if rest.is_some() {
            out.push('…');
        }
        out.push('\n');
    }
    out.push_str("</pre>");
    push_omission(out, rest);
}

/// Lines within the limits, and a remark on the omitted lines.
fn lines_within<'a>(lines: &'a [Text], limits: &Limits) -> (&'a [Text], Option<String>) {
    let mut bytes = 0;
    let fits = |line: &&Text| {
        bytes += line.as_str().len() + 1;
        bytes <= limits.result_bytes
    };
    // The first line is always shown, cut to the limit.
    let count = lines.iter().take(limits.result_lines).take_while(fits).count().max(1).min(lines.len());
    let rest = lines.len() - count;
    let remark = (rest > 0).then(|| format!("{} more lines are left out", group_digits(rest as u64)));
    (lines.get(..count).unwrap_or_default(), remark)
}

fn push_end(out: &mut String, end: &RunEnd) {
    let (class, word) = match end.status {
        RunStatus::Completed => ("done", "Completed"),
        RunStatus::Aborted => ("stopped", "Stopped"),
        RunStatus::Error => ("failed", "Failed"),
    };
    let _ = write!(out, "<footer class=\"end {class}\"><b>{word}</b>");
    let turns = if end.turns == 1 { "turn" } else { "turns" };
    let mut facts = vec![format!("{} {turns}", end.turns)];
    if end.tokens_read + end.tokens_written > 0 {
        facts.push(format!("{} tokens in", group_digits(end.tokens_read)));
        facts.push(format!("{} out", group_digits(end.tokens_written)));
    }
    if let Some(cost) = end.cost {
        let least = if end.cost_is_partial { "at least " } else { "" };
        facts.push(format!("{least}{}", dollars(cost)));
    }
    if end.duration_ms > 0 {
        facts.push(duration(end.duration_ms));
    }
    for fact in facts {
        let _ = write!(out, "<span>{fact}</span>");
    }
    if let Some(error) = &end.error {
        out.push_str("<p>");
        push_text(out, error.as_str());
        out.push_str("</p>");
    }
    out.push_str("</footer>");
}
