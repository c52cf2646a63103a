use std::time::Duration;

use zk_core::service::{Question, UiAnswer, WiderKind, visible_lines};
use zk_view::{Card, Intent};

use super::answer_keys::{AnswerKeys, Choice, KeyMeaning, LineFocus, Offer};
use super::frame::{Frame, key_rows};
use super::line_choice::LineChoice;
use crate::edit::Buffer;
use crate::keys::{Direction, Key};
use crate::row::{Row, Style};

/// Hint at how to see the rows above.
const ABOVE: &str = ": Page Up shows them";

/// A question that is drawn, and how far its answer is.
#[derive(Debug)]
pub(crate) struct CardState {
    card: Card,
    keys: AnswerKeys,
    /// The first row of its body that is drawn.
    from: usize,
    room: usize,
    width: usize,
    frame: Frame,
    line: Option<Line>,
}

/// A line that answers.
#[derive(Debug)]
struct Line {
    typed: Buffer,
    focus: LineFocus,
    /// Whether the last answer was none that the question has.
    is_mistyped: bool,
}

impl Line {
    fn new(focus: LineFocus) -> Self {
        Self { typed: Buffer::default(), focus, is_mistyped: false }
    }
}

/// Outcome of keys.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome {
    /// A key that belongs to the draft.
    Draft(Key),
    /// The question is answered, and what to say of it.
    Answered(Box<Intent>, String),
}

impl CardState {
    /// A question that is drawn at `now`.
    pub(crate) fn new(card: Card, has_draft: bool, width: usize, room: usize, now: Duration) -> Self {
        let line = match &card.question {
            Question::Select { .. } | Question::Input { .. } => {
                Some(Line::new(LineFocus::new(has_draft, now)))
            }
            Question::Approve(_) | Question::Confirm { .. } => None,
        };
        let keys = AnswerKeys::new(offer(&card.question, false), has_draft, now);
        let frame = frame(&card, width);
        let mut state = Self { card, keys, from: 0, room, width, frame, line };
        state.keys.offer(offer(&state.card.question, state.next().is_some()));
        state
    }

    pub(crate) fn card(&self) -> &Card {
        &self.card
    }

    /// The screen has another size: what is answered has to be in sight, so it is drawn from its beginning.
    pub(crate) fn resize(&mut self, width: usize, room: usize, now: Duration) {
        let frame = frame(&self.card, width);
        self.width = width;
        if room != self.room || frame != self.frame {
            (self.frame, self.room, self.from) = (frame, room, 0);
            self.keys.offer(offer(&self.card.question, self.next().is_some()));
            self.keys.redrawn(now);
        }
    }

    /// The question comes back into sight: it is deaf for a moment.
    pub(crate) fn redrawn(&mut self, width: usize, now: Duration) {
        (self.frame, self.width) = (frame(&self.card, width), width);
        self.keys.redrawn(now);
        if let Some(line) = &mut self.line {
            line.focus.redrawn(now);
        }
    }

    /// Whether there is a draft, which keeps its keys.
    pub(crate) fn set_typing(&mut self, is_typing: bool) {
        self.keys.set_typing(is_typing);
        if let Some(line) = &mut self.line {
            line.focus.set_typing(is_typing);
        }
    }

    fn is_typing(&self) -> bool {
        self.line.as_ref().map_or(self.keys.is_typing(), |line| line.focus.is_typing())
    }

    /// Whether the question does not fit the screen: nothing that cannot be seen is answered.
    fn is_too_large(&self) -> bool {
        self.frame.page(self.from, self.room, ABOVE).0.len() > self.room
    }

    /// The person turns to the question.
    pub(crate) fn focus(&mut self, now: Duration) {
        self.keys.focus(now);
        if let Some(line) = &mut self.line {
            line.focus.focus(now);
        }
    }

    /// Keys that were read at once; `is_burst` if others were with them.
    pub(crate) fn press(&mut self, keys: &[Key], is_burst: bool, now: Duration) -> Vec<Outcome> {
        if self.is_too_large() {
            return keys.iter().cloned().map(Outcome::Draft).collect();
        }
        if let ([Key::Alt('q')], false) = (keys, is_burst) {
            self.focus(now);
            return Vec::new();
        }
        // They neither answer nor type, so that it does not matter what came with them: a key that is held repeats.
        if let [Key::Move { to: to @ (Direction::PageUp | Direction::PageDown), .. }] = keys {
            match to {
                Direction::PageUp => self.scroll(self.from.saturating_sub(self.body_room()), now),
                Direction::PageDown => self.scroll(self.next().unwrap_or(self.from), now),
                _ => {}
            }
            return Vec::new();
        }
        if self.line.is_some() {
            return self.press_line(keys, is_burst, now);
        }
        let meanings = self.keys.press_part(keys, is_burst, now);
        meanings.into_iter().filter_map(|meaning| self.take(meaning, now)).collect()
    }

