use std::time::Duration;

use zk_core::service::{Question, UiAnswer, visible_lines};
use zk_view::{Card, Intent};

use super::answer_keys::{AnswerKeys, Choice, KeyMeaning, LineFocus, Offer};
use super::approval::CardLook;
use super::asking::Asking;
use super::frame::{Frame, key_rows};
use super::select::Select;
use crate::app::messages;
use crate::edit::Buffer;
use crate::keys::{Direction, Key};
use crate::row::{Row, Style};

/// Minimum height of a selection in rows: question, an option, keys.
const MIN_SELECT_ROWS: usize = 3;

/// Hint on the key that shows the rows above.
const ABOVE_HINT: &str = ": Page Up";

/// State of a drawn question and of its answer.
#[derive(Debug)]
pub(crate) struct CardState {
    card: Card,
    asking: Asking,
    shows_why: bool,
    keys: AnswerKeys,
    /// Index of the first visible row of the body.
    from: usize,
    room: usize,
    width: usize,
    frame: Frame,
    line: Option<Line>,
    /// State of a selection, if the question is one.
    select: Option<Select>,
    /// Whether the last key scrolled, so that a space scrolls on and is no text.
    is_turned: bool,
}

/// Answer that is typed as a line.
#[derive(Debug)]
struct Line {
    typed: Buffer,
    focus: LineFocus,
}

impl Line {
    fn new(focus: LineFocus) -> Self {
        Self { typed: Buffer::default(), focus }
    }
}

/// Outcome of a key.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome {
    /// Key of the draft.
    Draft(Key),
    /// The answer, and the message about it.
    Answered(Box<Intent>, String),
    /// Message about a key that had no effect.
    Told(&'static str),
}

impl CardState {
    /// Whether an arrow marked a choice.
    pub(crate) fn has_mark(&self) -> bool {
        self.keys.marked().is_some() || self.select.as_ref().is_some_and(Select::has_mark)
    }

    /// Creates the state for a question drawn at `now`.
    pub(crate) fn new(card: Card, has_draft: bool, width: usize, room: usize, now: Duration) -> Self {
        let line = match &card.question {
            Question::Input { .. } => Some(Line::new(LineFocus::new(has_draft, now))),
            Question::Approve(_) | Question::Confirm { .. } | Question::Trust(_) | Question::Select(_) => {
                None
            }
        };
        let select = match &card.question {
            Question::Select(asked) => {
                let who = card.agent.as_ref().map(|agent| agent.name.unsanitised());
                Some(Select::new(asked, who, has_draft, width, now))
            }
            Question::Approve(_) | Question::Confirm { .. } | Question::Trust(_) | Question::Input { .. } => {
                None
            }
        };
        let asking = Asking::of(&card.question);
        let keys = AnswerKeys::new(Offer::default(), has_draft, now);
        let frame = frame_of(&card, width, room, false);
        let is_turned = false;
        let mut state = Self {
            card,
            asking,
            shows_why: false,
            keys,
            from: 0,
            room,
            width,
            frame,
            line,
            select,
            is_turned,
        };
        state.keys.offer(state.offer());
        state
    }

    pub(crate) fn question_card(&self) -> &Card {
        &self.card
    }

    /// Redraws the question from its start after a resize, since it has to be visible when answered.
    pub(crate) fn resize(&mut self, width: usize, room: usize, now: Duration) {
        let frame = frame_of(&self.card, width, room, self.shows_why);
        self.width = width;
        if room != self.room || frame != self.frame {
            (self.frame, self.room, self.from, self.is_turned) = (frame, room, 0, false);
            if let Some(select) = &mut self.select {
                select.set_width(width);
                select.focus_mut().redrawn(now);
            }
            self.keys.offer(self.offer());
            self.keys.redrawn(now);
        }
    }

    /// Draws the question again; it ignores keys for a moment.
    pub(crate) fn redrawn(&mut self, width: usize, now: Duration) {
        self.is_turned = false;
        if let Some(select) = &mut self.select {
            select.set_width(width);
            select.focus_mut().redrawn(now);
        }
        (self.frame, self.width) = (frame_of(&self.card, width, self.room, self.shows_why), width);
        self.keys.redrawn(now);
        if let Some(line) = &mut self.line {
            line.focus.redrawn(now);
        }
    }

