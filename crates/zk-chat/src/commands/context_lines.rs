use zk_compaction::{ContextPart, ContextReport};
use zk_core::service::{WindowFill, visible_line};
use zk_tui::{Row, Style, thousands};

/// Maximum number of rows for each of parts, files and turns.
const MAX_ROWS: usize = 12;

/// Maximum number of columns of a line.
const MAX_COLUMNS: usize = 60;

/// A report in lines of at most 60 columns.
///
/// ```
/// let report = zk_compaction::ContextReport { tokens: 12_340, ..Default::default() };
/// assert_eq!(zk_chat::context_lines(&report), ["about 12.3k tokens"]);
/// ```
pub fn context_lines(report: &ContextReport) -> Vec<String> {
    let mut parts: Vec<&ContextPart> = report.parts.iter().filter(|part| part.tokens > 0).collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.tokens));
    let mut lines = vec![format!("about {} tokens", thousands(report.tokens))];
    lines.extend(parts.iter().map(|part| {
        let share = part.tokens * 100 / report.tokens.max(1);
        line_with_name(
            &format!("{}  {share:>3} %  {:<9} ", short_tokens(part.tokens), part.kind.as_str()),
            part,
        )
    }));
    if !report.files.is_empty() {
        lines.push("of these, results by file".to_owned());
        let file = |part: &ContextPart| line_with_name(&format!("{}  ", short_tokens(part.tokens)), part);
        lines.extend(report.files.iter().take(MAX_ROWS).map(file));
        lines.extend(omitted_line(report.files.len(), "files"));
    }
    if report.turns.len() > 1 {
        lines.push("by turn, the largest first".to_owned());
        let mut turns: Vec<_> = report.turns.iter().enumerate().collect();
        turns.sort_by_key(|(_, tokens)| std::cmp::Reverse(**tokens));
        let turn = |(at, tokens): &(usize, &u64)| format!("{}  turn {}", short_tokens(**tokens), at + 1);
        lines.extend(turns.iter().take(MAX_ROWS).map(turn));
        lines.extend(omitted_line(turns.len(), "turns"));
    }
    lines
}

/// Fill of the window at the last request, in a line.
pub(crate) fn fill_line(fill: &WindowFill) -> String {
    let estimate = thousands(fill.estimate);
    match (fill.usable, fill.window) {
        (Some(usable), Some(window)) => {
            let percent = fill.estimate * 100 / usable.max(1);
            let (usable, window) = (thousands(usable), thousands(window));
            format!("last request: {estimate} tokens, {percent} % of {usable} (window {window})")
        }
        _ => format!("last request: {estimate} tokens; the model's window is not known"),
    }
}

/// Line about the compactions so far; `None` before the first.
pub(crate) fn compaction_line(fill: &WindowFill) -> Option<String> {
    let last = fill.last?;
    let times = if fill.compactions == 1 { "once".to_owned() } else { format!("{} times", fill.compactions) };
    Some(format!(
        "compacted {times}, last from {} to {} tokens",
        thousands(last.before),
        thousands(last.after)
    ))
}

fn short_tokens(tokens: u64) -> String {
    format!("{:>8}", thousands(tokens))
}

/// A line that ends with the name of a part. A long name loses its beginning: the end of a path says more.
fn line_with_name(begin: &str, part: &ContextPart) -> String {
    let columns = |text: &str| Row::of(Style::PLAIN, text).columns();
    let times = if part.count > 1 { format!("  ×{}", part.count) } else { String::new() };
    let room = MAX_COLUMNS.saturating_sub(columns(begin) + columns(&times));
    let name = visible_line(&part.name);
    if columns(&name) <= room {
        return format!("{begin}{name}{times}");
    }
    let ends = name.char_indices().map(|(at, _)| name.get(at..).unwrap_or_default());
    let end = ends.skip(1).find(|end| columns(end) < room).unwrap_or_default();
    format!("{begin}…{end}{times}")
}

fn omitted_line(count: usize, what: &str) -> Option<String> {
    let left = count.checked_sub(MAX_ROWS).filter(|left| *left > 0)?;
    Some(format!("{:>8}  and {left} more {what}", ""))
}

#[cfg(test)]
mod tests {
    use zk_compaction::PartOf;

    use super::*;

    fn part(kind: PartOf, name: &str, tokens: u64, count: u64) -> ContextPart {
        ContextPart { kind, name: name.to_owned(), source: String::new(), tokens, count }
    }

    #[test]
    fn a_report_fits_sixty_columns_and_counts_in_thousands() {
        let path = "crates/zk-chat/src/commands/a/very/deep/place/of/a/file/window_commands.rs";
        let report = ContextReport {
            parts: vec![
                part(PartOf::Section, "identity", 170, 1),
                part(PartOf::Results, "", 1_234_567, 12),
                part(PartOf::Tools, "漢字".repeat(40).as_str(), 47_200, 3),
            ],
            files: vec![part(PartOf::Results, path, 983_600, 20)],
            turns: vec![12_000, 3],
            tokens: 1_281_937,
        };
        let lines = context_lines(&report);
        let columns = |line: &String| Row::of(Style::PLAIN, line).columns();
        assert!(lines.iter().all(|line| columns(line) <= MAX_COLUMNS), "{lines:#?}");
        assert_eq!(lines[0], "about 1.3M tokens");
        assert_eq!(lines[1], "    1.2M   96 %  results     ×12");
        assert!(
            lines[2].starts_with("   47.2k    3 %  tools     …") && lines[2].ends_with("漢字  ×3"),
            "{}",
            lines[2]
        );
        assert_eq!(lines[3], "     170    0 %  section   identity");
        assert_eq!(lines[4], "of these, results by file");
        assert!(
            lines[5].starts_with("  983.6k  …") && lines[5].ends_with("/window_commands.rs  ×20"),
            "{}",
            lines[5]
        );
        assert_eq!(lines[6..], ["by turn, the largest first", "     12k  turn 1", "       3  turn 2"]);
    }

    #[test]
    fn the_fill_of_a_window_is_a_line_that_fits() {
        let mut fill = WindowFill {
            estimate: 152_340,
            usable: Some(963_616),
            window: Some(1_000_000),
            ..WindowFill::default()
        };
        let line = fill_line(&fill);
        assert_eq!(line, "last request: 152.3k tokens, 15 % of 963.6k (window 1M)");
        (fill.usable, fill.window) = (None, None);
        assert_eq!(fill_line(&fill), "last request: 152.3k tokens; the model's window is not known");
        assert_eq!(compaction_line(&fill), None);
    }
}
