use super::screen::StatusId;
use super::shared_screen::SharedScreen;
use crate::row::Style;

/// Status line that lasts until the next write, on a screen that can erase; otherwise an ordinary line.
#[derive(Debug)]
pub struct StatusLine {
    screen: SharedScreen,
    id: StatusId,
}

impl StatusLine {
    /// Starts a status line on a line of its own.
    pub(crate) fn show(screen: &SharedScreen, text: &str) -> Self {
        if !screen.lock().erases() {
            screen.line(Style::DIM, text);
        }
        let id = screen.lock().begin_status();
        let line = Self { screen: screen.clone(), id };
        line.update(text);
        line
    }

    /// Starts a status line below the cursor's line.
    pub fn show_below(screen: &SharedScreen, text: &str) -> Self {
        let id = screen.lock().begin_status_below();
        let line = Self { screen: screen.clone(), id };
        line.update(text);
        line
    }

    /// Replaces the text; returns false if another write removed the status line.
    pub fn update(&self, text: &str) -> bool {
        self.screen.lock().update_status(self.id, text)
    }

    /// Erases the line, if it still exists.
    pub fn clear(self) {
        self.screen.lock().clear_status(self.id);
    }
}

impl SharedScreen {
    /// Shows that the wait for a retry was ended.
    pub(crate) fn show_retrying_now(&self) {
        StatusLine::show(self, "trying now …");
    }
}
