use std::collections::VecDeque;
use std::pin::pin;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::UnboundedSender;
use zk_tui::plain::{LineEditor, ReadLine, Screen};
use zk_tui::term::{TerminalGuard, secret};
use zk_tui::{
    Abilities, Caret, Entry, EntryKey, InlineScreen, Input, Key, Menu, MenuKey, Modes, Queries, Row, Size,
    Style, TerminalError, Typed,
};

use super::flow::Dialog;
use super::messages;
use crate::opening::error::ChatError;

/// Dialog on the terminal: drawn, or in lines for a simple terminal.
pub(crate) enum TerminalDialog {
    Drawn(Box<DrawnDialog>),
    Lines(Box<LineDialog>),
}

impl TerminalDialog {
    /// Starts a dialog; no other screen may draw meanwhile.
    pub(crate) fn begin(
        guard: &TerminalGuard,
        is_drawn: bool,
        abilities: Abilities,
        screen: Screen,
    ) -> Result<Self, ChatError> {
        if !is_drawn {
            return Ok(Self::Lines(Box::new(LineDialog { screen, editor: LineEditor::new(None)? })));
        }
        let cannot = ChatError::Terminal;
        guard.begin_drawing(Queries::default()).map_err(cannot)?;
        Ok(Self::Drawn(Box::new(DrawnDialog {
            guard: guard.clone(),
            input: Input::read().map_err(cannot)?,
            resized: signal(SignalKind::window_change()).map_err(cannot)?,
            // A question has few rows, so a resize needs no size query.
            screen: InlineScreen::new(Modes::size(), Abilities { reflows: false, ..abilities }),
            keys: VecDeque::new(),
        })))
    }

    /// Restores the terminal and discards typed-ahead input. No reader is left afterwards.
    pub(crate) async fn end(self) {
        if let Self::Drawn(drawn) = self {
            let DrawnDialog { guard, input, mut screen, .. } = *drawn;
            let _ = input.finish().await;
            let _ = guard.modes().write_frame(&screen.clear(), false);
            guard.end_drawing();
        }
    }
}

impl Dialog for TerminalDialog {
    async fn choose(&mut self, menu: Menu) -> Result<Option<usize>, ChatError> {
        match self {
            Self::Drawn(drawn) => drawn.ask(MenuQuestion(menu)).await,
            Self::Lines(lines) => lines.choose(&menu),
        }
    }

    async fn enter(&mut self, entry: Entry) -> Result<Option<String>, ChatError> {
        match self {
            Self::Drawn(drawn) => drawn.ask(EntryQuestion(entry)).await,
            Self::Lines(lines) => lines.enter(&entry),
        }
    }

    async fn wait<T>(&mut self, text: &str, work: impl Future<Output = T>) -> Result<Option<T>, ChatError> {
        match self {
            Self::Drawn(drawn) => drawn.ask_while(&mut WaitQuestion(text), |_| (), work).await,
            Self::Lines(lines) => {
                lines.screen.line(Style::DIM, text);
                Ok(Some(work.await))
            }
        }
    }

    async fn enter_while<T>(
        &mut self,
        title: &str,
        lines: UnboundedSender<String>,
        work: impl Future<Output = T>,
    ) -> Result<Option<T>, ChatError> {
        match self {
            Self::Drawn(drawn) => {
                // The receiver of lines may be gone.
                let send = |line| _ = lines.send(line);
                drawn.ask_while(&mut EntryQuestion(Entry::new(title)), send, work).await
            }
            Self::Lines(_) => Ok(Some(work.await)),
        }
    }

    fn takes_lines_while_waiting(&self) -> bool {
        matches!(self, Self::Drawn(_))
    }

    fn say(&mut self, style: Style, text: &str) -> Result<(), ChatError> {
        match self {
            Self::Drawn(drawn) => drawn.say(style, text),
            Self::Lines(lines) => {
                lines.screen.line(style, text);
                Ok(())
            }
        }
    }
}

/// Drawn question that takes keys until it is answered.
trait Question {
    type Answer;

    fn draw(&self, size: Size) -> (Vec<Row>, Option<Caret>);

    /// Handles a key: `None` while the question is open, `Some(None)` if the person cancels.
    fn press(&mut self, key: &Key) -> Option<Option<Self::Answer>>;
}

struct MenuQuestion(Menu);

impl Question for MenuQuestion {
    type Answer = usize;

    fn draw(&self, size: Size) -> (Vec<Row>, Option<Caret>) {
        self.0.draw(size)
    }

    fn press(&mut self, key: &Key) -> Option<Option<usize>> {
        match self.0.press(key) {
            MenuKey::Open => None,
            MenuKey::Chosen(at) => Some(Some(at)),
            MenuKey::Left => Some(None),
        }
    }
}

struct EntryQuestion(Entry);

impl Question for EntryQuestion {
    type Answer = String;

    fn draw(&self, size: Size) -> (Vec<Row>, Option<Caret>) {
        self.0.draw(size)
    }

