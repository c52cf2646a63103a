use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::notices::Notices;
use super::screen::Screen;
use crate::row::Style;

/// The screen of a conversation, as several parts of it write to it.
#[derive(Clone, Debug)]
pub struct SharedScreen {
    screen: Arc<Mutex<Screen>>,
    has_keys: Arc<AtomicBool>,
}

impl SharedScreen {
    /// A screen next to which no keys are read.
    pub fn new(screen: Screen) -> Self {
        Self { screen: Arc::new(Mutex::new(screen)), has_keys: Arc::default() }
    }

    /// A screen next to which keys are read during a run, where the terminal gives them one by one.
    pub fn with_keys(screen: Screen) -> Self {
        let shared = Self::new(screen);
        shared.has_keys.store(shared.lock().is_capable(), Ordering::Relaxed);
        shared
    }

    /// Writes to another screen from now on, beside which keys are read where the terminal gives them one by one.
    pub fn replace(&self, screen: Screen) {
        self.has_keys.store(screen.is_capable(), Ordering::Relaxed);
        *self.lock() = screen;
    }

    /// Shows the notices of this process from now on.
    pub fn take_notices(&self, notices: &Notices) {
        let screen = self.clone();
        notices.route_to(move |text| screen.line(Style::YELLOW, text));
    }

    /// Whether keys stop and stop_waiting a run.
    pub fn has_keys(&self) -> bool {
        self.has_keys.load(Ordering::Relaxed)
    }

    /// Writes a text, line by line. Words of the program are broken at words; a plain text may be code, and stays a line.
    pub fn line(&self, style: Style, text: &str) {
        for line in text.lines() {
            match style {
                Style::DIM | Style::YELLOW | Style::RED => self.lock().prose(style, line),
                _ => self.lock().line(style, line),
            }
        }
    }

    /// Ends the line as [`Screen::end_line`] does.
    pub fn end_line(&self) {
        self.lock().end_line();
    }

    /// The screen, for several writes that nothing comes between.
    pub fn lock(&self) -> MutexGuard<'_, Screen> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
