use std::collections::VecDeque;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use zk_agent::RateLimits;
use zk_tui::{Key, KeyDecoder};

use super::question::{AnswerKeys, Effect, LineFocus, Offer};
use super::tty::{KeyMode, Tty};
use crate::mode::shared_screen::SharedScreen;
use crate::term::Style;

/// How long after ESC the rest of a sequence may come: longer than a terminal needs, shorter than a person notices.
const SEQUENCE: Duration = Duration::from_millis(15);

/// How often the terminal is looked at while nothing is typed: a shell may have changed it.
const LOOK: Duration = Duration::from_millis(200);

/// What is typed while something else is screen: keys that stop and stop_waiting a run, answers to questions, and text for
/// the next prompt. Clones are the same keyboard.
#[derive(Clone)]
pub(crate) struct Keyboard(Arc<Inner>);

struct Inner {
    tty: Tty,
    screen: SharedScreen,
    limits: RateLimits,
    state: Mutex<State>,
    reader: Mutex<Reader>,
    /// When this keyboard's clock began.
    began: Instant,
    /// What Shift-Tab does.
    cycle: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

#[derive(Default)]
struct State {
    typed: TypeAhead,
    question: Option<Question>,
    /// What Escape stops.
    stop: Option<CancellationToken>,
    /// Whether nobody is at the terminal any more.
    gone: bool,
}

/// What was typed and is for the next prompts.
#[derive(Default)]
struct TypeAhead {
    /// Texts that Enter ended.
    queue: VecDeque<String>,
    /// The beginning of another one.
    draft: String,
}

enum Question {
    /// One that a choice answers.
    Keys { keys: AnswerKeys, effects: mpsc::UnboundedSender<Effect> },
    /// One that a line answers.
    Line { typed: String, focus: LineFocus, answer: oneshot::Sender<String> },
}

/// The thread that reads the terminal, as long as somebody listens.
#[derive(Default)]
struct Reader {
    listeners: usize,
    running: Option<(UnixStream, JoinHandle<()>)>,
}

impl Keyboard {
    pub(crate) fn new(tty: Tty, screen: SharedScreen, limits: RateLimits) -> Self {
        let (state, reader) = (Mutex::default(), Mutex::default());
        Self(Arc::new(Inner {
            tty,
            screen,
            limits,
            state,
            reader,
            began: Instant::now(),
            cycle: OnceLock::new(),
        }))
    }

    /// Has Shift-Tab do `cycle` from now on.
    pub(super) fn on_back_tab(&self, cycle: impl Fn() + Send + Sync + 'static) {
        // Whoever was first keeps it.
        let _ = self.0.cycle.set(Box::new(cycle));
    }

    /// Reads keys until the guard is dropped: Escape cancels `stop`, Enter ends the wait for another attempt, text
    /// is kept for the next prompt. On a terminal that cannot show what is typed only questions read keys.
    pub(super) fn watch(&self, stop: CancellationToken) -> io::Result<Watching> {
        let listening = if self.0.screen.has_keys() { Some(self.listen()?) } else { None };
        self.0.state().stop = Some(stop);
        Ok(Watching { keyboard: self.clone(), _listening: listening })
    }

    /// Stops what runs, as Escape does.
    pub(super) fn stop(&self) {
        if let Some(stop) = &self.0.state().stop {
            stop.cancel();
        }
    }

    /// Does what Shift-Tab does.
    pub(super) fn back_tab(&self) {
        if let Some(cycle) = self.0.cycle.get() {
            cycle();
        }
    }

    /// The next of the texts that Enter ended.
    pub(super) fn next_queued(&self) -> Option<String> {
        let mut state = self.0.state();
        let text = state.typed.queue.pop_front();
        self.0.show(&state);
        text
    }

    /// Makes one draft of all that was typed: it was typed for another state of things.
    pub(super) fn queue_to_draft(&self) {
        let mut state = self.0.state();
        let typed = std::mem::take(&mut state.typed);
        let texts = typed.queue.into_iter().chain([typed.draft]).filter(|text| !text.trim().is_empty());
        state.typed.draft = texts.collect::<Vec<_>>().join("\n");
        self.0.show(&state);
    }

    /// Puts a prompt that nothing came of back before everything else that was typed.
    pub(super) fn give_back(&self, prompt: &str) {
        let mut state = self.0.state();
        state.typed.queue.push_front(prompt.to_owned());
        self.0.show(&state);
    }

    /// Has the next line begin with `draft`.
    pub(super) fn set_draft(&self, draft: String) {
        self.0.state().typed.draft = draft;
    }

    /// The text that Enter did not end, from now on somebody else's.
    pub(super) fn take_draft(&self) -> String {
        let mut state = self.0.state();
        let draft = std::mem::take(&mut state.typed.draft);
        self.0.show(&state);
        draft
    }

