use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::{FileHistory, History};
use rustyline::validate::Validator;
use rustyline::{
    Cmd, ConditionalEventHandler, Config, Context, Editor, Event, EventContext, EventHandler, Helper,
    KeyCode, KeyEvent, Modifiers, Movement, RepeatCount,
};

use crate::edit::Recall;
use crate::term::{TerminalError, redacted};

/// Maximum number of lines in the history.
const MAX_HISTORY_LINES: usize = 500;

/// Maximum wait after ESC for the rest of a sequence, in milliseconds, so that Escape does not change the
/// next key.
const SEQUENCE_WAIT_MS: u16 = 100;

/// Input of a person.
#[derive(Debug)]
pub enum ReadLine {
    /// A line that Enter ended.
    Line(String),
    /// Ctrl-C.
    Interrupt,
    /// Shift-Tab, with the text typed before it.
    BackTab(String),
    /// Ctrl-D.
    End,
    /// The terminal cannot be read, for this reason.
    Failed(String),
}

/// Handler of Shift-Tab, which ends the line and keeps its text.
#[derive(Clone, Default)]
struct BackTab(Arc<Mutex<Option<String>>>);

impl BackTab {
    fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl ConditionalEventHandler for BackTab {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext<'_>) -> Option<Cmd> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(context.line().to_owned());
        Some(Cmd::Interrupt)
    }
}

/// Handler of Enter, which breaks the line after a backslash, and records the text before each break. The
/// backslashes are removed when the line is complete, except in a shell command of the person.
#[derive(Clone, Default)]
struct Breaks(Arc<Mutex<Vec<String>>>);

impl Breaks {
    /// Removes the backslashes before the breaks of a line.
    fn remove_backslashes(&self, mut line: String) -> String {
        let breaks = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for before in breaks.iter().rev() {
            let is_there = line.strip_prefix(before.as_str()).is_some_and(|rest| rest.starts_with('\n'));
            if is_there && !line.starts_with('!') {
                line.remove(before.len() - 1);
            }
        }
        line
    }
}

impl ConditionalEventHandler for Breaks {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext<'_>) -> Option<Cmd> {
        let before = context.line().get(..context.pos()).unwrap_or_default();
        let slashes = before.len() - before.trim_end_matches('\\').len();
        if slashes.is_multiple_of(2) {
            return None;
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(before.to_owned());
        Some(Cmd::Newline)
    }
}

/// Handler of the stash key, which sets the typed text aside. On an empty line it restores the last text that
/// was set aside.
#[derive(Default)]
struct Stash(Mutex<Vec<String>>);

impl ConditionalEventHandler for Stash {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext<'_>) -> Option<Cmd> {
        let mut aside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if context.line().is_empty() {
            return Some(aside.pop().map_or(Cmd::Noop, |text| Cmd::Insert(1, text)));
        }
        aside.push(context.line().to_owned());
        Some(Cmd::Kill(Movement::WholeBuffer))
    }
}

/// Callback for each change of the line.
pub type OnChange = Box<dyn Fn(&str) + Send + Sync>;

/// Observer of the line, implemented as a hinter: the editor asks for a hint after each change.
#[derive(Default)]
struct Watched(Option<OnChange>);

impl Hinter for Watched {
    type Hint = String;

    fn hint(&self, line: &str, _: usize, _: &Context<'_>) -> Option<String> {
        if let Some(changed) = &self.0 {
            changed(line);
        }
        None
    }
}

impl Completer for Watched {
    type Candidate = String;
}

impl Highlighter for Watched {}
impl Validator for Watched {}
impl Helper for Watched {}

/// Line editing with a history that outlives the conversation.
pub struct LineEditor {
    editor: Editor<Watched, FileHistory>,
    /// Text of the line at a Shift-Tab.
    back_tab: BackTab,
    breaks: Breaks,
    /// File of the history; `None` until its directory is writable.
    kept: Option<PathBuf>,
    /// Stamp of the history file when it was last read or written.
    seen: Option<Stamp>,
}

/// Modification time and length of a file.
type Stamp = (SystemTime, u64);

fn stamp(path: &Path) -> Option<Stamp> {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.len()))
}

