use std::sync::Arc;

use tokio::task::JoinHandle;
use zk_core::service::Questions;
use zk_tui::plain::{self, Keyboard, Painting, SharedScreen, TerminalUi};
use zk_tui::term::Tty;
use zk_view::ViewDriver;

use crate::opening::setup::ChatSetup;

/// Front end of the terminal: output and input.
pub(crate) struct ConsoleFrontEnd {
    pub(crate) screen: SharedScreen,
    pub(crate) keyboard: Keyboard,
    pub(crate) asking: Arc<Questions>,
    pub(crate) view: ViewDriver,
    /// Whether it prints blocks and questions as lines; otherwise another front end draws them.
    pub(crate) draws_lines: bool,
}

impl ConsoleFrontEnd {
    pub(crate) fn for_lines(setup: &ChatSetup, tty: Tty) -> Self {
        Self::with_screen(setup, tty, SharedScreen::with_keys(setup.plain_screen()), true)
    }

    pub(crate) fn with_screen(setup: &ChatSetup, tty: Tty, screen: SharedScreen, draws_lines: bool) -> Self {
        let asking = Arc::new(Questions::new());
        let view = ViewDriver::answering(&asking);
        Self::for_view(setup, tty, screen, (asking, view), draws_lines)
    }

    /// Creates a front end for an existing view and its questions.
    pub(crate) fn for_view(
        setup: &ChatSetup,
        tty: Tty,
        screen: SharedScreen,
        (asking, view): (Arc<Questions>, ViewDriver),
        draws_lines: bool,
    ) -> Self {
        let limits = setup.limits.clone();
        let keyboard = Keyboard::new(tty, screen.clone(), move || limits.skip_waits());
        Self { screen, keyboard, asking, view, draws_lines }
    }
}

/// Task that is aborted on drop.
pub(crate) struct AbortOnDrop(pub(crate) JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Tasks that draw a conversation as lines.
pub(crate) struct Lines {
    pub(crate) painting: Painting,
    /// Task that draws the questions and reads their answers.
    _attending: AbortOnDrop,
}

impl Lines {
    pub(crate) fn start(
        view: &ViewDriver,
        screen: &SharedScreen,
        ui: &Arc<TerminalUi>,
        attending: AbortOnDrop,
    ) -> Self {
        let painting = Painting::begin(view, screen);
        ui.wait_for(painting.drained());
        Self { painting, _attending: attending }
    }
}

/// Starts the task that draws the questions of a view as lines.
pub(crate) fn start_questions(view: &ViewDriver, ui: &Arc<TerminalUi>) -> AbortOnDrop {
    AbortOnDrop(tokio::spawn(plain::attend(view.clone(), ui.clone())))
}
