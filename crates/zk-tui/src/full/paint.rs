use std::fmt::Write;

use crate::inline::{Abilities, Caret, Size};
use crate::row::{FILL, Row};
use crate::text::columns;

/// Renderer for the alternate screen: rows have fixed positions, and changed ones are written.
#[derive(Debug, Default)]
pub(crate) struct FullScreen {
    shown: Vec<String>,
    caret: Option<Caret>,
    /// Whether the screen is known to show `shown`.
    is_known: bool,
}

/// Enters the alternate screen, which has key modes of its own. Mode 1007, which translates the wheel to arrow
/// keys and so would move the caret, is saved and switched off; a terminal that cannot save it has it on
/// afterwards. Instead the wheel is reported like a button (modes 1000 and 1006). With Shift held, terminals
/// select text as usual.
pub(crate) const ENTER: &str = "\u{1b}[?1049h\u{1b}[>1u\u{1b}[?1007s\u{1b}[?1007l\u{1b}[?1000h\u{1b}[?1006h";
pub(crate) const LEAVE: &str = "\u{1b}[?1006l\u{1b}[?1000l\u{1b}[<u\u{1b}[?1007h\u{1b}[?1007r\u{1b}[?1049l";

impl FullScreen {
    /// Marks the content of the screen as unknown, so that all rows are written.
    pub(crate) fn forget(&mut self) {
        self.is_known = false;
    }

    /// Bytes that show `rows` from the top, each one screen row, and the caret, hidden if `None`. Empty if
    /// nothing changed.
    pub(crate) fn frame(
        &mut self,
        rows: &[Row],
        caret: Option<Caret>,
        size: Size,
        abilities: &Abilities,
    ) -> String {
        let (mut out, workspace) = (String::new(), abilities.workspace.as_deref());
        if !self.is_known {
            out.push_str("\u{1b}[m\u{1b}[H\u{1b}[2J");
            (self.shown, self.is_known) = (vec![String::new(); size.height], true);
            self.caret = None;
            out.push_str("\u{1b}[?25l");
        }
        let is_shown = self.caret.is_some();
        let mut moved = !out.is_empty();
        for (at, old) in self.shown.iter_mut().enumerate() {
            let new = rows.get(at).map(|row| row.encode(abilities.looks, workspace)).unwrap_or_default();
            if *old != new {
                let _ = write!(out, "\u{1b}[{};1H{new}", at + 1);
                // After a full row the cursor is in its last column, which would be erased.
                let is_full = |row: &Row| columns(row.text().trim_end_matches(' ')) >= size.width;
                if !rows.get(at).is_some_and(is_full) && !new.contains(FILL) {
                    out.push_str("\u{1b}[K");
                }
                *old = new;
                moved = true;
            }
        }
        if moved || caret != self.caret {
            if let Some(caret) = caret {
                let _ = write!(out, "\u{1b}[{};{}H", caret.row + 1, caret.column + 1);
            }
            if caret.is_some() != is_shown {
                out.push_str(if caret.is_some() { "\u{1b}[?25h" } else { "\u{1b}[?25l" });
            }
            self.caret = caret;
        }
        if out.is_empty() || !abilities.synchronized {
            return out;
        }
        format!("\u{1b}[?2026h{out}\u{1b}[?2026l")
    }
}
