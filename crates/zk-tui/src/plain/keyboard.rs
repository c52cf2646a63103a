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
use self::line_edit::edit;
use super::line_editor::OnChange;
use super::shared_screen::SharedScreen;
use crate::keys::Key;
use crate::question::answer_keys::{AnswerKeys, KeyMeaning, LineFocus, Offer};
use crate::row::Style;
use crate::term::Tty;

/// Callback for a submitted line; returns whether it handled the line.
type OnLine = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// Callback that ends the wait for another attempt; returns whether there was one.
type SkipWaits = Box<dyn Fn() -> bool + Send + Sync>;

/// Input during a run: keys that stop it or end its wait for another attempt, answers to questions, and text
/// for the next prompt. Clones are the same keyboard.
#[derive(Clone)]
pub struct Keyboard(Arc<Inner>);

struct Inner {
    tty: Tty,
    screen: SharedScreen,
    skip_waits: SkipWaits,
    state: Mutex<State>,
    reader: Mutex<Reader>,
    /// Lock of whoever asks the person something or reads a line of theirs.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Time at which this keyboard's clock began.
    began: Instant,
    /// Callback, told what waits for the next prompts after each change.
    changed: Mutex<Option<OnChange>>,
    /// Action of Shift-Tab.
    cycle: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Handles a line submitted during a run, unless it is text for the next prompt.
    lines: OnceLock<OnLine>,
}

#[derive(Default)]
struct State {
    typed: TypeAhead,
    question: Option<Question>,
    /// Token that Escape cancels.
    stop: Option<CancellationToken>,
    /// Whether nobody is at the terminal any more.
    gone: bool,
}

/// Text that was typed for the next prompts.
#[derive(Default)]
struct TypeAhead {
    /// Texts that Enter ended.
    queue: VecDeque<Waiting>,
    /// The beginning of another one.
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
    /// One that a choice answers.
    Keys { keys: AnswerKeys, meanings: mpsc::UnboundedSender<KeyMeaning> },
    /// One that a line answers.
    Line { typed: String, focus: LineFocus, answer: oneshot::Sender<String> },
}

