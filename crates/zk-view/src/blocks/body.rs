use std::sync::Arc;

use serde::{Deserialize, Serialize};
use zk_core::model::{CommandExit, Display, ToolContent};

use crate::{DiffLine, DiffReader, Text};

/// Maximum size of a body in its block, in lines and bytes.
const PREVIEW_LINES: usize = 40;
const PREVIEW_BYTES: usize = 8 * 1024;

/// Maximum size of a body that a person has to read completely, in lines and bytes.
const READ_LINES: usize = 1000;
const READ_BYTES: usize = 64 * 1024;

/// Maximum length of a line in a block, in characters.
const PREVIEW_WIDTH: usize = 2000;

/// Body of a result. The block holds a bounded part; [`Intent::Expand`](crate::Intent::Expand) requests all
/// lines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Body {
    /// Form of the lines.
    pub form: Form,
    /// Lines in the block: the tail of an output, the head of other bodies.
    pub lines: Vec<Text>,
    /// Total number of lines, including discarded ones.
    pub total_lines: u64,
    /// Whether [`Intent::Expand`](crate::Intent::Expand) returns more lines.
    pub expandable: bool,
}

/// Form of the lines of a [`Body`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "form", rename_all = "snake_case")]
pub enum Form {
    /// Single line.
    Line,
    /// Text.
    Lines,
    /// The output of a command.
    Command {
        /// Exit of the command.
        exit: CommandExit,
    },
    /// A unified diff.
    Diff {
        /// The path it is of.
        path: Text,
        /// Number of added lines.
        added: u64,
        /// Number of removed lines.
        removed: u64,
    },
    /// Rows of a table, cells separated by ` | `; the first is the head.
    Table,
    /// Lines of Markdown.
    Markdown {
        /// Outcome in one line; empty on success.
        #[serde(default, skip_serializing_if = "Text::is_empty")]
        outcome: Text,
    },
    /// To-do list; each item starts with the sign of its state.
    Checklist {
        /// Whether items were added, removed or changed, beyond their state.
        reshaped: bool,
    },
}

/// A body with all its lines.
pub(crate) struct FullBody {
    form: Form,
    pub(crate) lines: Vec<Text>,
    total_lines: u64,
}

impl FullBody {
    /// Body of a result: the tool's display, or else the text for the model.
    pub(crate) fn of_result(display: Option<&Display>, content: &ToolContent) -> Self {
        match display {
            Some(display) => Self::of_display(display),
            None => Self::of_text(&content.to_text()),
        }
    }

    pub(crate) fn of_display(display: &Display) -> Self {
        match display {
            Display::Line { text } => Self { form: Form::Line, ..Self::of_lines([Text::line(text)]) },
            Display::Lines { lines } => Self::of_lines(lines.iter().map(|line| Text::line(line))),
            Display::Command { lines, total_lines, exit } => Self {
                form: Form::Command { exit: *exit },
                total_lines: *total_lines,
                ..Self::of_lines(lines.iter().map(|line| Text::line(line)))
            },
            Display::Diff { path, diff } => {
                let (mut added, mut removed) = (0, 0);
                let mut reader = DiffReader::default();
                for line in diff.lines() {
                    match reader.line(line) {
                        DiffLine::Added { .. } => added += 1,
                        DiffLine::Removed { .. } => removed += 1,
                        DiffLine::Header(_) | DiffLine::Hunk(_) | DiffLine::Kept { .. } => {}
                    }
                }
                let form = Form::Diff { path: Text::line(path), added, removed };
                Self { form, ..Self::of_lines(diff.lines().map(Text::line)) }
            }
            Display::Markdown { text, outcome } => {
                let form = Form::Markdown { outcome: Text::line(outcome) };
                Self { form, ..Self::of_lines(text.lines().map(Text::line)) }
            }
            Display::Checklist { items, reshaped } => {
                let lines = items.iter().map(|item| Text::line(&item.to_string()));
                Self { form: Form::Checklist { reshaped: *reshaped }, ..Self::of_lines(lines) }
            }
            Display::Table { head, rows } => {
                let row = |cells: &Vec<String>| Text::line(&cells.join(" | "));
                let mut body = Self::of_lines(std::iter::once(head).chain(rows).map(row));
                body.form = Form::Table;
                body.total_lines = rows.len() as u64;
                body
            }
        }
    }