    /// Sets whether there is a draft, which keeps its keys.
    pub(crate) fn set_typing(&mut self, is_typing: bool) {
        self.is_turned &= !is_typing;
        if let Some(select) = &mut self.select {
            select.focus_mut().set_typing(is_typing);
        }
        self.keys.set_typing(is_typing);
        if let Some(line) = &mut self.line {
            line.focus.set_typing(is_typing);
        }
    }

    fn is_typing(&self) -> bool {
        self.line.as_ref().map_or(self.keys.is_typing(), |line| line.focus.is_typing())
    }

    /// Whether the question does not fit the screen and so cannot be answered.
    fn is_too_large(&self) -> bool {
        if self.select.is_some() {
            return self.room < MIN_SELECT_ROWS;
        }
        self.frame.page(self.from, self.room, ABOVE_HINT).0.len() > self.room
    }

    /// Whether Escape answers the question, instead of stopping the run.
    pub(crate) fn hears_escape(&mut self, now: Duration) -> bool {
        self.select.as_mut().is_some_and(|select| select.focus_mut().takes_arrow(now))
    }

    /// Focuses on the question.
    pub(crate) fn focus(&mut self, now: Duration) {
        if let Some(select) = &mut self.select {
            select.focus_mut().focus(now);
        }
        self.keys.focus(now);
        if let Some(line) = &mut self.line {
            line.focus.focus(now);
        }
    }

    /// Handles keys that were read together; `is_burst` if others came with them.
    pub(crate) fn press(&mut self, keys: &[Key], is_burst: bool, now: Duration) -> Vec<Outcome> {
        if self.is_too_large() {
            return keys.iter().cloned().map(Outcome::Draft).collect();
        }
        if let ([Key::Alt('q')], false) = (keys, is_burst) {
            self.focus(now);
            return Vec::new();
        }
        // Page keys neither answer nor type, so they count even if they repeat because one is held down.
        if let [Key::Move { to: to @ (Direction::PageUp | Direction::PageDown), .. }] = keys {
            return self.turn_page(*to == Direction::PageUp, now);
        }
        if self.is_turned && keys.iter().all(|key| *key == Key::Char(' ')) {
            return keys.iter().flat_map(|_| self.turn_page(false, now)).collect();
        }
        self.is_turned = false;
        if let Some(select) = &mut self.select {
            return match select.press(keys, is_burst, now) {
                Ok(outcomes) => outcomes,
                Err((answer, shown)) => vec![self.answered(answer, shown)],
            };
        }
        if self.line.is_some() {
            return self.press_in_line(keys, is_burst, now);
        }
        let meanings = self.keys.press_part(keys, is_burst, now);
        meanings.into_iter().filter_map(|meaning| self.handle_meaning(meaning, now)).collect()
    }

    /// Time of the next [`tick`](Self::tick).
    pub(crate) fn next_tick(&self) -> Option<Duration> {
        if let Some(select) = &self.select {
            return select.next_tick();
        }
        if self.line.is_some() || self.is_too_large() { None } else { self.keys.next_tick() }
    }

    pub(crate) fn tick(&mut self, now: Duration) -> Option<Outcome> {
        if let Some(select) = &mut self.select {
            let (answer, shown) = select.tick(now)?;
            return Some(self.answered(answer, shown));
        }
        self.next_tick()?;
        let meaning = self.keys.tick(now)?;
        self.handle_meaning(meaning, now)
    }

    /// The rows of the question.
    pub(crate) fn rows(&self) -> Vec<Row> {
        if self.is_too_large() {
            return vec![Row::of(Style::YELLOW, "too small for a question: make the terminal larger")];
        }
        if let Some(select) = &self.select {
            return select.rows(self.width, self.room);
        }
        let keys = self.key_rows();
        let keys = keys.as_deref().unwrap_or(&self.frame.keys);
        match self.keys.marked() {
            Some(row) => {
                let rules = self.frame.marked(row);
                self.frame.page_with_rows(self.from, self.room, ABOVE_HINT, (&rules, keys)).0
            }
            None => self.frame.page_with_rows(self.from, self.room, ABOVE_HINT, (&self.frame.rules, keys)).0,
        }
    }

