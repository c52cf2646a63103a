mod resizing;
mod shifting;

use std::fmt::Write;
use std::sync::Arc;

use self::resizing::Resizing;
use self::shifting::Shift;
use crate::row::{Looks, Row, Theme};
use crate::term::{KnownTerminal, NoticeForm};
use crate::text::{columns, graphemes, soft_split};

/// Size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Width in columns, at least 1.
    pub width: usize,
    /// Height in rows, at least 1.
    pub height: usize,
}

impl Size {
    /// Creates a size of at least 1 by 1.
    #[must_use]
    pub fn new(width: usize, height: usize) -> Self {
        Self { width: width.max(1), height: height.max(1) }
    }

    /// Maximum number of redrawn rows: one less than the height, so that they never scroll away.
    #[must_use]
    pub fn live_rows(self) -> usize {
        self.height.saturating_sub(1).max(1)
    }
}

/// Capabilities of a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// Colours and links.
    pub looks: Looks,
    /// Whether the terminal supports synchronized output (mode 2026).
    pub synchronized: bool,
    /// Whether the terminal reflows lines when it becomes narrower.
    pub reflows: bool,
    /// Whether the terminal is within tmux, which passes on wrapped sequences.
    pub tmux: bool,
    /// Form of desktop notifications.
    pub notices: NoticeForm,
    /// Whether the background colour is queried to choose the theme.
    pub follows_ground: bool,
    /// Absolute directory whose files can be linked; without one only web pages are.
    pub workspace: Option<Arc<str>>,
}

impl Abilities {
    /// Abilities that every terminal has.
    pub const PLAIN: Self = Self {
        looks: Looks { theme: Theme::Mono, links: false },
        synchronized: false,
        reflows: false,
        tmux: false,
        notices: NoticeForm::Bell,
        follows_ground: false,
        workspace: None,
    };
}

/// Position of the caret in the redrawn rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caret {
    /// The row, from 0.
    pub row: usize,
    /// The column, from 0.
    pub column: usize,
}

/// Renderer below the terminal's existing content: closed rows are written once and scroll away with the
/// terminal's own scrolling; the live rows below them are redrawn where they changed, and moved when rows are
/// inserted above.
///
/// All movement is relative to the cursor. The screen never sets a scroll region, and erases nothing above its
/// first live row.
#[derive(Debug)]
pub struct InlineScreen {
    size: Size,
    abilities: Abilities,
    live: Vec<Drawn>,
    caret: Caret,
    is_caret_shown: bool,
    resizing: Resizing,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Drawn {
    encoded: String,
    columns: usize,
    /// Whether it contains a character of two columns, which a terminal does not split.
    has_wide: bool,
}

impl InlineScreen {
    /// Creates a screen; the cursor is at the start of an empty row.
    #[must_use]
    pub fn new(size: Size, abilities: Abilities) -> Self {
        Self {
            size,
            abilities,
            live: Vec::new(),
            caret: Caret::default(),
            is_caret_shown: true,
            resizing: Resizing::default(),
        }
    }

    /// Returns the size of the terminal.
    #[must_use]
    pub fn size(&self) -> Size {
        self.size
    }

    /// Applies the terminal's name and version, which override the environment.
    pub(crate) fn set_version(&mut self, version: &str) {
        let Some(known) = KnownTerminal::of(version) else { return };
        self.abilities.reflows = known.reflows;
        if self.abilities.notices != NoticeForm::None {
            self.abilities.notices = known.notices.unwrap_or(self.abilities.notices);
        }
        self.abilities.tmux |= known.is_tmux;
    }

    /// Returns the abilities of the terminal.
    #[must_use]
    pub fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    /// Applies the terminal's background colour. If the background decides the theme, later rows use a matching
    /// one.
    pub(crate) fn set_ground(&mut self, is_light: bool) {
        if self.abilities.follows_ground {
            let dark = match self.abilities.looks.theme {
                Theme::Sixteen => Theme::Sixteen,
                Theme::Dark | Theme::Light | Theme::ColourBlind | Theme::Mono | Theme::Own(_) => Theme::Dark,
            };
            self.abilities.looks.theme = if is_light { Theme::Light } else { dark };
        }
    }

    /// Sets the theme chosen by the person, for later rows.
    pub(crate) fn set_theme(&mut self, theme: Theme) {
        (self.abilities.looks.theme, self.abilities.follows_ground) = (theme, false);
    }

