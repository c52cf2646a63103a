use std::time::Duration;

use zk_core::service::{Selection, UiAnswer, visible_lines};
use zk_view::sanitise;

use super::answer_keys::{FOCUS_PAUSE, LETTER_PAUSE, LineFocus};
use super::card::{Outcome, press_buffer};
use super::line_choice::LineChoice;
use super::select_rows::{SelectRows, preview_rows};
use crate::edit::Buffer;
use crate::keys::{Direction, Key};
use crate::row::Row;

/// State of a selection among options.
///
/// Arrows move a mark, and Enter takes the marked option. A digit chooses its option, unless more text
/// follows. Other text is a free answer, if the question allows one.
#[derive(Debug)]
pub(super) struct Select {
    asked: Selection,
    /// Sub-agent that asks.
    who: Option<String>,
    typed: Buffer,
    focus: LineFocus,
    /// Option that an arrow marked, and the time of that.
    mark: Option<(usize, Duration)>,
    /// Time at which a digit was typed alone.
    digit_at: Option<Duration>,
    /// Whether the last line was no answer.
    is_mistyped: bool,
    /// Index of the first visible row of the preview.
    from: usize,
    preview: Vec<Row>,
}

/// Answer, and the message about it.
type Answered = (UiAnswer, String);

impl Select {
    pub(super) fn has_mark(&self) -> bool {
        self.mark.is_some()
    }

    pub(super) fn new(
        asked: &Selection,
        who: Option<&str>,
        has_draft: bool,
        width: usize,
        now: Duration,
    ) -> Self {
        Self {
            asked: asked.clone(),
            typed: Buffer::default(),
            focus: LineFocus::new(has_draft, now),
            mark: None,
            digit_at: None,
            is_mistyped: false,
            from: 0,
            preview: preview_rows(asked, who, width),
            who: who.map(str::to_owned),
        }
    }

    pub(super) fn set_width(&mut self, width: usize) {
        (self.preview, self.from) = (preview_rows(&self.asked, self.who.as_deref(), width), 0);
    }

    pub(super) fn focus_mut(&mut self) -> &mut LineFocus {
        &mut self.focus
    }

    pub(super) fn is_typing(&self) -> bool {
        self.focus.is_typing()
    }

    /// Free-text answer that is being typed.
    pub(super) fn typed(&self) -> Option<&Buffer> {
        Some(&self.typed).filter(|typed| self.focus.is_focused() && !typed.is_empty())
    }

    pub(super) fn rows(&self, width: usize, room: usize) -> Vec<Row> {
        self.drawn().draw(width, room)
    }