    /// Rows shown instead of the keys, if any.
    fn key_rows(&self) -> Option<Vec<Row>> {
        if let Some(chosen) = self.keys.chosen() {
            if !chosen.is_lasting() {
                return Some(self.chosen_row(chosen));
            }
            let room = self.room.saturating_sub(2 + self.frame.lead.len() + self.frame.rules.len());
            return Some(self.asking.confirm_rows(chosen, self.width, room));
        }
        if self.is_typing_refusal() {
            return Some(vec![Row::of(Style::BOLD, "└ Words for the model · Enter sends them")]);
        }
        if let Some(marked) = self.keys.marked().and_then(|row| self.asking.row_choice(row)) {
            return Some(self.chosen_row(marked));
        }
        if !self.is_typing() {
            return None;
        }
        if !self.frame.rules.is_empty() || self.asking.is_approval() {
            return Some(key_rows("└ Alt-Q answers · what you type is your next message", self.width));
        }
        // Typed text goes to the draft; the hint starts with the way to answer, for a narrow terminal.
        let keys: String = self.frame.keys.iter().map(Row::text).collect();
        let keys = keys.trim_start_matches("└ ").replace(" ·   ", " · ");
        let mut rows = key_rows(&format!("└ Alt-Q answers: {keys}"), self.width);
        rows.truncate(self.frame.keys.len());
        Some(rows)
    }

    fn chosen_row(&self, choice: Choice) -> Vec<Row> {
        let text = format!("└ → {} · Enter confirms", self.asking.describe(choice));
        key_rows(&text, self.width).iter().map(|row| Row::of(Style::YELLOW, &row.text())).collect()
    }

    fn offer(&self) -> Offer {
        self.asking.offer(self.next_page_start().is_some())
    }

    /// Shows or hides the reason.
    fn toggle_reasons(&mut self, now: Duration) {
        self.shows_why = !self.shows_why;
        self.frame = frame_of(&self.card, self.width, self.room, self.shows_why);
        let fits = self.frame.body.len() <= self.body_room();
        self.scroll_to(self.frame.why_at.filter(|_| !fits).unwrap_or(0), now);
        self.is_turned = !fits;
    }

    /// Answer text that is being typed.
    pub(crate) fn typed(&self) -> Option<&Buffer> {
        if let Some(select) = &self.select {
            return select.typed();
        }
        self.line.as_ref().filter(|line| line.focus.is_focused()).map(|line| &line.typed)
    }

    fn next_page_start(&self) -> Option<usize> {
        self.frame.page(self.from, self.room, ABOVE_HINT).1
    }

    fn body_room(&self) -> usize {
        self.frame.body_room(self.room)
    }

    fn scroll_to(&mut self, from: usize, now: Duration) {
        self.from = from;
        self.keys.offer(self.offer());
        self.keys.scrolled(now);
    }

    /// Scrolls by a page.
    fn turn_page(&mut self, is_up: bool, now: Duration) -> Vec<Outcome> {
        let is_shown = if let Some(select) = &mut self.select {
            select.turn_page(is_up, self.width, self.room)
        } else {
            let to = if is_up {
                (self.from > 0).then(|| self.from.saturating_sub(self.body_room()))
            } else {
                self.next_page_start()
            };
            to.iter().for_each(|from| self.scroll_to(*from, now));
            self.is_turned = !self.is_typing() && (self.from > 0 || self.next_page_start().is_some());
            to.is_some()
        };
        let is_whole = self.select.is_none() && self.from == 0 && self.next_page_start().is_none();
        match (is_shown, is_up) {
            (true, _) => Vec::new(),
            (false, _) if is_whole => vec![Outcome::Told(messages::QUESTION_IS_WHOLE)],
            (false, true) => vec![Outcome::Told(messages::NO_ROWS_ABOVE)],
            (false, false) => vec![Outcome::Told(messages::NO_ROWS_BELOW)],
        }
    }

    fn is_typing_refusal(&self) -> bool {
        self.line.is_some() && matches!(self.card.question, Question::Approve(_))
    }

    fn handle_meaning(&mut self, meaning: KeyMeaning, now: Duration) -> Option<Outcome> {
        match meaning {
            KeyMeaning::Draft(key) => Some(Outcome::Draft(key)),
            KeyMeaning::Chosen(_) | KeyMeaning::Unchosen => None,
            KeyMeaning::NextPage => self.turn_page(false, now).pop(),
            KeyMeaning::Answer(Choice::NoWithWords) => {
                self.line = Some(Line::new(LineFocus::wanted()));
                None
            }
            KeyMeaning::Why => {
                self.toggle_reasons(now);
                None
            }
            KeyMeaning::Answer(choice) => {
                Some(self.answered(choice.answer(), self.asking.done_message(choice)))
            }
        }
    }

