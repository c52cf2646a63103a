//! Questions outside of a conversation: a menu, and the entry of a line.

mod entry;
mod list;

pub use entry::{Entry, EntryKey};
pub use list::{Menu, MenuKey, MenuRow};

use crate::row::{Row, Style};
use crate::text::wrap;

/// Rows of a permanent message, wrapped at words, with a margin of two columns.
#[must_use]
pub fn message_rows(style: Style, text: &str, width: usize) -> Vec<Row> {
    let margin = Row::of(Style::PLAIN, "  ");
    text.lines().flat_map(|line| wrap(&Row::of(style, line), &margin, &margin, width)).collect()
}
