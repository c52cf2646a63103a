use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::notices::Notices;
use super::screen::Screen;
use crate::row::Style;

/// Screen of a conversation, shared by the parts that write to it.
#[derive(Clone, Debug)]
pub struct SharedScreen {
    screen: Arc<Mutex<Screen>>,
    has_keys: Arc<AtomicBool>,
}

impl SharedScreen {
    /// Wraps a screen without key input.
    pub fn new(screen: Screen) -> Self {
        Self { screen: Arc::new(Mutex::new(screen)), has_keys: Arc::default() }
    }

    /// Wraps a screen with key input during a run, if the terminal supports it.
    pub fn with_keys(screen: Screen) -> Self {
        let shared = Self::new(screen);
        shared.has_keys.store(shared.lock().is_capable(), Ordering::Relaxed);
        shared
    }

    /// Replaces the screen; reads keys during a run if the terminal supports it.
    pub fn replace(&self, screen: Screen) {
        self.has_keys.store(screen.is_capable(), Ordering::Relaxed);
        *self.lock() = screen;
    }

    /// Shows the notices of this process from now on.
    pub fn take_notices(&self, notices: &Notices) {
        let screen = self.clone();
        notices.route_to(move |text| screen.line(Style::YELLOW, text));
    }

    /// Whether keys are read during a run.
    pub fn has_keys(&self) -> bool {
        self.has_keys.load(Ordering::Relaxed)
    }

    /// Writes a text line by line. The program's prose is wrapped at words; plain text may be code and is
    /// not.
    pub fn line(&self, style: Style, text: &str) {
        for line in text.lines() {
            match style {
                Style::DIM | Style::YELLOW | Style::RED => self.lock().prose(style, line),
                _ => self.lock().line(style, line),
            }
        }
    }

    /// Writes a line of prose, like [`Screen::write_wrapped_line`].
    pub fn write_wrapped_line(&self, style: Style, text: &str) {
        self.lock().write_wrapped_line(style, text);
    }

    /// Writes a line that a person typed, like [`Screen::echo`].
    pub fn echo(&self, typed: &str) {
        self.lock().echo(typed);
    }

    /// Ends the line, like [`Screen::end_line`].
    pub fn end_line(&self) {
        self.lock().end_line();
    }

    /// Locks the screen for several consecutive writes.
    pub fn lock(&self) -> MutexGuard<'_, Screen> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
