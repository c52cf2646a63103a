use super::{Caret, InlineScreen, Size};

/// Asks how large the terminal is, and then what it is, which every one answers.
const ASK_SIZE: &str = "\u{1b}[18t\u{1b}[c";

/// Uncertainties after a resize.
#[derive(Debug, Default)]
pub(super) struct Resizing {
    /// Questions for the size that are not answered.
    asked: usize,
    /// Rows and columns that the terminal answered to the oldest of them.
    reported: Option<(usize, usize)>,
    /// Set once the terminal answered: the width at which it breaks lines, or nothing if it breaks none.
    /// The drawn rows are removed with the next frame. If the size changes before that frame, it would move
    /// up too far, so it waits for the next answer.
    answered: Option<Option<usize>>,
    /// The terminal answered that it has another width than the process was told: another size is to come.
    is_outdated: bool,
    /// The rows on the screen were drawn on a terminal that may have been narrower than the process knew.
    /// What is moved over and written there is no more than the rows that it has on a terminal wide enough,
    /// but may be less than their columns.
    is_doubtful: bool,
    /// Columns of live rows that were above the screen when it was made smaller, top to bottom. They may come back.
    hidden: Vec<usize>,
    /// Bytes that take the live rows away, to be written with the next frame.
    bytes: String,
}

impl Resizing {
    /// Something closed is written below what is hidden, which therefore stays.
    pub(super) fn keep_hidden(&mut self) {
        self.hidden.clear();
    }
}

/// A terminal that breaks lines anew makes several rows of a live row that does not fit any more. How many there are to
/// take away depends on its width at the moment it takes in the bytes, which the process may learn late: tmux tells of a
/// resize up to 250 ms after the next one. So it is asked, and nothing is drawn until it answered.
impl InlineScreen {
    /// Takes in another size. The next frame draws the live rows anew. Where it is not sure which rows they are, the bytes
    /// ask the terminal: see [`is_asking`](Self::is_asking).
    #[must_use]
    pub fn resize(&mut self, size: Size) -> String {
        if size == self.size {
            return String::new();
        }
        self.size = size;
        self.resizing.is_outdated = false;
        self.resizing.answered = None;
        let is_drawn = !self.live.is_empty() || !self.resizing.hidden.is_empty();
        // Also where every row fits: only the answer says whether the terminal has become narrower since.
        if self.abilities.reflows && (is_drawn || self.is_asking()) {
            self.resizing.asked += 1;
            return ASK_SIZE.to_owned();
        }
        self.take_away(None);
        String::new()
    }

    /// Whether the terminal was asked for its size, or said that the process is to be told another one:
    /// [`frame`](Self::frame) takes that for unanswered.
    #[must_use]
    pub fn is_asking(&self) -> bool {
        self.resizing.asked > 0 || self.resizing.is_outdated
    }

    /// The terminal says how large it is.
    pub fn set_reported_size(&mut self, rows: usize, columns: usize) {
        if self.is_asking() {
            self.resizing.reported = Some((rows, columns));
        }
    }

    /// Whether the terminal answered, and what is drawn was not taken away yet. Another size may be to come, so a frame that
    /// is drawn before that is sure needs [`doubt`](Self::doubt).
    pub(crate) fn is_settling(&self) -> bool {
        self.resizing.answered.is_some()
    }

    /// Drops the answer of the terminal, because a frame is drawn before it is known to hold still.
    pub(crate) fn doubt(&mut self) {
        if self.is_settling() {
            (self.resizing.answered, self.resizing.is_outdated) = (None, true);
        }
    }

    /// Whether this is the size with the width that the process was told last.
    fn is_reported_width(&self, (rows, columns): (usize, usize)) -> bool {
        let Size { width, height } = self.size;
        if !self.abilities.tmux {
            return columns == width;
        }
        // tmux up to 3.3 answers with the columns first, so one of both says nothing.
        [(height, width), (width, height)].contains(&(rows, columns))
    }

    /// The terminal answered what it is, and all that it was asked before.
    pub fn end_answer(&mut self) {
        let reported = self.resizing.reported.take();
        match self.resizing.asked {
            0 => {}
            1 => {
                self.resizing.asked = 0;
                match reported {
                    Some(reported) if !self.is_reported_width(reported) => {
                        self.resizing.is_outdated = true;
                        // Wide characters leave columns empty at one width that they do not at the next one, and
                        // terminals differ in what becomes of the cursor then.
                        self.resizing.is_doubtful |= self.live.iter().any(|drawn| drawn.has_wide);
                    }
                    reported => self.resizing.answered = Some(reported.map(|_| self.size.width)),
                }
            }
            _ => self.resizing.asked -= 1,
        }
    }

    /// The bytes that take away what was drawn at another size. If the terminal did not answer yet, as far as it is sure
    /// which rows that is.
    pub(super) fn take_resized(&mut self) -> String {
        if self.is_asking() {
            (self.resizing.asked, self.resizing.reported, self.resizing.is_outdated) = (0, None, false);
            self.take_away(None);
            self.resizing.is_doubtful = true;
        } else if let Some(width) = self.resizing.answered.take() {
            self.take_away(width);
        }
        std::mem::take(&mut self.resizing.bytes)
    }

    /// Takes the live rows away, on a terminal that breaks what is longer than `width`. Without one each of them has one
    /// row: some may stay, but nothing is taken away that is not this screen's.
    fn take_away(&mut self, width: Option<usize>) {
        let is_doubtful = std::mem::take(&mut self.resizing.is_doubtful);
        let width = width.filter(|_| !is_doubtful);
        let rows = |columns: usize| width.map_or(1, |width| columns.div_ceil(width).max(1));
        let within = match width {
            Some(width) => {
                let written = self.live.get(self.caret.row).map_or(0, |drawn| drawn.columns);
                // Behind the last character terminals differ: a row too few stays as it is, one too many would take away
                // what is not this screen's.
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
            // One row may be several by now.
            self.erase_rows(&mut out, true);
            self.resizing.bytes = out;
        }
        (self.live, self.caret) = (Vec::new(), Caret::default());
    }
}
