mod guards;
mod line_edit;
mod reading;

use std::collections::VecDeque;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;
use std::{fmt, io};

use tokio::sync::{OwnedMutexGuard, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

pub use self::guards::Watching;
use self::guards::{Asking, Choosing, Listening};
use self::line_edit::apply_key;
use super::line_editor::OnChange;
use super::shared_screen::SharedScreen;
use crate::keys::Key;
use crate::question::answer_keys::{AnswerKeys, KeyMeaning, LineFocus, Offer};
use crate::row::Style;
use crate::term::Tty;

/// Callback for a submitted line; returns false if the line is not for it.
type OnLine = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// Callback that ends the wait before a retry; returns false if there is none.
type SkipWaits = Box<dyn Fn() -> bool + Send + Sync>;

/// Input during a run: keys that stop it or trigger a retry, answers to questions, and text for the next
/// prompt. Clones share the keyboard.
#[derive(Clone)]
pub struct Keyboard(Arc<Inner>);

struct Inner {
    tty: Tty,
    screen: SharedScreen,
    skip_waits: SkipWaits,
    state: Mutex<State>,
    reader: Mutex<Reader>,
    /// Lock that a question or the reading of a line holds, so that only one of them receives keys.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Start of the clock by which keys are timed.
    began: Instant,
    /// Callback for changes of the text typed ahead.
    changed: Mutex<Option<OnChange>>,
    /// Callback for Shift-Tab.
    cycle: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Handles a line submitted during a run, unless it is text for the next prompt.
    lines: OnceLock<OnLine>,
}

#[derive(Default)]
struct State {
    typed: TypeAhead,
    question: Option<Question>,
    /// Token that Escape cancels, to stop the run.
    stop: Option<CancellationToken>,
    /// Whether the terminal is disconnected.
    gone: bool,
}

/// Text typed ahead for the next prompts.
#[derive(Default)]
struct TypeAhead {
    /// Submitted texts, in order.
    queue: VecDeque<Waiting>,
    /// Text that was not submitted.
    draft: String,
}

/// A text that waits for its turn.
#[derive(Debug)]
pub struct Waiting {
    /// Text as it was typed.
    pub text: String,
    /// Whether it is a prompt even if it begins as a command does.
    pub is_prompt: bool,
}

impl From<String> for Waiting {
    fn from(text: String) -> Self {
        Self { text, is_prompt: false }
    }
}

enum Question {
    /// Question answered by keys.
    Keys { keys: AnswerKeys, meanings: mpsc::UnboundedSender<KeyMeaning> },
    /// Question answered by a line.
    Line { typed: String, focus: LineFocus, answer: oneshot::Sender<String> },
}

/// Thread that reads the terminal, while at least one guard needs it.
#[derive(Default)]
struct Reader {
    listeners: usize,
    running: Option<(UnixStream, JoinHandle<()>)>,
}

impl fmt::Debug for Keyboard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyboard").finish_non_exhaustive()
    }
}

impl Keyboard {
    /// Keys of `tty`, drawn on `screen`; Enter without a text calls `skip_waits`.
    pub fn new(
        tty: Tty,
        screen: SharedScreen,
        skip_waits: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        let (state, reader) = (Mutex::default(), Mutex::default());
        Self(Arc::new(Inner {
            tty,
            screen,
            skip_waits: Box::new(skip_waits),
            state,
            reader,
            turn: Arc::default(),
            began: Instant::now(),
            changed: Mutex::default(),
            cycle: OnceLock::new(),
            lines: OnceLock::new(),
        }))
    }

    /// Waits for the lock that lets one question or line at a time read keys. Callers get it in order.
    pub async fn turn(&self) -> OwnedMutexGuard<()> {
        self.0.turn.clone().lock_owned().await
    }

    /// Sets the callback for Shift-Tab; only the first call counts.
    pub fn on_back_tab(&self, cycle: impl Fn() + Send + Sync + 'static) {
        // A second callback is ignored.
        let _ = self.0.cycle.set(Box::new(cycle));
    }

    /// Sets the callback for lines submitted during a run; a line that it declines waits for the end of the
    /// run. Only the first call counts.
    pub fn on_line(&self, take: impl Fn(&str) -> bool + Send + Sync + 'static) {
        // A second callback is ignored.
        let _ = self.0.lines.set(Box::new(take));
    }

    /// Sets or removes the callback for changes of the text typed ahead.
    pub fn on_change(&self, changed: Option<OnChange>) {
        *self.0.changed.lock().unwrap_or_else(PoisonError::into_inner) = changed;
    }

