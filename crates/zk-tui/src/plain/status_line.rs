use super::screen::StatusId;
use super::shared_screen::SharedScreen;
use crate::row::Style;

/// A line that stands until something else is written, on a screen that can erase lines.
/// On one that takes nothing back it is a line like others.
#[derive(Debug)]
pub struct StatusLine {
    screen: SharedScreen,
    id: StatusId,
}

impl StatusLine {
    /// Begins a line of its own with `text`.
    pub(crate) fn show(screen: &SharedScreen, text: &str) -> Self {
        if !screen.lock().erases() {
            screen.line(Style::DIM, text);
        }
        let id = screen.lock().begin_status();
        let line = Self { screen: screen.clone(), id };
        line.update(text);
        line
    }

    /// Begins a line that leaves the cursor where it is.
    pub fn show_below(screen: &SharedScreen, text: &str) -> Self {
        let id = screen.lock().begin_status_below();
        let line = Self { screen: screen.clone(), id };
        line.update(text);
        line
    }

    /// Replaces the text; false once something else was written in its place.
    pub fn update(&self, text: &str) -> bool {
        self.screen.lock().update_status(self.id, text)
    }

    /// Erases the line, unless it is gone.
    pub fn clear(self) {
        self.screen.lock().clear_status(self.id);
    }
}

impl SharedScreen {
    /// Says that a back-off was cut short, until something else is written.
    pub(crate) fn show_retrying_now(&self) {
        StatusLine::show(self, "trying now …");
    }
}