    /// Time at which [`tick`](Self::tick) has something to do.
    pub(crate) fn next_tick(&self) -> Option<Duration> {
        if self.line.is_some() || self.is_too_large() { None } else { self.keys.next_tick() }
    }

    pub(crate) fn tick(&mut self, now: Duration) -> Option<Outcome> {
        self.next_tick()?;
        let meaning = self.keys.tick(now)?;
        self.take(meaning, now)
    }

    /// The rows of the question.
    pub(crate) fn rows(&self) -> Vec<Row> {
        if self.is_too_large() {
            return vec![Row::of(Style::YELLOW, "too small for a question: make the terminal larger")];
        }
        let keys = self.key_rows();
        self.frame.page_with(self.from, self.room, ABOVE, keys.as_deref().unwrap_or(&self.frame.keys)).0
    }

    /// Returns the rows in the place of the keys; nothing where they themselves stand there.
    fn key_rows(&self) -> Option<Vec<Row>> {
        if let Some(chosen) = self.keys.chosen() {
            let text = match chosen {
                chosen if chosen.is_lasting() => {
                    let key = match (chosen, self.wider()) {
                        (Choice::WiderAlways, Some(WiderKind::Prefix)) => "P",
                        (Choice::WiderAlways, _) => "D",
                        _ => "a",
                    };
                    format!("└ [{key}] again, or Enter, allows this from now on")
                }
                chosen => format!("└ → {} · Enter confirms", chosen.describe()),
            };
            return Some(vec![Row::of(Style::YELLOW, &text)]);
        }
        if self.is_worded() {
            return Some(vec![Row::of(Style::BOLD, "└ Words for the model · Enter sends them")]);
        }
        if let (true, Question::Select { options, .. }) =
            (self.line.as_ref().is_some_and(|line| line.is_mistyped), &self.card.question)
        {
            return Some(vec![LineChoice::remark(options.len())]);
        }
        if !self.is_typing() {
            return None;
        }
        // Typed text is the draft; how to answer stands first, where a narrow terminal shows it.
        let keys: String = self.frame.keys.iter().map(Row::text).collect();
        let keys = keys.trim_start_matches("└ ").trim_start_matches("Run? ").replace(" ·   ", " · ");
        let mut rows = key_rows(&format!("└ Alt-Q answers: {keys}"), self.width);
        rows.truncate(self.frame.keys.len());
        Some(rows)
    }

    /// The answer that is being typed, if the person types one.
    pub(crate) fn typed(&self) -> Option<&Buffer> {
        self.line.as_ref().filter(|line| line.focus.is_focused()).map(|line| &line.typed)
    }

    fn next(&self) -> Option<usize> {
        self.frame.page(self.from, self.room, ABOVE).1
    }

    fn body_room(&self) -> usize {
        self.frame.body_room(self.room)
    }

    fn scroll(&mut self, from: usize, now: Duration) {
        self.from = from;
        self.keys.offer(offer(&self.card.question, self.next().is_some()));
        self.keys.scrolled(now);
    }

    fn wider(&self) -> Option<WiderKind> {
        match &self.card.question {
            Question::Approve(approval) => approval.wider.as_ref().map(|wider| wider.kind),
            Question::Confirm { .. } | Question::Select { .. } | Question::Input { .. } => None,
        }
    }

    fn is_worded(&self) -> bool {
        self.line.is_some() && matches!(self.card.question, Question::Approve(_))
    }

    fn take(&mut self, meaning: KeyMeaning, now: Duration) -> Option<Outcome> {
        match meaning {
            KeyMeaning::Draft(key) => Some(Outcome::Draft(key)),
            KeyMeaning::Chosen(_) | KeyMeaning::Unchosen => None,
            KeyMeaning::NextPage => {
                self.scroll(self.next().unwrap_or(self.from), now);
                None
            }
            KeyMeaning::Answer(Choice::NoWithWords) => {
                self.line = Some(Line::new(LineFocus::wanted()));
                None
            }
            KeyMeaning::Answer(choice) => {
                let is_plain = matches!(self.card.question, Question::Confirm { .. });
                let answer = match choice {
                    Choice::Session | Choice::Always | Choice::WiderSession | Choice::WiderAlways
                        if is_plain =>
                    {
                        UiAnswer::Once
                    }
                    Choice::WiderSession => UiAnswer::WiderSession,
                    Choice::WiderAlways => UiAnswer::WiderAlways,
                    Choice::Once => UiAnswer::Once,
                    Choice::Session => UiAnswer::Session,
                    Choice::Always => UiAnswer::Always,
                    Choice::No | Choice::NoWithWords => UiAnswer::No { message: None },
                };
                Some(self.answer(answer, choice.describe().to_owned()))
            }
        }
    }

