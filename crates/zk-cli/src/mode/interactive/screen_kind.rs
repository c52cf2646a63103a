use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::app::AppContext;
use crate::settings::ScreenName;
use crate::term::{Screen, is_accessible};

/// Form in which a conversation is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScreenKind {
    /// Closed rows scroll away with the terminal's own scrolling, the rest is redrawn below them.
    Inline,
    /// All of the terminal, with scrolling of its own.
    Full,
    /// Labelled lines, nothing of which is ever redrawn.
    Plain,
}

impl ScreenKind {
    /// The screen that was asked for, or the inline one; plain lines on a terminal that cannot move its cursor and for
    /// whoever set `ACCESSIBLE`.
    pub(super) fn chosen(app: &AppContext) -> Self {
        let asked = app.settings.program.screen.map(Self::of_name);
        match asked {
            _ if Self::is_plain_only(app) => Self::Plain,
            Some(kind) => kind,
            None if is_accessible(&app.env) => Self::Plain,
            None => Self::Inline,
        }
    }

    fn of_name(name: ScreenName) -> Self {
        match name {
            ScreenName::Inline => Self::Inline,
            ScreenName::Full => Self::Full,
            ScreenName::Plain => Self::Plain,
        }
    }

    /// Whether the terminal cannot erase, so that only the plain screen works on it.
    pub(super) fn is_plain_only(app: &AppContext) -> bool {
        !Screen::new(&app.env).is_capable()
    }
}

impl FromStr for ScreenKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "inline" => Ok(Self::Inline),
            "full" => Ok(Self::Full),
            "plain" => Ok(Self::Plain),
            name => Err(format!("there is no screen `{name}`: it is inline, full or plain")),
        }
    }
}

/// Messages between commands and the host of the screen: how it is drawn now, another one to go on with, or a
/// text for the clipboard.
#[derive(Clone, Debug, Default)]
pub(crate) struct WantedScreen(Arc<Mutex<Wanted>>);

#[derive(Debug, Default)]
struct Wanted {
    kind: Option<ScreenKind>,
    copy: Option<String>,
    is_drawn: bool,
}

impl WantedScreen {
    pub(super) fn set(&self, kind: ScreenKind) {
        self.lock().kind = Some(kind);
    }

    pub(super) fn peek(&self) -> Option<ScreenKind> {
        self.lock().kind
    }

    pub(super) fn take(&self) -> Option<ScreenKind> {
        self.lock().kind.take()
    }

    /// Says whether the conversation is drawn now, or printed in plain lines.
    pub(super) fn set_drawn(&self, is_drawn: bool) {
        self.lock().is_drawn = is_drawn;
    }

    pub(super) fn is_drawn(&self) -> bool {
        self.lock().is_drawn
    }

    pub(super) fn copy(&self, text: String) {
        self.lock().copy = Some(text);
    }

    pub(super) fn take_copy(&self) -> Option<String> {
        self.lock().copy.take()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Wanted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