    /// Sets whether the terminal supports synchronized output.
    pub fn set_synchronized(&mut self, synchronized: bool) {
        self.abilities.synchronized = synchronized;
    }

    /// Bytes of one frame: `closed` rows, `live` rows below them, and the caret, hidden if `None`. Empty if
    /// nothing changed.
    #[must_use]
    pub fn frame(&mut self, closed: &[Row], live: &[Row], caret: Option<Caret>) -> String {
        let mut rows: Vec<Drawn> =
            live.iter().take(self.size.live_rows()).map(|row| self.draw_row(row)).collect();
        if rows.is_empty() {
            rows.push(Drawn::default());
        }
        let mut out = self.take_erasing_bytes();
        if !closed.is_empty() {
            self.resizing.keep_hidden();
        }
        let in_place = self.draw_closed_in_place(closed, rows.len());
        let shift = in_place.and_then(|closed| Some((Shift::between(&self.live, &closed, &rows)?, closed)));
        match shift {
            Some((shift, closed)) => self.shift(&mut out, &closed, rows, shift),
            None if closed.is_empty() => self.redraw(&mut out, rows),
            None => self.redraw_all(&mut out, closed, rows),
        }
        self.place_caret(&mut out, caret);
        self.finish_frame(out)
    }

    fn redraw_all(&mut self, out: &mut String, closed: &[Row], rows: Vec<Drawn>) {
        self.erase(out);
        for row in closed {
            out.push_str(&self.encode(row));
            out.push_str("\r\n");
        }
        self.live.clear();
        self.redraw(out, rows);
    }

    /// Bytes that erase the live rows and leave the cursor at their start.
    #[must_use]
    pub fn clear(&mut self) -> String {
        let mut out = self.take_erasing_bytes();
        self.erase(&mut out);
        (self.live, self.caret) = (Vec::new(), Caret::default());
        self.resizing.keep_hidden();
        self.show_caret(&mut out, true);
        out
    }

    /// Forgets the drawn rows: the cursor is at the start of an empty row, where the next frame starts.
    pub fn forget(&mut self) {
        (self.live, self.caret, self.is_caret_shown) = (Vec::new(), Caret::default(), true);
        self.resizing = Resizing::default();
    }

    fn encode(&self, row: &Row) -> String {
        row.encode(self.abilities.looks, self.abilities.workspace.as_deref())
    }

    fn draw_row(&self, row: &Row) -> Drawn {
        // Without a fill: a row that overwrites another erases the rest of it in the terminal's default
        // background.
        let row = soft_split(row, self.size.width).into_iter().next().unwrap_or_default().without_fill();
        let text = row.text();
        Drawn {
            encoded: self.encode(&row),
            columns: columns(text.trim_end_matches(' ')),
            has_wide: graphemes(&text).any(|(_, columns)| columns > 1),
        }
    }

    /// Erases from the first live row down and leaves the cursor there. The first row is erased separately:
    /// tmux would copy everything below to its history if a screen were erased from its first cell.
    fn erase(&mut self, out: &mut String) {
        let has_more = self.live.len() > 1 || self.caret.row > 0;
        self.erase_rows(out, has_more);
    }

    /// Erases the first live row, and those below if there are more.
    fn erase_rows(&mut self, out: &mut String, has_more: bool) {
        move_up(out, self.caret.row);
        out.push_str("\r\u{1b}[K");
        if has_more {
            // After a resize there may be no row below. So the cursor position is saved and restored, instead
            // of moving back up by one row.
            out.push_str("\u{1b}7\u{1b}[B\r\u{1b}[J\u{1b}8");
        }
        self.caret = Caret::default();
    }

    /// Writes the changed rows. The cursor ends in the last written row.
    fn redraw(&mut self, out: &mut String, rows: Vec<Drawn>) {
        let mut at = self.caret.row;
        let common = self.live.len().min(rows.len());
        for (row, (old, new)) in self.live.iter().zip(&rows).enumerate() {
            if old == new {
                continue;
            }
            move_between_rows(out, at, row);
            at = row;
            rewrite(out, old, new, self.size.width);
        }
        for (row, new) in rows.iter().enumerate().skip(common) {
            if row > 0 {
                move_between_rows(out, at, row - 1);
                out.push_str("\r\n");
            } else {
                out.push('\r');
            }
            out.push_str(&new.encoded);
            at = row;
        }
        for row in rows.len()..self.live.len() {
            move_between_rows(out, at, row);
            out.push_str("\r\u{1b}[K");
            at = row;
        }
        // The caret is positioned afterwards.
        if !out.is_empty() {
            self.caret = Caret { row: at, column: usize::MAX };
        }
        self.live = rows;
    }

