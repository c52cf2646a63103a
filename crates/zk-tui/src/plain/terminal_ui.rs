use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::timeout;
use zk_core::service::{Question, QuestionId, Ui, UiAnswer, visible_lines};
use zk_view::{Card, Drained, Intent, Patch, Reader, ViewDriver};

use super::keyboard::Keyboard;
use super::shared_screen::SharedScreen;
use super::status_line::StatusLine;
use crate::keys::Key;
use crate::question::answer_keys::{Choice, KeyMeaning};
use crate::question::{Asking, CardLook, Frame, LineChoice};
use crate::row::{Row, Style, Tone};
use crate::term::Modes;

/// Maximum wait after an answer for a follow-up question, such as the next field of a form, before a line is
/// read.
pub const FOLLOW_UP_WAIT: Duration = Duration::from_millis(100);

/// Questions in line mode: prints them and reads the answers from the keyboard.
pub struct TerminalUi {
    screen: SharedScreen,
    keyboard: Keyboard,
    /// Handle to wait for the front end that draws the conversation.
    painted: Mutex<Option<Drained>>,
}

/// Asks the questions of a view in order, until the view is closed. A question during the typing of a line
/// waits for its end, since it would not be seen.
pub async fn attend(view: ViewDriver, ui: Arc<TerminalUi>) {
    let mut cards = Cards::of(&view);
    let mut turn = None;
    loop {
        let next = match &turn {
            None => cards.next().await,
            Some(_) => match timeout(FOLLOW_UP_WAIT, cards.next()).await {
                Ok(next) => next,
                Err(_) => {
                    turn = None;
                    continue;
                }
            },
        };
        let Some(card) = next else { return };
        if turn.is_none() {
            turn = tokio::select! {
                turn = ui.keyboard.turn() => Some(turn),
                () = cards.wait_until_answered(card.id) => continue,
            };
        }
        // All earlier text is drawn before the question.
        let painted = ui.painted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(painted) = painted {
            painted.wait().await;
        }
        let (id, digest) = (card.id, card.digest);
        tokio::select! {
            answer = ui.ask_question(&card) => view.intent(&Intent::Answer { id, digest, answer }),
            () = cards.wait_until_answered(id) => ui.screen.line(Style::DIM, "  (this question is closed)"),
        }
        cards.wait_until_answered(id).await;
    }
}

/// Open questions of a view.
struct Cards {
    reader: Reader,
    pending: Vec<Card>,
    is_closed: bool,
}

impl Cards {
    fn of(view: &ViewDriver) -> Self {
        Self { reader: view.reader(), pending: Vec::new(), is_closed: false }
    }

    /// Waits for the oldest question; `None` once the view is closed.
    async fn next(&mut self) -> Option<Card> {
        while self.pending.is_empty() && !self.is_closed {
            self.read_patches().await;
        }
        // A closed view passes no answer to the question on.
        self.pending.first().filter(|_| !self.is_closed).cloned()
    }

    /// Waits until a question is pending no more.
    async fn wait_until_answered(&mut self, id: QuestionId) {
        while self.pending.iter().any(|card| card.id == id) && !self.is_closed {
            self.read_patches().await;
        }
    }

    async fn read_patches(&mut self) {
        let Some(patches) = self.reader.next().await else {
            self.is_closed = true;
            return;
        };
        for patch in patches {
            match patch {
                Patch::Reset { view } => self.pending = view.cards,
                Patch::Ask { card } => self.pending.push(*card),
                Patch::Answered { id } => self.pending.retain(|card| card.id != id),
                Patch::Open { .. }
                | Patch::Grow { .. }
                | Patch::Change { .. }
                | Patch::Close { .. }
                | Patch::Remove { .. }
                | Patch::Body { .. }
                | Patch::Queue { .. }
                | Patch::Status { .. }
                | Patch::Agents { .. }
                | Patch::Jobs { .. }
                | Patch::Checklist { .. } => {}
            }
        }
    }
}

