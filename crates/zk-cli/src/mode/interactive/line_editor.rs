use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustyline::error::ReadlineError;
use rustyline::{
    Cmd, ConditionalEventHandler, Config, DefaultEditor, Event, EventContext, EventHandler, KeyCode,
    KeyEvent, Modifiers, RepeatCount,
};

use crate::sessions::make_private;
use crate::term::redacted;

/// Lines that are kept for the arrow keys.
const KEPT: usize = 500;

/// How long after ESC the rest of a sequence may come, in milliseconds. Without an end to it, Escape would make
/// another key of the next one.
const SEQUENCE: u16 = 100;

/// What a person typed.
pub(crate) enum ReadLine {
    Line(String),
    /// Ctrl-C.
    Interrupt,
    /// Shift-Tab, with what was typed before it.
    BackTab(String),
    /// Ctrl-D.
    End,
    Failed(String),
}

/// Leaves the line when Shift-Tab is pressed.
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

/// Line editing with a history that outlives the conversation.
pub(crate) struct LineEditor {
    editor: DefaultEditor,
    /// What was typed when Shift-Tab was pressed.
    back_tab: BackTab,
    /// The file of the history, once its directory can be written.
    kept: Option<PathBuf>,
}

impl LineEditor {
    pub(crate) fn new(history: Option<PathBuf>) -> rustyline::Result<Self> {
        let config = Config::builder().max_history_size(KEPT)?.keyseq_timeout(Some(SEQUENCE)).build();
        let mut editor = DefaultEditor::with_config(config)?;
        let kept = history.filter(|path| path.parent().is_some_and(|dir| make_private(dir).is_ok()));
        if let Some(path) = &kept {
            // The first conversation has no history yet.
            let _ = editor.load_history(path);
        }
        let back_tab = BackTab::default();
        let key = KeyEvent(KeyCode::BackTab, Modifiers::NONE);
        let handler = EventHandler::Conditional(Box::new(back_tab.clone()));
        editor.bind_sequence(key, handler);
        Ok(Self { editor, back_tab, kept })
    }

    /// Reads a line that begins with `draft`.
    pub(crate) fn read(&mut self, draft: &str) -> ReadLine {
        let typed = match self.editor.readline_with_initial("› ", (draft, "")) {
            Ok(line) => ReadLine::Line(line),
            Err(ReadlineError::Interrupted) => match self.back_tab.take() {
                Some(typed) => ReadLine::BackTab(typed),
                None => ReadLine::Interrupt,
            },
            Err(ReadlineError::Eof) => ReadLine::End,
            Err(error) => ReadLine::Failed(error.to_string()),
        };
        if let ReadLine::Line(line) = &typed {
            self.remember(line);
        }
        typed
    }

    /// The lines that were typed before, oldest first.
    pub(crate) fn history(&self) -> Vec<String> {
        self.editor.history().iter().cloned().collect()
    }

    /// Remembers a line that was typed, here or elsewhere.
    pub(crate) fn remember(&mut self, line: &str) {
        // A line that is not remembered is typed again.
        if self.editor.add_history_entry(&*redacted(line)).is_ok_and(|added| added) {
            self.keep();
        }
    }

    fn keep(&mut self) {
        if let Some(path) = &self.kept {
            // A history that cannot be written costs the arrow keys, not the conversation.
            let _ = self.editor.append_history(path);
        }
    }
}