    fn press_in_line(&mut self, keys: &[Key], is_burst: bool, now: Duration) -> Vec<Outcome> {
        let Some(line) = &mut self.line else { return Vec::new() };
        if !line.focus.takes_part(keys, is_burst, now) {
            return keys.iter().cloned().map(Outcome::Draft).collect();
        }
        for key in keys {
            let Some(line) = &mut self.line else { break };
            if *key != Key::Enter {
                press_buffer(&mut line.typed, key);
                continue;
            }
            let text = line.typed.take().trim().to_owned();
            return vec![self.line_answer(text)];
        }
        Vec::new()
    }

    /// Answer from a typed line.
    fn line_answer(&self, text: String) -> Outcome {
        let shown = visible_lines(&text).join(" ");
        let answer = match &self.card.question {
            Question::Approve(_) | Question::Confirm { .. } | Question::Trust(_) | Question::Select(_) => {
                UiAnswer::No { message: (!text.is_empty()).then_some(text) }
            }
            Question::Input { .. } => UiAnswer::Text { text },
        };
        self.answered(answer, shown)
    }

    fn answered(&self, answer: UiAnswer, shown: String) -> Outcome {
        let what = match (&self.card.question, &answer) {
            // The refused call says it in its own row, unless it is one of a sub-agent.
            (Question::Approve(_), UiAnswer::No { .. }) if self.card.agent.is_none() => String::new(),
            (Question::Approve(_), UiAnswer::No { message: Some(_) }) => format!("no: {shown}"),
            // The tool shows the text in its own block.
            (Question::Select(asked), _) if asked.accepts_words => String::new(),
            (Question::Select(asked), _) => {
                let text = visible_lines(&asked.text).into_iter().next().unwrap_or_default();
                format!("{text} {shown}")
            }
            _ => shown,
        };
        let (id, digest) = (self.card.id, self.card.digest);
        Outcome::Answered(Box::new(Intent::Answer { id, digest, answer }), what)
    }
}

fn frame_of(card: &Card, width: usize, room: usize, shows_why: bool) -> Frame {
    match &card.question {
        Question::Approve(approval) => {
            let who = card.agent.as_ref().map(|agent| agent.name.unsanitised());
            Frame::of_approval(approval, CardLook { who, width, room, shows_why })
        }
        Question::Confirm { text } => Frame::of_confirmation(text, width),
        Question::Trust(asked) => Frame::of_trust(asked, width, room, shows_why),
        Question::Select(asked) => Frame::of_input(&asked.text, &asked.options, width),
        Question::Input { text } => Frame::of_input(text, &[], width),
    }
}

/// Applies an editing key to a text; ignores others.
pub(crate) fn press_buffer(buffer: &mut Buffer, key: &Key) {
    match key {
        Key::Char(c) => buffer.insert(c.encode_utf8(&mut [0; 4])),
        Key::Paste(text) => buffer.paste(text),
        Key::Newline => buffer.insert("\n"),
        Key::Back | Key::Ctrl('h') => buffer.delete_before(),
        Key::Delete => buffer.delete_after(),
        Key::Move { to, word } => match to {
            Direction::Left => buffer.move_left(*word),
            Direction::Right => buffer.move_right(*word),
            Direction::Home => buffer.move_to_line_start(),
            Direction::End => buffer.move_to_line_end(),
            Direction::Up => _ = buffer.move_up(),
            Direction::Down => _ = buffer.move_down(),
            Direction::PageUp | Direction::PageDown => {}
        },
        Key::Ctrl('a') => buffer.move_to_line_start(),
        Key::Ctrl('e') => buffer.move_to_line_end(),
        Key::Ctrl('b') => buffer.move_left(false),
        Key::Ctrl('f') => buffer.move_right(false),
        Key::Alt('b') => buffer.move_left(true),
        Key::Alt('f') => buffer.move_right(true),
        Key::Ctrl('d') => buffer.delete_after(),
        Key::Ctrl('w') => buffer.kill_word(),
        Key::Ctrl('u') => buffer.kill_to_start(),
        Key::Ctrl('k') => buffer.kill_to_end(),
        Key::Ctrl('y') => buffer.yank(),
        Key::Alt('y') => buffer.yank_older(),
        Key::Ctrl('_') => buffer.undo(),
        Key::Ctrl(_)
        | Key::Alt(_)
        | Key::Enter
        | Key::Tab
        | Key::BackTab
        | Key::Escape
        | Key::Synchronized(_)
        | Key::Ground { .. }
        | Key::Size { .. }
        | Key::Version(_)
        | Key::Answered
        | Key::Wheel { .. }
        | Key::Focus(_) => {}
    }
}