    fn drawn(&self) -> SelectRows<'_> {
        SelectRows {
            asked: &self.asked,
            who: self.who.as_deref(),
            preview: &self.preview,
            from: self.from,
            mark: self.mark.map(|(mark, _)| mark).or_else(|| self.typed_option()),
            is_typing: self.is_typing(),
            is_mistyped: self.is_mistyped,
        }
    }

    /// Scrolls the preview by a page; returns false if the same rows are visible.
    pub(super) fn turn_page(&mut self, is_up: bool, width: usize, room: usize) -> bool {
        // If a long marked option hides the preview, unmarking it shows the preview again.
        if self.drawn().hides_preview(width, room) {
            self.mark = None;
        }
        let page = self.drawn().preview_height(width, room);
        let last = self.preview.len().saturating_sub(page);
        let before = self.from;
        self.from = if is_up { self.from.saturating_sub(page) } else { (self.from + page).min(last) };
        self.from != before
    }

    /// Handles keys; returns the answer, or the keys of the draft.
    pub(super) fn press(
        &mut self,
        keys: &[Key],
        is_burst: bool,
        now: Duration,
    ) -> Result<Vec<Outcome>, Answered> {
        if let [Key::Move { to, .. }] = keys
            && self.move_mark(*to, now)
        {
            return Ok(Vec::new());
        }
        if let [Key::Escape] = keys {
            return self.press_escape();
        }
        let is_line = self.typed.is_empty() && self.mark.is_none();
        if let ([Key::Enter], true, false) = (keys, is_line && self.focus.is_past_draft(now), is_burst) {
            // Enter without a typed answer takes only an option that an arrow marked.
            self.is_mistyped = true;
            return Ok(Vec::new());
        }
        if !self.focus.takes_part(keys, is_burst, now) {
            return Ok(keys.iter().cloned().map(Outcome::Draft).collect());
        }
        for key in keys {
            self.is_mistyped = false;
            self.digit_at = None;
            if *key == Key::Enter {
                // A key right behind the arrow is neither an answer nor text.
                if self.mark.is_some_and(|(_, at)| now < at + FOCUS_PAUSE) {
                    continue;
                }
                let text = self.typed.expanded().trim().to_owned();
                if let Some(answer) = self.answer(&text) {
                    return Err(answer);
                }
                self.is_mistyped = true;
                if !self.asked.accepts_words {
                    self.typed.take();
                }
                continue;
            }
            self.mark = None;
            press_buffer(&mut self.typed, key);
        }
        self.digit_at = self.typed_option().map(|_| now);
        Ok(Vec::new())
    }

    /// Moves the mark; returns false if the key does not move it.
    fn move_mark(&mut self, to: Direction, now: Duration) -> bool {
        let last = self.asked.options.len().checked_sub(1);
        match (to, last) {
            (Direction::Up | Direction::Down, Some(last)) if self.typed.is_empty() => {
                if !self.focus.takes_arrow(now) {
                    return false;
                }
                self.is_mistyped = false;
                let mark = match (to, self.mark.map(|(mark, _)| mark)) {
                    (Direction::Down, None) => 0,
                    (Direction::Down, Some(mark)) => {
                        if mark == last {
                            0
                        } else {
                            mark + 1
                        }
                    }
                    (_, Some(mark @ 1..)) => mark - 1,
                    (_, _) => last,
                };
                self.mark = Some((mark, now));
            }
            _ => return false,
        }
        true
    }

    /// Handles Escape, which declines; a typed answer goes to the draft.
    fn press_escape(&mut self) -> Result<Vec<Outcome>, Answered> {
        self.digit_at = None;
        if self.typed.is_empty() {
            return Err((UiAnswer::No { message: None }, DECLINED_MESSAGE.to_owned()));
        }
        Ok(vec![Outcome::Draft(Key::Paste(self.typed.take()))])
    }

    /// Answer by the typed line, or by the mark if nothing is typed; `None` if invalid.
    fn answer(&self, text: &str) -> Option<Answered> {
        let option = |index: usize| {
            let shown = visible_lines(self.asked.options.get(index)?).join(" ");
            Some((UiAnswer::Choice { index }, shown))
        };
        if text.is_empty() {
            return option(self.mark?.0);
        }
        match LineChoice::of(text, self.asked.options.len()) {
            LineChoice::Option(index) => option(index),
            LineChoice::None => Some((UiAnswer::No { message: None }, DECLINED_MESSAGE.to_owned())),
            LineChoice::Mistyped if self.asked.accepts_words => {
                let shown = visible_lines(&sanitise(text)).join(" ");
                Some((UiAnswer::Text { text: text.to_owned() }, shown))
            }
            LineChoice::Mistyped => None,
        }
    }

    /// Option whose digit is the whole typed text.
    fn typed_option(&self) -> Option<usize> {
        match LineChoice::of(self.typed.text(), self.asked.options.len()) {
            LineChoice::Option(index) => Some(index),
            LineChoice::None | LineChoice::Mistyped => None,
        }
    }

    /// Time at which a digit answers, unless more text follows.
    pub(super) fn next_tick(&self) -> Option<Duration> {
        self.digit_at.map(|at| at + LETTER_PAUSE)
    }

    pub(super) fn tick(&mut self, now: Duration) -> Option<Answered> {
        self.next_tick().filter(|due| *due <= now)?;
        self.digit_at = None;
        self.answer(&self.typed.expanded())
    }
}

/// Message for a declined question.
const DECLINED_MESSAGE: &str = "no answer";