impl fmt::Debug for LineEditor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineEditor").field("kept", &self.kept).finish_non_exhaustive()
    }
}

impl LineEditor {
    /// Creates an editor with its history in the file `kept`, in an existing directory.
    ///
    /// # Errors
    /// [`TerminalError::LineEditor`].
    pub fn new(kept: Option<PathBuf>) -> Result<Self, TerminalError> {
        let failed = |error: ReadlineError| TerminalError::LineEditor(error.to_string());
        let config = Config::builder().max_history_size(MAX_HISTORY_LINES).map_err(failed)?;
        let mut editor =
            Editor::with_config(config.keyseq_timeout(Some(SEQUENCE_WAIT_MS)).build()).map_err(failed)?;
        editor.set_helper(Some(Watched::default()));
        if let Some(path) = &kept {
            // The file may not exist yet.
            let _ = editor.load_history(path);
        }
        let back_tab = BackTab::default();
        let key = KeyEvent(KeyCode::BackTab, Modifiers::NONE);
        let handler = EventHandler::Conditional(Box::new(back_tab.clone()));
        editor.bind_sequence(key, handler);
        let breaks = Breaks::default();
        let enter = KeyEvent(KeyCode::Enter, Modifiers::NONE);
        editor.bind_sequence(enter, EventHandler::Conditional(Box::new(breaks.clone())));
        editor.bind_sequence(KeyEvent::ctrl('S'), EventHandler::Conditional(Box::<Stash>::default()));
        let seen = kept.as_deref().and_then(stamp);
        Ok(Self { editor, back_tab, breaks, kept, seen })
    }

    /// Sets or removes the callback for each change of the line.
    pub fn on_change(&mut self, changed: Option<OnChange>) {
        self.editor.set_helper(Some(Watched(changed)));
    }

    /// Reads a line, which begins with `draft`.
    pub fn read(&mut self, draft: &str) -> ReadLine {
        self.refresh();
        let typed = match self.editor.readline_with_initial("› ", (draft, "")) {
            Ok(line) => ReadLine::Line(self.breaks.remove_backslashes(line)),
            Err(ReadlineError::Interrupted) => match self.back_tab.take() {
                Some(typed) => ReadLine::BackTab(typed),
                None => ReadLine::Interrupt,
            },
            Err(ReadlineError::Eof) => ReadLine::End,
            Err(error) => ReadLine::Failed(error.to_string()),
        };
        if let ReadLine::Line(line) = &typed {
            if let Some(Watched(Some(changed))) = self.editor.helper() {
                changed("");
            }
            self.remember(line);
        }
        typed
    }

    /// History, oldest first.
    pub fn history(&self) -> Vec<String> {
        self.editor.history().iter().cloned().collect()
    }

    /// Creates a source of the history that includes the lines of other processes. It returns the history only
    /// if it changed.
    pub fn recall(&self) -> Recall {
        let (kept, mut seen) = (self.kept.clone(), self.seen);
        Box::new(move || {
            let path = kept.as_deref()?;
            let now = stamp(path)?;
            if seen.replace(now) == Some(now) {
                return None;
            }
            let config = Config::builder().max_history_size(MAX_HISTORY_LINES).ok()?.build();
            let mut history = FileHistory::with_config(&config);
            history.load(path).ok()?;
            Some(history.iter().cloned().collect())
        })
    }

    /// Rereads the history if another process wrote to it.
    fn refresh(&mut self) {
        let Some(path) = &self.kept else { return };
        let now = stamp(path);
        if now.is_some() && std::mem::replace(&mut self.seen, now) != now {
            // If the file is unreadable, the lines of this process remain.
            let _ = self.editor.clear_history().and_then(|()| self.editor.load_history(path));
        }
    }

    /// Adds a line to the history.
    pub fn remember(&mut self, line: &str) {
        // Losing a line of history is harmless.
        if self.editor.add_history_entry(&*redacted(line)).is_ok_and(|added| added) {
            self.append_to_file();
        }
    }

    fn append_to_file(&mut self) {
        if let Some(path) = &self.kept {
            // A history that cannot be written costs the arrow keys, not the conversation.
            let _ = self.editor.append_history(path);
            self.seen = stamp(path);
        }
    }
}
