use std::fmt::Write as _;

use zk_view::{DiffLine, DiffReader, changed_words};

use super::escape::push_text;

/// Changed line that is not paired with its counterpart yet.
struct Change<'a> {
    is_added: bool,
    number: u64,
    text: &'a str,
}

/// Appends a unified diff with line numbers; changed words of replaced lines are marked.
pub(super) fn push_diff<'a>(out: &mut String, lines: impl Iterator<Item = &'a str>) {
    out.push_str("<div class=\"diff\">");
    let mut reader = DiffReader::default();
    let mut block: Vec<Change<'a>> = Vec::new();
    let begin = out.len();
    for line in lines {
        match reader.line(line) {
            DiffLine::Added { number, text } => block.push(Change { is_added: true, number, text }),
            DiffLine::Removed { number, text } => {
                if block.last().is_some_and(|last| last.is_added) {
                    push_changes(out, &mut block);
                }
                block.push(Change { is_added: false, number, text });
            }
            DiffLine::Header(line) => {
                push_changes(out, &mut block);
                let is_name = line.is_empty() || line.starts_with("--- ") || line.starts_with("+++ ");
                if !is_name {
                    push_row(out, "same", 0, |out| push_text(out, line));
                }
            }
            DiffLine::Hunk(_) => {
                push_changes(out, &mut block);
                if out.len() > begin {
                    out.push_str("<div class=\"gap\">⋮</div>");
                }
            }
            DiffLine::Kept { number, text } => {
                push_changes(out, &mut block);
                push_row(out, "same", number, |out| push_text(out, text));
            }
        }
    }
    push_changes(out, &mut block);
    out.push_str("</div>");
}

/// Appends a block of changed lines. Replaced lines are compared in pairs.
fn push_changes(out: &mut String, block: &mut Vec<Change<'_>>) {
    let (removed, added): (Vec<&Change<'_>>, Vec<&Change<'_>>) =
        block.iter().partition(|change| !change.is_added);
    let is_replaced = removed.len() == added.len();
    let pairs = [(&removed, &added), (&added, &removed)];
    for (own, others) in pairs {
        for (at, change) in own.iter().enumerate() {
            let other = others.get(at).filter(|_| is_replaced);
            let words = other.and_then(|other| changed_words(change.text, other.text));
            let class = if change.is_added { "add" } else { "del" };
            push_row(out, class, change.number, |out| match words {
                Some(words) => {
                    for (word, is_changed) in words {
                        if is_changed {
                            out.push_str("<b>");
                        }
                        push_text(out, word);
                        if is_changed {
                            out.push_str("</b>");
                        }
                    }
                }
                None => push_text(out, change.text),
            });
        }
    }
    block.clear();
}

fn push_row(out: &mut String, class: &str, number: u64, text: impl FnOnce(&mut String)) {
    let _ = write!(out, "<div class=\"{class}\"><i>");
    if number > 0 {
        let _ = write!(out, "{number}");
    }
    let sign = match class {
        "add" => "+",
        "del" => "−",
        _ => " ",
    };
    let _ = write!(out, "</i><u>{sign}</u><span>");
    text(out);
    // The line end gives an empty line its height.
    out.push_str("\n</span></div>");
}
