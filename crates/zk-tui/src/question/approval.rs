use zk_core::service::{Approval, ApprovalCard, AskedKind, CardChoice, CardPart, PartKind, visible_lines};

use super::frame::{
    CALL_EDGE, CONTINUED_EDGE, Frame, HEADING_EDGE, key_rows, wrap, wrap_indented, wrap_row, wrap_words,
};
use crate::row::{Row, Style};
use crate::view::whole_diff;

/// Indentation of body rows behind the edge, where only letters of choices stand.
const BODY_INDENT: &str = " ";
/// Further indentation of an argument's lines.
const ARGUMENT_INDENT: &str = "   ";
/// Minimum number of visible body rows before choices are shortened.
const MIN_BODY_ROWS: usize = 3;
/// Row in the place of unchanged lines, between two parts of a diff.
const OMITTED_ROW: &str = "  ⋮";

/// Size and options for drawing a question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CardLook<'a> {
    /// Sub-agent that asks, if any.
    pub who: Option<&'a str>,
    /// Width of the screen, in columns.
    pub width: usize,
    /// Maximum height of the question, in rows.
    pub room: usize,
    /// Whether the reason is shown.
    pub shows_why: bool,
}

impl Frame {
    /// Frame of a question about a call.
    #[must_use]
    pub fn of_approval(approval: &Approval, look: CardLook<'_>) -> Self {
        let card = approval.card();
        let width = look.width;
        let who = look.who.map_or(String::new(), |who| format!("{}: ", visible_lines(who).join("⟨U+000A⟩")));
        let is_dangerous = card.kind == AskedKind::Outside;
        let style = if is_dangerous { Style { bold: true, ..Style::YELLOW } } else { Style::BOLD };
        let mut head = Vec::new();
        wrap_words("┌ ", style, &format!("{who}{}", card.title), width, &mut head);
        let mut body = Vec::new();
        card.parts.iter().for_each(|part| push_part(part, width, &mut body));
        let why_at = look.shows_why.then_some(body.len());
        if look.shows_why {
            push_reasons(&card, width, &mut body);
        }
        let mut remarks = Vec::new();
        for remark in &card.remarks {
            wrap_words(&format!("{HEADING_EDGE}{BODY_INDENT}"), Style::YELLOW, remark, width, &mut remarks);
        }
        let mut head = head.into_iter();
        let mut frame = Self {
            head: head.next().unwrap_or_default(),
            lead: head.collect(),
            body,
            rules: Vec::new(),
            keys: Vec::new(),
            why_at,
            is_heavy: is_dangerous,
        };
        let fits = |rows: usize, frame: &Self| {
            let wanted = frame.body.len().min(MIN_BODY_ROWS) + 1;
            1 + frame.lead.len() + wanted + rows <= look.room
        };
        let mut choices = choice_rows(&card, width);
        let mut hints = Vec::new();
        wrap_words(CALL_EDGE, Style::DIM, &format!(" {}", short_choices(&card, true)), width, &mut hints);
        let foot = key_rows("└ ↑↓ and Enter, or a letter · Esc stops the run", width);
        let spacious = remarks.len() + choices.len() + hints.len() + foot.len();
        if fits(spacious, &frame) {
            frame.rules = remarks.into_iter().chain(choices).chain(hints).collect();
            frame.keys = foot;
            return frame;
        }
        frame.keys = key_rows(&format!("└ {}", short_choices(&card, false)), width);
        if fits(remarks.len() + choices.len() + frame.keys.len(), &frame) {
            frame.rules = remarks.into_iter().chain(choices).collect();
            return frame;
        }
        // These lines stay whole and in order.
        let packed: Vec<String> = card
            .choices
            .iter()
            .filter(|choice| choice.is_row)
            // A key and its text stay in one row.
            .map(|choice| format!("{}\u{a0}{}", choice.key, choice.text))
            .collect();
        choices.clear();
        wrap_words(HEADING_EDGE, Style::BOLD, &packed.join(" · "), width, &mut choices);
        frame.rules = if fits(remarks.len() + choices.len() + frame.keys.len(), &frame) {
            remarks.into_iter().chain(choices).collect()
        } else {
            choices
        };
        frame
    }