/// The thread that reads the terminal, as long as somebody listens.
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

    /// Waits until nobody else asks the person something or reads a line of theirs, in the order of the waiting.
    pub async fn turn(&self) -> OwnedMutexGuard<()> {
        self.0.turn.clone().lock_owned().await
    }

    /// Has Shift-Tab do `cycle` from now on.
    pub fn on_back_tab(&self, cycle: impl Fn() + Send + Sync + 'static) {
        // A second callback is ignored.
        let _ = self.0.cycle.set(Box::new(cycle));
    }

    /// Offers `take` each line that Enter ends during a run from now on; what it does not take waits for the run's end.
    pub fn on_line(&self, take: impl Fn(&str) -> bool + Send + Sync + 'static) {
        // A second callback is ignored.
        let _ = self.0.lines.set(Box::new(take));
    }

    /// Has `changed` told what waits for the next prompts after each change; nobody, where there is none.
    pub fn on_change(&self, changed: Option<OnChange>) {
        *self.0.changed.lock().unwrap_or_else(PoisonError::into_inner) = changed;
    }

    /// Reads keys until the guard is dropped: Escape cancels `stop`, Enter ends the wait for another attempt, text
    /// is kept for the next prompt. On a terminal that cannot show what is typed only questions read keys.
    pub fn watch(&self, stop: CancellationToken) -> io::Result<Watching> {
        let listening = if self.0.screen.has_keys() { Some(self.listen()?) } else { None };
        self.0.state().stop = Some(stop);
        Ok(Watching { keyboard: self.clone(), _listening: listening })
    }

    /// Stops what runs, as Escape does.
    pub fn stop(&self) {
        if let Some(stop) = &self.0.state().stop {
            stop.cancel();
        }
    }

    /// The token that stops what runs, if anything does.
    pub fn running(&self) -> Option<CancellationToken> {
        self.0.state().stop.clone()
    }

    /// Acts as Shift-Tab does.
    pub fn back_tab(&self) {
        if let Some(cycle) = self.0.cycle.get() {
            cycle();
        }
    }

    /// The next of the texts that Enter ended.
    pub fn next_queued(&self) -> Option<Waiting> {
        let mut state = self.0.state();
        let waiting = state.typed.queue.pop_front();
        self.0.show(&state);
        waiting
    }

    /// Makes one draft of all that was typed: it was typed for another state of things.
    pub fn queue_to_draft(&self) {
        let mut state = self.0.state();
        let typed = std::mem::take(&mut state.typed);
        let queued = typed.queue.into_iter().map(|waiting| waiting.text);
        let texts = queued.chain([typed.draft]).filter(|text| !text.trim().is_empty());
        state.typed.draft = texts.collect::<Vec<_>>().join("\n");
        self.0.show(&state);
    }

    /// Puts a prompt that nothing came of back before everything else that was typed.
    pub fn give_back(&self, prompt: &str) {
        let mut state = self.0.state();
        state.typed.queue.push_front(prompt.to_owned().into());
        self.0.show(&state);
    }

    /// Puts a text behind those that Enter ended.
    pub fn queue(&self, waiting: Waiting) {
        let mut state = self.0.state();
        state.typed.queue.push_back(waiting);
        self.0.show(&state);
    }

    /// Has the next line begin with `draft`.
    pub fn set_draft(&self, draft: String) {
        self.0.state().typed.draft = draft;
    }

    /// The text that Enter did not end, from now on somebody else's.
    pub fn take_draft(&self) -> String {
        let mut state = self.0.state();
        let draft = std::mem::take(&mut state.typed.draft);
        self.0.show(&state);
        draft
    }

    /// Lets keys answer a question that was just drawn, until the guard is dropped; nothing where nobody is there.
    /// The person `turned` to it on purpose or was busy with something else.
    pub(crate) fn choose(&self, offer: Offer, turned: bool) -> Option<Choosing> {
        let (meanings, received) = mpsc::unbounded_channel();
        let listening = self.listen().ok()?;
        let mut state = self.0.state();
        let now = self.0.began.elapsed();
        let keys = AnswerKeys::new(offer, !state.typed.draft.is_empty(), now);
        let keys = if turned { keys.turned(now) } else { keys };
        let asking = self.install(&mut state, Question::Keys { keys, meanings })?;
        Some(Choosing { meanings: received, _asking: asking, _listening: listening })
    }

    /// Reads a line that answers a question which was just drawn; nothing when nobody is there. What is typed at first
    /// is for the draft, unless the person is `engaged` with the question.
    pub(crate) async fn line(&self, engaged: bool) -> Option<String> {
        let (answer, answered) = oneshot::channel();
        let _listening = self.listen().ok()?;
        let _asking = {
            let mut state = self.0.state();
            let focus = if engaged {
                LineFocus::wanted()
            } else {
                LineFocus::new(!state.typed.draft.is_empty(), self.0.began.elapsed())
            };
            self.install(&mut state, Question::Line { typed: String::new(), focus, answer })?
        };
        answered.await.ok()
    }

    fn install(&self, state: &mut State, question: Question) -> Option<Asking> {
        if state.gone {
            return None;
        }
        state.question = Some(question);
        self.0.show(state);
        Some(Asking(self.clone()))
    }

    /// Reads the terminal until the last guard is dropped.
    fn listen(&self) -> io::Result<Listening> {
        let mut reader = self.0.reader();
        if reader.listeners == 0 {
            let (wake, woken) = UnixStream::pair()?;
            // Set here, so that keys are heard once this returns.
            let mode = self.0.tty.keys()?;
            let inner = self.0.clone();
            let thread = std::thread::Builder::new().name("keys".to_owned()).spawn(move || {
                let read = inner.read(&mode, &woken);
                drop(mode);
                if read.is_err() {
                    let mut state = inner.state();
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
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reader(&self) -> MutexGuard<'_, Reader> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn press(&self, keys: &[Key]) {
        let mut state = self.state();
        let state = &mut *state;
        let now = self.began.elapsed();
        // After Escape, lines are queued for the next prompt: a stopping run accepts no commands.
        let is_running = state.stop.as_ref().is_some_and(|stop| !stop.is_cancelled());
        match &mut state.question {
            None => {
                for key in keys {
                    // As on the other screens it ends a text that waits behind the run; it completes nothing here.
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
                    // Whoever asked may be gone already.
                    let _ = meanings.send(meaning);
                }
            }
            Some(Question::Line { typed, focus, .. }) => {
                if !focus.hears(keys, now) {
                    keys.iter().for_each(|key| self.press_draft(&mut state.typed, key, is_running));
                    focus.set_typing(!state.typed.draft.is_empty());
                } else {
                    keys.iter().for_each(|key| edit(typed, key));
                    if keys.last() == Some(&Key::Enter)
                        && let Some(Question::Line { typed, answer, .. }) = state.question.take()
                    {
                        let _ = answer.send(typed);
                    }
                }
            }
        }
        self.show(state);
    }

    /// The person turns to the question, whatever they were typing.
    fn focus_question(&self) {
        let mut state = self.state();
        let now = self.began.elapsed();
        match &mut state.question {
            Some(Question::Keys { keys, .. }) => keys.focus(now),
            Some(Question::Line { focus, .. }) => focus.focus(now),
            None => {}
        }
        self.show(&state);
    }

    fn press_draft(&self, typed: &mut TypeAhead, key: &Key, is_running: bool) {
        match key {
            Key::Enter => self.enter(typed, is_running),
            key => edit(&mut typed.draft, key),
        }
    }

    /// Enter ends a text, or the wait for another attempt where there is none.
    fn enter(&self, typed: &mut TypeAhead, is_running: bool) {
        let text = std::mem::take(&mut typed.draft);
        if is_running && self.lines.get().is_some_and(|take| take(&text)) {
            // The command runs during the run.
        } else if !text.trim().is_empty() {
            if self.screen.lock().is_labelled() {
                // Nothing else shows what is typed here.
                self.screen.line(Style::DIM, &format!("next: {text}"));
            }
            typed.queue.push_back(text.into());
        } else if (self.skip_waits)() {
            self.screen.show_retrying_now();
        }
    }

    /// Shows what is typed: the answer to a question, or the next prompts.
    fn show(&self, state: &State) {
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