    /// Body of a text, without trailing empty lines.
    fn of_text(text: &str) -> Self {
        Self::of_lines(text.trim_end().lines().map(Text::line))
    }

    fn of_lines(lines: impl IntoIterator<Item = Text>) -> Self {
        let lines: Vec<Text> = lines.into_iter().collect();
        Self { form: Form::Lines, total_lines: lines.len() as u64, lines }
    }

    /// Returns the part of the body that its block holds.
    pub(crate) fn preview(&self) -> Body {
        let (most_lines, mut left) = match self.form {
            // The person has to read these completely.
            Form::Markdown { .. } | Form::Checklist { .. } => (READ_LINES, READ_BYTES),
            Form::Line | Form::Lines | Form::Command { .. } | Form::Diff { .. } | Form::Table => {
                (PREVIEW_LINES, PREVIEW_BYTES)
            }
        };
        let mut expandable = false;
        let fits = |line: &&Text| {
            let fits = left >= line.as_str().len().min(PREVIEW_WIDTH);
            left = left.saturating_sub(line.as_str().len());
            fits
        };
        let shows_end = match self.form {
            Form::Lines | Form::Command { .. } => true,
            Form::Line | Form::Diff { .. } | Form::Table | Form::Markdown { .. } | Form::Checklist { .. } => {
                false
            }
        };
        let mut lines: Vec<&Text> = match shows_end {
            true => self.lines.iter().rev().take(most_lines).take_while(fits).collect(),
            false => self.lines.iter().take(most_lines).take_while(fits).collect(),
        };
        if shows_end {
            lines.reverse();
        }
        expandable |= lines.len() < self.lines.len();
        let lines = lines
            .into_iter()
            .map(|line| match line.as_str().char_indices().nth(PREVIEW_WIDTH) {
                Some((at, _)) => {
                    expandable = true;
                    Text::new(&format!("{}…", line.as_str().get(..at).unwrap_or_default()))
                }
                None => Text::new(line.as_str()),
            })
            .collect();
        Body { form: self.form.clone(), lines, total_lines: self.total_lines, expandable }
    }

    pub(crate) fn into_lines(self) -> Arc<[Text]> {
        self.lines.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preview_of(display: &Display) -> Body {
        FullBody::of_display(display).preview()
    }

    #[test]
    fn a_long_output_shows_its_end_and_counts_what_was_printed() {
        let lines = (1..=100).map(|n| n.to_string()).collect();
        let exit = CommandExit::Code { code: 0 };
        let body = preview_of(&Display::Command { lines, total_lines: 100_000, exit });
        assert_eq!((body.lines.len(), body.total_lines, body.expandable), (40, 100_000, true));
        assert_eq!(body.lines.last().unwrap().as_str(), "100");
    }

    #[test]
    fn a_diff_shows_its_beginning_and_counts_its_changes() {
        let diff = format!("--- a\n+++ b\n@@\n-x\n{}", "+y\n".repeat(60));
        let body = preview_of(&Display::Diff { path: "a".into(), diff });
        assert_eq!(body.form, Form::Diff { path: "a".into(), added: 60, removed: 1 });
        assert_eq!(body.lines.first().unwrap().as_str(), "--- a");
    }

    #[test]
    fn one_endless_line_is_cut_and_can_be_expanded() {
        let body = preview_of(&Display::Lines { lines: vec!["é".repeat(5000)] });
        assert_eq!((body.lines[0].as_str().chars().count(), body.expandable), (PREVIEW_WIDTH + 1, true));
    }
}