impl Ui for TerminalUi {
    fn notify(&self, text: &str) {
        self.screen.line(Style::YELLOW, text);
    }
}

impl fmt::Debug for TerminalUi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TerminalUi").finish_non_exhaustive()
    }
}

impl TerminalUi {
    /// Creates the UI for a screen and a keyboard.
    pub fn new(screen: SharedScreen, keyboard: Keyboard) -> Self {
        Self { screen, keyboard, painted: Mutex::default() }
    }

    /// Draws questions only after all earlier output from now on.
    pub fn wait_for(&self, painted: Drained) {
        *self.painted.lock().unwrap_or_else(PoisonError::into_inner) = Some(painted);
    }

    async fn ask_question(&self, card: &Card) -> UiAnswer {
        let width = Modes::size().width;
        let answer = match &card.question {
            Question::Approve(_) | Question::Confirm { .. } | Question::Trust(_) => {
                self.ask_by_keys(card, width).await
            }
            Question::Select(asked) => {
                let options = &asked.options;
                let mut line = self.ask_by_line(&Frame::of_selection(asked, width), false).await;
                loop {
                    let words = line.clone().unwrap_or_default();
                    match line.map(|line| LineChoice::of(&line, options.len())) {
                        None => break None,
                        Some(LineChoice::Option(index)) => break Some(UiAnswer::Choice { index }),
                        Some(LineChoice::None) => break Some(UiAnswer::No { message: None }),
                        Some(LineChoice::Mistyped) if asked.accepts_words && !words.is_empty() => {
                            break Some(UiAnswer::Text { text: words });
                        }
                        Some(LineChoice::Mistyped) => {
                            line = self.read_line(&[LineChoice::remark(options.len())], true).await;
                        }
                    }
                }
            }
            Question::Input { text } => {
                let line = self.ask_by_line(&Frame::of_input(text, &[], width), false).await;
                line.map(|text| UiAnswer::Text { text })
            }
        };
        answer.unwrap_or(UiAnswer::Absent)
    }

    /// The frame of a question, in the rows of this screen.
    fn frame(card: &Card, width: usize, shows_why: bool) -> Frame {
        match &card.question {
            Question::Approve(approval) => {
                let who = card.agent.as_ref().map(|agent| agent.name.unsanitised());
                // Written lines stay, so there is room for all of them.
                Frame::of_approval(approval, CardLook { who, width, room: usize::MAX, shows_why })
            }
            Question::Confirm { text } => Frame::of_confirmation(text, width),
            Question::Trust(asked) => Frame::of_trust(asked, width, usize::MAX, shows_why),
            Question::Select(asked) => Frame::of_selection(asked, width),
            Question::Input { text } => Frame::of_input(text, &[], width),
        }
    }

    async fn read_message(&self) -> Option<UiAnswer> {
        let prompt = Row::of(Style::BOLD, "└ Words for the model · Enter sends them");
        let words = self.read_line(&[prompt], true).await?;
        Some(UiAnswer::No { message: (!words.is_empty()).then_some(words) })
    }

