use std::collections::VecDeque;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use zk_providers::RateLimits;

use super::keys::{Key, Keys};
use super::tty::{KeyMode, Tty};
use crate::mode::shared_screen::SharedScreen;

/// How long after ESC the rest of a sequence may come: longer than a terminal needs, shorter than a person notices.
const SEQUENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 15_000_000 };

/// How often the terminal is looked at while nothing is typed: a shell may have changed it.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

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
    Key { wanted: Box<dyn Fn(char) -> bool + Send>, answer: oneshot::Sender<char> },
    Line { typed: String, answer: oneshot::Sender<String> },
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
        Self(Arc::new(Inner { tty, screen, limits, state, reader }))
    }

    /// Reads keys until the guard is dropped: Escape cancels `stop`, Enter ends the wait for another attempt, text
    /// is kept for the next prompt. On a terminal that cannot show what is typed only questions read keys.
    pub(super) fn watch(&self, stop: CancellationToken) -> io::Result<Watching> {
        let listening = if self.0.screen.has_keys() { Some(self.listen()?) } else { None };
        self.0.state().stop = Some(stop);
        Ok(Watching { keyboard: self.clone(), _listening: listening })
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

    /// The text that Enter did not end, from now on somebody else's.
    pub(super) fn take_draft(&self) -> String {
        let mut state = self.0.state();
        let draft = std::mem::take(&mut state.typed.draft);
        self.0.show(&state);
        draft
    }

    /// Asks, and gives the first key that is `wanted`, in small letters; nothing for Escape, and when nobody is
    /// there. What was typed before the question does not answer it: nobody approves by accident.
    pub(super) async fn key(
        &self,
        wanted: impl Fn(char) -> bool + Send + 'static,
        ask: impl FnOnce(),
    ) -> Option<char> {
        let (answer, answered) = oneshot::channel();
        let question = Question::Key { wanted: Box::new(wanted), answer };
        self.ask(question, answered, ask).await
    }

    /// Asks, and gives the next line; nothing for Escape, and when nobody is there.
    pub(super) async fn line(&self, ask: impl FnOnce()) -> Option<String> {
        let (answer, answered) = oneshot::channel();
        let question = Question::Line { typed: String::new(), answer };
        self.ask(question, answered, ask).await
    }

    async fn ask<T>(
        &self,
        question: Question,
        answered: oneshot::Receiver<T>,
        ask: impl FnOnce(),
    ) -> Option<T> {
        let _listening = self.listen().ok()?;
        self.0.tty.forget_typed();
        let _asking = Asking(self);
        {
            let mut state = self.0.state();
            if state.gone {
                return None;
            }
            state.question = Some(question);
            self.0.show(&state);
        }
        ask();
        answered.await.ok()
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
struct Asking<'a>(&'a Keyboard);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut state = self.0.0.state();
        state.question = None;
        self.0.0.show(&state);
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
        let mut keys = Keys::default();
        let mut buffer = [0; 4096];
        let mut is_ours = true;
        loop {
            // In the background the keys are for somebody else.
            let input = if is_ours { PollFlags::IN } else { PollFlags::empty() };
            let mut fds = [PollFd::new(&stdin, input), PollFd::new(woken, PollFlags::IN)];
            match poll(&mut fds, Some(if keys.is_within() { &SEQUENCE } else { &LOOK })) {
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
                self.press_all(mode, keys.end().as_slice());
            }
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
            let pressed: Vec<Key> = bytes.iter().filter_map(|byte| keys.push(*byte)).collect();
            self.press_all(mode, &pressed);
        }
    }

    /// Keys that came together. A line end within them was pasted, so it does not end the text.
    fn press_all(&self, mode: &KeyMode, keys: &[Key]) {
        for (at, key) in keys.iter().enumerate() {
            let is_last = at + 1 == keys.len();
            match key {
                Key::Suspend => {
                    self.screen.lock().set_draft("");
                    mode.send(Signal::TSTP);
                    if mode.mend() {
                        self.show(&self.state());
                    }
                }
                Key::Quit => mode.send(Signal::QUIT),
                Key::Enter if !is_last => self.press(Key::Char('\n')),
                key => self.press(*key),
            }
        }
    }

    fn press(&self, key: Key) {
        let mut state = self.state();
        match (key, state.question.take()) {
            (Key::Escape, _) => {
                if let Some(stop) = &state.stop {
                    stop.cancel();
                }
            }
            (Key::Char(key), Some(Question::Key { wanted, answer })) => {
                let key = key.to_ascii_lowercase();
                if wanted(key) {
                    let _ = answer.send(key);
                } else {
                    state.question = Some(Question::Key { wanted, answer });
                }
            }
            (Key::Enter, Some(Question::Line { typed, answer })) => drop(answer.send(typed)),
            (key, Some(Question::Line { mut typed, answer })) => {
                edit(&mut typed, key);
                state.question = Some(Question::Line { typed, answer });
            }
            (_, question @ Some(Question::Key { .. })) => state.question = question,
            (Key::Enter, None) => self.enter(&mut state.typed),
            (key, None) => edit(&mut state.typed.draft, key),
        }
        self.show(&state);
    }

    /// Enter ends a text, or the wait for another attempt where there is none.
    fn enter(&self, typed: &mut TypeAhead) {
        let text = std::mem::take(&mut typed.draft);
        if !text.trim().is_empty() {
            typed.queue.push_back(text);
        } else if self.limits.skip_waits() {
            self.screen.show_retrying_now();
        }
    }

    /// Shows what is typed: the answer to a question, or the next prompts.
    fn show(&self, state: &State) {
        let text = match &state.question {
            Some(Question::Line { typed, .. }) => typed.clone(),
            Some(Question::Key { .. }) => String::new(),
            None => {
                let queued: String = state.typed.queue.iter().map(|text| format!("{text} ⏎ ")).collect();
                queued + &state.typed.draft
            }
        };
        self.screen.lock().set_draft(&text);
    }
}

fn edit(text: &mut String, key: Key) {
    match key {
        Key::Char(c) => text.push(c),
        Key::Back => drop(text.pop()),
        Key::BackAll => text.clear(),
        Key::BackWord => {
            let kept = text.trim_end().trim_end_matches(|c: char| !c.is_whitespace()).len();
            text.truncate(kept);
        }
        Key::Enter | Key::Escape | Key::Suspend | Key::Quit => {}
    }
}