    fn place_caret(&mut self, out: &mut String, caret: Option<Caret>) {
        let last = self.live.len().saturating_sub(1);
        // Without a caret the cursor is left at the end, where a shell would continue.
        let wanted = caret.unwrap_or(Caret { row: last, column: 0 });
        let wanted =
            Caret { row: wanted.row.min(last), column: wanted.column.min(self.size.width.saturating_sub(1)) };
        if wanted != self.caret {
            move_between_rows(out, self.caret.row, wanted.row);
            out.push('\r');
            if wanted.column > 0 {
                let _ = write!(out, "\u{1b}[{}C", wanted.column);
            }
            self.caret = wanted;
        }
        self.show_caret(out, caret.is_some());
    }

    fn show_caret(&mut self, out: &mut String, show: bool) {
        if std::mem::replace(&mut self.is_caret_shown, show) != show {
            out.push_str(if show { "\u{1b}[?25h" } else { "\u{1b}[?25l" });
        }
    }

    fn finish_frame(&self, out: String) -> String {
        if out.is_empty() || !self.abilities.synchronized {
            return out;
        }
        format!("\u{1b}[?2026h{out}\u{1b}[?2026l")
    }
}

fn move_up(out: &mut String, rows: usize) {
    if rows > 0 {
        let _ = write!(out, "\u{1b}[{rows}A");
    }
}

/// Moves between two live rows, to the start or to the same column. Moves down by line ends: if the terminal
/// has just become lower than this process knows, a cursor movement would stop early, and the way back would
/// end above the first live row.
fn move_between_rows(out: &mut String, from: usize, to: usize) {
    if to > from {
        (from..to).for_each(|_| out.push('\n'));
    } else {
        move_up(out, from - to);
    }
}

/// Overwrites a row from the first difference on.
fn rewrite(out: &mut String, old: &Drawn, new: &Drawn, width: usize) {
    let (kept, start) = common_start(&old.encoded, &new.encoded);
    out.push('\r');
    if start > 0 {
        let _ = write!(out, "\u{1b}[{start}C");
    }
    out.push_str(new.encoded.get(kept..).unwrap_or_default());
    // After a full row the cursor is in its last column, which would be erased.
    if new.columns < old.columns && new.columns < width {
        out.push_str("\u{1b}[K");
    }
}

/// Length of the common beginning of two rows, in bytes and columns. The beginning ends outside of any style,
/// and contains only characters that are equally wide in every terminal.
fn common_start(old: &str, new: &str) -> (usize, usize) {
    let is_sure = |grapheme: &str| {
        let mut chars = grapheme.chars();
        let first = chars.next().unwrap_or_default();
        // Kana, Chinese characters and Hangul are two columns everywhere; emoji are not.
        let is_wide =
            matches!(first, '\u{3041}'..='\u{30ff}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}');
        let is_narrow = matches!(first, ' '..='~' | '\u{a0}'..='\u{2ff}' | '›' | '│' | '•');
        chars.next().is_none() && (is_wide || is_narrow)
    };
    let (mut bytes, mut columns, mut kept) = (0, 0, (0, 0));
    // Parameters of a style sequence, while within one.
    let mut codes: Option<String> = None;
    let mut is_styled = false;
    for ((a, _), (b, wide)) in graphemes(old).zip(graphemes(new)) {
        if a != b {
            break;
        }
        bytes += a.len();
        match (&mut codes, a) {
            (Some(codes), "[") if codes.is_empty() => codes.push('['),
            (Some(begun), "m") => {
                is_styled = begun != "[";
                codes = None;
            }
            (Some(codes), digit) if digit.bytes().all(|byte| byte.is_ascii_digit() || byte == b';') => {
                codes.push_str(digit);
            }
            // A link, which is written whole.
            (Some(_), _) => break,
            (None, "\u{1b}") => codes = Some(String::new()),
            (None, sure) if is_sure(sure) => columns += wide,
            (None, _) => break,
        }
        if codes.is_none() && !is_styled {
            kept = (bytes, columns);
        }
    }
    kept
}