    /// Draws a question page by page until a key answers it.
    async fn ask_by_keys(&self, card: &Card, width: usize) -> Option<UiAnswer> {
        let asking = Asking::of(&card.question);
        let mut frame = Self::frame(card, width, false);
        let (mut from, mut turned) = (0, false);
        'drawn: loop {
            let height = Modes::size().height;
            let (rows, next) = frame.page(from, height.saturating_sub(1), "");
            self.draw_rows(&rows);
            let mut keys =
                self.keyboard.read_choice(asking.offer(next.is_some()), std::mem::take(&mut turned))?;
            let mut drawn = self.screen.lock().written();
            let mut status: Option<StatusLine> = None;
            let mut is_told = false;
            loop {
                let meaning = keys.next().await?;
                let is_answer = matches!(meaning, KeyMeaning::Chosen(_) | KeyMeaning::Answer(_));
                if is_answer && self.screen.lock().written() != drawn {
                    // Other output followed the question, which has to be visible when it is answered, so it is
                    // drawn again.
                    continue 'drawn;
                }
                match meaning {
                    KeyMeaning::Draft(key) if key != Key::Enter && self.screen.has_keys() && !is_told => {
                        is_told = true;
                        let mut screen = self.screen.lock();
                        let before = screen.written();
                        screen.line(Style::DIM, "  (what you type is the next prompt: Alt-Q answers)");
                        drawn += screen.written() - before;
                    }
                    KeyMeaning::Draft(_) => {}
                    KeyMeaning::Unchosen => drop(status.take().map(StatusLine::clear)),
                    KeyMeaning::NextPage => {
                        (from, turned) = (next.unwrap_or(from), true);
                        continue 'drawn;
                    }
                    KeyMeaning::Why => {
                        let shows_why = frame.why_at.is_none();
                        frame = Self::frame(card, width, shows_why);
                        (from, turned) = (frame.why_at.unwrap_or(0), true);
                        continue 'drawn;
                    }
                    KeyMeaning::Chosen(choice) if choice.is_lasting() => {
                        self.draw_rows(&asking.confirm_rows(choice, width, usize::MAX));
                        drawn = self.screen.lock().written();
                    }
                    KeyMeaning::Chosen(choice) if self.screen.has_keys() => {
                        status.take().into_iter().for_each(StatusLine::clear);
                        let text = format!("→ {} · Enter confirms", asking.describe(choice));
                        let before = self.screen.lock().written();
                        status = Some(StatusLine::show(&self.screen, &text));
                        // On a screen that cannot erase, the status is a permanent line, which is not other
                        // output.
                        drawn += self.screen.lock().written() - before;
                    }
                    KeyMeaning::Chosen(_) => {}
                    KeyMeaning::Answer(Choice::NoWithWords) => {
                        drop(keys);
                        return self.read_message().await;
                    }
                    KeyMeaning::Answer(choice) => {
                        drop(keys);
                        // The refused call says it in its own line, unless it is one of a sub-agent.
                        let is_told = asking.is_approval() && choice == Choice::No && card.agent.is_none();
                        if !is_told {
                            self.screen.line(Style::DIM, &format!("  {}", asking.done_message(choice)));
                        }
                        return Some(choice.answer());
                    }
                }
            }
        }
    }

    async fn ask_by_line(&self, frame: &Frame, engaged: bool) -> Option<String> {
        // A question with a one-line answer is short; what does not fit has scrolled up.
        let (rows, _) = frame.page(0, usize::MAX, "");
        self.read_line(&rows, engaged).await
    }

    /// Reads a line; keys count at once if the person is `engaged` with the question.
    async fn read_line(&self, rows: &[Row], engaged: bool) -> Option<String> {
        self.draw_rows(rows);
        let line = self.keyboard.read_answer_line(engaged).await?;
        let line = line.trim().to_owned();
        self.screen.line(Style::DIM, &format!("  {}", visible_lines(&line).join(" ")));
        Some(line)
    }

    /// Draws rows in one write.
    fn draw_rows(&self, rows: &[Row]) {
        let mut screen = self.screen.lock();
        rows.iter().for_each(|row| screen.exact_line(line_style(row.style()), &row.text()));
    }
}

/// Style of a whole line that begins in `style`: its colour or else its weight.
fn line_style(style: Style) -> Style {
    match style.tone {
        Tone::Red => Style::RED,
        Tone::Green => Style::GREEN,
        Tone::Yellow => Style::YELLOW,
        Tone::Cyan | Tone::Blue | Tone::Magenta => Style::CYAN,
        Tone::Plain if style.bold => Style::BOLD,
        Tone::Plain if style.dim => Style::DIM,
        Tone::Plain => Style::PLAIN,
    }
}