    fn press(&mut self, key: &Key) -> Option<Option<String>> {
        match self.0.press(key) {
            EntryKey::Open => None,
            EntryKey::Typed(text) => Some(Some(text)),
            EntryKey::Left => Some(None),
        }
    }
}

/// Question without an answer, shown during a wait: only a cancellation ends it.
struct WaitQuestion<'a>(&'a str);

impl Question for WaitQuestion<'_> {
    type Answer = ();

    fn draw(&self, _: Size) -> (Vec<Row>, Option<Caret>) {
        (vec![Row::of(Style::DIM, &format!("  {}", self.0))], None)
    }

    fn press(&mut self, key: &Key) -> Option<Option<()>> {
        matches!(key, Key::Escape | Key::Ctrl('c')).then_some(None)
    }
}

/// Dialog drawn below the terminal's content, one question at a time.
pub(crate) struct DrawnDialog {
    guard: TerminalGuard,
    input: Input,
    resized: Signal,
    screen: InlineScreen,
    /// Keys that were typed and are not handled yet.
    keys: VecDeque<Key>,
}

impl DrawnDialog {
    async fn ask<Q: Question>(&mut self, mut question: Q) -> Result<Option<Q::Answer>, ChatError> {
        loop {
            while let Some(key) = self.keys.pop_front() {
                if let Some(answer) = question.press(&key) {
                    return Ok(answer);
                }
            }
            self.draw(&question)?;
            self.next_keys().await?;
        }
    }

    async fn ask_while<Q: Question, T>(
        &mut self,
        question: &mut Q,
        mut answered: impl FnMut(Q::Answer),
        work: impl Future<Output = T>,
    ) -> Result<Option<T>, ChatError> {
        let mut work = pin!(work);
        loop {
            self.draw(question)?;
            tokio::select! {
                biased;
                done = &mut work => return Ok(Some(done)),
                read = self.next_keys() => read?,
            }
            while let Some(key) = self.keys.pop_front() {
                match question.press(&key) {
                    None => {}
                    Some(Some(answer)) => answered(answer),
                    Some(None) => return Ok(None),
                }
            }
        }
    }

    /// Waits for keys or a resize.
    async fn next_keys(&mut self) -> Result<(), ChatError> {
        tokio::select! {
            typed = self.input.next() => match typed {
                Typed::Keys(keys) => self.keys.extend(keys),
                Typed::Bytes(_) => {}
                // A shell has the terminal until this process is in the foreground again.
                Typed::Away => {
                    tokio::time::sleep(FOREGROUND_POLL).await;
                    self.input.resume();
                }
                Typed::Gone => return Err(ChatError::Terminated),
            },
            _ = self.resized.recv() => {}
            () = self.guard.wait_for_leave() => return Err(ChatError::Terminated),
        }
        Ok(())
    }

    fn draw(&mut self, question: &impl Question) -> Result<(), ChatError> {
        let size = Modes::size();
        let mut bytes = self.screen.resize(size);
        let (rows, caret) = question.draw(size);
        bytes += &self.screen.frame(&[], &rows, caret);
        self.guard.modes().write_frame(&bytes, false).map_err(ChatError::Terminal)
    }

    fn say(&mut self, style: Style, text: &str) -> Result<(), ChatError> {
        let rows = zk_tui::message_rows(style, text, Modes::size().width);
        let bytes = self.screen.frame(&rows, &[], None);
        self.guard.modes().write_frame(&bytes, false).map_err(ChatError::Terminal)
    }
}

/// Poll interval for the return to the foreground.
const FOREGROUND_POLL: std::time::Duration = std::time::Duration::from_secs(1);

/// Dialog with printed questions and typed lines as answers.
pub(crate) struct LineDialog {
    screen: Screen,
    editor: LineEditor,
}

impl LineDialog {
    fn choose(&mut self, menu: &Menu) -> Result<Option<usize>, ChatError> {
        for line in menu.lines() {
            self.screen.line(Style::PLAIN, &line);
        }
        self.screen.line(Style::DIM, messages::NUMBER);
        loop {
            let line = match self.editor.read("") {
                ReadLine::Line(line) => line,
                ReadLine::BackTab(_) => continue,
                ReadLine::Interrupt | ReadLine::End => return Ok(None),
                ReadLine::Failed(why) => return Err(ChatError::Terminal(std::io::Error::other(why))),
            };
            if line.trim().is_empty() {
                return Ok(None);
            }
            match menu.named(&line) {
                Some(at) => return Ok(Some(at)),
                None => self.screen.line(Style::YELLOW, messages::NO_ROW),
            }
        }
    }

    fn enter(&mut self, entry: &Entry) -> Result<Option<String>, ChatError> {
        self.screen.line(Style::PLAIN, entry.title());
        match secret::read("› ") {
            Ok(text) => Ok(Some(text).filter(|text| !text.is_empty())),
            Err(TerminalError::GivenUp) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