    /// Reads keys until the guard is dropped: Escape cancels `stop`, Enter triggers a retry, text is kept for
    /// the next prompt. On a terminal that cannot echo, only questions read keys.
    pub fn watch(&self, stop: CancellationToken) -> io::Result<Watching> {
        let listening = if self.0.screen.has_keys() { Some(self.start_reading()?) } else { None };
        self.0.lock_state().stop = Some(stop);
        Ok(Watching { keyboard: self.clone(), _listening: listening })
    }

    /// Stops the run, like Escape.
    pub fn stop(&self) {
        if let Some(stop) = &self.0.lock_state().stop {
            stop.cancel();
        }
    }

    /// Token that stops the run, if there is one.
    pub fn running(&self) -> Option<CancellationToken> {
        self.0.lock_state().stop.clone()
    }

    /// Acts as Shift-Tab does.
    pub fn back_tab(&self) {
        if let Some(cycle) = self.0.cycle.get() {
            cycle();
        }
    }

    /// Takes the first submitted text.
    pub fn next_queued(&self) -> Option<Waiting> {
        let mut state = self.0.lock_state();
        let waiting = state.typed.queue.pop_front();
        self.0.show_typed(&state);
        waiting
    }

    /// Joins all typed text into one draft, since it was typed for another state.
    pub fn queue_to_draft(&self) {
        let mut state = self.0.lock_state();
        let typed = std::mem::take(&mut state.typed);
        let queued = typed.queue.into_iter().map(|waiting| waiting.text);
        let texts = queued.chain([typed.draft]).filter(|text| !text.trim().is_empty());
        state.typed.draft = texts.collect::<Vec<_>>().join("\n");
        self.0.show_typed(&state);
    }

    /// Puts an unanswered prompt before all other typed text.
    pub fn give_back(&self, prompt: &str) {
        let mut state = self.0.lock_state();
        state.typed.queue.push_front(prompt.to_owned().into());
        self.0.show_typed(&state);
    }

    /// Appends a submitted text to the queue.
    pub fn queue(&self, waiting: Waiting) {
        let mut state = self.0.lock_state();
        state.typed.queue.push_back(waiting);
        self.0.show_typed(&state);
    }

    /// Sets the draft with which the next line begins.
    pub fn set_draft(&self, draft: String) {
        self.0.lock_state().typed.draft = draft;
    }

    /// Takes the text that was not submitted.
    pub fn take_draft(&self) -> String {
        let mut state = self.0.lock_state();
        let draft = std::mem::take(&mut state.typed.draft);
        self.0.show_typed(&state);
        draft
    }

    /// Directs keys to a question that was just drawn, until the guard is dropped; `None` if the terminal is
    /// disconnected. `turned` tells that the person focused on the question deliberately.
    pub(crate) fn read_choice(&self, offer: Offer, turned: bool) -> Option<Choosing> {
        let (meanings, received) = mpsc::unbounded_channel();
        let listening = self.start_reading().ok()?;
        let mut state = self.0.lock_state();
        let now = self.0.began.elapsed();
        let keys = AnswerKeys::new(offer, !state.typed.draft.is_empty(), now);
        let keys = if turned { keys.turned(now) } else { keys };
        let asking = self.set_question(&mut state, Question::Keys { keys, meanings })?;
        Some(Choosing { meanings: received, _asking: asking, _listening: listening })
    }

    /// Reads a line as the answer to a question that was just drawn; `None` if the terminal is disconnected.
    /// The first keys go to the draft, unless the person is `engaged` with the question.
    pub(crate) async fn read_answer_line(&self, engaged: bool) -> Option<String> {
        let (answer, answered) = oneshot::channel();
        let _listening = self.start_reading().ok()?;
        let _asking = {
            let mut state = self.0.lock_state();
            let focus = if engaged {
                LineFocus::wanted()
            } else {
                LineFocus::new(!state.typed.draft.is_empty(), self.0.began.elapsed())
            };
            self.set_question(&mut state, Question::Line { typed: String::new(), focus, answer })?
        };
        answered.await.ok()
    }

    fn set_question(&self, state: &mut State, question: Question) -> Option<Asking> {
        if state.gone {
            return None;
        }
        state.question = Some(question);
        self.0.show_typed(state);
        Some(Asking(self.clone()))
    }

