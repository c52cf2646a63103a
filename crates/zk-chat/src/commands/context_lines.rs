use zk_compaction::{ContextPart, ContextReport};
use zk_core::service::visible_line;

/// Maximum number of rows for each of parts, files and turns.
const MAX_ROWS: usize = 12;

/// A report in lines.
pub fn context_lines(report: &ContextReport) -> Vec<String> {
    let mut parts: Vec<&ContextPart> = report.parts.iter().filter(|part| part.tokens > 0).collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.tokens));
    let percent = |tokens: u64| tokens * 100 / report.tokens.max(1);
    let row = |part: &&ContextPart| {
        let name = visible_line(&part.name);
        let (kind, count) = (part.kind.as_str(), part.count);
        format!("{:>9}  {:>3} %  {kind:<9} {name}{}", part.tokens, percent(part.tokens), times(count))
    };
    let mut lines = vec![format!("about {} tokens", report.tokens)];
    lines.extend(parts.iter().map(row));
    if !report.files.is_empty() {
        lines.push("of these, results by file:".to_owned());
        let file = |part: &ContextPart| {
            format!("{:>9}  {}{}", part.tokens, visible_line(&part.name), times(part.count))
        };
        lines.extend(report.files.iter().take(MAX_ROWS).map(file));
        lines.extend(more(report.files.len(), "files"));
    }
    if report.turns.len() > 1 {
        lines.push("by turn, the largest:".to_owned());
        let mut turns: Vec<_> = report.turns.iter().enumerate().collect();
        turns.sort_by_key(|(_, tokens)| std::cmp::Reverse(**tokens));
        lines.extend(turns.iter().take(MAX_ROWS).map(|(at, tokens)| format!("{tokens:>9}  turn {}", at + 1)));
        lines.extend(more(turns.len(), "turns"));
    }
    lines
}

fn times(count: u64) -> String {
    if count > 1 { format!("  ×{count}") } else { String::new() }
}

fn more(count: usize, what: &str) -> Option<String> {
    let left = count.checked_sub(MAX_ROWS).filter(|left| *left > 0)?;
    Some(format!("{:>9}  and {left} more {what}", ""))
}