    fn press_line(&mut self, keys: &[Key], is_burst: bool, now: Duration) -> Vec<Outcome> {
        let Some(line) = &mut self.line else { return Vec::new() };
        if !line.focus.hears_part(keys, is_burst, now) {
            return keys.iter().cloned().map(Outcome::Draft).collect();
        }
        for key in keys {
            let Some(line) = &mut self.line else { break };
            line.is_mistyped = false;
            if *key != Key::Enter {
                press_buffer(&mut line.typed, key);
                continue;
            }
            let text = line.typed.take().trim().to_owned();
            if let Some(outcome) = self.line_answer(text) {
                return vec![outcome];
            }
            if let Some(line) = &mut self.line {
                line.is_mistyped = true;
            }
        }
        Vec::new()
    }

    /// The answer that a line gives; nothing if it is none that the question has.
    fn line_answer(&self, text: String) -> Option<Outcome> {
        let shown = visible_lines(&text).join(" ");
        let answer = match &self.card.question {
            Question::Approve(_) | Question::Confirm { .. } => {
                UiAnswer::No { message: (!text.is_empty()).then_some(text) }
            }
            Question::Select { options, .. } => match LineChoice::of(&text, options.len()) {
                LineChoice::Option(index) => UiAnswer::Choice { index },
                LineChoice::None => UiAnswer::No { message: None },
                LineChoice::Mistyped => return None,
            },
            Question::Input { .. } => UiAnswer::Text { text },
        };
        Some(self.answer(answer, shown))
    }

    fn answer(&self, answer: UiAnswer, shown: String) -> Outcome {
        let what = match &self.card.question {
            Question::Approve(approval) => format!("{}: {shown}", visible_lines(&approval.tool).join(" ")),
            Question::Confirm { .. } | Question::Select { .. } | Question::Input { .. } => shown,
        };
        let (id, digest) = (self.card.id, self.card.digest);
        Outcome::Answered(Box::new(Intent::Answer { id, digest, answer }), what)
    }
}

fn frame(card: &Card, width: usize) -> Frame {
    match &card.question {
        Question::Approve(approval) => {
            let who = card.agent.as_ref().map(|agent| agent.name.unsanitised());
            Frame::of_approval(approval, who, width)
        }
        Question::Confirm { text } => Frame::of_confirmation(text, width),
        Question::Select { text, options } => Frame::of_input(text, options, width),
        Question::Input { text } => Frame::of_input(text, &[], width),
    }
}

fn offer(question: &Question, more: bool) -> Offer {
    match question {
        Question::Approve(approval) => Offer {
            session: approval.session.is_some(),
            always: approval.always.is_some(),
            wider: approval.wider.as_ref().map(|wider| wider.kind),
            words: true,
            more,
        },
        Question::Confirm { .. } | Question::Select { .. } | Question::Input { .. } => {
            Offer { session: false, always: false, wider: None, words: false, more }
        }
    }
}

/// Applies a key to a text that is being edited; keys with another meaning do nothing.
pub(crate) fn press_buffer(buffer: &mut Buffer, key: &Key) {
    match key {
        Key::Char(c) => buffer.insert(c.encode_utf8(&mut [0; 4])),
        Key::Paste(text) => buffer.paste(text),
        Key::Newline => buffer.insert("\n"),
        Key::Back | Key::Ctrl('h') => buffer.back(),
        Key::Delete => buffer.delete(),
        Key::Move { to, word } => match to {
            Direction::Left => buffer.left(*word),
            Direction::Right => buffer.right(*word),
            Direction::Home => buffer.home(),
            Direction::End => buffer.end(),
            Direction::Up => _ = buffer.up(),
            Direction::Down => _ = buffer.down(),
            Direction::PageUp | Direction::PageDown => {}
        },
        Key::Ctrl('a') => buffer.home(),
        Key::Ctrl('e') => buffer.end(),
        Key::Ctrl('b') => buffer.left(false),
        Key::Ctrl('f') => buffer.right(false),
        Key::Alt('b') => buffer.left(true),
        Key::Alt('f') => buffer.right(true),
        Key::Ctrl('d') => buffer.delete(),
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