    /// Lets keys answer a question that was just drawn, until the guard is dropped; nothing where nobody is there.
    /// The person `turned` to it on purpose or was busy with something else.
    pub(super) fn choose(&self, offer: Offer, turned: bool) -> Option<Choosing> {
        let (effects, received) = mpsc::unbounded_channel();
        let listening = self.listen().ok()?;
        let mut state = self.0.state();
        let now = self.0.began.elapsed();
        let keys = AnswerKeys::new(offer, !state.typed.draft.is_empty(), now);
        let keys = if turned { keys.turned(now) } else { keys };
        let asking = self.install(&mut state, Question::Keys { keys, effects })?;
        Some(Choosing { effects: received, _asking: asking, _listening: listening })
    }

    /// Reads a line that answers a question which was just drawn; nothing when nobody is there. What is typed at first
    /// is for the draft, unless the person is `engaged` with the question.
    pub(super) async fn line(&self, engaged: bool) -> Option<String> {
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

/// Reads the terminal as long as it lives.
struct Listening(Keyboard);

impl Drop for Listening {
    fn drop(&mut self) {
        let mut reader = self.0.0.reader();
        reader.listeners -= 1;
        if reader.listeners == 0
            && let Some((wake, thread)) = reader.running.take()
        {
            drop(wake);
            let _ = thread.join();
        }
    }
}

/// A run that keys stop, as long as it lives.
pub(super) struct Watching {
    keyboard: Keyboard,
    _listening: Option<Listening>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.keyboard.0.state().stop = None;
    }
}

/// A question that is answered, or not wanted any more, when this is dropped.
struct Asking(Keyboard);

impl Drop for Asking {
    fn drop(&mut self) {
        let mut state = self.0.0.state();
        state.question = None;
        self.0.0.show(&state);
    }
}

/// The keys of one question, as long as it lives.
pub(super) struct Choosing {
    effects: mpsc::UnboundedReceiver<Effect>,
    // Dropped before the listening: the reader's thread is joined there.
    _asking: Asking,
    _listening: Listening,
}

impl Choosing {
    /// What the next key means; nothing when nobody is there any more.
    pub(super) async fn next(&mut self) -> Option<Effect> {
        self.effects.recv().await
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reader(&self) -> MutexGuard<'_, Reader> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads until the other end of `woken` is gone; fails when the terminal is.
    fn read(&self, mode: &KeyMode, woken: &UnixStream) -> io::Result<()> {
        let stdin = io::stdin();
        let mut keys = KeyDecoder::default();
        let mut buffer = [0; 4096];
        let mut is_ours = true;
        loop {
            // In the background the keys are for somebody else.
            let input = if is_ours { PollFlags::IN } else { PollFlags::empty() };
            let mut fds = [PollFd::new(&stdin, input), PollFd::new(woken, PollFlags::IN)];
            let wait = if keys.is_within() { SEQUENCE } else { self.until_tick().min(LOOK) };
            match poll(&mut fds, Some(&timespec(wait))) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let [typed, woken] = fds.map(|fd| fd.revents());
            if !woken.is_empty() {
                return Ok(());
            }
            if !is_ours && !typed.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if typed.is_empty() {
                self.press_all(mode, keys.idle().as_slice());
            }
            self.tick();
            let were_ours = std::mem::replace(&mut is_ours, mode.mend());
            match (were_ours, is_ours) {
                (true, false) => self.screen.lock().set_draft(""),
                (false, true) => self.show(&self.state()),
                (true, true) | (false, false) => {}
            }
            if typed.is_empty() || !is_ours {
                continue;
            }
            let read = rustix::io::read(&stdin, &mut buffer)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let bytes = buffer.get(..read).unwrap_or_default();
            self.press_all(mode, &keys.push(bytes));
        }
    }

    /// How long until a choice answers by itself.
    fn until_tick(&self) -> Duration {
        let at = match &self.state().question {
            Some(Question::Keys { keys, .. }) => keys.next_tick(),
            Some(Question::Line { .. }) | None => None,
        };
        at.map_or(LOOK, |at| at.saturating_sub(self.began.elapsed()))
    }

    /// Lets a choice answer after which nothing came.
    fn tick(&self) {
        if let Some(Question::Keys { keys, effects }) = &mut self.state().question
            && let Some(effect) = keys.tick(self.began.elapsed())
        {
            // Whoever asked may be gone already.
            let _ = effects.send(effect);
        }
    }

    /// Takes in keys that were read at once. A line end within them does not end the text: it is part of a paste.
    fn press_all(&self, mode: &KeyMode, keys: &[Key]) {
        let mut together = Vec::new();
        for (at, key) in keys.iter().enumerate() {
            let is_last = at + 1 == keys.len();
            match key {
                Key::Ctrl('z') => {
                    self.screen.lock().set_draft("");
                    mode.send(Signal::TSTP);
                    if mode.mend() {
                        self.show(&self.state());
                    }
                }
                Key::Ctrl('\\') => mode.send(Signal::QUIT),
                Key::BackTab => {
                    if let Some(cycle) = self.cycle.get() {
                        cycle();
                    }
                }
                Key::Escape => {
                    if let Some(stop) = &self.state().stop {
                        stop.cancel();
                    }
                }
                Key::Enter if !is_last => together.push(Key::Paste("\n".to_owned())),
                key @ (Key::Char(_)
                | Key::Paste(_)
                | Key::Enter
                | Key::Newline
                | Key::Tab
                | Key::Back
                | Key::Ctrl('u' | 'w')) => together.push(key.clone()),
                Key::Alt('q') => self.focus_question(),
                // The others have no use for a line: they neither edit it nor answer.
                Key::Ctrl(_)
                | Key::Alt(_)
                | Key::Delete
                | Key::Move { .. }
                | Key::Synchronized(_)
                | Key::Ground { .. }
                | Key::Columns(_)
                | Key::Answered
                | Key::Focus(_) => {}
            }
        }
        if !together.is_empty() {
            self.press(&together);
        }
    }

    fn press(&self, keys: &[Key]) {
        let mut state = self.state();
        let state = &mut *state;
        let now = self.began.elapsed();
        match &mut state.question {
            None => keys.iter().for_each(|key| self.press_draft(&mut state.typed, key)),
            Some(Question::Keys { keys: answer, effects }) => {
                for effect in answer.press(keys, now) {
                    if let Effect::Draft(key) = &effect {
                        self.press_draft(&mut state.typed, key);
                        answer.set_typing(!state.typed.draft.is_empty());
                    }
                    // Whoever asked may be gone already.
                    let _ = effects.send(effect);
                }
            }
            Some(Question::Line { typed, focus, .. }) => {
                if !focus.hears(keys, now) {
                    keys.iter().for_each(|key| self.press_draft(&mut state.typed, key));
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

    fn press_draft(&self, typed: &mut TypeAhead, key: &Key) {
        match key {
            Key::Enter => self.enter(typed),
            key => edit(&mut typed.draft, key),
        }
    }

    /// Enter ends a text, or the wait for another attempt where there is none.
    fn enter(&self, typed: &mut TypeAhead) {
        let text = std::mem::take(&mut typed.draft);
        if !text.trim().is_empty() {
            if self.screen.lock().is_labelled() {
                // Nothing else shows what is typed here.
                self.screen.line(Style::Dim, &format!("next: {text}"));
            }
            typed.queue.push_back(text);
        } else if self.limits.skip_waits() {
            self.screen.show_retrying_now();
        }
    }

    /// Shows what is typed: the answer to a question, or the next prompts.
    fn show(&self, state: &State) {
        let text = match &state.question {
            Some(Question::Line { typed, focus, .. }) if focus.is_focused() => typed.clone(),
            Some(Question::Line { .. } | Question::Keys { .. }) | None => {
                let queued: String = state.typed.queue.iter().map(|text| format!("{text} ⏎ ")).collect();
                queued + &state.typed.draft
            }
        };
        self.screen.lock().set_draft(&text);
    }
}

/// A wait as `poll` takes it; none here is longer than a second.
fn timespec(wait: Duration) -> Timespec {
    Timespec { tv_sec: 0, tv_nsec: wait.min(LOOK).subsec_nanos().into() }
}

/// What a key does to a line that is typed without being seen whole: it grows and shrinks at its end.
fn edit(text: &mut String, key: &Key) {
    match key {
        Key::Char(c) => text.push(*c),
        Key::Paste(pasted) => text.extend(pasted.chars().filter(|c| *c == '\n' || !c.is_control())),
        Key::Newline => text.push('\n'),
        Key::Tab => text.push(' '),
        Key::Back => drop(text.pop()),
        Key::Ctrl('u') => text.clear(),
        Key::Ctrl('w') => {
            let kept = text.trim_end().trim_end_matches(|c: char| !c.is_whitespace()).len();
            text.truncate(kept);
        }
        Key::Ctrl(_)
        | Key::Alt(_)
        | Key::Enter
        | Key::Escape
        | Key::BackTab
        | Key::Delete
        | Key::Move { .. }
        | Key::Synchronized(_)
        | Key::Ground { .. }
        | Key::Columns(_)
        | Key::Answered
        | Key::Focus(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_edits_a_line_does_so_and_other_keys_do_nothing() {
        let edited = |bytes: &str| {
            let mut text = String::new();
            KeyDecoder::default().push(bytes.as_bytes()).iter().for_each(|key| edit(&mut text, key));
            text
        };
        for (bytes, expected) in [
            ("aé語🙂", "aé語🙂"),
            ("ab\u{7f}c\u{8}d", "ad"),
            ("one two\u{17}x", "one x"),
            ("one\u{15}two", "two"),
            ("a\tb", "a b"),
            ("a\u{1b}[A\u{1b}[3~\u{1}\u{4}\u{b}\u{1b}bz", "az"),
            ("\u{1b}[200~y\ré\u{3}\u{1b}\u{15}\u{1b}[201~z", "y\néz"),
        ] {
            assert_eq!(edited(bytes), expected, "{bytes:?}");
        }
    }
}
