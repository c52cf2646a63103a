use super::{Caret, InlineScreen, Size};

/// Queries the terminal's size, then its device attributes, which every terminal answers.
const ASK_SIZE: &str = "\u{1b}[18t\u{1b}[c";

/// Uncertainties after a resize.
#[derive(Debug, Default)]
pub(super) struct Resizing {
    /// Number of unanswered size queries.
    asked: usize,
    /// Rows and columns in the terminal's answer to the oldest query.
    reported: Option<(usize, usize)>,
    /// Width at which the terminal wraps lines, once it has answered; the inner `None` means that it does not
    /// wrap. The next frame erases the old rows by it. If the size changes before that, the frame waits for the
    /// next answer, since it would erase too much.
    answered: Option<Option<usize>>,
    /// Whether the terminal reported another width than the process knows, so that another resize follows.
    is_outdated: bool,
    /// Whether the rows were drawn on a terminal that may have been narrower than the process knew. Movement
    /// then covers only the rows of a wide terminal, which may be too few.
    is_doubtful: bool,
    /// Widths of live rows that a smaller height moved above the screen, top to bottom. They may come back.
    hidden: Vec<usize>,
    /// Bytes that erase the live rows, written with the next frame.
    bytes: String,
}

impl Resizing {
    /// Marks hidden rows as permanent, since closed rows are written below them.
    pub(super) fn keep_hidden(&mut self) {
        self.hidden.clear();
    }
}

/// Resizing: a terminal that reflows turns a live row that no longer fits into several rows. The number of rows
/// to erase depends on the terminal's width when it processes the bytes, which the process may learn late: tmux
/// reports a resize up to 250 ms after the next one. So the terminal is queried, and drawing waits for the
/// answer.
impl InlineScreen {
    /// Applies a new size. The next frame redraws the live rows. If their position is uncertain, the returned
    /// bytes query the terminal: see [`is_asking`](Self::is_asking).
    #[must_use]
    pub fn resize(&mut self, size: Size) -> String {
        if size == self.size {
            return String::new();
        }
        self.size = size;
        self.resizing.is_outdated = false;
        self.resizing.answered = None;
        let is_drawn = !self.live.is_empty() || !self.resizing.hidden.is_empty();
        // Queried even if every row fits: only the answer tells whether the terminal has become narrower since.
        if self.abilities.reflows && (is_drawn || self.is_asking()) {
            self.resizing.asked += 1;
            return ASK_SIZE.to_owned();
        }
        self.erase_live_rows(None);
        String::new()
    }

    /// Whether a size query is unanswered, or another resize is known to follow. [`frame`](Self::frame)
    /// proceeds without an answer.
    #[must_use]
    pub fn is_asking(&self) -> bool {
        self.resizing.asked > 0 || self.resizing.is_outdated
    }

    /// Applies the size in the terminal's answer.
    pub fn set_reported_size(&mut self, rows: usize, columns: usize) {
        if self.is_asking() {
            self.resizing.reported = Some((rows, columns));
        }
    }

    /// Whether the terminal answered and the old rows are not erased yet. Another resize may follow, so a
    /// frame before that is certain needs [`doubt`](Self::doubt).
    pub(crate) fn is_settling(&self) -> bool {
        self.resizing.answered.is_some()
    }

    /// Drops the terminal's answer, since a frame is drawn before the size is stable.
    pub(crate) fn discard_answer(&mut self) {
        if self.is_settling() {
            (self.resizing.answered, self.resizing.is_outdated) = (None, true);
        }
    }

    /// Whether this size has the width that the process knows.
    fn is_reported_width(&self, (rows, columns): (usize, usize)) -> bool {
        let Size { width, height } = self.size;
        if !self.abilities.tmux {
            return columns == width;
        }
        // tmux up to 3.3 answers with the columns first, so either value may be the width.
        [(height, width), (width, height)].contains(&(rows, columns))
    }

    /// Marks all queries as answered, after the device attributes.
    pub fn end_answer(&mut self) {
        let reported = self.resizing.reported.take();
        match self.resizing.asked {
            0 => {}
            1 => {
                self.resizing.asked = 0;
                match reported {
                    Some(reported) if !self.is_reported_width(reported) => {
                        self.resizing.is_outdated = true;
                        // Wide characters leave other columns empty after a resize, and terminals differ in
                        // the cursor's position then.
                        self.resizing.is_doubtful |= self.live.iter().any(|drawn| drawn.has_wide);
                    }
                    reported => self.resizing.answered = Some(reported.map(|_| self.size.width)),
                }
            }
            _ => self.resizing.asked -= 1,
        }
    }

    /// Takes the bytes that erase rows drawn at another size. Without an answer, only the rows whose position
    /// is certain are erased.
    pub(super) fn take_erasing_bytes(&mut self) -> String {
        if self.is_asking() {
            (self.resizing.asked, self.resizing.reported, self.resizing.is_outdated) = (0, None, false);
            self.erase_live_rows(None);
            self.resizing.is_doubtful = true;
        } else if let Some(width) = self.resizing.answered.take() {
            self.erase_live_rows(width);
        }
        std::mem::take(&mut self.resizing.bytes)
    }

    /// Erases the live rows on a terminal that wraps at `width`. Without a width each counts as one row: some
    /// may stay, but nothing above them is erased.
    fn erase_live_rows(&mut self, width: Option<usize>) {
        let is_doubtful = std::mem::take(&mut self.resizing.is_doubtful);
        let width = width.filter(|_| !is_doubtful);
        let rows = |columns: usize| width.map_or(1, |width| columns.div_ceil(width).max(1));
        let within = match width {
            Some(width) => {
                let written = self.live.get(self.caret.row).map_or(0, |drawn| drawn.columns);
                // Terminals differ in the cursor's position after a full row. Erasing a row too few is
                // harmless, one too many would erase foreign content.
                let last =
                    if written > self.caret.column { self.caret.column } else { written.saturating_sub(1) };
                last / width
            }
            None => 0,
        };
        let hidden = std::mem::take(&mut self.resizing.hidden);
        let above: Vec<usize> = hidden
            .into_iter()
            .chain(self.live.iter().take(self.caret.row).map(|drawn| drawn.columns))
            .collect();
        let total = above.iter().map(|columns| rows(*columns)).sum::<usize>() + within;
        let seen = self.size.height.saturating_sub(1);
        let mut out_of_sight = total.saturating_sub(seen);
        for columns in above {
            let rows = rows(columns);
            if rows > out_of_sight {
                break;
            }
            out_of_sight -= rows;
            self.resizing.hidden.push(if is_doubtful { 1 } else { columns });
        }
        self.caret.row = total.min(seen);
        if !self.live.is_empty() {
            let mut out = std::mem::take(&mut self.resizing.bytes);
            // A live row may have become several rows.
            self.erase_rows(&mut out, true);
            self.resizing.bytes = out;
        }
        (self.live, self.caret) = (Vec::new(), Caret::default());
    }
}