    /// Reads the terminal until the last guard is dropped.
    fn start_reading(&self) -> io::Result<Listening> {
        let mut reader = self.0.lock_reader();
        if reader.listeners == 0 {
            let (wake, woken) = UnixStream::pair()?;
            // The mode is set before the thread starts, so that keys are read once this returns.
            let mode = self.0.tty.read_keys()?;
            let inner = self.0.clone();
            let thread = std::thread::Builder::new().name("keys".to_owned()).spawn(move || {
                let read = inner.read_keys(&mode, &woken);
                drop(mode);
                if read.is_err() {
                    let mut state = inner.lock_state();
                    (state.gone, state.question) = (true, None);
                }
            })?;
            reader.running = Some((wake, thread));
        }
        reader.listeners += 1;
        Ok(Listening(self.clone()))
    }
}

impl Inner {
    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_reader(&self) -> MutexGuard<'_, Reader> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle_keys(&self, keys: &[Key]) {
        let mut state = self.lock_state();
        let state = &mut *state;
        let now = self.began.elapsed();
        // After Escape, lines are queued for the next prompt: a stopping run accepts no commands.
        let is_running = state.stop.as_ref().is_some_and(|stop| !stop.is_cancelled());
        match &mut state.question {
            None => {
                for key in keys {
                    // Tab queues a text behind the run, as on other screens; there are no completions here.
                    let queues = *key == Key::Tab && is_running && !state.typed.draft.trim().is_empty();
                    let key = if queues { &Key::Enter } else { key };
                    self.press_draft(&mut state.typed, key, is_running);
                }
            }
            Some(Question::Keys { keys: answer, meanings }) => {
                for meaning in answer.press(keys, now) {
                    if let KeyMeaning::Draft(key) = &meaning {
                        self.press_draft(&mut state.typed, key, is_running);
                        answer.set_typing(!state.typed.draft.is_empty());
                    }
                    // The receiver of answers may be gone.
                    let _ = meanings.send(meaning);
                }
            }
            Some(Question::Line { typed, focus, .. }) => {
                if !focus.takes_keys(keys, now) {
                    keys.iter().for_each(|key| self.press_draft(&mut state.typed, key, is_running));
                    focus.set_typing(!state.typed.draft.is_empty());
                } else {
                    keys.iter().for_each(|key| apply_key(typed, key));
                    if keys.last() == Some(&Key::Enter)
                        && let Some(Question::Line { typed, answer, .. }) = state.question.take()
                    {
                        let _ = answer.send(typed);
                    }
                }
            }
        }
        self.show_typed(state);
    }

    /// Directs keys to the question, despite a draft.
    fn focus_question(&self) {
        let mut state = self.lock_state();
        let now = self.began.elapsed();
        match &mut state.question {
            Some(Question::Keys { keys, .. }) => keys.focus(now),
            Some(Question::Line { focus, .. }) => focus.focus(now),
            None => {}
        }
        self.show_typed(&state);
    }

    fn press_draft(&self, typed: &mut TypeAhead, key: &Key, is_running: bool) {
        match key {
            Key::Enter => self.press_enter(typed, is_running),
            key => apply_key(&mut typed.draft, key),
        }
    }

    /// Handles Enter: submits the text, or triggers a retry without one.
    fn press_enter(&self, typed: &mut TypeAhead, is_running: bool) {
        let text = std::mem::take(&mut typed.draft);
        if is_running && self.lines.get().is_some_and(|take| take(&text)) {
            // The callback runs the command during the run.
        } else if !text.trim().is_empty() {
            if self.screen.lock().is_labelled() {
                // Nothing else shows typed text, so it is printed.
                self.screen.line(Style::DIM, &format!("next: {text}"));
            }
            typed.queue.push_back(text.into());
        } else if (self.skip_waits)() {
            self.screen.show_retrying_now();
        }
    }

    /// Shows the answer or the text typed ahead.
    fn show_typed(&self, state: &State) {
        let text = match &state.question {
            Some(Question::Line { typed, focus, .. }) if focus.is_focused() => typed.clone(),
            Some(Question::Line { .. } | Question::Keys { .. }) | None => {
                let queued: String =
                    state.typed.queue.iter().map(|waiting| format!("{} ⏎ ", waiting.text)).collect();
                queued + &state.typed.draft
            }
        };
        self.screen.lock().set_draft(&text);
        if let Some(changed) = &*self.changed.lock().unwrap_or_else(PoisonError::into_inner) {
            let queued = state.typed.queue.iter().map(|waiting| &*waiting.text);
            let texts = queued.chain([&*state.typed.draft]).filter(|text| !text.is_empty());
            changed(&texts.collect::<Vec<_>>().join("\n"));
        }
    }
}