    /// Rows with the mark at the choice with this index.
    pub(super) fn marked(&self, row: usize) -> Vec<Row> {
        let mut at = None;
        let mark = |rule: &Row| {
            let text = rule.text();
            let is_choice = text.starts_with(HEADING_EDGE) || text.starts_with(CALL_EDGE);
            let begins = is_choice && text.chars().nth(2).is_some_and(|key| !key.is_whitespace());
            if begins && !text.starts_with(CONTINUED_EDGE) {
                at = Some(at.map_or(0, |at: usize| at + 1));
            }
            let is_its = at == Some(row) && begins;
            if !is_its {
                return rule.clone();
            }
            let edge: String = text.chars().take(1).collect();
            let rest: String = text.chars().skip(2).collect();
            Row::of(Style::BOLD, &format!("{edge}›{rest}"))
        };
        self.rules.iter().map(mark).collect()
    }

    /// Rows with an edge, heavy for a dangerous call.
    pub(super) fn edged(&self, rows: Vec<Row>) -> Vec<Row> {
        if !self.is_heavy {
            return rows;
        }
        let edge = |row: &Row| {
            let text = row.text();
            let heavy = match text.chars().next() {
                Some('┌') => "┏",
                Some('│') => "┃",
                Some('├') => "┣",
                Some('└') => "┗",
                Some(_) | None => return row.clone(),
            };
            let first = text.chars().next().map_or(0, char::len_utf8);
            let mut heavy = Row::of(Style::YELLOW, heavy);
            heavy.append(&row.cut(first, text.len()));
            heavy
        };
        rows.iter().map(edge).collect()
    }
}

/// Rows of the choices in their long form.
fn choice_rows(card: &ApprovalCard, width: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    for choice in card.choices.iter().filter(|choice| choice.is_row) {
        let lasting = card.choices.iter().find(|other| {
            !other.is_row && other.key.is_uppercase() && other.key.to_ascii_lowercase() == choice.key
        });
        let always = lasting.map_or(String::new(), |other| format!(" · {} always", other.key));
        let edge = if rows.is_empty() { HEADING_EDGE } else { CALL_EDGE };
        wrap_words(edge, Style::PLAIN, &format!("{}  {}{always}", choice.key, choice.text), width, &mut rows);
    }
    rows
}

/// Choices without their own row in one line, with the key for the reason.
fn short_choices(card: &ApprovalCard, is_spacious: bool) -> String {
    let has_no_row = |choice: &&CardChoice| !choice.is_row && (!choice.key.is_uppercase() || !is_spacious);
    let short = |choice: &CardChoice| match choice.key {
        's' => "s  this session".to_owned(),
        'a' => "a  always …".to_owned(),
        key => format!("{key}  always"),
    };
    let mut all: Vec<String> = card
        .choices
        .iter()
        .filter(has_no_row)
        .filter(|choice| is_spacious || matches!(choice.key, 's' | 'a'))
        .map(short)
        .collect();
    all.push("?  why it asks".to_owned());
    all.join(" · ")
}

fn push_part(part: &CardPart, width: usize, body: &mut Vec<Row>) {
    let deeper = format!("{BODY_INDENT}{ARGUMENT_INDENT}");
    match part.kind {
        PartKind::Command => {
            for (at, line) in part.lines.iter().enumerate() {
                let sign = if at == 0 { "$ " } else { "  " };
                let row = Row::of(Style::BOLD, sign).with(Style::BOLD, line);
                wrap_row(CALL_EDGE, BODY_INDENT, &row, width, body);
            }
        }
        PartKind::Diff => {
            let mut hunks: Vec<Vec<&str>> = vec![Vec::new()];
            for line in &part.lines {
                if line.starts_with("@@ ") {
                    hunks.push(Vec::new());
                }
                hunks.last_mut().into_iter().for_each(|hunk| hunk.push(line));
            }
            // The headers repeat the file names, which the question contains.
            let is_name = |line: &&str| line.starts_with("--- ") || line.starts_with("+++ ");
            if hunks.len() > 1 && hunks.first().is_some_and(|before| before.iter().all(is_name)) {
                hunks.remove(0);
            }
            for (at, hunk) in hunks.iter().enumerate() {
                if at > 0 {
                    wrap(CALL_EDGE, BODY_INDENT, Style::DIM, OMITTED_ROW, width, body);
                }
                let rows = whole_diff(hunk.iter().copied());
                let is_header = |row: &&Row| row.text().starts_with("@@ ");
                let skipped = usize::from(rows.first().as_ref().is_some_and(is_header));
                rows.iter().skip(skipped).for_each(|row| wrap_row(CALL_EDGE, "", row, width, body));
            }
        }
        PartKind::ModelSays => {
            let said = part.lines.join(" ");
            wrap_indented(
                CALL_EDGE,
                BODY_INDENT,
                Style::PLAIN,
                &format!("the model says: {said}"),
                width,
                body,
            );
        }
        PartKind::Fact => {
            part.lines
                .iter()
                .for_each(|line| wrap_indented(CALL_EDGE, BODY_INDENT, Style::DIM, line, width, body));
        }
        PartKind::Text => match part.lines.as_slice() {
            [line] => {
                let row = Row::of(Style::DIM, &format!("{}: ", part.heading)).with(Style::PLAIN, line);
                wrap_row(CALL_EDGE, BODY_INDENT, &row, width, body);
            }
            lines => {
                wrap(CALL_EDGE, BODY_INDENT, Style::DIM, &format!("{}:", part.heading), width, body);
                lines.iter().for_each(|line| wrap(CALL_EDGE, &deeper, Style::PLAIN, line, width, body));
            }
        },
        // No text of an argument has this edge, so none can imitate a heading.
        PartKind::Json => match part.lines.as_slice() {
            [line] => {
                let row = Row::of(Style::DIM, &format!("{} = ", part.heading)).with(Style::PLAIN, line);
                wrap_row(HEADING_EDGE, BODY_INDENT, &row, width, body);
            }
            lines => {
                wrap(HEADING_EDGE, BODY_INDENT, Style::DIM, &format!("{} =", part.heading), width, body);
                lines.iter().for_each(|line| wrap(CALL_EDGE, &deeper, Style::PLAIN, line, width, body));
            }
        },
        PartKind::Preview => {
            wrap(HEADING_EDGE, BODY_INDENT, Style::DIM, "preview", width, body);
            part.lines.iter().for_each(|line| wrap(CALL_EDGE, &deeper, Style::PLAIN, line, width, body));
        }
    }
}

/// Rows with the reasons for the question, and with the calls that its choices would allow.
fn push_reasons(card: &ApprovalCard, width: usize, body: &mut Vec<Row>) {
    for reason in &card.reasons {
        wrap_indented(HEADING_EDGE, BODY_INDENT, Style::YELLOW, &format!("why: {reason}"), width, body);
    }
    for (at, choice) in card.choices.iter().enumerate() {
        let is_said = card.choices.iter().take(at).any(|before| before.allows == choice.allows);
        if let Some(allows) = choice.allows.as_ref().filter(|_| !is_said) {
            let same = card.choices.iter().filter(|other| other.allows.as_ref() == Some(allows));
            let keys: Vec<String> = same.map(|other| other.key.to_string()).collect();
            let allows = visible_lines(allows).join(" ");
            wrap_indented(
                HEADING_EDGE,
                BODY_INDENT,
                Style::DIM,
                &format!("{}: {allows}", keys.join(", ")),
                width,
                body,
            );
        }
    }
}

#[cfg(test)]
mod tests;
